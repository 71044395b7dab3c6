"""`bench/run`: measures, prints a table, and writes each value."""

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys

from .figures import as_heading, as_json, as_table, derived, figures_of, not_measured
from .ground import as_program, private_postgres, run
from .rounds import MEASUREMENTS, Size, World, bare

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TREE = os.path.join(ROOT, ".build", "compared")


def arguments():
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures pushq beside what is barest: bench/README.md.")
    parser.add_argument("--quick", action="store_true", help="few devices, one round: whether it works, not how fast it is")
    parser.add_argument("--rounds", type=int, help="how often everything is repeated (default: 3; 1 with --quick)")
    parser.add_argument("--devices", type=int, help="of the campaign (default: 1,000,000)")
    parser.add_argument("--backlog", type=int, help="pushes that wait for the second claim (default: 10,000,000; 0: none)")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {', '.join([*MEASUREMENTS, 'bare'])}, with commas between")
    parser.add_argument("--compare", metavar="REF", help="builds this commit, too, and runs both in turn")
    parser.add_argument("--json", metavar="FILE", help="writes all values, with machine, versions and commits")
    given = parser.parse_args()
    given.names = given.only.split(",") if given.only else [*MEASUREMENTS, "bare"]
    unknown = [name for name in given.names if name not in MEASUREMENTS and name != "bare"]
    if unknown:
        parser.error(f"there is no measurement {unknown[0]}; there are {', '.join([*MEASUREMENTS, 'bare'])}")
    for name in ("rounds", "devices"):
        if getattr(given, name) is not None and getattr(given, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return given


def tell(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def build_here():
    """The executables of this tree."""
    for product in ("pushq", "pushq-admin"):
        subprocess.run(["swift", "build", "--package-path", ROOT, "-c", "release", "--product", product], stdout=sys.stderr, check=True)
    return run(["swift", "build", "--package-path", ROOT, "-c", "release", "--show-bin-path"], os.environ)[0].strip()


def build(reference):
    """The executables of another commit, in a working tree of its own below .build, which stays for the next time."""
    commit = run(["git", "-C", ROOT, "rev-parse", "--verify", f"{reference}^{{commit}}"])[0].strip()
    if os.path.isdir(TREE):
        run(["git", "-C", TREE, "checkout", "--detach", commit])
    else:
        run(["git", "-C", ROOT, "worktree", "prune"])
        run(["git", "-C", ROOT, "worktree", "add", "--detach", TREE, commit])
    tell(f"building {reference} ({commit[:10]})")
    for product in ("pushq", "pushq-admin"):
        run(["swift", "build", "--package-path", TREE, "-c", "release", "--product", product], os.environ, seconds=3600)
    return run(["swift", "build", "--package-path", TREE, "-c", "release", "--show-bin-path"], os.environ)[0].strip()


def first_line(*command):
    with contextlib.suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout or done.stderr).strip().splitlines()[0]
    return None


def about(given, postgres, rounds):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    commits = {"here": first_line("git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude", "*")}
    if given.compare:
        commits[given.compare] = first_line("git", "-C", TREE, "rev-parse", "HEAD")
    return {
        "machine": {
            "processor": model, "cores": os.cpu_count(), "kernel": platform.release(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "load": os.getloadavg()[0],
        },
        "versions": {
            "postgres": first_line(f"{postgres.binaries}/postgres", "--version"),
            "swift": first_line("swift", "--version"), "h2load": first_line("h2load", "--version"),
            "python": platform.python_version(),
        },
        "commits": commits, "fsync": "on", "quick": given.quick, "rounds": rounds,
    }


def measure(given, size, sides, rounds, postgres, folder):
    """key -> values, for each side; rounds of both sides alternate, and so does which is first."""
    found = {side: {} for side in sides}

    def note(side, values):
        for key, value in values.items():
            found[side].setdefault(key, []).append(value)

    for number in range(rounds):
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        for name in (name for name in MEASUREMENTS if name in given.names):
            for side in order:
                with_world(postgres, sides[side], f"{name}_{number}_{order.index(side)}", folder, size, lambda world: note(side, MEASUREMENTS[name](world)))
                tell(f"round {number + 1} of {rounds}: {name}, {side}")
        if "bare" in given.names:
            with_world(postgres, sides[order[0]], f"bare_{number}", folder, size, lambda world: [note(side, values) for values in [bare(world)] for side in sides])
            tell(f"round {number + 1} of {rounds}: bare")
    return {side: derived(values) for side, values in found.items()}


def with_world(postgres, binaries, name, folder, size, body):
    world = World(postgres, binaries, name, folder, size)
    try:
        body(world)
    finally:
        world.close()


def main():
    given = arguments()
    rounds = given.rounds or (1 if given.quick else 3)
    size = Size(given.quick, given.devices, given.backlog)
    binaries = build_here()
    sides = {given.compare: build(given.compare)} if given.compare else {}
    sides["here"] = binaries
    with private_postgres() as (postgres, folder):
        facts = about(given, postgres, rounds)
        found = measure(given, size, sides, rounds, postgres, folder)
    figures = figures_of(size, given.quick)
    print(as_heading(facts), as_table(figures, found), sep="\n\n")
    left_out = not_measured(figures, found)
    if left_out:
        print(f"\nnot measured: {', '.join(left_out)}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(as_json(figures, found, facts), file, indent=2, ensure_ascii=False)


if __name__ == "__main__":
    as_program(main)
