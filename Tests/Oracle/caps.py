"""Frequency caps, as docs/frequency-caps.md explains them: what a device may get, and who may be held back.

It counts what arrived, by the recording APNs' own clock, and knows nothing of places. A device that got more than its
queue's cap allows is found whatever the books say; one that was held back has to have had that many."""

import collections
import datetime
import math
from zoneinfo import ZoneInfo

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
        self.pushes = collections.defaultdict(list)  # (queue, token) -> sendings that count
        for sending in model.sendings:
            if self.is_for(sending):
                for token in sending.may:
                    self.pushes[sending.queue.name, token].append(sending)

    @staticmethod
    def is_for(sending):
        """Whether a push counts, and may be held back."""
        cap = sending.queue.cap
        return cap is not None and not sending.is_broadcast and cap.is_for(sending.event.operation)

    def zones(self, queue, token, since, until):
        """The time zones that a device may have had between two times."""
        device = self.model.devices[queue.name, token]
        profiles = set()
        for moment in device.moments(since, until):
            profiles |= device.current(device.profiles, moment, Profile())
        return {profile.zone or queue.cap.zone or "UTC" for profile in profiles}

    # MARK: Too many

    def excesses(self):
        """Devices that got more than they may: (queue, token, time, how many)."""
        for (name, token), sendings in sorted(self.pushes.items()):
            got = sorted(self.got(sendings, token))
            queue = sendings[0].queue
            for time, _ in got:
                since = max(self.periods(queue, token, time))
                count = len({root for at, root in got if since <= at <= time})
                if count > queue.cap.pushes:
                    yield name, token, time, count
                    break

    def got(self, sendings, token):
        """When a device got something, and of which root: what APNs took. What it refused in the end does not count,
        whatever it had said before; and a repeat, of what stayed unanswered for half a minute, is one push with that."""
        for sending in sendings:
            arrivals = self.arrivals.get((sending.root, token), [])
            if arrivals and arrivals[-1].decision.status == 200:
                yield next(a.at for a in arrivals if a.decision.status == 200 or a.answered_at is None), sending.root

    def periods(self, queue, token, time):
        """Since when pushes count together with one that arrived at `time`."""
        if queue.cap.seconds is not None:
            return [time - queue.cap.seconds + SLACK]
        # What was taken up before midnight counts for the day before.
        zones = self.zones(queue, token, time - TAKEN - SLACK, time)
        return [day_began(zone, time) + TAKEN + SLACK for zone in sorted(zones)]

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
            sum(first <= moment + SLACK and last >= since for first, last in others) >= sending.queue.cap.pushes
            for moment in self.turns(sending, others, ended_at)
            for since in [self.earliest(sending.queue, token, moment)]
        )

    def turns(self, sending, others, ended_at):
        """Moments at which its turn may have come: looking at these is looking at all."""
        for since, until in self.model.claimable(sending, ended_at):
            yield until
            yield from (first for first, _ in others if since <= first <= until)

    def counts(self, sending, token):
        """Between when and when a push may have begun to count; None for one that does not."""
        arrivals = self.arrivals.get((sending.root, token), [])
        times = [
            a.at for a in arrivals
            if a.status == 200 or a.answered_at is None or self.model.may_be_unread(a)
        ]
        # A push of which nothing is known any more may have been on its way, as far as anybody knows.
        times += self.lapsed.get((sending.root, token), [])
        times += [e.ended_at for e in self.books.entries.get((sending.root, token), ()) if e.kind == "unknown"]
        if not times:
            return None
        return min(times), max(times + [a.at for a in arrivals])

    def earliest(self, queue, token, moment):
        """Since when a push may count at a moment."""
        if queue.cap.seconds is not None:
            return moment - queue.cap.seconds - TAKEN - SLACK
        zones = self.zones(queue, token, moment - SLACK, moment)
        return min((day_began(zone, moment) for zone in zones), default=-math.inf) - SLACK
