"""Yes-or-no questions about a number, and counts of several categories: judged as secrets of their own."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.findings import Findings, find
from sightline.auditing.homogeneous import homogeneous_cells
from sightline.auditing.questions import coin_kept, cut_points, question_text
from sightline.auditing.result import VerdictStatus
from sightline.bounds.coin import coin_risk
from sightline.errors import InvalidPlan
from sightline.tables.membership import Band, Feature, Membership, Partition, Statistic
from tests.auditing.hand_made import membership_of, partition, plan_of

DATA = {"source": "t.csv", "record": "id", "secret": "x", "bounds": [0, 10]}
LIMIT = {"remaining_uncertainty": 0.5}


def count(query: int, feature: Feature, parameter: Any, **changes: Any) -> Partition:
    return partition(
        query, f"r{query}", statistic=Statistic.SUM, feature=feature, parameter=parameter, **changes
    )


def found(parts: list[Partition], groups: list[list[str | None]], *noise: float, **changes: Any) -> Findings:
    releases = [{"name": f"r{p}", "noise_stddev": stddev} for p, stddev in enumerate(noise)]
    limits = {"remaining_uncertainty": changes.pop("limit", 0.5)}
    plan = plan_of(*releases, data={**DATA, **changes}, limits=limits)
    return find(plan, membership_of(parts, groups))


def is_just_below(lower: float, truth: float) -> bool:
    """Bounds are read off a table of chords: they are lower than the function, by little."""
    return 0.99 * truth - 1e-6 <= lower <= truth * (1 + 1e-9)


# --------------------------------------------------------------- the bound


def test_a_question_alone_is_a_boolean_secret() -> None:
    """The same memberships with a boolean secret have the same exposures."""
    groups: list[list[str | None]] = [["a", "a", "b"], ["", "", ""], ["", "", None]]
    parts = [count(query, Feature.THRESHOLD, 4.0, above=query != 1) for query in range(3)]
    asked = found(parts, groups, 0.5, 0.7, 0.9).questions
    booleans = [replace(part, feature=Feature.VALUE, parameter=None) for part in parts]
    plan = plan_of(
        *({"name": f"r{p}", "noise_stddev": s} for p, s in enumerate((0.5, 0.7, 0.9))),
        data={"source": "t.csv", "record": "id", "secret": "x", "kind": "boolean"},
    )
    secret = find(plan, membership_of(booleans, groups))
    (question,) = asked
    np.testing.assert_array_equal(question.linear.lower, secret.linear.lower)
    np.testing.assert_array_equal(question.linear.upper, secret.linear.upper)
    assert question.linear.identifiable_records == secret.linear.identifiable_records


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_attack_on_a_question_beats_the_bound(seed: int) -> None:
    """One unknown record in a threshold, a band, a square and a sum: a posterior on a grid, noise drawn."""
    draw = np.random.default_rng(seed)
    noise = draw.uniform([0.4, 0.4, 20, 2], [2, 2, 100, 10])
    band = Band(low=2.0, high=7.0, low_closed=True)
    parts = [
        count(0, Feature.THRESHOLD, 5.0),
        count(1, Feature.BAND, band),
        count(2, Feature.POWER, 2.0),
        count(3, Feature.VALUE, None),
    ]
    plan = plan_of(*({"name": f"r{p}", "noise_stddev": float(s)} for p, s in enumerate(noise)), data=DATA)
    findings = find(plan, membership_of(parts, [["", ""]] * 4, known=[0]))
    x = (np.arange(400) + 0.5) / 40
    features = np.stack([x > 5, (x >= 2) & (x < 7), x**2, x]).astype(float)
    truth = draw.integers(400, size=6_000)
    answers = features[:, truth] + draw.normal(size=(4, truth.size)) * noise[:, None]
    logs = -(((answers[:, :, None] - features[:, None]) / noise[:, None, None]) ** 2).sum(axis=0) / 2
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    assert findings.own_least is not None
    errors = (posterior @ x - x[truth]) ** 2 / (100 / 12)
    assert findings.own_least.lower <= errors.mean() + 4 * errors.std() / np.sqrt(truth.size)
    first, second = findings.questions
    for question, answer in ((first, features[0]), (second, features[1])):
        assert question.least is not None
        errors = (posterior @ answer - answer[truth]) ** 2 / 0.25
        assert question.least.lower <= errors.mean() + 4 * errors.std() / np.sqrt(truth.size)
    # With all answers: at most the squared sensitivities over the noise.
    distance = (np.array([1, 1, 100, 10]) ** 2 / noise**2).sum()
    assert first.least is not None
    assert is_just_below(first.least.lower, coin_risk(float(distance)))


def test_learning_a_band_leaves_the_rest_of_the_number() -> None:
    """An exact answer with one cut carries at most ln 2; the truth for a cut in the middle is 25 %."""
    findings = found([count(0, Feature.THRESHOLD, 5.0)], [["a", "b"]], 1e-3)
    assert findings.own_least is not None
    assert 0.17 < findings.own_least.lower < 0.25
    three = [count(q, Feature.THRESHOLD, level) for q, level in enumerate((2.5, 5.0, 7.5))]
    more = found(three, [["a", "b"]] * 3, 1e-3, 1e-3, 1e-3)
    assert more.own_least is not None
    assert 0.04 < more.own_least.lower < 1 / 16
    assert cut_points(more.membership, np.inf) == 3
    assert cut_points(more.membership, 0) == 1


def test_the_ends_of_bands_are_cuts() -> None:
    parts = [
        count(0, Feature.BAND, Band(low=2.0, high=5.0, low_closed=True)),
        count(1, Feature.THRESHOLD, 5.0, closed=True),  # where the band ends
        count(2, Feature.THRESHOLD, 5.0),  # another cut: 5 itself lies between
    ]
    assert cut_points(membership_of(parts, [["", ""]] * 3), np.inf) == 3


def test_a_coin_at_no_distance_is_whole_and_far_away_is_seen() -> None:
    assert coin_kept(np.array([0.0, np.inf])).tolist() == [1.0, 0.0]
    assert is_just_below(float(coin_kept(np.array([4.0]))[0]), coin_risk(4.0))


def test_even_chances_keep_the_least_share() -> None:
    """The audit asks with even chances: other odds are better hidden at the same distance."""
    odds = (0.5, 0.4, 0.3, 0.1, 0.01, 1e-4)
    for distance in (0.01, 0.1, 1.0, 4.0, 16.0, 50.0, 1000.0):
        shares = [coin_risk(distance, share=p) for p in odds]
        assert shares == sorted(shares)


def test_questions_read_like_sql() -> None:
    closed = count(0, Feature.THRESHOLD, 5.0, closed=True)
    assert question_text(closed, "income") == "income >= 5"
    assert (
        question_text(count(0, Feature.BAND, Band(low=1.0, high=2.0, high_closed=True)), "x") == "1 < x <= 2"
    )


# --------------------------------------------------------------- verdicts


TABLE = "id,region,x\n" + "".join(f"p{i},{'ab'[i % 2]},{(3 * i) % 10 + 0.25}\n" for i in range(16))


def audit(folder: Path, *releases: dict[str, Any], **changes: Any) -> sl.AuditResult:
    (folder / "t.csv").write_text(changes.pop("table", TABLE))
    data = {**DATA, "source": str(folder / "t.csv"), **changes.pop("data", {})}
    limits = {**LIMIT, **changes.pop("limits", {})}
    return sl.audit({"data": data, "release": list(releases), "limits": limits, **changes})


@pytest.mark.parametrize("condition", ["x BETWEEN 2 AND 6", "x < 2 OR x > 6", "NOT x > 5"])
def test_the_yes_or_no_of_one_person_does_not_pass_whatever_is_accepted(
    condition: str, tmp_path: Path
) -> None:
    """The number keeps a tenth, but whether it lies in the band is known."""
    sql = f"SELECT COUNT(*) FILTER (WHERE {condition}) FROM data WHERE id = 'p3'"
    result = audit(
        tmp_path,
        {"name": "one", "sql": sql, "noise_stddev": 0.2},
        limits={"remaining_uncertainty": 0.1, "accept": ["local", "groups", "homogeneous"]},
    )
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.verdict.below_limit == 1
    assert "asked as a secret of its own" in result.verdict.text
    (question,) = result.questions
    assert question.identifiable_records == 1
    assert result.least_about == question.text
    assert result.least_remaining_uncertainty is not None
    assert is_just_below(result.least_remaining_uncertainty.lower, coin_risk(25.0))


def test_the_band_of_one_person_does_not_pass(tmp_path: Path) -> None:
    band = "CASE WHEN x < 3 THEN 'low' WHEN x < 7 THEN 'middle' ELSE 'high' END"
    sql = f"SELECT {band} AS band, COUNT(*) FROM data WHERE id = 'p3' GROUP BY band"
    accept = {"accept": ["local", "groups", "homogeneous"]}
    result = audit(tmp_path, {"name": "one", "sql": sql, "noise_stddev": 0.5}, limits=accept)
    assert result.verdict.status is VerdictStatus.FAILED
    assert [one.text for one in result.questions] == ["x >= 3", "3 <= x < 7", "x >= 7"]
    # Of a histogram two numbers change: what is published of a band is twice as far apart as one number.
    kept = result.questions[0].least_remaining_uncertainty
    assert kept is not None
    assert kept.lower <= coin_risk(2 / 0.5**2)


@pytest.mark.slow
def test_a_question_beside_means_is_in_the_headline_and_in_the_advice(tmp_path: Path) -> None:
    releases = [
        {"name": "mean", "sql": "SELECT region, AVG(x) FROM data GROUP BY region", "noise_stddev": 3.0},
        {"name": "rich", "sql": "SELECT region, COUNT(*) FILTER (WHERE x > 5) FROM data GROUP BY region",
         "noise_stddev": 0.4},
    ]  # fmt: skip
    result = audit(tmp_path, *releases)
    assert result.verdict.passed is False
    (change,) = [one for one in result.what_to_change if one.noise_factor is not None]
    louder = [{**one, "noise_stddev": one["noise_stddev"] * change.noise_factor} for one in releases]
    again = audit(tmp_path, *louder)
    assert again.verdict.status is VerdictStatus.PASSED
    almost = [{**one, "noise_stddev": one["noise_stddev"] * change.noise_factor * 0.95} for one in releases]
    assert audit(tmp_path, *almost).verdict.status is not VerdictStatus.PASSED


def test_a_group_in_which_all_say_no_is_told(tmp_path: Path) -> None:
    """Nobody of 40 is above the level: noise that hides one record does not hide that."""
    table = "id,region,x\n" + "".join(f"p{i},a,{i % 40 / 10}\n" for i in range(40))
    result = audit(
        tmp_path,
        {"name": "rich", "sql": "SELECT COUNT(*) FILTER (WHERE x > 5) FROM data", "noise_stddev": 3.0},
        table=table,
        limits={"remaining_uncertainty": 0.98},  # the noise alone keeps 97.3 %
    )
    assert result.homogeneous
    assert result.homogeneous[0].rows == 40
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    counted = homogeneous_cells(
        found([count(0, Feature.THRESHOLD, 5.0)], [[""] * 40], 3.0, limit=0.98), lambda _: np.zeros((1, 1))
    )
    assert counted[0].remaining == pytest.approx(result.homogeneous[0].remaining)


def test_the_answers_of_a_person_with_several_rows(tmp_path: Path) -> None:
    table = "id,region,x\n" + "".join(f"p{i // 2},{'ab'[i % 2]},{(3 * i) % 10 + 0.25}\n" for i in range(16))
    sql = "SELECT COUNT(*) FILTER (WHERE x > 5) FROM data WHERE id = 'p3'"
    result = audit(
        tmp_path,
        {"name": "one", "sql": sql, "noise_stddev": 0.3},
        table=table,
        data={"max_rows_per_record": 2, "values": "independent"},
        limits={"accept": ["local", "homogeneous"]},
    )
    assert result.verdict.status is VerdictStatus.FAILED
    # The total of two rows' answers is 0, 1 or 2: what remains of it, by quadrature over the published count.
    totals, chances = np.arange(3.0), np.array([0.25, 0.5, 0.25])
    answers = np.linspace(-3, 5, 40_001)[:, None]
    joint = chances * np.exp(-((answers - totals) ** 2) / (2 * 0.3**2))
    mean = joint @ totals / joint.sum(axis=1)
    risk = np.sum(joint * (totals - mean[:, None]) ** 2) / joint.sum() / 0.5
    least = result.questions[0].least_remaining_uncertainty
    assert least is not None
    assert least.lower <= risk <= least.upper


def test_clipping_is_bounded_by_what_it_can_move(tmp_path: Path) -> None:
    """LEAST(x, 2) moves by 2 at most: the same noise hides it five times better than the value."""
    clipped = {"name": "sum", "sql": "SELECT SUM(LEAST(x, 2)) FROM data WHERE id = 'p3'", "noise_stddev": 0.5}
    result = audit(tmp_path, clipped)
    assert result.verdict.passed is False
    kept = result.least_remaining_uncertainty
    assert kept is not None
    # ½ ln(1 + 2²/4σ²) nats of a value spread evenly.
    nats = np.log1p(2**2 / (4 * 0.5**2)) / 2
    assert kept.lower == pytest.approx(6 / (np.pi * np.e) * np.exp(-2 * nats), rel=0.2)
    assert audit(tmp_path, {**clipped, "noise_stddev": 4.0}).verdict.passed is True


# --------------------------------------------------------------- what carries the noise


def test_the_noise_is_on_the_aggregate_and_the_result_says_so(tmp_path: Path) -> None:
    """100 · AVG with a noise of 500: that of the percentage, so the mean has 5."""
    one_person = "FROM data WHERE id = 'p3'"
    plain = {"name": "mean", "sql": f"SELECT AVG(x) {one_person}", "noise_stddev": 5.0}
    sql = f"SELECT ROUND(100 * AVG(x)) AS rate {one_person}"
    scaled = {"name": "mean", "sql": sql, "noise_stddev": 500.0}
    one, two = audit(tmp_path, plain), audit(tmp_path, scaled)
    assert one.verdict.status is two.verdict.status is VerdictStatus.PASSED
    assert two.least_remaining_uncertainty == one.least_remaining_uncertainty
    line = '"mean": the noise is on AVG(x); after it: * 100, ROUND.'
    assert any(text.startswith(line) and "of the published number" in text for text in two.assumptions)
    # A noise of 5 on the percentage is 0.05 on the mean: neither passes, accepted or not.
    few = audit(tmp_path, {**plain, "noise_stddev": 0.05})
    for limits in ({}, {"accept": ["noise_first"]}):
        less = audit(tmp_path, {**scaled, "noise_stddev": 5.0}, limits=limits)
        assert less.verdict.status is few.verdict.status is VerdictStatus.FAILED
        assert less.least_remaining_uncertainty == few.least_remaining_uncertainty


def test_a_budget_prices_the_aggregate(tmp_path: Path) -> None:
    privacy = {"epsilon": 1.0, "delta": 1e-5}
    one = audit(tmp_path, {"name": "m", "sql": "SELECT AVG(x) FROM data"}, privacy=privacy)
    two = audit(tmp_path, {"name": "m", "sql": "SELECT 100 * AVG(x) FROM data"}, privacy=privacy)
    assert one.releases[0].smallest_noise_stddev == two.releases[0].smallest_noise_stddev
    assert one.verdict.status is two.verdict.status is VerdictStatus.PASSED


def test_an_order_by_noisy_numbers_needs_the_noise_first(tmp_path: Path) -> None:
    by_region = "SELECT region, AVG(x) AS m FROM data GROUP BY region"
    plain = audit(tmp_path, {"name": "m", "sql": f"{by_region} ORDER BY region LIMIT 1", "noise_stddev": 9.0})
    assert plain.verdict.status is VerdictStatus.PASSED
    assert any("audited as if all lines were published" in line for line in plain.assumptions)
    sorted_by = {"name": "m", "sql": f"{by_region} ORDER BY m DESC LIMIT 1", "noise_stddev": 9.0}
    assert audit(tmp_path, sorted_by).verdict.status is VerdictStatus.NOT_SHOWN
    accepted = audit(tmp_path, sorted_by, limits={"accept": ["noise_first"]})
    assert accepted.verdict.status is VerdictStatus.PASSED


def test_values_outside_the_bounds_do_not_matter_to_a_query_that_clips(tmp_path: Path) -> None:
    table = TABLE + "p99,a,5000\n"
    release = {"name": "s", "sql": "SELECT SUM(LEAST(GREATEST(x, 0), 10)) FROM data", "noise_stddev": 30.0}
    assert audit(tmp_path, release, table=table).verdict.status is VerdictStatus.PASSED
    raw = {**release, "sql": "SELECT SUM(x) FROM data"}
    assert audit(tmp_path, raw, table=table).verdict.status is VerdictStatus.NOT_SHOWN


# --------------------------------------------------------------- counts of several categories


def category_findings(membership: Membership, noise: list[float], k: int) -> Findings:
    data = {"source": "t.csv", "record": "id", "secret": "x", "categories": list("ABCDE"[:k])}
    plan = plan_of(*({"name": f"r{p}", "noise_stddev": s} for p, s in enumerate(noise)), data=data)
    return find(plan, membership)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_counts_of_several_categories_against_enumeration(seed: int) -> None:
    """Three records, four or five categories: every table enumerated, noise drawn."""
    draw = np.random.default_rng(seed)
    k = 4 + seed % 2
    names = "ABCDE"[:k]
    lists = [("A", "B"), ("B", "C"), tuple(names[-2:]), "A"]
    groups: list[list[str | None]] = [["", "", ""], ["", "", None], ["", None, None], ["", "", ""]]
    above = draw.integers(2, size=4) > 0
    parts = [count(p, Feature.INDICATOR, lists[p], above=bool(above[p])) for p in range(4)]
    noise = draw.uniform(0.3, 1.2, 4)
    findings = category_findings(membership_of(parts, groups), noise.tolist(), k)
    tables = np.array(list(itertools.product(range(k), repeat=3)))
    counted = np.stack(
        [
            sum(
                ((np.isin(tables[:, row], [names.index(c) for c in lists[p]])) == above[p])
                for row in range(3)
                if groups[p][row] is not None
            )
            for p in range(4)
        ]
    ).astype(float)
    truth = draw.integers(len(tables), size=20_000)
    answers = counted[:, truth] + draw.normal(size=(4, truth.size)) * noise[:, None]
    logs = -(((answers[:, :, None] - counted[:, None]) / noise[:, None, None]) ** 2).sum(axis=0) / 2
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    linear = findings.linear.linear
    v = (1 / k) * (1 - 1 / k)
    rows = [[None if g is None else 0 for g in line] for line in groups]
    for column in range(len(findings.linear.lower)):
        signature = linear.membership.signatures[linear.signatures_of(column)[0]]
        record = next(
            row for row in range(3)
            if all((rows[p][row] is None) == (signature[p] < 0) for p in range(4))
        )  # fmt: skip
        own = tables[:, record] == names.index(linear.category(column) or "")
        errors = (posterior @ own - own[truth]) ** 2 / v
        spread = 4 * errors.std() / np.sqrt(truth.size)
        assert findings.linear.lower[column] <= errors.mean() + spread
        assert errors.mean() - spread <= findings.linear.upper[column]


def test_overlapping_lists_are_two_releases_and_disjoint_ones_a_histogram() -> None:
    disjoint = membership_of(
        [count(0, Feature.INDICATOR, ("A", "B")), count(0, Feature.INDICATOR, ("C", "D"))], [["", ""]] * 2
    )
    overlapping = membership_of(
        [count(0, Feature.INDICATOR, ("A", "B")), count(0, Feature.INDICATOR, ("B", "C"))], [["", ""]] * 2
    )
    one, two = (category_findings(m, [1.0], 5).pricing for m in (disjoint, overlapping))
    assert [len(bundle) for bundle in one.bundles] == [2]
    assert one.sensitivity.tolist() == pytest.approx([np.sqrt(2)] * 2)
    assert [len(bundle) for bundle in two.bundles] == [1, 1]
    assert two.sensitivity.tolist() == [1.0, 1.0]


def test_a_list_of_categories_of_one_person_does_not_pass(tmp_path: Path) -> None:
    table = "id,x\n" + "".join(f"p{i},{'ABCD'[i % 4]}\n" for i in range(16))
    sql = "SELECT COUNT(*) FILTER (WHERE x IN ('A', 'B')) FROM data WHERE id = 'p3'"
    data = {"categories": list("ABCD"), "bounds": None}
    result = audit(tmp_path, {"name": "one", "sql": sql, "noise_stddev": 0.2}, table=table, data=data)
    assert result.verdict.passed is False
    # All 40 are of the list: told, whatever the noise on one of them.
    same = "id,x\n" + "".join(f"p{i},{'AB'[i % 2]}\n" for i in range(40))
    everyone = {"name": "all", "sql": "SELECT COUNT(*) FILTER (WHERE x IN ('A', 'B')) FROM data"}
    limits = {"remaining_uncertainty": 0.98}  # the noise alone keeps 97.3 %
    told = audit(tmp_path, {**everyone, "noise_stddev": 3.0}, table=same, data=data, limits=limits)
    assert told.homogeneous
    assert told.homogeneous[0].rows == 40
    assert told.verdict.status is VerdictStatus.NOT_SHOWN


# --------------------------------------------------------------- other laws of noise


def test_an_exact_count_tells_the_answer_and_leaves_the_rest_of_the_number(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FILTER (WHERE x > 5) FROM data WHERE id = 'p3'"
    limits = {"remaining_uncertainty": 0.1, "accept": ["local", "homogeneous"]}
    result = audit(tmp_path, {"name": "one", "sql": sql, "noise": {"law": "none"}}, limits=limits)
    assert result.verdict.status is VerdictStatus.FAILED
    kept = result.questions[0].least_remaining_uncertainty
    assert kept is not None
    assert kept.lower == 0
    assert "at least 17 % of the most exposed record's uncertainty" in result.verdict.text


def test_the_answer_behind_laplace_noise(tmp_path: Path) -> None:
    """One answer with Laplace noise of scale b: the risk of a coin in closed form, and the bound below it."""
    sql = "SELECT COUNT(*) FILTER (WHERE x > 5) FROM data WHERE id = 'p3'"
    noise = {"law": "laplace", "stddev": 0.5 * np.sqrt(2)}
    square = {"name": "square", "sql": "SELECT SUM(x * x) FROM data", "noise_stddev": 1e4}
    result = audit(tmp_path, {"name": "one", "sql": sql, "noise": noise}, square)
    kept = result.questions[0].least_remaining_uncertainty
    assert kept is not None
    d = 1 / 0.5
    truth = np.exp(-d / 2) * (1 / np.cosh(d / 2) + 2 * np.arctan(np.tanh(d / 4)))
    assert coin_risk(d**2) * 0.98 <= kept.lower <= truth <= kept.upper


def test_noise_of_whole_numbers_is_for_counts_without_weights(tmp_path: Path) -> None:
    table = "id,cost,x\n" + "".join(f"p{i},{1 + i % 4}.5,{'true' if i % 3 else 'false'}\n" for i in range(12))
    data = {"bounds": None, "kind": "boolean"}
    noise = {"law": "geometric", "stddev": 5.0}
    count_of = {"name": "ill", "sql": "SELECT COUNT(*) FILTER (WHERE x) FROM data", "noise": noise}
    assert audit(tmp_path, count_of, table=table, data=data).verdict.passed is True
    weighted = {**count_of, "sql": "SELECT SUM(cost) FILTER (WHERE x) FROM data"}
    with pytest.raises(InvalidPlan, match="noise on counts and on sums of whole numbers"):
        audit(tmp_path, weighted, table=table, data=data)
