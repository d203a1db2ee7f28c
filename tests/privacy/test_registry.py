"""The registry: every accountant is there under its name, and one more needs no other file."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sightline as sl
from sightline.errors import InvalidBudget
from sightline.privacy.registry import ACCOUNTANTS, accountant_named, accountant_of_cost, accountants

BUDGET = sl.Budget(epsilon=1.0, delta=1e-5)

# A new process, because the plan's schema is made from the list when it is first imported.
WITH_A_DUMMY = """
from dataclasses import dataclass
from pathlib import Path

from sightline.privacy import registry
from sightline.privacy.concentrated import ZeroConcentrated


@dataclass(frozen=True)
class TwiceTheVariance(ZeroConcentrated):
    def _kappa_of_counts(self, counts):
        return 2 * ZeroConcentrated._kappa_of_counts(self, counts)


entry = registry.AccountantEntry(build=TwiceTheVariance)
registry.ACCOUNTANTS = {**registry.ACCOUNTANTS, "dummy": entry}

from sightline.auditing.plan import Plan
from sightline.auditing.starter import starter_plan

table = Path("homes.csv")
table.write_text("home,watts\\na,1\\nb,2\\n")
assert "optimal or dummy" in starter_plan(str(table), out=Path("plan.toml")).text
plan = {
    "data": {"source": "homes.csv", "record": "home", "secret": "watts", "bounds": [0, 4]},
    "privacy": {"epsilon": 1.0, "delta": 1e-5, "accountant": "dummy"},
    "release": [{"name": "total", "sql": "SELECT SUM(watts) FROM data"}],
}
assert Plan.model_validate(plan).privacy.accountant == "dummy"

import sightline as sl

needed = sl.audit(Plan.model_validate(plan)).budget.would_need
print(needed["dummy"] / needed["renyi"])
"""


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


@pytest.mark.thorough
def test_an_accountant_is_added_by_its_own_file_and_the_registry(tmp_path) -> None:
    run = subprocess.run([sys.executable, "-c", WITH_A_DUMMY], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) == pytest.approx(2**0.5, rel=1e-12)
