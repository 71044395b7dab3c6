"""When a schedule runs, and when it is a local time somewhere: minute by minute, with Python's zoneinfo.

docs/schedules.md says what is right. This shares no code with pushq and looks at every minute, so it is slow and plain.

    python3 -m Oracle.clocks < cases > answers

reads a JSON object from each line, with `cron`, `zone`, `start` and `end` in seconds since 1970, and writes a JSON
array of the runs in between, both ends included.
"""

import json
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

NAMES = {
    3: "jan feb mar apr may jun jul aug sep oct nov dec".split(),
    4: "sun mon tue wed thu fri sat".split(),
}
CATCH_UP = 3600  # seconds after a local time in which it still counts as now
FIRST = [0, 0, 1, 1, 0]
LAST = [59, 23, 31, 12, 6]
SHORT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * sun",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def number(text, field):
    names = NAMES.get(field, [])
    return names.index(text.lower()) + FIRST[field] if text.lower() in names else int(text)


def values(text, field):
    """The values of a field, as a set."""
    found = set()
    for part in text.split(","):
        part, _, step = part.partition("/")
        if part == "*":
            first, last = FIRST[field], LAST[field]
        else:
            first, _, last = part.partition("-")
            first = number(first, field)
            last = number(last, field) if last else first
            if field == 4 and last == 0 and first > 0:
                last = 7
        found.update(range(first, last + 1, int(step or 1)))
    return {value % 7 for value in found} if field == 4 else found


class Cron:
    def __init__(self, text):
        self.texts = SHORT.get(text.strip().lower(), text).split()
        self.values = [values(text, field) for field, text in enumerate(self.texts)]

    def fits(self, local):
        """Whether it runs when clocks show `local`."""
        minutes, hours, days, months, weekdays = self.values
        day, weekday = local.day in days, (local.weekday() + 1) % 7 in weekdays
        both = self.texts[2].startswith("*") or self.texts[4].startswith("*")
        return (
            local.minute in minutes
            and local.hour in hours
            and local.month in months
            and (day and weekday if both else day or weekday)
        )

    @property
    def follows_clock(self):
        return self.texts[1].startswith("*")


def first_instant(local, zone):
    """When the clocks of a zone first show `local`. If they skip it, as much later as they are put forward.

    Both is what PEP 495 says of fold 0: it stands for the earlier of two times, and in a gap for the offset before it.
    """
    return local.replace(tzinfo=zone, fold=0).astimezone(timezone.utc)


def runs(cron, zone, start, end):
    """The runs from `start` to `end`, both included."""
    cron, zone = Cron(cron), ZoneInfo(zone)
    minute = timedelta(minutes=1)
    found = set()
    if cron.follows_clock:
        time = start
        while time <= end:
            local = time.astimezone(zone)
            # Offsets from UTC that are no whole minutes are history.
            if local.second == 0 and cron.fits(local):
                found.add(time)
            time += minute
    else:
        # A gap may be a day long.
        local = start.astimezone(zone).replace(tzinfo=None) - timedelta(days=2)
        while local <= end.astimezone(zone).replace(tzinfo=None) + timedelta(days=2):
            if cron.fits(local):
                time = first_instant(local, zone)
                if start <= time <= end:
                    found.add(time)
            local += minute
    return sorted(found)


def zones_to_send_to(zones, local, time, if_passed):
    """The zones in which a campaign with a local time on a day is sent as soon as it starts, at `time`: where that time
    was in the last hour, or in all that are past it. What is still to come is none of them."""
    passed = {zone: time - first_instant(datetime.fromisoformat(local), ZoneInfo(zone)).timestamp() for zone in zones}
    return {zone for zone, seconds in passed.items() if 0 <= seconds and (seconds <= CATCH_UP or if_passed == "now")}


def main():
    for line in sys.stdin:
        case = json.loads(line)
        start, end = (datetime.fromtimestamp(case[name], timezone.utc) for name in ("start", "end"))
        print(json.dumps([int(time.timestamp()) for time in runs(case["cron"], case["zone"], start, end)]))


if __name__ == "__main__":
    main()
