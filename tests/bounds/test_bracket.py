"""Both ends of the remaining uncertainty around exact Bayes risks: three priors, three kinds of noise."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.bounds.priors import CosineSquaredPrior, TwoPointPrior, UniformPrior
from sightline.errors import InvalidInput
from sightline.units.target import Seen, information_behind
from tests.bounds.brute_force import PRIORS, Small, exact_share, law, seen_of
from tests.numbered_cases import trials

COSINE = PRIORS[1]
NOISES = ("gaussian", "laplace", "mixed")


def random_design(generator: np.random.Generator, noise: str) -> Small:
    records = int(generator.integers(1, 4))
    lines = 2 if noise == "mixed" else int(generator.integers(1, 3))
    if noise != "gaussian" and lines == 2:
        records = min(records, 2)  # kinks want a fine quadrature, which two answers about three cannot have
    rows = generator.choice([0.0, 1.0, 1.0, 2.0, -1.0, 0.5], size=(lines, records))
    if records > 1 and generator.random() < 0.4:
        rows[:, 1] = rows[:, 0]  # two that nothing tells apart
    rows[np.all(rows == 0, axis=1), 0] = 1.0
    laplace = {"gaussian": [False] * lines, "laplace": [True] * lines, "mixed": [True, False]}[noise]
    scales = 10 ** generator.uniform(-0.9 if noise == "gaussian" else -0.6, 0.5, lines)
    return Small(rows=rows, scales=scales, laplace=np.array(laplace))


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False], ids=["others alike", "others cos2"])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.name)
def test_the_best_attack_is_inside(prior, noise, own) -> None:
    generator = np.random.default_rng([PRIORS.index(prior), NOISES.index(noise), own])
    others = prior if own else COSINE
    smooth = noise == "gaussian"
    grids = (
        (((20, 130), (28, 180)), ((11, 110), (15, 150)))
        if smooth
        else (((20, 200), (28, 290)), ((14, 200), (20, 290)))
    )
    for _ in trials(20):
        small = random_design(generator, noise)
        seen = seen_of(small, target=prior, others=others)
        lower, upper = prior.lower(seen), prior.upper(seen)
        records = small.rows.shape[1]
        for j in range(records):
            risks = []
            for nodes, answers in grids[records == 3]:
                laws = [
                    law(prior if k == j else others, nodes if k != j else nodes + 1) for k in range(records)
                ]
                risks.append(exact_share(small, j, laws, answers))
            # What doubling the quadrature moves. Laplace noise has kinks, where it converges slowly.
            error = 3 * abs(risks[1] - risks[0]) + 1e-8
            assert error < (1e-4 if smooth else 3e-2)
            assert lower[j] <= risks[1] + error
            assert risks[1] <= upper[j] + error


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.name)
class TestEveryPrior:
    @pytest.mark.slow
    def test_the_bracket_is_ordered_and_within_zero_and_one(self, prior) -> None:
        generator = np.random.default_rng(5)
        for noise in NOISES:
            for _ in range(100):
                small = random_design(generator, noise)
                small = Small(
                    rows=small.rows,
                    scales=small.scales * 10 ** generator.uniform(-4, 4),
                    laplace=small.laplace,
                )
                for others in {prior.name: prior, "cos2": COSINE}.values():
                    seen = seen_of(small, target=prior, others=others)
                    lower, upper = prior.lower(seen), prior.upper(seen)
                    assert np.all((lower >= 0) & (lower <= upper) & (upper <= 1))

    def test_a_record_that_no_release_touches_keeps_everything(self, prior) -> None:
        nothing = np.zeros(2)
        seen = Seen(
            information=nothing, linear_information=nothing, hidden_information=nothing, precision=12.0
        )
        assert prior.lower(seen).tolist() == prior.upper(seen).tolist() == [1.0, 1.0]

    def test_more_information_never_leaves_more(self, prior) -> None:
        information = np.geomspace(1e-6, 1e7, 4001)
        for answers in (0.0, 1.0, 3.0):
            seen = Seen(
                information=information,
                linear_information=information / (1 if answers == 0 else 2),
                laplace_answers=np.full(information.size, answers),
                laplace_information=information if answers else 0 * information,
            )
            assert np.all(np.diff(prior.lower(seen)) <= 1e-12)
            assert np.all(np.diff(prior.upper(seen)) <= 0)

    def test_units_cancel(self, prior) -> None:
        wide = type(prior)(0.0, 1000.0)
        small = Small(
            rows=np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]),
            scales=np.array([0.1, 0.2]),
            laplace=np.zeros(2, bool),
        )
        large = Small(rows=small.rows, scales=small.scales * 1000, laplace=small.laplace)
        one, other = seen_of(small, target=prior, others=prior), seen_of(large, target=wide, others=wide)
        assert np.allclose(prior.lower(one), wide.lower(other), rtol=1e-9)
        assert np.allclose(prior.upper(one), wide.upper(other), rtol=1e-9)

    def test_a_domain_has_a_width(self, prior) -> None:
        for width in (0.0, -1.0, float("nan"), float("inf")):
            with pytest.raises(InvalidInput, match="finite width > 0"):
                type(prior)(0.0, width)


def one_value(noise: float) -> Seen:
    information = np.array([noise**-2])
    return Seen(information=information, linear_information=information)


def test_one_value_with_noise_of_a_third_of_the_range() -> None:
    seen = one_value(0.35)
    ends = {p.name: (float(p.lower(seen)[0]), float(p.upper(seen)[0])) for p in PRIORS}
    assert ends["uniform"] == (pytest.approx(0.587, abs=5e-4), pytest.approx(0.595, abs=5e-4))
    assert ends["two-point"][0] == pytest.approx(0.225, abs=5e-4)
    assert ends["cos2"] == (pytest.approx(0.789, abs=5e-4), pytest.approx(0.789, abs=1e-3))


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.name)
def test_a_pair_whose_sum_is_known_keeps_half(prior) -> None:
    small = Small(rows=np.array([[1.0, 1.0]]), scales=np.array([1e-6]), laplace=np.array([False]))
    seen = seen_of(small, target=prior, others=prior)
    # r²/24 for a uniform value, exactly: half the prior variance whatever the prior.
    assert np.allclose(prior.lower(seen), 0.5, atol=1e-9)
    assert np.allclose(prior.upper(seen), 0.5, atol=1e-6)


def test_the_same_information_leaves_a_coin_least_and_cos2_most() -> None:
    information = np.geomspace(1e-3, 2e3, 500)
    seen = Seen(information=information, linear_information=information)
    coin, uniform, cosine = (
        p.lower(seen) for p in (TwoPointPrior(0, 1), UniformPrior(0, 1), CosineSquaredPrior(0, 1))
    )
    assert np.all(coin <= uniform)
    assert np.all(uniform <= cosine)


def test_nothing_is_capped_where_little_is_learned() -> None:
    seen = one_value(30.0)
    assert all(p.lower(seen)[0] > 0.999 for p in PRIORS)


def test_the_information_behind_a_risk_is_the_schur_complement() -> None:
    small = Small(
        rows=np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]]),
        scales=np.array([0.3, 0.2]),
        laplace=np.zeros(2, bool),
    )
    G = small.whitened.T @ small.whitened
    risk = np.diagonal(np.linalg.inv(G + 12 * np.eye(3)))
    seen = seen_of(small, target=PRIORS[0], others=PRIORS[0])
    assert np.allclose(information_behind(risk, 12.0), seen.linear_information, rtol=1e-9)


def test_the_group_information_undoes_what_the_group_hides() -> None:
    rows = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    small = Small(rows=rows, scales=np.array([0.3, 0.2]), laplace=np.zeros(2, bool))
    prior = PRIORS[0]
    seen = seen_of(small, target=prior, others=prior)
    alone = Small(rows=rows[:, [0, 3]], scales=small.scales, laplace=small.laplace)
    G = alone.whitened.T @ alone.whitened
    c = prior.precision(np.array([seen.information[3]]))[0]
    expected = G[0, 0] - G[0, 1] ** 2 / (G[1, 1] + c)
    assert seen.group_information()[0] == pytest.approx(expected, rel=1e-6)
    assert seen.group_information()[0] >= expected
