"""Frequency caps, as docs/frequency-caps.md explains them: what a device may get, and who may be held back.

It counts what arrived, by the recording APNs' own clock, and knows nothing of places. A device that got more than its
queue's cap allows is found whatever the books say; one that was held back has to have had that many."""

import collections
import datetime
import math
from zoneinfo import ZoneInfo

from .changes import in_force
from .clocks import first_instant
from .filters import Profile

# From when a push counts until it is sent.
TAKEN = 10.0
# What a busy machine may put between two moments that belong together: a sender's and a reader's.
SLACK = 5.0


def day_began(zone, time):
    """When the day began that clocks in a zone show at a time."""
    local = datetime.datetime.fromtimestamp(time, ZoneInfo(zone)).replace(tzinfo=None)
    return first_instant(local.replace(hour=0, minute=0, second=0, microsecond=0), ZoneInfo(zone)).timestamp()


class Caps:
    """Holds what arrived against the caps of an episode's queues. `arrivals` are those that were looked at, by root and
    token; `lapsed` are the ends of leases that were taken from workers that were gone."""

    def __init__(self, model, books, arrivals, lapsed):
        self.model, self.books, self.arrivals, self.lapsed = model, books, arrivals, lapsed
        self.changes = model.history.caps  # queue -> (from, until, cap or none)
        self.pushes = collections.defaultdict(list)  # (queue, token) -> sendings that may count
        for sending in model.sendings:
            if self.is_for(sending):
                for token in sending.may:
                    self.pushes[sending.queue.name, token].append(sending)

    def is_for(self, sending):
        """Whether a push may have counted, and been held back, under one of the caps that its queue had."""
        if sending.is_broadcast:
            return False
        caps = [cap for _, _, cap in self.changes.get(sending.queue.name, ()) if cap is not None]
        return any(cap.is_for(sending.event.operation) for cap in caps)

    def caps(self, queue, since, until):
        """The caps that a queue may have between two times; none among them: it has no cap then."""
        return in_force(self.changes.get(queue.name, ()), since, until)

    def surely(self, sending, since, until):
        """The caps between two times, if a push counts under each of them and there is always one; else nothing."""
        caps = self.caps(sending.queue, since, until)
        return caps if all(cap is not None and cap.is_for(sending.event.operation) for cap in caps) else set()

    def zones(self, cap, queue, token, since, until):
        """The time zones that a device may have had between two times."""
        device = self.model.devices[queue.name, token]
        profiles = set()
        for moment in device.moments(since, until):
            profiles |= device.current(device.profiles, moment, Profile())
        return {profile.zone or cap.zone or "UTC" for profile in profiles}

    # MARK: Too many

    def excesses(self):
        """Devices that got more than they may: (queue, token, time, how many, the cap)."""
        for (name, token), sendings in sorted(self.pushes.items()):
            got = sorted(self.got(sendings, token), key=lambda one: one[0])
            for time, sending in got:
                caps = self.surely(sending, time - TAKEN - SLACK, time)
                count = sum(at <= time and self.counts_surely(other, token, at, time) for at, other in got)
                if caps and count > max(cap.pushes for cap in caps):
                    yield name, token, time, count, max(caps, key=lambda cap: cap.pushes)
                    break

    def counts_surely(self, sending, token, at, time):
        """Whether what arrived at `at` counts at `time`. A cap knows of what came since it was set, and after a change to
        a longer period of what the shorter one still knew of."""
        caps = self.surely(sending, at - TAKEN - SLACK, at) and self.caps(sending.queue, at - TAKEN - SLACK, time)
        return bool(caps) and all(cap is not None and at >= self.period(cap, sending.queue, token, time) for cap in caps)

    def got(self, sendings, token):
        """When a device got something, and what: what APNs took. What it refused in the end does not count, whatever it had
        said before; and a repeat, of what stayed unanswered for half a minute, is one push with that."""
        for sending in sendings:
            arrivals = self.arrivals.get((sending.root, token), [])
            if arrivals and arrivals[-1].decision.status == 200:
                yield next(a.at for a in arrivals if a.decision.status == 200 or a.answered_at is None), sending

    def period(self, cap, queue, token, time):
        """Since when pushes surely count together with one that arrived at `time`."""
        if cap.seconds is not None:
            return time - cap.seconds + SLACK
        # What was taken up before midnight counts for the day before.
        zones = self.zones(cap, queue, token, time - TAKEN - SLACK, time)
        return max(day_began(zone, time) + TAKEN + SLACK for zone in zones)

    # MARK: Held back

    def may_hold_back(self, sending, token, ended_at):
        """Whether so many other pushes may have reached a device at some moment at which this one's turn may have come
        that it was rightly held back."""
        if not self.is_for(sending):
            return False
        others = [
            span
            for other in self.pushes[sending.queue.name, token]
            if other.root != sending.root and (span := self.counts(other, token)) is not None
        ]
        return any(
            sum(first <= moment + SLACK and last >= since for first, last in others) >= cap.pushes
            for moment in self.turns(sending, others, ended_at)
            for cap in self.caps(sending.queue, moment - SLACK, moment) - {None}
            if cap.is_for(sending.event.operation)
            for since in [self.earliest(cap, sending.queue, token, moment)]
        )

    def turns(self, sending, others, ended_at):
        """Moments at which its turn may have come: looking at these is looking at all."""
        set_at = [ended for _, ended, _ in self.changes.get(sending.queue.name, ())]
        for since, until in self.model.held(sending, ended_at):
            yield since
            yield until
            yield from (time for time in set_at if since <= time <= until)
            yield from (first for first, _ in others if since <= first <= until)

    def counts(self, sending, token):
        """Between when and when a push may have begun to count; None for one that does not."""
        arrivals = self.arrivals.get((sending.root, token), [])
        times = [
            a.at for a in arrivals
            if a.status == 200 or a.answered_at is None or self.model.may_be_unread(a)
        ]
        # What was written to a connection that ended before it was read may have arrived, as far as its sender knows. It
        # counts until its repeat has ended.
        ends = self.model.record.connection_ends.values()
        times += [end for end in ends if arrivals and sending.begins <= end <= arrivals[-1].at]
        # A push of which nothing is known any more may have been on its way, as far as anybody knows.
        times += self.lapsed.get((sending.root, token), [])
        entries = self.books.entries.get((sending.root, token), ())
        times += [entry.ended_at for entry in entries if entry.kind == "unknown"]
        # The silence of the binary interface means that it was taken, also of an APNs that had read nothing yet.
        for end in [entry.ended_at for entry in entries if entry.kind == "delivered" and sending.queue.is_binary]:
            times += [sending.begins, end] if self.model.record.was_late(sending.begins, end) else []
        if not times:
            return None
        first, last = min(times), max(times + [a.at for a in arrivals])
        caps = self.caps(sending.queue, first - TAKEN - SLACK, last) - {None}
        return (first, last) if any(cap.is_for(sending.event.operation) for cap in caps) else None

    def earliest(self, cap, queue, token, moment):
        """Since when a push may count at a moment."""
        if cap.seconds is not None:
            return moment - cap.seconds - TAKEN - SLACK
        zones = self.zones(cap, queue, token, moment - SLACK, moment)
        return min((day_began(zone, moment) for zone in zones), default=-math.inf) - SLACK
