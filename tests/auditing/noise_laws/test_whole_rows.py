"""Discrete noise where a person has several rows: by hand, and by all worlds and answers of small tables."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.bounds.by_pairs import WholePrior
from sightline.bounds.coin import CoinPrior
from sightline.bounds.priors import TwoPointPrior
from sightline.units.target import NoDensity
from tests.auditing.noise_laws.fuzz_whole_rows import Case, Number, fuzz


@pytest.mark.parametrize("m", [2, 3, 4, 10, 101])
def test_the_bound_is_that_of_the_sums_in_its_proof(m: int) -> None:
    """With w(k) = k (m - k) written out: W, C and the squared steps."""
    w = np.array([k * (m - k) for k in range(m + 1)], dtype=np.float64)
    W, C = w[1:].sum() / m, (w[1:] * w[:-1]).sum() / m
    v, steps = np.arange(m).var(), (np.diff(w) ** 2).sum() / m
    for information in (0.0, 0.01, 1.0, 7.0):
        by_hand = W**2 * np.exp(-information / 4) / (v * (steps + max(C, W**2) * information))
        given = np.array([information])
        found = WholePrior(3.0, m + 2.0).lower_of_rows(given, unsigned=given)[0]
        assert by_hand * (1 - 1e-8) <= found <= by_hand


@pytest.mark.parametrize(
    ("prior", "variance"), [(TwoPointPrior(1.0, 4.0), 9 / 4), (CoinPrior(share=0.2), 0.16)]
)
def test_two_points_are_whole_numbers_in_another_unit(prior: NoDensity, variance: float) -> None:
    given = np.array([0.0, 0.3, 2.0])
    found = prior.lower_of_rows(0 * given, unsigned=given)
    by_hand = np.exp(-given * prior.width**2 / 4) / (1 + given * variance)
    assert np.allclose(found, by_hand, rtol=1e-8)
    assert np.all(found <= by_hand)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 50.0])
def test_affinities_fall_no_faster_than_the_proof_says(scale: float) -> None:
    """Of geometric noise, summed up; the difference of two is at most its information over eight."""
    k = np.arange(-6000, 6001)
    mass = np.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale)
    moved = [np.sqrt(mass[t:] * mass[: mass.size - t]).sum() for t in range(12)]
    by_hand = [(1 + t * np.tanh(0.5 / scale)) * np.exp(-0.5 * t / scale) for t in range(12)]
    assert np.allclose(moved, by_hand, rtol=1e-9)
    for s in range(12):
        for t in range(s, 12):
            assert -1e-12 <= moved[s] - moved[t] <= (t**2 - s**2) / (8 * scale**2) + 1e-12


ROWS = {"owners": (0, 0, 1, 1), "groups": ("u", "v", "u", "v"), "weights": (1, 2, 1, 3)}
GEOMETRIC = {"law": "geometric", "stddev": 3.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case(**ROWS, numbers=(Number(by_group=True), Number(**GEOMETRIC))),
        Case(**ROWS, numbers=(Number(weight="w", **GEOMETRIC),), top=2),
        Case(**ROWS, numbers=(Number(**GEOMETRIC), Number(level=2, stddev=2.5))),
        Case(**ROWS, numbers=(Number(weight="w", stddev=6.0), Number(**GEOMETRIC)), values="constant"),
        Case(**ROWS, numbers=(Number(**GEOMETRIC), Number(only_group=True)), prior="two-point"),
        Case(**ROWS, numbers=(Number(**GEOMETRIC), Number(only_group=True)), known=1),
        Case(
            owners=(0, 0, 0, 1),
            groups=("u", "v", "u", "u"),
            weights=(1, -1, 2, 1),  # of both signs
            numbers=(Number(weight="w", **GEOMETRIC), Number(**GEOMETRIC)),
            top=2,
        ),
    ],
)
def test_brackets_hold_what_all_worlds_and_answers_leave(case: Case) -> None:
    kept = case.audited()
    assert kept is not None
    lower, upper = kept
    assert 0.05 < lower <= case.left() * (1 + 1e-6) <= upper * (1 + 2e-6)


@pytest.mark.slow
def test_random_tables() -> None:
    found = fuzz(5, 1e9, most=12)
    assert found["several rows of a person"] >= 5
