"""Persons with many rows: one extreme eigenvalue each, against dense algebra and exact rank."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.bounds.assessment import assess
from sightline.units import panels, row_decisions, row_solver, unit_block, units
from sightline.units.design import Design, MadeOfUnits
from sightline.units.row_integers import modular
from sightline.units.row_noise import RowNoise
from sightline.units.row_products import RowProducts
from sightline.units.target import Seen
from tests.bounds.test_persons import PRIOR, _check_recipe, _inverse
from tests.numbered_cases import trials
from tests.units.naive_panels import Panel, random_panel

ROUTES = {
    "decomposed": {},
    "a proof each": {"PANEL": 0, "_BEST": 100},
    "one proof": {"PANEL": 0, "_BEST": 0},
}


@pytest.fixture(params=ROUTES, ids=str)
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every person with two columns is a panel, by each of the ways to its eigenvalue."""
    for module in (units, row_solver, row_decisions):
        monkeypatch.setattr(module, "MANY_ROWS", 1)
    for name, value in ROUTES[request.param].items():
        monkeypatch.setattr(panels, name, value)
    return str(request.param)


def check(panel: Panel, *, proved_each: bool = True) -> int:
    """No wrong decision, no number beyond its stated error. How many persons have something identifiable."""
    design, examples = panel.design(PRIOR)
    found, people = assess(design), np.asarray(design.units.people)
    G, v, yes = panel.information(), PRIOR.variance, 0
    posterior = _inverse(G + np.eye(len(G)) / v) / v
    van_trees = _inverse(G + np.diag(PRIOR.precision(np.diagonal(G)))) / v
    for kind, person in enumerate(examples):
        if people[kind] == 1:
            assert found.directions[kind] == panel.directions(person)
            assert found.identifiable[kind, 0] == panel.total_identifiable(person)
            if found.directions[kind]:
                yes += 1
                _check_recipe(panel, found.recipe(kind), float(found.rmse[kind, 0]), person)
        if panel.rows(person).size == 1:
            continue
        upper = np.linalg.eigvalsh(panel.block(posterior, person))[0]
        assert upper * (1 - 1e-9) <= found.upper[kind, 0] <= upper * (1 + found.error[kind, 0] + 1e-9)
        assert found.upper[kind, 0] == pytest.approx(upper, rel=1e-6)
        largest = np.linalg.eigvalsh(panel.block(G, person))[-1]
        alone = PRIOR.lower(Seen(information=np.array([largest]), linear_information=np.zeros(1)))[0]
        hidden = np.linalg.eigvalsh(panel.block(van_trees, person))[0]
        assert found.lower[kind, 0] <= min(max(alone, hidden, panel.among(person)), upper) * (1 + 1e-6)
        if proved_each:
            assert found.lower[kind, 0] >= min(alone, upper) * (1 - 1e-3)
    return yes


def test_random_panels(route: str) -> None:
    generators = [np.random.default_rng([29, seed]) for seed in trials(60)]
    yes = sum(check(random_panel(one), proved_each=route != "one proof") for one in generators)
    assert yes > 2 / 3 * len(generators)


def test_rows_that_nothing_tells_apart_keep_no_more_than_worlds_without_noise_leave() -> None:
    """Also beside people who are known, and of rows in no number."""
    equal = in_none = 0
    for seed in trials(60):
        panel = random_panel(np.random.default_rng([31, seed]))
        design, examples = panel.design(PRIOR)
        assert isinstance(design.units, units.Units)
        for among, person in zip(design.units.among_alike.tolist(), examples, strict=True):
            assert among == pytest.approx(panel.among(person), abs=1e-12)
            left = panel.left_by_exact_numbers(person)
            assert among <= left + 1e-12
            outside = ~panel.members[:, panel.rows(person)].any(axis=0)
            in_none += bool(outside.any() and not outside.all())
            equal += bool(outside.any() and not outside.all() and 0 < left < 1 and among > left - 1e-12)
    assert in_none > 3  # persons with some rows in no number
    assert equal > 0  # of whom it is all that is left


def homes(generator: np.random.Generator, count: int, days: int, hours: int, gaps: float) -> Panel:
    """Sums of every day, of every hour of the day, and of every day of a pilot group of all homes but one."""
    home, day, hour = (one.ravel() for one in np.indices((count, days, hours)))
    there = generator.random(home.size) >= gaps
    home, day, hour = home[there], day[there], hour[there]
    numbers = [day == one for one in range(days)] + [(hour == one) for one in range(hours)]
    numbers += [(day == one) & (home > 0) for one in range(days)]
    members = np.array(numbers).astype(np.int64)
    return Panel(
        members=members,
        person=home,
        known=np.zeros(home.size, dtype=np.bool_),
        stddevs=10.0 ** generator.uniform(-1, 1, len(members)),
    )


@pytest.mark.parametrize("gaps", [0.0, 0.1])
def test_the_home_that_is_not_in_the_pilot_group_is_found(gaps: float) -> None:
    panel = homes(np.random.default_rng(3), 4, 9, 8, gaps)
    design, examples = panel.design(PRIOR)
    assert isinstance(design.units, units.Units)
    assert np.diff(design.units.starts).min() > units.MANY_ROWS
    found = assess(design)
    alone = np.asarray(design.units.people) == 1  # of pilot homes that are alike, the sum is identifiable
    assert found.directions[alone].tolist() == [9 * (one == 0) for one in np.array(examples)[alone]]
    assert check(panel, proved_each=False) == 1


def test_a_family_bounds_everyone_in_it(route: str) -> None:
    generator = np.random.default_rng(5)
    table = generator.integers(0, 2, (12, 7))
    block = panel_block(table, generator.integers(0, 4, (9, 12)))
    scales = generator.uniform(0.5, 2, 7)
    form = RowNoise.of(scales, scales, np.zeros(7), np.ones(7)).form
    low, high = block.ranges(form)
    for kind, times in enumerate(block.times):
        scaled = np.sqrt(times)[:, None] * table
        true = np.linalg.eigvalsh(scaled @ np.diag(form.matrix) @ scaled.T)[-1]
        assert low[kind] <= true * (1 + 1e-12)
        assert true <= high[kind] * (1 + 1e-12)
        assert low[kind] == pytest.approx(true, rel=1e-6, abs=1e-12)


def panel_block(table: np.ndarray, times: np.ndarray) -> panels.PanelBlock:
    count, numbers = table.shape
    rows = np.where(table > 0, np.arange(numbers), numbers)
    columns = unit_block.UnitBlock(
        rows=rows[:, None, :].astype(np.int32),
        times=np.ones((count, 1), dtype=np.intp),
        people=np.ones(count, dtype=np.intp),
        alike=np.ones(count),
        kinds=np.arange(count),
    )
    ones = np.ones(len(times), dtype=np.intp)
    return panels.PanelBlock(
        columns=columns,
        numbers=numbers,
        times=times,
        people=ones,
        alike=ones.astype(float),
        kinds=np.arange(len(times)),
    )


def test_sparse_rows_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes that are in some of many numbers: the sparse solver and the dense one."""
    generator = np.random.default_rng(11)
    parts = [homes(generator, 3, 5, 12, 0.05) for _ in range(3)]
    numbers = sum(len(part.members) for part in parts)
    members = np.zeros((numbers, sum(part.person.size for part in parts)), dtype=np.int64)
    row = column = 0
    for part in parts:
        high, wide = part.members.shape
        members[row : row + high, column : column + wide] = part.members
        row, column = row + high, column + wide
    person = np.concatenate([part.person + 10 * place for place, part in enumerate(parts)])
    panel = Panel(
        members=members,
        person=person,
        known=np.zeros(person.size, dtype=np.bool_),
        stddevs=np.concatenate([part.stddevs for part in parts]),
    )
    design, _ = panel.design(PRIOR)
    dense = assess(design)
    monkeypatch.setattr("sightline.units.row_products.SPARSE_FROM", 0)
    monkeypatch.setattr("sightline.units.sparse_row_solver._PER_DENSE", 1.0)
    monkeypatch.setattr(RowProducts, "unweighted", classmethod(_sparsely))
    again = assess(Design(**{**vars(design), "made": MadeOfUnits()}))
    assert type(again.solver).__name__ == "SparseSolver"
    assert np.allclose(again.lower, dense.lower, rtol=1e-6)
    assert np.allclose(again.upper, dense.upper, rtol=1e-6)
    assert (again.directions == dense.directions).all()
    assert (dense.directions > 0).sum() == 3


def _sparsely(cls: type[RowProducts], store: object, prior: object, noise: RowNoise) -> RowProducts:
    return cls(prior=prior, noise=noise, dense=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_rows_without_common_persons_are_eliminated_without_changing_rank_or_forms(seed: int) -> None:
    draw, prime = np.random.default_rng(seed), 2_147_483_647
    hours = np.repeat(np.eye(9, dtype=np.int64), 3, axis=1)  # three rows of persons in each hour
    coarse = draw.integers(0, 2, (3, 27))
    coarse[2] = coarse[0] if seed % 2 else coarse[2]  # a row twice: the rank is one less
    hours[4] *= seed != 3  # an hour that nobody is in
    rows = np.concatenate([coarse[:2], hours, coarse[2:]])
    table = rows @ rows.T
    apart = row_decisions._without_common_persons(table)
    assert apart.size >= 9
    found = row_decisions._Eliminated.of(table, apart, prime)
    assert found.rank == np.linalg.matrix_rank(rows)
    regular = np.concatenate([rows[:1], rows[2:11]])[[0, *(place for place in range(1, 10) if place != 5)]]
    table, image = regular @ regular.T, draw.integers(-2, 3, (len(regular), 2))
    apart = row_decisions._without_common_persons(table)
    told = row_decisions._Eliminated.of(table, apart, prime).forms(image)
    expected = modular(image, prime).transpose() * modular(table, prime).solve(modular(image, prime))
    assert apart.size
    assert [entry % prime for entry in told] == [int(expected[place, place]) for place in range(2)]
