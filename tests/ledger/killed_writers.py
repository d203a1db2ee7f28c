"""Writers that race, and writers that are killed: ``python -m tests.ledger.killed_writers kill 300 0``.

The engine never runs in this process, only in those that are forked from it: a fork of its threads hangs.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

import sightline.auditing.assemble
import sightline.ledger.decision  # noqa: F401  before the processes are forked
from sightline.ledger.book import Ledger
from tests.ledger.test_ledger import MEANS, TOTAL, started

_ROUNDS = 10  # of kills in one ledger
VERBS = ("add", "check", "limit", "cancel", "plan", "verify", "epoch")


def written_by(folder: Path, name: str, count: int, verbs: Sequence[str], told: int) -> None:
    """A writer in a process of its own: it tells the number of every entry once it is there."""
    ledger = Ledger.open(folder / "ledger", key=folder / "key")
    epoch = next(one.epoch for one in ledger.log() if one.kind == "epoch")
    for place in range(count):
        number: int | None = None
        match verbs[place % len(verbs)]:
            case "add":
                _, number = ledger.add({**TOTAL, "noise_stddev": 1e6}, epoch=epoch, despite="a test")
            case "check":
                ledger.check(MEANS, epoch=epoch)
            case "limit":
                number = ledger.set_limit(0.5, reason="a test")
            case "cancel":
                releases = [one.number for one in ledger.log() if one.kind == "release"]
                number = ledger.cancel(releases[-1], reason="a test")
            case "plan" if any(one.kind == "release" for one in ledger.log()):
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
        numbers = [number for _, reading in made for number in read_all(reading)]
        assert [os.waitpid(child, 0)[1] for child, _ in made] == [0] * writers
    os.close(barrier)
    return numbers


def killed(folder: Path, rounds: int, seed: int, *, longest: float) -> int:
    """How many entries writers told of who were killed; whatever was told is there, and at most one more."""
    random, there, told = np.random.default_rng(seed), 0, 0
    for place in range(rounds):
        verbs = random.permutation(VERBS).tolist()
        verbs.insert(0, "add")
        with forked(lambda out: written_by(folder, f"k{place}", 10**6, verbs, out)) as (child, reading):  # noqa: B023
            some = os.read(reading, 1 << 16) if place % 2 else b""  # every other time once an entry is told
            time.sleep(float(random.uniform(0, longest)))
            os.kill(child, signal.SIGKILL)
            numbers = read_all(reading, some)
            os.waitpid(child, 0)
        with forked(lambda out: whole(folder, out)) as (child, reading):
            entries = read_all(reading)
            assert os.waitpid(child, 0)[1] == 0
        assert entries[0] in ((numbers or [there])[-1], (numbers or [there])[-1] + 1)
        there, told = entries[0], told + len(numbers)
        for plan in folder.glob("k*.toml"):
            assert plan.with_suffix(".parquet").exists()
    return told


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
    for seed in range(each, each + max(1, rounds // _ROUNDS)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if what == "init":
                interrupted_starts(folder, rounds, seed)
                print(f"{rounds} starts killed")
                return
            started_apart(folder)
            if what == "kill":
                number = min(rounds, _ROUNDS)
                print(f"{number} rounds, {killed(folder, number, seed, longest=2.0)} told", flush=True)
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
