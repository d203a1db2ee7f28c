r"""Finite noise beyond one pair: sweeps over the number of releases, and towards the boundary.

Figures: ``diag:releases``, ``diag:boundary``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sightline.privacy.composition import Calibration
from sightline.progress import reported, reporting, silent
from sightline.theory.attacks.mle import ConstrainedMLE
from sightline.theory.attacks.monte_carlo import simulate
from sightline.theory.multiset.moments import pair_information
from sightline.theory.paper.comparison import (
    INTERVAL_95,
    Claim,
    Effort,
    Figure,
    Line,
    claim,
)
from sightline.theory.paper.drawing import panel, stars_of
from sightline.theory.paper.mle import Pair, risks_by_releases, transcript
from sightline.theory.paper.moment_figures import SYNTHETIC
from sightline.theory.paper.published import BASIC, UNIFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSweepsResult:
    """For each pair, one line for the bound and one for the risk at each budget."""

    lines: dict[str, tuple[Line, ...]]


def compute_release_sweeps(effort: Effort) -> ReleaseSweepsResult:
    r"""Finite-noise sweeps over the number of releases, for three pairs and large budgets.

    The paper mentions them and shows one pair. We use the exact calibration, since the local bound is
    informative only at budgets far outside the range of the classical one.

    Compute ``fig:app_mle_vs_L`` for the pairs of ``fig:poly_synth`` and larger budgets.
    """
    lines: dict[str, tuple[Line, ...]] = {}
    for name, pair in reported(tuple(SYNTHETIC.items())):
        with reporting(silent):
            risks = risks_by_releases(pair, (20.0, 1_000.0), (2, 3, 4, 5, 6, 8), Calibration.ANALYTIC, effort)
        lines[name] = tuple(
            replace(line, name=f"{line.name}, ε = {epsilon:g}")
            for epsilon, crb, mle in zip(risks.epsilons, risks.crb, risks.mle, strict=True)
            for line in (crb, mle)
        )
    return ReleaseSweepsResult(lines=lines)


def draw_release_sweeps(result: ReleaseSweepsResult) -> dict[str, Any]:
    """A panel for each pair."""
    return {
        name: panel(
            lines,
            title=f"{name.capitalize()} pair",
            subtitle="analytic calibration; stars: smallest value",
            y_title="squared error of the sorted pair",
            stars=stars_of(lines),
        )
        for name, lines in result.lines.items()
    }


def claims_of_release_sweeps(result: ReleaseSweepsResult) -> tuple[Claim, ...]:
    """Check that the local bound predicts the best number of releases at large budgets."""
    low, high = (_best(result, budget) for budget in (0, 1))
    crb, mle = result.lines["interior"][-2:]
    return (
        claim(
            "diag:releases",
            "Where the local approximation is informative, the CRB predicts the constrained attack's best L.",
            checked=f"best L of bound and attack, {_budget(crb)}: {_described(high)}",
            value=mle.y[0] / crb.y[0],
            quantity="MLE over CRB, interior pair at L = 2",
            holds=all(_no_worse(*lines[-2:]) for lines in result.lines.values()),
            remark=f"at {_budget(result.lines['interior'][0])} it does not always: {_described(low)}",
        ),
    )


def _best(result: ReleaseSweepsResult, budget: int) -> dict[str, tuple[float, float]]:
    """Best L of bound and attack for each pair, at the smaller or the larger budget."""
    return {
        name: (lines[2 * budget].lowest[0], lines[2 * budget + 1].lowest[0])
        for name, lines in result.lines.items()
    }


def _no_worse(bound: Line, attack: Line) -> bool:
    """Whether the attack at the bound's best L is as good as at its own, up to three standard errors."""
    at, own = (attack.x.index(line.lowest[0]) for line in (bound, attack))
    error = math.hypot(attack.half_widths[at], attack.half_widths[own]) / INTERVAL_95
    return attack.y[at] - attack.y[own] <= 3 * error


def _described(best: dict[str, tuple[float, float]]) -> str:
    return "; ".join(f"{name}: {bound:g} and {attack:g}" for name, (bound, attack) in best.items())


def _budget(line: Line) -> str:
    return line.name.partition(", ")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryResult:
    """The risk over the bound, and the bias of the lower value, by distance."""

    ratio: tuple[Line, ...]
    bias: tuple[Line, ...]
    predicted_at_boundary: float  # risk over bound at t = 0 as the noise vanishes


def compute_boundary(effort: Effort) -> BoundaryResult:
    r"""The constrained attack as one value of a pair approaches the boundary.

    The paper mentions boundary finite-noise sweeps and does not show them. Inside, the attack reaches the
    local bound when the noise is small. At the boundary the box removes the half of the lower value's
    errors that would leave it, and their effect on the upper value. The risk is then

    .. math:: \tfrac12 C_{11} + \bigl(1 - \tfrac12\rho^2\bigr) C_{22}

    with the bound's matrix C and its correlation :math:`\rho`.

    Simulate pairs (t − 1, 0.5) at every budget; exact calibration, since the budgets are large.
    """
    distances = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
    ratios, biases = [], []
    for epsilon in reported((10.0, 100.0, 1_000.0, 10_000.0)):
        released = transcript(2, epsilon=epsilon, calibration=Calibration.ANALYTIC)
        risks = [
            simulate(released, attack=ConstrainedMLE(), at=(t - 1.0, 0.5), **asdict(effort))
            for t in distances
        ]
        name, spreads = f"ε = {epsilon:g}", [INTERVAL_95 * risk.standard_error / risk.crb for risk in risks]
        ratios.append(
            Line.of(name, x=distances, y=[risk.ratio_to_crb for risk in risks], half_widths=spreads)
        )
        biases.append(Line.of(name, x=distances, y=[risk.bias[0] for risk in risks]))
    return BoundaryResult(
        ratio=tuple(ratios), bias=tuple(biases), predicted_at_boundary=_half_space((-1.0, 0.5))
    )


def _half_space(pair: Pair) -> float:
    """The risk over the bound as the noise vanishes, if the first value is on the boundary; at any budget."""
    C = np.linalg.inv(pair_information(pair, family=UNIFORM, accountant=BASIC, releases=2))
    squared_correlation = C[0, 1] ** 2 / (C[0, 0] * C[1, 1])
    return float((C[0, 0] / 2 + C[1, 1] * (1 - squared_correlation / 2)) / np.trace(C))


def draw_boundary(result: BoundaryResult) -> dict[str, Any]:
    """Risk over bound, and bias."""
    axes: dict[str, Any] = {"x_title": "distance t of the lower value from −1", "y_log": False}
    return {
        "ratio": panel(
            result.ratio, title="Risk of the constrained MLE over the CRB", y_title="risk / CRB", **axes
        ),
        "bias": panel(result.bias, title="Bias of the lower value", y_title="mean error", **axes),
    }


def claims_of_boundary(result: BoundaryResult) -> tuple[Claim, ...]:
    """What ``subsec:lever2_poly`` and ``subsec:experiments_mle`` say about the boundary."""
    sharp = result.ratio[-1]
    at_edge, inside = sharp.y[0], sharp.y[-1]
    worst = max(result.ratio, key=lambda line: line.y[0])
    off = abs(at_edge - result.predicted_at_boundary) / (sharp.half_widths[0] / INTERVAL_95)
    return (
        claim(
            "diag:boundary",
            "Constrained estimators near the boundary are biased and may have an MSE below the unbiased CRB.",
            checked=f"pairs (−1 + t, 0.5), exact calibration, {sharp.name}: inside, at t = {sharp.x[-1]:g}, "
            f"risk over CRB is {inside:.3f}; at the boundary theory predicts "
            f"{result.predicted_at_boundary:.3f} ({off:.1f} standard errors away)",
            value=at_edge,
            quantity="risk over CRB at the boundary",
            holds=at_edge < 0.9 and result.bias[-1].y[0] > 0 and off < 4,
            remark=f"neither side is a rule: at intermediate noise ({worst.name}) the risk at the boundary "
            f"is {worst.y[0]:.2f} times the bound",
        ),
    )


FIGURES = {
    "diag:releases": Figure(
        title="Finite-noise sweeps over the number of releases",
        about=(
            "Mentioned by the paper and not shown beyond one pair. Constrained maximum likelihood on the "
            "first L moments."
        ),
        compute=compute_release_sweeps,
        draw=draw_release_sweeps,
        claims=claims_of_release_sweeps,
    ),
    "diag:boundary": Figure(
        title="Finite-noise sweeps towards the boundary",
        about="Mentioned by the paper and not shown. Two moments of a pair of which one value moves to −1.",
        compute=compute_boundary,
        draw=draw_boundary,
        claims=claims_of_boundary,
    ),
}
