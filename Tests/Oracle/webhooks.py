"""Webhooks, as docs/webhooks.md explains them: what a tenant's receiver got, held against what happened to its devices.

Signatures are checked as Standard Webhooks 1.0.0 says, with Python's own HMAC."""

import base64
import collections
import datetime
import hashlib
import hmac
import json

from .follower import Followed

MOST = 250  # reports in a message
RECENT = 60.0  # seconds that a message may be old when it comes
# Two moments of one machine, of which one is noted by a thread that may have to wait for its turn.
SLACK = 0.5
VERDICTS = ("deactivated", "undone")


def is_signed(secret, identifier, timestamp, body, signatures):
    """Whether one of the signatures is that of a secret."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    code = hmac.new(key, f"{identifier}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    wanted = "v1," + base64.b64encode(code).decode()
    return any(hmac.compare_digest(wanted, one) for one in signatures.split(" "))


def seconds(text):
    """A time as messages give it."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Webhooks:
    """What is wrong with what receivers got: `findings` are pairs of a kind and a sentence."""

    def __init__(self, model, books):
        self.model, self.books = model, books
        self.history = model.history
        self.findings = []
        self.rows = []  # of what was accepted: pairs of a queue and what was read of a report
        self.judge()

    def find(self, detail):
        self.findings.append(("webhook", detail))

    def judge(self):
        by_tenant = collections.defaultdict(list)
        for delivery in sorted(self.history.deliveries, key=lambda delivery: delivery.at):
            by_tenant[delivery.tenant].append(delivery)
        for tenant in {*by_tenant, *self.history.secrets}:
            if tenant not in self.history.secrets:
                self.find(f"a message came to {tenant or 'nobody'}, who has no webhook")
                continue
            read = [(delivery, self.read(tenant, delivery)) for delivery in by_tenant[tenant]]
            read = [(delivery, entries) for delivery, entries in read if entries is not None]
            self.judge_turns(tenant, read)
            self.judge_order(tenant, read)
            self.judge_reports(tenant, read)

    # MARK: One message

    def read(self, tenant, delivery):
        """The reports of a message; None if it is none."""
        where = f"{delivery.identifier} to {tenant}"
        if "content-type" not in delivery.headers or delivery.headers["content-type"] != "application/json":
            self.find(f"{where} is {delivery.headers.get('content-type')}")
        self.judge_signature(tenant, delivery, where)
        try:
            message = json.loads(delivery.body)
            entries = message["data"]["entries"]
            owners = {message["data"]["tenant"], *(entry["queue"].split("/")[0] for entry in entries)}
            cursors = [int(entry["cursor"]) for entry in entries]
        except (ValueError, KeyError, TypeError) as problem:
            self.find(f"{where} is no message: {type(problem).__name__} {problem}")
            return None
        if message["type"] != "feedback" or not 1 <= len(entries) <= MOST:
            self.find(f"{where} is a message of the type {message['type']} with {len(entries)} reports")
        if owners != {tenant}:
            self.find(f"{where} has reports of {', '.join(sorted(owners - {tenant}))}")
        if cursors != sorted(set(cursors)):
            self.find(f"{where} has reports that are not in order: {cursors[:10]}")
        return entries

    def judge_signature(self, tenant, delivery, where):
        """The last secret has signed it, and the first one, too: a former one is good for a day, and stays when the secret
        is changed again meanwhile."""
        stamp = delivery.headers.get("webhook-timestamp", "")
        if not stamp.isdigit() or not -2 < delivery.at - int(stamp) < RECENT:
            self.find(f"{where} is of {stamp or 'no time'}, and came at {delivery.at:.0f}")
            return
        secrets = self.history.secrets[tenant]
        made = [(ended, secret) for began, ended, secret in secrets if began < int(stamp) + 1]
        made = [made[0], made[-1]] if made else []
        # Of one that was being set when the message was made nobody knows.
        surely = [secret for ended, secret in made if ended < int(stamp) - 1 or len(secrets) == 1]
        signatures = delivery.headers.get("webhook-signature", "")
        for secret in surely:
            if not is_signed(secret, delivery.identifier, stamp, delivery.body, signatures):
                number = [known for *_, known in secrets].index(secret) + 1
                self.find(f"{where} is not signed with secret {number} of {len(secrets)}")

    # MARK: One after the other

    def was_set(self, tenant, since, until):
        """Whether its webhook was set within that time, after which it is tried at once."""
        return any(began <= until and ended >= since for began, ended, _ in self.history.set_webhooks.get(tenant, ()))

    def had_trouble(self, since, until):
        """Whether its worker may have been lost within that time, or its database."""
        return any(began <= until + SLACK and ended >= since - SLACK for _, _, began, ended in self.history.faults)

    def judge_turns(self, tenant, read):
        """No two at a time."""
        for (before, _), (delivery, _) in zip(read, read[1:]):
            ended = before.ended_at if before.ended_at is not None else before.at
            if delivery.at < ended - SLACK and not self.was_set(tenant, before.at - SLACK, delivery.at):
                early = f"{ended - delivery.at:.1f} s before {before.identifier} was answered"
                self.find(f"{delivery.identifier} came to {tenant} {early}")

    def judge_order(self, tenant, read):
        """The next one only when the last one was accepted, which comes under the same identifier until then."""
        cursors = {}  # identifier -> the cursors of its reports, as they came first
        owners = {}  # cursor -> identifier
        before = None
        for delivery, entries in read:
            where = f"{delivery.identifier} to {tenant}"
            numbers = {int(entry["cursor"]) for entry in entries}
            if before is not None and before.identifier == delivery.identifier:
                # What was undone meanwhile is a report of its own.
                if not numbers <= cursors[delivery.identifier]:
                    self.find(f"{where} has other reports than before")
                is_excused = self.had_trouble(before.ended_at or before.at, delivery.at)
                if before.was_accepted and not is_excused and not self.was_set(tenant, before.at - SLACK, delivery.at):
                    self.find(f"{where} came again {delivery.at - before.at:.1f} s after it was accepted")
            elif delivery.identifier in cursors:
                self.find(f"{where} came again, after others")
            else:
                others = {owners[number] for number in numbers & owners.keys()}
                if others:
                    self.find(f"{where} has reports that came as {', '.join(sorted(others))}")
                if owners and min(numbers, default=0) < max(owners):
                    self.find(f"{where} has a report from before the last one")
                if before is not None and not before.was_accepted and not self.is_gone(cursors[before.identifier]):
                    self.find(f"{where} came, though {before.identifier} was not accepted")
                cursors[delivery.identifier] = numbers
                owners.update(dict.fromkeys(numbers, delivery.identifier))
            before = delivery

    def is_gone(self, cursors):
        """Whether none of these reports is there any more: what was undone is listed anew."""
        return not cursors & {row.cursor for row in self.books.feedback}

    # MARK: The reports

    def judge_reports(self, tenant, read):
        """Each deactivation of its devices was accepted, and nothing else."""
        taken = {}
        for delivery, entries in read:
            if delivery.was_accepted:
                taken.update({int(entry["cursor"]): entry for entry in entries})
        got = collections.Counter(self.key(entry) for entry in taken.values())
        happened, perhaps = collections.Counter(), collections.Counter()
        for row in self.books.feedback:
            if row.queue.split("/")[0] == tenant and row.verdict in VERDICTS:
                told = (row.token, row.reason, round(row.reported_at, 3), round(row.recorded_at, 3))
                (perhaps if row.is_late(self.model.end) else happened)[row.queue, row.verdict, *told] += 1
                # Of one that was undone, the deactivation may have come before.
                perhaps[row.queue, "deactivated", *told] += row.verdict == "undone"
        for (queue, verdict, token, reason, *_), count in (happened - got).items():
            self.find(f"{reason} of {token[:8]}… in {queue} is {verdict}, and {tenant} was not told")
        for (queue, verdict, token, reason, *_), count in (got - happened - perhaps).items():
            self.find(f"{tenant} was told {count} times too often that {reason} of {token[:8]}… in {queue} is {verdict}")
        for cursor, entry in sorted(taken.items()):
            root, key = int(entry.get("root", 0)), entry.get("campaign")
            read_as = Followed(cursor, entry["verdict"], entry["reason"], 0.0, entry["token"], root, key, entry.get("apns_id"))
            self.rows.append((entry["queue"], read_as))

    @staticmethod
    def key(entry):
        times = (round(seconds(entry[name]), 3) for name in ("reported_at", "recorded_at"))
        return entry["queue"], entry["verdict"], entry["token"], entry["reason"], *times
