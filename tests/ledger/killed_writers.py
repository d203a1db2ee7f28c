"""Writers that race, and writers that are killed: ``python -m tests.ledger.killed_writers kill 300 0``.

The engine never runs in this process, only in those that are forked from it: a fork of its threads hangs.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

import sightline.jobs.assemble
import sightline.ledger.decision  # noqa: F401  before the processes are forked
from sightline.ledger.book import Ledger
from tests.ledger.test_ledger import MEANS, TOTAL, started

_ROUNDS = 10  # of kills in one ledger
VERBS = ("add", "check", "limit", "cancel", "plan", "verify", "epoch")


def written_by(folder: Path, name: str, count: int, verbs: Sequence[str], told: int) -> None:
    """A writer in a process of its own: it tells every verb, as a negative number, and what it has added."""
    ledger = Ledger.open(folder / "ledger", key=folder / "key")
    epoch = next(one.epoch for one in ledger.log() if one.kind == "epoch")
    for place in range(count):
        number: int | None = None
        verb = verbs[place % len(verbs)]
        os.write(told, f"{-1 - VERBS.index(verb)}\n".encode())
        match verb:
            case "add":
                _, number = ledger.add({**TOTAL, "noise_stddev": 1e6}, epoch=epoch, despite="a test")
            case "check":
                ledger.check(MEANS, epoch=epoch)
            case "limit":
                number = ledger.set_limit(0.5, reason="a test")
            case "cancel":
                entries = ledger.log()
                gone = {one.cancels for one in entries}
                releases = [one.number for one in entries if one.kind == "release" and one.number not in gone]
                if len(releases) > 1:  # one is left for a plan
                    number = ledger.cancel(releases[-1], reason="a test")
            case "plan":
                ledger.plan(folder / f"{name}-{place}.toml")
            case "verify":
                ledger.verify()
            case "epoch":
                number = ledger.start_epoch(f"{name}-{place}")
        if number is not None:
            os.write(told, f"{number}\n".encode())


@contextmanager
def forked(run: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """A process that runs a function of a pipe: its number, and the end of the pipe that is read."""
    reading, writing = os.pipe()
    if not (child := os.fork()):  # nothing of the engine has run in this process
        status = 1
        try:
            os.close(reading)
            run(writing)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    try:
        yield child, reading
    finally:
        os.close(reading)


def read_all(reading: int, some: bytes = b"") -> list[int]:
    """The numbers in a pipe whose writers are gone, after some that were read."""
    parts = iter(lambda: os.read(reading, 1 << 16), b"")
    return [int(number) for number in (some + b"".join(parts)).split()]


def raced(folder: Path, writers: int, each: int, verbs: Sequence[str]) -> list[int]:
    """The numbers that some writers got who start together."""
    barrier, start = os.pipe()

    def run(name: int, told: int) -> None:
        os.close(start)
        os.read(barrier, 1)
        written_by(folder, f"w{name}", each, verbs, told)

    with ExitStack() as stack:
        made = [stack.enter_context(forked(partial(run, name))) for name in range(writers)]
        os.close(start)
        numbers = [number for _, reading in made for number in read_all(reading) if number >= 0]
        assert [os.waitpid(child, 0)[1] for child, _ in made] == [0] * writers
    os.close(barrier)
    return numbers


def killed(folder: Path, rounds: int, seed: int, *, longest: float) -> Counter[str]:
    """How many writers were killed in each verb, and how many entries they told of.

    Whatever was told is there, and at most one more. Every round has a verb that is repeated after an entry
    is added; every other writer is killed once that is told.
    """
    random, there = np.random.default_rng(seed), 1
    counted = Counter[str]()
    for place in range(rounds):
        verbs = ["add", *[VERBS[(seed + place) % len(VERBS)]] * 9]
        write = partial(written_by, folder, f"k{seed}-{place}", 10**6, verbs)
        with forked(write) as (child, reading):
            some = b""
            while place % 2 and some.count(b"\n") < 2:  # the verb, and its entry
                some += os.read(reading, 1 << 16) or b"\n\n"
            time.sleep(float(random.uniform(0, longest)))
            os.kill(child, signal.SIGKILL)
            told = read_all(reading, some)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL
        with forked(lambda out: whole(folder, out)) as (child, reading):
            (last,) = read_all(reading)
            assert os.waitpid(child, 0)[1] == 0
        numbers = [one for one in told if one >= 0]
        before, there = (numbers or [there])[-1], last
        assert last in (before, before + 1)
        counted["entries told"] += len(numbers)
        counted[f"in {VERBS[-1 - told[-1]]}" if told and told[-1] < 0 else "between verbs"] += 1
        for plan in folder.glob("k*.toml"):
            assert plan.with_suffix(".parquet").exists()
    return counted


def whole(folder: Path, told: int) -> None:
    """Verify the ledger, and tell the number of its last entry."""
    ledger = Ledger.open(folder / "ledger", key=folder / "key")
    ledger.verify()
    os.write(told, f"{ledger.log()[-1].number}\n".encode())


def started_apart(folder: Path) -> None:
    """A ledger that another process has started: the engine has not run in this one."""

    def start(_: int) -> None:
        started(folder, values="by-epoch").start_epoch("first")

    with forked(start) as (child, _):
        assert os.waitpid(child, 0)[1] == 0


def interrupted_starts(folder: Path, rounds: int, seed: int) -> None:
    """A start that was killed leaves a ledger, or nothing that keeps the next one from starting it."""
    random = np.random.default_rng(seed)
    for place in range(rounds):
        own = folder / str(place)
        own.mkdir()
        with forked(lambda _: started_in(own)) as (child, _):  # noqa: B023
            time.sleep(float(random.uniform(0, 0.3)))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if not (own / "ledger" / "000000.json").exists():
            with forked(lambda _: started_in(own)) as (child, _):  # noqa: B023
                assert os.waitpid(child, 0)[1] == 0
        with forked(lambda out: whole(own, out)) as (child, reading):  # noqa: B023
            assert read_all(reading) == [0]
            assert os.waitpid(child, 0)[1] == 0


def started_in(folder: Path) -> None:
    """A new ledger in a folder."""
    started(folder, values="by-epoch")


def main(what: str, rounds: int, each: int) -> None:
    """Race or kill writers some times; fails if an entry is lost or half there."""
    counted = Counter[str]()
    for seed in range(each, each + max(1, rounds // _ROUNDS)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if what == "init":
                interrupted_starts(folder, rounds, seed)
                print(f"{rounds} starts killed")
                return
            started_apart(folder)
            if what == "kill":
                counted += killed(folder, min(rounds, _ROUNDS), seed * _ROUNDS, longest=2.0)
                print(f"killed: {dict(counted)}", flush=True)
                continue
            numbers = raced(folder, rounds, each, ["epoch"] if what == "epochs" else ["add"])
            assert sorted(numbers) == list(range(2, 2 + rounds * each)), sorted(numbers)
            with forked(lambda out: whole(folder, out)) as (child, reading):  # noqa: B023
                assert read_all(reading) == [1 + rounds * each]
                assert os.waitpid(child, 0)[1] == 0
            print(f"{rounds} writers got {rounds * each} places")
            return


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
