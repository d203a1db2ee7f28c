r"""``diag:compact``: ``fig:threshold`` with steps of compact support, for which the proposition is stated.

The support is chosen so that both kinds of steps have the same slope at the threshold:
:math:`1/\tau_c = 1/4\tau`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.multiset.curve import release_curve
from sightline.multiset.thresholds import (
    Thresholds,
    dense_grid_trace,
    threshold_crb_bound,
    threshold_trace_bound,
)
from sightline.paper import threshold
from sightline.paper.comparison import Claim, Effort, Line, claim
from sightline.paper.drawing import panel
from sightline.paper.published import BASIC

LABEL = "diag:compact"
_DENSE = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The panels of ``fig:threshold``, and ratios with a known side of 1."""

    control: threshold.Result
    trace_over_bound: Line  # tr A_L over its O(L) bound: at most 1
    crb_over_bound: Line  # CRB(L) over its Ω(κ_L/L) bound: at least 1
    crb_over_dense: Line  # CRB(L) over the dense-grid prediction κ_L η_L tr(limit⁻¹): tends to 1


def compute(effort: Effort) -> Result:
    """Compute the curves of the control and the rates of the proposition."""
    family = Thresholds(bandwidth=4 * threshold.BANDWIDTH, kernel="compact", convention="uniform")
    triple = (-0.5, 0.0, 0.5)
    curve = release_curve(triple, family=family, accountant=BASIC, releases=_DENSE)
    limit = dense_grid_trace(triple, family=family)
    spacings = np.array([family.spacing(L) for L in _DENSE])
    most = [threshold_trace_bound(L, members=3, family=family) for L in _DENSE]
    least = [threshold_crb_bound(L, members=3, family=family, accountant=BASIC) for L in _DENSE]

    def line(name: str, ratios: FloatArray) -> Line:
        return Line.of(name, x=_DENSE, y=ratios)

    return Result(
        control=threshold.bounds_of_triples(family, effort),
        trace_over_bound=line("tr A_L / its bound", np.sum(curve.eigenvalues, axis=1) / most),
        crb_over_bound=line("CRB / lower bound", curve.crb / least),
        crb_over_dense=line("CRB / dense-grid prediction", curve.crb / (curve.kappa * spacings * limit)),
    )


def draw(result: Result) -> dict[str, Any]:
    """The two panels of the control, and the rates."""
    control = result.control
    return {
        "top": threshold.triples_panel(control.interior, title="Compact steps, interior"),
        "bottom": threshold.triples_panel(control.near_boundary, title="Compact steps, near-boundary"),
        "rates": panel(
            (result.trace_over_bound, result.crb_over_bound, result.crb_over_dense),
            title="Rates of the proposition",
            y_title="ratio",
            x_log=True,
            y_log=False,
        ),
    }


def claims(result: Result) -> tuple[Claim, ...]:
    """The control that ``app:logistic_smoothing`` reports."""
    every = (*result.control.interior, *result.control.near_boundary)
    inside = max(line.lowest[0] for line in result.control.interior)
    edges = min(line.lowest[0] for line in result.control.near_boundary)
    return (
        claim(
            LABEL,
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


TITLE = "Threshold control with compact support"
ABOUT = (
    "Mentioned by the paper and not shown: the proposition on thresholds is stated for steps that are "
    "constant beyond some distance."
)
FULL, FAST = Effort(trials=2_000), Effort(trials=300)
