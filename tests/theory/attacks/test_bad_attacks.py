"""Bad input: a clear error for each, and no record values in it."""

from __future__ import annotations

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidInput, InvalidNoise, Undecided
from tests.theory.attacks.attack_cases import EVERY_ATTACK, in_out, moments, triangle

IDS = [f"{type(attack).__name__}-{transcript.outputs}" for attack, transcript, _ in EVERY_ATTACK]


@pytest.mark.parametrize(("attack", "transcript", "at"), EVERY_ATTACK, ids=IDS)
class TestEveryAttackChecksItsAnswers:
    def test_the_wrong_number_of_them(self, attack, transcript, at) -> None:
        for shape in ((transcript.outputs + 1,), (5, 1), (2, 2, transcript.outputs), ()):
            with pytest.raises(InvalidInput, match=f"expected {transcript.outputs} answers"):
                attack.estimate(transcript, np.zeros(shape))

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_not_finite(self, attack, transcript, at, bad) -> None:
        answers = np.zeros((3, transcript.outputs))
        answers[1, 0] = bad
        with pytest.raises(InvalidInput, match="expected finite answers"):
            attack.estimate(transcript, answers)

    def test_no_trial(self, attack, transcript, at) -> None:
        with pytest.raises(InvalidInput, match="at least one trial"):
            attack.estimate(transcript, np.zeros((0, transcript.outputs)))

    def test_not_numbers(self, attack, transcript, at) -> None:
        with pytest.raises(InvalidInput, match="answers to be an array of numbers, got list"):
            attack.estimate(transcript, ["a"] * transcript.outputs)
        with pytest.raises(InvalidInput, match="answers as numbers, got dtype bool"):
            attack.estimate(transcript, np.zeros(transcript.outputs, dtype=bool))


class TestSettings:
    @pytest.mark.parametrize("box", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)])
    def test_a_box_without_an_inside(self, box) -> None:
        with pytest.raises(InvalidInput, match=r"a box \(low, high\) with low < high"):
            sl.ConstrainedMLE(box=box)

    @pytest.mark.parametrize("box", [5.0, (1.0, 2.0, 3.0), ("a", "b")])
    def test_not_a_box(self, box) -> None:
        with pytest.raises(InvalidInput, match=r"expected a box \(low, high\)"):
            sl.ConstrainedMLE(box=box)

    def test_a_prior_on_nothing(self) -> None:
        with pytest.raises(InvalidInput, match="finite width > 0"):
            sl.labeled.UniformPrior(1.0, 0.0)
        with pytest.raises(InvalidInput, match=r"a domain \(low, high\) of finite width > 0"):
            sl.labeled.CosineSquaredPrior(1.0, 0.0)

    def test_releases_that_state_no_bound_need_a_box(self) -> None:
        with pytest.raises(InvalidInput, match="releases that state no bound"):
            sl.ConstrainedMLE().estimate(triangle(), [0.0, 0.0, 0.0])

    @pytest.mark.parametrize("confidence", [0.0, 1.0, np.nan])
    def test_confidence(self, confidence) -> None:
        prior = sl.labeled.UniformPrior(0.0, 1.0)
        for build in (
            lambda: sl.Blue(confidence=confidence),
            lambda: sl.ConstrainedMLE(confidence=confidence),
            lambda: sl.attacks.LinearBayes(prior=prior, confidence=confidence),
            lambda: sl.reconstruct(triangle(), [0.0] * 3, confidence=confidence),
            lambda: sl.simulate(
                triangle(), attack=sl.Blue(), at=[0.0] * 3, domain=(0, 1), confidence=confidence
            ),
        ):
            with pytest.raises(InvalidInput, match="confidence between 0 and 1"):
                build()

    @pytest.mark.parametrize(
        ("build", "expected"),
        [
            (lambda: sl.ConstrainedMLE(grid_starts=-1), "grid_starts >= 0"),
            (lambda: sl.ConstrainedMLE(random_starts=-1), "random_starts >= 0"),
            (lambda: sl.ConstrainedMLE(grid_starts=0, random_starts=0), "at least one grid start"),
            (lambda: sl.ConstrainedMLE(steps=0), "steps >= 1"),
        ],
    )
    def test_counts(self, build, expected) -> None:
        with pytest.raises(InvalidInput, match=expected):
            build()


class TestTranscripts:
    @pytest.mark.parametrize(
        "attack",
        [
            sl.Blue(),
            sl.attacks.LinearBayes(prior=sl.labeled.UniformPrior(-1.0, 1.0)),
        ],
    )
    def test_a_linear_attack_on_releases_that_bend(self, attack) -> None:
        with pytest.raises(InvalidInput, match="linear releases for a linear attack, got 'release 2'"):
            attack.estimate(moments(1.0), [0.0, 0.0])

    def test_likelihood_of_laplace_noise(self) -> None:
        noise = sl.LaplaceNoise(scales=[1.0, 1.0])
        with pytest.raises(InvalidNoise, match="got Laplace noise"):
            sl.ConstrainedMLE().estimate(sl.Transcript(moments(1.0).queries, noise=noise), [0.0, 0.0])

    def test_inversion_needs_the_first_moments(self) -> None:
        queries = [sl.Moment(order=order, members=range(2), bound=1.0) for order in (1, 3)]
        with pytest.raises(InvalidInput, match=r"without moment \[2\]"):
            sl.attacks.MomentInversion().estimate(sl.Transcript(queries, noise=[1.0, 1.0]), [0.0, 0.0])

    def test_inversion_needs_one_group(self) -> None:
        queries = [
            sl.Moment(order=1, members=range(2), bound=1.0),
            sl.Moment(order=2, members=range(3), bound=1.0),
        ]
        with pytest.raises(InvalidInput, match="one group of scalar records"):
            sl.attacks.MomentInversion().estimate(sl.Transcript(queries, noise=[1.0, 1.0]), [0.0, 0.0])

    def test_a_target_that_is_not_there(self) -> None:
        prior = sl.labeled.UniformPrior(0.0, 1.0)
        with pytest.raises(InvalidInput, match="targets among records 0 to 3"):
            sl.attacks.LinearBayes(prior=prior, target=4).estimate(in_out(), [0.0, 0.0])
        with pytest.raises(InvalidInput, match="target among records 0 to 3"):
            sl.Blue(target=4).estimate(in_out(), [0.0, 0.0])

    def test_rows_that_do_not_decide(self) -> None:
        """A third column that is the sum of the others up to a part in ten billion."""
        queries = [
            sl.WeightedSum(members=[0, 1, 2], weights=weights, radius=1.0)
            for weights in ([1.0, 0.5, 1.5], [0.3, 1.1, 1.4], [0.7, 0.9, 1.6 + 1e-13])
        ]
        transcript = sl.Transcript(queries, noise=[1.0] * 3)
        with pytest.raises(Undecided, match="do not decide"):
            sl.Blue(target=[0, 2]).estimate(transcript, [0.0] * 3)
        with pytest.raises(Undecided, match="do not decide which records"):
            sl.Blue().estimate(transcript, [0.0] * 3)


GOOD = {"attack": sl.Blue(), "at": [0.0, 0.1, 0.2], "domain": (-1, 1)}


class TestSimulate:
    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"trials": 0}, "trials as a whole number >= 2"),
            ({"trials": 1}, "trials as a whole number >= 2"),
            ({"trials": 10.5}, "trials as a whole number >= 2"),
            ({"seed": -1}, "seed as a whole number >= 0"),
            ({"attack": "blue"}, "expected an attack, got str"),
            ({"domain": None}, "releases that state no bound"),
            ({"domain": (1, 0)}, "low < high"),
            ({"at": [[0.0, 0.1, 0.2]]}, "records of dimension 1"),
            ({"at": [0.0, np.nan, 0.2]}, "finite records"),
            ({"at": [0.0]}, "at least"),
        ],
    )
    def test_bad_settings(self, change, expected) -> None:
        with pytest.raises(InvalidInput, match=expected):
            sl.simulate(triangle(), **{**GOOD, **change})

    def test_progress_that_cannot_be_called(self) -> None:
        with pytest.raises(
            InvalidInput, match=r"progress to be a function of a stage .* got True; .* progress=print"
        ):
            sl.simulate(triangle(), **GOOD, progress=True)  # type: ignore[arg-type]

    def test_no_transcript(self) -> None:
        with pytest.raises(InvalidInput, match="at least one transcript"):
            sl.attacks.sweep({}, **GOOD)
        with pytest.raises(InvalidInput, match="transcripts to attack, got int"):
            sl.attacks.sweep({1: 2}, **GOOD)

    def test_nothing_to_attack(self) -> None:
        hidden = sl.Transcript([sl.SubsetMean(members=range(3), radius=1.0)], noise=[1.0])
        with pytest.raises(InvalidInput, match="none that is identifiable"):
            sl.simulate(hidden, **GOOD)


class TestReconstruct:
    def test_one_set_of_answers_at_a_time(self) -> None:
        with pytest.raises(InvalidInput, match="one set of answers"):
            sl.reconstruct(triangle(), np.zeros((2, 3)))

    def test_what_is_exposed_misses_nothing(self) -> None:
        found = sl.reconstruct(triangle(), np.zeros(3))
        with pytest.raises(InvalidInput, match="a hidden coordinate, got 1"):
            found.missing_direction(1)
