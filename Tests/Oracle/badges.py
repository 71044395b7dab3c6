"""Badges that count, as docs/messages.md explains them: which number a push may bring to a device.

It knows what was sent and reset, and what APNs answered; nothing of when a worker took a number. So it says between
which two numbers the one of an arrival has to be, and where not much happened at once, these are the same."""

import collections
import dataclasses
import json
import math
import re

from . import scenario as s

LARGEST = 99_999
# What APNs answers to a push that is sent again later, with a number that is taken anew.
TRANSIENT = {429, 500, 503}
OBJECT = re.compile(r'("badge"\s*:\s*)\d')


@dataclasses.dataclass
class Reset:
    """An app shows another number from a moment between the two on."""

    began: float
    ended: float
    badge: int
    is_certain: bool = True


def raised(payload, increment):
    """A payload that raises the badge, made from one with a number; and how it says so."""
    words = json.dumps({"increment": increment})
    return OBJECT.sub(lambda match: match.group(1) + words, payload), words


def figure(message, payload, text):
    """The number that came in the place of what raises the badge; None if what came is not the payload with one."""
    if message.personal:
        badge = json.loads(text).get("aps", {}).get("badge")
        return badge if isinstance(badge, int) and badge > 0 else None
    before, _, after = payload.partition(message.badge)
    number = text[len(before) : len(text) - len(after)]
    fits = text.startswith(before) and text.endswith(after) and re.fullmatch("[1-9][0-9]{0,4}", number)
    return int(number) if fits else None


class Badges:
    """Holds the numbers that arrived against what was sent to each device. `arrivals` are those that were looked at, by
    root and token; `lapsed` are the ends of leases that were taken from workers that were gone; `quiet` knows who has to
    wait for the end of quiet hours."""

    def __init__(self, model, arrivals, lapsed, quiet):
        self.model, self.arrivals, self.lapsed, self.quiet = model, arrivals, lapsed, quiet
        operations = [event.operation for event in model.history.events]
        self.paused = {(o.queue, o.key) for o in operations if isinstance(o, s.PauseCampaign)}
        self.raising = collections.defaultdict(list)  # (queue, token) -> sendings
        for sending in model.sendings:
            for token in () if sending.is_broadcast else sending.may:
                if model.message(sending, token).badge:
                    self.raising[sending.queue.name, token].append(sending)

    def complaints(self):
        """Pairs of a sending with a token, and what is wrong with the numbers that it brought."""
        for place, sendings in self.raising.items():
            figures = {sending.root: self.figures(sending, place[1]) for sending in sendings}
            for sending in sendings:
                if wrong := self.complaint(place, sending, figures[sending.root]):
                    yield sending, place[1], wrong
            if not self.model.resets[place] and all(self.stays(sending, place[1]) for sending in sendings):
                most = max(number for numbers in figures.values() for _, number in numbers)
                total = sum(self.model.message(sending, place[1]).raises for sending in sendings)
                if most < min(total, LARGEST):
                    yield sendings[-1], place[1], f"and all others brought at most {most}, and not {total}"

    def figures(self, sending, token):
        """Each arrival with its number."""
        message, payload = self.model.message(sending, token), self.model.given(sending, token)
        arrivals = self.arrivals.get((sending.root, token), ())
        return [(arrival, figure(message, payload, arrival.text.decode())) for arrival in arrivals]

    def complaint(self, place, sending, figures):
        taken_after = sending.begins
        for arrival, number in figures:
            if number is None:
                return f"brought {arrival.text[:120]} instead of its payload with a number"
            spans = list(self.spans(place, sending, taken_after, arrival.at))
            if not any(min(low, LARGEST) <= number <= high for low, high in spans):
                return f"brought {number} instead of {' or '.join(f'{low} to {high}' for low, high in spans)}"
            if arrival.status in TRANSIENT:
                taken_after = arrival.at
        if all(self.stays(other, place[1]) for other in self.raising[place]):
            for (before, number), (arrival, other) in zip(figures, figures[1:]):
                least = number - self.given_back(place, sending, before)
                if other < least and not self.may_change(place, sending, arrival):
                    return f"brought {other} after it had brought {number}"
        return None

    def spans(self, place, sending, taken_after, arrived_at):
        """Between which numbers its own is, for each reset that may have been the last one before it was taken."""
        resets = [Reset(-math.inf, -math.inf, 0), *self.model.resets[place]]
        raises = self.model.message(sending, place[1]).raises
        for number, reset in enumerate(resets):
            later = [r for r in resets[number + 1 :] if r.is_certain and r.began >= reset.ended]
            if reset.began > arrived_at or any(r.ended < taken_after for r in later):
                continue
            low = high = reset.badge + raises
            for other in self.raising[place]:
                if other is sending:
                    continue
                more = self.model.message(other, place[1]).raises
                arrivals = self.arrivals.get((other.root, place[1]), ())
                sure = [a for a in arrivals if a.status == 200] if self.may_wait(other) else arrivals
                first = min((arrival.at for arrival in sure), default=math.inf)
                last = max(arrival.at for arrival in arrivals) if self.stays(other, place[1]) else math.inf
                low += more if self.stays(other, place[1]) and other.begins > reset.ended and first < taken_after else 0
                high += more if other.begins <= arrived_at and last >= reset.began else 0
            yield low, high

    def stays(self, sending, token):
        """Whether it has surely been counted since it first arrived: it was accepted in the end, and refused only for
        the moment."""
        arrivals = self.arrivals.get((sending.root, token), ())
        is_accepted = bool(arrivals) and arrivals[-1].status == 200 and not sending.retried
        return is_accepted and all(arrival.status in {200, *TRANSIENT} for arrival in arrivals)

    def may_wait(self, sending):
        """Whether it may have waited for long, in a paused campaign or for the end of quiet hours. It is not counted
        meanwhile, unless it may have arrived."""
        key = getattr(sending.event.operation, "key", None)
        return (sending.queue.name, key) in self.paused or self.quiet.is_for(sending)

    def given_back(self, place, sending, arrival):
        """How much of the number of an arrival may have been of others that have waited since."""
        raises = 0
        for other in self.raising[place]:
            arrivals = self.arrivals.get((other.root, place[1]), ())
            has_arrived = any(a.status == 200 and a.at <= arrival.at for a in arrivals)
            if other is not sending and other.begins <= arrival.at and not has_arrived and self.may_wait(other):
                raises += self.model.message(other, place[1]).raises
        return raises

    def may_change(self, place, sending, arrival):
        """Whether an arrival may bring another number than the one before: the badge was reset, or what had been refused
        for good is sent again, by hand or because its worker was lost."""
        if any(r.began <= arrival.at and r.ended >= sending.begins for r in self.model.resets[place]):
            return True
        before = [a for a in self.arrivals[sending.root, place[1]] if a.at < arrival.at]
        is_lost = (sending.root, place[1]) in self.lapsed and any(a.status not in (200, 0, None) for a in before)
        return bool(sending.retried or is_lost)
