"""Faults that are put into a copy of the source, one at a time, to see that the oracle finds them. One in a function of
the database is put into the databases of its episodes, and nothing has to be built.

A mutant is a text that stands exactly once in the source and another in its place, wherever its file moves. One whose
text is no longer there is a failure of its own: it has to be brought up to date, or nobody would know what it still
shows (test_mutants.py)."""

import dataclasses
import os
import shutil
import subprocess
import sys
import time

from .episode import run_episode
from .stack import StackError, ground

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COPY = f"{ROOT}/.build/mutants"
EPISODES = 60  # after which a mutant counts as not found


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    text: str
    other: str
    size: str = "short"  # of the episodes that find it
    kinds: tuple = ()  # of findings, one of which tells of this fault; others may be by chance. Empty: any tells of it


MUTANTS = [
    # Tenants.
    Mutant("a connection for two tenants", "tenantID: use.tenantID, secret: $0", "tenantID: 0, secret: $0"),
    # Badges.
    Mutant("a badge raised at each attempt", "where n.root <> all (b.root_ids)", "where n.root <> 0", kinds=("badge",)),
    Mutant(
        "a badge that no app resets",
        "    perform pushq.forget_badges(q, ids);",
        "    perform 1;",
        kinds=("badge",),
    ),
    Mutant(
        "the badge of another device",
        "job.deviceIDs.map { (taken[$0] ?? nil) ?? 0 }",
        "job.deviceIDs.reversed().map { (taken[$0] ?? nil) ?? 0 }",
    ),
    # Phones that get other tokens.
    Mutant(
        "pushes that do not go on to a newer token",
        "  set replaced_by = n.next\n",
        "  set replaced_by = null\n",
        "phones",
    ),
    Mutant(
        "pushes that go on to another person",
        "    passes_on := older.user_key is not distinct from register.user_key\n",
        "    passes_on := (older.user_key is not distinct from register.user_key or true)\n",
        "phones",
        kinds=("passed on",),
    ),
    Mutant(
        "pushes that go on although the phone's newest token gets its own",
        "  where not r.is_recipient\n",
        "  where true\n",
        "phones",
        kinds=("passed on", "sent twice"),
    ),
    Mutant(
        "a badge that begins anew with each token",
        "    delete from pushq.badge b\n    using unnest(olders, newers, passes_on) p(older, newer, passes_on)\n    where",
        "    delete from pushq.badge b\n    using unnest(olders, newers, passes_on) p(older, newer, passes_on)\n    where false and",
        "phones",
    ),
    Mutant(
        "an installation with two tokens",
        "join pushq.device d on d.queue_id = p.queue_id and d.id = p.device_id\n    where p.queue_id = q and p.installation = (its)",
        "join pushq.device d on d.queue_id = p.queue_id and d.id = p.device_id and d.id % 4 > 0\n    where p.queue_id = q and p.installation = (its)",
        "phones",
    ),
    Mutant(
        "imports that keep the older token of an installation",
        "k.seen_at desc nulls last, k.line desc nulls last, k.id desc))",
        "k.seen_at nulls last, k.line nulls last, k.id))",
        "phones",
    ),
    # Starts of Live Activities.
    Mutant(
        "a user's starts at tokens for another type",
        "and (started is null or not pushq.starts_another(q, d.id, started)));",
        "and (started is null or started <> ''));",
    ),
    Mutant("a list's starts at tokens for another type", "and p.activity_type <> started;", "and p.activity_type = '';"),
    Mutant("starts counted for another type", "and coalesce(sp.activity_type, $3) = $3)", "and $3 is not null)"),
    # Personal messages.
    Mutant(
        "another recipient's values",
        "values.range(at: place * message.attributeCount + attribute)",
        "values.range(at: max(0, place - 1) * message.attributeCount + attribute)",
        kinds=("text",),
    ),
    Mutant(
        "one language for all",
        "versions[places[ordinal].map { Int(versionOfProfile[$0]) } ?? 0]",
        "versions[0]",
        kinds=("text",),
    ),
    # The claim.
    Mutant(
        "tokens taken by counts",
        "return place < ids.count && ids[place] == recipient ?",
        "return place < ids.count && (ids.count >= recipients.count || ids[place] == recipient) ?",
    ),
    Mutant(
        "inactive devices sent to",
        "between b.first_device_id and b.last_device_id and d.active",
        "between b.first_device_id and b.last_device_id",
    ),
    Mutant(
        "inactive devices sent to when a push is tried again",
        "between b.first_device_id and b.last_device_id and d.active\n",
        "between b.first_device_id and b.last_device_id and (d.active or t.attempt > 1)\n",
        kinds=("not to be sent",),
    ),
    Mutant(
        "a campaign to users sent to whoever has their phones by now",
        "and (f.is_for_users is not true\n",
        "and (true\n",
    ),
    Mutant(
        "a user's phone withheld from another user on the list",
        "where l.queue_id = t.queue_id and l.list_id = f.list_id and l.user_key = \\(device).user_key",
        "where l.queue_id = t.queue_id and l.list_id = f.list_id and l.user_key = \\(device).user_key || ' '",
    ),
    Mutant(
        "users of a list left out who have several devices",
        "    select f.user_key, d.id\n    from fresh f",
        "    select distinct on (f.user_key) f.user_key, d.id\n    from fresh f",
    ),
    Mutant(
        "older updates of a Live Activity sent",
        "where n.queue_id = q and n.recipient_id = d.id and n.due_at <= clock_timestamp()",
        "where n.queue_id = q and n.recipient_id = -d.id and n.due_at <= clock_timestamp()",
    ),
    Mutant(
        "older updates of a Live Activity sent when they are tried again",
        "t.id, m.id, m.due_at, m.kind, m.is_broadcast,",
        "t.id, m.id, case when t.attempt = 1 then m.due_at else 'infinity' end, m.kind, m.is_broadcast,",
        kinds=("not to be sent",),
    ),
    Mutant(
        "sent after its time",
        "(extract(epoch from least(case when t.id < f.new_end_before",
        "(extract(epoch from interval '1 hour' + least(case when t.id < f.new_end_before",
    ),
    Mutant(
        "sent before its time",
        "where queue_id = w.queue_id and lane = w.lane and run_at <= now()",
        "where queue_id = w.queue_id and lane = w.lane and run_at <= now() + interval '2 s'",
    ),
    Mutant(
        "a cancelled campaign goes on",
        "c.cancelled_at is not null\n                 or exists (select from pushq.cancelled x where x.queue_id = t.",
        "false or exists (select from pushq.cancelled x where x.queue_id = t.",
        kinds=("cancelled",),
    ),
    Mutant("a cancelled send goes on", "x.id in (t.root_id, t.id))", "x.id in (0, t.id))", kinds=("cancelled",)),
    Mutant("a cancelled job goes on", "x.id in (t.root_id, t.id))", "x.id in (t.root_id, 0))", kinds=("cancelled",)),
    Mutant(
        "queues of the other environment served",
        "return rest.hasSuffix(parts[parts.count - 1])",
        "return true",
    ),
    # Fan-out by filter.
    Mutant("a filter without its not", "'not (' || s.condition || ')' into", "'(' || s.condition || ')' into"),
    Mutant("or taken for and", "case when tree ? 'and' then ' and ' else ' or ' end", "' and '"),
    Mutant(
        "devices that nobody has said anything of are in no audience",
        "condition := '(' || condition || ') is true';",
        "condition := '(' || condition || ')';",
    ),
    # Frequency caps.
    Mutant(
        "one more than a cap allows",
        "and (coalesce(pushq.last_place(r.sent_at, a.pushes) < a.since, true)",
        "and (coalesce(pushq.last_place(r.sent_at, a.pushes + 1) < a.since, true)",
    ),
    Mutant(
        "a cap that holds back what is urgent",
        "in lane: Lane) -> Bool {\n        type.mayBeHeldBack(in: lane, evenUrgent: includesUrgent)",
        "in lane: Lane) -> Bool {\n        type.mayBeHeldBack(in: lane, evenUrgent: true)",
    ),
    Mutant(
        "held back by what was refused",
        "where (o.owner = any (g.job_ids)) is not true or",
        "where true or",
    ),
    Mutant(
        "held back by what is on its way",
        "select count(*) filter (where not e.is_open) as arrived,",
        "select count(*) as arrived,",
    ),
    Mutant(
        "one of two places given up",
        "where (o.owner = any (g.job_ids)) is not true or",
        "where (o.owner = g.job_ids[1]) is not true or",
        kinds=("outcome",),
    ),
    # Quiet hours.
    Mutant("sent in quiet hours", "where x.until is not null),", "where x.until is not null and z.device_id % 5 > 0),"),
    Mutant(
        "released at once",
        "least(z.release, (z.send_within - (x.until - now())) / 2) as spread",
        "least(interval '0', (z.send_within - (x.until - now())) / 2) as spread",
        kinds=("release",),
    ),
    Mutant(
        "held back outside of quiet hours",
        "case when starts < ends then at >= starts and at < ends else at >= starts or at < ends end",
        "case when starts < ends then at >= starts - interval '1 hour' and at < ends else at >= starts or at < ends end",
    ),
    Mutant(
        "quiet hours that end an hour early",
        "+ mod((extract(epoch from split_part(hours, '-', 2)::time - wall::time) + 86400)::numeric, 86400)",
        "+ mod((extract(epoch from split_part(hours, '-', 2)::time - wall::time) + 86400)::numeric, 3600)",
    ),
    Mutant(
        "quiet hours by the clocks of one zone for all",
        "h.release, h.send_within, d.id as device_id,\n           coalesce(k.time_zone, h.time_zone) as time_zone",
        "h.release, h.send_within, d.id as device_id,\n           coalesce(h.time_zone, k.time_zone) as time_zone",
    ),
    Mutant(
        "a campaign's own quiet hours passed over",
        "select l.queue_id, l.job_id, l.root_id, coalesce(c.quiet_hours, h.hours) as hours",
        "select l.queue_id, l.job_id, l.root_id, coalesce(h.hours, c.quiet_hours) as hours",
    ),
    Mutant(
        "kept for longer than its time",
        "least(z.release, (z.send_within - (x.until - now())) / 2) as spread",
        "z.release as spread",
    ),
    # Webhooks.
    Mutant("a message under another identifier", "first := due.cursor;", "first := due.cursor + due.turn;"),
    Mutant("another tenant's reports", "where q.tenant_id = tenant\n    order by f.cursor", "where true\n    order by f.cursor"),
    Mutant(
        "two messages at a time",
        "and (p.not_before <= clock_timestamp()\n        or p.not_before",
        "and (true\n        or p.not_before",
    ),
    Mutant(
        "a message taken that was refused",
        "set failures = p.failures + 1, failing_since",
        "set cursor = coalesce(p.batch_to, p.cursor), batch_to = null, failures = p.failures + 1, failing_since",
        kinds=("webhook",),
    ),
    Mutant(
        "a message sent again that was taken",
        "set cursor = upto, batch_to = null, taken_until = null, not_before",
        "set cursor = case when p.turn % 3 = 0 then p.cursor else upto end, batch_to = null, taken_until = null, not_before",
    ),
    Mutant(
        "messages without what was undone",
        "coalesce(due.batch_to, due.newest), most) e\n    where t.id = due.tenant_id",
        "coalesce(due.batch_to, due.newest), most) e\n    where t.id = due.tenant_id and e.verdict <> 'undone'",
    ),
    # Feedback.
    Mutant(
        "undone for another reason",
        "and ($reason::smallint is null or reason = $reason)",
        "and ($reason::smallint is null or true)",
        kinds=("device", "feedback"),
    ),
    Mutant(
        "a report read twice",
        "where f.queue_id = q and f.cursor is not null and f.cursor > coalesce(after, 0)",
        "where f.queue_id = q and f.cursor is not null and f.cursor >= coalesce(after, 0)",
    ),
    Mutant(
        "a page of the newest reports",
        "and f.cursor > coalesce(after, 0)\n    order by f.cursor\n",
        "and f.cursor > coalesce(after, 0)\n    order by f.cursor desc\n",
    ),
    Mutant(
        "a report of another push",
        "pushq.apns_id(f.root_id, f.device_id)\n  from (\n    select *\n",
        "pushq.apns_id(f.root_id, f.device_id + 1)\n  from (\n    select *\n",
    ),
    # Shares.
    Mutant("the share of the next device", "sha256(prefix || int8send(i)) as h", "sha256(prefix || int8send(i + 1)) as h"),
    Mutant(
        "a holdout that gets the payload",
        "select i, width_bucket(\n           (get_byte(h, 0)::bigint << 24) | (get_byte(h, 1) << 16) | (get_byte(h, 2) << 8) | get_byte(h, 3), bounds)",
        "select i, greatest(1, width_bucket(\n           (get_byte(h, 0)::bigint << 24) | (get_byte(h, 1) << 16) | (get_byte(h, 2) << 8) | get_byte(h, 3), bounds))",
        kinds=("stranger",),
    ),
    # Clocks.
    Mutant("a schedule's campaign without its filter", "where options ? o.name;", "where options ? o.name and o.name <> 'filter';"),
    Mutant(
        "the clocks of one zone for all",
        "           coalesce(\n             p.time_zone,\n",
        "           coalesce(\n             f.clock ->> 'zone', p.time_zone,\n",
        kinds=("stranger",),
    ),
    # Settling and retries.
    Mutant(
        "a retry without its last member",
        "                 array_agg(device_id order by device_id) as ids",
        "                 (array_agg(device_id order by device_id))[1:greatest(1, count(*)::int - 1)] as ids",
        kinds=("outcome",),
    ),
    Mutant(
        "a retry at the next device",
        "deviceID: job.claim.deviceIDs[ordinal],\n                delay: .backoff(\n",
        "deviceID: job.claim.deviceIDs[min(ordinal + 1, job.claim.deviceIDs.count - 1)],\n"
        "                delay: .backoff(\n",
    ),
    Mutant(
        "outcomes one recipient off",
        "key: claim.key, outcomes: outcomes, again: again,",
        "key: claim.key, outcomes: Array(outcomes.dropFirst() + outcomes.prefix(1)), again: again,",
    ),
    Mutant(
        "retried once more than its attempts",
        "|| job.claim.attempt < queue.settings.maxAttempts else {",
        "|| job.claim.attempt <= queue.settings.maxAttempts else {",
        kinds=("outcome",),
    ),
    Mutant(
        "sent again, though at most once",
        "if job.claim.isAtMostOnce || losses",
        "if losses",
        kinds=("sent twice",),
    ),
    Mutant(
        "deactivated, though registered again",
        "pushq.known_since(d.registered_at, d.reactivated_at) <= r.reported_at\n          for no key",
        "true\n          for no key",
    ),
    Mutant(
        "dead devices kept",
        "set active = false, inactive_since = y.reported_at, inactive_reason = y.reason",
        "set user_key = d.user_key",
    ),
    Mutant(
        "failed recipients retried, and the rejected with them",
        "where pushq.outcome_kind(get_byte(t.outcomes, n)) = 'failed' and",
        "where pushq.outcome_kind(get_byte(t.outcomes, n)) in ('failed', 'rejected') and",
        kinds=("outcome", "sum"),
    ),
    # Requests.
    Mutant(
        "the topic without its suffix",
        "topic: settings.name.app + message.pushType.topicSuffix,",
        "topic: settings.name.app,",
    ),
    Mutant(
        "the collapse ID of all alerts alike",
        "http.add(APNsFields.collapseID, uuid: id)",
        "http.add(APNsFields.collapseID, uuid: (id.high, id.low >> 4 << 4))",
    ),
    Mutant(
        "an identifier for two recipients",
        "key: job.claim.deviceIDs[recipient.ordinal])",
        "key: job.claim.deviceIDs[recipient.ordinal / 2 * 2])",
    ),
    Mutant(
        "no expiration where it is 0",
        "if !push.expirationField.isEmpty {",
        "if push.expirationField.count > 1 {",
    ),
    Mutant(
        "what stood behind an error taken for delivered",
        "while !window.isEmpty { record(.untouched) }",
        "while !window.isEmpty { record(.accepted) }",
        kinds=("outcome",),
    ),
    Mutant(
        "another credential's connections",
        "secret: $0, version: use.credential.version,",
        "secret: Array($0.prefix(0)), version: use.credential.version,",
    ),
    Mutant(
        "payloads in PostgreSQL's spelling",
        "m.payload::text, m.priority",
        "m.payload::jsonb::text, m.priority",
    ),
    # Books.
    Mutant(
        "suppressed counted as delivered",
        "case .suppressed: suppressed += 1",
        "case .suppressed: delivered += 1",
    ),
    Mutant(
        "a campaign's counts twice",
        "set delivered = t.delivered + s.delivered,",
        "set delivered = t.delivered + s.delivered + (s.delivered > 2)::int,",
    ),
    Mutant(
        "campaigns without their last devices",
        "rest = case when upto is null or jobs = job_limit then '{}' else",
        "rest = case when true then '{}' else",
    ),
    Mutant(
        "rejections without feedback",
        "where r.suspect or (r.queue_id, r.device_id) not in (select queue_id, device_id from left_for_later)",
        "where r.suspect and (r.queue_id, r.device_id) not in (select queue_id, device_id from left_for_later)",
        kinds=("feedback",),
    ),
]


class OutOfDate(Exception):
    """A mutant does not fit the source any more."""


def run_mutants(names, binaries):
    """Tries all mutants, or those of these names; prints a table. `binaries` are those without a fault. Returns the exit
    code."""
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    if not chosen:
        print(
            "scripts/oracle: no mutant is called so; they are:",
            *[f"  {m.name}" for m in MUTANTS],
            sep="\n",
            file=sys.stderr,
        )
        return 2
    missed = 0
    print("| mutant | found | in episode | after | as |\n|---|---|--:|--:|---|", flush=True)
    for mutant in chosen:
        began = time.monotonic()
        try:
            found = try_mutant(mutant, binaries)
        except OutOfDate as problem:
            found = str(problem)
        is_found = isinstance(found, tuple)
        missed += not is_found
        seconds = time.monotonic() - began
        row = (
            ["yes", str(found[0]), f"{seconds:.0f} s", found[1]]
            if is_found
            else ["**no**", "", f"{seconds:.0f} s", found]
        )
        print(f"| {' | '.join([mutant.name, *row])} |", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} were found", flush=True)
    return 1 if missed else 0


def copy_source():
    """Brings the copy up to date; what was built of it stays, so that only what changed is built again."""
    os.makedirs(COPY, exist_ok=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wanted = {path for path in listed.stdout.splitlines() if os.path.isfile(f"{ROOT}/{path}")}
    for path in wanted:
        write(f"{COPY}/{path}", read(f"{ROOT}/{path}"))
    for folder, folders, files in os.walk(COPY):
        folders[:] = [name for name in folders if not name.startswith(".build")]
        for name in files:
            path = os.path.relpath(f"{folder}/{name}", COPY)
            if path not in wanted:
                os.remove(f"{COPY}/{path}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    """Writes what is not so already: the build goes by times."""
    if not os.path.exists(path) or read(path) != data:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


def is_function(path):
    """Whether a file is applied as it is to a database that has its schema, so that nothing has to be built."""
    return os.path.dirname(path) in (f"{ROOT}/migrations/functions", f"{ROOT}/migrations/views")


def try_mutant(mutant, binaries):
    """The number of the episode that found it and the kinds of its findings; or why it was not found."""
    path = place(mutant, ROOT)
    if is_function(path):
        return run_until_found(mutant, binaries, read(path).decode().replace(mutant.text, mutant.other))
    copy_source()
    path = place(mutant, COPY)
    original = read(path)
    try:
        write(path, original.replace(mutant.text.encode(), mutant.other.encode()))
        return run_until_found(mutant, build())
    finally:
        write(path, original)


def place(mutant, root):
    """The file that has its text."""
    files = (
        f"{folder}/{name}"
        for top in ("Sources", "migrations")
        for folder, _, names in os.walk(f"{root}/{top}")
        for name in names
    )
    found = {path: count for path in files if (count := read(path).count(mutant.text.encode()))}
    if sum(found.values()) != 1:
        raise OutOfDate(f"out of date: its text stands {sum(found.values())} times in Sources and migrations")
    return next(iter(found))


def build():
    for product in ("pushq", "pushq-admin"):
        done = subprocess.run(["swift", "build", "--product", product], cwd=COPY, capture_output=True, text=True)
        if done.returncode != 0:
            raise OutOfDate(
                "out of date: it does not build: "
                + " / ".join(x for x in done.stdout.splitlines() if "error:" in x)[:300]
            )
    return f"{COPY}/.build/debug"


def run_until_found(mutant, binaries, change=None):
    others = set()
    with ground(binaries, change) as make_stack:
        for number in range(1, EPISODES + 1):
            try:
                verdict = run_episode(make_stack, number, mutant.size)
            except StackError as error:
                return f"episode {number} did not run: {error}"[:200]
            shutil.rmtree(verdict.folder, ignore_errors=True)
            kinds = list(dict.fromkeys(finding.kind for finding in verdict.findings))
            if kinds and (not mutant.kinds or set(kinds) & set(mutant.kinds)):
                return number, ", ".join(kinds)
            others |= set(kinds)
    return f"not in {EPISODES} episodes" + (f", but {', '.join(sorted(others))}" if others else "")
