r"""``diag:boundary``: the constrained attack as one value of a pair approaches the boundary.

The paper mentions boundary finite-noise sweeps and does not show them. Inside, the attack reaches the local
bound when the noise is small. At the boundary the box removes the half of the lower value's errors that would
leave it, and their effect on the upper value. The risk is then

.. math:: \tfrac12 C_{11} + \bigl(1 - \tfrac12\rho^2\bigr) C_{22}

with the bound's matrix C and its correlation :math:`\rho`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sightline.attacks.mle import ConstrainedMLE
from sightline.attacks.monte_carlo import simulate
from sightline.multiset.moments import pair_information
from sightline.paper.comparison import INTERVAL_95, Claim, Effort, Line, claim
from sightline.paper.drawing import panel
from sightline.paper.mle import Pair, transcript
from sightline.paper.published import BASIC, UNIFORM
from sightline.privacy.composition import Calibration
from sightline.progress import reported

LABEL = "diag:boundary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The risk over the bound, and the bias of the lower value, by distance."""

    ratio: tuple[Line, ...]
    bias: tuple[Line, ...]
    predicted_at_boundary: float  # risk over bound at t = 0 as the noise vanishes


def compute(effort: Effort) -> Result:
    """Simulate pairs (t − 1, 0.5) at every budget; exact calibration, since the budgets are large."""
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
    return Result(ratio=tuple(ratios), bias=tuple(biases), predicted_at_boundary=_half_space((-1.0, 0.5)))


def _half_space(pair: Pair) -> float:
    """The risk over the bound as the noise vanishes, if the first value is on the boundary; at any budget."""
    C = np.linalg.inv(pair_information(pair, family=UNIFORM, accountant=BASIC, releases=2))
    squared_correlation = C[0, 1] ** 2 / (C[0, 0] * C[1, 1])
    return float((C[0, 0] / 2 + C[1, 1] * (1 - squared_correlation / 2)) / np.trace(C))


def draw(result: Result) -> dict[str, Any]:
    """Risk over bound, and bias."""
    axes: dict[str, Any] = {"x_title": "distance t of the lower value from −1", "y_log": False}
    return {
        "ratio": panel(
            result.ratio, title="Risk of the constrained MLE over the CRB", y_title="risk / CRB", **axes
        ),
        "bias": panel(result.bias, title="Bias of the lower value", y_title="mean error", **axes),
    }


def claims(result: Result) -> tuple[Claim, ...]:
    """What ``subsec:lever2_poly`` and ``subsec:experiments_mle`` say about the boundary."""
    sharp = result.ratio[-1]
    at_edge, inside = sharp.y[0], sharp.y[-1]
    worst = max(result.ratio, key=lambda line: line.y[0])
    off = abs(at_edge - result.predicted_at_boundary) / (sharp.half_widths[0] / INTERVAL_95)
    return (
        claim(
            LABEL,
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


TITLE = "Finite-noise sweeps towards the boundary"
ABOUT = "Mentioned by the paper and not shown. Two moments of a pair of which one value moves to −1."
FULL = Effort(trials=20_000)
FAST = Effort(trials=1_000)
