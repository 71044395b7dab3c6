"""`bench/profile`: which functions the CPU time of a hot path goes to, with the executables of this tree and with those of
another commit, in turn."""

import argparse
import collections
import contextlib
import os
import re
import shutil
import subprocess
import threading

from .__main__ import build, build_here, tell, with_world
from .ground import Trouble, as_program, private_postgres, run
from .rounds import DEVICES_OF_SINGLES, PAYLOAD, SHOP, SINGLE, TOKEN, Size, device_files, send_campaign

# Samples of each processor in a second.
FREQUENCY = 999
# Functions that are shown of each process.
SHOWN = 14
# What a reader of a profile need not see of a name: parameters, types, suffixes of clones.
NOISE = re.compile(r"^(generic specialization .*? of |merged |partial apply for |protocol witness for |closure #\d+ .* in )|[(<].*|\.(isra|constprop|part|cold|llvm)\.?\d*.*")


class Profile:
    """Samples of PostgreSQL's processes and of some others while something is done."""

    def __init__(self, world, **others):
        self.file, self.postgres = f"{world.folder}/perf", world.postgres
        self.processes = {child.process.pid: name for name, child in others.items()}
        self.is_over = threading.Event()
        self.samples = collections.defaultdict(collections.Counter)  # process -> function -> samples

    def __enter__(self):
        # The whole machine: perf does not follow processes that others start.
        command = ["perf", "record", "-q", "-a", "-F", str(FREQUENCY), "-o", self.file]
        self.recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.watch = threading.Thread(target=self.note_sessions)
        self.watch.start()
        return self

    def note_sessions(self):
        while not self.is_over.wait(0.05):
            self.processes |= dict.fromkeys([self.postgres.process.pid, *self.postgres.children()], "PostgreSQL")

    def __exit__(self, *failure):
        self.is_over.set()
        self.watch.join()
        self.recorder.terminate()
        self.recorder.wait(60)
        if failure[0] is not None:
            return
        for line in run(["perf", "script", "-i", self.file, "-F", "pid,ip,sym,dso"])[0].splitlines():
            found = re.match(r"\s*(\d+)\s+[0-9a-f]+ (.*) \((.*)\)$", line)
            if found and (process := self.processes.get(int(found[1]))):
                self.samples[process][self.function(found[2], found[3])] += 1
        os.remove(self.file)

    @staticmethod
    def function(symbol, library):
        if "kernel" in library or library == "[unknown]":
            return "the kernel"
        if symbol == "[unknown]":
            return f"in {os.path.basename(library)}"
        return Profile.without_noise(symbol)

    @staticmethod
    def without_noise(symbol):
        while (shorter := NOISE.sub("", symbol).strip()) not in ("", symbol):
            symbol = shorter
        return symbol


# MARK: Hot paths. Each returns its profile, and how many units of work that is of.


@contextlib.contextmanager
def worker(world):
    with world.simulator("--latency", "5ms") as (simulator, ready):
        with world.worker(ready) as child:
            yield simulator, child


def campaign(world):
    """A campaign, from its start to the last result."""
    csv, _ = device_files(world)
    world.admin("device", "import", SHOP, csv)
    world.session.rows("vacuum full analyze pushq.device")
    with worker(world) as (simulator, child):
        with Profile(world, worker=child) as profile:
            send_campaign(world, simulator, child)
    return profile, world.size.devices


def singles(world):
    """Single pushes by 8 sessions, from the call to the last result."""
    with worker(world) as (_, child):
        with Profile(world, worker=child) as profile:
            world.pgbench(
                f"\\set d random(1, {DEVICES_OF_SINGLES})\n"
                f"select pushq.send('{SINGLE}', '{PAYLOAD}', tokens => array[{TOKEN}]);\n",
                8, world.size.singles,
            )
            world.wait_for_all()
    return profile, world.size.singles


def bulk(world):
    """Single pushes, 1,000 in a call, from the call to the last result."""
    calls = max(2, world.size.singles // 500)
    with worker(world) as (_, child):
        with Profile(world, worker=child) as profile:
            world.pgbench(
                f"select pushq.send_many('{SINGLE}', array_agg('{PAYLOAD}'::text), "
                "tokens => array_agg(encode(sha256(int8send(d)), 'hex'))) from generate_series(1, 1000) d;\n",
                1, calls,
            )
            world.wait_for_all()
    return profile, calls * 1000


def register(world):
    """Registrations that change nothing, by 8 sessions."""
    call = (
        f"select pushq.register_device('{SINGLE}', {TOKEN}, 'user', 'alert', 'de-AT', 'Europe/Vienna', '1.2.3', "
        "array['a', 'b'], '{\"n\": 1}', 'installation-' || :d)"
    )
    world.session.rows(call.replace(":d", "d") + " from generate_series(1, 1000) d")
    with Profile(world) as profile:
        world.pgbench(f"\\set d random(1, 1000)\n{call};\n", 8, world.size.singles)
    return profile, world.size.singles


def imports(world):
    """An import of devices from a CSV file."""
    csv, _ = device_files(world)
    with Profile(world) as profile:
        world.admin("device", "import", SHOP, csv)
    return profile, world.size.devices


PATHS = {"campaign": campaign, "singles": singles, "bulk": bulk, "register": register, "import": imports}


# MARK: The table


def as_table(found):
    """`found`: side -> (profile, units). A row for each function: µs for a unit of work, most of it last first."""
    sides = list(found)
    lines = []
    for process in sorted({name for profile, _ in found.values() for name in profile.samples}):
        of = {side: profile.samples[process] for side, (profile, _) in found.items()}
        each = {side: 1e6 / FREQUENCY / units for side, (_, units) in found.items()}
        most = sorted(
            {name for counts in of.values() for name in counts},
            key=lambda name: -max(of[side][name] * each[side] for side in sides),
        )[:SHOWN]
        lines += [f"| {process} | " + " | ".join(sides) + " |", "|---" * (len(sides) + 1) + "|"]
        words = dict(zip(most, run(["swift", "demangle", "--simplified", "--compact"], os.environ, stdin="\n".join(most))[0].splitlines()))
        rows = [("all", {side: sum(of[side].values()) for side in sides})]
        rows += [(f"`{Profile.without_noise(words[name])}`", {side: of[side][name] for side in sides}) for name in most]
        rows.append(("others", {side: sum(of[side].values()) - sum(of[side][name] for name in most) for side in sides}))
        lines += [f"| {name} | " + " | ".join(f"{counts[s] * each[s]:.3g}" for s in sides) + " |" for name, counts in rows]
        lines.append("")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(prog="bench/profile", description="Says which functions hot paths spend their time in.")
    parser.add_argument("--compare", metavar="REF", help="builds this commit, too, and shows both")
    parser.add_argument("--devices", type=int, default=300_000, help="of the campaign and the import (default: 300,000)")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {', '.join(PATHS)}, with commas between")
    given = parser.parse_args()
    given.names = given.only.split(",") if given.only else list(PATHS)
    unknown = [name for name in given.names if name not in PATHS]
    if unknown:
        parser.error(f"there is no path {unknown[0]}; there are {', '.join(PATHS)}")
    return given


def main():
    given = arguments()
    if not shutil.which("perf"):
        raise Trouble("there is no perf: install linux-perf")
    here = build_here()
    sides = {given.compare: build(given.compare)} if given.compare else {}
    sides["here"] = here
    with private_postgres() as (postgres, folder):
        for name in given.names:
            found = {}
            for side, binaries in sides.items():
                def measure(world, side=side):
                    found[side] = PATHS[name](world)

                with_world(postgres, binaries, f"{name}_{len(found)}", folder, Size(False, given.devices), measure)
                tell(f"{name}, {side}")
            print(f"{name}: {PATHS[name].__doc__} µs of CPU for each.\n\n{as_table(found)}", flush=True)


if __name__ == "__main__":
    as_program(main)
