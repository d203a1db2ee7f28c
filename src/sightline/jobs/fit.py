"""The job: from noisy numbers to consistent tables, their least-squares fit.

The noisy numbers come from a CSV file with a line for each: the digest of the plan, the release, the label
of the aggregate where it has several, the values of the group, which copy it is, and the value. No secret
is read: of the table only who is in which group.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.published_fit import DerivedNumbers, PublishedFit, check_fit
from sightline.auditing.reading import PlanLike, read_plan
from sightline.auditing.session import opened
from sightline.errors import InvalidInput, require, require_plan
from sightline.numerics.constrained_fit import non_negative, whole
from sightline.numerics.least_squares import solution
from sightline.progress import Progress, report, reporting
from sightline.report.fit import Fitted, fit_lines
from sightline.tables.engines.address import LARGEST_FILE, csv_lines
from sightline.tables.membership import Cell, Membership, Partition
from sightline.values import frozen, short_repr

_FIRST, _LAST = ("plan", "release", "label"), ("copy", "noise_stddev", "value")
_MOST_COVARIANCES = 5000  # numbers, of which a covariance is a file of 500 MB


@frozen
class FitTask:
    """The numbers of a plan, and the digest of all that their fit depends on."""

    plan: Plan
    membership: Membership
    pricing: Pricing
    fit: PublishedFit
    derived: DerivedNumbers
    digest: str

    @property
    def copies(self) -> IndexArray:
        """How often each number is published."""
        return self.pricing.times[self.pricing.owner]

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the file that hold the values of a group."""
        return tuple(
            f"key_{place + 1}" for place in range(max(len(one.key) for one in self.membership.cells))
        )

    @property
    def partitions(self) -> list[Partition]:
        """Of every number, measured and then derived."""
        measured = [self.membership.partitions[cell.partition] for cell in self.membership.cells]
        return [*measured, *self.derived.partitions]

    @property
    def cells(self) -> list[Cell]:
        """Every number, measured and then derived."""
        return [*self.membership.cells, *self.derived.cells]

    def names(self) -> list[tuple[str, ...]]:
        """Release, label and group of every measured number."""
        return self.all_names()[: len(self.membership.cells)]

    def all_names(self) -> list[tuple[str, ...]]:
        """The same of every number, measured and then derived."""
        both = zip(self.partitions, self.cells, strict=True)
        return [(self.plan.releases[part.query].name, part.label, *cell.key) for part, cell in both]


@frozen
class FittedTables:
    """Consistent tables: what to publish."""

    task: FitTask
    values: FloatArray
    stddevs: FloatArray  # of the least-squares fit; not a number where too many numbers hang together
    conditions: int | None  # how many numbers follow from others
    misfit: float  # the squares of what the fit took out, in units of the noise
    rounding: float  # the root mean square that whole numbers moved a number by
    covariance: FloatArray | None

    __repr__ = short_repr

    @property
    def disagrees(self) -> bool:
        """Whether noise makes the numbers contradict each other as much once in a million times only."""
        if not self.conditions:
            return False
        from scipy.special import gammaincc  # few commands need it

        return bool(gammaincc(self.conditions / 2, self.misfit / 2) < 1e-6)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The name and the content of a CSV file for each release, and of the covariance if asked for."""
        task, cells, partition = self.task, self.task.cells, self.task.partitions
        for query, name in enumerate(_file_names([one.name for one in task.plan.releases])):
            own = [place for place, part in enumerate(partition) if part.query == query]
            if not own:
                continue
            keys = partition[own[0]].key_names or [f"key_{at + 1}" for at in range(len(cells[own[0]].key))]
            several = any(partition[place].label for place in own)
            lines = [[*keys, *["label"] * several, "value", "stddev"]]
            for place in own:
                label = [partition[place].label] * several
                stddev = self.stddevs[place]
                error = "" if math.isnan(stddev) else repr(float(stddev))
                lines.append([*cells[place].key, *label, _written(self.values[place]), error])
            yield f"{name}.csv", _csv(lines)
        if self.covariance is not None:
            names = [
                ": ".join(filter(None, (one[0], one[1], ", ".join(one[2:])))) for one in task.all_names()
            ]
            lines = [["number", *names]]
            lines += [
                [name, *map(repr, line)] for name, line in zip(names, self.covariance.tolist(), strict=True)
            ]
            yield "covariance.csv", _csv(lines)

    def lines(self) -> list[str]:
        """What was done, in a few sentences."""
        noise = np.sqrt(self.task.fit.variances)
        stddevs = self.stddevs[: noise.size]
        known, publish = ~np.isnan(stddevs), self.task.plan.publish
        typical = (float(np.median(noise[known])), float(np.median(stddevs[known]))) if known.any() else None
        said = Fitted(
            numbers=noise.size,
            following=self.conditions,
            derived=len(self.task.derived.cells),
            typical=typical,
            refitted=publish.non_negative,
            moved=self.rounding if publish.whole else None,
            misfit=self.misfit if self.disagrees else None,
        )
        return list(fit_lines(said))


def fit_task(plan: PlanLike, *, progress: Progress | None = None) -> FitTask:
    """Read a plan, and who is in which group of its table."""
    checked, base = read_plan(plan)
    require_plan(
        checked.publish.consistent, "[publish] consistent = true", got="none", fix="say it in the plan"
    )
    require_plan(
        not any(one.audited for one in checked.secrets),
        "a plan about one secret for a fit",
        got="several",
        fix="write a plan for each",
    )
    with reporting(progress), opened(checked, base) as session:
        report("reading the table", 0.0)
        membership = session.membership()
        pricing = price(session.plan, membership)
        check_fit(session.plan, membership, pricing)
        fit = PublishedFit.of(session.plan, membership, pricing)
        derived = DerivedNumbers.of(session.plan, membership)
    task = FitTask(plan=checked, membership=membership, pricing=pricing, fit=fit, derived=derived, digest="")
    again = [name for name, times in Counter(task.all_names()).items() if times > 1]
    require_plan(
        not again,
        "a name of its own for each number: release, label and group",
        got=f"several of one name in release {again[0][0][:60] if again else ''!r}",
        fix="give the aggregates other names: AS",
    )
    return replace(task, digest=_digest(task))


def noisy_file(task: FitTask) -> bytes:
    """A file of all numbers to be published, with the noise that each needs and no values."""
    lines = [[*_FIRST, *task.key_columns, *_LAST]]
    width = 2 + len(task.key_columns)
    stddevs = task.pricing.noise_stddev.tolist()
    for name, stddev, copies in zip(task.names(), stddevs, task.copies.tolist(), strict=True):
        padded = [*name, *[""] * (width - len(name))]
        lines += [[task.digest, *padded, str(copy + 1), repr(stddev), ""] for copy in range(copies)]
    return _csv(lines)


def fit(
    plan: PlanLike, noisy: str | Path, *, covariance: bool = False, progress: Progress | None = None
) -> FittedTables:
    """The consistent tables of a plan's noisy numbers.

    ``noisy`` is a CSV file with every number once, as ``sightline fit PLAN --template FILE`` lists them.
    ``covariance`` adds that of the fit.
    """
    task = fit_task(plan, progress=progress)
    numbers = read_noisy(task, Path(noisy))
    require(
        not covariance or numbers.size <= _MOST_COVARIANCES,
        f"a covariance of at most {_MOST_COVARIANCES:,} numbers",
        got=f"{numbers.size:,}",
    )
    with reporting(progress):
        report("fitting", 0.0)
        return fitted_tables(task, numbers, covariance=covariance)


def fitted_tables(task: FitTask, noisy: FloatArray, *, covariance: bool = False) -> FittedTables:
    """The same from the means of the copies of every number."""
    made, publish = task.fit, task.plan.publish
    least_squares = made.fitted(noisy)
    misfit = float(np.sum(np.square(noisy - least_squares) / made.variances))
    values, rounding = least_squares, 0.0
    variances, sums = made.system.variances, made.sums(noisy)
    columns = made.columns
    if publish.non_negative:
        kinds = non_negative(columns, sums, variances)
        values = made.numbers(columns.rows @ kinds)
    elif publish.whole:
        kinds = columns.completed(solution(*_consistent(made, least_squares)))
    if publish.whole:
        kinds = whole(columns, kinds, sums, variances, floor=publish.non_negative)
        rounded = made.numbers(columns.rows @ kinds)
        rounding = float(np.sqrt(np.mean(np.square(rounded - values))))
        values = rounded
    computed = task.derived.weights @ values + task.derived.constants
    return FittedTables(
        task=task,
        values=np.concatenate([values, np.rint(computed) if publish.whole else computed]),
        stddevs=np.concatenate([made.stddevs, made.stddevs_of(task.derived)]),
        conditions=made.conditions,
        misfit=misfit,
        rounding=rounding,
        covariance=made.covariance(task.derived) if covariance else None,
    )


def _consistent(made: PublishedFit, numbers: FloatArray) -> tuple[object, FloatArray, FloatArray]:
    rows, offset = made.columns.free
    return rows, made.sums(numbers) - offset, np.ones(numbers.size)


def read_noisy(task: FitTask, path: Path) -> FloatArray:
    """The mean of the copies of every number, from a file that has each once."""
    what = "a CSV file of noisy numbers"
    lines = csv_lines(path, what, most=LARGEST_FILE, error=InvalidInput)
    header = [name.strip() for name in lines[0]] if lines else []
    needed = (*_FIRST, *task.key_columns, "copy", "value")
    missing = [name for name in needed if header.count(name) != 1]
    require(
        not missing,
        f"{path.name}: the columns {', '.join(needed)}, once each",
        got=f"a header without {missing[0]}" if header and missing else "an empty file",
        fix="sightline fit PLAN --template FILE writes a file to fill in",
    )
    place = {
        (*name, *[""] * (2 + len(task.key_columns) - len(name))): at for at, name in enumerate(task.names())
    }
    at = [header.index(name) for name in needed]
    total, seen = np.zeros(len(place)), Counter[tuple[int, int]]()
    copies = task.copies
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        where = f"{path.name}: line {number}"
        require(len(line) == len(header), f"{where}: {len(header)} fields", got=str(len(line)))
        digest, *name, copy, value = (line[one] for one in at)
        require(
            digest == task.digest,
            f"{where}: numbers of this plan, {task.digest}",
            got="those of another, or of this plan before it or its table changed",
        )
        cell = place.get(tuple(name), -1)
        require(cell >= 0, f"{where}: a number of the plan", got="a release, label or group that it has not")
        which = int(copy) if re.fullmatch("[0-9]{1,6}", copy) else 0
        require(
            1 <= which <= copies[cell],
            f"{where}: a copy from 1 to {copies[cell]}",
            got="another",
            fix="see times",
        )
        seen[cell, which] += 1
        require(seen[cell, which] == 1, f"{where}: every number once", got="one that an earlier line has")
        total[cell] += _number(value, where)
    absent = int(copies.sum()) - len(seen)
    first = next((one for one in range(copies.size) for c in range(copies[one]) if not seen[one, c + 1]), 0)
    require(
        absent == 0,
        f"{path.name}: every number of the plan",
        got=f"{absent:,} missing, the first in release {task.names()[first][0][:60]!r}",
    )
    return np.asarray(total / copies)


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    require(
        math.isfinite(value) and abs(value) < 1e100,
        f"{where}: a finite number",
        got="something else" if text else "nothing",
    )
    return value


def _digest(task: FitTask) -> str:
    """Of all that the fit depends on: the numbers, their noise, and who is in which."""
    rows, parts = task.fit.columns.rows.tocsr(), hashlib.sha256()
    rows.sort_indices()
    parts.update(repr((task.names(), task.copies.tolist())).encode())
    for array in (
        rows.indptr,
        rows.indices,
        rows.data,
        task.fit.columns.totals,
        task.fit.variances,
        task.fit.factors,
    ):
        parts.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return parts.hexdigest()[:16]


def _written(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _file_names(names: Sequence[str]) -> list[str]:
    """A file name for each release; those that would be equal get their numbers."""
    plain = [re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "release" for name in names]
    again = Counter(plain)
    taken = {"covariance"}
    chosen_names = []
    for place, name in enumerate(plain):
        chosen = name if again[name] == 1 and name not in taken else f"{name}-{place + 1}"
        while chosen in taken:
            chosen += "-"
        taken.add(chosen)
        chosen_names.append(chosen)
    return chosen_names


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()
