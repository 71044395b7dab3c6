"""`scripts/oracle`: runs episodes for some minutes, or one again, or the mutants. Exit 1 if anything was wrong, 2 if
it could not run."""

import argparse
import random
import shutil
import sys
import time

from .episode import run_episode
from .generator import SHORT_SEEDS
from .stack import StackError, ground

SHOWN = 12  # findings of an episode that are shown


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/oracle", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, help="so many minutes of episodes")
    parser.add_argument("first", nargs="?", type=int, help="the first one's seed; a random one if not given")
    parser.add_argument("--seed", type=int, help="replays the episode of this seed")
    parser.add_argument(
        "--short", action="store_true", help="episodes of a few seconds; alone: some fixed seeds and a random one"
    )
    parser.add_argument("--phones", action="store_true", help="episodes of phones that get other tokens, alone")
    parser.add_argument(
        "--mutants", nargs="*", metavar="NAME", help="puts faults into a copy of the source, and has them found"
    )
    parser.add_argument("--binaries", required=True, help="the folder of pushq and pushq-admin")
    parser.add_argument(
        "--keep",
        default="oracle-findings",
        metavar="FOLDER",
        help="where the record and the logs of what went wrong go",
    )
    return parser.parse_args()


def main():
    options = arguments()
    if options.mutants is not None:
        from .mutants import run_mutants

        return run_mutants(options.mutants, options.binaries)
    size = "phones" if options.phones else "short" if options.short else "long"
    if options.seed is not None:
        seeds = [options.seed]
    elif options.minutes is not None:
        seeds = endless(options.first if options.first is not None else random.randrange(1, 1 << 31), options.minutes)
    elif options.short:
        seeds = [*SHORT_SEEDS, random.randrange(1000, 1 << 31)]
    else:
        print("scripts/oracle: say for how many minutes, such as: scripts/oracle 4", file=sys.stderr)
        return 2
    try:
        return run(seeds, size, options)
    except StackError as error:
        print(f"scripts/oracle: {error}", file=sys.stderr)
        return 2


def endless(first, minutes):
    deadline = time.monotonic() + minutes * 60
    seed = first
    while time.monotonic() < deadline:
        yield seed
        seed += 1


def run(seeds, size, options):
    wrong = episodes = arrivals = 0
    with ground(options.binaries) as make_stack:
        for seed in seeds:
            # Of the episodes in so many minutes, the second and every fifth after that are of phones.
            is_of_phones = options.minutes is not None and episodes % 5 == 1
            verdict = run_episode(make_stack, seed, "phones" if is_of_phones else size)
            episodes += 1
            arrivals += verdict.arrivals
            wrong += bool(verdict.findings)
            report(verdict)
            if verdict.findings:
                kept = f"{options.keep}/{verdict.size}-{seed}"
                shutil.copytree(verdict.folder, kept, dirs_exist_ok=True)
                print(f"  its record and logs: {kept}", flush=True)
            shutil.rmtree(verdict.folder, ignore_errors=True)
    print(f"{episodes} episodes, {arrivals} requests, {wrong} of them with violations", flush=True)
    return 1 if wrong else 0


def report(verdict):
    """A line for an episode, and what was wrong with it."""
    what = f"{len(verdict.findings)} violations" if verdict.findings else "right"
    print(
        f"seed {verdict.seed} {verdict.size}: {verdict.operations} operations, {verdict.faults} faults, "
        f"{verdict.recipients} recipients, {verdict.arrivals} requests, {verdict.seconds:.1f} s: {what}",
        flush=True,
    )
    if not verdict.findings:
        return
    for finding in verdict.findings[:SHOWN]:
        print(f"  {finding}")
    if len(verdict.findings) > SHOWN:
        print(f"  and {len(verdict.findings) - SHOWN} more")
    short = "" if verdict.size == "long" else f"--{verdict.size} "
    print(f"  again: scripts/oracle {short}--seed {verdict.seed}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
