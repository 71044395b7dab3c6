"""What was set when, and what of it may be in force: workers learn of a change within seconds."""

# A busy machine's workers may go on for so long with what was: they look at settings every two seconds.
HEEDING = 8.0


def in_force(changes, since, until):
    """What may be in force at some moment between two times: a set. `changes` are (from, until, value), in order: that it
    was set by a call between the two. None: nothing was set."""
    points = {since, until} | {time for began, ended, _ in changes for time in (began, ended + HEEDING)}
    found = set()
    for moment in points:
        if since <= moment <= until:
            values = {None}
            for began, ended, value in changes:
                if ended + HEEDING <= moment:
                    values = {value}
                elif began <= moment:
                    values |= {value}
            found |= values
    return found
