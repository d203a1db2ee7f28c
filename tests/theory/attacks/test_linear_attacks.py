"""Linear attacks against textbook formulas, SciPy and the labeled room."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.theory.attacks.blue import missing_directions
from tests.theory.attacks.attack_cases import in_out, noisy, triangle

RECORDS = (0.3, -0.2, 0.6)
CORRELATED = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, -0.02], [0.0, -0.02, 0.16]])
NOISES = {
    "independent": [0.2, 0.3, 0.4],
    "correlated": CORRELATED,
    "laplace": sl.LaplaceNoise(scales=[0.2, 0.3, 0.4]),
}


def designs() -> st.SearchStrategy[sl.Transcript]:
    """Random membership designs over six records, some of them exposed."""
    rows = st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=7)
    return rows.map(
        lambda sets: sl.Transcript(
            [sl.SubsetSum(members=sorted(members), radius=1.0) for members in sets],
            noise=np.linspace(0.5, 1.0, len(sets)),
        )
    )


def dense_rows(transcript: sl.Transcript) -> np.ndarray:
    return np.asarray(transcript.geometry().jacobian)


class TestBlue:
    @pytest.mark.parametrize("name", NOISES)
    def test_it_is_generalised_least_squares(self, name) -> None:
        transcript = triangle(NOISES[name])
        answers = noisy(transcript, RECORDS, 20)
        found = sl.Blue().estimate(transcript, answers)
        A, Sigma = dense_rows(transcript), transcript.law.covariance
        precision = np.linalg.inv(Sigma)
        covariance = np.linalg.inv(A.T @ precision @ A)
        textbook = answers @ (covariance @ A.T @ precision).T
        assert found.values == pytest.approx(textbook, abs=1e-12)
        errors = np.sqrt(np.diag(covariance))
        assert found.standard_errors == pytest.approx(np.tile(errors, (20, 1)), rel=1e-12)

    def test_repeated_in_and_out_are_block_means(self) -> None:
        transcript = in_out(4, copies=3)
        answers = noisy(transcript, [0.1, 0.2, 0.3, 0.4, 0.5], 10)
        found = sl.Blue().estimate(transcript, answers)
        closed = [sl.labeled.InOut(background=4).blue(row[:3], row[3:]) for row in answers]
        assert found.targets == (0,)
        assert found.values[:, 0] == pytest.approx(np.array(closed), abs=1e-12)

    @pytest.mark.parametrize("name", ["independent", "correlated"])
    def test_its_intervals_cover_as_often_as_they_say(self, name) -> None:
        """Binomial with 20,000 trials: 4.5 standard deviations, joint false-failure rate below 5e-5."""
        transcript = triangle(NOISES[name])
        found = sl.simulate(transcript, attack=sl.Blue(), at=RECORDS, domain=(-1, 1), trials=20_000, seed=4)
        assert np.max(np.abs(found.coverage - 0.95)) <= 4.5 * np.sqrt(0.95 * 0.05 / 20_000)
        assert np.max(np.abs(found.bias / found.bias_standard_errors)) < 4.5
        assert abs(found.mse - found.crb) < 4.5 * found.standard_error

    def test_laplace_intervals_are_never_too_narrow(self) -> None:
        transcript = triangle(NOISES["laplace"])
        found = sl.simulate(transcript, attack=sl.Blue(), at=RECORDS, domain=(-1, 1), trials=20_000)
        assert found.coverage.min() > 0.95
        # A linear attack on Laplace noise has twice the risk of the bound.
        assert found.ratio_to_crb == pytest.approx(2, abs=0.1)

    @settings(deadline=None, max_examples=60)
    @given(designs())
    def test_without_a_target_it_finds_exactly_the_identifiable_records(self, transcript) -> None:
        geometry = transcript.geometry()
        single = [geometry.profile(target=j) for j in range(geometry.records)]
        exposed = [j for j, exposure in enumerate(single) if exposure.identifiable]
        answers = np.linspace(-1, 1, transcript.outputs)
        found = sl.Blue().estimate(transcript, answers)
        assert list(found.targets) == exposed
        for j, value, error in zip(exposed, found.values[0], found.standard_errors[0], strict=True):
            assert value == pytest.approx(float((single[j].recipe @ answers)[0]), abs=1e-9)
            assert error == pytest.approx(single[j].rmse, rel=1e-9)

    @settings(deadline=None, max_examples=60)
    @given(designs())
    def test_what_it_cannot_see_is_shown(self, transcript) -> None:
        geometry = transcript.geometry()
        found = sl.reconstruct(transcript, np.zeros(transcript.outputs))
        rows = dense_rows(transcript)
        for j in found.hidden:
            direction = found.missing_direction(j)
            assert direction.moves[j] == 1 or direction.moves[j] > 0
            assert all(isinstance(move, Fraction) for move in direction.moves)
            assert np.all(rows @ np.array([float(move) for move in direction.moves]) == 0)
            with pytest.raises(sl.SightlineError, match="moving the records along"):
                sl.Blue(target=j).estimate(transcript, np.zeros(transcript.outputs))
        assert len(found.hidden) + len(found.exposed) == len(
            {j for query in transcript.queries for j in query.members.tolist()}
        )
        assert geometry.records >= len(found.hidden)

    def test_rows_that_are_not_whole_numbers_show_a_null_vector(self) -> None:
        queries = [
            sl.WeightedSum(members=[0, 1, 2], weights=[0.5, 1.25, 0.3], radius=1.0),
            sl.WeightedSum(members=[1, 2], weights=[0.75, 0.1], radius=1.0),
        ]
        transcript = sl.Transcript(queries, noise=[0.1, 0.1])
        found = sl.reconstruct(transcript, [0.0, 0.0])
        assert found.hidden == (0, 1, 2)
        for j in range(3):
            moves = np.array(found.missing_direction(j).moves)
            assert moves[j] == pytest.approx(1)
            assert dense_rows(transcript) @ moves == pytest.approx([0, 0], abs=1e-12)

    def test_an_identifiable_coordinate_misses_nothing(self) -> None:
        weighted = [
            sl.WeightedSum(members=[0, 1], weights=weights, radius=1.0)
            for weights in ([0.5, 0.3], [0.1, 0.7])
        ]
        for transcript in (triangle(), sl.Transcript(weighted, noise=[1.0, 1.0])):
            assert missing_directions(transcript.geometry(), 0) == []

    def test_vector_records(self) -> None:
        queries = [sl.SubsetMean(members=members, radius=1.0, dimension=2) for members in ([0, 1], [1])]
        transcript = sl.Transcript(queries, noise=[0.1] * 4)
        records = np.array([[1.0, 2.0], [3.0, 4.0]])
        found = sl.Blue(target=0).estimate(transcript, transcript.answers(records))
        assert found.targets == (0, 1)
        assert found.values[0] == pytest.approx([1.0, 2.0])
        simulated = sl.simulate(transcript, attack=sl.Blue(), at=records, domain=(0, 5), trials=500)
        assert simulated.targets == (0, 1, 2, 3)
        assert abs(simulated.mse - simulated.crb) < 4.5 * simulated.standard_error


class TestReconstruct:
    def test_every_exposed_record_comes_with_its_recipe(self) -> None:
        transcript = triangle()
        answers = noisy(transcript, RECORDS, 1)[0]
        found = sl.reconstruct(transcript, answers, confidence=0.9)
        for value, truth in zip(found.exposed, RECORDS, strict=True):
            assert value.value == pytest.approx(float(value.recipe @ answers), rel=1e-12)
            low, high = value.interval
            assert high - low == pytest.approx(2 * 1.6448536 * value.standard_error, rel=1e-6)
            assert float(value.recipe @ transcript.answers(RECORDS)) == pytest.approx(truth)
        assert str(found).startswith("Blue: 3 exposed, 0 hidden\n  x0 = ")

    def test_a_multiset_has_no_recipe_and_no_names(self) -> None:
        queries = [sl.Moment(order=order, members=range(2), bound=1.0) for order in (1, 2)]
        transcript = sl.Transcript(queries, noise=[0.01, 0.01])
        found = sl.reconstruct(transcript, transcript.answers([0.7, -0.4]))
        assert found.unlabeled
        assert [value.label for value in found.exposed] == ["x(1)", "x(2)"]
        assert [value.value for value in found.exposed] == pytest.approx([-0.4, 0.7])
        crb = transcript.geometry(at=[-0.4, 0.7]).profile(target=[0, 1]).covariance
        errors = [value.standard_error for value in found.exposed]
        assert errors == pytest.approx(np.sqrt(np.diag(crb)), rel=1e-6)
        assert all(value.recipe is None for value in found.exposed)


class TestLinearBayes:
    @pytest.mark.parametrize("name", NOISES)
    def test_it_is_the_textbook_formula(self, name) -> None:
        transcript = triangle(NOISES[name])
        prior = sl.labeled.UniformPrior(-1.0, 3.0)
        answers = noisy(transcript, RECORDS, 10)
        A, Sigma = dense_rows(transcript), transcript.law.covariance
        v, mu = prior.variance, prior.mean
        gain = v * A.T @ np.linalg.inv(v * A @ A.T + Sigma)
        found = sl.attacks.LinearBayes(prior=prior).estimate(transcript, answers)
        assert found.values == pytest.approx(mu + (answers - mu * A.sum(axis=1)) @ gain.T, abs=1e-12)
        risks = np.diag(v * np.eye(3) - gain @ A * v)
        assert found.standard_errors[0] == pytest.approx(np.sqrt(risks), rel=1e-10)

    @pytest.mark.slow
    def test_its_simulated_risk_is_the_upper_end_of_the_bracket(self) -> None:
        prior = sl.labeled.CosineSquaredPrior(-1.0, 1.0)
        for transcript in (triangle(), in_out(3)):
            found = sl.simulate(
                transcript, attack=sl.attacks.LinearBayes(prior=prior), at=prior, trials=20_000
            )
            assert abs(found.mse - found.bayes_upper) < 4.5 * found.standard_error
            assert found.bayes_lower < found.bayes_upper
            low, high = found.ratio_to_bayes
            assert high < 1.05 < low
            assert "Bayes bracket" in str(found)

    def test_the_bracket_agrees_with_the_labeled_room(self) -> None:
        prior = sl.labeled.CosineSquaredPrior(0.0, 1.0)
        rows = [[0, 1, 2, 3], [1, 2, 3], [0, 4], [2, 4, 5]]
        stddevs = [0.05, 0.1, 0.02, 0.2]
        transcript = sl.Transcript([sl.SubsetMean(members=r, radius=1.0) for r in rows], noise=stddevs)
        bracket = sl.attacks.bayes_bracket(transcript, prior=prior)
        exposures = sl.MembershipDesign(rows, records=6, noise=stddevs).exposures(prior=prior)
        assert bracket.upper == pytest.approx(exposures.remaining_upper * prior.variance, rel=1e-9)
        # The labeled room knows further lower bounds; its own is never below van Trees.
        assert np.all(bracket.lower <= exposures.remaining_lower * prior.variance * (1 + 1e-9))

    def test_a_record_that_no_answer_touches_keeps_its_prior(self) -> None:
        transcript = sl.Transcript([sl.SubsetSum(members=[0, 2], radius=1.0)], noise=[0.1])
        found = sl.attacks.LinearBayes(prior=sl.labeled.UniformPrior(0.0, 4.0), target=1).estimate(
            transcript, [9.0]
        )
        assert found.values.tolist() == [[2.0]]
        assert found.standard_errors[0, 0] == pytest.approx(np.sqrt(16 / 12))

    def test_without_a_smooth_prior_there_is_no_lower_bound(self) -> None:
        bracket = sl.attacks.bayes_bracket(
            triangle(), prior=sl.labeled.UniformPrior(-1.0, 1.0), target=[0, 2]
        )
        assert bracket.lower.tolist() == [0.0, 0.0]
