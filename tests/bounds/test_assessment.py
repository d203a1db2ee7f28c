"""The assessment of units against exact arithmetic, all worlds, and the other solver."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from flint import ctx

import tests.units.exact_designs as drawn
from sightline.bounds.assessment import assess
from sightline.bounds.coin import CoinPrior
from sightline.bounds.fewer_rows import parts, told_last
from sightline.bounds.priors import prior_on
from sightline.noise.laws import GaussianNoise
from sightline.units import dense_units, row_products, sparse_row_solver
from sightline.units.dense_units import TableUnits
from sightline.units.design import Design, MadeOfUnits
from sightline.units.member_rows import MemberRows
from sightline.units.row_noise import RowNoise
from sightline.units.target import Seen, UnitPrior
from sightline.units.units import Units
from tests.numbered_cases import trials
from tests.units import fuzz_designs
from tests.units.exact_answers import relative_error, root
from tests.units.unit_designs import design_of, units_of


def nasty_cases(seed: int, count: int):
    """Nasty designs whose noise is not singular, with someone unknown in some row: weights up to 2⁵²."""
    trial = 0
    while count:
        generator = np.random.default_rng([seed, trial])
        trial += 1
        case = fuzz_designs.with_noise(fuzz_designs.nasty_integers(generator), generator)
        if not case.noise.singular and case.rows[:, case.unknown].any():
            count -= 1
            yield case, str(generator.choice(fuzz_designs.PRIORS))


def test_nasty_designs_agree_with_exact_arithmetic() -> None:
    for case, name in nasty_cases(0, len(trials(60))):
        left = case.rows[:, case.unknown]
        design = design_of(left, case.noise, prior_on((0.0, 1.0), name))
        found, unit = assess(design), design.place
        alone = design.units.people[unit] == 1
        assert np.array_equal(found.identifiable[unit, 0] & alone, case.exact.identifiable), (
            case.rows.tolist()
        )
        assert not found.undecided.any()
        for record, mse in case.exact.mean_squared_errors.items():
            off = relative_error(float(found.rmse[unit[record], 0]), root(mse))
            assert off <= found.relative_error + 4e-16
            if alone[record]:
                weights = found.recipe(int(unit[record]))
                target = np.eye(len(unit))[record]
                size = np.abs(weights) @ np.abs(left)
                assert np.all(np.abs(weights @ left - target) <= 1e-6 * size + 1e-6)
        with ctx.workprec(1000):
            truth = case.exact.shares(1 / fuzz_designs.VARIANCES[name](), linear=True)
        for record, share in enumerate(truth):
            value, stated = float(found.upper[unit[record], 0]), float(found.error[unit[record], 0])
            assert value >= float(share.mid()) * (1 - 1e-13)
            assert relative_error(value, share) <= stated + 1e-14
            assert float(found.lower[unit[record], 0]) <= value


def test_real_weights_are_decided_as_the_doubles_that_they_are() -> None:
    for trial in trials(60):
        table = drawn.real_rows(np.random.default_rng([11, trial]))
        design = design_of(table, np.ones(len(table)), prior_on((0.0, 1.0), "uniform"))
        found, unit = assess(design), design.place
        alone = design.units.people[unit] == 1
        assert np.array_equal(found.identifiable[unit, 0] & alone, drawn.identifiable(table))


def test_lower_ends_never_exceed_the_bound_with_exact_hidden_information() -> None:
    prior, compared = prior_on((0.0, 1.0), "cos2"), 0
    for case, _ in nasty_cases(5, len(trials(60))):
        if not isinstance(case.noise, GaussianNoise):
            continue
        left = case.rows[:, case.unknown]
        design = design_of(left, case.noise, prior)
        if list(told_last(design)) or list(parts(design)):  # then another bound may count
            continue
        compared += 1
        found, unit = assess(design).lower[:, 0], design.place
        G = drawn.information(left, case.noise.stddevs)
        precision = prior.precision(G)
        with ctx.workprec(1000):
            shares = case.exact.shares(1 / fuzz_designs.VARIANCES["cos2"](), linear=True)
        linear = np.array([float(share.mid()) for share in shares])
        exact = prior.lower(
            Seen(
                information=G,
                linear_information=(1 / linear - 1) / prior.variance,
                hidden_information=drawn.hidden(left, case.noise.stddevs, precision),
                precision=precision,
                alike=design.units.people[unit].astype(float),
            )
        )
        assert np.all(found[unit] <= exact * (1 + 1e-9) + 1e-15)
    assert compared > 3


def test_the_sparse_solver_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    for _ in range(20):
        table = (
            generator.random((int(generator.integers(2, 9)), int(generator.integers(2, 9)))) < 0.4
        ).astype(int)
        table = table[table.any(axis=1)]
        if not table.size:
            continue
        stddevs = 10 ** generator.uniform(-1, 1, len(table))
        design = design_of(table, stddevs, prior_on((0.0, 1.0), "uniform"))
        dense = assess(design)
        with monkeypatch.context() as patch:
            patch.setattr(row_products, "SPARSE_FROM", 0)
            patch.setattr(sparse_row_solver, "_PER_DENSE", 1.0)
            sparse = assess(replace(design, made=MadeOfUnits()))
        decided = ~sparse.undecided
        assert np.array_equal(dense.identifiable[decided], sparse.identifiable[decided])
        both = dense.identifiable & sparse.identifiable
        assert np.allclose(dense.rmse[both], sparse.rmse[both], rtol=1e-9)
        assert np.allclose(dense.upper, sparse.upper, rtol=0, atol=1e-7)
        assert np.all(sparse.lower <= dense.upper + 1e-12)


def categories_of(counted: np.ndarray, stddevs: np.ndarray, people: np.ndarray, k: int) -> Design:
    """Kinds of one row; ``counted[kind, category]`` are the rows that count it (a table rows × kinds × k)."""
    table = counted.reshape(len(counted), -1)
    columns = [np.flatnonzero(column) for column in table.T]
    width = max(1, max(map(len, columns)))
    rows = np.full((len(columns), width), len(table), dtype=np.int32)
    for place, column in enumerate(columns):
        rows[place, : len(column)] = column
    units = Units(
        rows=rows,
        numbers=len(table),
        starts=np.arange(len(people) + 1) * k,
        times=np.ones(len(columns), dtype=np.intp),
        people=people,
        each=k,
    )
    ones = np.ones(len(table))
    return Design(
        units=units,
        noise=RowNoise.of(stddevs, stddevs, 0 * ones, ones),
        prior=UnitPrior(target=CoinPrior(share=1 / k), categories=k),
        release=np.arange(len(table)),
        place=np.arange(len(people)),
    )


def test_categories_against_all_worlds() -> None:
    """Decisions: whether the kernel of all worlds moves a category. Upper ends: the covariance of all
    worlds.
    """
    generator = np.random.default_rng(1)
    for _ in trials(40):
        k, persons, rows = (int(generator.integers(low, high)) for low, high in ((3, 5), (1, 4), (1, 5)))
        counted = generator.random((rows, persons, k)) < 0.4
        stddevs = 10 ** generator.uniform(-1, 1, rows)
        design = categories_of(counted, stddevs, np.ones(persons, dtype=np.intp), k)
        found = assess(design)
        worlds = np.array(np.meshgrid(*[np.arange(k)] * persons, indexing="ij")).reshape(persons, -1)
        indicator = (worlds[:, None, :] == np.arange(k)[None, :, None]).reshape(persons * k, -1).astype(float)
        centred = indicator - indicator.mean(axis=1, keepdims=True)
        covariance = centred @ centred.T / worlds.shape[1]
        A = counted.reshape(rows, -1).astype(float)
        posterior = covariance - covariance @ A.T @ np.linalg.solve(
            A @ covariance @ A.T + np.diag(stddevs**2), A @ covariance
        )
        share = np.diagonal(posterior) / np.diagonal(covariance)
        assert np.allclose(found.upper.ravel(), share, rtol=0, atol=1e-7)
        change = covariance  # its columns span every change from one world to another
        for place, yes in enumerate(found.identifiable.ravel()):
            asked = change[place]
            both = np.linalg.matrix_rank(np.vstack([A @ change, asked]), tol=1e-8)
            assert yes == (both == np.linalg.matrix_rank(A @ change, tol=1e-8))


def test_lower_ends_of_categories_are_below_the_risk_of_the_best_guess() -> None:
    """One person of k categories in one number with noise: the risk by numerical integration."""
    for k, stddev in ((3, 0.5), (4, 1.0), (3, 2.0)):
        counted = np.zeros((1, 1, k), dtype=bool)
        counted[0, 0, 0] = True
        found = assess(categories_of(counted, np.array([stddev]), np.ones(1, dtype=np.intp), k))
        y = np.linspace(-12 * stddev, 1 + 12 * stddev, 20001)
        means = np.array([1.0] + [0.0] * (k - 1))
        density = (
            np.exp(-((y - means[:, None]) ** 2) / (2 * stddev**2)) / (stddev * math.sqrt(2 * math.pi)) / k
        )
        posterior = density / density.sum(axis=0)
        step = y[1] - y[0]
        for category in range(k):
            p = posterior[category]
            risk = float(np.sum(density.sum(axis=0) * p * (1 - p)) * step) / ((k - 1) / k**2)
            assert found.lower[0, category] <= risk + 1e-9
            assert risk <= found.upper[0, category] + 1e-9


def test_people_alike_keep_what_nothing_tells_apart() -> None:
    design = design_of(
        np.array([[1, 1, 1, 0], [0, 0, 1, 1]]), np.array([1e-3, 1e-3]), prior_on((0, 1), "uniform")
    )
    found = assess(design)
    assert found.lower[design.place[0], 0] > 0.45  # two of whom the sum is known, nearly
    assert not found.identifiable.any()


def test_knowing_and_taking_are_designs_of_their_own() -> None:
    table = np.array([[1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]])
    prior, stddevs = prior_on((0.0, 1.0), "uniform"), np.array([0.3, 0.5, 2.0])
    design = design_of(table, stddevs, prior)
    kinds = np.zeros(len(design.units), dtype=bool)
    kinds[design.place[3]] = True
    less = design.knowing(kinds)
    assert less.place[3] == -1
    again = design_of(table[:, :3], stddevs, prior)
    assert np.allclose(assess(less).upper[less.place[:3]], assess(again).upper[again.place])
    some, fewer = assess(design.take(np.array([0, 2]))), design_of(table[[0, 2]], stddevs[[0, 2]], prior)
    assert np.allclose(some.upper[design.place], assess(fewer).upper[fewer.place])


def test_large_tables_share_one_product_for_all_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Common eigenvectors of products and noise give the numbers of an inverse for each form."""
    generator = np.random.default_rng(4)
    table = generator.integers(0, 2, (9, 200)).astype(np.uint8)
    prior, stddevs = prior_on((0.0, 1.0), "uniform"), np.full(9, 40.0)
    listed = design_of(table, stddevs, prior)
    units = MemberRows.of(table).units(np.arange(200), np.ones(200, dtype=np.intp))
    assert isinstance(units, TableUnits)
    dense = replace(listed, units=units, place=np.arange(200), made=MadeOfUnits())
    expected = assess(listed)
    for large in (0, 1 << 40):
        monkeypatch.setattr("sightline.bounds.assessment._LARGE_TABLE", large)
        found = assess(replace(dense, made=MadeOfUnits()))
        assert (found.solver._shared is not None) == (large == 0)
        alone = listed.units.people[listed.place] == 1
        assert found.upper[alone] == pytest.approx(expected.upper[listed.place][alone], rel=1e-9)
        assert found.lower[alone] == pytest.approx(expected.lower[listed.place][alone], rel=1e-4)
        assert found.error.max() < 1e-9


@pytest.mark.parametrize("known", [0, 3])
def test_listed_rows_read_as_a_table_give_the_same(known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    for _ in range(5):
        table = (generator.random((12, 60)) < 0.6).astype(float)
        table[11] = table[0] + table[1] > 0  # numbers that depend on others, too
        table[10] = table[0]
        stddevs = 10 ** generator.uniform(-1, 1, 12) if generator.random() < 0.5 else np.full(12, 0.3)
        design = design_of(table, stddevs, prior_on((0.0, 1.0), "uniform"))
        if known:
            design = design.knowing(np.arange(len(design.units)) < known)
        listed = assess(design)
        with monkeypatch.context() as other:
            other.setattr(dense_units, "MOST_LOOKED_AT", 0)
            read = assess(replace(design, made=MadeOfUnits()))
        assert isinstance(read.solver.units, TableUnits)
        np.testing.assert_array_equal(read.identifiable, listed.identifiable)
        np.testing.assert_allclose(read.upper, listed.upper, rtol=1e-9)
        np.testing.assert_allclose(read.lower, listed.lower, rtol=1e-9)
        np.testing.assert_allclose(read.rmse, listed.rmse, rtol=1e-9)


def test_swapped_values_keep_lower_ends_in_exact_numbers() -> None:
    units, place = units_of(np.array([[1, 1, 0], [0, 1, 1]]))
    for name, least in (("two-point", 0.4), ("uniform", 0.3)):
        noise = RowNoise.of(
            np.array([1e-6, 5.0]),
            np.array([1e-6, 5.0]),
            np.zeros(2),
            np.ones(2),
            exact=np.array([True, False]),
        )
        design = Design(
            units=units,
            noise=noise,
            prior=UnitPrior(target=prior_on((0.0, 1.0), name)),
            release=np.arange(2),
            place=place,
        )
        found = assess(design)
        assert found.lower[place[0], 0] > least
        assert np.all(found.lower <= found.upper)
