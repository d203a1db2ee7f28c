"""Integer decisions against exact rational elimination: no mistake is allowed, in either direction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidInput
from sightline.numerics import integers as exact
from sightline.numerics.integers import ExactRecipe, UnseenDirection, certificate
from sightline.numerics.rank import proves_independent
from tests.numbered_cases import trials


def rational_rank(rows) -> int:
    """Gaussian elimination over the fractions: the naive twin."""
    table = [[Fraction(int(entry)) for entry in row] for row in rows]
    rank = 0
    for column in range(len(table[0]) if table else 0):
        pivot = next((i for i in range(rank, len(table)) if table[i][column]), None)
        if pivot is None:
            continue
        table[rank], table[pivot] = table[pivot], table[rank]
        for i in range(rank + 1, len(table)):
            factor = table[i][column] / table[rank][column]
            if factor:
                table[i] = [a - factor * b for a, b in zip(table[i], table[rank], strict=True)]
        rank += 1
    return rank


def random_design(generator: np.random.Generator) -> np.ndarray:
    """Memberships with the structures that trip float ranks: duplicates, nested, disjoint, differences."""
    lines, records = generator.integers(1, 11, size=2)
    rows = (generator.random((lines, records)) < generator.choice([0.2, 0.5, 0.8])).astype(np.int64)
    for line in range(1, lines):
        other = rows[generator.integers(line)]
        match generator.integers(6):
            case 0:
                rows[line] = other
            case 1:
                rows[line] = other * rows[line]
            case 2:
                rows[line] = 1 - other
            case 3:
                rows[line] = other
                rows[line, generator.integers(records)] ^= 1
            case _:
                pass
    return rows


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_a_hidden_target_never_has_a_finite_bound_and_a_revealed_one_always_has(block):
    generator = np.random.default_rng(block)
    for _ in trials(600):
        rows = random_design(generator)
        lines, records = rows.shape
        stddevs = 10.0 ** generator.uniform(-6, 6, size=lines)
        geometry = sl.geometry.Geometry(jacobian=rows.astype(float), noise=sl.GaussianNoise(stddevs=stddevs))
        target = int(generator.integers(records))
        others = np.delete(rows, target, axis=1)
        revealed = rational_rank(rows) > (rational_rank(others) if records > 1 else 0)
        exposure = geometry.profile(target=target)
        assert bool(exposure.identifiable) == revealed
        assert np.isfinite(exposure.crb) == revealed
        if revealed:
            # The recipe isolates the target: each weighted row in its own units, against rounding.
            seen = exposure.recipe[0][:, None] * rows
            wanted = np.eye(records)[target]
            assert np.all(np.abs(seen.sum(axis=0) - wanted) <= 1e-9 * np.maximum(np.abs(seen).sum(axis=0), 1))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_rank_and_echelon_agree_with_elimination_over_the_fractions(seed):
    rows = random_design(np.random.default_rng(seed))
    assert exact.rank(rows) == rational_rank(rows) == len(exact.echelon(rows).pivots)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_a_certificate_proves_what_it_says(seed):
    generator = np.random.default_rng(seed)
    rows = random_design(generator)
    functional = generator.integers(-2, 3, size=rows.shape[1])
    revealed = rational_rank(np.vstack([rows, functional])) == rational_rank(rows)
    proof = certificate(rows, functional)
    if revealed:
        assert isinstance(proof, ExactRecipe)
        combined = [sum(w * int(a) for w, a in zip(proof.weights, column, strict=True)) for column in rows.T]
        assert combined == functional.tolist()
    else:
        assert isinstance(proof, UnseenDirection)
        assert all(sum(v * int(a) for v, a in zip(proof.direction, row, strict=True)) == 0 for row in rows)
        assert sum(v * int(c) for v, c in zip(proof.direction, functional, strict=True)) != 0


def test_weights_that_are_multiples_of_a_large_prime_do_not_hide_a_record():
    prime = 2**61 - 1
    rows = np.array([[prime, 1], [0, 1]], dtype=np.int64)
    assert exact.rank(rows) == 2
    assert isinstance(certificate(rows, [1, 0]), ExactRecipe)


def test_the_failure_bound_is_as_small_as_the_docstring_says():
    # 10,000 rows of 10,000 ones: the bound adds up over rows, so that one row tells.
    assert 10_000 * exact.failure_probability(np.ones((1, 10_000), dtype=np.int64)) < 1e-13


def test_a_factorisation_proves_independence_and_never_a_false_one():
    generator = np.random.default_rng(5)
    proved = 0
    for _ in range(300):
        rows = random_design(generator)
        if rows.shape[0] < rows.shape[1]:
            rows = rows.T
        triangle = np.linalg.qr(rows.astype(float), mode="r")
        if proves_independent(triangle, lines=len(rows), lengths=np.linalg.norm(triangle, axis=0)):
            proved += 1
            assert rational_rank(rows) == rows.shape[1]
    assert proved > 50
    assert not proves_independent(np.array([[1.0, 1.0], [0.0, 1e-15]]), lines=2, lengths=np.array([1.0, 1.0]))


def test_a_functional_of_the_wrong_length_is_refused():
    with pytest.raises(InvalidInput, match="a functional of 2 coefficients, got 3"):
        certificate(np.array([[1, 1]]), [1, 0, 0])
