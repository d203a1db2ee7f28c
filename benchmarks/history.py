"""What each case of the benchmarks measured, beside what it measured when it was last recorded.

    python -m benchmarks.history [--quick] [--record] [--page] [bench_NAME.py …]

A benchmark calls :func:`measured` with a ratio: to a rival in the same process, or, where there is none, to
:func:`machine_unit`, work of NumPy alone. The file ``history.csv`` has a line for each recorded case. A ratio
that is 1.3 times worse than the last recorded one is marked, and so is a recorded case that was not measured
again: then the run ends with 1. Whoever makes a case smaller or drops it writes a line without a ratio and
with the reason. ``RESULTS.md`` is written from the history and from ``unit_costs.md``.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
FILE = HERE / "history.csv"
WORSE = 1.3  # cores here differ by a fifth from one run to the next
NOT_HERE = "not run here"  # in place of the cases of a script that needs what a machine lacks
_COLLECTED = "SIGHTLINE_MEASURED"  # the file that a run collects the lines of its benchmarks in
# What three minutes allow: script, arguments.
QUICK: tuple[tuple[str, ...], ...] = (
    ("bench_start.py",),
    ("bench_geometry.py",),
    ("bench_multiset.py",),
    ("bench_attacks.py",),
    ("bench_labeled.py", "blas", "pinv"),
    ("bench_persons.py", "--rows", "200000", "--persons", "20000"),
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One case as it was measured once."""

    script: str
    case: str  # with its size
    ratio: float | None  # none: dropped, or replaced by another case, for the reason in the note
    rival: str
    more: bool = False  # whether a larger ratio is better
    memory: float = 0.0  # GB at most, where it was measured
    commit: str = ""
    note: str = ""

    def worse_than(self, before: Line) -> float:
        """How many times worse; below 1 it is better."""
        if self.ratio is None or before.ratio is None:
            return 1.0
        times = self.ratio / before.ratio
        return 1 / times if self.more else times


def recorded(file: Path = FILE) -> list[Line]:
    """All lines, the oldest first."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        return [
            Line(
                **{name: one[name] for name in ("script", "case", "rival", "commit", "note")},
                ratio=float(one["ratio"]) if one["ratio"] else None,
                more=one["more"] == "yes",
                memory=float(one["memory"] or 0),
            )
            for one in csv.DictReader(lines)
        ]


def last(history: Iterable[Line]) -> dict[tuple[str, str], Line]:
    """The newest line of each case."""
    return {(line.script, line.case): line for line in history}


def worse(measured: Iterable[Line], history: Iterable[Line]) -> list[tuple[Line, Line, float]]:
    """Cases that are worse than the last recorded ones by more than chance, with these and by how much."""
    before = last(history)
    pairs = [
        (line, before[line.script, line.case]) for line in measured if (line.script, line.case) in before
    ]
    return [(now, then, now.worse_than(then)) for now, then in pairs if now.worse_than(then) > WORSE]


def missing(measured: Iterable[Line], history: Iterable[Line], scripts: Iterable[str]) -> list[Line]:
    """Recorded cases of these scripts that were not measured, unless a line says why they went."""
    there = {(line.script, line.case) for line in measured}
    ran = set(scripts) - {script for script, case in there if case == NOT_HERE}
    return [
        line
        for key, line in last(history).items()
        if key not in there and line.script in ran and line.ratio is not None
    ]


def measured(case: str, ratio: float, *, rival: str, more: bool = False, memory: float = 0.0) -> None:
    """Print a ratio beside the last recorded one, and hand it to the run that collects them."""
    script = Path(sys.argv[0]).name
    line = Line(script=script, case=case, ratio=float(ratio), rival=rival, more=more, memory=memory)
    before = last(recorded()).get((script, case))
    shown = "not recorded before"
    if before is not None and before.ratio is not None:
        times = line.worse_than(before)
        shown = f"recorded {before.ratio:.3g} at {before.commit}" + ("   WORSE" if times > WORSE else "")
    print(f"    {case}: {ratio:.3g} × {rival}; {shown}", flush=True)
    _collect(line)


def not_run_here(reason: str) -> None:
    """Say that this machine lacks what the script needs: its recorded cases are then not missed."""
    print(f"not run here: {reason}")
    _collect(Line(script=Path(sys.argv[0]).name, case=NOT_HERE, ratio=None, rival="", note=reason))


def _collect(line: Line) -> None:
    if os.environ.get(_COLLECTED):
        with Path(os.environ[_COLLECTED]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")


@functools.cache
def machine_unit() -> float:
    """Seconds of a product of two matrices and a sort, in the same process: for cases without a rival."""
    draw = np.random.default_rng(0)
    matrix, numbers = draw.standard_normal((1_500, 1_500)), draw.standard_normal(3_000_000)
    taken = []
    for _ in range(3):
        start = time.process_time()
        matrix @ matrix
        np.sort(numbers)
        taken.append(time.process_time() - start)
    return min(taken)


def _run(commands: Sequence[Sequence[str]]) -> tuple[list[Line], list[str]]:
    """Run some scripts; what they measured, and those that failed."""
    found, failed = [], []
    for script, *arguments in commands:
        print(f"== {script} {' '.join(arguments)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            collected = Path(folder) / "lines"
            environment = os.environ | {_COLLECTED: str(collected), "PYTHONPATH": str(HERE.parent)}
            done = subprocess.run(
                [sys.executable, str(HERE / script), *arguments], env=environment, check=False
            )
            failed += [script] if done.returncode else []
            if collected.exists():
                found += [Line(**json.loads(line)) for line in collected.read_text().splitlines()]
        print(flush=True)
    return found, failed


def _append(lines: Iterable[Line], file: Path = FILE) -> None:
    names = [each.name for each in fields(Line)]
    new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        if new:
            writer.writerow(names)
        for line in lines:
            shown = asdict(line) | {"more": "yes" if line.more else "", "memory": line.memory or ""}
            shown["ratio"] = "" if line.ratio is None else f"{line.ratio:.4g}"
            writer.writerow([shown[name] for name in names])


def page(history: Sequence[Line], unit_costs: str) -> str:
    """The page: the newest line of every case beside the first, what the history notes, and unit costs."""
    first = {(line.script, line.case): line for line in reversed(history)}
    newest = last(history)
    lines = [
        "# Measurements",
        "",
        "<!-- Written by python -m benchmarks.history --page from history.csv and unit_costs.md. -->",
        "",
        "Ratios of `make bench RECORD=1` on two cores: how many times its rival, in the same process, a case",
        "takes; with ↑ how many times as fast it is. *Machine units* are seconds of a product of matrices",
        "and a sort by NumPy. Seconds are not kept, since cores differ. A case is never dropped or made",
        "smaller without a line here.",
        "",
        "| case | ratio | rival | first recorded | memory, GB |",
        "|---|---|---|---|---|",
    ]
    for (script, case), line in sorted(newest.items()):
        if line.ratio is None:
            continue
        then = first[script, case]
        begun = "" if then is line or then.ratio is None else f"{then.ratio:.3g} at {then.commit}"
        memory = f"{line.memory:.2g}" if line.memory else ""
        lines.append(
            f"| `{script}`: {case} | {'↑ ' * line.more}{line.ratio:.3g} | {line.rival} | {begun} | {memory} |"
        )
    noted = [line for line in history if line.note]
    if noted:
        lines += ["", "## Notes of the history", ""]
        lines += [f"- `{line.script}`, {line.case}: {line.note}" for line in noted]
    return "\n".join([*lines, "", unit_costs.strip(), ""])


def _write_page() -> int:
    text = page(recorded(), (HERE / "unit_costs.md").read_text(encoding="utf-8"))
    (HERE / "RESULTS.md").write_text(text, encoding="utf-8")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run benchmarks, compare, and record what was asked to be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some cases, in three minutes")
    parser.add_argument("--record", action="store_true", help="add what was measured to history.csv")
    parser.add_argument("--page", action="store_true", help="only write RESULTS.md again")
    parser.add_argument("scripts", nargs="*", help="all of them unless named")
    asked = parser.parse_args(arguments)
    if asked.page:
        return _write_page()
    names = asked.scripts or sorted(path.name for path in HERE.glob("bench_*.py"))
    commands = QUICK if asked.quick else [(name,) for name in names]
    history = recorded()
    found, failed = _run(commands)
    gone = [] if asked.quick else missing(found, history, (script for script, *_ in commands))
    found = [line for line in found if line.case != NOT_HERE]
    for now, then, times in worse(found, history):
        print(
            f"{times:.2f} times worse: {now.script}, {now.case}: {now.ratio:.3g} × {now.rival}; "
            f"{then.ratio:.3g} at {then.commit}"
        )
    for line in gone:
        print(f"not measured: {line.script}, {line.case}, recorded at {line.commit}")
    for script in failed:
        print(f"failed: {script}")
    if asked.record:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=True
        ).stdout.strip()
        _append(Line(**asdict(line) | {"commit": commit}) for line in found)
        _write_page()
    return 1 if failed or gone or worse(found, history) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
