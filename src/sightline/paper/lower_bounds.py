r"""``diag:bounds``: the general-m lower bounds on random groups of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.multiset.curve import release_curves
from sightline.multiset.moments import moment_crb_bound, moment_log_determinant_bound, moment_value_bounds
from sightline.paper.comparison import Claim, Effort, Line, claim
from sightline.paper.drawing import panel
from sightline.paper.published import BASIC, UNIFORM
from sightline.progress import reported

LABEL = "diag:bounds"
_LARGEST = 40  # releases


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Medians of CRB over lower bound by size, and the smallest ratios, which must not be below 1."""

    determinant: tuple[Line, ...]
    coordinates: tuple[Line, ...]
    checked: int
    smallest_determinant: float
    smallest_coordinates: float
    largest_log_determinant: float  # ln det I minus Hadamard's bound: must not be above 0
    diverging: bool  # every determinant bound rises at the end of the range


def compute(effort: Effort) -> Result:
    """Compare the curve with both bounds wherever the curve is finite."""
    generator = np.random.default_rng(effort.seed)
    determinant, coordinates, smallest, log_gaps = [], [], [], []
    diverging = True
    for m in reported(range(1, 7)):
        groups = generator.uniform(-0.95, 0.95, (effort.trials, m))
        counts = list(range(m, _LARGEST + 1))
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
    return Result(
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


def draw(result: Result) -> dict[str, Any]:
    """How far above the two bounds the curve is, by size of the group."""
    axes: dict[str, Any] = {"y_title": "CRB / bound", "subtitle": "median of random groups"}
    return {
        "determinant": panel(result.determinant, title="Determinant/AM–GM bound", **axes),
        "coordinates": panel(result.coordinates, title="Sum of coordinate-wise bounds", **axes),
    }


def claims(result: Result) -> tuple[Claim, ...]:
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


TITLE = "General-m lower bounds"
ABOUT = "Mentioned by the paper and not shown. The bound of random interior groups over two lower bounds."
FULL, FAST = Effort(trials=200), Effort(trials=20)
