"""Sends pushes with httpx as its one argument (JSON) says, and prints how many came to which answer.

    port, ca             where the simulator is
    certificate          a client certificate with its key, or nothing
    authorization        the value of that field, or nothing
    count, refused       how many pushes to tokens that are good, and tokens that are not
"""

import asyncio
import collections
import json
import ssl
import sys
import uuid

import httpx


async def main():
    options = json.loads(sys.argv[1])
    answers = collections.Counter()
    context = ssl.create_default_context(cafile=options["ca"])
    if options["certificate"]:
        context.load_cert_chain(options["certificate"])
    fields = {"apns-topic": "com.example.App", "apns-push-type": "alert"}
    if options["authorization"]:
        fields["authorization"] = options["authorization"]
    limits = httpx.Limits(max_connections=1)

    async with httpx.AsyncClient(
        http1=False, http2=True, verify=context, headers=fields, limits=limits, timeout=30
    ) as client:

        async def send(token):
            identifier = str(uuid.uuid4())
            answer = await client.post(
                f"https://localhost:{options['port']}/3/device/{token}",
                headers={"apns-id": identifier},
                content=b'{"aps":{"alert":"x"}}' + b" " * 2000,
            )
            same = "" if answer.headers["apns-id"] == identifier else " another apns-id"
            answers[f"{answer.http_version} {answer.status_code} {answer.text}{same}"] += 1

        tokens = [f"{number:064x}" for number in range(options["count"])] + options["refused"]
        await asyncio.gather(*(send(token) for token in tokens))
    print(json.dumps(answers))


asyncio.run(main())
