"""`bench/restraints`: what a claim costs where something is asked about each recipient before a worker sends: quiet hours,
a frequency cap, badges that count. Campaigns to the same devices in turn, by the statements that workers use, in one
session; nothing is sent."""

import argparse
import os
import re
import statistics
import subprocess

import psycopg2

from .ground import as_program, cpu_of, private_postgres

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUEUE = "acme/com.acme/sandbox"
ZONES = ["Europe/Vienna", "America/New_York", "Asia/Tokyo", "Asia/Kolkata", "Australia/Sydney", "America/Sao_Paulo"]
JOBS = 10  # of a claim, of 500 recipients each
ALERT = '{"aps":{"alert":"x"}}'
RAISING = '{"aps":{"alert":"x","badge":{"increment":1}}}'
QUIET = "insert into pushq.quiet_hours (queue_id, hours) select id, '{}' from pushq.queue"
KINDS = [
    ("a plain campaign", None, ALERT, None),
    ("quiet hours, nobody sleeps", QUIET, ALERT, "holdToQuietHours"),
    ("quiet hours, everybody sleeps", QUIET, ALERT, "holdToQuietHours"),
    ("a frequency cap, nobody is held back", "insert into pushq.frequency_cap (queue_id, pushes) select id, 100 from pushq.queue", ALERT, "holdToCaps"),
    ("badges that count", None, RAISING, "takeBadges"),
]


def statement(name):
    """A statement as a worker prepares it, with parameters as psycopg2 names them."""
    for folder, _, files in os.walk(f"{ROOT}/Sources/PostgresStore/Leasing"):
        for file in files:
            with open(f"{folder}/{file}", encoding="utf-8") as opened:
                source = opened.read()
            found = re.search(rf'static let {name} = Statement\(\s*"\w+",\s*#"""(.*?)"""#', source, re.S)
            if found:
                sql = re.sub(r'\\#\((\w+)\("(\w+)"\)\)', lambda part: condition(source, *part.groups()), found.group(1))
                return re.sub(r"\$([a-z_]+)", r"%(\1)s", sql.replace("%", "%%"))
    raise SystemExit(f"bench/restraints: there is no statement {name}")


def condition(source, name, argument):
    """A part of a statement that a function of the same file returns."""
    found = re.search(rf'static func {name}\(_ (\w+): String\) -> String \{{\s*"""(.*?)"""', source, re.S)
    return found.group(2).replace(f"\\({found.group(1)})", argument)


class Bench:
    def __init__(self, postgres, binaries, devices):
        address = postgres.address("postgres")
        url = f"postgres://pushq@/postgres?host={postgres.folder}"
        subprocess.run([f"{binaries}/pushq-admin", "migrate", "--database-url", url], check=True, capture_output=True)
        self.connection = psycopg2.connect(address)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.run("set plan_cache_mode = force_generic_plan")
        self.run(f"""
            insert into pushq.tenant (name) values ('acme');
            insert into pushq.app (tenant_id, bundle_id) select id, 'com.acme' from pushq.tenant;
            insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'sandbox' from pushq.app;
            insert into pushq.device (queue_id, token)
            select q.id, sha256(int8send(i)) from pushq.queue q, generate_series(1, {devices}) i;
            insert into pushq.profile (queue_id, device_id, time_zone)
            select queue_id, id, (array[{", ".join(f"'{zone}'" for zone in ZONES)}])[1 + id / 1024 % {len(ZONES)}] from pushq.device;
            vacuum analyze pushq.device, pushq.profile""")
        self.pid, self.queue = self.value("select pg_backend_pid()"), self.value("select id from pushq.queue")
        self.devices, self.keys = devices, 0

    def run(self, sql, values=None):
        for part in sql.split(";\n") if values is None else [sql]:
            self.cursor.execute(part, values)

    def value(self, sql, values=None):
        self.cursor.execute(sql, values)
        return self.cursor.fetchone()[0]

    def cpu(self):
        return cpu_of(self.pid)[1]

    def measure(self, setting, payload, asked, hours):
        """Microseconds of the server's process for each recipient: fan-out, claim, and what is asked then."""
        self.keys += 1
        if setting:
            self.run(setting.format(hours))
        campaign = self.value("select pushq.start_campaign(%s, %s, %s)", (QUEUE, f"k{self.keys}", payload))
        began = self.cpu()
        while self.value("select pushq.fan_out_step(%s, 2, %s, 500, 40, 50000)", (self.queue, campaign)) is not None:
            pass
        fanned_out = self.cpu()
        claimed, answered = 0.0, 0.0
        claim, ask = statement("claim"), statement(asked) if asked else None
        quotas = {"queue_ids": [self.queue], "lanes": [2], "quotas": [JOBS], "run_ats": ["1970-01-01"], "job_ids": [0]}
        quotas |= {"worker_id": 1, "lease": "1 hour", "at_most_once_window": 100}
        quotas |= {"translation_rooms": [4 << 20], "translation_room": 4 << 20, "longest_message": 262144}
        while True:
            before = self.cpu()
            self.cursor.execute(claim, quotas)
            names = [column.name for column in self.cursor.description]
            jobs = [dict(zip(names, row)) for row in self.cursor.fetchall()]
            between = self.cpu()
            claimed += between - before
            if not jobs:
                break
            if ask:
                self.cursor.execute(ask, self.parameters(jobs))
                self.cursor.fetchall()
                answered += self.cpu() - between
            self.run("delete from pushq.lease")
        self.run("delete from pushq.quiet_hours;\ndelete from pushq.frequency_cap;\nvacuum pushq.job, pushq.lease, pushq.recent_push, pushq.badge")
        return [seconds / self.devices * 1e6 for seconds in (fanned_out - began, claimed, answered)]

    @staticmethod
    def parameters(jobs):
        ids = [id for job in jobs for id in job["device_ids"]]
        lasts = [500 * (place + 1) for place in range(len(jobs))]
        return {
            "worker_id": 1,
            "queue_ids": [job["queue_id"] for job in jobs],
            "job_ids": [job["job_id"] for job in jobs],
            "epochs": [job["epoch"] for job in jobs],
            "increments": [1 for _ in jobs],
            "firsts": [last - 499 for last in lasts],
            "lasts": lasts,
            "send_withins": [job["send_within"] for job in jobs],
            "device_ids": ids,
            "patience": 20_000,  # microseconds
        }

    def hours(self, includes_all):
        """Quiet hours that it is now in no zone of the devices, or in all of them, and for an hour to come: before or
        outside of the longest time of the day that clocks show nowhere."""
        self.cursor.execute("select distinct extract(epoch from (now() at time zone z)::time)::int / 60 from unnest(%s) z", (ZONES,))
        shown = sorted(row[0] for row in self.cursor.fetchall())
        gap, begins = max(((after - before) % 1440, before) for before, after in zip(shown, shown[1:] + shown[:1]))
        span = (begins + gap - 1, begins + 60) if includes_all else (begins + gap // 2, begins + gap // 2 + 1)
        return "-".join(f"{minute % 1440 // 60:02}:{minute % 60:02}" for minute in span)


def main():
    parser = argparse.ArgumentParser(prog="bench/restraints", description=__doc__)
    parser.add_argument("--devices", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--binaries", required=True, help=argparse.SUPPRESS)
    given = parser.parse_args()
    with private_postgres() as (postgres, _):
        bench = Bench(postgres, given.binaries, given.devices - given.devices % 500)
        times = {kind: [] for kind, *_ in KINDS}
        for _ in range(given.rounds):
            for kind, setting, payload, asked in KINDS:
                times[kind].append(bench.measure(setting, payload, asked, bench.hours("everybody" in kind)))
    print(f"µs of PostgreSQL's CPU for each of {given.devices:,} recipients, median of {given.rounds} rounds:\n")
    print("| | fan-out | claim | asked before sending |\n|---|--:|--:|--:|")
    for kind, rounds in times.items():
        columns = [f"{statistics.median(column):.2f}" for column in zip(*rounds)]
        print(f"| {kind} | {' | '.join(columns[:2])} | {columns[2] if kind != KINDS[0][0] else '–'} |")


if __name__ == "__main__":
    as_program(main)
