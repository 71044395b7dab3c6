"""Holds what arrived, and what the books say, against the model: token by token, byte by byte."""

import bisect
import collections
import dataclasses
import json
import math
import re

from .badges import Badges
from .books import CAPPED, ENDINGS, KINDS, LACKS, QUIET, SHOWN
from .caps import Caps
from .model import DEAD, GONE, IDENTIFIER, SILENCE, SUSPECT, TRANSIENT, concerns_device
from .personal import comparable
from .quiet import Quiet
from .scenario import Campaign, OpenTransaction, Reactivate, RetryFailed, UndoDeactivations
from .webhooks import Webhooks

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# Flushes are 100 ms apart; beside them is what a busy machine takes to read an answer and to write the flush.
FLUSHING = 3.0
# Between the sender's clock and the time at which the request was read.
READING = 5.0
# What a busy machine reads late comes together.
BUNCHING = 3.0
# Between what the statement that lists reports sees and the time that it writes.
LISTING = 0.5
# When what is paused is due, by the books: in 2100.
FOR_EVER = 4_000_000_000
# After so many pushes without an answer a recipient is given up (docs/job-lifecycle.md).
LOSSES = 5
# Whether a worker was in an outage when it sent a push, its latest answers say: an outage and the recovery after it
# last for no more than a hundred that are accepted.
LATEST = 150
# A job ends a moment after the time that it notes as its end.
ENDING = 1.0
# A worker counts the time that is left from when it sent the claim, which PostgreSQL executes a little later. So it never
# sends too late, and lets what is left expire as much too early.
CLAIMING = 0.5
FINAL = {"delivered", "rejected", "failed", "suppressed", "expired", "cancelled", "unknown"}


@dataclasses.dataclass(frozen=True)
class Finding:
    kind: str  # a few words, the same for all of a kind
    detail: str

    def __str__(self):
        return f"{self.kind}: {self.detail}"


def short(target):
    """Of a token only the beginning is shown."""
    return f"{target[:8]}…" if len(target) > 12 else target


class Judge:
    """One episode's verdict: `findings` is empty if all was right."""

    def __init__(self, model, record, books, lease):
        self.model, self.record, self.books, self.lease = model, record, books, lease
        self.findings = [Finding("call", text) for text in model.findings]
        self.arrivals = collections.defaultdict(list)  # (root, target) -> those that were looked at, in order
        self.resets = [(a.environment, a.at) for a in record.arrivals if a.decision and a.decision.kind == "reset"]
        self.answered = {}  # (credential, environment) -> door -> answers
        self.quiet = Quiet(model, record)
        self.lapsed = collections.defaultdict(list)  # (root, target) -> deadlines
        for lease_ in books.lapsed:
            for target in lease_.targets:
                self.lapsed[target].append(lease_.deadline)

    def judge(self):
        for text in self.record.errors:
            self.find("protocol", text)
        for text in self.model.history.stuck:
            self.find("stuck", f"this never came to an end: {text}")
        self.judge_arrivals()
        self.caps = Caps(self.model, self.books, self.arrivals, self.lapsed)
        self.judge_caps()
        self.judge_badges()
        self.judge_previews()
        self.judge_identifiers()
        self.judge_connections()
        for sending in self.model.sendings:
            self.judge_sending(sending)
        for text in self.quiet.unspread():
            self.find("release", text)
        self.judge_retries()
        self.judge_strangers()
        self.judge_sums()
        self.judge_devices()
        self.judge_channels()
        self.judge_rates()
        self.judge_feedback()
        self.judge_followed()
        self.judge_webhooks()
        self.judge_traces()
        self.judge_queues()
        self.judge_workers()
        return self.findings

    def find(self, kind, detail):
        self.findings.append(Finding(kind, detail))

    # MARK: What arrived

    def judge_arrivals(self):
        for arrival in self.record.arrivals:
            sending = self.model.by_payload.get(arrival.body)
            if sending is None:
                why = self.model.refused.get(arrival.body)
                kind = "sent, though not accepted" if why else "payload"
                self.find(kind, f"{short(arrival.target)} got a message that {why or 'nobody sent, byte for byte'}")
                continue
            self.judge_request(sending, arrival)
            if arrival.target not in sending.may:
                self.find("stranger", f"{self.name(sending)} arrived at {short(arrival.target)}, whom it was not for")
                continue
            if arrival.share != (share := self.model.share(sending, arrival.target)):
                self.find("share", f"{self.name(sending)} sent {arrival.share} to {short(arrival.target)}, who is in {share}")
            elif self.model.personal(sending, arrival.target):
                self.judge_text(sending, arrival)
            if arrival.was_looked_at:
                self.arrivals[sending.root, arrival.target].append(arrival)
            self.judge_time(sending, arrival)

    def judge_text(self, sending, arrival):
        """Of a personal message each gets the text for what is known of it."""
        content = json.loads(arrival.text)
        message = self.model.message(sending, arrival.target)
        if message.badge and isinstance(content["aps"].get("badge"), int):
            content["aps"]["badge"] = {"increment": message.raises}
        text = comparable(content)
        wanted = self.model.may_get(sending, arrival.target, arrival.at)
        if text not in wanted:
            self.find(
                "text",
                f"{self.name(sending)} said {text} to {short(arrival.target)} instead of "
                f"{' or '.join(str(one) for one in wanted)}",
            )

    def judge_connections(self):
        """A connection is one tenant's, for one environment and one credential."""
        users = {}
        for arrival in self.record.arrivals:
            sending = self.model.by_payload.get(arrival.body)
            if sending is None:
                continue
            queue = sending.queue
            user = (queue.tenant, queue.environment, queue.credential.name)
            first = users.setdefault((arrival.door, arrival.connection), user)
            if user != first:
                self.find("connection", f"{self.name(sending)} went over a connection of {'/'.join(first)}")

    def judge_request(self, sending, arrival):
        """Environment, credential and every header."""
        where = f"{self.name(sending)} to {short(arrival.target)}"
        if arrival.environment != sending.queue.environment:
            self.find("environment", f"{where} went to {arrival.environment}")
        if arrival.is_binary != sending.queue.is_binary:
            self.find("interface", f"{where} went over {'the binary interface' if arrival.is_binary else 'HTTP/2'}")
            return
        expected = self.model.headers(sending, arrival.target)
        identifier = "apns-request-id" if sending.is_broadcast else "apns-id"
        if sending.queue.credential.kind == "token":
            self.judge_provider_token(sending, arrival, where)
        elif arrival.certificate != self.model.certificates[sending.queue.name]:
            self.find("credential", f"{where} came with the certificate “{arrival.certificate}”")
        allowed = set(expected) | {identifier, ":authority"}
        allowed |= {"authorization"} if sending.queue.credential.kind == "token" else set()
        for name, count in collections.Counter(name for name, _ in arrival.headers).items():
            if name not in allowed:
                self.find("header", f"{where} has a header {name}, which it should not have")
            if count > 1:
                self.find("header", f"{where} has {count} headers {name}")
        for name, value in expected.items():
            value = arrival.header(identifier) if value is IDENTIFIER else value
            given = arrival.header(name)
            fits = given is not None and int(given) in value if isinstance(value, range) else given == value
            if not fits:
                kind = {"apns-topic": "topic", "apns-collapse-id": "collapse ID"}.get(name, "header")
                self.find(kind, f"{where} has {name}: {given} instead of {value}")
        if not arrival.is_binary and not UUID.fullmatch(arrival.header(identifier) or ""):
            self.find("identifier", f"{where} has {identifier}: {arrival.header(identifier)}")

    def judge_provider_token(self, sending, arrival, where):
        credential, token = sending.queue.credential, arrival.provider
        if arrival.certificate:
            self.find("credential", f"{where} came with a certificate, though its queue has a signing key")
        if token is None:
            self.find("credential", f"{where} came without a provider token")
        elif (token["algorithm"], token["key"], token["team"]) != ("ES256", credential.key, credential.team):
            self.find("credential", f"{where} came with the provider token of {token['team']} and key {token['key']}")
        elif not arrival.at - 3600 < token["issued"] <= arrival.at + 1:
            self.find("credential", f"{where} came with a provider token of {arrival.at - token['issued']:.0f} s ago")

    def judge_time(self, sending, arrival):
        where = f"{self.name(sending)} to {short(arrival.target)}"
        if arrival.at < sending.begins - 0.05:
            self.find("too early", f"{where} arrived {sending.begins - arrival.at:.2f} s before its time")
        elif arrival.at > sending.last_end + READING:
            self.find("too late", f"{where} arrived {arrival.at - sending.last_end:.2f} s after its end")
        elif sending.cancelled and arrival.at > sending.cancelled[1] + READING:
            self.find("cancelled", f"{where} arrived {arrival.at - sending.cancelled[1]:.2f} s after it was cancelled")
        elif any(since < arrival.at < until for since, until in sending.paused):
            self.find("paused", f"{where} arrived while it was paused")
        elif not self.may_arrive(sending, arrival):
            self.find(
                "not to be sent", f"{where} arrived when its device was inactive or a newer update had taken its place"
            )
        elif sending.cancelled and not self.may_arrive(sending, arrival, sending.cancelled[1]):
            self.find("cancelled", f"{where} arrived, though no worker can have had it before it was cancelled")
        if self.quiet.is_for(sending):
            nights = [self.quiet.wakes(sending, arrival.target, at) for at in self.sent_first(sending, arrival)]
            if all(nights):
                since, until = nights[0]
                after, before = f"{arrival.at - since:.0f} s", f"{until - arrival.at:.0f} s"
                self.find("quiet hours", f"{where} arrived {after} after they began there, and {before} before their end")

    def may_arrive(self, sending, arrival, until=math.inf):
        """Whether a worker may have taken this up, until then, when it was right to send it."""
        moments = self.sent_first(sending, arrival)
        after = self.refused_by(sending, arrival)
        return any(self.model.may_be_sent_at(sending, arrival.target, at, after, until) for at in moments)

    def refused_by(self, sending, arrival):
        """Since when this can have been taken up at the earliest: a push that was refused for the moment goes on in
        another job. What a worker may not have read, or learned when somebody else had its job, proves nothing."""
        before = self.arrivals.get((sending.root, arrival.target), ())
        if (sending.root, arrival.target) in self.lapsed or arrival.is_binary:
            return -math.inf
        times = [
            a.answered_at + (0 if sending.retried else max(a.decision.retry_after - 0.05, 0))
            for a in before
            if a.status in TRANSIENT and a.answered_at < arrival.at and not self.model.may_be_unread(a)
        ]
        return max(times, default=-math.inf)

    def sent_first(self, sending, arrival):
        """When its worker may have sent this first: what stays unanswered is sent again after half a minute, and nobody
        looks at the device once more."""
        before = self.arrivals.get((sending.root, arrival.target), ())
        return [arrival.at] + [a.at for a in before if a.answered_at is None and a.door == arrival.door and a.at < arrival.at]

    def judge_caps(self):
        """No device gets more alerts in a period than its queue's frequency cap allows."""
        for queue, token, time, count, cap in self.caps.excesses():
            self.find("cap", f"{short(token)} of {queue} got {count} alerts by {time:.3f}, though it may have {cap.words}")

    def judge_badges(self):
        """Each device gets the number of messages that its app has not shown yet."""
        for sending, token, wrong in Badges(self.model, self.arrivals, self.lapsed, self.quiet).complaints():
            self.find("badge", f"{self.name(sending)} to {short(token)} {wrong}")

    def judge_previews(self):
        """A preview of starts counts the devices that there are, and those whose user has no token for them."""
        for event, allowed in self.model.previews:
            for name, count, wanted in zip(("devices", "devices without a token"), event.previewed, allowed):
                if count not in wanted:
                    where = f"{event.operation.type} on {event.operation.queue}"
                    words = f"{wanted.start} to {wanted.stop - 1}"
                    self.find("preview", f"a preview of starts of {where} counts {count} {name} instead of {words}")

    def judge_identifiers(self):
        """The same for one recipient on every try, and another for everybody else."""
        recipients = collections.defaultdict(set)
        identifiers = collections.defaultdict(set)
        for arrival in self.record.arrivals:
            sending = self.model.by_payload.get(arrival.body)
            if sending is not None and not arrival.is_binary:
                identifier = arrival.header("apns-request-id" if sending.is_broadcast else "apns-id")
                recipients[identifier].add((sending.root, arrival.target))
                identifiers[sending.root, arrival.target].add(identifier)
        for identifier, who in recipients.items():
            if len(who) > 1:
                self.find("identifier", f"{identifier} was used for {', '.join(sorted(short(t) for _, t in who))}")
        for (root, target), names in identifiers.items():
            if len(names) > 1:
                self.find("identifier", f"{short(target)} got {len(names)} different ones for {root}")

    # MARK: What became of it

    def name(self, sending):
        """How a report names a message."""
        operation = sending.event.operation
        number = next((n for n, e in enumerate(self.model.history.events) if e is sending.event), "?")
        return f"{type(operation).__name__.lower()} {number} ({sending.message.push_type}) of {sending.queue.name}"

    def judge_sending(self, sending):
        for target in sorted(sending.may):
            entries = self.books.entries.get((sending.root, target), [])
            arrivals = self.arrivals.get((sending.root, target), [])
            where = f"{self.name(sending)} to {short(target)}"
            self.judge_repeats(sending, target, arrivals, where)
            if not entries:
                if arrivals:
                    self.find("outcome", f"{where} arrived, and the books know nothing of it")
                elif target in sending.must:
                    self.find("left out", f"{where} was neither sent nor accounted for")
                continue
            self.judge_outcome(sending, target, entries, arrivals, where)
            self.judge_waits(sending, target, entries, where)

    def judge_waits(self, sending, target, entries, where):
        """Nobody waits outside of quiet hours, or for longer than for their end and the release."""
        before = sending.begins
        for entry, following in zip(entries, [*entries[1:], None]):
            if entry.kind == "waiting":
                break
            if entry.kind == "postponed" and entry.reason == QUIET:
                complaint = self.quiet.complaint(sending, target, before, entry.ended_at)
                is_last = following is not None and following.kind == "waiting" and following.run_at < FOR_EVER
                if complaint is None and is_last:
                    complaint = self.quiet.complaint_of_time(sending, target, before, entry.ended_at, following.run_at)
                if complaint:
                    self.find("waited", f"{where} waited for the end of quiet hours, but {complaint}")
            before = entry.ended_at

    def judge_repeats(self, sending, target, arrivals, where):
        """Nothing is sent twice that may have reached its device, unless its worker cannot have known."""
        before = None
        for arrival in arrivals:
            if before is not None and (sending.message.at_most_once or not self.is_excused(sending, target, before)):
                once = " though at most once" if sending.message.at_most_once else ""
                self.find(
                    "sent twice",
                    f"{where} arrived again{once} {arrival.at - before.at:.2f} s after {self.told(before)}",
                )
            if arrival.status not in TRANSIENT:
                before = arrival
        if (sending.root, target) in self.lapsed or sending.retried:
            return  # who has it next knows nothing of what was asked for
        for refused, again in zip(arrivals, arrivals[1:]):
            if refused.status and again.at < refused.answered_at + refused.decision.retry_after - 0.05:
                self.find(
                    "too soon",
                    f"{where} arrived again {again.at - refused.answered_at:.2f} s after {self.told(refused)}, "
                    f"which asked for {refused.decision.retry_after} s",
                )

    @staticmethod
    def told(arrival):
        return f"it was answered {arrival.status} {arrival.decision.reason}".strip() if arrival.status else "no answer"

    def is_excused(self, sending, target, arrival):
        """Whether nobody can be expected to know what became of an arrival."""
        if arrival.answered_at is None or self.model.may_be_unread(arrival):
            return True
        deadlines = self.lapsed.get((sending.root, target), [])
        known_at = arrival.answered_at + (SILENCE if arrival.is_binary else 0)
        return any(known_at > deadline - self.lease - FLUSHING for deadline in deadlines)

    def is_uncertain(self, sending, target, arrivals, end):
        """Whether it may end as unknown."""
        if (sending.root, target) in self.lapsed:
            return True
        # What was under way when a connection was reset has not been read, and its sender cannot tell that from what
        # has.
        if any(
            where == sending.queue.environment and sending.begins <= at <= end.ended_at for where, at in self.resets
        ):
            return True
        return any(a.answered_at is None or self.model.may_be_unread(a) for a in arrivals)

    def had_outage(self, sending, since, until):
        """Whether there may have been an outage between two times for a worker that sent to those who share its
        credential: in it no attempts are spent."""
        for answers in self.answers_over(sending.queue.credential, sending.queue.environment).values():
            first = bisect.bisect_left(answers, (since, False)) - LATEST
            last = bisect.bisect_right(answers, (until, True))
            refused = [is_refused for _, is_refused in answers[max(first, 0) : last]]
            # Half of fifty, or five in a row; with less in a row, since a worker may have read them in another order.
            if any(sum(refused[n : n + 10]) >= 4 for n in range(max(len(refused) - 9, 1))):
                return True
        return False

    def answers_over(self, credential, environment):
        """What a credential was answered at each door, and at all together: pairs of a time and whether that was a
        refusal for the moment, in order."""
        if (credential, environment) not in self.answered:
            doors = collections.defaultdict(list)
            for sent in self.model.sendings:
                if (sent.queue.credential, sent.queue.environment) == (credential, environment):
                    for target in sent.may:
                        for a in self.arrivals.get((sent.root, target), ()):
                            for door in (a.door, None) if a.status else ():
                                doors[door].append((a.answered_at, a.status in TRANSIENT))
            self.answered[credential, environment] = {door: sorted(answers) for door, answers in doors.items()}
        return self.answered[credential, environment]

    def judge_outcome(self, sending, target, entries, arrivals, where):
        ends = [entry for entry in entries if entry.kind in FINAL and not entry.sent_again]
        waiting = [entry for entry in entries if entry.kind == "waiting"]
        if self.is_in_quiet_hours(entries, ends):
            return
        if waiting or len(ends) != 1:
            is_ahead = sending.is_far_ahead and not sending.cancelled and len(waiting) == 1 and not ends
            if not is_ahead or abs(waiting[0].run_at - sending.begins) > 0.01:
                shown = ", ".join(entry.kind for entry in entries)
                self.find("outcome", f"{where} does not have one outcome: {shown}")
            return
        (end,) = ends
        told = [a for a in arrivals if a.status and a.status not in TRANSIENT]
        transient = [a for a in arrivals if a.status in TRANSIENT]
        # An earlier end tells of what was sent until then: that of a failure that somebody had sent again.
        given_up = max((entry.ended_at for entry in entries if entry.sent_again), default=-math.inf)
        recent = [a for a in arrivals if a.at > given_up]
        concerned = recent if end.kind in ("suppressed", "expired", "cancelled") else arrivals
        complaint = getattr(self, f"not_{end.kind}")(sending, target, end, concerned, told, transient)
        if complaint is None and end.kind not in ("delivered", "rejected"):
            certain = [a for a in told if not self.is_excused(sending, target, a)]
            if certain:
                complaint = self.told(certain[0])
        if complaint:
            self.find("outcome", f"{where} is {end.kind} {end.reason}".strip() + f", but {complaint}")

    def is_in_quiet_hours(self, entries, ends):
        """Whether it still waits for their end, when the episode is over."""
        last = max((event.ended for event in self.model.history.events), default=0)
        return (
            not ends
            and len(entries) > 1
            and [entry.kind for entry in entries].count("waiting") == 1
            and (entries[-2].kind, entries[-2].reason) == ("postponed", QUIET)
            and last < entries[-1].run_at < FOR_EVER
        )

    # Each says why an outcome is wrong, or nothing.

    def not_delivered(self, sending, target, end, arrivals, told, transient):
        if sending.queue.is_binary and self.record.was_late(sending.begins, end.ended_at):
            return None
        if not any(a.status == 200 for a in told):
            return f"APNs never said so: {self.answers(arrivals)}"
        if all(self.is_excused(sending, target, a) for a in told):
            return None
        first = next(a for a in told if not self.is_excused(sending, target, a))
        return None if first.status == 200 else self.told(first)

    def not_rejected(self, sending, target, end, arrivals, told, transient):
        fitting = [a for a in told if a.status != 200 and self.reason(a) == end.reason]
        if not fitting:
            return f"APNs never said so: {self.answers(arrivals)}"
        if end.note is None and any(root == sending.root for root, _ in self.lapsed):
            return None  # the words went with a worker, which writes them down at the end of a job
        if end.reason == "Other" and end.note != fitting[-1].decision.reason:
            return f"its words are noted as {end.note}"
        certain = [a for a in told if not self.is_excused(sending, target, a)]
        return self.told(certain[0]) if certain and certain[0] not in fitting else None

    def not_failed(self, sending, target, end, arrivals, told, transient):
        attempts = sending.queue.attempts
        if end.reason == "Quarantined" and (sending.root, target) in self.lapsed:
            return None
        if len(transient) < attempts:
            return f"its {attempts} attempts were not used up: {self.answers(arrivals)}"
        if self.reason(transient[-1]) != end.reason:
            return f"the last answer was {self.told(transient[-1])}"
        more = len(transient) > attempts * (1 + sending.retried)
        is_excused = more and (
            self.had_outage(sending, transient[0].answered_at, end.ended_at)
            or self.is_uncertain(sending, target, arrivals, end)
        )
        if more and not is_excused:
            return f"it was tried more than {attempts} times: {self.answers(arrivals)}"
        return None

    def not_suppressed(self, sending, target, end, arrivals, told, transient):
        if end.reason == CAPPED:
            if not self.caps.may_hold_back(sending, target, end.ended_at):
                return "its device had not had so many"
            return self.not_untouched(sending, target, arrivals)
        if end.reason == QUIET:
            before = [entry.ended_at for entry in self.books.entries[sending.root, target] if entry.ended_at < end.ended_at]
            if not self.quiet.may_be_too_late(sending, target, max([sending.begins, *before]), end.ended_at):
                return "its quiet hours did not last beyond its time"
            return self.not_untouched(sending, target, arrivals)
        if end.reason:
            if end.reason != LACKS or not self.model.personal(sending, target):
                return "nothing of its text was too much"
            if not self.model.may_lack(sending, target, end.ended_at):
                return "it has what its text asks for"
            return self.not_untouched(sending, target, arrivals)
        if not self.model.may_be_suppressed(sending, target, end.ended_at):
            return "its device was active, and nothing newer had come"
        return self.not_untouched(sending, target, arrivals)

    def not_expired(self, sending, target, end, arrivals, told, transient):
        if end.ended_at < sending.ends - CLAIMING:
            return "its time had not passed"
        return self.not_untouched(sending, target, arrivals)

    def not_cancelled(self, sending, target, end, arrivals, told, transient):
        if sending.cancelled is None or end.ended_at < sending.cancelled[0]:
            return "nobody had cancelled it"
        return self.not_untouched(sending, target, arrivals)

    def not_unknown(self, sending, target, end, arrivals, told, transient):
        if not self.is_uncertain(sending, target, arrivals, end):
            return f"nothing had been lost: {self.answers(arrivals)}"
        if not sending.message.at_most_once and not self.may_be_given_up(sending, target, end, arrivals):
            return f"it could have been sent again: {self.answers(arrivals)}"
        return None

    def may_be_given_up(self, sending, target, end, arrivals):
        """Whether it may be that what may have arrived was not sent again, though that is allowed: it was lost too
        often, or its turn came when nothing was to be sent to it any more."""
        lost = sum(a.answered_at is None or self.model.may_be_unread(a) for a in arrivals)
        lost += len(self.lapsed.get((sending.root, target), ()))
        # What was written and not read has not arrived.
        lost += sum(
            where == sending.queue.environment and sending.begins <= at <= end.ended_at for where, at in self.resets
        )
        is_over = end.ended_at >= sending.ends or sending.cancelled and end.ended_at >= sending.cancelled[0]
        return (
            lost >= LOSSES
            or is_over
            or self.model.may_be_suppressed(sending, target, end.ended_at)
            or self.caps.may_hold_back(sending, target, end.ended_at)
            or self.quiet.may_be_too_late(sending, target, sending.begins, end.ended_at)
            or bool(self.model.personal(sending, target) and self.model.may_lack(sending, target, end.ended_at))
        )

    @staticmethod
    def not_untouched(sending, target, arrivals):
        return "it had been sent and nobody knows what became of it" if any(a.status == 0 for a in arrivals) else None

    @staticmethod
    def reason(arrival):
        """The reason under which the books keep an answer."""
        known = arrival.decision.reason in DEAD | SUSPECT | {GONE} or arrival.status in TRANSIENT
        return arrival.decision.reason if known else "Other"

    @staticmethod
    def answers(arrivals):
        return (
            ", ".join(f"{a.status} {a.decision.reason}".strip() if a.status else "no answer" for a in arrivals)
            or "nothing arrived"
        )

    def judge_retries(self):
        """Who had failed is sent to again when somebody asks for it."""
        for event in self.model.history.events:
            operation = event.operation
            if not isinstance(operation, RetryFailed):
                continue
            if operation.key is not None:
                sendings = list(self.model.campaign(operation))
            else:
                sendings = [s for s in self.model.sendings if event.root is not None and s.root == event.root]
            for sending in sendings:
                # Both are refused.
                is_over = sending.event.expiration and sending.event.expiration <= event.ended
                if not sending.cancelled and not is_over:
                    self.judge_retry(sending, event)

    def judge_retry(self, sending, event):
        for target in sorted(sending.may):
            for entry in self.books.entries.get((sending.root, target), ()):
                is_meant = event.job is None or entry.job == event.job
                had_failed = entry.kind == "failed" and entry.ended_at < event.began - ENDING
                if is_meant and had_failed and not entry.sent_again:
                    why = f": {event.error}" if event.error else ""
                    where = f"{self.name(sending)} to {short(target)}"
                    self.find("not sent again", f"{where} had failed before it was retried{why}")

    # MARK: The books by themselves

    def judge_strangers(self):
        """Nobody is in the books whom nothing was sent to."""
        known = {sending.root: sending for sending in self.model.sendings}
        for root, target in self.books.entries:
            sending = known.get(root)
            if sending is None:
                self.find("stranger", f"the books have recipients of {root}, which nobody sent")
            elif target not in sending.may:
                self.find("stranger", f"the books have {short(target)} as a recipient of {self.name(sending)}")

    def judge_sums(self):
        for job, written, counted in self.books.tallies:
            if written != counted:
                self.find("sum", f"job {job} counts {written}, and its bytes are {counted}")
        by_queue = collections.defaultdict(collections.Counter)
        for sending in self.model.sendings:
            by_campaign, held_back = collections.Counter(), collections.Counter()
            by_share = collections.defaultdict(collections.Counter)
            recipients = 0
            for target in sending.may:
                entries = self.books.entries.get((sending.root, target), [])
                recipients += bool(entries)
                kinds = ["retried" if entry.sent_again else entry.kind for entry in entries]
                by_queue[sending.queue.name].update(kinds)
                by_campaign.update(kinds)
                held_back.update(entry.reason for entry in entries if entry.kind == "suppressed")
                by_share[self.model.share(sending, target)].update(kinds + ["total"] * bool(entries))
            by_queue[sending.queue.name]["cancelled"] += self.judge_campaign(sending, recipients, by_campaign, held_back)
            if getattr(sending.event.operation, "has_shares", False):
                self.judge_shares(sending, by_share)
        for queue, row in self.books.stats.items():
            counted = by_queue[queue]
            for kind in KINDS:
                if row[kind] != counted[kind]:
                    self.find("sum", f"stats say {kind} {row[kind]} of {queue}, and it was {counted[kind]}")
        for queue, row in self.books.stats.items():
            devices = [device for (name, _), device in self.books.devices.items() if name == queue]
            inactive = sum(not device.active for device in devices)
            if (row["devices"], row["inactive"]) != (len(devices) - inactive, inactive):
                self.find("sum", f"stats say devices {row['devices']}, inactive {row['inactive']} of {queue}")

    def judge_campaign(self, sending, recipients, counted, held_back):
        """Judges what is shown of a campaign, and returns how many of its list were cancelled before they were in a job."""
        key = getattr(sending.event.operation, "key", None)
        row = self.books.campaigns.get((sending.queue.name, key))
        if row is None or row["campaign_id"] != sending.root:
            return 0
        where, beyond = self.name(sending), 0
        # Of a list it is known who was in no job yet when the campaign was cancelled: they count, too. Who of them would
        # have been in a holdout, nobody has looked at.
        if sending.cancelled and sending.event.operation.tokens is not None and sending.held_out:
            missing = len(sending.may) - recipients
            if not counted["cancelled"] + missing <= row["cancelled"] <= counted["cancelled"] + missing + sending.held_out[1]:
                self.find("sum", f"{where} counts cancelled {row['cancelled']}, of whom {counted['cancelled']} were in jobs")
            beyond = row["cancelled"] - counted["cancelled"]
            counted, recipients = counted + collections.Counter(cancelled=beyond), recipients + beyond
        elif sending.cancelled and sending.listed is not None:
            beyond = max(row["cancelled"] - counted["cancelled"], 0)
            counted, recipients = counted + collections.Counter(cancelled=beyond), recipients + beyond
            if not sending.listed[0] <= recipients <= sending.listed[1]:
                self.find("sum", f"{where} counts {recipients} devices of its users, who had {sending.listed}")
        elif sending.cancelled and sending.event.operation.tokens is not None:
            beyond = len(sending.may) - recipients
            counted, recipients = counted + collections.Counter(cancelled=beyond), len(sending.may)
        for kind in KINDS:
            if row[kind] != counted[kind]:
                self.find("sum", f"{where} counts {kind} {row[kind]}, and it was {counted[kind]}")
        if row["total"] != recipients:
            self.find("sum", f"{where} counts {row['total']} recipients, and has {recipients}")
        if row["waiting"] != counted["waiting"] or row["finished"] != (counted["waiting"] == 0):
            self.find("sum", f"{where} counts {row['waiting']} waiting, finished {row['finished']}")
        shown = self.books.shown[sending.queue.name, key]
        for kind in (*KINDS, "total", "waiting"):
            if shown[kind] != row[kind]:
                self.find("sum", f"campaign show says {kind} {shown[kind]} of {where}, and the view {row[kind]}")
        if (asleep := shown.get("in_quiet_hours", 0)) != counted["waiting"]:
            self.find("sum", f"campaign show says in_quiet_hours {asleep} of {where}, and {counted['waiting']} wait")
        for reason, name in SHOWN.items():
            if shown.get(name, 0) != held_back[reason]:
                self.find("sum", f"campaign show says {name} {shown.get(name, 0)} of {where}, and it was {held_back[reason]}")
        return beyond

    def judge_shares(self, sending, counted):
        """What a command shows of each share. Of a campaign that was cancelled it is not known how far it had got."""
        where = self.name(sending)
        shown = self.books.shown.get((sending.queue.name, sending.event.operation.key))
        if shown is None or sending.cancelled:
            return
        rows = {row["share"]: row for row in shown["shares"]}
        held_out = rows.pop("holdout", {"total": 0})["total"]
        least, most = sending.held_out or (0, 0)
        if not least <= held_out <= most:
            self.find("sum", f"{where} shows {held_out} in its holdout instead of {least} to {most}")
        if held_out != shown.get("held_out", 0):
            self.find("sum", f"{where} shows {held_out} in its holdout, and {shown.get('held_out')} who are held out")
        for share in {*rows, *counted} - {None}:
            row = rows.get(share, {})
            for kind in (*ENDINGS, "waiting", "total"):
                if row.get(kind) != counted[share][kind]:
                    self.find("sum", f"{where} shows {kind} {row.get(kind)} of {share}, and it was {counted[share][kind]}")

    # MARK: Devices

    def judge_devices(self):
        end = max((event.ended for event in self.model.history.events), default=0) + 1
        for place in sorted(set(self.books.devices) | {p for p, d in self.model.devices.items() if d.changes}):
            row, device = self.books.devices.get(place), self.model.devices[place]
            where = f"{short(place[1])} of {place[0]}"
            states = device.states(end, self.model.settled)
            if row is None or not device.changes:
                self.find("device", f"{where} is {'not there' if row is None else 'there, and nobody made it'}")
                continue
            if row.active not in states:
                self.find("device", f"{where} is {'active' if row.active else 'inactive'}: {self.story(device)}")
            elif not row.active and row.reason is not None and not any(r.reason == row.reason for r in device.reports):
                self.find("device", f"{where} is inactive because of {row.reason}, which APNs never said")
            elif not row.active and row.reason is None and False not in device.states_by_hand(end):
                self.find("device", f"{where} is inactive as if by hand")
            if {row.user} != device.users_at(end):
                self.find("device", f"{where} belongs to {row.user} instead of {device.users_at(end)}")
        for queue, tokens in self.books.exported.items():
            active = {token for (name, token), row in self.books.devices.items() if name == queue and row.active}
            if len(tokens) != len(set(tokens)) or set(tokens) != active:
                self.find("device", f"the export of {queue} has {len(tokens)} devices, and {len(active)} are active")

    @staticmethod
    def story(device):
        """What happened to a device, for a report."""
        parts = [
            (c.ended, ("registered" if c.registers == "yes" else "active") if c.active else "deactivated")
            for c in device.changes
        ]
        parts += [(r.answered_at, f"{r.reason} since {r.since:.3f}") for r in device.reports]
        return ", ".join(f"{time:.3f} {what}" for time, what in sorted(parts))

    def judge_channels(self):
        for (queue, channel), retired in self.books.retired.items():
            if retired and (queue, channel) not in self.model.gone:
                self.find("channel", f"{channel} of {queue} is retired, and APNs knows it")
            certain = [
                e for e in self.books.entries.items() if e[0][1] == channel and any(x.reason == GONE for x in e[1])
            ]
            if certain and not retired:
                self.find("channel", f"{channel} of {queue} is not retired, and APNs does not know it")

    def judge_rates(self):
        """No more than the rate of a queue with its burst, in whatever time; a busy machine bunches what it reads."""
        arrivals = collections.defaultdict(list)
        for arrival in self.record.arrivals:
            sending = self.model.by_payload.get(arrival.body)
            if sending is not None and sending.queue.rate:
                arrivals[sending.queue.name].append(arrival.at)
        for name, times in arrivals.items():
            queue = self.model.episode.queue(name)
            worst = max(self.excess(sorted(times), queue.rate))
            if worst > queue.burst + queue.rate * BUNCHING:
                self.find("rate", f"{name} sent {worst:.0f} more than its rate of {queue.rate} a second")

    @staticmethod
    def excess(times, rate):
        """For each arrival the most that came beyond the rate in a stretch that ends with it."""
        level, before = 0.0, times[0]
        for time in times:
            level = max(level - (time - before) * rate, 0.0) + 1
            before = time
            yield level

    def judge_feedback(self):
        """A row for each refusal that is about a device, and for nothing else; deactivated or kept by the rule."""
        rows = collections.defaultdict(list)
        for row in self.books.feedback:
            rows[row.queue, row.token].append(row)
        opened = [o for o in self.model.episode.operations if isinstance(o, OpenTransaction)]
        kept = {(change.queue, change.token) for operation in opened for change in operation.changes}
        for sending in self.model.sendings:
            for target in () if sending.is_broadcast else sending.may:
                for entry in self.books.entries.get((sending.root, target), []):
                    # What a producer's transaction keeps waiting is written down together, after its end.
                    waited = math.inf if (sending.queue.name, target) in kept else 0.001
                    if entry.kind == "rejected" and concerns_device(entry.reason, sending.message.push_type):
                        # Of two reports that are written down together, one row tells.
                        if not any(
                            row.reason == entry.reason or -0.001 < row.recorded_at - entry.ended_at < waited
                            for row in rows.get((sending.queue.name, target), ())
                        ):
                            self.find(
                                "feedback", f"{entry.reason} of {short(target)} in {sending.queue.name} has no row"
                            )
        for queue, listed in self.books.listed.items():
            counted = collections.Counter(
                (row.reason, row.verdict) for row in self.books.feedback if row.queue == queue
            )
            if listed != counted:
                self.find("feedback", f"feedback list shows {dict(listed)} of {queue}, and there are {dict(counted)}")
        for row in self.books.feedback:
            self.judge_feedback_row(row, self.model.devices.get((row.queue, row.token)))

    def judge_feedback_row(self, row, device):
        where = f"{row.reason} of {short(row.token)} in {row.queue}"
        reports = (
            [r for r in device.reports if r.reason == row.reason and r.answered_at <= row.recorded_at + 0.001]
            if device
            else []
        )
        timed = [r for r in reports if r.earliest - 0.0015 <= row.reported_at <= r.since + 0.0015]
        if not timed:
            self.find("feedback", f"{where} at {row.reported_at:.3f} was never reported")
            return
        if row.verdict == "undone" and not any(self.undoes(event, row) for event in self.model.history.events):
            self.find("feedback", f"{where} was undone, and nobody had asked for it")
        if row.verdict not in (
            ("suspect", "deactivated", "kept", "undone") if row.reason in SUSPECT else ("deactivated", "kept", "undone")
        ):
            self.find("feedback", f"{where} has the verdict {row.verdict}")
        for event, token in self.model.undone:
            if row.verdict == "deactivated" and token == row.token and self.undoes(event, row, event.began):
                self.find("feedback", f"{where} stays as deactivated, though that was undone")
        listed = row.verdict == "deactivated" and row.listed_at
        if listed and {device.registered_after(r, listed - LISTING) for r in timed} == {"yes"}:
            self.find("feedback", f"{where} was listed, though it had registered again before: {self.story(device)}")
        if row.reason in SUSPECT:
            return
        later = {device.registered_after(r, row.recorded_at) for r in timed}
        if row.verdict == "deactivated" and later == {"yes"}:
            self.find("feedback", f"{where} deactivated it, though it had registered again: {self.story(device)}")
        # A device that registers before its report is listed is not listed as dead.
        if row.verdict == "kept" and {device.registered_after(r, self.model.end) for r in timed} == {"no"}:
            since = min(r.answered_at for r in timed)
            others = [r for r in device.reports if r not in timed and r.answered_at <= row.recorded_at]
            if (
                not others
                and len(timed) < 2
                and False
                not in {
                    state
                    for moment in device.moments(since, row.recorded_at)
                    for state in device.states_by_hand(moment)
                }
            ):
                self.find("feedback", f"{where} was kept, though it had not registered again: {self.story(device)}")

    def undoes(self, event, row, by=None):
        """Whether a call was to undo what a row tells of, if it was written down by then."""
        operation = event.operation
        by = event.ended if by is None else by
        if isinstance(operation, Reactivate):
            return operation.queue == row.queue and row.token in operation.tokens and row.recorded_at <= by
        if not isinstance(operation, UndoDeactivations) or operation.queue != row.queue:
            return False
        roots = {sending.root for sending in self.model.campaign(operation)}
        return (
            row.recorded_at <= by
            and (operation.key is None or row.root in roots)
            and operation.reason in (None, row.reason)
            and (event.since is None or row.recorded_at >= event.since)
        )

    def judge_followed(self):
        """A producer who goes by cursors misses no deactivation, reads none twice, and learns which push it was."""
        if self.model.history.unfollowed:
            self.find("followed", f"a producer could not go on: {self.model.history.unfollowed}")
        for queue, rows in self.model.history.followed.items():
            for before, row in zip(rows, rows[1:]):
                if row.cursor <= before.cursor:
                    self.find("followed", f"{queue} had the cursor {row.cursor} behind {before.cursor}")
            read = collections.Counter((row.verdict, row.token, row.reason, round(row.reported_at, 3)) for row in rows)
            happened, perhaps = self.deactivations(queue)
            for (verdict, token, reason, _), count in (happened - read).items():
                self.find("followed", f"{reason} of {short(token)} in {queue} is {verdict}, and its producer missed it")
            for (verdict, token, reason, _), count in (read - happened - perhaps).items():
                self.find("followed", f"{reason} of {short(token)} in {queue} was read as {verdict} {count} times too often")
            dead = {t for (name, t), row in self.books.devices.items() if name == queue and not row.active and row.reason}
            late = {row.token for row in self.books.feedback if row.queue == queue and row.is_late(self.model.end)}
            for token in sorted(dead - late - {row.token for row in rows}):
                self.find("followed", f"{short(token)} of {queue} is inactive, and its producer does not know")
            for row in rows:
                self.judge_answer_of(queue, row)

    def judge_webhooks(self):
        webhooks = Webhooks(self.model, self.books)
        for kind, detail in webhooks.findings:
            self.find(kind, detail)
        for queue, row in webhooks.rows:
            self.judge_answer_of(queue, row)

    def deactivations(self, queue):
        """What there was to read of a queue's devices, and what there may have been besides: of a deactivation that was
        undone, whoever was early read both, and others the last."""
        happened, perhaps = collections.Counter(), collections.Counter()
        for row in self.books.feedback:
            if row.queue == queue and row.verdict in ("deactivated", "undone"):
                told = (row.token, row.reason, round(row.reported_at, 3))
                (perhaps if row.is_late(self.model.end) else happened)[row.verdict, *told] += 1
                perhaps["deactivated", *told] += row.verdict == "undone"
        return happened, perhaps

    def judge_answer_of(self, queue, row):
        """What the producer reads of the push that was answered so is what was sent."""
        where = f"{row.reason} of {short(row.token)} in {queue}"
        sending = next((sent for sent in self.model.sendings if sent.root == row.root), None)
        if sending is None:
            self.find("followed", f"{where} is said to answer {row.root}, which nobody sent")
            return
        operation = sending.event.operation
        key = operation.key if isinstance(operation, Campaign) else None
        if row.key != key:
            self.find("followed", f"{where} is said to answer the campaign {row.key}, and it was {key}")
        said = [a for a in self.arrivals[sending.root, row.token] if a.decision.reason == row.reason]
        if not said:
            self.find("followed", f"{where} is said to answer {self.name(sending)}, which was not answered so")
        elif not sending.queue.is_binary and row.identifier not in {a.header("apns-id") for a in said}:
            self.find("followed", f"{where} has the apns-id {row.identifier}, which was not answered so")

    def judge_traces(self):
        """A trace shows the identifiers that were sent, and the traceparent that came with the send."""
        for sending in self.model.sendings:
            rows = self.books.traced.get(sending.root, [])
            for row in rows:
                sent = {
                    arrival.header("apns-id")
                    for target in (sending.may if row.token_start else ())
                    if target.startswith(row.token_start[:8])
                    for arrival in self.arrivals.get((sending.root, target), ())
                }
                if sent and not sending.queue.is_binary and row.identifier not in sent:
                    self.find("trace", f"{self.name(sending)} is traced with the apns-id {row.identifier}")
            shown = {row.traceparent for row in rows} - {None}
            given = {sending.event.traceparent} - {None} if any(row.identifier for row in rows) else set()
            if shown != given:
                self.find("trace", f"{self.name(sending)} shows the traceparent {shown} instead of {given}")

    # MARK: Queues and workers

    def judge_queues(self):
        for queue, reason in self.books.paused.items():
            suspects = sum(row.queue == queue and row.reason in SUSPECT for row in self.books.feedback)
            if suspects < 10:
                self.find("queue", f"{queue} is paused at the end: {reason}")

    def judge_workers(self):
        for exit_ in self.books.exits:
            # One that loses PostgreSQL before it has begun says so and ends; its supervisor starts it again.
            if exit_.code == 1 and "started as" not in exit_.log and "the database was lost" in exit_.log:
                continue
            if exit_.code != exit_.expected:
                last = " / ".join(exit_.log.strip().splitlines()[-3:])
                self.find("worker", f"{exit_.door} ended with {exit_.code} instead of {exit_.expected}: {last[:600]}")
            if "Fatal error" in exit_.log:
                self.find("worker", f"{exit_.door} says: {exit_.log[exit_.log.index('Fatal error'):][:300]}")
            for secret in self.books.secrets:
                if secret in exit_.log:
                    self.find("secret", f"the log of {exit_.door} holds a whole token or key: {secret[:8]}…")
        lost_by_trouble = any(kind != "cut" for kind, *_ in self.model.history.faults)
        died = any(exit_.code != exit_.expected for exit_ in self.books.exits)
        if self.books.lapsed and not lost_by_trouble and not died and self.lease >= 10:
            self.find("lease", f"{len(self.books.lapsed)} leases ran out, though no worker was disturbed")


def judge(model, record, books, lease):
    """Everything that is wrong, the most telling first."""
    findings = Judge(model, record, books, lease).judge()
    order = ["stranger", "worker", "payload", "sent twice", "left out", "outcome"]
    return sorted(findings, key=lambda f: order.index(f.kind) if f.kind in order else len(order))
