"""What the books say at the end of an episode: views and commands as a user reads them, tables where there is
nothing else."""

import collections
import csv
import dataclasses
import io

from .scenario import Send

ENDINGS = ["delivered", "rejected", "failed", "suppressed", "expired", "cancelled", "unknown"]
KINDS = [*ENDINGS, "retried"]

# Why a recipient was left out of a personal message.
LACKS = "LacksAttribute"

# Why a recipient was held back by a frequency cap.
CAPPED = "FrequencyCap"

# Why a recipient goes on in another job, or is not sent to at all: it has quiet hours.
QUIET = "QuietHours"

# What a byte of an outcome means (ARCHITECTURE.md: a recipient's outcome is one byte). Reasons by their numbers, which
# are stored and so never change; those that the recording APNs answers with, and pushq's own.
ENDS = {0: "waiting", 1: "delivered", 2: "suppressed", 3: "expired", 4: "cancelled", 5: "unknown"}
# Not sent because of what its personal text would be, because its device has had enough, or has quiet hours for too long.
SUPPRESSED = {6: LACKS, 7: "TooLong", 8: CAPPED, 9: QUIET}
FAMILIES = {64: "rejected", 128: "failed", 192: "retried"}
REASONS = {
    0: "Other",
    2: "BadDeviceToken",
    7: "DeviceTokenNotForTopic",
    25: "ExpiredToken",
    26: "Unregistered",
    29: "TooManyRequests",
    30: "InternalServerError",
    31: "ServiceUnavailable",
    33: "OtherTransient",
    35: "NoAnswer",
    36: "Quarantined",
    37: "GivenBack",
    42: "ChannelNotRegistered",
    48: QUIET,
}

# How many sends are looked up with `pushq.trace`.
TRACED = 20

# Reasons for which a device is deactivated later, if at all.
SUSPECT = {"BadDeviceToken", "DeviceTokenNotForTopic"}

# How commands show why recipients were held back.
SHOWN = {LACKS: "lacks_attribute", CAPPED: "frequency_cap", QUIET: "quiet_hours"}


def read_outcome(byte):
    """Kind and reason of an outcome byte; the reason is empty where there is none."""
    if byte in SUPPRESSED:
        return "suppressed", SUPPRESSED[byte]
    if byte < 64:
        return ENDS.get(byte, f"byte {byte}"), ""
    family, reason = FAMILIES[byte & 0xC0], REASONS.get(byte & 0x3F, f"reason {byte & 0x3F}")
    # Who waits for a place under a cap or the end of quiet hours, or was given back, was not refused, and is not counted.
    return "postponed" if family == "retried" and reason in ("GivenBack", QUIET) else family, reason


@dataclasses.dataclass
class Entry:
    """What one job says of one recipient."""

    kind: str
    reason: str
    ended_at: float
    job: int
    note: str = None
    sent_again: bool = False  # a failure that somebody had sent again
    run_at: float = None  # of a job that still waits


@dataclasses.dataclass
class DeviceRow:
    active: bool
    reason: str  # why it is inactive, if APNs said so
    user: str
    number: int = None


@dataclasses.dataclass
class FeedbackRow:
    queue: str
    token: str
    reason: str
    reported_at: float
    recorded_at: float
    verdict: str
    root: int = None  # of the push that was answered so
    cursor: int = None  # under which it is listed
    listed_at: float = None  # when it could be read; None: not yet

    def is_late(self, end):
        """Whether nobody could read it until then: workers call a suspect token bad some time after its answer, and nothing
        waits for that."""
        return self.reason in SUSPECT and (self.listed_at is None or self.listed_at > end)


@dataclasses.dataclass
class TraceRow:
    """What `pushq.trace` says of a send to one device."""

    root: int
    token_start: str  # eight digits and an ellipsis; None for what is said of no device
    identifier: str
    traceparent: str


@dataclasses.dataclass
class LapsedLease:
    """A lease that was taken from a holder that was gone, and whom it left without an outcome."""

    deadline: float
    targets: set  # of (root, token or channel)


@dataclasses.dataclass
class Exit:
    """How a worker ended, and what it said."""

    door: str
    code: int
    expected: int
    log: str


@dataclasses.dataclass
class Books:
    entries: dict  # (root, token or channel) -> [Entry], the earliest first
    tallies: list  # of jobs: (job, counts by kind as written, counts by kind of the bytes)
    campaigns: dict  # (queue, key) -> row of the view campaign_progress
    shown: dict  # (queue, key) -> what `pushq-admin campaign show --json` says
    stats: dict  # queue -> what `pushq-admin stats --json` says
    devices: dict  # (queue, token) -> DeviceRow
    retired: dict  # (queue, channel) -> whether nothing is sent to it any more
    exported: dict  # queue -> tokens of active devices by `pushq-admin device export`
    feedback: list
    listed: dict  # queue -> how often `pushq-admin feedback list --json` has each reason and verdict
    lapsed: list
    paused: dict  # queue -> reason
    exits: list
    secrets: list  # texts that no log may hold
    traced: dict = dataclasses.field(default_factory=dict)  # root -> rows of `pushq.trace`, of some sends


TRIGGER = """
create table public.oracle_lapsed (like pushq.lease);
create function public.oracle_keep_lapsed() returns trigger language plpgsql security definer as $$
begin
  insert into public.oracle_lapsed select old.*;
  return null;
end $$;
create trigger oracle_keep_lapsed after delete on pushq.lease
  for each row when (old.deadline < now() - interval '1.9 s') execute function public.oracle_keep_lapsed();
"""

QUEUES = """
select q.id, t.name || '/' || a.bundle_id || '/' || q.environment
from pushq.queue q
join pushq.app a on a.tenant_id = q.tenant_id and a.id = q.app_id
join pushq.tenant t on t.id = q.tenant_id
"""


def read_books(stack, episode, history):
    """Reads everything."""
    names = dict(stack.query(QUEUES))
    targets, devices = {}, {}
    rows = stack.query("select queue_id, id, token, active, inactive_reason, user_key from pushq.device")
    for queue, id, token, active, reason, user in rows:
        targets[id] = bytes(token).hex()
        why = None if reason is None else REASONS.get(reason, f"reason {reason}")
        devices[names[queue], targets[id]] = DeviceRow(active, why, user, id)
    targets.update(stack.query("select id, channel from pushq.channel"))
    entries, tallies = read_entries(stack, targets)
    campaigns, shown = read_campaigns(stack, names)
    return Books(
        entries=entries,
        tallies=tallies,
        campaigns=campaigns,
        shown=shown,
        stats={row["queue"]: row for row in stack.admin_json("stats", "--exact")},
        devices=devices,
        retired={
            (names[q], c): retired
            for q, c, retired in stack.query("select queue_id, channel, retired_at is not null from pushq.channel")
        },
        exported={queue.name: read_export(stack, queue.name) for queue in episode.queues},
        feedback=read_feedback(stack, names, targets),
        listed={queue.name: read_feedback_list(stack, queue.name) for queue in episode.queues},
        lapsed=read_lapsed(stack, targets),
        paused={
            names[q]: why
            for q, why in stack.query("select id, paused_reason from pushq.queue where paused_at is not null")
        },
        exits=[Exit(w.door, w.process.returncode, w.expected_exit, w.text()) for w in stack.workers],
        secrets=read_secrets(stack, targets),
        traced=read_traces(stack, history),
    )


def read_traces(stack, history):
    """Of the last sends of an episode; all of them would take long."""
    sends = [e for e in history.events if isinstance(e.operation, Send) and e.root is not None and e.committed]
    traced = {}
    for event in sends[-TRACED:]:
        rows = stack.query(
            "select root_id, token_start, apns_id::text, traceparent from pushq.trace(%s, send => %s) where root_id is not null",
            (event.operation.queue, event.root),
        )
        traced[event.root] = [TraceRow(*row) for row in rows]
    return traced


def read_entries(stack, targets):
    entries, tallies = collections.defaultdict(list), []
    rows = stack.query(f"""
        select r.root_id, r.job_id, extract(epoch from r.ended_at)::float8, r.outcomes, r.notes, r.retried_at is not
        null,
               b.device_ids, {', '.join('r.' + kind for kind in KINDS)}
        from pushq.result r
        left join pushq.body b on b.day = r.body_day and b.queue_id = r.queue_id and b.job_id = r.job_id
        order by r.ended_at, r.job_id
        """)
    for root, job, ended_at, outcomes, notes, sent_again, ids, *counts in rows:
        outcomes, notes = bytes(outcomes), notes or {}
        counted = collections.Counter()
        for ordinal, (id, byte) in enumerate(zip(ids, outcomes)):
            kind, reason = read_outcome(byte)
            if kind != "postponed":
                counted[kind] += 1
            again = sent_again and kind == "failed"
            target = targets.get(id, f"device {id}")
            entries[root, target].append(Entry(kind, reason, ended_at, job, notes.get(str(ordinal)), again))
        written = dict(zip(KINDS, counts))
        if len(ids) != len(outcomes):
            counted["recipients without a byte"] += len(ids) - len(outcomes)
        tallies.append((job, {k: v for k, v in written.items() if v}, dict(counted)))
    rows = stack.query("""
        select j.root_id, j.id, extract(epoch from case when j.run_at = 'infinity' then '2100-01-01' else j.run_at
        end)::float8,
               b.device_ids, j.outcomes
        from (select root_id, id, run_at, queue_id, body_day, outcomes from pushq.job
              union all select root_id, job_id, run_at, queue_id, body_day, outcomes from pushq.lease) j
        join pushq.body b on b.day = j.body_day and b.queue_id = j.queue_id and b.job_id = j.id
        """)
    for root, job, run_at, ids, outcomes in rows:
        bytes_ = bytes(outcomes) if outcomes else bytes(len(ids))
        for id, byte in zip(ids, bytes_):
            kind, reason = read_outcome(byte)
            entries[root, targets.get(id, f"device {id}")].append(Entry(kind, reason, 0, job, run_at=run_at))
    return dict(entries), tallies


def first_ends(entries):
    """When the first recipient of each root had an outcome."""
    times = {}
    for (root, _), of_one in entries.items():
        for entry in of_one:
            if entry.ended_at:
                times[root] = min(times.get(root, entry.ended_at), entry.ended_at)
    return times


def read_campaigns(stack, names):
    columns = ["queue_id", "key", "campaign_id", "total", *KINDS, "waiting", "finished"]
    rows = stack.query(
        f"select {', '.join(columns)}, extract(epoch from fanned_out_at)::float8"
        " from pushq.campaign_progress order by campaign_id"
    )
    campaigns, shown = {}, {}
    for row in rows:
        values = dict(zip(columns + ["fanned_out_at"], row))
        place = names[values["queue_id"]], values["key"]
        campaigns[place] = values
        shown[place] = stack.admin_json("campaign", "show", *place)
    return campaigns, shown


def read_export(stack, queue):
    export = stack.command(stack.admin, "device", "export", queue)
    return [row["token"] for row in csv.DictReader(io.StringIO(export, newline=""))]


def read_feedback(stack, names, targets):
    rows = stack.query("""
        select queue_id, device_id, reason, extract(epoch from reported_at)::float8, extract(epoch from
        recorded_at)::float8, verdict, root_id, cursor,
               extract(epoch from listed_at)::float8
        from pushq.feedback order by id
        """)
    return [
        FeedbackRow(
            names[queue],
            targets.get(id, f"device {id}"),
            REASONS.get(reason, f"reason {reason}"),
            reported,
            recorded,
            verdict,
            root,
            cursor,
            listed,
        )
        for queue, id, reason, reported, recorded, verdict, root, cursor, listed in rows
    ]


def read_feedback_list(stack, queue):
    rows = stack.admin_json("feedback", "list", queue, "--limit", "1000000")
    return collections.Counter((row["reason"], row["verdict"]) for row in rows)


def read_lapsed(stack, targets):
    rows = stack.query("""
        select extract(epoch from l.deadline)::float8, l.root_id, l.outcomes, b.device_ids
        from public.oracle_lapsed l
        join pushq.body b on b.day = l.body_day and b.queue_id = l.queue_id and b.job_id = l.job_id
        """)
    return [
        LapsedLease(deadline, {(root, targets[id]) for id, byte in zip(ids, bytes(outcomes)) if byte == 0})
        for deadline, root, outcomes, ids in rows
    ]


def read_secrets(stack, targets):
    """Whole tokens, the master key, and the lines of private keys."""
    tokens = {target for target in targets.values() if len(target) >= 40 and not target.endswith("=")}
    return sorted(tokens) + [stack.environment["PUSHQ_MASTER_KEY"], "PRIVATE KEY", "bearer ey", "whsec_"]
