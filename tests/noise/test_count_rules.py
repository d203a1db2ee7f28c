"""Rules for counts: the interval that a value tells is the set of counts that it may come from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sightline.errors import InvalidPlan
from sightline.noise.count_rules import CountRule, PerturbationTable, Rounding

KEYED = PerturbationTable.of({0: {0: 1.0}, 1: {-1: 0.5, 0: 0.2, 1: 0.3}, 2: {-1: 0.25, 0: 0.5, 1: 0.25}}, "t")
RULES = [
    CountRule(),
    *(
        CountRule(to=base, how=how, below=below)
        for base in (2, 3, 5, 10)
        for how in Rounding
        for below in (0, 4)
    ),
    CountRule(table=KEYED),
    CountRule(table=KEYED, below=3),
]
COUNTS = 60


@pytest.mark.parametrize("rule", RULES, ids=str)
class TestEveryRule:
    def test_chances_add_up_to_one(self, rule: CountRule) -> None:
        for count in range(COUNTS):
            assert math.fsum(rule.line(count).values()) == pytest.approx(1.0)

    def test_a_value_tells_the_counts_that_it_may_come_from(self, rule: CountRule) -> None:
        behind: dict[int, list[int]] = {}
        for count in range(COUNTS + 20):
            for value in rule.line(count):
                behind.setdefault(value, []).append(count)
        for value, counts in behind.items():
            if max(counts) >= COUNTS:
                continue
            low, high = rule.known_of_values(np.array([math.nan if value < 0 else float(value)]))
            assert (low[0], high[0]) == (min(counts), max(counts))

    def test_no_draw_tells_more_than_what_is_known_at_most(self, rule: CountRule) -> None:
        counts, rng = np.arange(COUNTS, dtype=np.float64), np.random.default_rng(0)
        low, high = rule.known_of_counts(counts)
        assert np.all((low <= counts) & (counts <= high))
        for _ in range(20):
            values = rule.published(counts, rng.random(COUNTS))
            seen = rule.known_of_values(values)
            assert np.all((seen[0] <= low) & (high <= seen[1]))
            assert all(
                (-1 if math.isnan(value) else int(value)) in rule.line(count)
                for count, value in enumerate(values)
            )

    def test_what_one_number_leaves_is_that_of_its_table(self, rule: CountRule) -> None:
        least, least_affinity = 1.0, 1.0
        for count in range(COUNTS):
            first, second = rule.line(count), rule.line(count + 1)
            values = set(first) | set(second)
            p, q = (np.array([line.get(value, 0.0) for value in values]) for line in (first, second))
            posterior = q / (p + q)  # even chances
            variance = float(((p + q) / 2) @ (posterior * (1 - posterior)))
            least = min(least, variance / 0.25)
            least_affinity = min(least_affinity, float(np.sqrt(p) @ np.sqrt(q)))
        assert rule.kept_alone(COUNTS) == pytest.approx(least)
        assert rule.affinity(COUNTS) == pytest.approx(least_affinity)
        assert least_affinity**2 <= least + 1e-12


@pytest.mark.parametrize("base", [3, 5])
def test_random_rounding_keeps_the_mean(base: int) -> None:
    rule = CountRule(to=base, how=Rounding.RANDOM)
    for count in range(20):
        assert math.fsum(value * chance for value, chance in rule.line(count).items()) == pytest.approx(count)
    draws = np.random.default_rng(1).random(40_000)
    assert rule.published(np.full(draws.size, 7.0), draws).mean() == pytest.approx(7.0, abs=0.05)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "a line for every count from 0 on"),
        ({0: {0: 1.0}, 2: {0: 1.0}}, "a line for every count from 0 on"),
        ({0: {0: 0.9}}, "add up to 1, got 0.9 for the count 0"),
        ({0: {-1: 0.5, 1: 0.5}}, "published counts from 0 on, got a change of -1 for the count 0"),
    ],
)
def test_a_wrong_table_is_refused(entries: dict[int, dict[int, float]], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        PerturbationTable.of(entries, "p-table 'p.csv'")
