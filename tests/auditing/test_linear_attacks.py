"""The folded linear attack against plain linear algebra: what its numbers carry, and whom it is seen with."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sightline as sl
from sightline.auditing import recipes
from sightline.auditing.exposed import about_person, about_signatures, exposed_section
from sightline.auditing.findings import Findings, find
from sightline.auditing.result import Exposed
from sightline.tables.membership import Statistic
from tests.auditing.hand_made import membership_of, partition, plan_of

# Six rows: two join together, a mean of the rest, two groupings, and a sum.
GROUPS = [
    ["", "", "", "", None, None],
    ["", "", "", "", "", ""],
    ["a", "a", "b", "b", "a", "b"],
    ["x", "y", "x", "y", "y", "y"],
]
NOISE = (0.05, 0.08, 0.3, 0.5)
VARIANCE = 100 / 12


def examined(**changes: object) -> Findings:
    releases = [{"name": f"r{i}", "noise_stddev": noise} for i, noise in enumerate(NOISE)]
    parts = [partition(i, f"r{i}") for i in range(3)]
    parts.append(partition(3, "r3", statistic=Statistic.SUM))
    plan = plan_of(*releases, limits={"remaining_uncertainty": 0.9}, **changes)
    return find(plan, membership_of(parts, GROUPS))


def naive() -> tuple[np.ndarray, np.ndarray, list[tuple[str, str]]]:
    """The published numbers as rows over the six values, their noise, and their names."""
    rows, noises, names = [], [], []
    for place, (line, noise) in enumerate(zip(GROUPS, NOISE, strict=True)):
        for group in sorted({one for one in line if one is not None}):
            member = np.array([one == group for one in line], dtype=float)
            rows.append(member if place == 3 else member / member.sum())
            noises.append(noise)
            names.append((f"r{place}", group))
    return np.array(rows), np.array(noises), names


def risk(target: np.ndarray, chosen: list[int]) -> float:
    """The risk of the best linear attack on some numbers, as a share of the prior variance."""
    rows, noises, _ = naive()
    A, noise = rows[chosen], np.diag(noises[chosen] ** 2)
    prior = VARIANCE * np.eye(6)
    gain = prior @ A.T @ np.linalg.inv(A @ prior @ A.T + noise)
    left = prior - gain @ A @ prior
    return float(target @ left @ target / (VARIANCE * target @ target))


def entries(findings: Findings) -> tuple[Exposed, ...]:
    return exposed_section(findings, top=20).exposed


def test_the_steps_carry_what_they_are_said_to_carry() -> None:
    _, _, names = naive()
    seen = entries(examined())
    assert len(seen) == 6
    for one in seen:
        attack = one.attack
        assert attack is not None
        steps = [names.index((step.release, step.cell)) for step in attack.steps]
        assert len(set(steps)) == len(steps) <= 6
        target = np.eye(6)[_row_of(one)]
        few, every = risk(target, steps), risk(target, list(range(len(names))))
        assert attack.share == pytest.approx((1 / few - 1) / (1 / every - 1), rel=1e-6)
        assert attack.share >= 0.99 or len(steps) == 6
        assert attack.numbers == len(names)


def test_the_few_carry_nine_tenths() -> None:
    _, _, names = naive()
    for one in entries(examined()):
        attack = one.attack
        assert attack is not None
        few = [names.index((step.release, step.cell)) for step in attack.few]
        target = np.eye(6)[_row_of(one)]
        every = 1 / risk(target, list(range(len(names)))) - 1
        assert attack.few_share >= 0.9
        assert len(few) == min(attack.few_numbers, 4)
        if len(few) == attack.few_numbers:
            assert attack.few_share == pytest.approx((1 / risk(target, few) - 1) / every, rel=1e-6)
        assert attack.few_numbers <= len(attack.steps)


def _row_of(one: Exposed) -> int:
    """The row with an entry's signature: signatures are sorted, and each has one row."""
    numbers = [
        {group: n for n, group in enumerate(sorted({g for g in line if g is not None}))} for line in GROUPS
    ]
    table = [tuple(numbers[p].get(line[row], -1) for p, line in enumerate(GROUPS)) for row in range(6)]
    return table.index(sorted(set(table))[one.signature])


def test_one_number_less_would_not_carry_enough() -> None:
    _, _, names = naive()
    for one in entries(examined()):
        assert one.attack is not None
        steps = [names.index((step.release, step.cell)) for step in one.attack.steps]
        target = np.eye(6)[_row_of(one)]
        every = 1 / risk(target, list(range(len(names)))) - 1
        for gone in steps:
            rest = [step for step in steps if step != gone]
            assert not rest or 1 / risk(target, rest) - 1 < 0.99 * every


def test_those_that_a_record_is_seen_with_are_known_together() -> None:
    _, _, names = naive()
    found = {_row_of(one): one for one in entries(examined())}
    for joined, other in ((4, 5), (5, 4)):  # they joined together: only their sum is in the difference
        attack = found[joined].attack
        assert attack is not None
        assert attack.together is not None
        assert attack.together.others == 1
        both = np.eye(6)[joined] + np.eye(6)[other]
        left = risk(both, list(range(len(names)))) * VARIANCE * 2
        assert attack.together.stddev == pytest.approx(np.sqrt(left), rel=1e-6)
        assert left / (2 * VARIANCE) < risk(np.eye(6)[joined], list(range(len(names))))


def test_the_total_of_a_person_with_several_rows() -> None:
    owners = ["a", "b", "c", "d", "e", "e"]
    parts = [partition(i, f"r{i}") for i in range(2)]
    plan = plan_of(
        {"name": "r0", "noise_stddev": 0.5},
        {"name": "r1", "noise_stddev": 0.5},
        data={
            "source": "t.csv",
            "record": "id",
            "secret": "x",
            "bounds": [0, 10],
            "max_rows_per_record": 2,
            "values": "independent",
        },
        limits={"remaining_uncertainty": 0.9},
    )
    findings = find(plan, membership_of(parts, GROUPS[:2], contributions=2, owners=owners))
    (one,) = about_person(findings, 4)
    assert one.attack is not None
    assert one.attack.target == "total"
    assert {step.release for step in one.attack.steps} == {"r0", "r1"}
    A = np.array([[0.25, 0.25, 0.25, 0.25, 0, 0], [1 / 6] * 6])
    target = np.array([0.0, 0, 0, 0, 1, 1])
    covariance = VARIANCE * A @ A.T + 0.25 * np.eye(2)
    weights = VARIANCE * np.linalg.solve(covariance, A @ target)
    by_name = {step.release: step.weight for step in one.attack.steps}
    assert [by_name["r0"], by_name["r1"]] == pytest.approx(weights.tolist(), rel=1e-9)


def test_a_design_with_many_numbers_uses_those_that_hold_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "MOST_FACTORISED", 5)
    findings = examined()
    (one,) = about_signatures(findings, [0])
    assert one.attack is not None
    assert one.attack.numbers == sum(group is not None for group in [line[_row_of(one)] for line in GROUPS])
    monkeypatch.setattr(recipes, "MOST_FACTORISED", 1)
    (one,) = about_signatures(findings, [0])
    assert one.attack is not None
    assert one.attack.numbers == 1  # the one that tells most by itself
    assert one.attack.share < 1


@pytest.mark.parametrize(
    ("item", "before", "undone"),
    [
        ("SUM(x)", "", lambda n: n),
        ("ROUND(SUM(x), 6)", "", lambda n: n),
        ("SUM(x) / 4", "/ 4", lambda n: 4 * n),
        ("ROUND(AVG(x) / 1000, 9)", "/ 1000", lambda n: 1000 * n),
        ("-2 * AVG(x)", "* -2", lambda n: n / -2),
        ("10 - SUM(x)", "10 -", lambda n: 10 - n),
        ("100.0 * SUM(x) / COUNT(*)", "* 100.0 / COUNT(*)", lambda n: n / 100),
        ("SUM(x) / COUNT(x)", "/ COUNT(x)", lambda n: n),
        ("SUM(x) / SUM(w)", "/ SUM(w)", lambda n: 3 * n),
    ],
)
def test_a_recipe_says_what_to_undo_first(item: str, before: str, undone: Callable[[float], float]) -> None:
    """The recipe is for the aggregate; what the release computes with it is undone before."""
    table = pa.table({"who": ["a", "b"], "g": ["u", "v"], "w": [3, 3], "x": [1.5, 7.25]})
    sql = f"SELECT g, {item} AS n FROM data GROUP BY g"
    plan = {
        "data": {"source": table, "record": "who", "secret": "x", "bounds": [0, 10], "public": ["g", "w"]},
        "release": [{"name": "by group", "sql": sql, "noise_stddev": 1.0}],
    }
    exposed = next(one for one in sl.audit(plan, names=True).exposed if one.record == "b")
    assert exposed.recipe is not None
    (step,) = exposed.recipe.steps
    assert step.before == before
    assert exposed.recipe.text.endswith(f'"by group: v"{f" (before {before})" if before else ""}')
    with duckdb.connect() as connection:
        connection.register("data", table)
        published = float(dict(connection.execute(sql).fetchall())["v"])
    assert step.weight * undone(published) + exposed.recipe.constant == pytest.approx(7.25)


EXACTLY = ["AVG(x)", "SUM(x) / COUNT(x)", "SUM(x) / 4", "2 * AVG(x)", "AVG(x / 3)"]
AT_MOST = [
    "SUM(x) / COUNT(*)",
    "SUM(x) / COUNT(1)",
    "SUM(x) / COUNT(w)",
    "SUM(w * x) / COUNT(*)",
    "SUM(w * x) / COUNT(x)",
]
AT_MOST += ["SUM(x) FILTER (WHERE g = 'u') / COUNT(x)", "SUM(x) / COUNT(*) FILTER (WHERE g = 'u')"]


@pytest.mark.parametrize("item", [*EXACTLY, *AT_MOST])
def test_noise_on_the_published_number_leaves_no_less_than_is_said(item: str) -> None:
    """Beside rows without a secret, or without a weight, against the raw SQL on tables that differ in one."""
    table = pa.table(
        {
            "who": list("abcde"),
            "x": [1.13, None, 3.31, 9.77, 4.4],
            "w": [1.0, 2.0, None, 3.0, 1.0],
            "g": list("uuuvv"),
        }
    )
    sql = f"SELECT {item} FROM data"

    def answer(values: list[float | None]) -> float:
        with duckdb.connect() as connection:
            connection.register("data", table.set_column(1, "x", pa.array(values, type=pa.float64())))
            return float(connection.execute(sql).fetchall()[0][0])

    values = table["x"].to_pylist()
    moved = [[*values[:row], values[row] + 1, *values[row + 1 :]] for row in (0, 2, 3, 4)]
    row = np.array([answer(one) - answer(values) for one in moved])
    best = 1 - VARIANCE * np.max(row**2) / (VARIANCE * row @ row + 1)  # noise of 1
    plan = {
        "data": {"source": table, "record": "who", "secret": "x", "bounds": [0, 10]},
        "release": [{"name": "one", "sql": sql, "noise_stddev": 1.0}],
    }
    left = sl.audit(plan).least_remaining_uncertainty
    assert left is not None
    if item in EXACTLY:
        assert left.upper == pytest.approx(best, rel=1e-9)
    assert left.lower <= left.upper <= best * (1 + 1e-9)
