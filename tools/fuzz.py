"""`make fuzz`: hunt for failures with random seeds until the time is up, and print how to repeat each one.

Two kinds of work run side by side, a process for each piece:

- every ``tests/**/fuzz_*.py``: its ``fuzz(seed: int, seconds: float) -> dict[str, int]`` draws cases from
  the seed until its seconds are over, raises on a failure, and returns what it counted;
- the property tests (Hypothesis), file by file in random order, in rounds, each round with a new seed.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST_SEED = 2**31
ENTRY_SHARE = 0.5  # of the time goes to the fuzz_*.py modules, if there are any
PATIENCE = 30.0  # seconds that a piece of work has to clean up when the time is over
NO_TESTS = 5  # pytest's exit status when it selected none


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One process: what it is called, its command, and how to repeat it by hand."""

    name: str
    command: tuple[str, ...]
    seed: int
    seconds: float | None  # that it takes by itself; None if it is interrupted when the time is over

    @property
    def again(self) -> str:
        """What to type to see the same failure."""
        return f"SIGHTLINE_EXAMPLES=fuzz {shlex.join(('python', *self.command[1:]))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one process ended; ``passed`` is None if the time was over first."""

    work: Work
    passed: bool | None
    output: str


def entry_modules() -> list[str]:
    """The modules ``tests/**/fuzz_*.py``, by dotted name."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((ROOT / "tests").rglob("fuzz_*.py"))
    ]


def property_files() -> list[Path]:
    """The test files that hold property tests."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path for path in files if "from hypothesis import" in path.read_text(encoding="utf-8")]


def entry_work(seed: int, seconds: float, jobs: int) -> Iterator[Work]:
    """One piece of work for every ``fuzz_*.py``, with equal shares of the time."""
    modules = entry_modules()
    for module in modules:
        share = min(seconds, ENTRY_SHARE * seconds * jobs / len(modules))
        command = (sys.executable, "-m", "tools.fuzz", "--entry", module)
        options = ("--seed", str(seed), "--seconds", str(round(share, 3)))
        yield Work(name=module, command=command + options, seed=seed, seconds=share)


def property_work(seed: int) -> Iterator[Work]:
    """The files of property tests in random order, again and again, each round with the next seed."""
    files = property_files()
    while files:
        for path in random.Random(seed).sample(files, len(files)):
            name = path.relative_to(ROOT).as_posix()
            command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "hypothesis")
            options = (name, f"--hypothesis-seed={seed}")
            yield Work(name=name, command=command + options, seed=seed, seconds=None)
        seed = (seed + 1) % LARGEST_SEED


def run(work: Work, until: float) -> Outcome:
    """Run one process; interrupt it when the time is over."""
    left = until - time.monotonic()
    if left <= 0:
        return Outcome(work=work, passed=None, output="")
    environment = os.environ | {"SIGHTLINE_EXAMPLES": "fuzz"}
    process = subprocess.Popen(
        work.command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    cut_off = False
    try:
        output, _ = process.communicate(timeout=left if work.seconds is None else work.seconds + PATIENCE)
    except subprocess.TimeoutExpired:
        cut_off = True
        process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
    if process.returncode in (0, NO_TESTS):
        return Outcome(work=work, passed=True, output=output)
    failed = (
        not cut_off or "\nFAILED " in output
    )  # a test that failed before the interrupt is still a failure
    return Outcome(work=work, passed=False if failed else None, output=output)


def hunt(seed: int, seconds: float, jobs: int) -> int:
    """Run everything until the time is over; the number of failures."""
    until = time.monotonic() + seconds
    print(f"Seed {seed}, {seconds:g} seconds, {jobs} at a time", flush=True)
    failures = 0
    with ThreadPoolExecutor(jobs) as pool:
        entries = list(entry_work(seed, seconds, jobs))
        endless = property_work(seed)
        waiting = {pool.submit(run, work, until) for work in entries}
        while time.monotonic() < until or waiting:
            while len(waiting) < jobs and time.monotonic() < until and (work := next(endless, None)):
                waiting.add(pool.submit(run, work, until))
            if not waiting:
                break
            done = next(as_completed(waiting))
            waiting.remove(done)
            failures += report(done.result())
    print(f"{failures or 'No'} failure{'s' if failures != 1 else ''}")
    return failures


def report(outcome: Outcome) -> bool:
    """Print one outcome; True for a failure."""
    work = outcome.work
    if outcome.passed is None:
        print(f"  time over   {work.name}", flush=True)
        return False
    if outcome.passed:
        lines = outcome.output.strip().splitlines()
        print(f"  ok          {work.name}, seed {work.seed}: {lines[-1] if lines else ''}", flush=True)
        return False
    print(f"{outcome.output}\nFAILED {work.name}, seed {work.seed}. Again:\n  {work.again}\n", flush=True)
    return True


def run_entry(module: str, seed: int, seconds: float, most: int | None = None) -> None:
    """Run one ``fuzz_*.py`` in this process and print what it counted; at most ``most`` draws."""
    some = {} if most is None else {"most": most}
    counted = import_module(module).fuzz(seed, seconds, **some)
    print(", ".join(f"{name} {count}" for name, count in counted.items()) or "nothing counted")


def main() -> int:
    """Read the options and hunt."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, help="start here, to repeat a hunt (default: at random)")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: 600)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--entry", metavar="MODULE", help="run one fuzz_*.py alone, in this process")
    parser.add_argument("--most", type=int, help="with --entry: stop after so many draws, where these count")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(LARGEST_SEED) if options.seed is None else options.seed
    if options.entry:
        run_entry(options.entry, seed, options.seconds, options.most)
        return 0
    return 1 if hunt(seed, options.seconds, options.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
