r"""Three values under smooth thresholds, logistic and with compact support.

Figures: ``fig:threshold``, ``diag:compact``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.format import parameter
from sightline.progress import reported
from sightline.theory.multiset.curve import release_curve, release_curves
from sightline.theory.multiset.thresholds import (
    Thresholds,
    dense_grid_trace,
    threshold_crb_bound,
    threshold_trace_bound,
)
from sightline.theory.paper.comparison import Claim, Effort, Figure, Line, claim
from sightline.theory.paper.drawing import panel, stars_of
from sightline.theory.paper.published import BASIC

Triple = tuple[float, float, float]
_BANDWIDTH = 0.12
_RELEASES = range(3, 41)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdResult:
    """Bounds over L, and the best L of random triples of both kinds."""

    interior: tuple[Line, ...]
    near_boundary: tuple[Line, ...]
    random_best_interior: tuple[int, ...]
    random_best_near_boundary: tuple[int, ...]


def compute_threshold(effort: Effort) -> ThresholdResult:
    r"""The bound on three values under L smooth thresholds, inside and near the boundary.

    Compute the bounds on the midpoint grid; leave out counts without a finite bound.
    """
    return bounds_of_triples(Thresholds(bandwidth=_BANDWIDTH, convention="uniform"), effort)


def bounds_of_triples(family: Thresholds, effort: Effort) -> ThresholdResult:
    """The bounds of our triples under a family of thresholds, and the best counts of random ones."""

    def curves(triples: tuple[Triple, ...]) -> Iterator[Line]:
        for triple in triples:
            bound = release_curve(triple, family=family, accountant=BASIC, releases=_RELEASES)
            finite = np.isfinite(bound.crb)
            name = "(" + ", ".join(f"{value:g}".replace("-", "−") for value in triple) + ")"
            yield Line.of(name, x=bound.releases[finite], y=bound.crb[finite])

    generator = np.random.default_rng(effort.seed)
    size = (effort.trials, 3)
    inside = generator.uniform(-0.6, 0.6, size)
    edges = generator.uniform(0.6, 1.0, size) * generator.choice([-1.0, 1.0], size)
    best = []
    for triples in reported((inside, edges)):
        found = release_curves(triples, family=family, accountant=BASIC, releases=_RELEASES).best
        best.append(tuple(int(count) for count in found if count > 0))
    # The paper does not print its triples; these are ours.
    interior = ((-0.5, 0.0, 0.5), (-0.3, 0.1, 0.4), (-0.55, -0.1, 0.6))
    near_boundary = ((-0.95, -0.6, 0.9), (-0.97, 0.75, 0.95), (0.55, 0.8, 0.97))
    return ThresholdResult(
        interior=tuple(curves(interior)),
        near_boundary=tuple(curves(near_boundary)),
        random_best_interior=best[0],
        random_best_near_boundary=best[1],
    )


def draw_threshold(result: ThresholdResult) -> dict[str, Any]:
    """Two panels: interior triples on top, near-boundary triples below."""
    note = "stars: smallest bound"
    return {
        "top": triples_panel(result.interior, title="Interior triples", subtitle=note),
        "bottom": triples_panel(result.near_boundary, title="Near-boundary triples", subtitle=note),
    }


def triples_panel(lines: tuple[Line, ...], *, title: str, subtitle: str = "") -> Any:
    """The bounds of several triples, with a star at the smallest bound of each."""
    y_title = "CRB of the sorted triple"
    return panel(lines, title=title, subtitle=subtitle, y_title=y_title, stars=stars_of(lines))


def claims_of_threshold(result: ThresholdResult) -> tuple[Claim, ...]:
    """What the caption and the text say."""
    every = (*result.interior, *result.near_boundary)
    finite = all(line.lowest[0] < line.x[-1] for line in every)
    inside = [line.lowest[0] for line in result.interior]
    edges = [line.lowest[0] for line in result.near_boundary]
    shown = [", ".join(map(parameter, counts)) for counts in (inside, edges)]
    middle_inside = float(np.median(result.random_best_interior))
    middle_edges = float(np.median(result.random_best_near_boundary))
    order = _probability_larger(result.random_best_near_boundary, result.random_best_interior)
    return (
        claim(
            "fig:threshold",
            "Smooth thresholds have finite minimising release counts.",
            checked="argmin over L = 3 … 40 for six triples of ours (the paper's are not printed); at the "
            "end of the range every curve rises",
            value=max(inside + edges),
            quantity="largest best L",
            holds=finite and all(line.y[-1] > line.lowest[1] for line in every),
        ),
        claim(
            "fig:threshold",
            "Near-boundary triples have larger minimising release counts in the displayed cases.",
            checked=f"displayed: {shown[0]} inside, {shown[1]} near the boundary; and "
            f"{len(result.random_best_interior)} random triples of each kind",
            value=order,
            quantity="share of random (near-boundary, interior) pairs in which the first has the larger L",
            holds=min(edges) > max(inside),
            remark="a tendency, not a law: among random triples, values in ±0.6 against magnitudes in 0.6 … "
            f"1, the median best L is {middle_inside:g} against {middle_edges:g}",
        ),
    )


def _probability_larger(first: tuple[int, ...], second: tuple[int, ...]) -> float:
    """The share of pairs in which the first is larger; a tie counts half."""
    a, b = np.array(first)[:, None], np.array(second)[None, :]
    return float(np.mean((a > b) + 0.5 * (a == b)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """The panels of ``fig:threshold``, and ratios with a known side of 1."""

    control: ThresholdResult
    trace_over_bound: Line  # tr A_L over its O(L) bound: at most 1
    crb_over_bound: Line  # CRB(L) over its Ω(κ_L/L) bound: at least 1
    crb_over_dense: Line  # CRB(L) over the dense-grid prediction κ_L η_L tr(limit⁻¹): tends to 1


def compute_compact(effort: Effort) -> CompactResult:
    r"""``fig:threshold`` with steps of compact support, for which the proposition is stated.

    The support is chosen so that both kinds of steps have the same slope at the threshold:
    :math:`1/\tau_c = 1/4\tau`.

    Compute the curves of the control and the rates of the proposition.
    """
    family = Thresholds(bandwidth=4 * _BANDWIDTH, kernel="compact", convention="uniform")
    triple, counts = (-0.5, 0.0, 0.5), tuple(2**k for k in range(3, 11))
    curve = release_curve(triple, family=family, accountant=BASIC, releases=counts)
    limit = dense_grid_trace(triple, family=family)
    spacings = np.array([family.spacing(L) for L in counts])
    most = [threshold_trace_bound(L, members=3, family=family) for L in counts]
    least = [threshold_crb_bound(L, members=3, family=family, accountant=BASIC) for L in counts]

    def line(name: str, ratios: FloatArray) -> Line:
        return Line.of(name, x=counts, y=ratios)

    return CompactResult(
        control=bounds_of_triples(family, effort),
        trace_over_bound=line("tr A_L / its bound", np.sum(curve.eigenvalues, axis=1) / most),
        crb_over_bound=line("CRB / lower bound", curve.crb / least),
        crb_over_dense=line("CRB / dense-grid prediction", curve.crb / (curve.kappa * spacings * limit)),
    )


def draw_compact(result: CompactResult) -> dict[str, Any]:
    """The two panels of the control, and the rates."""
    control = result.control
    return {
        "top": triples_panel(control.interior, title="Compact steps, interior"),
        "bottom": triples_panel(control.near_boundary, title="Compact steps, near-boundary"),
        "rates": panel(
            (result.trace_over_bound, result.crb_over_bound, result.crb_over_dense),
            title="Rates of the proposition",
            y_title="ratio",
            x_log=True,
            y_log=False,
        ),
    }


def claims_of_compact(result: CompactResult) -> tuple[Claim, ...]:
    """The control that ``app:logistic_smoothing`` reports."""
    every = (*result.control.interior, *result.control.near_boundary)
    inside = max(line.lowest[0] for line in result.control.interior)
    edges = min(line.lowest[0] for line in result.control.near_boundary)
    return (
        claim(
            "diag:compact",
            "With compactly supported steps the minimising release counts are finite as well.",
            checked="argmin over L = 3 … 40 for the six triples of fig:threshold, equally steep steps",
            value=max(line.lowest[0] for line in every),
            quantity="largest best L",
            holds=all(line.lowest[0] < line.x[-1] for line in every),
            remark=f"best L is at most {inside:g} inside and at least {edges:g} near the boundary",
        ),
        claim(
            "prop:threshold_truncation",
            "(i) tr A_L = O(L); (ii) CRB(L) = Ω(κ_L/L), hence a finite optimum under basic composition.",
            checked="L = 8 … 1024: tr A_L over an explicit O(L) bound (largest "
            f"{max(result.trace_over_bound.y):.3f}, must be ≤ 1), CRB over an explicit Ω(κ_L/L) bound",
            value=min(result.crb_over_bound.y),
            quantity="smallest CRB over lower bound (must be ≥ 1)",
            holds=max(result.trace_over_bound.y) <= 1 and min(result.crb_over_bound.y) >= 1,
            remark="the bound used here is m² times the paper's, which keeps one eigenvalue of m",
        ),
        claim(
            "app:threshold",
            "Dense grid, interior values: η_L A_L → K/4 and CRB(L) = Θ(κ_L/L).",
            checked="CRB(L) over κ_L η_L tr of the inverse limit, L up to 1024",
            value=abs(result.crb_over_dense.y[-1] - 1),
            quantity="distance from 1 at L = 1024",
            holds=abs(result.crb_over_dense.y[-1] - 1) < 1e-3,
        ),
    )


FIGURES = {
    "fig:threshold": Figure(
        title="Smooth-threshold bound for triples",
        about=(
            "Shares above L thresholds on a midpoint grid over [−1, 1], logistic steps of bandwidth 0.12, "
            "sensitivity 2/m, (ε, δ) = (1, 10⁻⁵). The paper's triples and numbers are not in its source."
        ),
        compute=compute_threshold,
        draw=draw_threshold,
        claims=claims_of_threshold,
    ),
    "diag:compact": Figure(
        title="Threshold control with compact support",
        about=(
            "Mentioned by the paper and not shown: the proposition on thresholds is stated for steps that "
            "are constant beyond some distance."
        ),
        compute=compute_compact,
        draw=draw_compact,
        claims=claims_of_compact,
    ),
}
