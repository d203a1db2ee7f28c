"""The redistricting tables on a made-up county: what the prototype found, and priors other than even odds."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.reading import plan_text as written
from sightline.auditing.reading import read_plan
from sightline.bounds.coin import coin_risk
from sightline.errors import InvalidPlan
from tools.rooms import ROOT

_MAKER = runpy.run_path(str(ROOT / "docs" / "census_pl94.py"))
noise_stddev, plan_text, write = _MAKER["noise_stddev"], _MAKER["plan_text"], _MAKER["write"]


@pytest.mark.thorough
@pytest.mark.parametrize("discrete", [False, True])
def test_the_tables_tell_little_of_one_person_and_much_of_groups_that_are_alike(
    discrete: bool, tmp_path: Path
) -> None:
    plan = write(tmp_path, discrete=discrete)
    result = sl.audit(plan, verdict_only=True)
    assert (result.identifiable_records, result.records) == (703, 302_810)
    sharpest = min(one.rmse for one in result.exposed if one.rmse is not None)
    assert sharpest == pytest.approx(0.71, abs=0.005)
    least = result.least_remaining_uncertainty
    assert least is not None
    assert least.upper == pytest.approx(0.67, abs=0.005)
    assert least.lower == pytest.approx(0.606 if discrete else 0.651, abs=0.001)
    # The noise alone leaves half to who knows everyone else; what groups have in common is told beyond it.
    assert result.verdict.passed is True
    assert result.unverified == ()
    above = sl.audit(plan, verdict_only=True, limit=0.62)
    assert above.verdict.passed is False
    assert [one.name for one in above.unverified] == ["homogeneous"]
    assert above.homogeneous
    assert (above.homogeneous[0].rows, round(above.homogeneous[0].remaining, 2)) == (28, 0.13)
    assert "the noise alone leaves at least 60 %" in result.verdict.text
    assert discrete or "718 numbers are about rows that are nearly all alike" in above.verdict.text
    assert len(result.to_json()) < 1_000_000
    # With the share of the country as the prior, what is left is a larger share of less.
    text = plan.read_text().replace("[limits]", "[attacker]\nprior = { yes = 0.18 }\n\n[limits]")
    plan.write_text(text)
    told = sl.audit(plan, verdict_only=True).least_remaining_uncertainty
    assert told is not None
    assert told.lower > least.lower


def test_the_noise_is_that_of_the_allocation() -> None:
    """1/sigma² = 2.5563 × 165/4099 × 3945/4097 at the blocks, in detail."""
    assert noise_stddev("Block", 4) ** -2 == pytest.approx((542 / 339) ** 2 * 165 / 4099 * 3945 / 4097)
    assert plan_text().count("[[release]]") == 30


def coins(stddev: float, **attacker: Any) -> dict[str, Any]:
    import polars

    frame = polars.DataFrame({"p": [1], "ill": [True]})
    return {
        "data": {"source": frame, "record": "p", "secret": "ill", "kind": "boolean"},
        "release": [
            {"name": "n", "sql": "SELECT COUNT(*) FILTER (WHERE ill) FROM data", "noise_stddev": stddev}
        ],
        "attacker": attacker,
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("share", [0.01, 0.18, 0.5, 0.9])
@pytest.mark.parametrize("stddev", [0.4, 1.0, 3.0])
def test_the_share_of_yes_is_the_prior_of_the_best_guess(share: float, stddev: float) -> None:
    """One person seen in noise: the mean posterior variance by quadrature, over p(1 - p)."""
    found = sl.audit(coins(stddev, prior={"yes": share})).least_remaining_uncertainty
    assert found is not None
    y = np.linspace(-12 * stddev, 1 + 12 * stddev, 40_001)
    yes, no = (np.exp(-(((y - x) / stddev) ** 2) / 2) / (stddev * np.sqrt(2 * np.pi)) for x in (1.0, 0.0))
    density = share * yes + (1 - share) * no
    kept = np.sum(share * (1 - share) * yes * no / density) * (y[1] - y[0]) / (share * (1 - share))
    assert found.lower == pytest.approx(kept, rel=2e-3)
    assert found.lower <= kept * (1 + 1e-9)
    assert found.upper >= kept * (1 - 1e-9)
    assert kept == pytest.approx(coin_risk(stddev**-2, share=share), rel=1e-6)
    linear = 1 / (1 + share * (1 - share) / stddev**2)
    assert found.upper <= linear * (1 + 1e-9)
    # By the posterior of the listed worlds; of rare answers the margin of the draws is a larger share. At
    # least a third of what lies between the best linear attack and the best one is gone, where that is much.
    assert found.upper == pytest.approx(kept, abs=0.08) or share < 0.1
    assert linear - kept < 0.03 or linear - found.upper >= (linear - kept) / 3


def test_even_odds_are_the_default_and_the_same() -> None:
    assert sl.audit(coins(1.0, prior={"yes": 0.5})).least_remaining_uncertainty == (
        sl.audit(coins(1.0)).least_remaining_uncertainty
    )
    result = sl.audit(coins(1.0, prior={"yes": 0.18}))
    assert result.prior == "values that are yes or no with a chance of 18 % of yes"
    assert result.sharpest is not None
    assert result.sharpest.right_before == pytest.approx(0.82)


def test_a_plan_with_a_share_of_yes_is_written_and_read() -> None:
    plan, _ = read_plan(coins(1.0, prior={"yes": 0.18}))
    assert '[attacker]\nprior = { "yes" = 0.18 }\n' in written(plan)


@pytest.mark.parametrize(
    "prior", [{"yes": 0}, {"yes": 1.0}, {"yes": True}, {"no": 0.5}, {}, "even", 0.18, {"yes": "a"}]
)
def test_other_priors_are_refused_in_one_line(prior: Any) -> None:
    with pytest.raises(
        InvalidPlan, match=r"prior: expected one of 'uniform', 'cos2' or 'two-point', a CSV file, .* points"
    ) as caught:
        sl.audit(coins(1.0, prior=prior))
    assert "\n" not in str(caught.value)


def test_a_share_of_yes_is_for_a_yes_or_no_of_one_row() -> None:
    several = coins(1.0, prior={"yes": 0.18})
    several["data"]["max_rows_per_record"] = 2
    number = coins(1.0, prior={"yes": 0.18})
    number["data"] |= {"kind": "number", "bounds": [0, 1]}
    for plan in (several, number):
        with pytest.raises(InvalidPlan, match="for a yes or no, of records with one row or one value"):
            sl.audit(plan)
