"""What holds for every attack."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import sightline as sl
from tests.theory.attacks.attack_cases import EVERY_ATTACK, noisy

IDS = [f"{type(attack).__name__}-{transcript.outputs}" for attack, transcript, _ in EVERY_ATTACK]


@pytest.mark.parametrize(("attack", "transcript", "at"), EVERY_ATTACK, ids=IDS)
class TestEveryAttack:
    def test_it_is_an_attack_that_travels(self, attack, transcript, at) -> None:
        assert isinstance(attack, sl.attacks.Attack)
        answers = noisy(transcript, at, 5)
        again = pickle.loads(pickle.dumps(attack)).estimate(pickle.loads(pickle.dumps(transcript)), answers)
        assert np.array_equal(again.values, attack.estimate(transcript, answers).values)

    def test_a_trial_does_not_depend_on_its_company(self, attack, transcript, at) -> None:
        answers = noisy(transcript, at, 40)
        together = attack.estimate(transcript, answers)
        for i in (0, 17, 39):
            alone = attack.estimate(transcript, answers[i])
            assert alone.trials == 1
            assert np.allclose(alone.values[0], together.values[i], rtol=0, atol=1e-12)

    def test_shapes_agree(self, attack, transcript, at) -> None:
        found = attack.estimate(transcript, noisy(transcript, at, 7))
        assert found.values.shape == (7, len(found.targets))
        assert found.status.shape == (7,)
        assert {sl.attacks.AttackStatus(code) for code in found.status.tolist()} <= set(
            sl.attacks.AttackStatus
        )
        for part in (found.standard_errors, found.lower, found.upper):
            assert np.isnan(part).all() or part.shape == found.values.shape
        if not np.isnan(found.lower).all():
            assert np.all(found.lower <= found.values + 1e-12)
            assert np.all(found.values <= found.upper + 1e-12)

    def test_a_multiset_is_sorted(self, attack, transcript, at) -> None:
        found = attack.estimate(transcript, noisy(transcript, at, 50))
        if found.unlabeled:
            assert np.all(np.diff(found.values, axis=1) >= 0)

    def test_simulation_shows_the_trivial_risk(self, attack, transcript, at) -> None:
        found = sl.simulate(transcript, attack=attack, at=at, trials=50, domain=(-1, 1))
        guess = np.array([-1 / 3, 1 / 3]) if found.unlabeled else np.zeros(len(at))
        truth = np.sort(at) if found.unlabeled else np.array(at)
        assert found.trivial_mse == pytest.approx(np.sum((guess - truth) ** 2), rel=1e-12)
        assert "ignoring the answers" in str(found)


# The other one shrinks towards the prior.
SHARP = [case for case in EVERY_ATTACK if not isinstance(case[0], sl.attacks.LinearBayes)]


@pytest.mark.parametrize(
    ("attack", "transcript", "at"), SHARP, ids=[type(attack).__name__ for attack, _, _ in SHARP]
)
def test_it_finds_the_records_when_there_is_hardly_noise(attack, transcript, at) -> None:
    quiet = sl.Transcript(transcript.queries, noise=[1e-7] * transcript.outputs)
    found = attack.estimate(quiet, quiet.answers(at))
    truth = np.sort(at) if found.unlabeled else np.array(at)
    assert found.values[0] == pytest.approx(truth, abs=1e-5)
