"""All genies at once, against quadrature, listed worlds, and rows that are listed one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sightline.arrays import FloatArray
from sightline.bounds.assessment import assess
from sightline.bounds.coin import CoinPrior, coin_risk
from sightline.bounds.few_values import FewValues
from sightline.bounds.genies import TERMS, Genies
from sightline.bounds.priors import TwoPointPrior
from sightline.noise.laws import CorrelatedNoise
from sightline.units.design import Design
from sightline.units.member_rows import _numbered
from sightline.units.units import Units
from tests.bounds.enumerated_worlds import few
from tests.units.unit_designs import design_of


def genies_of(columns: np.ndarray, share: float = 0.5, counts: np.ndarray | None = None) -> Genies:
    """Of yes or no, from numbers × kinds over the noise."""
    kinds = columns.shape[1]
    return Genies(
        columns=np.stack([0 * columns.T, columns.T], axis=1),
        chances=np.array([1 - share, share]),
        counts=np.ones(kinds) if counts is None else counts,
        usable=np.ones((kinds, 2, 2)),
    )


def by_genies(design: Design) -> np.ndarray:
    """Units × values asked: by all genies at once alone."""
    few_rows = FewValues.of_design(design)
    assert few_rows is not None
    return few_rows.by_genies(np.ones(len(few_rows.kinds), dtype=bool))[few_rows.person]


def logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


@pytest.mark.parametrize("share", [0.5, 0.13])
@pytest.mark.parametrize(("first", "second"), [(0.4, 1.7), (3.0, 3.0), (6.0, 0.2)])
def test_products_of_two_genies_are_integrals(share: float, first: float, second: float) -> None:
    """C of two rows by quadrature over both noises, and all four pairs of values."""
    t, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()
    for rho in (-0.9, 0.3, 0.95):
        columns = np.array(
            [[math.sqrt(first), rho * math.sqrt(second)], [0.0, math.sqrt((1 - rho**2) * second)]]
        )
        odds, expected = math.log(share / (1 - share)), 0.0
        z, v = t[:, None], rho * t[:, None] + math.sqrt(1 - rho**2) * t
        for one, p in ((0, 1 - share), (1, share)):
            for other, q in ((0, 1 - share), (1, share)):
                u = one - logistic(odds + (one - 0.5) * first + math.sqrt(first) * z)
                s = other - logistic(odds + (other - 0.5) * second + math.sqrt(second) * v)
                expected += p * q * float(np.sum(w[:, None] * w * u * s))
        genies = genies_of(columns, share)
        assert genies._between[0][0, 1] == pytest.approx(expected, abs=1e-9)
        variance = share * (1 - share)
        for place, information in enumerate((first, second)):
            assert genies.left_alone[place] == pytest.approx(
                variance * coin_risk(information, share=share), rel=1e-10
            )


@pytest.mark.slow
@pytest.mark.parametrize("values", [2, 3, 4])
def test_never_above_the_integrated_risk(values: int) -> None:
    closest = []
    for seed in range(8):
        generator = np.random.default_rng([values, seed])
        noise = float(np.exp(generator.uniform(np.log(0.6), np.log(2))))
        one = few(generator, rows=int(generator.integers(2, 6)), values=values, noise=noise, most=1)
        if len(one.counted) > 2:  # two answers are integrated
            keep = generator.choice(len(one.counted), 2, replace=False)
            one = type(one)(
                counted=one.counted[keep],
                scales=one.scales[keep],
                laplace=one.laplace[keep],
                exact=one.exact[keep],
            )
        exact, design = one.integrated(120), one.design()
        lower = by_genies(design)
        truth = exact[:, -lower.shape[1] :]
        assert np.all(lower[design.place] <= truth + 1e-6)
        seen = np.any(one.counted != 0, axis=(0, 2))
        closest.append(float(np.min((lower[design.place] / truth)[seen])))
    assert np.median(closest) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "mixed"])
@pytest.mark.parametrize("values", [2, 3])
def test_never_above_listed_worlds(values: int, law: str) -> None:
    """Rows, and persons with some of them; exact numbers and Laplace noise must not change."""
    for seed in range(30):
        generator, draws = np.random.default_rng([values, seed, len(law)]), 3_000
        noise = float(np.exp(generator.uniform(np.log(0.3), np.log(3))))
        rows = int(generator.integers(3, 10 if values == 2 else 7))
        one = few(generator, rows=rows, values=values, noise=noise, law=law, exact=seed % 3 == 0)
        risk, error = one.simulated(draws, generator)
        design = one.design()
        lower = by_genies(design)[design.place]
        truth = (risk + 6 * error + 48 / draws)[:, -lower.shape[1] :]
        assert np.all(lower <= truth)
        owner = np.unique(np.sort(generator.integers(0, 3, rows)), return_inverse=True)[1]
        persons = one.of_persons(owner)
        lower = by_genies(persons)
        left = one.sharpest(owner, draws, generator)[:, -lower.shape[1] :]
        assert np.all(lower <= left + 6 * np.sqrt(left / draws) + 48 / draws)


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_rows_alike_are_as_rows_that_are_listed(share: float) -> None:
    generator = np.random.default_rng(3)
    columns = 0.4 * generator.normal(size=(4, 3))
    counts = np.array([3, 2, 1])
    together = genies_of(columns, share, counts.astype(float))
    apart = genies_of(np.repeat(columns, counts, axis=1), share)
    assert together.of_rows(1) == pytest.approx(apart.of_rows(1)[[0, 3, 5]], abs=1e-9)
    two = together.of_persons(1, np.array([[0, 1]]), np.array([[2, 1]]))
    assert two == pytest.approx(apart.of_persons(1, np.array([[0, 1, 3]]), np.array(1)), abs=1e-8)
    three = together.of_persons(1, np.array([[0]]), np.array([[3]]))
    assert three == pytest.approx(apart.of_persons(1, np.array([[0, 1, 2]]), np.array(1)), abs=1e-8)


def test_of_much_noise_nothing_is_lost() -> None:
    """As close to the best linear attack as noise is Gaussian: 1,000 people, the table of the theory page."""
    generator = np.random.default_rng(1)
    columns = np.zeros((120, 400))
    columns[generator.integers(0, 30, (4, 400)) + 30 * np.arange(4)[:, None], np.arange(400)] = 1 / 3.09
    linear = np.diagonal(np.linalg.inv(np.eye(400) + columns.T @ columns / 4))
    found = genies_of(columns).of_rows(1)
    assert np.all(found <= linear)
    assert np.all(found > 0.998 * linear)


def test_one_row_alone_keeps_the_scalar_risk() -> None:
    for information in (0.01, 1.0, 20.0, 150.0):
        found = genies_of(np.array([[math.sqrt(information)]])).of_rows(1)
        assert found[0] == pytest.approx(coin_risk(information), rel=1e-7)
    assert genies_of(np.array([[math.sqrt(250.0)]])).of_rows(1)[0] == 0.0  # too much is told for a genie


def test_an_inexact_inverse_only_weakens(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(8)
    columns = generator.normal(size=(5, 12))
    exact = genies_of(columns).of_rows(1)
    genies = genies_of(columns)
    factor = genies._factor[0] * (1 + 0.02 * generator.normal(size=(12, 12)))
    genies.__dict__["_factor"] = (factor, True)
    assert np.all(genies.of_rows(1) <= exact * (1 + 1e-12))
    assert np.any(genies.of_rows(1) < exact * 0.9999)


def test_the_rest_of_the_series_is_added() -> None:
    """Of twins that noise tells well, the series converges slowly: what is left out is on the diagonal."""
    genies = genies_of(np.full((1, 2), math.sqrt(60.0)))
    total, error = genies._between
    t = np.linspace(-12, 12, 40_001)
    w = np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) * (t[1] - t[0])
    mean = (logistic(-30 - math.sqrt(60) * t) - logistic(-30 + math.sqrt(60) * t)) / 2
    exact = float(np.sum(w * mean**2))
    assert abs(exact - total[0, 1]) <= error[0, 1]
    assert abs(exact - total[0, 1]) > 1e-3 * error[0, 1]
    assert TERMS == 48


@pytest.mark.parametrize("prior", [TwoPointPrior(0.0, 1.0), CoinPrior(share=0.2)])
def test_strangers_change_nothing(prior: TwoPointPrior | CoinPrior) -> None:
    """90 people in releases of their own change nobody's number."""
    generator = np.random.default_rng(5)
    table = (generator.random((6, 14)) < 0.5).astype(float)
    table[0] = 1.0
    wide = np.zeros((51, 104))
    wide[:6, :14] = table
    for release in range(45):
        wide[6 + release, 14 + 2 * release : 16 + 2 * release] = 1.0
    alone, among = (design_of(one, np.full(len(one), 0.8), prior) for one in (table, wide))
    own, other = (by_genies(design)[design.place] for design in (alone, among))
    assert np.all(own > 0.1)
    assert other[:14] == pytest.approx(own, abs=1e-12)


def test_noise_that_numbers_share() -> None:
    """A covariance is as good as its whitened rows."""
    generator = np.random.default_rng(9)
    table = (generator.random((5, 8)) < 0.6).astype(float)
    mixing = generator.normal(size=(5, 5)) + 3 * np.eye(5)
    design = design_of(table, CorrelatedNoise(blocks=[mixing @ mixing.T / 9]), TwoPointPrior(0.0, 1.0))
    units = design.units
    assert isinstance(units, Units)
    lower = by_genies(design)[design.place, 0]
    expected = genies_of(np.linalg.solve(mixing / 3, table)).of_rows(1)
    assert lower == pytest.approx(expected, abs=1e-8)


def test_too_many_kinds_for_one_system_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others count as known: lower than all together, no lower than alone."""
    generator = np.random.default_rng(2)
    table = np.zeros((24, 60))
    table[generator.integers(0, 8, (3, 60)) + 8 * np.arange(3)[:, None], np.arange(60)] = 1.0
    design = design_of(table, np.full(24, 1.2), TwoPointPrior(0.0, 1.0))
    together = by_genies(design)
    monkeypatch.setattr("sightline.bounds.few_values._MOST_GENIES", 20)
    apart = by_genies(design)
    alone = coin_risk(3 / 1.44)
    assert np.all(apart <= together + 1e-9)
    assert np.any(apart < together - 1e-3)
    assert np.all(apart >= alone - 1e-8)
    assert assess(design).least >= float(apart.min())


def test_a_person_connects_their_rows() -> None:
    """Two rows in different numbers are one component: the sharpest feature is of both."""
    generator = np.random.default_rng(1)
    one = few(generator, rows=6, values=2, noise=1.0, most=1)
    design = one.of_persons(np.array([0, 0, 1, 1, 2, 2]))
    units = design.units
    assert isinstance(units, Units)
    parts = FewValues.of(design, units)
    for kinds in parts.kinds:
        assert len({int(parts.rows.component[kind]) for kind in kinds if kind >= 0}) == 1


def test_rows_that_no_number_connects_have_systems_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One system for all rows of a person says the same, and so do persons who are taken a few at a time."""
    generator = np.random.default_rng(7)
    first = few(generator, rows=24, values=2, noise=1.0, most=1)
    design = first.of_persons(np.repeat(np.arange(12), 2))
    values = FewValues.of_design(design)
    assert values is not None
    assert np.unique(values.rows.by_numbers).size > np.unique(values.rows.component).size
    apart = by_genies(design)
    monkeypatch.setattr("sightline.bounds.few_values._ENTRIES", 1)
    assert np.array_equal(by_genies(design), apart)
    monkeypatch.setattr(type(values.rows), "by_numbers", values.rows.component)
    assert by_genies(design) == pytest.approx(apart, abs=1e-9)


def test_fingerprints_that_all_differ_are_kinds_in_order() -> None:
    """A table without equal columns takes the short way, and ends as the long one."""
    keys = np.random.default_rng(3).integers(1 << 62, size=(2, 50), dtype=np.uint64)
    assert np.array_equal(_numbered(keys), np.arange(50))
    twice = np.concatenate([keys, keys[:, ::-1]], axis=1)
    assert np.array_equal(_numbered(twice), np.concatenate([np.arange(50), np.arange(50)[::-1]]))


@pytest.mark.parametrize("values", [2, 3, 4])
@pytest.mark.parametrize("several", [False, True])
def test_slopes_are_the_differences_of_the_bounds(values: int, several: bool) -> None:
    generator = np.random.default_rng(values)
    table = (generator.random((5, values, 8)) < 0.4).astype(np.float64)
    table[:, 0] = 0.0
    table[-1] = table[0]
    chances = generator.random(values) + 0.3
    chances /= chances.sum()
    counts = generator.integers(1, 4, 5) + 3.0 * several
    kinds = np.array([[0, 1], [2, 4], [3, 0]]) if several else np.arange(5)[:, None]
    times = generator.integers(1, 4, kinds.shape) if several else np.ones_like(kinds)
    precision, step = np.exp(generator.normal(size=8) / 2), 1e-5

    def at(moved: FloatArray) -> Genies:
        return Genies(
            columns=table * np.sqrt(precision * np.exp(moved)),
            chances=chances,
            counts=counts,
            usable=np.ones((5, values, values)),
        )

    for value in range(values):
        ends = [
            [at(sign * step * one).of_persons(value, kinds, times) for sign in (1, -1)] for one in np.eye(8)
        ]
        differences = np.array([(up - down) / (2 * step) for up, down in ends]).T
        slopes = at(np.zeros(8)).slopes(value, kinds, times)
        assert np.abs(slopes).max() > 0.02
        assert_allclose(slopes, differences, atol=2e-6)
