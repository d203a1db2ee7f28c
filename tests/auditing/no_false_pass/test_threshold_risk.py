"""What remains beside thresholds is never more than the truth, which is computed in another way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.auditing.findings import find
from sightline.auditing.result import VerdictStatus
from sightline.bounds.coin import coin_risk
from sightline.cli import main
from sightline.tables.membership import Feature, RowValues, Statistic
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of
from tests.auditing.no_false_pass.written_plans import DATA, LIMIT, written


def risk_of_a_coin(noise: float) -> float:
    """The exact Bayes risk over v of a yes or no with even chances, seen with noise."""
    y = np.linspace(-12 * noise, 1 + 12 * noise, 40_001)
    yes, no = norm.pdf(y, 1, noise) / 2, norm.pdf(y, 0, noise) / 2
    return float(4 * np.sum(yes * no / np.maximum(yes + no, 1e-300)) * (y[1] - y[0]))


def risk_of_a_sharp_threshold(at: float, noise: float) -> float:
    """The exact Bayes risk over v of a uniform value on [0, 1], from its noisy indicator."""
    x = (np.arange(20_000) + 0.5) / 20_000
    prior = np.full(x.size, 1 / x.size)
    mean = prior @ x
    v = prior @ (x - mean) ** 2
    above = x > at
    p, inside = prior[above].sum(), prior[above] @ x[above] / prior[above].sum()
    outside = prior[~above] @ x[~above] / prior[~above].sum()
    y = np.linspace(-12 * noise, 1 + 12 * noise, 40_001)
    high, low = p * norm.pdf(y, 1, noise), (1 - p) * norm.pdf(y, 0, noise)
    guess = (high * inside + low * outside) / np.maximum(high + low, 1e-300)
    explained = np.sum((high + low) * (guess - mean) ** 2) * (y[1] - y[0])
    return float(1 - explained / v)


@pytest.mark.slow
def test_a_count_of_one_person_above_a_threshold_does_not_pass(tmp_path: Path) -> None:
    rows = [f"p{i},f,{i}" for i in range(1, 8)]
    counts = [(f"SELECT COUNT(*) FROM data WHERE x > 5 AND id = 'p{i}'", 0.2) for i in range(1, 8)]
    path = written(
        tmp_path,
        rows,
        *counts,
        ("SELECT AVG(x) FROM data", 100.0),
        data={"bounds": [0.0, 10.0]},
    )
    truth = risk_of_a_sharp_threshold(0.5, 0.2)
    assert truth < 0.5
    assert main(["audit", path]) == 2
    result = sl.audit(path)
    assert result.verdict.passed is False
    least = result.least_remaining_uncertainty
    assert least is not None
    assert result.least_about == "x > 5", "the sharpest view is of the yes or no"
    assert least.lower <= risk_of_a_coin(0.2) <= least.upper
    own = [one.remaining_uncertainty for one in result.exposed if one.about is None]
    assert own
    assert all(left is not None and left.lower <= truth for left in own)
    assert result.budget.spent["gaussian-dp"] > 10, "a sharp count at noise 0.2 costs what it costs"


@pytest.mark.parametrize("noise", [0.1, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("at", [2.0, 5.0, 8.0])
def test_what_remains_beside_a_threshold_is_never_more_than_the_truth(noise: float, at: float) -> None:
    plan = plan_of({"name": "above", "noise_stddev": noise}, data={**DATA, "bounds": [0, 10]})
    part = partition(0, "above", feature=Feature.THRESHOLD, parameter=at, statistic=Statistic.SUM)
    findings = find(plan, membership_of([part], [["a", "b"]]))
    number, question = findings.own_least, findings.questions[0].least
    assert number is not None
    assert question is not None
    assert number.lower <= risk_of_a_sharp_threshold(at / 10, noise) <= number.upper
    # The yes or no is a secret of its own, with even chances; the headline has the worse of the two.
    assert question.lower == pytest.approx(coin_risk(noise**-2), rel=1e-3, abs=1e-6)
    truth = coin_risk(noise**-2)
    assert question.lower * (1 - 1e-9) <= truth <= question.upper
    assert findings.least == min(number, question, key=lambda one: one.lower)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["zcdp", "laplace"])
@pytest.mark.parametrize("epsilon", [1.0, 6.0, 30.0])
def test_a_threshold_beside_a_value_leaves_no_less_than_the_bracket_says(
    accountant: str, epsilon: float
) -> None:
    """One record, its value and whether it is above the middle: the posterior on a grid, noise drawn."""
    plan = plan_of(
        {"name": "above"},
        {"name": "value"},
        data={**DATA, "bounds": [0, 10]},
        privacy={"epsilon": epsilon, "delta": 1e-5, "accountant": accountant},
    )
    parts = [
        partition(0, "above", feature=Feature.THRESHOLD, parameter=5.0, statistic=Statistic.SUM),
        partition(1, "value", statistic=Statistic.SUM),
    ]
    findings = find(plan, membership_of(parts, [["a", "b"]] * 2))
    least, question = findings.own_least, findings.questions[0].least
    assert least is not None
    assert question is not None
    above, value = findings.pricing.scale[[0, 2]]
    generator = np.random.default_rng(3)
    x = (np.arange(800) + 0.5) / 80
    prior = np.full(x.size, 1 / x.size)
    v = prior @ (x - 5) ** 2
    truth = generator.choice(x, p=prior, size=8_000)
    laplace = accountant == "laplace"
    draw = generator.laplace if laplace else generator.normal
    offsets = np.stack(
        [
            ((truth > 5) + draw(size=truth.size) * above)[:, None] / above - (x > 5) / above,
            (truth + draw(size=truth.size) * value)[:, None] / value - x / value,
        ]
    )
    logs = -(np.abs(offsets) if laplace else offsets**2 / 2).sum(axis=0) + np.log(prior)
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    errors = (posterior @ x / posterior.sum(axis=1) - truth) ** 2 / v
    spread = errors.std() / np.sqrt(truth.size)
    assert least.lower <= errors.mean() + 5 * spread
    assert errors.mean() - 5 * spread <= least.upper
    chance = posterior[:, x > 5].sum(axis=1) / posterior.sum(axis=1)
    errors = (chance - (truth > 5)) ** 2 / 0.25
    assert question.lower <= errors.mean() + 5 * errors.std() / np.sqrt(truth.size)


def test_enough_noise_on_thresholds_and_means_passes() -> None:
    plan = plan_of(
        {"name": "above", "noise_stddev": 3.0},
        {"name": "mean", "noise_stddev": 20.0},
        data={**DATA, "bounds": [0, 10]},
        limits=LIMIT,
    )
    parts = [
        partition(0, "above", feature=Feature.THRESHOLD, parameter=5.0, statistic=Statistic.SUM),
        partition(1, "mean"),
    ]
    values = RowValues(signature=np.zeros(3, dtype=np.int64), secret=np.array([1.0, 4.0, 8.0]))
    result = assembled(find(plan, membership_of(parts, [[""] * 3] * 2), values=lambda: values))
    assert result.verdict.status is VerdictStatus.PASSED
    # The advice for a plan with too little noise is enough, audited again.
    small = plan.model_copy(
        update={"releases": tuple(r.model_copy(update={"noise_stddev": 0.2}) for r in plan.releases)}
    )
    weak = assembled(find(small, membership_of(parts, [[""] * 3] * 2), values=lambda: values))
    assert weak.verdict.passed is False
    (change,) = [one for one in weak.what_to_change if one.noise_factor is not None]
    more = plan.model_copy(
        update={
            "releases": tuple(
                r.model_copy(update={"noise_stddev": 0.2 * (change.noise_factor or 0.0)})
                for r in plan.releases
            )
        }
    )
    again = find(more, membership_of(parts, [[""] * 3] * 2))
    assert again.least is not None
    assert again.least.lower >= 0.5
