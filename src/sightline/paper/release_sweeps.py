r"""``diag:releases``: finite-noise sweeps over the number of releases, for three pairs and large budgets.

The paper mentions them and shows one pair. We use the exact calibration, since the local bound is informative
only at budgets far outside the range of the classical one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from sightline.paper.comparison import INTERVAL_95, Claim, Effort, Line, claim
from sightline.paper.drawing import panel, stars_of
from sightline.paper.mle_vs_releases import risks_by_releases
from sightline.paper.poly_synth import SYNTHETIC
from sightline.privacy.composition import Calibration
from sightline.progress import reported, reporting, silent

LABEL = "diag:releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """For each pair, one line for the bound and one for the risk at each budget."""

    lines: dict[str, tuple[Line, ...]]


def compute(effort: Effort) -> Result:
    """Compute ``fig:app_mle_vs_L`` for the pairs of ``fig:poly_synth`` and larger budgets."""
    lines: dict[str, tuple[Line, ...]] = {}
    for name, pair in reported(tuple(SYNTHETIC.items())):
        with reporting(silent):
            risks = risks_by_releases(pair, (20.0, 1_000.0), (2, 3, 4, 5, 6, 8), Calibration.ANALYTIC, effort)
        lines[name] = tuple(
            replace(line, name=f"{line.name}, ε = {epsilon:g}")
            for epsilon, crb, mle in zip(risks.epsilons, risks.crb, risks.mle, strict=True)
            for line in (crb, mle)
        )
    return Result(lines=lines)


def draw(result: Result) -> dict[str, Any]:
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


def claims(result: Result) -> tuple[Claim, ...]:
    """Check that the local bound predicts the best number of releases at large budgets."""
    low, high = (_best(result, budget) for budget in (0, 1))
    crb, mle = result.lines["interior"][-2:]
    return (
        claim(
            LABEL,
            "Where the local approximation is informative, the CRB predicts the constrained attack's best L.",
            checked=f"best L of bound and attack, {_budget(crb)}: {_described(high)}",
            value=mle.y[0] / crb.y[0],
            quantity="MLE over CRB, interior pair at L = 2",
            holds=all(_no_worse(*lines[-2:]) for lines in result.lines.values()),
            remark=f"at {_budget(result.lines['interior'][0])} it does not always: {_described(low)}",
        ),
    )


def _best(result: Result, budget: int) -> dict[str, tuple[float, float]]:
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


TITLE = "Finite-noise sweeps over the number of releases"
ABOUT = (
    "Mentioned by the paper and not shown beyond one pair. Constrained maximum likelihood on the first "
    "L moments."
)
FULL, FAST = Effort(trials=10_000), Effort(trials=300)
