"""Correlated noise with a singular covariance, and answers that depend on no record."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidNoise


def tree(size: int) -> np.ndarray:
    """The nodes of a binary tree over ``size`` leaves as rows."""
    rows = []
    width = 1
    while width <= size:
        rows += [[int(start <= i < start + width) for i in range(size)] for start in range(0, size, width)]
        width *= 2
    return np.array(rows)


def bound_from_the_sources(rows: np.ndarray, mixing: np.ndarray, target: int) -> float:
    """The variance bound, exactly, of ``y = rows x + mixing g`` with g independent and standard.

    Answers are dropped until the covariance of the rest is regular: over the rationals, without a tolerance.
    """
    covariance = flint.fmpq_mat((mixing @ mixing.T).astype(int).tolist())
    kept: list[int] = []
    for answer in range(len(rows)):
        trial = [*kept, answer]
        if flint.fmpq_mat([[covariance[i, k] for k in trial] for i in trial]).rank() == len(trial):
            kept = trial
    S = flint.fmpq_mat([[covariance[i, k] for k in kept] for i in kept])
    J = flint.fmpq_mat(rows[kept].astype(int).tolist())
    information = J.transpose() * S.inv() * J
    entry = information.inv()[target, target]
    return float(Fraction(int(entry.p), int(entry.q)))


@pytest.mark.parametrize("size", [2, 4, 8])
def test_prefix_sums_beside_their_tree_are_the_tree(size: int) -> None:
    nodes = tree(size)
    prefixes = np.tri(size, dtype=int)
    # Every prefix sum is published as the sum of the noisy leaves.
    mixing = np.vstack(
        [np.eye(len(nodes), dtype=int), np.hstack([prefixes, np.zeros((size, len(nodes) - size), int)])]
    )
    rows = np.vstack([nodes, prefixes])
    geometry = sl.geometry.Geometry(
        jacobian=rows.astype(float), noise=sl.CorrelatedNoise(blocks=[mixing @ mixing.T])
    )
    for target in range(size):
        exposure = geometry.profile(target=target)
        truth = bound_from_the_sources(rows, mixing, target)
        assert exposure.crb == pytest.approx(truth, rel=1e-12)
        assert exposure.recipe[0] @ rows == pytest.approx(np.eye(size)[target], abs=1e-12)
        spread = exposure.recipe[0] @ mixing
        assert spread @ spread == pytest.approx(truth, rel=1e-12)


def test_a_total_beside_its_cells_adds_nothing() -> None:
    mixing = np.array([[1, 0], [0, 1], [1, 1]])
    noise = sl.CorrelatedNoise(blocks=[mixing @ mixing.T])
    queries = [sl.SubsetSum(members=members, radius=1.0) for members in ([0], [1], [0, 1])]
    exposure = sl.Transcript(queries, noise=noise).geometry().profile(target=0)
    assert exposure.crb == pytest.approx(1.0, rel=1e-14)
    draws = noise.sample(100, generator=np.random.default_rng(0))
    assert draws[:, 2] == pytest.approx(draws[:, 0] + draws[:, 1], abs=1e-14)


def test_noise_that_cancels_where_the_records_do_not_is_told() -> None:
    mixing = np.array([[1, 0], [0, 1], [1, 1]])
    noise = sl.CorrelatedNoise(blocks=[mixing @ mixing.T])
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    weights = noise.noise_free(rows)[0]
    assert weights @ mixing == pytest.approx([0, 0], abs=1e-12)
    assert np.abs(weights @ rows).max() == pytest.approx(1.0)
    with pytest.raises(
        InvalidNoise, match="a noise-free answer: noise cancels in -1·answer 0 -1·answer 1 \\+1·answer 2"
    ):
        sl.geometry.Geometry(jacobian=rows, noise=noise)


def test_an_answer_about_nobody_is_noise_that_the_attacker_subtracts() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 0.0]])
    noise = sl.CorrelatedNoise(blocks=[[[1.0, 0.9], [0.9, 1.0]]])
    exposure = sl.geometry.Geometry(jacobian=rows, noise=noise).profile(target=0)
    # The conditional variance of the first answer's noise given the second: 1 - 0.81.
    assert exposure.rmse == pytest.approx(float(Fraction(19, 100)) ** 0.5, rel=1e-14)
    assert exposure.recipe[0] == pytest.approx([1.0, -0.9], rel=1e-14)


def test_what_is_no_covariance_is_refused() -> None:
    for block, message in (
        ([[1.0, 1.0, 0.0], [1.0, 1.0, 0.5], [0.0, 0.5, 1.0]], "positive semidefinite"),
        ([[1.0, 0.0], [0.0, 0.0]], "a variance > 0 for every answer"),
        ([[1.0, 1 - 1e-13, 1.0], [1 - 1e-13, 1.0, 1 - 1e-13], [1.0, 1 - 1e-13, 1.0]], "clearly singular"),
    ):
        with pytest.raises(InvalidNoise, match=message):
            sl.CorrelatedNoise(blocks=[block])
    scalar = sl.geometry.Geometry(jacobian=np.eye(2), noise=sl.GaussianNoise(stddevs=[1.0, 1.0])).profile(
        target=0
    )
    with pytest.raises(InvalidNoise, match="can be inverted"):
        sl.geometry.lift(scalar, np.ones((2, 2)))


@pytest.mark.parametrize(
    "noise",
    [
        sl.GaussianNoise(stddevs=[1.0, 2.0, 0.5]),
        sl.LaplaceNoise(scales=[1.0, 2.0, 0.5]),
        sl.CorrelatedNoise(blocks=[[[2.0, 0.5], [0.5, 1.0]], [[3.0]]]),
        sl.CorrelatedNoise(blocks=[[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]]]),
    ],
    ids=["gaussian", "laplace", "regular", "singular"],
)
class TestEveryNoiseLaw:
    def test_the_whitener_is_what_whitens(self, noise) -> None:
        rows = np.random.default_rng(3).standard_normal((3, 2))
        np.testing.assert_allclose(noise.whitener @ rows, noise.whiten(rows), rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(np.triu(noise.whitener, 1), 0.0)

    def test_it_whitens(self, noise) -> None:
        """W Σ W' times 1/excess is the identity on the independent answers."""
        W = noise.whitener
        left = W @ noise.covariance @ W.T / noise.excess
        seen = np.any(W != 0, axis=1)
        np.testing.assert_allclose(left, np.diag(seen.astype(float)), atol=1e-12)

    def test_independent_noise_has_scales(self, noise) -> None:
        if isinstance(noise, sl.CorrelatedNoise):
            with pytest.raises(InvalidNoise, match="expected independent noise"):
                _ = noise.scales
        else:
            np.testing.assert_allclose(noise.excess / noise.variances, 1 / noise.scales**2)
            assert noise.noise_free(np.ones((3, 1))).shape == (0, 3)


def test_a_membership_design_is_held_to_the_same() -> None:
    mixing = np.array([[1, 0], [0, 1], [1, 1]])
    covariance = (mixing @ mixing.T).astype(float)
    consistent = sl.MembershipDesign(mixing, noise=covariance, readout="sum")
    assert consistent.exposures(domain=(0, 1)).rmse == pytest.approx([1.0, 1.0], rel=1e-12)
    with pytest.raises(InvalidNoise, match="a noise-free answer"):
        sl.MembershipDesign(np.array([[1, 0], [0, 1], [1, 2]]), noise=covariance, readout="sum")
