"""Sends pushes with aioapns as its one argument (JSON) says, and prints how many came to which result.

    port, ca             where the simulator is
    credential           what the constructor of APNs takes: client_cert, or key, key_id, team_id and topic
    sandbox              which of Apple's environments to take it for
    count, refused       how many pushes to tokens that are good, and tokens that are not
"""

import asyncio
import collections
import json
import ssl
import sys
import uuid

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsDevelopmentClientProtocol, APNsProductionClientProtocol


async def main():
    options = json.loads(sys.argv[1])
    protocol = APNsDevelopmentClientProtocol if options["sandbox"] else APNsProductionClientProtocol
    protocol.APNS_SERVER, protocol.APNS_PORT = "localhost", options["port"]
    results = collections.Counter()

    async def note(request, result):
        results[f"{result.status} {result.description} {result.timestamp}"] += 1

    apns = APNs(
        **options["credential"],
        use_sandbox=options["sandbox"],
        max_connections=1,
        ssl_context=ssl.create_default_context(cafile=options["ca"]),
        err_func=note,
    )

    async def send(token):
        identifier = str(uuid.uuid4())
        request = NotificationRequest(
            device_token=token,
            message={"aps": {"alert": "Grüße", "badge": 1}},
            notification_id=identifier,
            time_to_live=300,
            push_type=PushType.ALERT,
        )
        result = await apns.send_notification(request)
        if result.notification_id != identifier:
            results["another apns-id"] += 1
        if result.is_successful:
            results[result.status] += 1

    # More at one time than streams are allowed would wait for half a second each.
    free = asyncio.Semaphore(500)

    async def send_when_free(token):
        async with free:
            await send(token)

    tokens = [f"{number:064x}" for number in range(options["count"])] + options["refused"]
    # aioapns does not wait for SETTINGS, and a connection with a token starts with one stream.
    await send(tokens[0])
    await asyncio.gather(*(send_when_free(token) for token in tokens[1:]))
    print(json.dumps(results))


asyncio.run(main())
