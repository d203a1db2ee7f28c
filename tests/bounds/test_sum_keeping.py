"""Rows that are seen as a sum: constants by finer rules and draws, bounds by quadrature, homes by hour."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sightline.bounds.assessment import assess
from sightline.bounds.feature_brackets import PersonRows
from sightline.bounds.priors import CosineSquaredPrior, UniformPrior
from sightline.bounds.sum_keeping import LEAST_MEMBERS, _constants, grouped_precision
from sightline.units.design import Design, MadeOfUnits
from sightline.units.row_noise import RowNoise
from sightline.units.sum_groups import row_precision
from sightline.units.target import UnitPrior
from sightline.units.units import Units


@pytest.mark.slow
@pytest.mark.parametrize("members", [4, 5, 12, 24, 200])
def test_constants_by_a_finer_rule_and_by_draws(members: int) -> None:
    found, finer = _constants(members), _constants(members, (400, 1200))
    assert found == pytest.approx(finer, abs=2e-7)
    if members > 24:
        return
    x = np.random.default_rng(members).random((100_000, members))
    q, slope = 6 * x * (1 - x), 6 * (1 - 2 * x)
    s = q.sum(axis=1, keepdims=True)
    along = np.square(math.sqrt(members) * (slope * (1 / s - q / s**2)).sum(axis=1))
    spread = members * (q**2 / s**2).sum(axis=1) - 1
    c = np.zeros(members)
    c[:2] = np.array([1.0, -1.0]) / math.sqrt(2)
    field = q * (c - (q @ c)[:, None] / s)
    kept = float((field @ c).mean())
    moved = np.square((slope * (c - (q @ c)[:, None] / s) * (1 - q / s)).sum(axis=1)) / kept**2
    varied = ((field**2).sum(axis=1) - kept**2) / kept**2
    drawn = [float(one.mean()) for one in (along, spread, moved, varied)]
    assert found == pytest.approx(drawn, rel=0.03)


def test_larger_groups_need_less_and_small_ones_have_none() -> None:
    sizes = np.arange(LEAST_MEMBERS, 400)
    found = grouped_precision(sizes, np.zeros(sizes.size))
    assert np.all(np.diff(found) <= 0)
    assert np.all(found > 12)
    assert np.all(np.isinf(grouped_precision(np.arange(LEAST_MEMBERS), np.zeros(LEAST_MEMBERS))))
    assert np.all(np.diff(grouped_precision(np.full(9, 6), np.arange(9.0))) > 0)


@pytest.mark.parametrize("members", [4, 8, 24])
@pytest.mark.parametrize("noise", [0.02, 0.3, 2.0])
def test_the_mean_of_rows_keeps_at_least_what_the_bound_says(members: int, noise: float) -> None:
    """A sum of uniform rows behind Gaussian noise, by quadrature over the sum and the answer."""
    step = 1 / 200
    density = np.ones(200) * step
    for _ in range(members - 1):
        density = np.convolve(density, np.ones(200) * step)
    at = (np.arange(density.size) + members / 2) * step  # middles of the cells
    answers = np.linspace(-6 * noise, members + 6 * noise, 1_201)
    joint = density * np.exp(-(((answers[:, None] - at) / noise) ** 2) / 2)
    mass = joint.sum(axis=1)
    mean = joint @ at / np.maximum(mass, 1e-300)
    left = float((joint @ at**2 - mass * mean**2).sum() / mass.sum()) / members  # of the unit feature
    precision = float(grouped_precision(np.array([members]), np.zeros(1))[0])
    assert 1 / (members / noise**2 + precision) <= left * (1 + 1e-3)
    if noise >= 0.3:
        assert 1 / (members / noise**2 + precision) >= 0.85 * left


def homes(side: int = 3, days: int = 3, *, noise: float = 1.0, law: float = 0.0) -> Design:
    """Homes by the hour, one for each feeder and tariff: daily totals of both, and totals of every hour."""
    people, hours = side**2, 24 * days
    t = np.tile(np.arange(hours), people)
    home = np.repeat(np.arange(people), hours)
    feeder, tariff = (group * days + t // 24 for group in (home // side, side + home % side))
    rows = np.stack([feeder, tariff, 2 * side * days + t % 24], axis=1).astype(np.int32)
    numbers = 2 * side * days + 24
    scales = np.concatenate([np.full(2 * side * days, noise), np.full(24, 40.0)])
    return Design(
        units=Units(
            rows=rows,
            numbers=numbers,
            starts=np.arange(people + 1) * hours,
            times=np.ones(people * hours, dtype=np.intp),
            people=np.ones(people, dtype=np.intp),
        ),
        noise=RowNoise.of(scales, scales * math.sqrt(1 + law), np.full(numbers, law), np.ones(numbers)),
        prior=UnitPrior(target=UniformPrior(0.0, 10.0)),
        release=np.arange(numbers),
        place=np.arange(people),
    )


@pytest.mark.slow
@pytest.mark.parametrize("law", [0.0, 1.0])
def test_homes_by_the_hour_are_nearly_what_the_linear_attack_leaves(
    law: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = homes(law=law)
    found = assess(design)
    assert np.all(found.lower <= found.upper)
    if not law:
        assert np.all(found.lower >= 0.95 * found.upper)
    monkeypatch.setattr(
        UniformPrior, "grouped_precision", lambda self, members, weak: np.full_like(weak, math.inf)
    )
    before = assess(replace(design, made=MadeOfUnits()))
    assert np.all(found.lower >= before.lower * (1 - 1e-9))
    assert np.any(found.lower > 1.3 * before.lower)


@pytest.mark.slow
def test_what_is_said_of_a_person_does_not_depend_on_who_is_beside_them() -> None:
    """The same precisions in a family, alone, and as a block of rows: else the sums over all would be off."""
    design = homes()
    units = design.units
    assert isinstance(units, Units)
    for panel in units.panels():
        together = row_precision(design.prior, design.noise, panel)
        single = design.prior.target.precision(design.noise.about_columns(panel))
        assert np.all(together[panel.times > 0] < single[panel.times > 0])
        for place, kind in enumerate(panel.kinds.tolist()):
            own = units.choose(np.array([kind]))
            for other in (*own.panels(), *own.blocks()):
                found = row_precision(design.prior, design.noise, other)[0]
                assert sorted(found) == sorted(together[place, panel.times[place] > 0])
    shown = PersonRows.of(assess(design), 0)
    day = np.where(np.arange(72) < 24, 1.0, 0.0)[:, None]
    low, high = shown.brackets(day, day)
    assert 0.9 * high[0] <= low[0] <= high[0]


def test_other_densities_have_no_groups() -> None:
    design = homes()
    cosine = replace(design, prior=UnitPrior(target=CosineSquaredPrior(0.0, 10.0)), made=MadeOfUnits())
    for panel in cosine.units.choose(np.arange(len(cosine.units))).panels():
        base = cosine.prior.target.precision(cosine.noise.about_columns(panel))
        assert np.array_equal(row_precision(cosine.prior, cosine.noise, panel), base)
