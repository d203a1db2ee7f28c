"""Totals of persons with different numbers of rows: what a person may hold follows from their own number."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus

MOST = 60  # rows of the customer who has most; every amount is between 0 and 10


def _orders(rows: list[int], seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    customer = np.repeat(np.arange(len(rows)), rows)
    amount = rng.uniform(0, 10, customer.size).round(4)
    return pl.DataFrame({"customer": customer, "amount": amount, "region": ["r"] * customer.size})


def _plan(table: pl.DataFrame, made: str, noise: float, **data: object) -> dict[str, object]:
    return {
        "data": {
            "source": table,
            "record": "customer",
            "secret": "spent",
            "sql": made,
            "bounds": [0, 10 * MOST],
            **data,
        },
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": "all", "sql": "SELECT SUM(spent) FROM data", "noise_stddev": noise}],
    }


PLAIN = "SELECT customer, SUM(amount) AS spent FROM source GROUP BY customer"
NESTED = f"WITH totals AS ({PLAIN}) SELECT customer, spent FROM totals"
CLIPPED = "SELECT customer, LEAST(SUM(amount), 600) AS spent FROM source GROUP BY customer"


def _left_by_linear_attack(rows: list[int], noise: float) -> float:
    """What the best linear attack leaves of the first customer, each total spread over its own range."""
    variance = (10.0 * np.array(rows)) ** 2 / 12
    hidden = noise**2 + variance[1:].sum()
    return float(hidden / (variance[0] + hidden))


@pytest.mark.parametrize("made", [PLAIN, NESTED, CLIPPED])
def test_a_large_total_is_not_hidden_by_small_ones(made: str) -> None:
    """One customer with 60 orders beside 30 with one: claimed to keep most, and keeps next to nothing."""
    rows = [MOST] + [1] * 30
    assert _left_by_linear_attack(rows, noise=30.0) < 0.04
    result = sl.audit(_plan(_orders(rows), made, noise=30.0))
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower > 0.5  # if all are spread over 0 to 600
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    (told,) = (one for one in result.unverified if one.name.value == "unequal")
    assert told.count == 1
    assert told.owner_only


def test_totals_of_as_many_rows_each_hide_each_other() -> None:
    rows = [MOST] * 31
    assert _left_by_linear_attack(rows, noise=30.0) > 0.9
    assert sl.audit(_plan(_orders(rows), PLAIN, noise=30.0)).verdict.passed


def test_totals_of_nearly_as_many_rows_hide_each_other() -> None:
    rows = [MOST - number % 20 for number in range(31)]
    assert _left_by_linear_attack(rows, noise=30.0) > 0.9
    assert sl.audit(_plan(_orders(rows), PLAIN, noise=30.0)).verdict.passed


def test_the_noise_alone_hides_any_total() -> None:
    result = sl.audit(_plan(_orders([MOST] + [1] * 30), PLAIN, noise=10.0 * MOST))
    assert result.verdict.guaranteed
    assert result.verdict.passed


def test_known_customers_hide_nobody() -> None:
    """Ten other customers with 60 rows hide the first, unless the attacker knows them."""
    table = _orders([MOST] * 11 + [1] * 30)
    plan = _plan(table, PLAIN, noise=30.0)
    assert sl.audit(plan).verdict.passed
    plan["attacker"] = {"knows": ["customer BETWEEN 1 AND 10"]}
    told = sl.audit(plan)
    assert told.verdict.passed is False
    assert "unequal" in [one.name.value for one in told.unverified]


def test_where_the_rows_cannot_be_counted_it_is_not_shown() -> None:
    """Several totals of a customer: how many rows each adds up is not followed to the person."""
    table = _orders([MOST] + [1] * 30).with_columns(month=pl.int_range(pl.len()) % 2)
    made = "SELECT customer, month, SUM(amount) AS spent FROM source GROUP BY customer, month"
    result = sl.audit(_plan(table, made, noise=30.0, max_rows_per_record=2, values="independent"))
    assert result.verdict.passed is False
    assert "unequal" in [one.name.value for one in result.unverified]
