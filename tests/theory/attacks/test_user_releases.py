"""Releases that a user wrote: simulated with an attack of their own, refused by the built-in search."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidInput, InvalidNoise
from sightline.theory.attacks.model import exact_answers, model_of

jnp = pytest.importorskip("jax.numpy")

MOMENTS = [sl.Moment(order=order, members=range(2), bound=1.0) for order in (1, 2)]
WRITTEN = sl.DeepSet(
    feature=lambda x: jnp.stack([x, x * x]),
    readout=lambda s: s / 2,
    members=range(2),
    sensitivity=2.0,
    outputs=2,
)


@dataclass(frozen=True)
class MeanOfBoth:
    """The first answer as the guess at both values."""

    def estimate(self, transcript: sl.Transcript, answers: Any) -> sl.attacks.Estimates:
        table = np.atleast_2d(answers)
        values = np.repeat(table[:, :1], 2, axis=1)
        return sl.attacks.Estimates(values=values, targets=(0, 1), status=np.zeros(len(table), dtype=int))


@pytest.mark.slow
def test_answers_to_drawn_records_are_those_of_the_closed_form() -> None:
    written, closed = (sl.Transcript(queries, noise=[0.3, 0.3]) for queries in ([WRITTEN], MOMENTS))
    drawn = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    assert exact_answers(written, drawn) == pytest.approx(exact_answers(closed, drawn), abs=1e-6)


@pytest.mark.slow
def test_a_simulation_of_written_releases_is_that_of_the_same_in_closed_form() -> None:
    prior = sl.labeled.UniformPrior(-1.0, 1.0)
    written, closed = (
        sl.simulate(sl.Transcript(queries, noise=[0.3, 0.3]), attack=MeanOfBoth(), at=prior, trials=20)
        for queries in ([WRITTEN], MOMENTS)
    )
    assert written.targets == closed.targets == (0, 1)
    assert written.mse == pytest.approx(closed.mse, rel=1e-5)


@pytest.mark.slow
def test_vector_records_are_asked_one_by_one() -> None:
    norm = sl.DeepSet(
        feature=lambda x: x @ x, readout=lambda s: s, members=range(1), sensitivity=2.0, dimension=2
    )
    answers = exact_answers(sl.Transcript([norm], noise=[0.5]), np.array([[0.6, 0.8], [0.0, 0.5]]))
    assert answers == pytest.approx(np.array([[1.0], [0.25]]), abs=1e-6)


class Strange:
    outputs = 2
    law = SimpleNamespace(value="strange")


class TestRefused:
    def test_a_release_that_a_user_wrote(self) -> None:
        with pytest.raises(InvalidInput, match="moments and smooth thresholds, got DeepSet"):
            model_of([WRITTEN], sl.GaussianNoise(stddevs=[1.0, 1.0]))

    def test_an_unknown_law(self) -> None:
        with pytest.raises(InvalidNoise, match="got Strange noise"):
            model_of(MOMENTS, Strange())
