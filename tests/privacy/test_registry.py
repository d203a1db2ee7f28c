"""The registry: every accountant is there under its name."""

from __future__ import annotations

import pytest

import sightline as sl
from sightline.errors import InvalidBudget
from sightline.privacy.registry import ACCOUNTANTS, accountant_named, accountant_of_cost, accountants

BUDGET = sl.Budget(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_an_entry_says_what_its_accountant_is(name: str) -> None:
    accountant = accountant_named(name, BUDGET)
    assert accountant.budget == BUDGET
    assert accountant.law is ACCOUNTANTS[name].law
    assert accountants(BUDGET)[name] == accountant


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidBudget, match=r"expected an accountant, one of 'basic', .* got 'rdp'"):
        accountant_named("rdp", BUDGET)


def test_the_exact_cost_is_that_of_gaussian_dp() -> None:
    spent = sl.privacy.account([7.0] * 5, delta=1e-5)
    rule = accountant_named(accountant_of_cost("exact"), BUDGET)
    assert rule.epsilon(5, noise_multiplier=7.0) == pytest.approx(spent.epsilon_exact, rel=1e-15)
