"""`bench/calls`: what calls of producers cost PostgreSQL, by the functions of this tree and by those of another commit. Each
call is a transaction of its own, as producers make them; `bulk` is 1,000 messages in a call. CPU of the whole server."""

import argparse
import glob
import io
import os
import subprocess
import tarfile

from .figures import spread
from .ground import Session, Trouble, as_program, private_postgres, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUEUE = "acme/com.acme.shop/production"
PAYLOAD = '{"aps":{"alert":{"title":"Spring sale","body":"Everything at half price"},"sound":"default"}}'
TOKEN = "encode(sha256(int8send(%s)), 'hex')"
REGISTER = (
    f"select pushq.register_device('{QUEUE}', {TOKEN}, 'user', 'alert', 'de-AT', 'Europe/Vienna', '1.2.3', array['a', 'b'], "
    "'{\"n\": 1}', 'installation-' || %s)"
)
MANY = f"select cardinality(pushq.send_many('{QUEUE}', array_agg(%s), tokens => array_agg({TOKEN % 'd'}))) from generate_series(1, 1000) d"
# Name -> statement, and how many messages or devices it is about.
CALLS = {
    "nothing": ("select :d", 1),
    "register": (REGISTER % (":d", ":d"), 1),
    "send": (f"select pushq.send('{QUEUE}', '{PAYLOAD}', tokens => array[{TOKEN % ':d'}])", 1),
    "bulk": (MANY % f"replace('{PAYLOAD}', 'half', d::text)", 1000),
    "bulk-same": (MANY % f"'{PAYLOAD}'::text", 1000),
}
SEED = f"""
    insert into pushq.tenant (name) values ('acme'), ('other');
    insert into pushq.app (tenant_id, bundle_id) select id, 'com.acme.shop' from pushq.tenant;
    insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'production' from pushq.app;
    insert into pushq.device (queue_id, token) select pushq.queue_id('{QUEUE}'), sha256(int8send(d)) from generate_series(1, 10000) d;
    {REGISTER % ('d', 'd')} from generate_series(1, 1000) d;
    vacuum analyze"""


def files(folder):
    """As `migrate` applies them: tables, then functions, then views."""
    names = [name for part in ("0*", "functions/*", "views/*") for name in sorted(glob.glob(f"{folder}/{part}.sql"))]
    return ["set check_function_bodies = off", *(open(name, encoding="utf-8").read().rstrip().rstrip(";") for name in names)]


def extract(reference, folder):
    """The migrations of a commit."""
    done = subprocess.run(["git", "-C", ROOT, "archive", reference, "migrations"], capture_output=True, check=False)
    if done.returncode != 0:
        raise Trouble(f"git has no {reference} with migrations: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder)
    return f"{folder}/migrations"


def make_database(postgres, name, migrations):
    run([f"{postgres.binaries}/createdb", "-h", postgres.folder, "-U", "pushq", name])
    session = Session(postgres, name)
    session.rows("create schema pushq; set client_min_messages = warning")
    for text in [*files(migrations), SEED]:
        session.rows(text)
    session.close()


def measure(postgres, database, call, sessions):
    """Microseconds of PostgreSQL's CPU for each message or device."""
    statement, size = CALLS[call]
    devices = 1000 if call == "register" else 10_000
    clients, count = (sessions, 1500) if size == 1 else (1, 25)
    script = f"{postgres.folder}/call.sql"
    with open(script, "w", encoding="utf-8") as file:
        file.write(f"\\set d random(1, {devices})\n{statement};\n")
    before = postgres.cpu()
    run([f"{postgres.binaries}/pgbench", "-n", "-M", "prepared", "-f", script, "-c", str(clients), "-j", "1", "-t", str(count),
         postgres.address(database)])
    used = postgres.cpu() - before
    run([f"{postgres.binaries}/psql", "-qXd", postgres.address(database), "-c", "truncate pushq.job, pushq.body, pushq.message"])
    return used * 1e6 / (clients * count * size)


def main():
    parser = argparse.ArgumentParser(prog="bench/calls", description=__doc__)
    parser.add_argument("reference", help="the commit to compare with")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {', '.join(CALLS)}, with commas between")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=8)
    given = parser.parse_args()
    calls = given.only.split(",") if given.only else list(CALLS)
    unknown = [call for call in calls if call not in CALLS]
    if unknown:
        parser.error(f"there is no call {unknown[0]}; there are {', '.join(CALLS)}")
    with private_postgres() as (postgres, folder):
        sides = {"before": extract(given.reference, folder), "now": f"{ROOT}/migrations"}
        for side, migrations in sides.items():
            make_database(postgres, side, migrations)
        found = {(call, side): [] for call in calls for side in sides}
        for number in range(given.rounds):
            for call in calls:
                for side in list(sides) if number % 2 == 0 else reversed(list(sides)):
                    found[call, side].append(measure(postgres, side, call, given.sessions))
    print(f"µs of PostgreSQL's CPU, each in a transaction of its own: medians of {given.rounds} rounds, and between what they lie\n")
    print(f"| call | {given.reference} | here |\n|---|---|---|")
    for call in calls:
        print(f"| {call} | {spread(found[call, 'before'])} | {spread(found[call, 'now'])} |")


if __name__ == "__main__":
    as_program(main)
