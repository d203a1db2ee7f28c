"""Discrete noise on sums of whole numbers, on counts in bands, and on aggregates with labels."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow
import pytest

import sightline as sl
from sightline.auditing.findings import find
from sightline.auditing.result import AuditResult
from sightline.bounds.by_pairs import ByPairs, WholePrior, _whole_distances
from sightline.bounds.priors import UniformPrior
from sightline.errors import InvalidInput, InvalidPlan
from sightline.privacy.law import Law
from sightline.tables.membership import Occurring
from sightline.units.target import Seen
from tests.auditing.fuzz_noise_laws import DATA
from tests.auditing.hand_made import membership_of, plan_of
from tests.auditing.noise_laws.priced_plans import total

VALUES = range(4)  # 0 to 3
WORLDS = np.array(list(itertools.product(VALUES, repeat=3)))
ROWS = {
    "each and all": ((0,), (0, 1, 2)),
    "two pairs": ((0, 1), (1, 2)),
    "one sum": ((0, 1, 2),),
    "all but one": ((0, 1, 2), (0, 1)),
}


def _mass(law: str, size: float, steps: np.ndarray) -> np.ndarray:
    """The law of the noise, written down again."""
    weights = (
        np.exp(-(steps**2) / (2 * size**2)) if law == "discrete-gaussian" else np.exp(-np.abs(steps) / size)
    )
    return np.asarray(weights / weights.sum())


def _risks(rows: tuple[tuple[int, ...], ...], law: str, size: float) -> np.ndarray:
    """The risk of the posterior mean of every record over the prior variance: all worlds, all answers."""
    reach = math.ceil(12 * size) if law == "discrete-gaussian" else math.ceil(28 * size)
    answers = np.arange(-reach, 9 + reach + 1)
    steps = np.arange(answers[0] - 9, answers[-1] + 1)
    mass = dict(zip(steps.tolist(), _mass(law, size, steps), strict=True))
    likelihoods = []
    for members in rows:
        sums = WORLDS[:, members].sum(axis=1)
        likelihoods.append(np.array([[mass[int(y - s)] for y in answers] for s in sums]))
    joint = (
        likelihoods[0] if len(rows) == 1 else np.einsum("wa,wb->wab", *likelihoods).reshape(len(WORLDS), -1)
    )
    evidence = joint.sum(axis=0)
    seen = evidence > 0
    mean = (WORLDS.T @ joint)[:, seen] / evidence[seen]
    second = (WORLDS.T**2) @ joint[:, seen]
    variance = np.var(np.array(VALUES))
    return np.asarray(
        (second.sum(axis=1) - np.sum(mean**2 * evidence[seen], axis=1)) / len(WORLDS) / variance
    )


def _audited(releases: list[dict[str, Any]], **sections: Any) -> AuditResult:
    data = {
        "source": pyarrow.table({"who": list("abc"), "x": [0, 3, 1], "w": [1, 1, 2]}),
        "record": "who",
        "secret": "x",
        "bounds": [0, 3],
    }
    plan = {"data": {**data, **sections.pop("data", {})}, "release": releases, **sections}
    return sl.audit(plan, names=True)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize(
    ("law", "size"),
    [("discrete-gaussian", 1.5), ("discrete-gaussian", 4.0), ("geometric", 0.6), ("geometric", 2.0)],
)
def test_lower_ends_hold_against_every_world_and_answer(
    rows: tuple[tuple[int, ...], ...], law: str, size: float
) -> None:
    """Three records with values from 0 to 3, all as likely."""
    stddev = float(Law(law).facts.stddev(np.array([size]))[0])
    noise = {"law": law, "stddev": stddev}
    plan = plan_of(
        *({"name": str(i), "noise": noise} for i in range(len(rows))), data={**DATA, "bounds": [0, 3]}
    )
    groups = [["" if record in members else None for record in range(3)] for members in rows]
    membership = membership_of([total(i) for i in range(len(rows))], groups)
    found = find(plan, replace(membership, occurring=Occurring(whole=True))).linear
    assert found is not None
    risks = _risks(rows, law, size)
    for record in range(3):
        inside = [0 if record in members else -1 for members in rows]
        if max(inside) < 0:
            continue
        kind = int(np.flatnonzero((membership.signatures == inside).all(axis=1))[0])
        assert 0.01 < found.lower[kind] <= risks[record] * (1 + 1e-9)
        assert risks[record] <= found.upper[kind] * (1 + 1e-9)


def test_a_range_of_whole_numbers_is_no_interval() -> None:
    """Here more remains of an interval from 0 to 3 than of the whole numbers in it."""
    rows, size = ((0,), (0, 1, 2)), 2.0
    risk = float(_risks(rows, "discrete-gaussian", size)[0])
    information = np.array([2 / (size**2 - 1)])
    interval = UniformPrior(0.0, 3.0).lower(Seen(information=information, linear_information=information))
    assert risk < float(interval[0])


@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 700, 9000, 10**6])
def test_distances_in_bins_never_raise_the_bound(width: int) -> None:
    k = np.arange(1, width + 1, dtype=np.float64)
    weights = (width + 1 - k) * k**2
    prior = WholePrior(5.0, 5.0 + width)
    assert prior.variance == pytest.approx(((width + 1) ** 2 - 1) / 12)
    assert sum(_whole_distances(width)[0]) == pytest.approx(1.0)
    for scaled in (0.01, 1.0, 30.0, 1000.0):
        information = scaled / width**2
        exact = float(weights @ np.exp(-information * k**2 / 4) / weights.sum())
        seen = Seen(information=np.array([information]), linear_information=np.zeros(1))
        found = float(ByPairs.alone(prior, seen)[0])
        assert exact * (1 - 1e-3) <= found <= exact
        rows = prior.lower_of_rows(seen.information, unsigned=seen.information)
        assert prior.lower(seen)[0] == max(found, float(rows[0]))


def test_nats_leave_at_least_what_a_noisy_answer_leaves() -> None:
    """The number itself seen through an erasure: with chance e it is lost."""
    prior, lost = WholePrior(0.0, 99.0), 0.9
    nats = (1 - lost) * math.log(100)
    assert 0.25 < prior.lower_by_nats(np.array([nats]))[0] <= lost
    assert prior.lower_by_nats(np.array([10.0]))[0] == 0.0


def test_whole_bounds_are_required() -> None:
    with pytest.raises(InvalidInput, match="whole bounds"):
        WholePrior(0.0, 2.5)


DISCRETE = {"law": "discrete-gaussian", "stddev": 2.0}
GEOMETRIC = {"law": "geometric", "scale": 8.0}


def _release(sql: str, noise: object) -> list[dict[str, Any]]:
    return [{"name": "sum", "sql": sql, "noise": noise}]


def test_the_error_is_that_of_the_recipe() -> None:
    """Not of its stand-in: σ, not the root of σ² − 1."""
    result = _audited(_release("SELECT SUM(x) FROM data WHERE who = 'a'", DISCRETE))
    assert result.exposed[0].rmse == pytest.approx(2.0, rel=1e-12)
    assert result.exposed[0].recipe is not None
    assert result.exposed[0].recipe.rmse == pytest.approx(2.0, rel=1e-12)
    assert "has an error of 2 in x" in result.verdict.text
    assert "whole and spread evenly from 0 to 3" in result.verdict.text


@pytest.mark.parametrize(
    ("sql", "noise"),
    [
        ("SELECT SUM(x - 2) FROM data", {**DISCRETE, "stddev": 4.0}),
        ("SELECT SUM(CASE WHEN x < 0 THEN 0 WHEN x > 3 THEN 3 ELSE x END) FROM data", GEOMETRIC),
        ("SELECT COUNT(*) FILTER (WHERE x BETWEEN 1 AND 2) FROM data", DISCRETE),
        ("SELECT COUNT(*) FILTER (WHERE x > 1) FROM data", GEOMETRIC),
    ],
)
def test_what_libraries_publish_with_discrete_noise_passes(sql: str, noise: dict[str, Any]) -> None:
    result = _audited(_release(sql, noise), limits={"remaining_uncertainty": 0.5})
    assert result.verdict.passed, result.verdict.text


@pytest.mark.parametrize(
    ("sql", "noise", "sections", "says"),
    [
        ("SELECT AVG(x) FROM data", DISCRETE, {}, "on counts and on sums of whole numbers, got 'sum'"),
        ("SELECT SUM(w / 2 * x) FROM data", DISCRETE, {}, "on counts and on sums of whole numbers"),
        ("SELECT 2 * SUM(x) FROM data", DISCRETE, {}, r"write a multiple as SUM\(2 \* x\)"),
        ("SELECT SUM(x) / 2 FROM data", DISCRETE, {}, "on counts and on sums of whole numbers, got 'sum'"),
        (
            "SELECT SUM(x) FROM data",
            DISCRETE,
            {"data": {"bounds": [0, 3.5]}},
            r"whole bounds .* got \[0, 3.5\]",
        ),
        ("SELECT SUM(x) FROM data", DISCRETE, {"attacker": {"prior": "cos2"}}, "prior = 'uniform'"),
        ("SELECT SUM(x) FROM data", DISCRETE, {"attacker": {"values_within": 1.0}}, "no values_within"),
        (
            "SELECT SUM(x) FROM data",
            DISCRETE,
            {"data": {"source": pyarrow.table({"who": list("abc"), "x": [0.0, 3.0, 1.0000001]})}},
            "a secret of whole numbers .* got other numbers",
        ),
        ("SELECT SUM(x) AS s, COUNT(*) AS n FROM data", [{**DISCRETE, "label": "q"}], {}, "none for 's'"),
        (
            "SELECT SUM(x) AS s, COUNT(*) AS n FROM data",
            [{**DISCRETE, "label": "s"}, {"label": "m", "stddev": 1}],
            {},
            "got 'm'; there are: n, s",
        ),
        (
            "SELECT SUM(x) FROM data",
            {**DISCRETE, "sigma": 3.0},
            {},
            "'sigma'; there are: law, label, stddev, noise_m",
        ),
    ],
)
def test_what_is_refused(sql: str, noise: object, sections: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPlan, match=says):
        _audited(_release(sql, noise), **sections)


def test_a_label_on_the_only_aggregate_of_a_secret() -> None:
    """By its own name, also beside noise on a public count."""
    sql = "SELECT who, SUM(x) AS s, COUNT(*) AS n FROM data GROUP BY who"
    labelled = _audited(_release(sql, [{**DISCRETE, "label": "s"}, {"label": "n", "stddev": 1.0}]))
    plain = _audited(_release(sql, DISCRETE))
    assert labelled.least_remaining_uncertainty == plain.least_remaining_uncertainty
    alone = _audited(_release(sql.replace("who, ", "").partition(" GROUP")[0], [{**DISCRETE, "label": "s"}]))
    assert alone.least_remaining_uncertainty is not None


@pytest.mark.parametrize("values", [(0, 9), tuple(range(10))])
def test_few_of_the_whole_numbers_are_asked_for(values: tuple[int, ...]) -> None:
    """Two values nine apart are told apart where ten of them are not: the risk by all answers."""
    table = pyarrow.table({"id": list(range(40)), "x": [values[n % len(values)] for n in range(40)]})
    plan = {
        "data": {"source": table, "record": "id", "secret": "x", "bounds": [0, 9]},
        "release": [
            {
                "name": "each",
                "sql": "SELECT id, SUM(x) FROM data GROUP BY id",
                "noise": {"law": "discrete-gaussian", "stddev": 3.0},
            }
        ],
        "limits": {"remaining_uncertainty": 0.3},
    }
    answers, worlds = np.arange(-50, 60), np.array(values)
    joint = np.stack([np.exp(-((answers - x) ** 2) / 18) for x in worlds])
    mean = worlds @ joint / joint.sum(axis=0)
    risk = np.sum(joint * (worlds[:, None] - mean) ** 2) / joint.sum() / np.var(worlds)
    result = sl.audit(plan, verdict_only=True)
    assert result.verdict.passed is bool(risk >= 0.3)
    assert [one.name for one in result.unverified] == ([] if risk >= 0.3 else ["few_values"])
