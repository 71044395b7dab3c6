"""The measurements: what is done, and which values come of it (figures.py says what these are)."""

import contextlib
import hashlib
import json
import os
import random
import re
import struct
import time

from .figures import cumulative_times, percentile
from .ground import Child, Session, Trouble, run, wait_until

QUEUES = ["acme/com.acme.shop/production", "acme/com.acme.single/production", "acme/com.acme.backlog/production"]
SHOP, SINGLE, BACKLOG = QUEUES
PAYLOAD = '{"aps":{"alert":{"title":"Spring sale","body":"Everything at half price"},"sound":"default"}}'
DEVICES_OF_SINGLES = 10_000
TOKEN = "encode(sha256(int8send(:d)), 'hex')"
# Those of `pushq demo` (Sources/pushq/Demo/DemoMaterial.swift).
RULES = {
    "latency_ms": [5, 40],
    "outcomes": [
        {"share": 0.005, "reason": "BadDeviceToken"},
        {"share": 0.015, "reason": "Unregistered"},
        {"probability": 0.02, "reason": "TooManyRequests"},
        {"probability": 0.005, "reason": "ServiceUnavailable"},
    ],
}


class Size:
    """How much of each there is."""

    def __init__(self, quick, devices=None, backlog=None):
        self.devices = devices or (20_000 if quick else 1_000_000)
        self.some = min(self.devices, 100_000)
        self.singles = 1_600 if quick else 24_000
        self.probes = 30 if quick else 300
        self.requests = 20_000 if quick else 300_000
        self.few = 2_000 if quick else 10_000
        self.backlog = backlog if backlog is not None else (0 if quick else 10_000_000)


class World:
    """A database with queues and a credential, for the executables in one folder."""

    def __init__(self, postgres, binaries, name, folder, size):
        self.postgres, self.binaries, self.size = postgres, binaries, size
        self.folder, self.database = f"{folder}/{name}", name
        os.makedirs(self.folder)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PUSHQ_DATABASE_URL": postgres.address(name),
            "PUSHQ_MASTER_KEY": os.urandom(32).hex(),
            "SWIFT_BACKTRACE": "enable=no",
        }
        run([f"{postgres.binaries}/createdb", "-h", postgres.folder, "-U", "pushq", name])
        self.admin("migrate")
        self.admin("tenant", "create", "acme")
        for queue in QUEUES:
            self.admin("app", "create", "acme", queue.split("/")[1])
            self.admin("queue", "create", queue)
        with self.simulator() as (simulator, ready):
            key = ["--p8", ready["signing_key"], "--team-id", ready["team_id"], "--key-id", ready["key_id"]]
            self.admin("credential", "add", "acme", "simulator", *key)
        self.session = Session(postgres, name)
        self.session.rows(
            f"insert into pushq.device (queue_id, token) select pushq.queue_id('{SINGLE}'), sha256(int8send(d)) "
            f"from generate_series(1, {DEVICES_OF_SINGLES}) d"
        )

    def close(self):
        self.session.close()
        run([f"{self.postgres.binaries}/dropdb", "-f", "-h", self.postgres.folder, "-U", "pushq", self.database])

    def admin(self, *arguments):
        return run([f"{self.binaries}/pushq-admin", *arguments], self.environment)

    @contextlib.contextmanager
    def simulator(self, *arguments):
        command = [f"{self.binaries}/pushq", "simulate", "--json", "--port", "0", "--folder", f"{self.folder}/apns"]
        child = Child([*command, *arguments], self.environment, f"{self.folder}/simulator.log")
        try:
            yield child, child.first_json()
        finally:
            if child.process.poll() is None:
                child.stop()

    @contextlib.contextmanager
    def worker(self, ready):
        command = [f"{self.binaries}/pushq", "work", "--gateway", ready["address"], "--ca", ready["ca"]]
        child = Child(command, self.environment, f"{self.folder}/worker.log")
        try:
            # The first push opens the connection to the simulator.
            self.session.rows(f"select pushq.send('{SINGLE}', '{PAYLOAD}', tokens => array['{'ab' * 32}'])")
            self.wait_for_all()
            yield child
        finally:
            child.stop()

    def wait_for_all(self, seconds=600):
        """Until nothing waits and nothing is held."""
        done = "select not exists (select from pushq.job) and not exists (select from pushq.lease)"
        wait_until(lambda: self.session.value(done) == "t", seconds, "the end of all pushes")

    def pgbench(self, script, clients, count):
        """Runs a script `count` times, shared out among so many sessions. Returns PostgreSQL's CPU for each, in µs."""
        file = f"{self.folder}/script.sql"
        with open(file, "w", encoding="utf-8") as text:
            text.write(script)
        before = self.postgres.cpu()
        run(
            [f"{self.postgres.binaries}/pgbench", "-n", "-M", "prepared", "-f", file, "-c", str(clients), "-j", "1"]
            + ["-t", str(max(1, count // clients)), self.postgres.address(self.database)]
        )
        return (self.postgres.cpu() - before) * 1e6 / (max(1, count // clients) * clients)


# MARK: pushq


def device_files(world):
    """The same devices for an import and for a COPY: two files."""
    source = random.Random(world.database)
    csv, copy = f"{world.folder}/devices.csv", f"{world.folder}/devices.copy"
    with open(csv, "w", encoding="utf-8") as one, open(copy, "w", encoding="utf-8") as other:
        one.write("token\n")
        for _ in range(world.size.devices):
            token = source.randbytes(32).hex()
            one.write(token + "\n")
            other.write(f"1\t\\\\x{token}\n")
    return csv, copy


def import_devices(world):
    """The devices of a CSV file, and a COPY of the same into a bare table with the same keys."""
    count = world.size.devices
    csv, copy = device_files(world)
    world.session.rows("checkpoint")
    before, start = world.postgres.cpu(), time.monotonic()
    client = world.admin("device", "import", SHOP, csv)[1]
    values = {
        "import.seconds": time.monotonic() - start,
        "import.millions": count / 1e6,
        "import.postgres_us": (world.postgres.cpu() - before) * 1e6 / count,
        "import.client_us": client * 1e6 / count,
    }
    world.session.rows(
        "create schema if not exists bare; "
        "create table bare.device (like pushq.device including defaults including constraints including indexes)"
    )
    before = world.postgres.cpu()
    world.session.rows(f"\\copy bare.device (queue_id, token) from '{copy}'\nselect 1")
    values["bare.copy_us"] = (world.postgres.cpu() - before) * 1e6 / count
    world.session.rows("drop table bare.device")
    os.remove(csv)
    os.remove(copy)
    return values


def import_all_columns(world):
    """Some of the devices once more, with all that an export says of a device."""
    count, file = world.size.some, f"{world.folder}/export.csv"
    tokens = world.session.rows(
        f"select encode(token, 'hex') from pushq.device where queue_id = pushq.queue_id('{SHOP}') order by id limit {count}"
    )
    with open(file, "w", encoding="utf-8") as lines:
        lines.write(
            "token,user_key,active,kind,locale,time_zone,app_version,tags,attributes,installation,activity_type,activity,"
            "first_seen_at,seen_at\n"
        )
        for number, (token,) in enumerate(tokens):
            lines.write(
                f'{token},user-{number},true,alert,de-AT,Europe/Vienna,4.12.{number % 10},new|vip,"{{""plan"": ""pro""}}",'
                f"installation-{number},,,2026-01-{number % 28 + 1:02}T09:30:00.{number % 1000000:06}Z,2026-11-21T09:30:00.000000Z\n"
            )
    before = world.postgres.cpu()
    client = world.admin("device", "import", SHOP, file)[1]
    used = world.postgres.cpu() - before
    os.remove(file)
    # The campaign is to devices of which nothing is known but their tokens.
    world.session.rows(
        "delete from pushq.profile; update pushq.device set user_key = null, kind = null where user_key is not null"
    )
    return {"import.all.postgres_us": used * 1e6 / count, "import.all.client_us": client * 1e6 / count}


def campaign(world):
    """A campaign to all devices with the demo's rules, and h2load with the same payload to the same simulator."""
    values = import_devices(world) | import_all_columns(world)
    world.session.rows("vacuum full analyze pushq.device; vacuum analyze pushq.profile")
    rules = f"{world.folder}/rules.json"
    with open(rules, "w", encoding="utf-8") as file:
        json.dump(RULES, file)
    with world.simulator("--rules", rules) as (simulator, ready):
        with world.worker(ready) as worker:
            values |= send_campaign(world, simulator, worker)
    # Another process with the same rules: one key's second token within twenty minutes is refused.
    with world.simulator("--rules", rules) as (simulator, ready):
        values |= h2load(world, ready)
    return values


def send_campaign(world, simulator, worker):
    count, ask = world.size.devices, world.session
    ask.rows("checkpoint")
    parts = (world.postgres.cpu, worker.cpu, simulator.cpu)
    before = [part() for part in parts]
    start = float(ask.value("select extract(epoch from clock_timestamp())"))
    root = ask.value(f"select pushq.start_campaign('{SHOP}', 'bench', '{PAYLOAD}')")
    finished = f"select finished from pushq.campaign_progress where campaign_id = {root}"
    wait_until(lambda: ask.value(finished) == "t", 900, "the end of the campaign", pause=0.1)
    postgres, work, simulation = (part() - earlier for part, earlier in zip(parts, before))
    total, retried = map(
        int, ask.rows(f"select total, retried from pushq.campaign_progress where campaign_id = {root}")[0]
    )
    if total != count:
        raise Trouble(f"the campaign had {total} recipients and not {count}")
    ends = [
        (float(at) - start, int(ended))
        for at, ended in ask.rows(
            "select extract(epoch from ended_at), "
            "sum(delivered + rejected + failed + suppressed + expired + cancelled + unknown) "
            f"from pushq.result where queue_id = pushq.queue_id('{SHOP}') and root_id = {root} group by ended_at"
        )
    ]
    times = cumulative_times(ends, (0.5, 0.99, 0.999, 1), count)
    return {
        "campaign.seconds_50": times[0.5],
        "campaign.seconds_99": times[0.99],
        "campaign.seconds_999": times[0.999],
        "campaign.seconds_100": times[1],
        "campaign.postgres_us": postgres * 1e6 / count,
        "campaign.worker_us": work * 1e6 / (count + retried),
        "campaign.simulator_us": simulation * 1e6 / (count + retried),
        "campaign.worker_mb": worker.peak(),
        "campaign.backend_mb": world.postgres.largest_session(),
    }


def h2load(world, ready):
    """Its CPU for a request is the smaller of two runs: with few and with many streams of a connection."""
    token = json.loads(
        run(
            [f"{world.binaries}/pushq", "simulate", "--json", "--print-token", "--folder", f"{world.folder}/apns"],
            world.environment,
        )[0]
    )["token"]
    file = f"{world.folder}/payload.json"
    with open(file, "w", encoding="utf-8") as payload:
        payload.write(PAYLOAD)
    headers = [f"authorization: bearer {token}", "apns-topic: com.acme.shop", "apns-push-type: alert"]
    found = []
    for streams in (250, 1000):
        start = time.monotonic()
        output, used = run(
            ["h2load", "-n", str(world.size.requests), "-c", "4", "-m", str(streams), "-d", file]
            + [part for header in headers for part in ("-H", header)]
            + [f"https://{ready['address']}/3/device/{'ab' * 32}"]
        )
        served = int(re.search(r"status codes: (\d+) 2xx", output).group(1))
        if served < 0.9 * world.size.requests:
            raise Trouble(f"h2load had {served} of {world.size.requests} requests served:\n{output[-600:]}")
        found.append((used * 1e6 / world.size.requests, world.size.requests / (time.monotonic() - start)))
    return {"wire.h2load_us": min(found)[0], "wire.h2load_per_second": min(found)[1]}


def singles(world):
    """Single pushes by sessions, from end to end; and the same calls without a worker."""
    size, ask = world.size, world.session
    push = f"\\set d random(1, {DEVICES_OF_SINGLES})\nselect pushq.send('{SINGLE}', '{PAYLOAD}', tokens => array[{TOKEN}]);\n"
    values = {}
    with world.simulator("--latency", "5ms") as (_, ready):
        with world.worker(ready):
            for sessions in (1, 8, 32):
                before, start = world.postgres.cpu(), time.monotonic()
                count = max(sessions, size.singles // (3 if sessions == 1 else 1)) // sessions * sessions
                world.pgbench(push, sessions, count)
                world.wait_for_all()
                values[f"singles.{sessions}.per_second"] = count / (time.monotonic() - start)
                values[f"singles.{sessions}.postgres_us"] = (world.postgres.cpu() - before) * 1e6 / count
            calls = max(2, size.singles // 1000)
            before = world.postgres.cpu()
            world.pgbench(
                f"select pushq.send_many('{SINGLE}', array_agg('{PAYLOAD}'::text), "
                "tokens => array_agg(encode(sha256(int8send(d)), 'hex'))) from generate_series(1, 1000) d;\n",
                1, calls,
            )
            world.wait_for_all()
            values["bulk.postgres_us"] = (world.postgres.cpu() - before) * 1e6 / (calls * 1000)
    values["enqueue.postgres_us"] = world.pgbench(push, 8, size.singles)
    ask.rows("truncate pushq.job")
    register = (
        f"select pushq.register_device('{SINGLE}', {TOKEN}, 'user', 'alert', 'de-AT', 'Europe/Vienna', '1.2.3', "
        "array['a', 'b'], '{\"n\": 1}', 'installation-' || :d)"
    )
    ask.rows(register.replace(":d", "d") + " from generate_series(1, 1000) d")
    values["register.postgres_us"] = world.pgbench(f"\\set d random(1, 1000)\n{register};\n", 8, size.singles)
    return values


def latency(world):
    """One push at a time, from its commit by the server's clock to its arrival by the simulator's."""
    record = f"{world.folder}/record.ndjson"
    count, loaded = world.size.probes, world.size.devices > 100_000
    if loaded:
        world.session.rows(
            f"insert into pushq.device (queue_id, token) select pushq.queue_id('{SHOP}'), sha256(int8send(d)) "
            f"from generate_series(1, {world.size.devices}) d; vacuum analyze pushq.device; checkpoint"
        )
    commits = {}
    with world.simulator("--latency", "20ms", "--record", record) as (simulator, ready):
        with world.worker(ready):
            time.sleep(1)
            # Long enough for an idle worker to fall asleep between two, shorter while a campaign has to last.
            commits["idle"] = probe(world, range(1, count + 1), pause=0.06, urgent=False)
            if loaded:
                world.session.rows(f"select pushq.start_campaign('{SHOP}', 'beside', '{PAYLOAD}')")
                time.sleep(1)
                beside = probe(world, range(count + 1, 2 * count // 3 + count + 1), pause=0.005, urgent=True)
                running = "select exists (select from pushq.campaign_progress where not finished)"
                if world.session.value(running) == "t":  # or it was over too soon to have been beside them
                    commits["beside"] = beside
            world.wait_for_all()
        simulator.stop()
    arrived, values = arrivals(record, "com.acme.single"), {}
    for name, committed in commits.items():
        taken = [(arrived[token] - commit) / 1000 for token, commit in committed.items()]
        values[f"latency.{name}_p50"] = percentile(0.5, taken)
        values[f"latency.{name}_p99"] = percentile(0.99, taken)
    os.remove(record)
    return values


def probe(world, devices, pause, urgent):
    """Sends a push to each of these devices. Returns when they were committed, in µs since 1970, by what the record says
    of their tokens."""
    roots = {}
    for number in devices:
        token = hashlib.sha256(struct.pack(">q", number)).hexdigest()
        send = f"select pushq.send('{SINGLE}', '{PAYLOAD}', tokens => array['{token}'], urgent => {str(urgent).lower()})"
        roots[world.session.value(send)] = token[:8]
        time.sleep(pause)
    rows = world.session.rows(
        "select root_id, (extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000000)::bigint from pushq.body "
        f"where queue_id = pushq.queue_id('{SINGLE}') and root_id in ({', '.join(roots)})"
    )
    return {roots[root]: int(commit) for root, commit in rows}


def arrivals(record, topic):
    """When pushes of this topic first arrived, in µs since 1970, by the beginning of their tokens."""
    found = {}
    with open(record, encoding="utf-8") as lines:
        for line in lines:
            if topic in line and '"arrived"' in line:
                event = json.loads(line)
                found.setdefault(event["token"][:8], event["at"])
    return found


def claim(world):
    """What a push costs PostgreSQL out of few and out of many that wait."""
    values = {"claim.few_us": drain_some(world, world.size.few)}
    if world.size.backlog:
        values["claim.many_us"] = drain_some(world, world.size.backlog)
    return values


def drain_some(world, count):
    """Has `count` pushes wait for one queue, and lets a worker send the first of them."""
    ask = world.session
    ask.rows(
        f"insert into pushq.device (queue_id, token) select pushq.queue_id('{BACKLOG}'), sha256(int8send(1)) "
        "on conflict do nothing"
    )
    ask.rows(f"select pushq.send('{BACKLOG}', '{PAYLOAD}', tokens => array[encode(sha256(int8send(1)), 'hex')])")
    ask.rows(
        "create schema if not exists bare; drop table if exists bare.one_job, bare.one_body, bare.new; "
        "create table bare.one_job as select * from pushq.job; "
        "create table bare.one_body as select b.* from pushq.body b join pushq.job j on j.id = b.job_id; "
        f"create unlogged table bare.new as select nextval('pushq.id') as id from generate_series(2, {count})"
    )
    for table, names in (("body", {"job_id": "i.id"}), ("job", {"id": "i.id"})):
        columns = [row[0] for row in ask.rows(columns_of(f"pushq.{table}"))]
        taken = ", ".join(names.get(column, f"o.{column}") for column in columns)
        ask.rows(f"insert into pushq.{table} ({', '.join(columns)}) select {taken} from bare.one_{table} o, bare.new i")
    ask.rows("drop table bare.new; vacuum analyze; checkpoint")
    delivered = f"select count(*) from pushq.result where queue_id = pushq.queue_id('{BACKLOG}')"
    begun = int(ask.value(delivered))
    some = min(count, world.size.few)
    with world.simulator("--latency", "5ms") as (_, ready):
        before = world.postgres.cpu()
        command = [f"{world.binaries}/pushq", "work", "--gateway", ready["address"], "--ca", ready["ca"]]
        worker = Child(command, world.environment, f"{world.folder}/worker.log")
        wait_until(lambda: int(ask.value(delivered)) - begun >= some, 300, "pushes of a backlog", pause=0.1)
        used, sent = world.postgres.cpu() - before, int(ask.value(delivered)) - begun
        worker.stop()
    ask.rows("truncate pushq.job, pushq.lease")
    return used * 1e6 / sent


def columns_of(table):
    return f"select attname from pg_attribute where attrelid = '{table}'::regclass and attnum > 0 and not attisdropped order by attnum"


# MARK: What is bare


def bare(world):
    """The barest things in PostgreSQL that do the same: rows in, rows out, rows recorded."""
    size, ask = world.size, world.session
    ask.rows(
        "create schema if not exists bare; "
        "create table bare.queue (id bigserial primary key, token bytea, payload json, run_at timestamptz default now()); "
        "create table bare.done (id bigint primary key, outcome smallint); "
        "create table bare.queue500 (id bigserial primary key, devices bigint[], message bigint); "
        "create table bare.done500 (id bigint primary key, outcomes bytea); "
        "alter table bare.queue500 alter devices set storage external"
    )
    rows, values = 20_000 if size.devices <= 100_000 else 200_000, {}
    start = time.monotonic()
    ask.rows(f"insert into bare.queue (token, payload) select sha256(int8send(d)), '{PAYLOAD}' from generate_series(1, {rows}) d")
    values["bare.rows_per_second"] = rows / (time.monotonic() - start)
    ask.rows("truncate bare.queue; vacuum bare.queue")
    values["bare.row_us"] = world.pgbench(
        f"insert into bare.queue (token, payload) values (sha256(int8send(1)), '{PAYLOAD}');\n"
        "with taken as (delete from bare.queue where id = (select id from bare.queue order by id limit 1 for update "
        "skip locked) returning id)\ninsert into bare.done select id, 1 from taken;\n",
        8, size.singles,
    )
    values["bare.row500_us"] = (
        world.pgbench(
            "insert into bare.queue500 (devices, message) select array_agg(d), 1 from generate_series(1, 500) d;\n"
            "with taken as (delete from bare.queue500 where id = (select id from bare.queue500 order by id limit 1 for "
            "update skip locked) returning *)\n"
            "insert into bare.done500 select id, decode(repeat('01', cardinality(devices)), 'hex') from taken;\n",
            2, max(100, size.devices // 500),
        )
        / 500
    )
    return values | same_rows(world)


def same_rows(world):
    """Adding the rows that a single push adds, to tables with the same keys."""
    ask = world.session
    ask.rows(f"truncate pushq.job; select pushq.send('{SINGLE}', '{PAYLOAD}', tokens => array['{'cd' * 32}'])")
    ids = {
        "message": {"id": "i.m", "root_id": "i.r"},
        "body": {"job_id": "i.n", "root_id": "i.r"},
        "job": {"id": "i.n", "message_id": "i.m", "root_id": "i.r"},
    }
    of_job = {"message": "t.id = j.message_id", "body": "t.job_id = j.id", "job": "t.id = j.id"}
    steps = []
    for table, names in ids.items():
        columns = [row[0] for row in ask.rows(columns_of(f"pushq.{table}"))]
        ask.rows(
            f"create table bare.one_{table} as select t.* from pushq.{table} t join pushq.job j on {of_job[table]}; "
            f"create table bare.{table} (like pushq.{table} including constraints including indexes including storage); "
            f"analyze bare.one_{table}"
        )
        taken = ", ".join(names.get(column, f"o.{column}") for column in columns)
        steps.append(f"insert into bare.{table} ({', '.join(columns)}) select {taken} from bare.one_{table} o, i")
    number = "nextval('pushq.id')"

    def script(count):
        drawn = f"select {number} n, {number} m, {number} r from generate_series(1, {count})"
        return f"with i as materialized ({drawn}), a as ({steps[0]}), b as ({steps[1]}) {steps[2]};\n"

    values = {"bare.same_us": world.pgbench(script(1), 8, world.size.singles)}
    calls = max(2, world.size.singles // 1000)
    values["bare.same_bulk_us"] = world.pgbench(script(1000), 1, calls) / 1000
    ask.rows("truncate pushq.job; drop schema bare cascade")
    return values


MEASUREMENTS = {"campaign": campaign, "latency": latency, "singles": singles, "claim": claim}
