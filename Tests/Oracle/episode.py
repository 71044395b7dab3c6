"""Runs one episode from its seed to its verdict."""

import dataclasses
import time

from .books import TRIGGER, first_ends, read_books
from .driver import Driver
from .generator import generate
from .judge import judge
from .model import Model
from .phones import Phones


@dataclasses.dataclass
class Verdict:
    """What came of an episode."""

    seed: int
    size: str
    findings: list
    arrivals: int
    recipients: int
    operations: int
    faults: int
    seconds: float
    folder: str


def run_phones(make_stack, seed):
    """The verdict on the episode of a seed in which phones get other tokens."""
    began = time.monotonic()
    stack = make_stack(f"phones-{seed}")
    phones = Phones(stack, seed)
    try:
        arrivals = phones.run()
    finally:
        stack.end()
    seconds = time.monotonic() - began
    return Verdict(seed, "phones", phones.findings, arrivals, phones.certain, phones.actions, 0, seconds, stack.folder)


def run_episode(make_stack, seed, size):
    """The verdict on the episode of a seed. `make_stack` makes what it runs on."""
    if size == "phones":
        return run_phones(make_stack, seed)
    began = time.monotonic()
    episode = generate(seed, size)
    stack = make_stack(f"{size}-{seed}")
    try:
        stack.query(TRIGGER)
        driver = Driver(stack, episode)
        history = driver.run()
        stack.keep_database()
        books = read_books(stack, episode, history)
        record = stack.read_record()
    finally:
        stack.end()
    fanned_out = {place: row["fanned_out_at"] for place, row in books.campaigns.items() if row["fanned_out_at"]}
    numbers = {place: row.number for place, row in books.devices.items()}
    model = Model(episode, history, record, driver.certificates, fanned_out, first_ends(books.entries), numbers)
    findings = judge(model, record, books, episode.lease)
    recipients = len(books.entries)
    return Verdict(
        seed,
        size,
        findings,
        len(record.arrivals),
        recipients,
        len(episode.operations),
        len(history.faults),
        time.monotonic() - began,
        stack.folder,
    )
