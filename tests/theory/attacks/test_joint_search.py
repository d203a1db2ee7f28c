"""The joint search over values and labels: global, batched, and what a simulation says about labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

import sightline as sl
from sightline.theory.attacks import mle as search_starts
from sightline.theory.attacks.model import exact_answers, model_of
from tests.theory.attacks.attack_cases import INTERIOR, noisy


def hybrid(members: int, *, moments: int, means: int, stddev: float) -> sl.Transcript:
    """Moments of a group, and means of overlapping subsets of it."""
    queries: list[sl.releases.Query] = [
        sl.Moment(order=order, members=range(members), bound=1.0) for order in range(1, moments + 1)
    ]
    for place in range(means):
        subset = [k % members for k in range(place, place + max(1, members // 2))]
        queries.append(sl.SubsetMean(members=subset, radius=2.0))
    return sl.Transcript(queries, noise=[stddev] * len(queries))


@pytest.mark.slow
@pytest.mark.parametrize(("members", "stddev"), [(2, 0.3), (3, 0.1)])
def test_the_joint_optimum_is_that_of_a_fine_grid_polished_by_scipy(members: int, stddev: float) -> None:
    transcript = hybrid(members, moments=members + 1, means=2, stddev=stddev)
    truth = np.linspace(0.8, -0.5, members)
    answers = noisy(transcript, truth, 6, seed=4)
    found = sl.ConstrainedMLE().estimate(transcript, answers)
    axis = np.linspace(-1, 1, 41 if members == 2 else 17)
    points = np.stack(np.meshgrid(*[axis] * members), axis=-1).reshape(-1, members)
    exact = exact_answers(transcript, points)
    for y, objective in zip(answers, found.objective, strict=True):

        def residuals(u: np.ndarray, y: np.ndarray = y) -> np.ndarray:
            return (transcript.answers(u) - y) / stddev

        distance = np.sum((exact - y) ** 2, axis=1)
        polished = [
            2 * optimize.least_squares(residuals, points[start], bounds=(-1, 1), xtol=1e-14, ftol=1e-14).cost
            for start in np.argsort(distance)[:4]
        ]
        assert objective <= min(polished) + 1e-7


@pytest.mark.slow
def test_all_orders_of_six_values_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little noise: one general start ends at wrong labels; with all orders compared it does not."""
    transcript = hybrid(6, moments=9, means=2, stddev=0.002)
    answers = noisy(transcript, [0.9, -0.7, 0.3, -0.2, 0.6, -0.95], 20, seed=1)
    few = sl.ConstrainedMLE(grid_starts=1, random_starts=0, wide=False)
    joint = few.estimate(transcript, answers)
    monkeypatch.setattr(search_starts, "needs_labels", lambda model: False)
    without = few.estimate(transcript, answers)
    assert np.mean(without.objective > joint.objective + 1) > 0.9
    wide = sl.ConstrainedMLE().estimate(transcript, answers)
    assert joint.objective == pytest.approx(wide.objective, rel=1e-6)


def test_beyond_six_values_exchanges_of_two_improve_the_labels() -> None:
    members = 7
    transcript = hybrid(members, moments=9, means=7, stddev=0.002)
    model = model_of(transcript.queries, transcript.law)
    assert search_starts.needs_labels(model)
    truth = np.array([0.9, -0.7, 0.3, -0.2, 0.6, 0.05, -0.95])
    answers = noisy(transcript, truth, 4, seed=2)
    wrong = truth[[0, 1, 2, 4, 3, 5, 6]]
    starts = search_starts.reordered(model, model.whiten(answers.T), np.tile(wrong[:, None], 4))
    assert len(starts) == 8
    assert pytest.approx(np.tile(truth, (4, 1))) == starts[0].T


@pytest.mark.slow
def test_beyond_six_values_the_heuristic_improves_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = hybrid(7, moments=9, means=3, stddev=0.01)
    answers = noisy(transcript, [0.9, -0.7, 0.3, -0.2, 0.6, 0.05, -0.95], 12, seed=3)
    few = sl.ConstrainedMLE(grid_starts=1, random_starts=0, wide=False)
    joint = few.estimate(transcript, answers)
    monkeypatch.setattr(search_starts, "needs_labels", lambda model: False)
    without = few.estimate(transcript, answers)
    assert np.all(joint.objective <= without.objective + 1e-9)
    assert np.mean(joint.objective < without.objective - 0.1) > 0.3


def test_the_best_orders_come_first() -> None:
    transcript = hybrid(3, moments=3, means=2, stddev=0.1)
    model = model_of(transcript.queries, transcript.law)
    assert search_starts.needs_labels(model)
    answers = noisy(transcript, [0.8, 0.1, -0.5], 20)
    z = model.whiten(answers.T)
    starts = search_starts.reordered(model, z, np.tile([[-0.5], [0.1], [0.8]], 20))
    assert len(starts) == 5, "all orders but the given one"
    objectives = [np.sum((z - model.whiten(model.expected(start))) ** 2, axis=0) for start in starts]
    assert np.all(np.diff(np.stack(objectives), axis=0) >= 0)


def test_what_needs_no_labels_is_searched_as_before() -> None:
    symmetric = sl.Transcript(hybrid(3, moments=3, means=1, stddev=0.1).queries[:3], noise=[0.1] * 3)
    linear = sl.Transcript(hybrid(3, moments=1, means=3, stddev=0.1).queries, noise=[0.1] * 4)
    correlated = sl.Transcript(
        hybrid(2, moments=2, means=1, stddev=0.1).queries, noise=0.01 * (np.eye(3) + 0.5)
    )
    for transcript in (symmetric, linear, correlated):
        assert not search_starts.needs_labels(model_of(transcript.queries, transcript.law))
    found = sl.ConstrainedMLE().estimate(correlated, correlated.answers(INTERIOR))
    assert found.values[0] == pytest.approx(INTERIOR, abs=1e-5)


# ------------------------------------------------------------------ labeled and matching loss


@pytest.mark.slow
def test_a_simulation_of_hybrid_releases_reports_both_losses() -> None:
    transcript = hybrid(2, moments=2, means=1, stddev=0.4)
    risk = sl.simulate(transcript, attack=sl.ConstrainedMLE(), at=INTERIOR, trials=400)
    assert risk.labeled_mse.sum() == pytest.approx(risk.mse)
    assert risk.matching_mse < risk.mse, "a wrong label costs more than a wrong value"
    assert "labeled loss" in str(risk)
    found = sl.ConstrainedMLE().estimate(transcript, transcript.answers(INTERIOR))
    assert not found.unlabeled


def test_without_subset_means_labels_are_drawn_at_random() -> None:
    transcript = sl.Transcript(hybrid(2, moments=2, means=1, stddev=0.001).queries[:2], noise=[1e-3] * 2)
    risk = sl.simulate(transcript, attack=sl.ConstrainedMLE(), at=INTERIOR, trials=200)
    assert risk.unlabeled
    assert risk.matching_mse == pytest.approx(risk.mse)
    gap = INTERIOR[1] - INTERIOR[0]
    assert risk.labeled_mse == pytest.approx([gap**2 / 2] * 2, rel=1e-2)


def test_linear_releases_have_one_loss_only() -> None:
    means = [sl.SubsetMean(members=range(2), radius=2.0), sl.SubsetMean(members=[1], radius=2.0)]
    transcript = sl.Transcript(means, noise=[0.1, 0.1])
    risk = sl.simulate(transcript, attack=sl.Blue(), at=INTERIOR, domain=(-1, 1), trials=100)
    assert risk.labeled_mse.sum() == pytest.approx(risk.mse)
    assert np.isnan(risk.matching_mse)
    assert "labeled loss" not in str(risk)
