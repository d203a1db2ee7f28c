"""Simulations: what they report is what happened."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sightline as sl
from sightline.theory.attacks.monte_carlo import CHUNK
from tests.theory.attacks.attack_cases import INTERIOR, in_out, moments, triangle

RECORDS = (0.3, -0.2, 0.6)


def same(one: sl.attacks.Simulation, other: sl.attacks.Simulation) -> bool:
    scalars = ("trials", "mse", "standard_error", "interval", "crb", "trivial_mse", "statuses", "certified")
    return all(getattr(one, name) == getattr(other, name) for name in scalars) and np.array_equal(
        one.bias, other.bias
    )


@pytest.fixture(scope="module")
def alone() -> sl.attacks.Simulation:
    return sl.simulate(moments(5.0), attack=sl.ConstrainedMLE(), at=INTERIOR, trials=3500, seed=11)


class TestReport:
    def test_it_is_what_a_plain_loop_finds(self) -> None:
        transcript, trials, seed = triangle(), CHUNK + 300, 21
        found = sl.simulate(
            transcript, attack=sl.Blue(), at=RECORDS, domain=(-1, 1), trials=trials, seed=seed, confidence=0.9
        )
        exposures = [transcript.geometry().profile(target=j) for j in range(3)]
        losses, errors, covered = [], [], []
        for chunk, size in enumerate((CHUNK, 300)):
            generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chunk,)))
            noise = generator.standard_normal((size, 3)) * [0.2, 0.3, 0.4]
            for row in transcript.answers(RECORDS) + noise:
                for exposure, truth in zip(exposures, RECORDS, strict=True):
                    error = float((exposure.recipe @ row)[0]) - truth
                    errors.append(error)
                    covered.append(abs(error) <= 1.959963984540054 * exposure.rmse)
                losses.append(sum(e * e for e in errors[-3:]))
        assert found.mse == pytest.approx(np.mean(losses), rel=1e-12)
        assert found.standard_error == pytest.approx(np.std(losses, ddof=1) / math.sqrt(trials), rel=1e-10)
        low, high = found.interval
        assert high - low == pytest.approx(2 * 1.6448536269514722 * found.standard_error, rel=1e-12)
        assert found.bias == pytest.approx(np.reshape(errors, (-1, 3)).mean(axis=0), rel=1e-9)
        assert found.coverage == pytest.approx(np.reshape(covered, (-1, 3)).mean(axis=0), rel=1e-12)
        assert found.crb == pytest.approx(sum(exposure.crb for exposure in exposures), rel=1e-12)
        assert found.rmse == math.sqrt(found.mse)
        assert found.ratio_to_crb == found.mse / found.crb

    def test_the_loss_of_a_multiset_is_the_matching_loss(self) -> None:
        transcript = moments(5.0)
        found = sl.simulate(
            transcript, attack=sl.attacks.MomentInversion(), at=(0.7, -0.4), trials=400, seed=3
        )
        generator = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(0,)))
        answers = transcript.answers([0.7, -0.4]) + transcript.law.sample(400, generator=generator)
        estimates = sl.attacks.MomentInversion().estimate(transcript, answers)
        assert found.mse == pytest.approx(
            np.mean(sl.multiset.matching_loss(estimates.values, [0.7, -0.4])), rel=1e-12
        )
        assert found.unlabeled
        complex_roots = found.statuses[sl.attacks.AttackStatus.NO_REAL_SOLUTION]
        assert complex_roots == int(np.sum(answers[:, 1] < answers[:, 0] ** 2))
        assert f"{complex_roots} trials: no real values" in str(found)

    @pytest.mark.slow
    def test_another_seed_is_another_draw(self, alone) -> None:
        other = sl.simulate(moments(5.0), attack=sl.ConstrainedMLE(), at=INTERIOR, trials=3500, seed=12)
        assert other.mse != alone.mse

    def test_strata_have_noise_of_their_own(self) -> None:
        found = sl.attacks.sweep(
            {"a": triangle(), "b": triangle()}, attack=sl.Blue(), at=RECORDS, domain=(-1, 1)
        )
        assert list(found) == ["a", "b"]
        assert found["a"].mse != found["b"].mse

    def test_one_stratum_is_a_simulation(self) -> None:
        settings = {"attack": sl.Blue(), "at": RECORDS, "domain": (-1, 1), "trials": 300}
        assert same(sl.attacks.sweep({"a": triangle()}, **settings)["a"], sl.simulate(triangle(), **settings))

    def test_copies_average(self) -> None:
        once, often = (
            sl.simulate(in_out(copies=n), attack=sl.Blue(), at=[0.1, 0.2, 0.3, 0.4], domain=(0, 1))
            for n in (1, 4)
        )
        assert once.crb == pytest.approx(4 * often.crb)
        assert once.mse / often.mse == pytest.approx(4, rel=0.15)
