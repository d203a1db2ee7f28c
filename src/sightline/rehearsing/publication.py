"""One publication of a plan: every copy of every number, simulated or read from a file.

The file is a CSV table in UTF-8 with one line for each published number and a header line with exactly these
columns: ``release``, ``label`` (which of a release's aggregates, empty if it has one), ``copy`` (1, 2, … for
a release that is published several times), ``key 1``, ``key 2``, … (the values of GROUP BY, as many columns
as any release has; the others stay empty) and ``value``. Numbers that depend on no secret, such as COUNT(*),
are left out.

The true values and the exact answers behind it are for the owner only.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.stats import chi2

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import Lowered
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.auditing.session import Session
from sightline.errors import InvalidInput, TooMuchWork, require
from sightline.noise.published import PublishedLaw
from sightline.noise.strategies import Strategy
from sightline.tables.engines.address import csv_lines
from sightline.tables.membership import Statistic
from sightline.tables.records import secrets_of, signature_totals

_MOST_NUMBERS = 1_000_000
_LARGEST_FILE = 200_000_000  # bytes
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")

Name = tuple[str, str, int, tuple[str, ...]]  # release, label, copy, key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Publication:
    """The published numbers: for each its cell of the membership, in order, copy after copy."""

    cells: IndexArray
    names: tuple[Name, ...]
    values: FloatArray  # of steps where running sums are published: a sum less the one before it
    sums: tuple[IndexArray, ...] = ()  # places of the steps of which running sums are published, in order

    @property
    def means(self) -> FloatArray:
        """For every cell the mean of its copies."""
        return np.asarray(np.bincount(self.cells, self.values) / np.bincount(self.cells))

    def misfit(self, findings: Findings, true_answers: FloatArray) -> float:
        r"""The chance of numbers at least so far from the true answers, under the plan's noise.

        Gaussian noise: :math:`w^\top \Sigma^{-1} w` has a chi-squared law; of a strategy it is
        :math:`\|Cw\|^2/\sigma^2`. Laplace noise of scale b: :math:`2|w|/b` has one of two degrees of freedom.
        Their sum has all degrees together.
        """
        apart = self.values - true_answers[self.cells]
        pricing = findings.pricing
        standard = np.abs(apart / pricing.scale[self.cells])
        for places, stddev, strategy in _shared(pricing):
            far = np.linalg.norm(apart[places] @ strategy.table.T, axis=1) / stddev
            standard[places] = far[:, None] / math.sqrt(strategy.steps)
        laplace = has_laplace_noise(findings)[self.cells]
        far = np.sum(np.where(laplace, 2 * standard, standard**2))
        return float(chi2.sf(far, apart.size + np.count_nonzero(laplace)))

    def text(self) -> str:
        """The publication in the form that :func:`read_publication` reads."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        keys = _most_keys(self.names)
        writer.writerow(_header(keys))
        values = self.values.copy()
        for places in self.sums:
            values[places] = np.cumsum(values[places])
        for name, value in zip(self.names, values, strict=True):
            release, label, copy, key = _padded(name, keys)
            writer.writerow([release, label, copy, *key, repr(float(value))])
        return stream.getvalue()


def has_laplace_noise(findings: Findings) -> NDArray[np.bool_]:
    """Which numbers have Laplace noise; all others have Gaussian noise, in a plan that can be rehearsed."""
    laws = findings.pricing.laws
    return np.array([law is PublishedLaw.LAPLACE for law in laws], dtype=np.bool_)[findings.pricing.owner]


def simulate_publication(
    findings: Findings, true_answers: FloatArray, generator: np.random.Generator
) -> Publication:
    """Publish the true answers once, with the noise of the plan."""
    cells, names = _numbers(findings)
    pricing = findings.pricing
    normal, laplace = generator.standard_normal(cells.size), generator.laplace(size=cells.size)
    drawn = np.where(has_laplace_noise(findings)[cells], laplace, normal) * pricing.scale[cells]
    for places, stddev, strategy in _shared(pricing):
        drawn[places] = stddev * normal[places] @ cholesky(strategy.covariance)
    return Publication(cells=cells, names=names, values=true_answers[cells] + drawn, sums=_sums(pricing))


def _shared(pricing: Pricing) -> Iterator[tuple[IndexArray, float, Strategy]]:
    """The places of numbers that share noise, copies × steps, the noise that is drawn, and its strategy."""
    copies = pricing.times[pricing.owner]
    first = np.cumsum(copies) - copies
    for cells, strategy in pricing.steps():
        every = first[cells] + np.arange(copies[cells[0]])[:, None]
        yield every, float(pricing.parameter[cells[0]]), strategy


def _sums(pricing: Pricing) -> tuple[IndexArray, ...]:
    return tuple(line for places, _, one in _shared(pricing) if one.running for line in places)


def read_publication(path: Path, findings: Findings) -> Publication:
    """Read what was really published. Messages name a row of the file and quote nothing from it.

    The numbers must be the noisy aggregates themselves: what a release computes with them is not undone.
    """
    harmless = ("ORDER BY", "LIMIT")
    changed = [
        part.name
        for part in findings.membership.partitions
        if part.computed is not None and any(not step.startswith(harmless) for step in part.computed.steps)
    ]
    require(
        not changed,
        f"{path.name}: numbers that are published as aggregates",
        got=f"a plan that computes with those of {changed[0][:60]!r}" if changed else "",
        fix="give a plan with the aggregates alone, and their noisy numbers",
    )
    cells, names = _numbers(findings)
    keys = _most_keys(names)
    wanted = {_padded(name, keys): place for place, name in enumerate(names)}
    require(len(wanted) == len(names), "groups that their keys tell apart", got="two that read alike")
    found = csv_lines(path, f"{path.name}: lines of CSV", most=_LARGEST_FILE, error=InvalidInput)
    require(len(found) > 0, f"{path.name}: a header line", got="an empty file")
    header, *lines = found
    require(header == _header(keys), f"{path.name}: the header line {','.join(_header(keys))}", got="another")
    values = np.full(len(names), np.nan)
    for number, line in enumerate(lines, start=2):
        where = f"{path.name}, row {number}"
        require(len(line) == keys + 4, f"{where}: {keys + 4} fields", got=len(line))
        place = wanted.get(_name(line))
        require(
            place is not None,
            f"{where}: a number that the plan publishes and that depends on a secret",
            got="another release, label, copy or key",
        )
        assert place is not None
        require(math.isnan(values[place]), f"{where}: each number once", got="one for the second time")
        require(
            _NUMBER.fullmatch(line[-1]) is not None, f"{where}: a finite decimal number", got="another text"
        )
        values[place] = float(line[-1])
        require(math.isfinite(values[place]), f"{where}: a finite decimal number", got="a larger one")
    missing = np.flatnonzero(np.isnan(values))
    if missing.size:
        release, _, copy, _ = names[missing[0]]
        raise InvalidInput(
            f"{path.name}: expected all {len(names):,} published numbers, got {len(names) - missing.size:,}; "
            f"the first that is missing is of release {release[:60]!r}, copy {copy}"
        )
    for places in _sums(findings.pricing):
        values[places] = np.diff(values[places], prepend=0.0)
    return Publication(cells=cells, names=names, values=values, sums=_sums(findings.pricing))


def _name(line: list[str]) -> Name:
    release, label, copy, *key = line[:-1]
    whole = copy.isascii() and copy.isdigit() and not copy.startswith("0") and len(copy) < 9
    return release, label, int(copy) if whole else 0, tuple(key)


def _padded(name: Name, keys: int) -> Name:
    """The name with empty texts for the keys that its release does not have."""
    release, label, copy, key = name
    return release, label, copy, (*key, *[""] * (keys - len(key)))


def _numbers(findings: Findings) -> tuple[IndexArray, tuple[Name, ...]]:
    """Every published number: its cell and its name."""
    membership, pricing = findings.membership, findings.pricing
    partition = np.array([cell.partition for cell in membership.cells], dtype=np.intp)
    times = pricing.times[partition]
    total = int(times.sum())
    if total > _MOST_NUMBERS:
        raise TooMuchWork(f"expected at most {_MOST_NUMBERS:,} published numbers, got {total:,}")
    named = []
    for cell, copies in zip(membership.cells, times, strict=True):
        part = membership.partitions[cell.partition]
        release = findings.plan.releases[part.query].name
        named += [(release, part.label, copy, cell.key) for copy in range(1, int(copies) + 1)]
    return np.repeat(np.arange(times.size), times), tuple(named)


def _most_keys(names: tuple[Name, ...]) -> int:
    return max(len(key) for *_, key in names)


def _header(keys: int) -> list[str]:
    return ["release", "label", "copy", *(f"key {k + 1}" for k in range(keys)), "value"]


MOST_NAMED = 5  # records of a sum that are named
# The keys and the secrets of some rows with one signature.
Secrets = tuple[tuple[str, float | str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """What the table says: sums of the secrets, and the answers that follow from them."""

    unknown: FloatArray  # for every column of the findings the sum of its secrets
    known: FloatArray  # for every row of the design, what the attacker knows of it
    answers: FloatArray  # the exact answer of every published number of the membership

    @classmethod
    def of(cls, session: Session, findings: Findings) -> Truth:
        """Ask the engine for it."""
        linear, totals = rehearsed(findings).linear, session.totals(None)
        everyone = totals
        if findings.membership.known_rows:
            everyone = signature_totals(session.engine, replace(session.counted, known=""))
        unknown = _column_sums(session.plan, linear, totals)
        answers = np.empty(len(findings.membership.cells))
        answers[linear.cells] = _linear_answers(session.plan, linear, everyone)
        known = answers[linear.cells] * linear.factors + linear.offsets - linear.table @ unknown
        return cls(unknown=unknown, known=known, answers=answers)


def rehearsed(findings: Findings) -> LinearFindings:
    """The findings that are rehearsed: where persons have several rows, those about each row."""
    return findings.rows_apart if findings.membership.by_person else findings.linear


def seen_rows(linear: Lowered, truth: Truth, answers: FloatArray) -> FloatArray:
    """The rows of the design behind published numbers, less what the attacker knows."""
    return np.asarray(answers[linear.cells] * linear.factors + linear.offsets - truth.known)


def secrets_by_column(session: Session, linear: Lowered, columns: IndexArray) -> dict[int, Secrets]:
    """The keys and the secrets of the first unknown rows of some columns, sorted by key."""
    own = {int(column): linear.signatures_of(int(column)).tolist() for column in columns}
    wanted = sorted({one for signatures in own.values() for one in signatures})
    found = secrets_of(session.engine, session.counted, signature_ids=wanted)
    return {
        column: tuple(sorted(row for one in signatures for row in found[one][:MOST_NAMED]))
        for column, signatures in own.items()
    }


def _column_sums(plan: Plan, linear: Lowered, totals: FloatArray) -> FloatArray:
    """The sums of the findings' columns, from those of the signatures."""
    names = plan.data.categories or ()
    place = [names.index(name) for name in linear.categories] or [0]
    inside, units = linear.unit_of_record >= 0, len(linear.units)
    each = [np.bincount(linear.unit_of_record[inside], totals[inside, c], units) for c in place]
    sums: FloatArray = np.stack(each, axis=1, dtype=np.float64).ravel()
    return sums


def _linear_answers(plan: Plan, linear: Lowered, totals: FloatArray) -> FloatArray:
    """The exact answers of the linear numbers, from the sums of all secrets of every signature."""
    membership, names = linear.membership, plan.data.categories or ()
    sums = np.zeros(len(membership.cells))
    for p, part in enumerate(membership.partitions):
        counted = [names.index(name) for name in part.categories if name in names] if names else [0]
        own = totals[:, counted].sum(axis=1) * membership.weights_in(p)
        position = membership.positions(p)
        added = np.bincount(position[position >= 0], own[position >= 0], sums.size)
        mine = slice(int(membership.starts[p]), int(membership.starts[p + 1]))
        sums[mine] = added[mine] if part.above else membership.weight_sums[mine] - added[mine]
        if part.statistic is Statistic.MEAN:
            sums[mine] /= np.array([cell.rows for cell in membership.cells[mine]])
    return np.asarray(sums[linear.cells])
