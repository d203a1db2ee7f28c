"""A copy of the secret under another name is found, and what is only related to it is not."""

from __future__ import annotations

import json
from itertools import permutations
from math import exp, log
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy.stats import spearmanr

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.errors import InvalidPlan
from sightline.report.first_screen import first_screen
from sightline.tables.engines.open import open_source
from sightline.tables.occurring import (
    DerivedColumn,
    copies,
    decides,
    is_ranges,
    public_columns,
    rank_correlation,
)
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject

INCOME = Subject(record="id", secret="income", kind=SecretKind.NUMBER, bounds=(0, 1e6))
ILL = Subject(record="id", secret="ill", kind=SecretKind.BOOLEAN)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Eighty people: copies of the income and of the illness, and columns that are only related to them."""
    random = np.random.default_rng(5)
    income = np.round(np.exp(random.normal(10, 0.8, 80)), 2)
    age = np.clip(20 + 4 * np.log(income) + random.normal(0, 9, 80), 18, 90).astype(int)
    ill = random.random(80) < 0.3
    lines = ["id,income,tax,ln_income,bin,rich,quantity,price,age,region,zero,ill,code,drug,twice"]
    for i, (x, a, yes) in enumerate(zip(income.tolist(), age.tolist(), ill.tolist(), strict=True)):
        bracket = "low" if x < 15_000 else "middle" if x < 40_000 else "high"
        quantity = 1 + i % 7
        drug = yes and i % 4 > 0
        lines.append(
            f"p{i},{x},{0.2 * x:.1f},{np.log(x):.6f},{bracket},{x > 30000},{quantity},{x / quantity:.6f},"
            f"{a},{'nsew'[i % 4]},{i % 2},{yes},{'C9' if yes else 'A1'},{drug},{yes if i % 8 else not yes}"
        )
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def found(source: Path, sql: str, subject: Subject = INCOME) -> tuple[DerivedColumn, ...]:
    engine = open_source(str(source), base=source.parent)
    try:
        query = read_release(sql, name="r", subject=subject, schema=Schema.of(engine))
        return public_columns(engine, [query], subject, rows=80)[0]
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("sql", "figure"),
    [
        ("SELECT SUM(income), SUM(tax) FROM data", "tax: rank correlation 1.000 with the secret"),
        ("SELECT region, AVG(income) FROM data WHERE ln_income > 10 GROUP BY region", "ln_income: rank corr"),
        ("SELECT bin, AVG(income) FROM data GROUP BY bin", "bin: each of its values is a range"),
        ("SELECT SUM(income) FROM data WHERE rich", "rich: each of its values is a range of the secret"),
        ("SELECT SUM(income), SUM(quantity * price) FROM data", "quantity * price: rank correlation 1.000"),
        ("SELECT COUNT(DISTINCT tax), SUM(income) FROM data", "tax: rank correlation"),
        ("SELECT region, SUM(income) FROM data GROUP BY region HAVING MIN(tax) > 1", "tax: rank correlation"),
        ("SELECT FLOOR(tax / 1000) AS k, AVG(income) FROM data GROUP BY k", "tax: rank correlation"),
    ],
)  # fmt: skip
def test_functions_of_a_number(sql: str, figure: str, source: Path) -> None:
    assert any(str(one).replace('"', "").startswith(figure) for one in found(source, sql))


@pytest.mark.parametrize(
    ("column", "figure"),
    [("code", "the secret decides on it"), ("drug", "it decides on the secret"), ("twice", None)],
)
def test_copies_of_a_yes_or_no(column: str, figure: str | None, source: Path) -> None:
    """Whoever gets the drug is ill, and not all who are ill get it: it decides for those who get it alone."""
    sql = f"SELECT {column}, COUNT(*) FILTER (WHERE ill) FROM data GROUP BY {column}"
    figures = [one.figure for one in found(source, sql, ILL)]
    assert figures == ([figure] if figure == "the secret decides on it" else [])


def test_what_is_only_related_is_no_alarm(source: Path) -> None:
    sql = "SELECT region, zero, FLOOR(age / 10), AVG(income), SUM(quantity), AVG(age) FROM data GROUP BY ALL"
    assert found(source, sql) == ()
    assert found(source, "SELECT id, SUM(income) FROM data WHERE id <> 'p3' GROUP BY id") == ()


def test_a_class_of_one_number_is_no_range() -> None:
    """In the shipped census, incomes of children are all 0; their age group is no bracket of incomes."""
    income = np.concatenate([np.zeros(40), np.linspace(1, 9, 60)])
    assert is_ranges(income, np.repeat([0, 1], [40, 60])) == 0
    assert is_ranges(income[40:], np.repeat([0, 1], [30, 30])) < log(1e-6)


def test_the_rank_correlation_is_spearmans() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        one, other = random.integers(0, 9, (2, 30)).astype(float)
        assert rank_correlation(one, other) == pytest.approx(spearmanr(one, other).statistic, abs=1e-8)


def test_chances_are_those_of_all_orders() -> None:
    """Of all orders of seven values in classes of 3, 2 and 2, those with every class in one piece."""
    classes = (0, 0, 0, 1, 1, 2, 2)
    values = np.arange(7.0)

    def whole(order: tuple[int, ...]) -> bool:
        ends = [(values[np.array(order) == c].min(), values[np.array(order) == c].max()) for c in range(3)]
        return all(high < low for (_, high), (low, _) in zip(sorted(ends), sorted(ends)[1:], strict=False))

    orders = list(permutations(classes))
    chance = exp(is_ranges(values, np.array(classes)))
    assert sum(map(whole, orders)) / len(orders) == pytest.approx(chance)


@pytest.mark.parametrize("classes", [(0, 0, 0, 1, 1, 2, 2), (0, 1, 1, 1, 1, 1, 1), (0, 0, 1, 1, 2, 2)])
def test_chances_of_a_copy_are_those_of_all_orders(classes: tuple[int, ...]) -> None:
    """Shuffled, how often one column's values stand for the other's one to one."""
    record = np.arange(len(classes))
    orders = list(permutations(classes))
    same = [len(set(zip(order, classes, strict=True))) == len(set(classes)) for order in orders]
    assert exp(copies(np.array(classes), np.array(classes), record)) == pytest.approx(sum(same) / len(orders))
    in_order = sum(order == classes for order in orders) / len(orders)
    chance = copies(np.array(classes), np.array(classes), record, in_order=True)
    assert exp(chance) == pytest.approx(in_order)
    assert copies(np.array(classes), np.arange(len(classes)), record) == 0
    assert copies(np.array(classes), np.array(classes), record * 0) == 0, "one record says nothing"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("yes", "rows", "expected"),
    [(7, 16, "derived"), (6, 17, "derived"), (4, 12, "derived"), (1, 16, "said"), (3, 6, "said")],
)
def test_copies_of_a_yes_or_no_in_few_rows(yes: int, rows: int, expected: str, tmp_path: Path) -> None:
    """A copy is found if fewer than one shuffled column in a hundred is one; else the pass names it."""
    lines = [f"p{i},{i < yes},{2 * (i < yes)},{'ab'[i % 2]}" for i in range(rows)]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["id,ill,code,area", *lines]) + "\n")

    def audited(sql: str, **data: object) -> sl.AuditResult:
        plan = {
            "data": {"source": str(path), "record": "id", "secret": "ill", "kind": "boolean", **data},
            "release": [{"name": "r", "sql": sql, "noise_stddev": 50}],
            "limits": {"remaining_uncertainty": 0.5},
        }
        return sl.audit(plan, full=True)

    sql = "SELECT code, COUNT(*) FILTER (WHERE ill) FROM data GROUP BY code"
    result = audited(sql)
    assert [one.name.value for one in result.unverified] == (["derived"] if expected == "derived" else [])
    assert result.taken_as_public == ("code",)
    if expected == "said":
        assert result.verdict.passed
        assert "Taken as public, since the plan does not say ([data] public): code." in screen(result)
        assert "code: each of its values stands for one of the secret." in screen(result)
        assert "stands for" not in result.publishable().to_json()
        assert json.loads(result.publishable().to_json())["taken_as_public"] == ["code"]
        assert audited(sql, public=["code"]).looks_odd == (), "the owner says that it is public"
    elif (yes, rows) == (4, 12):
        plain = audited(sql.replace("code", "area"), public=["area", "code"])
        assert plain.verdict.passed
        assert plain.taken_as_public == ()
        assert "Taken as public" not in screen(plain)


def screen(result: sl.AuditResult) -> str:
    return " ".join(" ".join(line.plain for line in first_screen(result, 200)).split())


def test_independent_columns_are_no_alarm() -> None:
    """Two thousand tables of all shapes, in which nothing depends on the secret."""
    random = np.random.default_rng(11)
    alarms = copied = 0
    for _ in range(2000):
        n = int(random.integers(8, 60))
        secret = random.integers(0, int(random.choice([2, 3, 10, 10**6])), n)
        column = random.integers(0, int(random.choice([2, 3, 10, 10**6])), n)
        record = np.arange(n)
        codes = [np.unique(one, return_inverse=True)[1] for one in (secret, column)]
        if min(one.max() for one in codes) == 0:
            continue
        alarms += abs(rank_correlation(secret.astype(float), column.astype(float))) >= 0.98
        chances = [is_ranges(secret.astype(float), codes[1])]
        chances += [decides(codes[0], codes[1], record), decides(codes[1], codes[0], record)]
        alarms += min(chances) < log(1e-3 / 3)
        copied += copies(codes[0], codes[1], record) < log(1e-2)
    assert alarms <= 5
    assert copied <= 20


@pytest.mark.slow
def test_the_audit_says_so_and_the_plan_may_accept_it(source: Path) -> None:
    def result(sql: str, *accept: str, **data: object) -> sl.AuditResult:
        plan = {
            "data": {"source": str(source), "record": "id", "secret": "income", "bounds": [0, 1e6], **data},
            "privacy": {"epsilon": 0.5, "delta": 1e-6},
            "release": [{"name": "r", "sql": sql}],
            "limits": {"remaining_uncertainty": 0.5, "accept": list(accept)},
        }
        return sl.audit(plan)

    sql = "SELECT SUM(income), SUM(tax) FROM data"
    tells = result(sql, public=["tax"])
    assert tells.verdict.status is VerdictStatus.NOT_SHOWN
    assert [one.name.value for one in tells.unverified] == ["derived"]
    assert "tax: rank correlation 1.000 with the secret" in tells.verdict.text
    assert tells.publishable().verdict.passed is False
    assert result(sql, "derived", public=["tax"]).verdict.status is VerdictStatus.PASSED
    plain = "SELECT region, SUM(income) FROM data GROUP BY region"
    assert result(plain, public=["Region"]).verdict.status is VerdictStatus.PASSED
    with pytest.raises(InvalidPlan, match='columns that \\[data\\] public lists, got "tax"'):
        result(sql, public=["region"])
    with duckdb.connect() as connection:  # the exact sum of taxes is the sum of incomes to within a rounding
        total = connection.execute(f"SELECT SUM(tax) / 0.2, SUM(income) FROM '{source}'").fetchone()
    assert total is not None
    assert total[0] == pytest.approx(total[1], rel=1e-4)
