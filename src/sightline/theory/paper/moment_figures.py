r"""Pairs and groups under moments: the bound, its bottleneck, and what is below it.

Figures: ``fig:poly_synth``, ``diag:bottleneck``, ``diag:bounds``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.progress import reported
from sightline.theory.multiset.curve import ReleaseCurve, release_curve, release_curves
from sightline.theory.multiset.family import Family
from sightline.theory.multiset.moments import (
    Moments,
    moment_crb_bound,
    moment_log_determinant_bound,
    moment_value_bounds,
)
from sightline.theory.multiset.thresholds import Thresholds
from sightline.theory.paper.comparison import Claim, Comparison, Effort, Figure, Line, claim
from sightline.theory.paper.drawing import panel, stars_of
from sightline.theory.paper.published import BASIC, UNIFORM, ZCDP, printed_line, reference

Pair = tuple[float, float]
_RELEASES = range(2, 41)
SYNTHETIC: dict[str, Pair] = {"interior": (-0.4, 0.7), "mixed": (-0.6, 1.0), "boundary": (-1.0, 1.0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolySynthResult:
    """The bounds by L, and how far the table's sensitivities are from the printed curves."""

    synthetic: tuple[Line, ...]
    cohorts: tuple[Line, ...]
    # For each printed cohort, with the sensitivities of the paper's table: the largest relative difference
    # from its curve at the pair of the grid that fits it best.
    table_misfit: tuple[float, ...]
    proven: tuple[bool, ...]  # for each synthetic pair: no count beyond the range has a smaller bound


def compute_poly_synth(_effort: Effort) -> PolySynthResult:
    r"""The bound on a pair of values under the first L moments.

    Compute the release curves under both sensitivity conventions.
    """

    def curves(pairs: dict[str, Pair], family: Moments) -> dict[str, ReleaseCurve]:
        return {
            name: release_curve(pair, family=family, accountant=BASIC, releases=_RELEASES)
            for name, pair in pairs.items()
        }

    def lines(curves: dict[str, ReleaseCurve]) -> tuple[Line, ...]:
        return tuple(Line.of(name, x=_RELEASES, y=curve.crb) for name, curve in curves.items())

    synthetic = curves(SYNTHETIC, UNIFORM)
    # The paper does not print the cohorts' pairs; we solved its curves for them.
    cohorts: dict[str, Pair] = {
        "interior": (-0.14419469813339, 0.54050243465370),
        "near-boundary": (0.52739273864214, 0.96285908500679),
    }
    return PolySynthResult(
        synthetic=lines(synthetic),
        cohorts=lines(curves(cohorts, Moments())),
        table_misfit=_misfit(),
        proven=tuple(curve.best_is_global for curve in synthetic.values()),
    )


def _misfit() -> tuple[float, ...]:
    """Try all pairs of 201 values in [−1, 1] with the table's sensitivities."""
    pairs = np.linspace(-1, 1, 201)[np.stack(np.triu_indices(201, k=1), axis=1)]
    curves = release_curves(pairs, family=UNIFORM, accountant=BASIC, releases=_RELEASES).crb
    return tuple(
        float(np.min(np.max(np.abs(curves / np.array(line.y) - 1), axis=1))) for line in _printed("right")
    )


def draw_poly_synth(result: PolySynthResult) -> dict[str, Any]:
    """Two panels, the printed points as circles."""
    axes: dict[str, Any] = {
        "y_title": "CRB of the sorted pair",
        "subtitle": "circles: printed in the paper; stars: smallest bound",
    }
    return {
        side: panel(lines, title=title, published=_printed(side), stars=stars_of(lines), **axes)
        for side, title, lines in (
            ("left", "Synthetic pairs", result.synthetic),
            ("right", "Load-profile cohorts, parity-tight", result.cohorts),
        )
    }


def _printed(side: str) -> tuple[Line, ...]:
    return tuple(printed_line(curve["name"], curve["crb"]) for curve in reference()["fig:poly_synth"][side])


def compare_poly_synth(result: PolySynthResult) -> tuple[Comparison, ...]:
    """All five printed curves."""
    return tuple(
        Comparison(panel=side, ours=ours, published=line)
        for side, lines in (("left", result.synthetic), ("right", result.cohorts))
        for ours, line in zip(lines, _printed(side), strict=True)
    )


def claims_of_poly_synth(result: PolySynthResult) -> tuple[Claim, ...]:
    """What the caption says."""
    interior, mixed, boundary = result.synthetic
    difference = max(comparison.largest_relative_difference for comparison in compare_poly_synth(result))
    cohort, near = result.cohorts
    falling = all(a > b for a, b in pairwise(boundary.y))
    return (
        claim(
            "fig:poly_synth",
            "(left) Interior and mixed pairs have a finite best L; the fully boundary pair keeps falling.",
            checked="curves for L = 2 … 40; for the first two it is proven that no larger L is better: "
            "CRB(L) ≥ κ_L tr A_∞⁻¹ (values on the boundary dropped)",
            value=interior.lowest[0],
            quantity="best L, interior and mixed",
            holds=interior.lowest[0] == mixed.lowest[0] == 2
            and result.proven[:2] == (True, True)
            and falling,
        ),
        claim(
            "fig:poly_synth",
            "(both) The printed curves.",
            checked="all 195 printed points",
            value=difference,
            holds=difference < 1e-9,
            remark="the cohort curves follow the parity-tight swap sensitivity (2R^ℓ/m for odd ℓ, R^ℓ/m for "
            "even ℓ), not the 2R^ℓ/m of tab:adjacency: of all pairs on a grid none comes nearer to them with "
            f"the table's than {result.table_misfit[0]:.0%} (interior) and {result.table_misfit[1]:.0%} "
            "(near-boundary). Their own pairs are not printed; they were solved from the curves",
        ),
        claim(
            "fig:poly_synth",
            "(right) Best L is 2 for the interior cohort and 4 near the boundary.",
            checked="argmin over L = 2 … 40",
            value=near.lowest[0],
            quantity="best L, near-boundary cohort",
            holds=(cohort.lowest[0], near.lowest[0]) == (2, 4),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckResult:
    """Smallest and largest eigenvalue over κ_L for each group and accountant."""

    basic: tuple[Line, ...]
    zcdp: tuple[Line, ...]
    largest_basic: tuple[Line, ...]


def compute_bottleneck(_effort: Effort) -> BottleneckResult:
    r"""The eigenvalues of the signal against the noise, :math:`\lambda_k(A_L)/\kappa_L`.

    Compute the squared singular values of the whitened rows.
    """
    groups: tuple[tuple[str, tuple[float, ...], Family], ...] = (
        ("moments, interior", (-0.4, 0.7), UNIFORM),
        ("moments, mixed", (-0.6, 1.0), UNIFORM),
        ("moments, boundary", (-1.0, 1.0), UNIFORM),
        ("thresholds, triple", (-0.5, 0.0, 0.5), Thresholds(bandwidth=0.12, convention="uniform")),
    )
    releases = (2, 3, 4, 5, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 1024)
    lines: tuple[list[Line], list[Line], list[Line]] = ([], [], [])
    for name, values, family in reported(groups):
        counts = [L for L in releases if len(values) <= L]
        curve = release_curve(values, family=family, accountant=BASIC, releases=counts)
        # On a coarse grid, the smallest eigenvalue of the first counts may be zero to rounding.
        positive = np.isfinite(curve.eigenvalues[:, -1]) & (curve.eigenvalues[:, -1] > 0)
        for part, accountant, which in zip(lines, (BASIC, ZCDP, BASIC), (-1, -1, 0), strict=True):
            ratios = curve.eigenvalues[:, which] / curve.under(accountant).kappa
            part.append(Line.of(name, x=np.array(counts)[positive], y=ratios[positive]))
    return BottleneckResult(basic=tuple(lines[0]), zcdp=tuple(lines[1]), largest_basic=tuple(lines[2]))


def draw_bottleneck(result: BottleneckResult) -> dict[str, Any]:
    """The weakest direction under two accountants, and the strongest."""
    basic, zcdp, largest = result.basic, result.zcdp, result.largest_basic
    return {
        name: panel(lines, title=title, y_title=y_title, x_log=True)
        for name, lines, title, y_title in (
            ("basic", basic, "Weakest direction, basic composition", "λ_min/κ_L"),
            ("zCDP", zcdp, "Weakest direction, zCDP", "λ_min/κ_L"),
            ("strongest", largest, "Strongest direction, basic composition", "λ_max/κ_L"),
        )
    }


def slope(line: Line) -> float:
    """The exponent of a line between its last two points."""
    (a, b), (c, d) = line.x[-2:], line.y[-2:]
    return float(np.log(d / c) / np.log(b / a))


def claims_of_bottleneck(result: BottleneckResult) -> tuple[Claim, ...]:
    """What the remark on mixed cases and the text on thresholds say."""
    interior, mixed, boundary, thresholds = (slope(line) for line in result.basic)
    strong = slope(result.largest_basic[1])
    flat = slope(result.zcdp[3])
    return (
        claim(
            "diag:bottleneck",
            "One subcritical direction forces the bound up: in the mixed pair the boundary direction "
            "outgrows κ_L and the other does not.",
            checked="exponents of λ/κ_L between the last two counts (512 and 1024 in full), basic "
            "composition",
            value=mixed,
            quantity=f"exponent of the weakest direction (strongest: {strong:+.2f})",
            holds=interior < -2 and mixed < -2 and strong > 0 and boundary > 0,
            remark=f"the fully boundary pair's weakest direction outgrows κ_L (exponent {boundary:+.2f}); "
            "under basic composition the margin is L/log L",
        ),
        claim(
            "diag:bottleneck",
            "Thresholds: λ_min grows as L; basic composition outruns it, zCDP keeps pace, so the bound "
            "plateaus.",
            checked="the same exponents for a triple under logistic thresholds",
            value=flat,
            quantity=f"exponent under zCDP (basic: {thresholds:+.2f})",
            holds=abs(flat) < 0.01 and thresholds < -1,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBoundsResult:
    """Medians of CRB over lower bound by size, and the smallest ratios, which must not be below 1."""

    determinant: tuple[Line, ...]
    coordinates: tuple[Line, ...]
    checked: int
    smallest_determinant: float
    smallest_coordinates: float
    largest_log_determinant: float  # ln det I minus Hadamard's bound: must not be above 0
    diverging: bool  # every determinant bound rises at the end of the range


def compute_lower_bounds(effort: Effort) -> LowerBoundsResult:
    r"""The general-m lower bounds on random groups of values.

    Compare the curve with both bounds wherever the curve is finite.
    """
    generator = np.random.default_rng(effort.seed)
    determinant, coordinates, smallest, log_gaps = [], [], [], []
    diverging = True
    for m in reported(range(1, 7)):
        groups = generator.uniform(-0.95, 0.95, (effort.trials, m))
        counts = list(range(m, 41))
        curves = release_curves(groups, family=UNIFORM, accountant=BASIC, releases=counts)
        at: list[dict[str, Any]] = [{"family": UNIFORM, "accountant": BASIC, "releases": L} for L in counts]
        by_determinant = np.array([[moment_crb_bound(g, **L) for L in at] for g in groups])
        by_coordinates = np.array([[np.sum(moment_value_bounds(g, **L)) for L in at] for g in groups])
        finite = np.isfinite(curves.crb)
        ratios = np.where(finite, curves.crb / by_determinant, np.nan)
        sums = np.where(finite, curves.crb / by_coordinates, np.nan)
        determinant.append(Line.of(f"m = {m}", x=counts, y=np.nanmedian(ratios, axis=0)))
        coordinates.append(Line.of(f"m = {m}", x=counts, y=np.nanmedian(sums, axis=0)))
        smallest.append((float(np.nanmin(ratios)), float(np.nanmin(sums)), int(finite.sum())))
        diverging &= bool(np.all(by_determinant[:, -1] > by_determinant[:, -2]))
        log_gaps.append(_hadamard_gap(groups, m))
    return LowerBoundsResult(
        determinant=tuple(determinant),
        coordinates=tuple(coordinates),
        checked=sum(count for *_, count in smallest),
        smallest_determinant=min(by for by, *_ in smallest),
        smallest_coordinates=min(by for _, by, _ in smallest),
        largest_log_determinant=max(log_gaps),
        diverging=diverging,
    )


def _hadamard_gap(groups: FloatArray, m: int) -> float:
    """The largest ln det I − Σ ln I_kk at L = 2m, from singular values of the rows."""
    rows = UNIFORM.rows(np.sort(groups, axis=1), 2 * m)
    log_determinants = 2 * np.sum(np.log(np.linalg.svd(rows, compute_uv=False)), axis=1)
    log_determinants -= m * np.log(BASIC.kappa(2 * m))
    bounds = [
        moment_log_determinant_bound(g, family=UNIFORM, accountant=BASIC, releases=2 * m) for g in groups
    ]
    return float(np.max(log_determinants - np.array(bounds)))


def draw_lower_bounds(result: LowerBoundsResult) -> dict[str, Any]:
    """How far above the two bounds the curve is, by size of the group."""
    axes: dict[str, Any] = {"y_title": "CRB / bound", "subtitle": "median of random groups"}
    return {
        "determinant": panel(result.determinant, title="Determinant/AM–GM bound", **axes),
        "coordinates": panel(result.coordinates, title="Sum of coordinate-wise bounds", **axes),
    }


def claims_of_lower_bounds(result: LowerBoundsResult) -> tuple[Claim, ...]:
    """Check the bounds of ``app:m1_additional`` and ``app:poly_general_m``."""
    loosest = max(max(line.y) for line in result.determinant)
    return (
        claim(
            "eq:unlab_crlb_kappa_over_T",
            "Each sorted value's bound is at least 4κ_L R²/T_j(L).",
            checked=f"{result.checked} random (group, L): CRB over the sum of the m bounds",
            value=result.smallest_coordinates,
            quantity="smallest ratio (must be ≥ 1)",
            holds=result.smallest_coordinates >= 1 - 1e-9,
        ),
        claim(
            "eq:det_bound_general_m",
            "Hadamard: det I_C(L) ≤ Π F(r_k², L)/(4κ_L R²)^m.",
            checked="random groups at L = 2m, singular values of the rows",
            value=result.largest_log_determinant,
            quantity="largest ln det − ln bound (must be ≤ 0)",
            holds=result.largest_log_determinant <= 1e-9,
        ),
        claim(
            "eq:crb_det_amgm_bound",
            "CRB(L) ≥ 4mκ_L R²/(Π F(r_k², L))^{1/m}; inside it diverges, so a finite minimiser exists.",
            checked=f"{result.checked} random (group, L), m = 1 … 6; the bound rises at the end of every "
            "range",
            value=result.smallest_determinant,
            quantity="smallest ratio of CRB to bound (must be ≥ 1)",
            holds=result.smallest_determinant >= 1 - 1e-9 and result.diverging,
            remark="the bound is valid but loose: the median ratio reaches "
            f"{loosest:.1e}; the sum of the coordinate-wise bounds is never smaller",
        ),
    )


FIGURES = {
    "fig:poly_synth": Figure(
        title="Polynomial-moment bound under basic composition",
        about=(
            "The first L moments of two values in [−1, 1], (ε, δ) = (1, 10⁻⁵): the Cramér–Rao bound on the "
            "sorted pair."
        ),
        compute=compute_poly_synth,
        draw=draw_poly_synth,
        compare=compare_poly_synth,
        claims=claims_of_poly_synth,
    ),
    "diag:bottleneck": Figure(
        title="Spectral bottlenecks",
        about=(
            "Mentioned by the paper and not shown. The bound falls only while every eigenvalue of the "
            "signal outgrows κ_L."
        ),
        compute=compute_bottleneck,
        draw=draw_bottleneck,
        claims=claims_of_bottleneck,
    ),
    "diag:bounds": Figure(
        title="General-m lower bounds",
        about=(
            "Mentioned by the paper and not shown. The bound of random interior groups over two lower bounds."
        ),
        compute=compute_lower_bounds,
        draw=draw_lower_bounds,
        claims=claims_of_lower_bounds,
    ),
}
