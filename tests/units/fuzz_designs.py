"""Random designs with nasty structure through the labeled engine, against exact arithmetic.

Integers (chains, ladders with large factors, repeated and nearly dependent rows, nested cells, weights up to
2⁵², known records) and real weights over many orders of magnitude; as dense rows, sparse rows and cells; with
independent, Laplace, correlated and singular noise. No decision may be wrong (``undecided`` is counted), and
no number may be further from the truth than the stated error.

``python -m tools.fuzz --entry tests.units.fuzz_designs --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx
from scipy import sparse

import tests.units.exact_designs as drawn
from sightline import MembershipDesign
from sightline.bounds.membership_design import Exposures
from sightline.noise.laws import CorrelatedNoise, GaussianNoise, LaplaceNoise
from sightline.units.description import Readout
from tests.numbered_cases import check_cases
from tests.units.exact_answers import BITS, ExactDesign, relative_error, root

UNIT = float(np.finfo(np.float64).eps)
VARIANCES = {
    "uniform": lambda: arb(1) / 12,
    "cos2": lambda: arb(1) / 12 - 1 / (2 * arb.pi() ** 2),
    "two-point": lambda: arb(1) / 4,
}
CHOOSES_PRIOR = "prior" in inspect.signature(MembershipDesign.exposures).parameters
PRIORS = tuple(VARIANCES) if CHOOSES_PRIOR else ("cos2",)
# Decisions are compared for every design; numbers, whose truth costs more, for this share.
NUMBERS = 1 / 3
# The lower end is a bound, not a number with a true value: it may give away this share of van Trees' bound.
MARGIN = 0.01


@dataclass(frozen=True, kw_only=True)
class Case:
    """A design and its noise, in the library's terms and exactly."""

    rows: np.ndarray
    noise: GaussianNoise | LaplaceNoise | CorrelatedNoise
    exact: ExactDesign  # over the unknown records
    known: tuple[int, ...]

    @property
    def unknown(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self.rows.shape[1]), self.known)


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One case."""
    kinds: tuple[Callable[[np.random.Generator, Counter[str]], None], ...]
    kinds = (*(integer_design, real_design) * 5, cell_design, parts_of_a_design)
    kinds[trial % len(kinds)](generator, count)


# ------------------------------------------------------------------ kinds of designs


def integer_design(generator: np.random.Generator, count: Counter[str]) -> None:
    """Integer rows as integers, doubles or sparse rows: always decided."""
    case = with_noise(nasty_integers(generator), generator)
    rows = case.rows
    ways = (rows, rows.astype(np.float64), sparse.csr_array(rows), sparse.csr_array(rows.astype(np.float64)))
    count["integer designs"] += 1
    found, name = exposures(case, ways[int(generator.integers(4))], generator)
    assert not found.undecided.any(), "integers are always decided"
    compare(found, case, name, count, numbers=generator.random() < NUMBERS)


def real_design(generator: np.random.Generator, count: Counter[str]) -> None:
    """Real weights: decided as the doubles are, or undecided."""
    rows = drawn.real_rows(generator)
    case = with_noise(rows, generator)
    count["real-weight designs"] += 1
    found, name = exposures(case, sparse.csr_array(rows) if generator.random() < 0.5 else rows, generator)
    compare(found, case, name, count, numbers=generator.random() < NUMBERS)


def cell_design(generator: np.random.Generator, count: Counter[str]) -> None:
    """Cells of partitions, some of them nested, some with one record, given as signatures with counts."""
    records, partitions = int(generator.integers(2, 9)), int(generator.integers(1, 4))
    table = generator.integers(-1 if generator.random() < 0.5 else 0, 4, (records, partitions))
    if partitions > 1 and generator.random() < 0.5:
        table[:, -1] = np.where(generator.random(records) < 0.5, table[:, 0], table[:, 0] + 4)
    numbered = [np.unique(column, return_inverse=True) for column in table.T]
    cells_of = np.array([back - (values[0] < 0) for values, back in numbered], dtype=np.int32).T
    cells_of = cells_of[:, cells_of.max(axis=0) >= 0]
    if cells_of.shape[1] == 0:
        return
    signatures = np.unique(cells_of, axis=0)
    counts = np.where(generator.random(len(signatures)) < 0.6, 1, generator.integers(1, 4, len(signatures)))
    if counts.sum() < 2:  # one record alone is no design
        return
    widths = signatures.max(axis=0) + 1
    cells = np.array([signatures[:, p] == cell for p, width in enumerate(widths) for cell in range(width)])
    rows = np.repeat(cells.astype(np.int64), counts, axis=1)
    case = with_noise(rows, generator, nobody_known=True)
    count["cell designs"] += 1
    found, name = exposures(case, sparse.csr_array(rows), generator)
    assert not found.undecided.any()
    first = np.cumsum(counts) - counts
    for place, size in enumerate(counts.tolist()):
        members = np.arange(first[place], first[place] + size)
        yes = case.exact.group_identifiable(members)
        assert bool(found.groups.identifiable[found.group[members[0]]]) == yes, "the sum of a group"
        count["decisions"] += 1
        wanted = [Fraction(int(j in members)) for j in range(rows.shape[1])]
        if yes:
            compare_rmse(
                found.groups.rmse[found.group[members[0]]], case.exact.functional_mse(wanted), found, count
            )
    compare_ends(found, case, name, count)


def parts_of_a_design(generator: np.random.Generator, count: Counter[str]) -> None:
    """The same design with the releases up to one of them, and without it, of integer rows."""
    case = with_noise(nasty_integers(generator, largest=8), generator)
    lines = len(case.rows)
    count["designs in parts"] += 1
    design = MembershipDesign(case.rows, noise=case.noise, readout=Readout.SUM)
    for release in range(lines):
        for kept in (np.arange(lines) <= release, np.arange(lines) != release):
            part = part_of(case.exact, kept)
            if part is None or not design.incidence.take(np.flatnonzero(kept)).sizes.all():
                continue
            found = design.take(np.flatnonzero(kept)).exposures(domain=(0.0, 1.0), known=case.known)
            for place, record in enumerate(case.unknown.tolist()):
                count["records in parts"] += 1
                mse = part.mean_squared_errors.get(place)
                if not found.undecided[record]:
                    assert (mse is not None) == bool(found.identifiable[record]), (release, kept.tolist())
                if mse is not None and found.identifiable[record]:
                    error, stated = float(found.rmse[record]), found.relative_error + 4 * UNIT
                    assert relative_error(error, root(mse)) <= stated, (error, float(mse) ** 0.5)


# ------------------------------------------------------------------ drawing


def nasty_integers(generator: np.random.Generator, *, largest: int = 10) -> np.ndarray:
    """Integer rows of many kinds, weights up to 2⁵²; now and then long chains and steep ladders."""
    if largest >= 10 and generator.random() < 0.01:
        size = int(generator.integers(12, 41))
        return (
            drawn.chain(size)
            if generator.random() < 0.5
            else drawn.ladder(size // 2, int(generator.integers(2, 3000)))
        )
    rows = drawn.integer_rows(generator)
    rows = rows[:largest, : largest + 1]
    if generator.random() < 0.15:
        places = generator.random(rows.shape) < 0.3
        rows = np.where(places, rows * 2 ** int(generator.integers(8, 16)), rows)
    if generator.random() < 0.1:  # as large as integers in doubles may be
        peak = int(np.max(np.abs(rows)))
        rows = rows * (2**52 // peak)
        rows[generator.random(rows.shape) < 0.2] += 1
    if generator.random() < 0.2:  # one record alone in a cell
        alone = np.zeros((1, rows.shape[1]), dtype=np.int64)
        alone[0, generator.integers(rows.shape[1])] = 1
        rows = np.vstack([rows, alone])
    rows = np.clip(rows, -(2**52), 2**52)
    return drawn.usable(rows)


def with_noise(rows: np.ndarray, generator: np.random.Generator, *, nobody_known: bool = False) -> Case:
    """A design with one of the laws of noise, and some records that the attacker knows."""
    lines, records = rows.shape
    known: tuple[int, ...] = ()
    if not nobody_known and generator.random() < 0.3:
        chosen = generator.permutation(records)[: int(generator.integers(1, records))]
        known = tuple(sorted(chosen.tolist()))
    left = rows[:, np.setdiff1d(np.arange(records), known)]
    spread = (0.0, 1.0, 3.0, 6.0, 12.0)[int(generator.integers(5))]
    levels = np.asarray(10 ** generator.uniform(-spread, spread, lines) * 10 ** generator.uniform(-3, 1))
    noise: GaussianNoise | LaplaceNoise | CorrelatedNoise
    match int(generator.integers(7)):
        case 6 if rows.dtype.kind == "i" and np.abs(rows).max() < 2**40 and not nobody_known:
            return with_singular_noise(rows, known, generator)
        case 0:
            noise = LaplaceNoise(scales=levels)
            exact = ExactDesign(rows=left, covariance=levels, laplace=True)
        case 1 if spread <= 3:
            root_of = generator.integers(-3, 4, (lines, lines)) + 4 * np.eye(lines, dtype=np.int64)
            covariance = (root_of @ root_of.T + np.eye(lines, dtype=np.int64)).astype(np.float64)
            noise = CorrelatedNoise(blocks=[covariance])
            exact = ExactDesign(rows=left, covariance=covariance)
        case _:
            noise = GaussianNoise(stddevs=levels)
            exact = ExactDesign(rows=left, covariance=levels)
    return Case(rows=rows, noise=noise, exact=exact, known=known)


def with_singular_noise(rows: np.ndarray, known: tuple[int, ...], generator: np.random.Generator) -> Case:
    """Consistent answers: some are combinations of others, and so is their noise."""
    lines, records = rows.shape
    combine = np.vstack([np.eye(lines, dtype=np.int64), generator.integers(-1, 2, (2, lines))])
    combine = combine[generator.permutation(len(combine))]
    combine = combine[combine.any(axis=1)]
    root_of = generator.integers(-2, 3, (lines, lines)) + 4 * np.eye(lines, dtype=np.int64)
    covariance = combine @ (root_of @ root_of.T + np.eye(lines, dtype=np.int64)) @ combine.T
    together = combine @ rows
    left = together[:, np.setdiff1d(np.arange(records), known)]
    return Case(
        rows=together,
        noise=CorrelatedNoise(blocks=[covariance.astype(np.float64)]),
        exact=ExactDesign(rows=left, covariance=covariance.astype(np.float64)),
        known=known,
    )


def part_of(exact: ExactDesign, kept: np.ndarray) -> ExactDesign | None:
    """The same with some rows only."""
    if not kept.any():
        return None
    lines = np.flatnonzero(kept)
    covariance = (
        exact.covariance[lines] if exact.covariance.ndim == 1 else exact.covariance[np.ix_(lines, lines)]
    )
    return ExactDesign(rows=exact.rows[lines], covariance=covariance, laplace=exact.laplace)


def exposures(case: Case, rows: object, generator: np.random.Generator) -> tuple[Exposures, str]:
    """The engine's answer, under one of the priors that it accepts."""
    name = PRIORS[int(generator.integers(len(PRIORS)))]
    design = MembershipDesign(rows, noise=case.noise, readout=Readout.SUM)
    chosen: dict[str, Any] = {"prior": name} if CHOOSES_PRIOR else {}
    return design.exposures(domain=(0.0, 1.0), known=case.known, **chosen), name


# ------------------------------------------------------------------ comparing


def compare(found: Exposures, case: Case, name: str, count: Counter[str], *, numbers: bool) -> None:
    """Decisions, errors of unbiased attacks, recipes and both ends of the unknown records."""
    truth = case.exact.identifiable
    unknown = case.unknown
    decided = ~found.undecided[unknown]
    wrong = found.identifiable[unknown][decided] != truth[decided]
    assert not wrong.any(), ("a wrong decision", case.rows.tolist(), case.known)
    assert not (found.identifiable & found.undecided).any()
    count["decisions"] += int(decided.sum())
    count["undecided"] += int((~decided).sum())
    assert np.array_equal(np.isfinite(found.rmse[unknown]), found.identifiable[unknown])
    if not numbers:
        return
    for place, mse in case.exact.mean_squared_errors.items():
        record = int(unknown[place])
        if found.identifiable[record]:
            compare_rmse(found.rmse[record], mse, found, count)
            compare_recipe(found, case, record, mse, count)
    compare_ends(found, case, name, count)


def compare_rmse(value: float, mse: Fraction | None, found: Exposures, count: Counter[str]) -> None:
    assert mse is not None
    count["rmse"] += 1
    truth = root(mse)
    if math.isinf(found.relative_error):
        count["without a stated error"] += 1
        return
    off = relative_error(float(value), truth)
    assert off <= found.relative_error + 2 * UNIT, ("rmse", value, float(truth), off, found.relative_error)


def compare_recipe(found: Exposures, case: Case, record: int, mse: Fraction, count: Counter[str]) -> None:
    """The weights give the record and nothing else, but for their last digits; measured in units of noise."""
    if math.isinf(found.relative_error):
        return
    exact, place = case.exact, int(np.searchsorted(case.unknown, record))
    weights = [Fraction(float(weight)) for weight in found.recipe(record)]
    columns = [[Fraction(entry) for entry in column] for column in exact.rows.T.tolist()]
    allowed = (len(weights) * 64 * UNIT + 2 * found.relative_error) * math.sqrt(float(mse)) * 1.01
    for k, column in enumerate(columns):
        off = sum((w * a for w, a in zip(weights, column, strict=True)), Fraction(0)) - int(k == place)
        length = math.sqrt(float(Fraction(int(exact.information[k, k].p), int(exact.information[k, k].q))))
        assert abs(float(off)) <= allowed * length, (
            "a biased recipe",
            record,
            k,
            float(off),
            allowed * length,
        )
        count["recipe entries"] += 1


def compare_ends(found: Exposures, case: Case, name: str, count: Counter[str]) -> None:
    """Both ends and the information of the unknown records."""
    rows = case.unknown
    lower, upper = found.remaining_lower[rows], found.remaining_upper[rows]
    assert np.all((lower >= 0) & (upper <= 1) & (lower <= upper * (1 + 1e-15))), (lower, upper)
    error = found.relative_error
    with ctx.workprec(BITS):
        v = VARIANCES[name]()
        linear = case.exact.shares(1 / v, linear=True)
        fisher = 4 * arb.pi() ** 2
        van_trees = case.exact.shares(fisher, linear=False) if name == "cos2" else None
        for row, place in enumerate(range(rows.size)):
            count["upper ends"] += 1
            assert arb(float(upper[row])) >= linear[place] * (1 - 64 * arb(UNIT)), ("upper end too low", row)
            assert arb(float(lower[row])) <= linear[place] * (1 + 64 * arb(UNIT)), ("lower above upper", row)
            if math.isfinite(error):
                off = relative_error(float(upper[row]), linear[place])
                assert off <= error + 16 * UNIT, ("upper end", row, off, error)
                G = case.exact.information[place, place]
                information = float(found.information[rows[row]])
                off = relative_error(information, Fraction(int(G.p), int(G.q)))
                assert off <= error + 16 * UNIT, ("information", row, off, error)
            if van_trees is not None:
                count["lower ends"] += 1
                floor = van_trees[place] / (fisher * v) * (1 - MARGIN - arb(min(error, 1.0)))
                assert arb(float(lower[row])) >= floor, (
                    "lower end below van Trees",
                    row,
                    float(floor),
                    lower[row],
                )
