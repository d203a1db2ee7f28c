"""A budget cannot exist invalid."""

from __future__ import annotations

import dataclasses

import pytest

import sightline as sl
from sightline.errors import InvalidBudget


def test_a_budget_is_two_plain_numbers() -> None:
    budget = sl.Budget(epsilon=1, delta=1e-5)
    assert (type(budget.epsilon), type(budget.delta)) == (float, float)
    assert budget == sl.Budget(epsilon=1.0, delta=1e-5)
    assert len({budget, sl.Budget(epsilon=1.0, delta=1e-5)}) == 1


def test_epsilon_and_delta_cannot_be_swapped_unnamed() -> None:
    with pytest.raises(TypeError):
        sl.Budget(1.0, 1e-5)  # type: ignore[call-arg, misc]


def test_a_budget_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        sl.Budget(epsilon=1.0, delta=1e-5).epsilon = 2.0  # type: ignore[misc]


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf"), "much", None])
def test_epsilon_is_finite_and_positive(epsilon: float) -> None:
    with pytest.raises(InvalidBudget, match="epsilon"):
        sl.Budget(epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, float("nan"), float("inf"), "little", None])
def test_delta_is_strictly_between_0_and_1(delta: float) -> None:
    with pytest.raises(InvalidBudget, match="delta"):
        sl.Budget(epsilon=1.0, delta=delta)
