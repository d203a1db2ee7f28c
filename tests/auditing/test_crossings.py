"""Slices of the two hunts that cross all features, and what they notice if a result is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus
from tests.auditing import fuzz_crossings
from tests.auditing.crossing_truth import Truth, gaussian_epsilon
from tests.auditing.crossings import Asked, Crossing, Engine, drawn, effects


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_what_is_said_of_crossed_plans_is_true(seed: int) -> None:
    counted = fuzz_crossings.fuzz(1_000 + seed, 1e9, most=3)
    assert counted["cases"] == 3 * fuzz_crossings.PLANS
    assert counted["brackets"] > 5


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_what_is_said_of_more_crossed_plans_is_true(seed: int) -> None:
    assert fuzz_crossings.fuzz(2_000 + seed, 1e9, most=10)["cases"] == 10 * fuzz_crossings.PLANS


def two_records(sql: str, stddev: float = 5.0) -> Crossing:
    """Two people in one sum; with the total of one of them it tells the other."""
    plan = {
        "data": {"record": "who", "secret": "x", "bounds": [0, 10]},
        "attacker": {"prior": "uniform"},
        "release": [{"name": "r0", "sql": sql, "noise_stddev": stddev}],
        "limits": {"remaining_uncertainty": 0.999, "accept": ["few_values", "homogeneous"]},
    }
    columns: dict[str, list[Any]] = {"who": ["A", "B"], "x": [1.0, 9.0], "g": ["u", "v"]}
    asked = (Asked(sql=sql, keys=int("GROUP" in sql), stddev=stddev),)
    return Crossing(plan=plan, columns=columns, kind="number", asked=asked, known=(False, False))


class TestTheTruth:
    def truth(self, crossing: Crossing) -> Truth:
        _, start, added = effects(crossing, Engine())
        count = len(start)
        return Truth(
            crossing=crossing,
            start=start,
            added=added,
            laws=["gaussian"] * count,
            scales=np.full(count, crossing.asked[0].stddev),
            copies=np.ones(count, dtype=int),
        )

    def test_of_one_sum_of_two(self) -> None:
        truth = self.truth(two_records("SELECT SUM(x) AS n FROM data"))
        assert not truth.identifiable("A")
        linear = 1 - (100 / 12) / (2 * 100 / 12 + 25)
        assert truth.best_linear("A") == pytest.approx(linear, rel=1e-12)
        (exact,) = (truth.risks(truth.features("A"), np.random.default_rng(0)) or {}).values()
        # By quadrature on a fine grid of both values and the answer.
        values = (np.arange(400) + 0.5) / 40
        sums = values[:, None] + values
        answers = np.linspace(-45, 65, 1_101)
        evidence = np.array([np.exp(-((y - sums) ** 2) / 50).sum(axis=1) for y in answers])
        means = evidence @ values / evidence.sum(axis=1)
        total = evidence.sum(axis=1) / evidence.sum()
        risk = values @ values / 400 - total @ means**2
        assert exact.value == pytest.approx(risk / (100 / 12), rel=1e-5)
        assert truth.epsilon(1e-6) == pytest.approx(gaussian_epsilon(2.0, 1e-6), rel=1e-9)

    def test_of_two_groups(self) -> None:
        truth = self.truth(two_records("SELECT g, SUM(x) AS n FROM data GROUP BY g"))
        assert truth.identifiable("A")
        assert truth.best_linear("B") == pytest.approx(25 / (25 + 100 / 12), rel=1e-12)


class TestItNotices:
    """Results that are changed on purpose."""

    def changed(self, monkeypatch: pytest.MonkeyPatch, **fields: object) -> Crossing:
        crossing, audit = two_records("SELECT g, SUM(x) AS n FROM data GROUP BY g"), sl.audit
        monkeypatch.setattr(
            sl, "audit", lambda *a, **k: audit(*a, **{**k, "full": True}).model_copy(update=fields)
        )
        return crossing

    def check(self, crossing: Crossing) -> None:
        fuzz_crossings.check_crossing(crossing, np.random.default_rng(0), Counter())

    def test_nothing_if_nothing_is_wrong(self) -> None:
        self.check(two_records("SELECT g, SUM(x) AS n FROM data GROUP BY g"))

    def test_a_wrong_decision(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(AssertionError, match="identifiable: 0, by rank 2"):
            self.check(self.changed(monkeypatch, identifiable_records=0))

    def test_a_false_pass(self, monkeypatch: pytest.MonkeyPatch) -> None:
        verdict = sl.audit(two_records("SELECT SUM(x) AS n FROM data").complete()).verdict
        passed = {"passed": True, "status": VerdictStatus.PASSED, "below_limit": 0}
        crossing = self.changed(monkeypatch, verdict=verdict.model_copy(update=passed))
        with pytest.raises(AssertionError, match=r"passed 0.999, "):
            self.check(crossing)

    def test_a_guarantee_that_is_too_good(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(AssertionError, match=r"guaranteed 0\.9, "):
            self.check(self.changed(monkeypatch, guaranteed_by_noise=0.9))

    def test_an_epsilon_that_is_too_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        crossing = two_records("SELECT g, SUM(x) AS n FROM data GROUP BY g")
        budget = sl.audit(crossing.complete()).budget
        smaller = budget.model_copy(update={"spent": {"zcdp": 1.0}})
        with pytest.raises(AssertionError, match=r"zcdp says 1.0, the noise has"):
            self.check(self.changed(monkeypatch, budget=smaller))

    @pytest.mark.parametrize(("factor", "end"), [(1.05, "lower end"), (0.7, "upper end")])
    def test_a_wrong_end(self, factor: float, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
        found = sl.audit(two_records("SELECT g, SUM(x) AS n FROM data GROUP BY g").complete(), names=True)
        exposed = []
        for one in found.exposed:
            bracket = one.remaining_uncertainty
            assert bracket is not None
            name, value = end.split()[0], getattr(bracket, end.split()[0])
            changed = bracket.model_copy(update={name: factor * value})
            exposed.append(one.model_copy(update={"remaining_uncertainty": changed}))
        with pytest.raises(AssertionError, match=end):
            self.check(self.changed(monkeypatch, exposed=tuple(exposed)))


def test_all_who_are_left_are_known() -> None:
    """Found by the hunt: persons with one value, of whom the unknown one has none."""
    sql = "SELECT who, SUM(x) AS n FROM data GROUP BY who"
    crossing = two_records(sql)
    data = {**crossing.plan["data"], "values": "constant", "max_rows_per_record": 2}
    plan = {**crossing.plan, "data": data, "attacker": {"knows": ["g = 'v'"]}}
    columns: dict[str, list[Any]] = {"who": ["A", "B", "B"], "x": [None, 9.0, 9.0], "g": ["u", "v", "v"]}
    changed = replace(crossing, plan=plan, columns=columns, known=(False, True, True))
    result = sl.audit(changed.complete())
    assert result.identifiable_records == 0
    assert result.verdict.status is VerdictStatus.NOT_SHOWN


@pytest.mark.parametrize("laws", [("gaussian", "laplace"), ("laplace", "gaussian")], ids="-".join)
def test_the_upper_end_of_several_rows_under_mixed_laws_is_the_best_linear_attack(
    laws: tuple[str, str],
) -> None:
    sqls = ("SELECT g, SUM(x) AS n FROM data GROUP BY g", "SELECT SUM(x) AS n FROM data")
    noises = (2.0, 5.0)
    asked = tuple(
        Asked(sql=sql, keys=int("GROUP" in sql), law=law, stddev=noise)
        for sql, law, noise in zip(sqls, laws, noises, strict=True)
    )
    releases = [
        {"name": f"r{place}", "sql": one.sql, "noise": {"law": one.law, "stddev": one.stddev}}
        for place, one in enumerate(asked)
    ]
    base = two_records(sqls[0])
    data = {**base.plan["data"], "values": "independent", "max_rows_per_record": 3}
    columns: dict[str, list[Any]] = {"who": list("AAABB"), "x": [1.0, 2.0, 7.0, 3.0, 9.0], "g": list("uvvuv")}
    crossing = replace(
        base,
        plan={**base.plan, "data": data, "release": releases},
        columns=columns,
        asked=asked,
        known=(False,) * 5,
    )
    count: Counter[str] = Counter()
    fuzz_crossings.check_crossing(crossing, np.random.default_rng(0), count)
    assert count["brackets"] == 2


def test_a_case_is_the_same_each_time() -> None:
    one, other = (drawn(Random(5)) for _ in range(2))
    assert one.plan == other.plan
    assert one.columns == other.columns
