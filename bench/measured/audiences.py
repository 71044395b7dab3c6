"""`bench/audiences`: campaigns by filter. How long the estimate takes, and what fan-out costs PostgreSQL for each device
and each recipient, by the statements that workers use. Then a campaign by filter is sent to a tenth of the devices and to
all of them: the memory of its client, of a worker and of PostgreSQL's sessions at their peaks."""

import argparse
import os
import statistics
import subprocess
import threading
import time

from .ground import Trouble, as_program, cpu_of, private_postgres
from .rounds import SHOP, Size, World

FILTERS = [
    None,
    "locale is not missing",
    "app_version >= 2.0",
    "locale = 'de'",
    "locale = 'de' and tag 'vip'",
    "locale = 'de' and tag 'vip' and attribute plan in ('pro', 'team') and seen within 30 days",
]
ALERT = '{"aps":{"alert":"x"}}'
# Half of the devices are German, half are VIPs, a quarter has each version and each plan, and most were seen lately.
PROFILES = """
    insert into pushq.device (queue_id, token)
    select {queue}, sha256(int8send(i)) from generate_series({first}, {last}) i;
    insert into pushq.profile (queue_id, device_id, locale, app_version, tags, attributes, seen_at)
    select d.queue_id, d.id, (array['de', 'en-GB'])[1 + n % 2], 1 + n / 2 % 4 || '.0',
           case when n / 8 % 2 = 0 then '{{vip}}'::text[] else '{{}}' end,
           jsonb_build_object('plan', (array['free', 'pro', 'team', 'trial'])[1 + n / 16 % 4], 'name', 'Name ' || n),
           now() - n % 34 * interval '1 day'
    from pushq.device d
    -- Identifiers count in steps of 1024.
    cross join lateral (select d.id / 1024 as n) c
    where d.queue_id = {queue} and d.id > {after};
    vacuum analyze pushq.device, pushq.profile
"""


class Filters:
    """A session that does what a preview and a worker's fan-out do."""

    def __init__(self, world):
        self.world, self.session, self.keys = world, world.session, 0
        self.queue = self.session.value(f"select pushq.queue_id('{SHOP}')")
        self.session.rows("set plan_cache_mode = force_generic_plan")
        self.pid = self.session.value("select pg_backend_pid()")

    def add_devices(self, first, last):
        after = self.session.value("select coalesce(max(id), 0) from pushq.device")
        for part in PROFILES.format(queue=self.queue, first=first, last=last, after=after).split(";\n"):
            self.session.rows(part)

    def estimate(self, argument):
        """Seconds of a preview, and the recipients that it counts."""
        start = time.monotonic()
        count = self.session.value(f"select recipients from pushq.preview_campaign('{SHOP}', 'preview'{argument})")
        return time.monotonic() - start, int(count)

    def fan_out(self, argument):
        """CPU seconds of a fan-out to its end, and the seconds of its longest step."""
        self.keys += 1
        campaign = self.session.value(f"select pushq.start_campaign('{SHOP}', 'k{self.keys}', '{ALERT}'{argument})")
        before, longest = cpu_of(self.pid)[1], 0.0
        step = f"select coalesce(pushq.fan_out_step({self.queue}, 2, {campaign}, 500, 40, 50000), -1)"
        done = f"select done from pushq.fan_out where campaign_id = {campaign}"
        while True:
            start = time.monotonic()
            self.session.value(step)
            longest = max(longest, time.monotonic() - start)
            if self.session.value(done) == "t":
                break
        used = cpu_of(self.pid)[1] - before
        self.session.rows("delete from pushq.job; vacuum pushq.job")
        return used, longest


class Peaks:
    """The most memory that PostgreSQL's sessions have had for themselves, looked at all the time."""

    def __init__(self, postgres):
        self.postgres, self.megabytes, self.ends = postgres, 0.0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.ends.wait(0.1):
            self.megabytes = max(self.megabytes, self.postgres.largest_session())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def send(world, devices):
    """Megabytes of a campaign's client, of a worker of its own and of the largest session, at their peaks."""
    payload = f"{world.folder}/payload.json"
    with open(payload, "w", encoding="utf-8") as file:
        file.write(ALERT)
    command = [f"{world.binaries}/pushq", "campaign", SHOP, "--key", f"sent to {devices}", "--payload", payload]
    with world.simulator() as (_, ready), world.worker(ready) as worker, Peaks(world.postgres) as peaks:
        client = subprocess.Popen([*command, "--filter", FILTERS[3], "--wait"], env=world.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(client.pid, 0)
        if status != 0:
            raise Trouble(f"the campaign to {devices} devices ended with {status}")
        return usage.ru_maxrss / 1024, worker.peak(), peaks.megabytes


def main():
    parser = argparse.ArgumentParser(prog="bench/audiences", description=__doc__)
    parser.add_argument("--devices", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--binaries", required=True, help=argparse.SUPPRESS)
    given = parser.parse_args()
    with private_postgres() as (postgres, folder):
        world = World(postgres, given.binaries, "bench", folder, Size(quick=True))
        filters, memory = Filters(world), []
        for first, last in [(1, given.devices // 10), (given.devices // 10 + 1, given.devices)]:
            filters.add_devices(first, last)
            memory.append((last, *send(world, last)))
        rows = []
        for text in FILTERS:
            argument = "" if text is None else f", filter => $f${text}$f$"
            estimates = [filters.estimate(argument) for _ in range(given.rounds)]
            used, longest = zip(*[filters.fan_out(argument) for _ in range(given.rounds)])
            rows.append((f"`{text}`" if text else "none", estimates[0][1], [e[0] for e in estimates], statistics.median(used), max(longest)))
    print(f"Filters over {given.devices:,} devices with profiles, medians of {given.rounds} rounds:\n")
    print("| filter | recipients | estimate | PostgreSQL's CPU for each device | for each recipient | longest step |")
    print("|---|--:|--:|--:|--:|--:|")
    for text, recipients, estimates, used, longest in rows:
        each = [used * 1e6 / count for count in (given.devices, recipients)]
        print(f"| {text} | {recipients:,} | {statistics.median(estimates):.2f} s | {each[0]:.1f} µs | {each[1]:.1f} µs | {longest * 1000:.0f} ms |")
    print("\nMemory at the peak of a campaign to half of the devices:\n")
    print("| devices | client | worker | largest session of PostgreSQL |\n|--:|--:|--:|--:|")
    for devices, *megabytes in memory:
        print(f"| {devices:,} | {' | '.join(f'{value:.0f} MB' for value in megabytes)} |")


if __name__ == "__main__":
    as_program(main)
