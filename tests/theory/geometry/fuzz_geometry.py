"""Random transcripts through the geometry engine, against exact arithmetic.

Integer and real rows, one target or several, known records; independent, Laplace, correlated and singular
noise. Checked: which part of a target is revealed, the profiled information, the bounds, the directions, the
recipes, linear functionals, and what one more release adds. No decision may be wrong (``undecided`` is
counted), and no number may be further from the truth than the stated error.

``python -m tools.fuzz --entry tests.theory.geometry.fuzz_geometry --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

import tests.units.fuzz_designs as designs
from sightline.noise.laws import GaussianNoise
from sightline.numerics.rank import Decision, Evidence
from sightline.theory.geometry.exposure import Exposure, Increment
from sightline.theory.geometry.transcript import Geometry
from sightline.theory.releases.linear import WeightedSum
from tests.numbered_cases import check_cases
from tests.units import exact_designs
from tests.units.exact_answers import ExactDesign, as_fraction, pivots_of, relative_error

UNIT = float(np.finfo(np.float64).eps)
# A target this close to the span of its nuisance, relative to its own length, is inside it to rounding.
NOTHING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What exact rows reveal of a target: the information, and how many of its directions."""

    information: Any  # fmpq_mat
    nuisance: int  # rank of the nuisance
    revealed: int
    width: int

    @classmethod
    def of(cls, exact: ExactDesign, target: list[int], nuisance: list[int]) -> Truth:
        G = exact.information
        basis = [nuisance[k] for k in pivots_of(exact.rows[:, nuisance])] if nuisance else []
        information = _block(G, target, target)
        if basis:
            across = _block(G, basis, target)
            information = information - across.transpose() * _block(G, basis, basis).solve(across)
        rank = len(pivots_of(exact.rows[:, [*nuisance, *target]]))
        return cls(
            information=information, nuisance=len(basis), revealed=rank - len(basis), width=len(target)
        )


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One transcript."""
    real = trial % 3 == 2
    rows = exact_designs.real_rows(generator) if real else designs.nasty_integers(generator, largest=7)
    case = designs.with_noise(rows, generator)
    rows, records = case.rows.astype(np.float64), case.rows.shape[1]
    count["real transcripts" if real else "integer transcripts"] += 1
    geometry = Geometry(jacobian=rows, noise=case.noise)
    size = min(int(generator.integers(1, 4)), case.unknown.size)
    target = np.sort(generator.permutation(case.unknown)[:size])
    compare_functional(geometry, case, generator, count, real=real)
    found = geometry.profile(target=target.tolist(), known=list(case.known))
    places = np.searchsorted(case.unknown, target).tolist()
    nuisance = np.setdiff1d(np.arange(case.unknown.size), places).tolist()
    truth = Truth.of(case.exact, places, nuisance)
    if found.identifiable is Decision.UNDECIDED:
        assert real, "integers are always decided"
        count["undecided"] += 1
        return
    count["decisions"] += 1
    if real and found.nuisance_rank.rank != truth.nuisance:
        # Dependent to rounding: the numbers are those of rows that are dependent.
        count["nuisance dependent to rounding"] += 1
        return
    if not decided_rightly(found, truth, count, real=real):
        return
    if real and 0 < truth.revealed < truth.width:
        count["parts of real targets"] += 1  # their coefficients are rounded
        return
    compare_information(found.information, truth, found.relative_error, count)
    compare_bounds(found, truth, case, places, count)
    if case.noise.law is GaussianNoise.law:
        members = np.flatnonzero(generator.random(records) < 0.6)
        if members.size:
            compare_increment(found, case, (members, places, nuisance), generator, count)


def bound_by_information(exact: ExactDesign, functional: list[Fraction]) -> Fraction | None:
    """The Cramér–Rao bound: under Laplace noise half the variance of the best weights."""
    mse = exact.functional_mse(functional)
    return None if mse is None else mse / (2 if exact.laplace else 1)


def compare_functional(
    geometry: Geometry,
    case: designs.Case,
    generator: np.random.Generator,
    count: Counter[str],
    *,
    real: bool,
) -> None:
    """One linear functional of the unknown records: often a combination of rows, else drawn at random."""
    rows = case.rows[:, case.unknown].astype(np.float64)
    if generator.random() < 0.6:
        used = [int(i) for i in generator.permutation(len(rows))[:2]]
        factors = [int(c) for c in generator.integers(-2, 3, len(used))]
        wanted = [
            sum((c * Fraction(rows[i, k]) for c, i in zip(factors, used, strict=True)), Fraction(0))
            for k in range(rows.shape[1])
        ]
    else:
        wanted = [Fraction(int(generator.integers(-2, 3))) for _ in range(rows.shape[1])]
    coefficients = np.zeros(case.rows.shape[1])
    coefficients[case.unknown] = [float(entry) for entry in wanted]
    exactly = all(Fraction(float(entry)) == entry for entry in wanted)
    if not coefficients.any() or not exactly:
        return  # a functional that doubles do not hold is another one
    found = geometry.profile(functional=coefficients, known=list(case.known))
    mse = bound_by_information(case.exact, wanted)
    if found.identifiable is Decision.UNDECIDED:
        count["functionals undecided"] += 1
        return
    count["functionals"] += 1
    if bool(found.identifiable) != (mse is not None):
        # Real rows may be rounded versions of dependent ones: a "no" may then be right, a "yes" never is.
        inexact = real or found.evidence is not Evidence.MODULAR
        assert inexact, ("a wrong decision on a functional", found.identifiable, wanted)
        assert mse is not None, ("a functional that is not revealed", wanted)
        count["functionals hidden but for rounding"] += 1
        return
    if mse is None:
        assert math.isinf(found.crb)
        return
    if found.nuisance_rank.rank != len(pivots_of(case.exact.rows)) - 1:
        assert real or found.evidence is not Evidence.MODULAR, "the rank of integers is exact"
        count["functionals whose nuisance is dependent to rounding"] += 1
        return
    if math.isinf(found.relative_error):
        count["functionals without a stated error"] += 1
        return
    off, error = relative_error(found.crb, mse), found.relative_error
    assert off <= error + 8 * UNIT, ("functional", found.crb, float(mse), off, error)
    count["functionals with a bound"] += 1
    if len(found.recipe):
        compare_recipe(found.recipe[0], wanted, case.exact, mse, found.relative_error, count)


def decided_rightly(found: Exposure, truth: Truth, count: Counter[str], *, real: bool) -> bool:
    """Yes iff all of the target is revealed, and as many directions as there are."""
    right = bool(found.identifiable) == (truth.revealed == truth.width)
    right = right and len(found.directions) == truth.revealed
    if right:
        return True
    # Real rows may be rounded versions of dependent ones. Then "no" is right if what the doubles reveal is
    # rounding; a "yes" never is.
    assert real, ("a wrong decision", found.identifiable, len(found.directions), truth.revealed)
    assert len(found.directions) < truth.revealed, "a revealed direction that is none"
    count["hidden but for rounding"] += 1
    return False


def compare_information(found: np.ndarray, truth: Truth, error: float, count: Counter[str]) -> None:
    """Every entry relative to the roots of its two diagonal entries."""
    if math.isinf(error):
        count["without a stated error"] += 1
        return
    exact = [[as_fraction(truth.information[i, k]) for k in range(truth.width)] for i in range(truth.width)]
    for i in range(truth.width):
        for k in range(truth.width):
            count["information entries"] += 1
            scale = math.sqrt(float(exact[i][i])) * math.sqrt(float(exact[k][k]))
            off = abs(float(Fraction(float(found[i, k])) - exact[i][k]))
            assert off <= (error + 8 * UNIT) * scale, ("information", i, k, off / (scale or 1.0), error)


def compare_bounds(
    found: Exposure, truth: Truth, case: designs.Case, places: list[int], count: Counter[str]
) -> None:
    """The bound of the whole target, and of each direction with its recipe."""
    error = found.relative_error
    if math.isinf(error):
        return
    if truth.revealed == truth.width:
        inverse = truth.information.inv()
        trace = sum((as_fraction(inverse[i, i]) for i in range(truth.width)), Fraction(0))
        off = relative_error(found.crb, trace)
        assert off <= error + 8 * UNIT, ("crb", found.crb, float(trace), off, error)
        count["bounds"] += 1
    for direction in found.directions:
        if not all(isinstance(entry, Fraction) for entry in direction.coefficients):
            continue
        wanted = [Fraction(0)] * case.unknown.size
        for place, entry in zip(places, direction.coefficients, strict=True):
            wanted[place] = Fraction(entry)
        mse = bound_by_information(case.exact, wanted)
        assert mse is not None, ("a direction that the answers do not show", direction.coefficients)
        off = relative_error(direction.crb, mse)
        assert off <= error + 8 * UNIT, ("direction", direction.crb, float(mse), off, error)
        count["directions"] += 1
        compare_recipe(direction.recipe, wanted, case.exact, mse, error, count)


def compare_recipe(  # many parameters: a recipe and all that it is held against
    recipe: np.ndarray,
    wanted: list[Fraction],
    exact: ExactDesign,
    mse: Fraction,
    error: float,
    count: Counter[str],
) -> None:
    """The weights give the combination and nothing else, but for last digits; measured in units of noise."""
    weights = [Fraction(float(weight)) for weight in recipe]
    allowed = (64 * (len(weights) + len(wanted)) * UNIT + 2 * error) * math.sqrt(float(mse)) * 1.01
    for k, column in enumerate(exact.rows.T.tolist()):
        off = sum((w * Fraction(a) for w, a in zip(weights, column, strict=True)), Fraction(0)) - wanted[k]
        length = math.sqrt(float(as_fraction(exact.information[k, k])))
        rounding = 8 * UNIT * abs(float(wanted[k]))
        assert abs(float(off)) <= allowed * length + rounding, ("a biased recipe", k, float(off))
        count["recipe entries"] += 1


def compare_increment(
    found: Exposure,
    case: designs.Case,
    where: tuple[np.ndarray, list[int], list[int]],
    generator: np.random.Generator,
    count: Counter[str],
) -> None:
    """One more release: whether it helps, what it opens, and the information afterwards."""
    members, places, nuisance = where
    old = case.rows[generator.integers(len(case.rows)), members]
    weights = np.where(generator.random(members.size) < 0.5, old, generator.integers(-3, 4, members.size))
    members, weights = members[weights != 0], weights[weights != 0].astype(np.float64)
    if members.size == 0:
        return
    stddev = float(10 ** generator.uniform(-3, 3))
    query = WeightedSum(members=members.tolist(), weights=weights, radius=1.0)
    step = found.increment(query, noise_stddev=stddev)
    row = np.zeros(case.rows.shape[1])
    row[members] = weights
    longer = ExactDesign(
        rows=np.vstack([case.exact.rows.astype(np.float64), row[case.unknown]]),
        covariance=_appended(case.exact.covariance, stddev),
    )
    before, after = (Truth.of(exact, places, nuisance) for exact in (case.exact, longer))
    grows = any(as_fraction(entry) != 0 for entry in (after.information - before.information).entries())
    count["increments"] += 1
    if case.rows.dtype.kind == "f":
        noise = case.noise.append(np.array([stddev]))
        again = Geometry(jacobian=np.vstack([case.rows, row]), noise=noise)
        now = again.profile(target=case.unknown[places].tolist(), known=list(case.known))
        rounded = 0 < after.revealed < after.width
        if rounded or now.nuisance_rank.rank != after.nuisance or len(now.directions) != after.revealed:
            count["increments to rounding"] += 1
            return
    _compare_step(step, after, grows=grows, opens=after.revealed - before.revealed, count=count)


def _compare_step(step: Increment, after: Truth, *, grows: bool, opens: int, count: Counter[str]) -> None:
    if step.helps is Decision.UNDECIDED:
        count["increments undecided"] += 1
        if math.isinf(step.relative_error):
            return
    else:
        assert bool(step.helps) == grows, ("helps", step.helps, grows)
    assert step.opens == opens, ("opens", step.opens, opens)
    compare_information(step.information, after, step.relative_error, count)


def _appended(covariance: np.ndarray, stddev: float) -> np.ndarray:
    if covariance.ndim == 1:
        return np.append(covariance, stddev)
    size = len(covariance)
    together = np.zeros((size + 1, size + 1))
    together[:size, :size] = covariance
    together[size, size] = stddev**2  # as the library keeps it
    return together


def _block(matrix: Any, rows: list[int], columns: list[int]) -> Any:
    entries: list[fmpq] = [matrix[i, k] for i in rows for k in columns]
    return fmpq_mat(len(rows), len(columns), entries)
