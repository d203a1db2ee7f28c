"""Plans that must not pass, each with the truth computed in another way, and the assumptions of a pass."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.auditing.assemble import assemble
from sightline.auditing.findings import find
from sightline.auditing.plan import AssumptionName
from sightline.auditing.reading import read_plan, with_limit
from sightline.auditing.result import VerdictStatus
from sightline.cli import main
from sightline.errors import InvalidPlan
from sightline.labeled.bounds.coin import coin_risk
from sightline.tables.membership import Feature, Membership, RowValues, Statistic, UnauditedRows
from tests.auditing.hand_made import membership_of, partition, plan_of

DATA = {"source": "t.csv", "record": "id", "secret": "x"}
LIMIT = {"remaining_uncertainty": 0.5}


def written(
    folder: Path,
    rows: list[str],
    *releases: tuple[str, float],
    data: dict[str, object] | None = None,
    accept: tuple[str, ...] = (),
    knows: tuple[str, ...] = (),
) -> str:
    """A plan with a limit of 50 % over a table with the columns id, sex, x."""
    (folder / "t.csv").write_text("id,sex,x\n" + "\n".join(rows) + "\n", encoding="utf-8")
    fields = {**DATA, **({"bounds": [0.0, 10.0]} if data is None else data)}
    lines = ["[data]", *(f"{name} = {json.dumps(value)}" for name, value in fields.items())]
    lines += ["[limits]", "remaining_uncertainty = 0.5", f"accept = {json.dumps(list(accept))}"]
    lines += ["[attacker]", f"knows = {json.dumps(list(knows))}"]
    for number, (sql, noise) in enumerate(releases):
        lines += ["[[release]]", f'name = "r{number}"', f"sql = {json.dumps(sql)}", f"noise_stddev = {noise}"]
    path = folder / "plan.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def names(result: sl.AuditResult) -> set[str]:
    return {one.name.value for one in result.unverified if not one.accepted}


# ------------------------------------------------------------------ every category has its exposure


def exact_risk(truth: np.ndarray, noise: float) -> float:
    """The risk of the best guess at a 0 or 1 that is published with noise, all worlds alike: an integral."""
    y = np.linspace(-12 * noise, 1 + 12 * noise, 40_001)
    density = norm.pdf(y[:, None], truth, noise) / len(truth)
    evidence, yes = density.sum(axis=1), density @ truth
    return float(np.sum(yes - yes**2 / np.maximum(evidence, 1e-300)) * (y[1] - y[0]))


@pytest.mark.slow
def test_the_category_that_was_left_out_is_told_too() -> None:
    """One indicator of one person; the numbers about others make its category the reference."""
    categories = ["cold", "flu", "well"]
    settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
    parts = [partition(0, "one", parameter="well", **settings)]
    parts += [partition(1, f"others: {one}", parameter=one, **settings) for one in ("cold", "flu")]
    others = [None, "a", "a", "b", "b"]
    plan = plan_of(
        {"name": "one", "noise_stddev": 0.25},
        {"name": "others", "noise_stddev": 0.2},
        data={**DATA, "categories": categories},
        limits=LIMIT,
    )
    findings = find(plan, membership_of(parts, [["", *[None] * 4], others, others]))
    assert findings.linear is not None
    assert findings.linear.linear.categories[-1] == "well", "the reference category has columns of its own"
    result = assemble(findings)
    worst = result.exposed[0]
    assert (worst.category, worst.size) == ("well", 1)
    assert worst.remaining_uncertainty == result.least_remaining_uncertainty
    # Nothing else is about this person: the truth is the risk of one indicator seen at noise 0.25.
    truth = np.array([0.0, 0.0, 1.0])  # whether the person is well, in each of three worlds
    risk = exact_risk(truth, 0.25) / (2 / 9)
    assert 0.07 < risk < 0.09
    assert worst.remaining_uncertainty is not None
    assert worst.remaining_uncertainty.lower == pytest.approx(risk, abs=1e-4)
    assert risk <= worst.remaining_uncertainty.upper


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.25, 1.0, 3.0])
def test_every_category_lies_in_its_bracket_by_enumeration_of_all_worlds(noise: float) -> None:
    """Two records, three categories, a histogram over both and one indicator of the first: nine worlds."""
    categories = ["cold", "flu", "well"]
    settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
    for single in categories:
        parts = [partition(0, f"all: {one}", parameter=one, **settings) for one in categories]
        parts.append(partition(1, "one", parameter=single, **settings))
        plan = plan_of(
            {"name": "all", "noise_stddev": 1.5},
            {"name": "one", "noise_stddev": noise},
            data={**DATA, "categories": categories},
        )
        membership = membership_of(parts, [["", ""]] * 3 + [["", None]])
        found = find(plan, membership).linear
        assert found is not None
        assert sorted(found.linear.categories) == categories
        worlds = list(itertools.product(range(3), repeat=2))
        means = np.array(
            [[*(world.count(c) for c in range(3)), world[0] == categories.index(single)] for world in worlds],
            dtype=float,
        )
        risks = risks_by_quadrature(means, np.array([1.5, 1.5, 1.5, noise]), np.array(worlds))
        for number, category in enumerate(found.linear.categories):
            columns = np.flatnonzero(found.linear.column_category == number)
            assert columns.size == 2
            for column in columns:
                signature = membership.signatures[found.linear.column_signature[column]]
                record = 0 if signature[3] >= 0 else 1
                bracket = found.bracket(int(column))
                truth, error = risks[record][categories.index(category)]
                assert bracket.lower <= truth + 5 * error
                assert truth - 5 * error <= bracket.upper


def risks_by_quadrature(
    means: np.ndarray, noise: np.ndarray, worlds: np.ndarray
) -> list[list[tuple[float, float]]]:
    """For each record and category the exact Bayes risk over v; the mean over worlds and drawn noise."""
    generator = np.random.default_rng(7)
    drawn = np.repeat(np.arange(len(worlds)), 4_000)
    answers = means[drawn] + generator.normal(size=(drawn.size, means.shape[1])) * noise
    logs = -(((answers[:, None] - means[None]) / noise) ** 2).sum(axis=2) / 2
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    risks = []
    for record in range(worlds.shape[1]):
        mine = []
        for category in range(3):
            guess = posterior @ (worlds[:, record] == category)
            left = guess * (1 - guess) / (2 / 9)
            mine.append((float(left.mean()), float(left.std() / np.sqrt(left.size))))
        risks.append(mine)
    return risks


@pytest.mark.slow
def test_a_recipe_for_the_reference_category_gives_its_indicator() -> None:
    categories = ["cold", "flu", "well"]
    settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
    parts = [partition(0, f"all: {one}", label=one, parameter=one, **settings) for one in categories] + [
        partition(1, "but one", parameter="well", **settings)
    ]
    plan = plan_of(
        {"name": "all", "noise_stddev": 1.0},
        {"name": "but one", "noise_stddev": 9.0},
        data={**DATA, "categories": categories},
    )
    lines = [["", "", "", ""]] * 3 + [[None, "", "", ""]]
    membership = membership_of(parts, lines)
    findings = find(plan, membership)
    assert findings.linear is not None
    values = ["well", "flu", "well", "cold"]
    answers = {("all", category): float(values.count(category)) for category in categories} | {
        ("but one", ""): float(values[1:].count("well"))
    }
    exposed = assemble(findings).exposed
    told = [one for one in exposed if one.size == 1 and one.identifiable]
    assert {one.category for one in told} == {"well"}
    for one in told:
        for recipe in (one.recipe, one.shortest):
            assert recipe is not None
            total = recipe.constant + sum(s.weight * answers[s.release, s.cell] for s in recipe.steps)
            assert total == pytest.approx(1.0, abs=1e-9)  # the first record is well


# ------------------------------------------------------------------ thresholds


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
@pytest.mark.parametrize("bandwidth", [0.1, 1e6])
def test_a_count_of_one_person_above_a_threshold_does_not_pass(tmp_path: Path, bandwidth: float) -> None:
    rows = [f"p{i},f,{i}" for i in range(1, 8)]
    counts = [(f"SELECT COUNT(*) FROM data WHERE x > 5 AND id = 'p{i}'", 0.2) for i in range(1, 8)]
    path = written(
        tmp_path,
        rows,
        *counts,
        ("SELECT AVG(x) FROM data", 100.0),
        data={"bounds": [0.0, 10.0], "bandwidth": bandwidth},
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
    assert all(one.remaining_uncertainty.lower <= truth for one in result.release_map)
    assert result.budget.spent["gaussian-dp"] > 10, "a sharp count at noise 0.2 costs what it costs"


@pytest.mark.parametrize("noise", [0.1, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("at", [2.0, 5.0, 8.0])
def test_what_remains_beside_a_threshold_is_never_more_than_the_truth(noise: float, at: float) -> None:
    plan = plan_of(
        {"name": "above", "noise_stddev": noise}, data={**DATA, "bounds": [0, 10], "bandwidth": 1.0}
    )
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
        data={**DATA, "bounds": [0, 10], "bandwidth": 1.0},
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
        data={**DATA, "bounds": [0, 10], "bandwidth": 1.0},
        limits=LIMIT,
    )
    parts = [
        partition(0, "above", feature=Feature.THRESHOLD, parameter=5.0, statistic=Statistic.SUM),
        partition(1, "mean"),
    ]
    values = RowValues(signature=np.zeros(3, dtype=np.int64), secret=np.array([1.0, 4.0, 8.0]))
    result = assemble(find(plan, membership_of(parts, [[""] * 3] * 2), values=lambda: values))
    assert result.verdict.status is VerdictStatus.PASSED
    # The advice for a plan with too little noise is enough, audited again.
    small = plan.model_copy(
        update={"releases": tuple(r.model_copy(update={"noise_stddev": 0.2}) for r in plan.releases)}
    )
    weak = assemble(find(small, membership_of(parts, [[""] * 3] * 2), values=lambda: values))
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


# ------------------------------------------------------------------ groups that are all alike


def posterior_share(rows: int, total: int, noise: float, *, even_counts: bool = False) -> float:
    """The posterior chance of yes for one of some rows whose noisy sum is ``total``, world by world.

    The rows are fair coins; or, with ``even_counts``, every number of yeses has the same chance.
    """
    weights = yes = 0.0
    for world in itertools.product((0, 1), repeat=rows):
        weight = norm.pdf(sum(world), total, noise)
        weight /= math.comb(rows, sum(world)) if even_counts else 1
        weights += weight
        yes += weight * world[0]
    return yes / weights


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "total", "noise"), [(2, 0, 0.8), (8, 8, 0.7), (10, 5, 0.7), (10, 9, 1.0)])
def test_the_realised_posterior_of_a_small_group_is_exact(rows: int, total: int, noise: float) -> None:
    plan = plan_of(
        {"name": "ill", "noise_stddev": noise},
        data={**DATA, "kind": "boolean"},
        limits={"remaining_uncertainty": 0.95},
    )
    findings = find(plan, membership_of([partition(0, "ill", statistic=Statistic.SUM)], [[""] * rows]))
    cells = assemble(findings, totals=lambda question: np.array([[float(total)]])).homogeneous
    shares = [posterior_share(rows, total, noise, even_counts=even) for even in (False, True)]
    by_hand = min(
        *(4 * pi * (1 - pi) for pi in shares),
        4 * (min(total, rows - total) + 3 * noise) / rows,
        (min(total, rows - total) + 3 * noise) ** 2,
    )
    assert cells is not None
    assert [cell.remaining for cell in cells] == pytest.approx([by_hand] if by_hand < 0.95 else [])


@pytest.mark.slow
def test_nobody_of_forty_is_ill(tmp_path: Path) -> None:
    """A count of 0 at noise 1.5 tells everyone; the average over values does not see it."""
    rows = [f"p{i},f,false" for i in range(40)]
    release = ("SELECT COUNT(*) FROM data WHERE x", 1.5)
    data: dict[str, object] = {"kind": "boolean"}
    path = written(tmp_path, rows, release, data=data)
    result = sl.audit(path)
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower > 0.5
    assert names(result) == {"homogeneous"}
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert main(["audit", path]) == 2
    assert result.homogeneous is not None
    (cell,) = result.homogeneous
    assert cell.rows == 40
    # The attack "everyone is well" errs on nobody: what is left is less than the bound on it.
    assert 0 < cell.remaining < 0.5
    published = result.publishable()
    assert published.homogeneous is None
    assert published.unverified == ()
    assert published.verdict.passed is False
    assert "alike" not in published.to_json()
    accepted = sl.audit(written(tmp_path, rows, release, data=data, accept=("homogeneous",)))
    assert accepted.verdict.status is VerdictStatus.PASSED
    assert (
        "The plan accepts: 1 number is about rows that are nearly all alike, and tells the values of 40 rows"
        in accepted.verdict.text
    )
    mixed = [f"p{i},f,{'true' if i % 2 else 'false'}" for i in range(40)]
    assert sl.audit(written(tmp_path, mixed, release, data=data)).verdict.passed


@pytest.mark.slow
def test_a_mean_at_its_bound(tmp_path: Path) -> None:
    """Four hundred people with nothing: guessing 0 for all of them is right, although one is well hidden."""
    rows = [f"p{i},f,0.0" for i in range(400)]
    path = written(tmp_path, rows, ("SELECT AVG(x) FROM data", 10 / 400))
    result = sl.audit(path)
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower > 0.9
    assert names(result) == {"homogeneous", "few_values"}
    assert result.homogeneous is not None
    # Every total of 400 values is equally likely, and the answer is 0 with noise of 10.
    totals = np.linspace(0, 200, 200_001)
    likely = np.exp(-((totals / 10) ** 2) / 2)
    mean = float((totals * likely).sum() / likely.sum()) / 400
    v = 100 / 12
    assert result.homogeneous[0].remaining == pytest.approx(mean * (10 - mean) / v, rel=1e-4)
    spread = [f"p{i},f,{i / 40}" for i in range(400)]
    assert sl.audit(written(tmp_path, spread, ("SELECT AVG(x) FROM data", 10 / 400))).verdict.passed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["number", "boolean"])
def test_values_at_a_bound_are_found_although_the_noise_is_wide(tmp_path: Path, kind: str) -> None:
    """Whoever guesses the published mean for everyone errs by about a tenth of what they did before.

    Half of the table has values of its own, so the whole table does not take few values. Groups of more than
    200 have no posterior by enumeration.
    """
    rows = 400
    high = 10.0 if kind == "number" else 1.0
    noise = 0.05 * high
    if kind == "number":
        mixed, alike, data = [f"p{i},m,{i / 40}" for i in range(rows)], "0.0", {}
    else:
        mixed, alike, data = [f"p{i},m,{i % 2}" for i in range(rows)], "0", {"kind": "boolean"}
    same = [f"q{i},f,{alike}" for i in range(rows)]
    release = ("SELECT sex, AVG(x) FROM data GROUP BY sex", noise)
    result = sl.audit(written(tmp_path, [*mixed, *same], release, data=data or None))
    assert names(result) == {"homogeneous"}
    assert result.homogeneous is not None
    assert [cell.rows for cell in result.homogeneous] == [rows]
    # At the true values: guess the published mean, cut off at the bound, for everyone.
    draws = np.maximum(np.random.default_rng(5).normal(0, noise, 100_000), 0)
    variance = high**2 / 12 if kind == "number" else 1 / 4
    attack = float((draws**2).mean()) / variance
    assert attack < 0.1
    assert attack < result.homogeneous[0].remaining < 0.5


@pytest.mark.slow
def test_known_rows_do_not_hide_that_the_others_are_alike(tmp_path: Path) -> None:
    rows = [f"k{i},m,true" for i in range(40)] + [f"p{i},f,false" for i in range(40)]
    release = ("SELECT COUNT(*) FROM data WHERE x", 1.5)
    data: dict[str, object] = {"kind": "boolean"}
    assert sl.audit(written(tmp_path, rows, release, data=data)).verdict.passed
    told = sl.audit(written(tmp_path, rows, release, data=data, knows=("sex = 'm'",)))
    assert names(told) == {"homogeneous"}


@pytest.mark.slow
def test_everybody_has_the_same_category(tmp_path: Path) -> None:
    data: dict[str, object] = {"categories": ["cold", "flu", "well"]}
    release = ("SELECT x, COUNT(*) FROM data GROUP BY x", 2.0)
    alike = written(tmp_path, [f"p{i},f,flu" for i in range(60)], release, data=data)
    result = sl.audit(alike)
    assert names(result) == {"homogeneous", "groups"}  # the answer of the SQL has one line, "flu"
    assert result.homogeneous is not None
    assert any("flu" in cell.cell for cell in result.homogeneous)
    mixed = [f"p{i},f,{('cold', 'flu', 'well')[i % 3]}" for i in range(60)]
    assert sl.audit(written(tmp_path, mixed, release, data=data)).verdict.passed


# ------------------------------------------------------------------ a pass needs its assumptions


MEAN = ("SELECT AVG(x) FROM data", 40.0)
PEOPLE = [f"p{i},{'f' if i % 2 else 'm'},{i * 0.47:.2f}" for i in range(20)]


EMPTY = ("SELECT AVG(x) FROM data WHERE sex = ' f'", 40.0)


def accepted_pass(path: str, name: str, words: str) -> None:
    """The plan passes, and its verdict and its result say what it accepts."""
    assert main(["audit", path]) == 0
    result = sl.audit(path)
    assert result.verdict.status is VerdictStatus.PASSED
    assert f"The plan accepts: {words}" in result.verdict.text
    (one,) = result.unverified
    assert (one.name.value, one.count, one.accepted) == (name, 1, True)
    assert sl.AuditResult.from_json(result.to_json()) == result


@pytest.mark.slow
def test_what_was_not_verified_turns_a_pass_into_not_shown(tmp_path: Path) -> None:
    assert main(["audit", written(tmp_path, PEOPLE, MEAN)]) == 0
    rows, words = [*PEOPLE, "q,f,1000000"], "1 value is outside the bounds"
    path = written(tmp_path, rows, MEAN)
    assert main(["audit", path]) == 2
    result = sl.audit(path)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert names(result) == {"clipped"}
    assert words in result.verdict.text
    assert 'accept = ["clipped"]' in result.verdict.text
    accepted_pass(written(tmp_path, rows, MEAN, accept=("clipped",)), "clipped", words)


@pytest.mark.slow
@pytest.mark.parametrize("releases", [[MEAN, EMPTY], [EMPTY]], ids=["one of two", "the only one"])
def test_an_empty_release_is_an_error_unless_the_plan_accepts_it(
    releases: list[tuple[str, float]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, PEOPLE, *releases)
    assert main(["audit", path]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"release 'r{len(releases) - 1}': expected rows that meet its conditions, got none" in printed.err
    assert 'accept = ["empty"]' in printed.err
    accepted = written(tmp_path, PEOPLE, *releases, accept=("empty",))
    accepted_pass(accepted, "empty", "1 release aggregates no row")


@pytest.mark.slow
def test_a_row_without_a_secret_is_harmless_if_the_engine_says_that_no_release_takes_it_in(
    tmp_path: Path,
) -> None:
    """AVG leaves NULL out. A plan whose SQL was not compared with the engine's groups has no such proof."""
    result = sl.audit(written(tmp_path, [*PEOPLE, "q,f,"], MEAN))
    assert result.dropped == 1
    assert result.verdict.status is VerdictStatus.PASSED
    assert result.unverified == ()
    plan, membership = hand_made()
    for unaudited, expected in (((), {"dropped"}), ((UnauditedRows(),), set())):
        one_dropped = replace(membership, dropped=1, unaudited=unaudited)
        assert names(assemble(find(plan, one_dropped))) == expected


def hand_made(**changes: object) -> tuple[object, Membership]:
    plan = plan_of({"name": "mean", "noise_stddev": 40.0}, limits={**LIMIT, **changes})
    return plan, membership_of([partition(0, "mean")], [["a", "a", "a"]])


def test_rows_that_only_the_sql_aggregates_are_counted() -> None:
    plan, membership = hand_made()
    assert assemble(find(plan, membership)).verdict.status is VerdictStatus.PASSED
    counted = replace(membership, unaudited=(UnauditedRows(unkeyed=2),))
    result = assemble(find(plan, counted))
    assert names(result) == {"published_but_dropped"}
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    plan, _ = hand_made(accept=["published_but_dropped"])
    assert assemble(find(plan, counted)).verdict.status is VerdictStatus.PASSED


def test_moments_judged_near_the_true_values_alone_are_accepted_by_name() -> None:
    """With the noise of this plan no proof for all attacks exists; a local bound does."""
    part = partition(0, "squares", feature=Feature.POWER, parameter=2, statistic=Statistic.SUM)
    membership = membership_of([part], [["", "", ""]])
    values = RowValues(signature=np.zeros(3, dtype=np.int64), secret=np.array([1.0, 4.0, 8.0]))
    results = []
    for accept in ([], ["local"]):
        plan = plan_of({"name": "squares", "noise_stddev": 40.0}, limits={**LIMIT, "accept": accept})
        results.append(assemble(find(plan, membership, values=lambda: values)))
        without_values = assemble(find(plan, membership))
        assert without_values.verdict.status is VerdictStatus.NOT_SHOWN, "nothing was bounded at all"
    assert [one.verdict.status for one in results] == [VerdictStatus.NOT_SHOWN, VerdictStatus.PASSED]
    assert names(results[0]) == {"local"}


def test_a_failed_plan_fails_whatever_it_accepts() -> None:
    plan = plan_of(
        {"name": "mean", "noise_stddev": 0.1},
        limits={**LIMIT, "accept": [name.value for name in AssumptionName]},
    )
    membership = membership_of([partition(0, "mean")], [["a", "b", "b"]])
    assert assemble(find(plan, membership)).verdict.status is VerdictStatus.FAILED


def test_only_assumptions_that_exist_can_be_accepted() -> None:
    content = {
        "data": {**DATA, "bounds": [0, 1]},
        "release": [{"name": "a", "sql": "SELECT AVG(x) FROM data", "noise_stddev": 1.0}],
        "limits": {**LIMIT, "accept": ["everything"]},
    }
    with pytest.raises(
        InvalidPlan, match=r"\[limits\] accept number 1: expected one of 'dropped', 'clipped'"
    ):
        read_plan(content)
    content["limits"] = {**LIMIT, "accept": ["clipped"]}
    plan, _ = read_plan(content)
    assert with_limit(plan, 0.4).limits.accept == (AssumptionName.CLIPPED,), "another limit keeps them"


# ------------------------------------------------------------------ numbers that take few values


def written_with_prior(folder: Path, rows: list[str], prior: str, accept: tuple[str, ...] = ()) -> str:
    """A sum over one person with noise of 0.35 of the range, and the mean of all with much noise."""
    path = written(
        folder,
        rows,
        ("SELECT SUM(x) FROM data WHERE id = 'p0'", 0.35),
        ("SELECT AVG(x) FROM data", 1.0),
        data={"bounds": [0.0, 1.0]},
        accept=accept,
    )
    text = Path(path).read_text(encoding="utf-8").replace("[attacker]", f'[attacker]\nprior = "{prior}"')
    Path(path).write_text(text.replace("uncertainty = 0.5", "uncertainty = 0.3"), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_yes_or_no_stored_as_a_number_does_not_pass_unseen(tmp_path: Path) -> None:
    """A 0 or 1 at noise 0.35 keeps 22.5 %; as an evenly spread number it would keep 58.7 %."""
    stored = [f"p{i},f,{i % 2}" for i in range(12)]
    truth = exact_risk(np.array([0.0, 1.0]), 0.35) / 0.25
    assert truth == pytest.approx(0.225, abs=5e-4)
    result = sl.audit(written_with_prior(tmp_path, stored, "uniform"))
    assert result.verdict.status == "not shown"
    assert names(result) == {"few_values"}
    assert "2 values are all or nearly all that x takes in the table" in result.verdict.text
    assert "2 values" not in result.publishable().to_json()
    # Judged as what it is, it fails.
    judged = sl.audit(written_with_prior(tmp_path, stored, "two-point"))
    assert judged.verdict.status == "failed"
    assert judged.least_remaining_uncertainty is not None
    assert judged.least_remaining_uncertainty.lower == pytest.approx(truth, rel=0.02)
    assert judged.least_remaining_uncertainty.lower <= truth <= judged.least_remaining_uncertainty.upper
    assert judged.prior == "values at either end, with even chances, from 0 to 1"
    # Accepted by name, it passes and says so.
    accepted = sl.audit(written_with_prior(tmp_path, stored, "uniform", accept=("few_values",)))
    assert accepted.verdict.passed
    assert "The plan accepts: 2 values are all or nearly all that x takes" in accepted.verdict.text
    assert accepted.least_remaining_uncertainty is not None
    assert accepted.least_remaining_uncertainty.lower == pytest.approx(0.587, abs=0.002)


@pytest.mark.parametrize(
    ("values", "few"),
    [
        ([i % 2 for i in range(12)], 2),
        ([0, 1], 2),  # two rows, but whole numbers on a short range
        ([(i % 5) / 4 for i in range(40)], 5),  # often repeated
        ([i / 41 for i in range(41)], None),
        ([0.1, 0.7, 0.3], None),  # a small table has few values, too
        ([(i % 20) / 20 for i in range(400)], 20),
        ([(i % 21) / 21 for i in range(400)], 19),  # nine tenths of the rows take them
        ([(i % 40) / 40 for i in range(400)], None),
        ([i % 2 for i in range(380)] + [i / 41 for i in range(1, 41)], 2),  # a yes or no with a few others
        ([0.0] * 100 + [i / 301 for i in range(1, 300)], None),  # one value often, and many others
    ],
)
def test_which_numbers_take_few_values(tmp_path: Path, values: list[float], few: int | None) -> None:
    rows = [f"p{i},f,{value}" for i, value in enumerate(values)]
    result = sl.audit(written(tmp_path, rows, ("SELECT AVG(x) FROM data", 9.0), data={"bounds": [0.0, 1.0]}))
    found = [one.count for one in result.unverified if one.name.value == "few_values"]
    assert found == ([] if few is None else [few])


# ------------------------------------------------------------------ sentences that are true


@pytest.mark.parametrize(
    ("data", "prior"),
    [
        ({"bounds": [0, 10]}, "values spread evenly from 0 to 10"),
        ({"kind": "boolean"}, "values that are yes or no with even chances"),
        ({"categories": ["a", "b", "c"]}, "categories with even chances"),
    ],
)
def test_what_remains_is_told_with_what_it_averages_over(data: dict[str, object], prior: str) -> None:
    plan = plan_of({"name": "count", "noise_stddev": 2.0}, data={**DATA, **data}, limits=LIMIT)
    feature = {"feature": Feature.INDICATOR, "parameter": "a"} if "categories" in data else {}
    part = partition(0, "count", statistic=Statistic.SUM, **feature)
    result = assemble(find(plan, membership_of([part], [["", "", ""]])))
    (sentence,) = [s for s in result.verdict.text.split(". ") if "uncertainty (variance" in s]
    assert sentence.startswith(f"On average over {prior}")
    assert "who knows the groups and the noise" in sentence
    assert "whatever the attack; the best attack leaves at most" in sentence
    assert result.prior == prior


def test_forty_times_no_is_found_although_the_noise_is_wide(tmp_path: Path) -> None:
    """A sum of 0 over 40 people with noise 3: an attacker who knows no rate takes everyone for a no.

    Under the prior of fair coins 72 % would remain, because so many times no is then all but impossible.
    """
    source = tmp_path / "people.csv"
    source.write_text("id,ill\n" + "".join(f"{i},false\n" for i in range(40)))
    release = {"name": "ill", "sql": "SELECT COUNT(*) FILTER (WHERE ill) FROM data", "noise_stddev": 3.0}
    data = {"source": str(source), "record": "id", "secret": "ill", "kind": "boolean"}
    result = sl.audit({"data": data, "release": [release], "limits": LIMIT})
    counts = np.arange(41)
    share = np.average(counts, weights=np.exp(-((counts / 3.0) ** 2) / 2)) / 40
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert names(result) == {"homogeneous"}
    assert result.homogeneous[0].remaining == pytest.approx(share * (1 - share) / 0.25)
