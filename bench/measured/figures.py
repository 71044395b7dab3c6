"""What is made of measured values: medians and ranges, bars and verdicts, the table and the JSON. Nothing here measures."""

import math


def percentile(share, values):
    """The value that `share` of the values do not exceed (nearest rank); nan of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else math.nan


def median(values):
    """Of an even number of values the mean of the middle two; nan of none."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def cumulative_times(ends, shares, total):
    """When each share of `total` had ended. `ends`: (time, how many ended then). A share that was never reached is None."""
    times, done = dict.fromkeys(shares), 0
    for time, count in sorted(ends):
        done += count
        for share in shares:
            if times[share] is None and done >= share * total:
                times[share] = time
    return times


class Figure:
    """One line of the table. `bar` takes the medians of its column by key and gives the number that the figure has to
    meet, or None where it has none."""

    def __init__(self, key, text, unit, bar=None, more_is_better=False):
        self.key, self.text, self.unit = key, text, unit
        self.bar, self.more_is_better = bar, more_is_better

    def limit(self, medians):
        if self.bar is None:
            return None
        try:
            return self.bar(medians) if callable(self.bar) else self.bar
        except KeyError:  # what it is compared with was not measured
            return None

    def verdict(self, medians):
        """`met`, `missed by 12 %`, or nothing if there is no bar or no value."""
        limit, value = self.limit(medians), medians.get(self.key)
        if limit is None or value is None or not limit:
            return ""
        excess = (limit / value if self.more_is_better else value / limit) - 1 if value else -1
        if excess <= 0:
            return "met"
        # A large percentage is hard to read.
        return f"missed: {excess + 1:.1f} × the bar" if excess >= 2 else f"missed by {percent(excess)}"


def percent(share):
    """12 %, 1.5 %."""
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{share * 100:.1f} %"


def number(value):
    """With three digits that count, and no more than two places."""
    if value is None or math.isnan(value):
        return "–"
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{places}f}"


def spread(values):
    """A median, and between which ends it lies."""
    if not values:
        return "–"
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"


def medians_of(values):
    """The medians of one side: key -> median, of those keys that have values."""
    return {key: median(found) for key, found in values.items() if found}


def derived(values):
    """Adds the figures that are made of others of the same round. `values`: key -> values, one for each round."""
    result = dict(values)

    def ratio(key, over, under):
        pairs = list(zip(values.get(over, []), values.get(under, [])))
        if pairs:
            result[key] = [one / other for one, other in pairs if other]

    ratio("campaign.tail", "campaign.seconds_100", "campaign.seconds_99")
    both = [a + b for a, b in zip(values.get("campaign.worker_us", []), values.get("campaign.postgres_us", []))]
    if both and values.get("wire.h2load_us"):
        result["campaign.both_to_h2load"] = [value / min(values["wire.h2load_us"]) for value in both]
    ratio("singles.8.to_row", "singles.8.postgres_us", "bare.row_us")
    ratio("singles.8.to_same_rows", "singles.8.postgres_us", "bare.same_us")
    ratio("bulk.to_same_rows", "bulk.postgres_us", "bare.same_bulk_us")
    ratio("campaign.postgres_to_bare_500", "campaign.postgres_us", "bare.row500_us")
    ratio("import.to_copy", "import.postgres_us", "bare.copy_us")
    ratio("claim.growth", "claim.many_us", "claim.few_us")
    return result


def round_ratios(of, by):
    """One side's values over the other's, round by round: the machine's speed drifts, and both had the same."""
    return [one / other for one, other in zip(of, by) if other]


def as_table(figures, sides):
    """Markdown. `sides`: name -> key -> values; of two sides the second is compared with the first."""
    names = list(sides)
    head = ["what", "unit", *names]
    if len(names) == 2:
        head.append(f"{names[1]} / {names[0]}")
    head += ["bar", "verdict"]
    rows = []
    for figure in figures:
        if not any(side.get(figure.key) for side in sides.values()):
            continue
        row = [figure.text, figure.unit, *(spread(side.get(figure.key, [])) for side in sides.values())]
        if len(names) == 2:
            row.append(spread(round_ratios(sides[names[1]].get(figure.key, []), sides[names[0]].get(figure.key, []))))
        medians = medians_of(sides[names[-1]])
        limit = figure.limit(medians)
        row += ["" if limit is None else number(limit), figure.verdict(medians)]
        rows.append(row)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def as_heading(about):
    """Where and with what it was measured, before the table."""
    machine, versions = about["machine"], about["versions"]
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Linux {machine['kernel']}, "
        f"load {machine['load']:.1f} before",
        "; ".join(str(version) for version in versions.values() if version),
        "commit " + ", ".join(f"{commit} ({side})" for side, commit in about["commits"].items()) + f"; rounds: {about['rounds']}",
    ]
    if about["quick"]:
        lines.append("quick: no verdicts; it shows that everything works, and says nothing about speed")
    return "\n".join(lines)


def not_measured(figures, sides):
    """The keys of the figures that are no row of the table."""
    return [figure.key for figure in figures if not any(side.get(figure.key) for side in sides.values())]


def as_json(figures, sides, about):
    """What was measured, and where: `about` holds machine, versions and commits."""
    return about | {
        "figures": {
            figure.key: {
                "text": figure.text,
                "unit": figure.unit,
                "sides": {
                    name: {
                        "values": side[figure.key],
                        "median": median(side[figure.key]),
                        "bar": figure.limit(medians_of(side)),
                        "verdict": figure.verdict(medians_of(side)),
                    }
                    for name, side in sides.items()
                    if side.get(figure.key)
                },
            }
            for figure in figures
            if any(side.get(figure.key) for side in sides.values())
        }
    }


def figures_of(size, quick):
    """The figures with the numbers that they are about. With few devices no bar says anything."""
    return [
        Figure(figure.key, figure.text.format(few=f"{size.few:,}", backlog=f"{size.backlog:,}", some=f"{size.some:,}"),
               figure.unit, None if quick else figure.bar, figure.more_is_better)
        for figure in FIGURES
    ]


def times_h2load(factor):
    return lambda medians: factor * medians["wire.h2load_us"]


# 1.5 µs where one session adds 100,000 rows of a queue in a second; in proportion where the machine is slower or faster.
def store_bar(medians):
    return 1.5 * 100_000 / medians["bare.rows_per_second"]


FIGURES = [
    Figure("campaign.seconds_50", "campaign: half of it has ended after", "s"),
    Figure("campaign.seconds_99", "99 %", "s"),
    Figure("campaign.seconds_999", "99.9 %", "s"),
    Figure("campaign.seconds_100", "all", "s", bar=lambda m: 1.3 * m["campaign.seconds_99"]),
    Figure("campaign.tail", "the time to the end over that to 99 %", "×", bar=1.3),
    Figure("campaign.postgres_us", "PostgreSQL's CPU for a recipient", "µs", bar=store_bar),
    Figure("campaign.worker_us", "worker's CPU for a request", "µs", bar=times_h2load(0.6)),
    Figure("campaign.simulator_us", "simulator's CPU for a request", "µs"),
    Figure("campaign.both_to_h2load", "worker and PostgreSQL over h2load's cheapest run", "×", bar=1.0),
    Figure("campaign.postgres_to_bare_500", "PostgreSQL over the barest queue of 500 recipients a row", "×"),
    Figure("campaign.worker_mb", "worker's memory at its peak", "MB"),
    Figure("campaign.backend_mb", "largest PostgreSQL session's own memory at the end", "MB"),
    Figure("wire.h2load_us", "h2load's CPU for a request to the same simulator", "µs"),
    Figure("wire.h2load_per_second", "h2load's requests", "/s"),
    Figure("bare.rows_per_second", "rows of the barest queue that one session adds in a statement", "/s"),
    Figure("bare.row_us", "barest row-per-job queue, pgbench: in, out, recorded", "µs"),
    Figure("bare.row500_us", "barest queue of 500 recipients a row, pgbench: the same for a recipient", "µs"),
    Figure("bare.same_us", "pgbench adding the rows of a single push", "µs"),
    Figure("bare.same_bulk_us", "pgbench adding the rows of 1,000 single pushes in a statement", "µs"),
    Figure("singles.1.postgres_us", "single pushes by 1 session, end to end: PostgreSQL's CPU", "µs"),
    Figure("singles.8.postgres_us", "by 8", "µs", bar=75),
    Figure("singles.32.postgres_us", "by 32", "µs"),
    Figure("singles.8.to_row", "by 8, over the barest row-per-job queue", "×", bar=3),
    Figure("singles.8.to_same_rows", "by 8, over adding the same rows", "×"),
    Figure("singles.1.per_second", "single pushes by 1 session, end to end", "/s", more_is_better=True),
    Figure("singles.8.per_second", "by 8", "/s", bar=5000, more_is_better=True),
    Figure("singles.32.per_second", "by 32", "/s", more_is_better=True),
    Figure("enqueue.postgres_us", "single pushes by 8, enqueued alone: PostgreSQL's CPU", "µs"),
    Figure("bulk.postgres_us", "1,000 pushes in a call, end to end: PostgreSQL's CPU for each", "µs", bar=15),
    Figure("bulk.to_same_rows", "the same, over adding the same rows", "×"),
    Figure("register.postgres_us", "`register_device` when nothing has changed", "µs", bar=60),
    Figure("latency.idle_p50", "one push, idle: commit to arrival, p50", "ms", bar=1.5),
    Figure("latency.idle_p99", "p99", "ms", bar=5),
    Figure("latency.beside_p50", "urgent, beside a campaign: p50", "ms"),
    Figure("latency.beside_p99", "p99", "ms", bar=25),
    Figure("import.seconds", "import of the devices from CSV", "s", bar=lambda m: 3 * m["import.millions"]),
    Figure("import.postgres_us", "the same: PostgreSQL's CPU for a device", "µs"),
    Figure("import.client_us", "the same: the command's CPU for a device", "µs"),
    Figure("bare.copy_us", "COPY into a table with the same keys: PostgreSQL's CPU for a device", "µs"),
    Figure("import.to_copy", "import over COPY, PostgreSQL's CPU", "×"),
    Figure("import.all.postgres_us", "import of {some} of them with all columns: PostgreSQL's CPU for a device", "µs"),
    Figure("import.all.client_us", "the same: the command's CPU for a device", "µs"),
    Figure("claim.few_us", "a push out of {few} waiting: PostgreSQL's CPU", "µs"),
    Figure("claim.many_us", "out of {backlog}", "µs"),
    Figure("claim.growth", "the second over the first", "×", bar=1.2),
]
