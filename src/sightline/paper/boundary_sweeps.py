r"""``diag:boundary``: the constrained attack as one value of a pair approaches the boundary.

The paper mentions boundary finite-noise sweeps and does not show them. Inside, the attack is near the local
bound once the noise is small; at the boundary the box cuts its errors off, and it may be below the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sightline.attacks.mle import ConstrainedMLE
from sightline.attacks.monte_carlo import simulate
from sightline.paper.claim import Claim, claim
from sightline.paper.drawing import panel
from sightline.paper.figure import Figure, Progress
from sightline.paper.line import Line
from sightline.paper.mle import transcript
from sightline.privacy.basic import Calibration

LABEL = "diag:boundary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Pairs (−1 + t, 0.5) at two releases, exact calibration: these budgets are beyond the classical one."""

    upper: float = 0.5
    distances: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
    epsilons: tuple[float, ...] = (10.0, 50.0, 250.0)
    delta: float = 1e-5
    trials: int = 20_000
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Risk over bound, and the bias of the lower value over its standard deviation, by distance."""

    ratio: tuple[Line, ...]
    bias: tuple[Line, ...]


def compute(parameters: Parameters, progress: Progress) -> Result:
    """Simulate every distance at every budget."""
    ratios, biases = [], []
    for done, epsilon in enumerate(parameters.epsilons):
        progress(done, len(parameters.epsilons))
        released = transcript(2, epsilon=epsilon, delta=parameters.delta, calibration=Calibration.ANALYTIC)
        risks = [
            simulate(
                released,
                attack=ConstrainedMLE(),
                at=(t - 1.0, parameters.upper),
                trials=parameters.trials,
                seed=parameters.seed,
            )
            for t in parameters.distances
        ]
        name = f"ε = {epsilon:g}"
        ratios.append(
            Line.of(
                name,
                x=parameters.distances,
                y=[risk.ratio_to_crb for risk in risks],
                half_widths=[1.959964 * risk.standard_error / risk.crb for risk in risks],
            )
        )
        biases.append(Line.of(name, x=parameters.distances, y=[float(risk.bias[0]) for risk in risks]))
    progress(len(parameters.epsilons), len(parameters.epsilons))
    return Result(ratio=tuple(ratios), bias=tuple(biases))


def draw(result: Result) -> dict[str, Any]:
    """Risk over bound, and bias."""
    axes: dict[str, Any] = {"x_title": "distance t of the lower value from −1", "y_log": False}
    return {
        "ratio": panel(result.ratio, title="Risk of the constrained MLE over the CRB", y_title="ratio", **axes),
        "bias": panel(result.bias, title="Bias of the lower value", y_title="mean error", **axes),
    }


def claims(result: Result) -> tuple[Claim, ...]:
    """What ``subsec:lever2_poly`` and ``subsec:experiments_mle`` say about the boundary."""
    sharp = result.ratio[-1]
    at_edge, inside = sharp.y[0], sharp.y[-1]
    return (
        claim(
            LABEL,
            "Constrained estimators near the boundary are biased and may have an MSE below the unbiased CRB.",
            checked=f"pairs (−1 + t, 0.5), exact calibration, {sharp.name}, where the bound is reached inside: "
            f"risk over CRB is {inside:.2f} at t = {sharp.x[-1]:g}",
            value=at_edge,
            quantity="risk over CRB at the boundary",
            holds=at_edge < 0.9 and result.bias[-1].y[0] > 0 and abs(inside - 1) < 0.15,
            remark="under strong noise the ratio at the boundary is not smaller than inside, because there the "
            "box cuts errors everywhere: "
            + ", ".join(f"{line.name}: {line.y[0]:.2f} against {line.y[-1]:.2f}" for line in result.ratio[:-1]),
        ),
    )


FIGURE = Figure(
    title="Finite-noise sweeps towards the boundary",
    about="Mentioned by the paper and not shown. Two moments of a pair of which one value moves to −1.",
    full=Parameters(),
    fast=Parameters(trials=2_000, distances=(0.0, 0.05, 0.2, 0.5)),
    result=Result,
    compute=compute,
    draw=draw,
    claims=claims,
)
