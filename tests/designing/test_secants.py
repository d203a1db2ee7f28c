"""Curvature that is learned from steps: what it is for a quadratic function, and what it never does."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.designing.iterate import Secants


def taught(missing: np.ndarray, steps: np.ndarray) -> Secants:
    secants = Secants()
    for step in steps:
        secants.learn(step, missing @ step)
    return secants


def test_nothing_is_missing_before_the_first_step() -> None:
    assert Secants().missing(np.arange(3)).shape == (3, 0)
    secants = Secants()
    secants.learn(np.zeros(3), np.ones(3))  # no step teaches nothing
    assert secants.missing(np.arange(3)).shape == (3, 0)


def test_the_steps_that_were_taken_are_corrected_exactly() -> None:
    """With symmetric positive missing curvature B, F Fᵀ d = B d for every step d that is remembered."""
    generator = np.random.default_rng(0)
    half = generator.normal(size=(8, 8))
    missing, steps = half @ half.T, generator.normal(size=(4, 8))
    found = taught(missing, steps).missing(np.arange(8))
    for step in steps:
        assert found @ (found.T @ step) == pytest.approx(missing @ step, rel=1e-8)
    least = np.linalg.eigvalsh(missing - found @ found.T)[0]
    assert least >= -1e-8 * np.trace(missing), "never more curvature than is missing"


def test_too_much_curvature_is_not_taken_away() -> None:
    generator = np.random.default_rng(1)
    assert taught(-np.eye(5), generator.normal(size=(3, 5))).missing(np.arange(5)).shape == (5, 0)


def test_five_steps_are_remembered_in_units_of_their_own_length() -> None:
    steps = np.eye(7) * np.array([1e-9, 1, 1, 1, 1, 1e9, 1])[:, None]
    found = taught(np.diag(np.arange(1.0, 8.0)), steps).missing(np.arange(7))
    assert np.diagonal(found @ found.T) == pytest.approx([0, 0, 3, 4, 5, 6, 7])


def test_variables_that_do_not_take_part_are_left_out() -> None:
    found = taught(np.diag([2.0, 3.0, 4.0]), np.eye(3)[1:]).missing(np.array([2, 0]))
    assert found @ found.T == pytest.approx(np.diag([4.0, 0.0]))


def test_the_same_step_twice_is_one() -> None:
    found = taught(np.diag([2.0, 3.0]), np.array([[1.0, 1.0], [1.0, 1.0]])).missing(np.arange(2))
    assert found.shape == (2, 1)
    assert found @ (found.T @ np.ones(2)) == pytest.approx([2.0, 3.0])
