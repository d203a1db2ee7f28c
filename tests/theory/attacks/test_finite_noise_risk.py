"""The paper's finite-noise experiments: fig:mle point by point, and the claims about fig:app_mle_vs_L."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sightline as sl
from benchmarks.projected_adam import ProjectedAdam
from tests.theory.attacks.attack_cases import (
    BOUNDARY,
    BUDGETS,
    INTERIOR,
    PRINTED_CRB,
    PRINTED_INVERSION,
    PRINTED_MLE,
    moments,
    noisy,
)

pytestmark = pytest.mark.thorough

# 24 comparisons with the printed means. At 4.1 joint standard errors the chance that any of them fails, for a
# seed drawn at random and a true reproduction, is below 24 · P(|Z| > 4.1) = 0.001.
JOINT = 4.1


@pytest.mark.parametrize("pair", [INTERIOR, BOUNDARY], ids=["interior", "boundary"])
class TestFigureMLE:
    def test_the_bound_is_the_printed_one(self, pair) -> None:
        crb = [moments(epsilon).geometry(at=pair).profile(target=[0, 1]).crb for epsilon in BUDGETS]
        assert crb == pytest.approx(PRINTED_CRB[pair], rel=1e-9)

    @pytest.mark.parametrize("name", ["inversion", "mle"])
    def test_every_printed_point_is_reproduced(self, pair, name) -> None:
        """Inside the printed 95 % interval, widened by two of our own standard errors (fixed seed)."""
        attack, printed = {
            "inversion": (sl.attacks.MomentInversion(), PRINTED_INVERSION[pair]),
            "mle": (sl.ConstrainedMLE(), PRINTED_MLE[pair]),
        }[name]
        strata = {epsilon: moments(epsilon) for epsilon in BUDGETS}
        found = sl.attacks.sweep(strata, attack=attack, at=pair, trials=10_000, seed=1)
        for simulation, (mean, half) in zip(found.values(), printed, strict=True):
            ours = simulation.standard_error
            assert abs(simulation.mse - mean) <= half + 2 * ours
            assert abs(simulation.mse - mean) <= JOINT * math.hypot(half / 1.96, ours)
            # The printed half-widths are 1.96 standard errors of 5,000 trials; ours are of 10,000.
            assert ours == pytest.approx(half / 1.96 / math.sqrt(2), rel=0.12)
            if name == "mle":
                assert simulation.certified == simulation.trials
                assert simulation.mse < simulation.crb or pair == BOUNDARY

    def test_the_papers_adam_steps_agree(self, pair) -> None:
        found = sl.attacks.sweep(
            {1.0: moments(1.0), 10.0: moments(10.0)}, attack=ProjectedAdam(), at=pair, seed=2
        )
        for epsilon, simulation in found.items():
            mean, half = PRINTED_MLE[pair][BUDGETS.index(epsilon)]
            assert abs(simulation.mse - mean) <= JOINT * math.hypot(half / 1.96, simulation.standard_error)


def exact_optimum(stddevs: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """The projection onto the feasible moments {(μ₁, μ₂)} of two values in [-1, 1], edge by edge.

    Written against the closed form in the library: stationary points are eigenvalues of companion matrices.
    """
    s1, s2 = stddevs
    y1, y2 = answers.T
    best = np.full(len(answers), np.inf)
    # (μ₁, μ₂) = (a₀ + a₁t, b₀ + b₂t²) with t in [-1, 1]: equal values, one at 1, one at -1.
    for a0, a1, b0, b2 in ((0.0, 1.0, 0.0, 1.0), (0.5, 0.5, 0.5, 0.5), (-0.5, 0.5, 0.5, 0.5)):
        # Half the derivative of ((a₀ + a₁t - y₁)/s₁)² + ((b₀ + b₂t² - y₂)/s₂)².
        cubic = [
            2 * b2**2 / s2**2 + 0 * y1,
            a1**2 / s1**2 + 2 * b2 * (b0 - y2) / s2**2,
            a1 * (a0 - y1) / s1**2,
        ]
        companion = np.zeros((len(answers), 3, 3))
        companion[:, 1, 0] = companion[:, 2, 1] = 1
        companion[:, 0, 2] = -cubic[2] / cubic[0]
        companion[:, 1, 2] = -cubic[1] / cubic[0]
        roots = np.linalg.eigvals(companion)
        candidates = np.concatenate([np.clip(roots.real, -1, 1), np.tile([-1.0, 1.0], (len(answers), 1))], 1)
        residual = ((a0 + a1 * candidates - y1[:, None]) / s1) ** 2
        residual += ((b0 + b2 * candidates**2 - y2[:, None]) / s2) ** 2
        best = np.minimum(best, residual.min(axis=1))
    half = np.sqrt(np.maximum(y2 - y1**2, 0))
    feasible = (y2 >= y1**2) & (y1 - half >= -1) & (y1 + half <= 1)
    return np.where(feasible, 0.0, best)


@pytest.mark.parametrize("pair", [INTERIOR, BOUNDARY], ids=["interior", "boundary"])
@pytest.mark.parametrize("epsilon", [0.5, 5.0, 20.0])
def test_the_constrained_mle_is_the_global_optimum(pair, epsilon) -> None:
    transcript = moments(epsilon)
    answers = noisy(transcript, pair, 20_000, seed=3)
    found = sl.ConstrainedMLE().estimate(transcript, answers)
    stddevs = np.sqrt(np.diag(transcript.law.covariance))
    gap = found.objective - exact_optimum(stddevs, answers)
    assert np.max(np.abs(gap)) <= 1e-8
    assert np.all(found.certified)
    # The objective is that of the values returned, and they are feasible.
    fitted = np.stack([found.values.mean(axis=1), (found.values**2).mean(axis=1)], axis=1)
    assert np.sum(((answers - fitted) / stddevs) ** 2, axis=1) == pytest.approx(found.objective, abs=1e-9)
    assert np.all(np.abs(found.values) <= 1)
    assert np.all(np.diff(found.values, axis=1) >= 0)


class TestFigureMLEAgainstReleases:
    """fig:app_mle_vs_L: the pair (-0.4, 0.7), L = 2, ..., 10."""

    def test_at_a_high_budget_bound_and_attack_choose_two_releases(self) -> None:
        strata = {L: moments(20.0, releases=L) for L in range(2, 11)}
        found = sl.attacks.sweep(strata, attack=sl.ConstrainedMLE(), at=INTERIOR, trials=3000)
        assert min(found, key=lambda L: found[L].crb) == 2
        assert all(found[2].interval[1] < found[L].interval[0] for L in range(3, 11))

    def test_at_a_low_budget_the_box_decides(self) -> None:
        strata = {L: moments(1.0, releases=L) for L in range(2, 11)}
        found = sl.attacks.sweep(strata, attack=sl.ConstrainedMLE(), at=INTERIOR, trials=10_000)
        risks = np.array([found[L].mse for L in range(2, 11)])
        assert min(found[L].crb / found[L].interval[1] for L in found) > 150
        assert risks.max() / risks.min() < 1.15
        # Not monotone: the risk falls with every even order. Four falls together, three standard errors.
        falls = [found[L].mse - found[L + 1].mse for L in (3, 5, 7, 9)]
        spread = math.sqrt(sum(found[L].standard_error ** 2 for L in range(3, 11)))
        assert sum(falls) > 3 * spread
        # And an attack that ignores the answers does far better here than the constrained MLE.
        assert all(found[L].ratio_to_trivial > 10 for L in found)
