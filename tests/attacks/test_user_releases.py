"""Attacks on releases that a user wrote, against the same releases in closed form."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import sightline as sl
from sightline.attacks.model import model_of
from sightline.errors import InvalidInput, InvalidNoise, MissingExtra
from tests.attacks.attack_cases import INTERIOR, noisy

jnp = pytest.importorskip("jax.numpy")

MOMENTS = [sl.Moment(order=order, members=range(2), bound=1.0) for order in (1, 2)]
WRITTEN = sl.DeepSet(
    feature=lambda x: jnp.stack([x, x * x]),
    readout=lambda s: s / 2,
    members=range(2),
    sensitivity=2.0,
    outputs=2,
)
CORRELATED = np.array([[0.09, 0.02], [0.02, 0.04]])
BOX = (-1.0, 1.0)
FEW = sl.ConstrainedMLE(box=BOX, grid_starts=3, random_starts=1)


@pytest.mark.parametrize("noise", [[0.3, 0.2], CORRELATED], ids=["independent", "correlated"])
class TestWrittenMoments:
    @pytest.mark.slow
    def test_the_search_finds_the_same(self, noise) -> None:
        written, closed = (sl.Transcript(queries, noise=noise) for queries in ([WRITTEN], MOMENTS))
        answers = noisy(closed, INTERIOR, 60)
        found, expected = (FEW.estimate(t, answers) for t in (written, closed))
        assert found.unlabeled
        assert found.values == pytest.approx(expected.values, abs=1e-6)
        assert found.objective == pytest.approx(expected.objective, abs=1e-9)

    @pytest.mark.slow
    def test_derivatives_are_the_same(self, noise) -> None:
        written, closed = (
            model_of(t.queries, t.law)
            for t in (sl.Transcript([WRITTEN], noise=noise), sl.Transcript(MOMENTS, noise=noise))
        )
        u = np.random.default_rng(0).uniform(-1, 1, (2, 5))
        z = np.stack([np.linspace(-1, 1, 5), np.linspace(0, 1, 5)])
        one, other = written.local(u, z), closed.local(u, z)
        assert one.objective == pytest.approx(other.objective, rel=1e-12)
        for k in range(2):
            assert one.gradient[k] == pytest.approx(other.gradient[k], rel=1e-10, abs=1e-12)
            for j in range(k + 1):
                assert one.hessian[k][j] == pytest.approx(other.hessian[k][j], rel=1e-10, abs=1e-12)
                mine, theirs = written.information(u)[k][j], closed.information(u)[k][j]
                assert mine == pytest.approx(theirs, rel=1e-10, abs=1e-12)
        assert written.expected(u) == pytest.approx(closed.expected(u), abs=1e-14)
        assert not written.linear


MIXED = sl.Transcript(
    (WRITTEN, sl.SubsetSum(members=[0], radius=1.0), sl.Moment(order=3, members=[0, 1, 2], bound=1.0)),
    noise=[1e-3] * 4,
)


class TestMixedWithOthers:
    @pytest.mark.slow
    def test_members_are_found_by_name(self) -> None:
        records = [0.7, -0.4, 0.5]
        found = FEW.estimate(MIXED, MIXED.answers(records))
        assert not found.unlabeled
        assert found.values[0] == pytest.approx(records, abs=1e-6)

    @pytest.mark.slow
    def test_a_simulation_reports_the_bound(self) -> None:
        found = sl.simulate(MIXED, attack=FEW, at=[0.7, -0.4, 0.5], trials=250)
        assert abs(found.mse - found.crb) < 4.5 * found.standard_error

    @pytest.mark.slow
    def test_a_posterior_over_an_unnamed_group_is_sorted(self) -> None:
        transcript = sl.Transcript([WRITTEN], noise=[0.3, 0.3])
        attack = sl.attacks.PosteriorMean(prior=sl.labeled.UniformPrior(-1.0, 1.0))
        found = attack.estimate(transcript, [0.1, 0.3])
        closed = attack.estimate(sl.Transcript(MOMENTS, noise=[0.3, 0.3]), [0.1, 0.3])
        assert found.unlabeled
        assert found.values == pytest.approx(closed.values, abs=1e-12)


@pytest.mark.slow
def test_vector_records_are_asked_one_by_one() -> None:
    """No batched form, so the posterior asks the release itself."""
    norm = sl.DeepSet(
        feature=lambda x: x @ x, readout=lambda s: s, members=range(1), sensitivity=2.0, dimension=2
    )
    transcript = sl.Transcript([norm], noise=[0.5])
    found = sl.attacks.PosteriorMean(prior=sl.labeled.UniformPrior(-1.0, 1.0), points=200).estimate(
        transcript, [0.5]
    )
    assert found.targets == (0, 1)
    assert found.values[0] == pytest.approx([0.0, 0.0], abs=1e-12)  # the sign of a coordinate is never seen


class Unheard:
    """A query of a kind that no attack knows."""

    members = np.array([0, 1])
    dimension = outputs = 1
    linear = False

    @property
    def cells(self):
        return (self,)


class Strange:
    outputs = 2
    law = SimpleNamespace(value="strange")


class TestRefused:
    def test_an_unknown_kind_of_query(self) -> None:
        with pytest.raises(InvalidInput, match="got Unheard; write it as a DeepSet"):
            model_of([Unheard()], sl.GaussianNoise(stddevs=[1.0]))

    def test_an_unknown_law(self) -> None:
        with pytest.raises(InvalidNoise, match="got Strange noise; use PosteriorMean"):
            model_of(MOMENTS, Strange())

    def test_laplace_noise(self) -> None:
        with pytest.raises(InvalidNoise, match="use PosteriorMean"):
            model_of([WRITTEN], sl.LaplaceNoise(scales=[1.0, 1.0]))

    def test_vector_records(self) -> None:
        norm = sl.DeepSet(
            feature=lambda x: x @ x, readout=lambda s: s, members=range(2), sensitivity=2.0, dimension=2
        )
        with pytest.raises(InvalidInput, match="scalar records for a search in a box"):
            model_of([norm], sl.GaussianNoise(stddevs=[1.0]))

    def test_without_jax_it_says_what_is_missing(self, monkeypatch) -> None:
        model = model_of([WRITTEN], sl.GaussianNoise(stddevs=[1.0, 1.0]))
        monkeypatch.setitem(sys.modules, "jax", None)
        with pytest.raises(MissingExtra, match="autodiff"):
            model.expected(np.zeros((2, 1)))
