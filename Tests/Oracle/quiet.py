"""Quiet hours, as docs/quiet-hours.md explains them: who may be sent to, who may wait, and until when.

It reads clocks, minute by minute, and knows nothing of jobs. What arrived is held against what clocks showed where the
device is; and of whoever waited, clocks have to have shown quiet hours."""

import bisect
import collections
import dataclasses
import datetime
import math
from zoneinfo import ZoneInfo

from .changes import in_force
from .filters import Profile

# A push that was taken up is sent within this time: so long before its quiet hours a device is not sent to any more.
TAKEN = 10.0
# What a busy machine may put between a sender and a reader.
SLACK = 5.0
# Two readings of one clock.
ROUNDING = 0.05
# From when a job was taken up until what goes on of it is written down, which counts from then.
WRITING = 20.0
RELEASE = 900  # seconds, if nobody has said another time
DAY = 86_400
NONE = "none"
# How many parts have to come at other times than the first or the last tenth of a release.
PARTS = 6
# What comes within this part of a release comes right at the end of the quiet hours.
AT_ONCE = 1e-4
# How many who wait for one end are never one part.
CROWD = 100


@dataclasses.dataclass(frozen=True)
class Setting:
    """The quiet hours of a queue, as they were set."""

    hours: str  # such as 22:00-08:00, with seconds if need be
    release: float = RELEASE  # seconds
    includes_urgent: bool = False
    zone: str = None  # of devices of which nobody has said it


@dataclasses.dataclass(frozen=True)
class Hold:
    """Why a recipient may wait."""

    until: float  # the end of its quiet hours
    release: float  # what comes after it is spread over so many seconds


def in_words(zone, begins, ends, time, with_seconds=True):
    """Quiet hours from so many seconds from `time` on until so many, by the clocks of a zone."""
    form = "%H:%M:%S" if with_seconds else "%H:%M"
    # A minute is over when the next one begins.
    more = 0 if with_seconds else 59
    local = [datetime.datetime.fromtimestamp(int(time + seconds), ZoneInfo(zone)) for seconds in (begins, ends + more)]
    return "-".join(moment.strftime(form) for moment in local)


def is_quiet(clock, hours):
    """Whether a clock that shows this is within quiet hours."""
    begins, ends = (datetime.time.fromisoformat(part) for part in hours.split("-"))
    return begins <= clock < ends if begins < ends else clock >= begins or clock < ends


def nights(hours, zone, since, until):
    """From when until when clocks in a zone show quiet hours, in order: those between two times. Looks at each minute."""
    place = ZoneInfo(zone)
    seconds = {datetime.time.fromisoformat(part).second for part in hours.split("-")} | {0}
    first = int(since) // 60 * 60
    moments = sorted(minute + second for minute in range(first, int(until) + 60, 60) for second in seconds)
    found, began = [], None
    for moment in moments:
        quiet = is_quiet(datetime.datetime.fromtimestamp(moment, place).time(), hours)
        if quiet and began is None:
            began = moment
        elif not quiet and began is not None:
            found.append((began, moment))
            began = None
    return found if began is None else [*found, (began, math.inf)]


class Quiet:
    """What an episode's quiet hours say of each push."""

    def __init__(self, model, record):
        self.model, self.late = model, record.late
        self.settings = model.history.quiet  # queue -> (from, until, setting or none)
        times = [event.began for event in model.history.events] or [0.0]
        # As long as quiet hours may be, behind and before.
        self.since, self.until = min(times) - 2 * DAY, max(times) + 2 * DAY
        self.known = {}
        # Offsets of those who wait at the end of an episode, as parts of their release, one for each part of a send.
        self.parts = set()
        self.crowds = collections.defaultdict(collections.Counter)

    def is_for(self, sending):
        """Whether there may be somebody who has to wait for it."""
        if sending.message.push_type != "alert" or sending.is_broadcast:
            return False
        return sending.queue.name in self.settings or sending.event.quiet_hours not in (None, NONE)

    def nights(self, hours, zone):
        if (hours, zone) not in self.known:
            self.known[hours, zone] = nights(hours, zone, self.since, self.until)
        return self.known[hours, zone]

    def rules(self, sending, target, since, until):
        """What may have held for a recipient between two times: pairs of its quiet hours and their release; none among
        them: nothing held it."""
        rules = set()
        for setting in in_force(self.settings.get(sending.queue.name, ()), since, until):
            hours = sending.event.quiet_hours or (setting and setting.hours)
            is_free = hours in (None, NONE) or sending.event.operation.urgent and not (setting and setting.includes_urgent)
            for zone in {None} if is_free else self.zones(sending, target, since, until, setting):
                rules.add(None if zone is None else (hours, zone, setting.release if setting else RELEASE))
        return rules

    def zones(self, sending, target, since, until, setting):
        """Where a device may have been; none among it: nobody knows."""
        device = self.model.device(sending, target)
        profiles = set()
        for moment in device.moments(since, until):
            profiles |= device.current(device.profiles, moment, Profile())
        return {profile.zone or (setting.zone if setting else None) for profile in profiles}

    # MARK: What arrived

    def wakes(self, sending, target, time):
        """The quiet hours within which a push arrived that had to wait, as a pair of times; None if it had not to."""
        night = None
        for rule in self.rules(sending, target, time - TAKEN - SLACK, time):
            night = self.night_at(rule, time) if rule is not None else None
            if night is None:
                return None
        return night

    def night_at(self, rule, time):
        hours, zone, _ = rule
        spans = self.nights(hours, zone)
        place = bisect.bisect_right(spans, (time, math.inf)) - 1
        if place < 0:
            return None
        began, ended = spans[place]
        # What was read late was sent earlier.
        late = sum(until - since for since, until in self.late if until > began - TAKEN and since < time)
        return (began, ended) if began + SLACK + late < time < ended - ROUNDING else None

    # MARK: Who waited

    def holds(self, sending, target, since, until):
        """Why a recipient may have been held that was taken up between two times."""
        found = set()
        for rule in self.rules(sending, target, since, until) if self.is_for(sending) else ():
            for began, ended in self.nights(*rule[:2]) if rule is not None else ():
                if began - TAKEN - ROUNDING <= until and ended > since:
                    found.add(Hold(ended, rule[2]))
        return found

    def too_late(self, sending):
        """Between when and when it must not be sent any more."""
        event, message = sending.event, sending.message
        ends = [(event.send_by,) * 2] if event.send_by is not None else []
        if event.expiration:
            ends.append((event.expiration,) * 2)
        elif event.expiration is None and message.expires_in is not None and not message.never_stored:
            kept = self.model.expirations(sending)  # a command has counted it
            ends.append((kept[0], kept[-1]))
        if event.send_by is None:
            ends.append((sending.begins + DAY - 1, max(sending.begins, event.ended) + DAY + 1))
        least = min(first for first, _ in ends)
        # Who is sent to again by hand has another day.
        return least, math.inf if sending.retried else min(last for _, last in ends)

    def may_be_too_late(self, sending, target, since, until):
        """Whether the quiet hours of a recipient may have ended behind its time."""
        least, _ = self.too_late(sending)
        return any(hold.until > least - ROUNDING for hold in self.holds(sending, target, since, until))

    def complaint(self, sending, target, since, until):
        """Why a recipient should not have waited that was taken up between two times; None if it was right."""
        holds = self.holds(sending, target, since, until)
        if not holds:
            return "clocks there showed no quiet hours"
        _, last = self.too_late(sending)
        if all(hold.until > last + ROUNDING for hold in holds):
            return "its time ends before its quiet hours"
        return None

    def complaint_of_time(self, sending, target, since, until, run_at):
        """Why one that still waits does so until a wrong time; None if it is right."""
        holds = self.holds(sending, target, since, until)
        for hold in holds:
            least, last = self.release(sending, hold)
            if hold.until - ROUNDING <= run_at <= hold.until + last + WRITING:
                if len(holds) == 1 and least > 4 * WRITING:
                    self.parts.add((sending.root, hold.until, round(run_at, 3), (run_at - hold.until) / least))
                    self.crowds[sending.root, hold.until][round(run_at, 3)] += 1
                return None
        ends = ", ".join(f"{hold.until:.0f} and {self.release(sending, hold)[1]:.0f} s" for hold in holds) or "no quiet hours"
        return f"it waits until {run_at:.3f}, and not until {ends}"

    def release(self, sending, hold):
        """Over how many seconds those are spread at least, and at most, who waited for this."""
        least, last = self.too_late(sending)
        return max(0.0, min(hold.release, (least - hold.until) / 2)), max(0.0, min(hold.release, (last - hold.until) / 2))

    def unspread(self):
        """What is wrong with how those are spread who wait: a few words each. Knows nothing before all were asked about."""
        # What waits for one device comes at one place of the release, whatever send it is of, and counts once.
        offsets = [offset for _, offset in {(until, round(offset, 2)) for _, until, _, offset in self.parts}]
        for name, part in (("first", [x < 0.1 for x in offsets]), ("last", [x > 0.9 for x in offsets])):
            if len(part) >= PARTS and all(part):
                yield f"all {len(part)} parts that wait come in the {name} tenth of their time"
        if len(self.parts) >= PARTS and all(offset < AT_ONCE for _, _, _, offset in self.parts):
            yield f"all {len(self.parts)} parts that wait come right at the end of their quiet hours"
        for (root, until), times in self.crowds.items():
            if times.total() >= CROWD and len(times) == 1:
                yield f"all {times.total()} of {root} who wait until {until:.0f} come at once"
