r"""``fig:app_mle_vs_L``: the constrained attack on a pair, by the number of moments, at a fixed budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sightline.attacks.mle import ConstrainedMLE
from sightline.attacks.monte_carlo import sweep
from sightline.paper.comparison import INTERVAL_95, Claim, Effort, Line, claim
from sightline.paper.drawing import panel, stars_of
from sightline.paper.mle import Pair, simulated_line, transcript
from sightline.privacy.composition import Calibration
from sightline.progress import reported

LABEL = "fig:app_mle_vs_L"
_BOUND, _MLE = "local CRB", "constrained MLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """For each budget the bound and the risk over the number of releases."""

    epsilons: tuple[float, ...]
    crb: tuple[Line, ...]
    mle: tuple[Line, ...]
    guessing: float  # the risk of ignoring the answers


def compute(effort: Effort) -> Result:
    """The paper's pair at its two budgets."""
    return risks_by_releases((-0.4, 0.7), (20.0, 1.0), range(2, 13), Calibration.CLASSICAL, effort)


def risks_by_releases(
    pair: Pair, epsilons: tuple[float, ...], counts: Sequence[int], calibration: Calibration, effort: Effort
) -> Result:
    """Simulate the attack on a pair at every budget and count."""
    crb, mle, guessing = [], [], 0.0
    for epsilon in reported(epsilons):
        strata = {L: transcript(L, epsilon=epsilon, calibration=calibration) for L in counts}
        risks = list(sweep(strata, attack=ConstrainedMLE(), at=pair, **asdict(effort)).values())
        crb.append(Line.of(_BOUND, x=counts, y=[risk.crb for risk in risks]))
        mle.append(simulated_line(_MLE, counts, risks))
        guessing = risks[0].trivial_mse
    return Result(epsilons=epsilons, crb=tuple(crb), mle=tuple(mle), guessing=guessing)


def draw(result: Result) -> dict[str, Any]:
    """A panel for each budget."""
    return {
        name: panel(
            (crb, mle),
            title=f"Pair (−0.4, 0.7), ε = {epsilon:g}",
            subtitle="stars: smallest value",
            y_title="squared error of the sorted pair",
            stars=stars_of((crb, mle)),
        )
        for name, epsilon, crb, mle in zip(
            ("high", "low"), result.epsilons, result.crb, result.mle, strict=True
        )
    }


def claims(result: Result) -> tuple[Claim, ...]:
    """What the caption and ``app:finite_noise_l_sweep`` say."""
    (crb_high, crb_low), (mle_high, mle_low) = result.crb, result.mle
    gap = mle_high.y[1] - mle_high.y[0]
    error = (mle_high.half_widths[0] ** 2 + mle_high.half_widths[1] ** 2) ** 0.5 / INTERVAL_95
    ratio = min(crb_low.over(mle_low))
    variation = max(mle_low.y) / min(mle_low.y) - 1
    return (
        claim(
            LABEL,
            "At ε = 20 the constrained MLE and the local CRB select the same stopping point, L = 2.",
            checked="argmin over L = 2 … 12; the MLE's risk at L = 3 is above that at L = 2 by "
            f"{gap / error:.0f} standard errors",
            value=mle_high.lowest[0],
            quantity="best L of the MLE",
            holds=crb_high.lowest[0] == mle_high.lowest[0] == 2 and gap > 3 * error,
        ),
        claim(
            LABEL,
            "At ε = 1 constraints dominate: the risk is far below the CRB and does not validate a stopping "
            "rule.",
            checked="CRB over MLE risk at every L",
            value=ratio,
            quantity="smallest ratio",
            holds=ratio > 100,
            remark=f"the MLE's risk varies by {variation:.0%} over L = 2 … 12 around {mle_low.y[0]:.2f}, and "
            f"is above {result.guessing:.3f}, that of ignoring the answers and guessing (−1/3, 1/3)",
        ),
    )


TITLE = "Finite-noise risk against the number of releases"
ABOUT = "The paper plots this in its appendix; its numbers are not in the source."
FULL, FAST = Effort(trials=20_000), Effort(trials=500)
