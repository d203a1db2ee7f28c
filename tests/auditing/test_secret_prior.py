"""What remains of a yes or no, and of a category: the bracket against the exact risk over all worlds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sightline.auditing.findings import Findings, find
from sightline.auditing.secret_prior import SecretPrior
from sightline.bounds.coin import coin_risk
from sightline.privacy.law import Law
from sightline.tables.membership import Feature, Statistic
from sightline.tables.subject import SecretKind
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of

DATA = {"source": "t.csv", "record": "id", "secret": "x"}
CATEGORIES = ["cold", "flu", "well"]
TRIALS = 30_000


def worlds_of(records: int, values: int) -> np.ndarray:
    return np.array(list(itertools.product(range(values), repeat=records)))


def exact_risks(means: np.ndarray, truths: np.ndarray, scale: np.ndarray, law: Law) -> np.ndarray:
    """Bayes risks of the columns of ``truths`` (worlds × questions), all worlds alike; and their errors."""
    generator = np.random.default_rng(0)
    laplace = law is Law.LAPLACE
    draw = generator.laplace if laplace else generator.normal
    drawn = generator.integers(len(means), size=TRIALS)
    answers = means[drawn] + draw(size=(TRIALS, means.shape[1])) * scale
    offsets = (answers[:, None] - means[None]) / scale
    logs = -(np.abs(offsets) if laplace else offsets**2 / 2).sum(axis=2)
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    guess = posterior / posterior.sum(axis=1, keepdims=True) @ truths
    risks = guess * (1 - guess)
    return np.array([risks.mean(axis=0), risks.std(axis=0) / np.sqrt(TRIALS)])


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["zcdp", "laplace"])
@pytest.mark.parametrize("published", [CATEGORIES, ["cold"], ["cold", "well"], ["flu", "cold", "well"]])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_category_lies_in_its_bracket(published: list[str], accountant: str, epsilon: float) -> None:
    groups = ["north", "north", "south", "south"]
    some = ["", "", "", None]
    parts, lines = [], []
    for query, line in enumerate((groups, some)):
        for category in published:
            settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR, "parameter": category}
            parts.append(partition(query, f"q{query}", **settings))
            lines.append(line)
    plan = plan_of(
        {"name": "q0"},
        {"name": "q1"},
        data={**DATA, "categories": CATEGORIES},
        privacy={"epsilon": epsilon, "delta": 1e-5, "accountant": accountant},
    )
    membership = membership_of(parts, lines)
    examined = find(plan, membership)
    found = examined.linear
    assert found is not None

    worlds = worlds_of(4, 3)
    means = np.array(
        [
            [
                sum(
                    CATEGORIES[world[row]] == membership.partitions[cell.partition].parameter
                    for row, group in enumerate(lines[cell.partition])
                    if group is not None and (group,) == (cell.key or ("",))
                )
                for cell in membership.cells
            ]
            for world in worlds
        ],
        dtype=float,
    )
    pricing = examined.pricing
    cells = list(zip(groups, some, strict=True))
    signatures = [sorted(set(cells), key=lambda pair: (pair[0], pair[1] is not None)).index(c) for c in cells]
    for number, category in enumerate(found.linear.categories):
        truths = (worlds == CATEGORIES.index(category)).astype(float)
        risks, errors = exact_risks(means, truths, pricing.scale, pricing.bounding_law) / (2 / 9)
        for row, signature in enumerate(signatures):
            unit = int(found.linear.unit_of_record[signature])
            bracket = found.bracket(unit * found.linear.columns_of_unit + number)
            assert bracket.lower <= risks[row] + 5 * errors[row]
            assert risks[row] - 5 * errors[row] <= bracket.upper


@pytest.mark.parametrize("accountant", ["zcdp", "laplace"])
def test_a_yes_or_no_is_a_coin_and_never_keeps_less_than_the_noise_guarantees(accountant: str) -> None:
    plan = plan_of(
        {"name": "ill"},
        data={**DATA, "kind": "boolean"},
        privacy={"epsilon": 3.0, "delta": 1e-5, "accountant": accountant},
    )
    membership = membership_of([partition(statistic=Statistic.SUM)], [["a", "b", "b", "b"]])
    examined = find(plan, membership)
    result = assembled(examined)
    scale = examined.pricing.scale[0]
    alone = result.exposed[0]
    assert alone.size == 1
    ends, found = alone.remaining_uncertainty, examined.linear
    assert found is not None
    linear = float(found.exposure.upper[found.people == 1][0, 0])
    if accountant == "zcdp":
        expected = coin_risk(1 / scale**2)
        assert linear == pytest.approx(1 / (1 + 1 / (4 * scale**2)))
    else:
        # The risk of the posterior probability of yes, integrated over the answers.
        y = np.linspace(-40 * scale, 1 + 40 * scale, 400_001)
        no, yes = (np.exp(-np.abs(y - value) / scale) / (2 * scale) for value in (0.0, 1.0))
        expected = 4 * np.sum(no * yes / (no + yes)) / 2 * (y[1] - y[0])
        assert linear == pytest.approx(1 / (1 + 1 / (8 * scale**2)))
    assert ends.lower == pytest.approx(expected, rel=1e-5)
    assert ends.lower <= expected * (1 + 1e-9) <= ends.upper * (1 + 2e-9)
    assert ends.upper <= linear * (1 + 1e-9)
    assert result.guaranteed_by_noise == pytest.approx(alone.remaining_uncertainty.lower, rel=1e-5)
    assert any("yes or no with even chances" in line for line in result.assumptions)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "cos2", "two-point"])
def test_a_number_keeps_what_a_lone_value_keeps(name: str) -> None:
    """Against the risk of one value in Gaussian noise, by quadrature; Laplace noise by van Trees' bound."""
    number = SecretPrior(kind=SecretKind.NUMBER, bounds=(0.0, 10.0), name=name)
    assert number.kept(information=0.0, law=Law.GAUSSIAN) == 1.0
    x = np.array([0.0, 10.0]) if name == "two-point" else (np.arange(3000) + 0.5) / 300
    prior = np.cos(np.pi * (x / 10 - 0.5)) ** 2 if name == "cos2" else np.ones_like(x)
    prior = prior / prior.sum()
    for noise in (2.0, 3.5, 20.0):
        y = np.linspace(-9 * noise, 10 + 9 * noise, 3001)
        joint = prior * np.exp(-(((y[:, None] - x) / noise) ** 2) / 2) / (noise * np.sqrt(2 * np.pi))
        evidence, first = joint.sum(axis=1), joint @ x
        seen = evidence > 1e-300
        risk = prior @ x**2 - np.sum(first[seen] ** 2 / evidence[seen]) * (y[1] - y[0])
        share = risk / (prior @ x**2 - (prior @ x) ** 2)
        assert number.kept(information=noise**-2, law=Law.GAUSSIAN) == pytest.approx(share, rel=5e-3)
        laplace = number.kept(information=noise**-2, law=Law.LAPLACE)
        assert 0 < laplace <= number.kept(information=noise**-2, law=Law.GAUSSIAN) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["zcdp", "laplace"])
@pytest.mark.parametrize("data", [{"kind": "boolean"}, {"categories": CATEGORIES}])
def test_more_noise_helps_secrets_of_few_values_too(data: dict[str, object], accountant: str) -> None:
    feature = (
        {"feature": Feature.INDICATOR, "parameter": "flu"}
        if "categories" in data
        else {"feature": Feature.VALUE}
    )
    membership = membership_of([partition(statistic=Statistic.SUM, **feature)], [["a", "b", "b"]])

    def examined(epsilon: float) -> Findings:
        plan = plan_of(
            {"name": "count"},
            data={**DATA, **data},
            privacy={"epsilon": epsilon, "delta": 1e-5, "accountant": accountant},
            limits={"remaining_uncertainty": 0.9},
        )
        return find(plan, membership)

    (change,) = [one for one in assembled(examined(6.0)).what_to_change if one.kind == "noise"]
    assert change.noise_factor is not None
    assert change.epsilon is not None
    after = assembled(examined(change.epsilon))
    assert after.verdict.below_limit == 0
    least = after.least_remaining_uncertainty
    assert least is not None
    assert least.lower == pytest.approx(0.9, abs=0.02)


@pytest.mark.slow
def test_the_order_of_the_categories_changes_nothing_and_the_sharpest_count_is_told() -> None:
    found, uppers = [], []
    for categories in (["0", "A", "B"], ["A", "B", "0"]):
        settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
        parts = [partition(0, f"all: {one}", parameter=one, **settings) for one in categories]
        parts.append(partition(1, "zeros", parameter="0", **settings))
        plan = plan_of(
            {"name": "all", "noise_stddev": 10.0},
            {"name": "zeros", "noise_stddev": 0.3},
            data={**DATA, "categories": categories},
        )
        examined = find(plan, membership_of(parts, [["x", "y", "y"]] * 4))
        uppers.append(np.sort(examined.linear.exposure.upper.ravel()))
        found.append(assembled(examined))
    one, other = (result.exposed[0] for result in found)
    assert one.category == other.category == "0"
    assert one.rmse == pytest.approx(other.rmse)
    assert one.rmse == pytest.approx(0.3, rel=1e-2)
    # Each end is widened by its stated error, which depends on the order of the sums.
    error = 4 * sum(result.relative_error for result in found)
    assert error < 1e-9
    np.testing.assert_allclose(*uppers, rtol=error)
    # All worlds of the record of group x, which shares no count: both ends are drawn, about the same risk.
    worlds = worlds_of(1, 3)
    means = np.column_stack([worlds == 0, worlds == 1, worlds == 2, worlds == 0]).astype(float)
    scale = np.array([10.0, 10.0, 10.0, 0.3])
    risks, errors = exact_risks(means, (worlds == 0).astype(float), scale, Law.GAUSSIAN) / (2 / 9)
    for ends in (one.remaining_uncertainty, other.remaining_uncertainty):
        assert ends is not None
        assert ends.lower <= risks[0] + 5 * errors[0]
        assert ends.upper >= risks[0] - 5 * errors[0]


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["zcdp", "laplace"])
def test_nobody_keeps_less_than_the_noise_guarantees_and_a_histogram_leaves_that(
    accountant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
    parts = [partition(0, f"all: {one}", parameter=one, **settings) for one in CATEGORIES]
    plan = plan_of(
        {"name": "all"},
        data={**DATA, "categories": CATEGORIES},
        privacy={"epsilon": 4.0, "delta": 1e-5, "accountant": accountant},
    )
    membership = membership_of(parts, [["x", "y", "y"]] * 3)
    examined = find(plan, membership)
    result = assembled(examined)
    least = result.least_remaining_uncertainty
    assert least is not None
    assert result.guaranteed_by_noise is not None
    worlds = worlds_of(1, 3)
    means = (worlds == np.arange(3)).astype(float)
    pricing = examined.pricing
    scale = np.full(3, pricing.scale[0])
    risks, errors = exact_risks(means, means, scale, pricing.bounding_law) / (2 / 9)
    assert least.lower <= np.min(risks + 5 * errors)
    assert least.upper >= np.min(risks - 5 * errors)
    assert result.guaranteed_by_noise <= least.lower
    # Without the risk over all worlds of the record, which is more than a count of one category leaves, and
    # without what others hide.
    monkeypatch.setattr("sightline.bounds.assessment.of_few_values", lambda found, **_: found)
    monkeypatch.setattr("sightline.auditing.findings.with_walk", lambda _, lower, upper, limit: lower)
    least = assembled(find(plan, membership)).least_remaining_uncertainty
    assert least is not None
    if accountant == "zcdp":
        assert result.guaranteed_by_noise == pytest.approx(least.lower, abs=1e-6)
    else:  # two counts with half the loss each tell less than one count with all of it
        assert 0 < result.guaranteed_by_noise < least.lower


@pytest.mark.slow
@pytest.mark.parametrize("categories", [2, 20])
def test_copies_under_laplace_noise_cost_what_they_cost(categories: int) -> None:
    """The mean of T copies has 1/√T of their noise; the privacy loss is T times theirs."""
    names = [f"c{i}" for i in range(categories)]
    copies = 4
    plan = plan_of(
        {"name": "count", "times": copies},
        data={**DATA, "categories": names},
        privacy={"epsilon": 2.0, "accountant": "laplace"},
    )
    part = partition(statistic=Statistic.SUM, feature=Feature.INDICATOR, parameter="c0")
    examined = find(plan, membership_of([part], [["a", "b", "b"]]))
    one = next(one for one in assembled(examined).exposed if one.size == 1)
    generator = np.random.default_rng(5)
    share, scale = 1 / categories, examined.pricing.scale[0]
    truth = generator.random(200_000) < share
    answers = truth[:, None] + generator.laplace(size=(truth.size, copies)) * scale
    odds = np.exp(np.sum(np.abs(answers) - np.abs(answers - 1), axis=1) / scale) * share / (1 - share)
    risks = odds / (1 + odds) ** 2 / (share * (1 - share))
    assert one.remaining_uncertainty is not None
    assert one.remaining_uncertainty.lower <= risks.mean() + 5 * risks.std() / np.sqrt(truth.size)
    assert one.remaining_uncertainty.upper >= risks.mean() - 5 * risks.std() / np.sqrt(truth.size)
