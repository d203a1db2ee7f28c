"""The prior of a population: its bounds against quadrature over fine grids of values and answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sightline.bounds.by_pairs import Bin, PopulationPrior
from sightline.errors import InvalidInput
from sightline.units.target import Seen
from tests.bounds.brute_force import exact_share, seen_of
from tests.bounds.fuzz_brackets import kinks, random_design
from tests.numbered_cases import trials

POPULATIONS: dict[str, tuple[Bin, ...]] = {
    "bins": ((0.0, 2.0, 3.0), (2.0, 10.0, 1.0)),
    "values": ((0.0, 0.0, 1.0), (1.0, 1.0, 5.0), (4.0, 4.0, 2.0), (10.0, 10.0, 1.0)),
    "both": ((0.0, 3.0, 5.0), (3.0, 3.0, 2.0), (5.0, 9.0, 3.0)),
    "a gap": ((0.0, 0.5, 1.0), (9.0, 10.0, 1.0)),
}


@pytest.fixture(params=POPULATIONS, ids=str)
def prior(request: pytest.FixtureRequest) -> PopulationPrior:
    return PopulationPrior(0.0, 10.0, bins=POPULATIONS[request.param], source="population.csv")


def grid(prior: PopulationPrior, each: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Values and chances: the middles of many parts of every bin."""
    total = sum(weight for _, _, weight in prior.bins)
    values, chances = [], []
    for low, high, weight in prior.bins:
        count = each if high > low else 1
        values.append(low + (high - low) * (np.arange(count) + 0.5) / count)
        chances.append(np.full(count, weight / total / count))
    return np.concatenate(values), np.concatenate(chances)


def posterior(prior: PopulationPrior, laws: str, stddev: float) -> tuple[float, float]:
    """What remains, and the nats that are told, by quadrature: one answer for each letter, g or l."""
    values, chances = grid(prior, 120 if len(laws) == 1 else 30)
    reach = np.linspace(-9 * stddev, 10 + 9 * stddev, 4_001 if len(laws) == 1 else 121)
    points = np.stack([one.ravel() for one in np.meshgrid(*[reach] * len(laws))], axis=1)
    log = np.zeros((len(points), values.size))
    for place, law in enumerate(laws):
        away = np.abs(points[:, [place]] - values) / stddev
        log -= away**2 / 2 if law == "g" else math.sqrt(2) * away
    evidence = np.exp(log)
    evidence /= evidence.sum(axis=0)  # the grid's own normal
    joint = evidence * chances
    total = joint.sum(axis=1)
    fine = total > 0
    mean = joint[fine] @ values / total[fine]
    risk = chances @ values**2 - total[fine] @ mean**2
    with np.errstate(divide="ignore", invalid="ignore"):
        nats = np.nansum(joint * np.log(evidence / total[:, None]))
    return float(risk / (chances @ values**2 - (chances @ values) ** 2)), float(nats)


def seen_through(laws: str, stddev: float) -> Seen:
    each = {"g": stddev**-2, "l": 2 * stddev**-2}
    laplace = sum(each[law] for law in laws if law == "l")
    return Seen(
        information=np.array([sum(each[law] for law in laws)]),
        linear_information=np.array([len(laws) * stddev**-2]),
        laplace_answers=float(laws.count("l")),
        laplace_information=laplace,
    )


@pytest.mark.parametrize("stddev", [0.7, 2.0, 6.0, 25.0])
@pytest.mark.parametrize("laws", ["g", "l"])
def test_the_exact_risk_is_between_the_ends(prior: PopulationPrior, laws: str, stddev: float) -> None:
    exact, nats = posterior(prior, laws, stddev)
    seen = seen_through(laws, stddev)
    lower, upper = float(prior.lower(seen)[0]), float(prior.upper(seen)[0])
    assert 0 < lower <= exact + 1e-6
    assert exact <= upper + 1e-4  # the grid's own error
    assert float(prior.lower_by_nats(np.array([nats]))[0]) <= exact + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("laws", ["gg", "ll", "gl"])
def test_so_it_is_behind_two_answers(prior: PopulationPrior, laws: str) -> None:
    for stddev in (1.5, 6.0):
        exact, _ = posterior(prior, laws, stddev)
        seen = seen_through(laws, stddev)
        assert float(prior.lower(seen)[0]) <= exact + 1e-4
        assert exact <= float(prior.upper(seen)[0]) + 3e-3  # the grid's own error


def test_the_bound_by_pairs_is_the_mean_over_all_pairs(prior: PopulationPrior) -> None:
    """Parts and gathered squares lose little, and never give more."""
    values, chances = grid(prior, 400)
    squares = np.square(values[:, None] - values)
    weights = np.outer(chances, chances) * squares
    assert weights.sum() / 2 == pytest.approx(prior.variance, rel=1e-4)
    weight, square = map(np.array, prior.distances())
    assert weight.sum() == pytest.approx(1)
    for information in (0.01, 0.3, 2.0):
        exact = np.sum(weights * np.exp(-information * squares / 4)) / weights.sum()
        found = weight @ np.exp(-information * square / 4)
        assert 0.98 * exact <= found <= exact * (1 + 1e-3)  # the grid's own error


def test_records_alike_hide_each_other(prior: PopulationPrior) -> None:
    """The sum of three is seen: what remains of one of them, by quadrature over all three."""
    bins = tuple((low, low, weight) for low, _, weight in prior.bins)
    few = PopulationPrior(0.0, 10.0, bins=bins)
    values, chances = grid(few)
    worlds = np.stack([one.ravel() for one in np.meshgrid(values, values, values)], axis=1)
    weight = np.prod(np.meshgrid(chances, chances, chances), axis=0).ravel()
    answers = np.linspace(-12, 42, 2_001)
    evidence = weight * np.exp(-np.square(answers[:, None] - worlds.sum(axis=1)) / 8)
    total = evidence.sum(axis=1)
    mean = evidence @ worlds[:, 0] / total
    risk = weight @ worlds[:, 0] ** 2 - (total / total.sum()) @ mean**2
    seen = Seen(
        information=np.array([0.25]),
        linear_information=np.array([1 / (4 + 2 * few.variance)]),
        alike=3.0,
    )
    assert 2 / 3 < few.lower(seen)[0] <= risk / few.variance + 1e-9
    assert risk / few.variance <= few.upper(seen)[0] + 1e-9


def test_a_bin_is_a_uniform_value_if_the_noise_is_far_smaller() -> None:
    prior = PopulationPrior(0.0, 10.0, bins=((0.0, 5.0, 1.0), (5.0, 10.0, 1.0)))
    seen = Seen(information=np.array([1e4]), linear_information=np.array([1e4]))
    assert prior.lower(seen)[0] == pytest.approx(1e-4 / prior.variance, rel=0.02)


def test_draws_have_its_moments(prior: PopulationPrior) -> None:
    drawn = prior.sample((300, 400), generator=np.random.default_rng(5))
    assert drawn.mean() == pytest.approx(prior.mean, abs=0.05)
    assert drawn.var() == pytest.approx(prior.variance, rel=0.02)
    inside = [(low <= drawn) & (drawn <= high) for low, high, _ in prior.bins]
    assert np.all(np.any(inside, axis=0))


def test_the_proxy_bounds_all_exponential_moments(prior: PopulationPrior) -> None:
    values, chances = grid(prior)
    for slope in (-2.0, -0.3, 0.1, 1.0):
        moment = math.log(chances @ np.exp(slope * (values - chances @ values)))
        assert moment <= slope**2 * prior.proxy * prior.variance / 2 + 1e-12


@pytest.mark.parametrize(
    "bins",
    [((0.0, 1.0, 1.0),), ((0.0, 1.0, 1.0), (1.0, 11.0, 1.0)), ((0.0, 1.0, 1.0), (1.0, 2.0, -1.0))],
    ids=["one", "outside", "negative"],
)
def test_bins_that_are_none(bins: tuple[Bin, ...]) -> None:
    with pytest.raises(InvalidInput, match="two bins or more"):
        PopulationPrior(0.0, 10.0, bins=bins)


def drawn_population(generator: np.random.Generator) -> PopulationPrior:
    """Two to four bins between 0 and 1/2, some of them single values."""
    count = int(generator.integers(2, 5))
    ends = np.sort(generator.uniform(0, 0.5, 2 * count))
    single = generator.random(count) < 0.4
    bins = [
        (float(low), float(low if one else high), float(generator.integers(1, 9)))
        for low, high, one in zip(ends[::2], ends[1::2], single, strict=True)
    ]
    return PopulationPrior(0.0, 0.5, bins=tuple(bins))


def nodes_of(prior: PopulationPrior, each: int) -> tuple[np.ndarray, np.ndarray]:
    """A quadrature of its bins, moved so that its mean is 0."""
    places, masses = np.polynomial.legendre.leggauss(each)
    total = sum(weight for _, _, weight in prior.bins)
    values, chances = [], []
    for low, high, weight in prior.bins:
        values.append((low + high) / 2 + (high - low) / 2 * places if high > low else np.array([low]))
        chances.append(weight / total * (masses / 2 if high > low else np.ones(1)))
    return np.concatenate(values) - prior.mean, np.concatenate(chances)


def check_random_design(seed: int) -> int:
    """Every record of a random design under a random population; how many were compared."""
    generator = np.random.default_rng([27, seed])
    noise = ("gaussian", "laplace", "mixed")[seed % 3]
    small, prior, compared = random_design(generator, noise), drawn_population(generator), 0
    seen = seen_of(small, target=prior, others=prior)
    lower, upper = prior.lower(seen), prior.upper(seen)
    records, smooth = small.rows.shape[1], noise == "gaussian"
    for j in range(records):
        points = 160 if smooth else (1_600 if len(small.rows) == 1 else 240)
        risks = [
            exact_share(small, j, [nodes_of(prior, each)] * records, answers)
            for each, answers in ((4, points), (6, points * 3 // 2))
        ]
        error = 3 * abs(risks[1] - risks[0]) + 1e-7 + kinks(small, points)
        if error > 2e-2:
            continue
        compared += 1
        assert lower[j] <= risks[1] + error, (seed, j, lower[j], risks)
        assert risks[1] <= upper[j] + error, (seed, j, upper[j], risks)
    return compared


@pytest.mark.slow
def test_random_designs_under_random_populations() -> None:
    """Weights of both signs, records alike, Gaussian, Laplace and mixed noise, against quadrature."""
    cases = trials(24)
    assert sum(check_random_design(seed) for seed in cases) > 5 / 6 * len(cases)
