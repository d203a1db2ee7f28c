"""The gallery: every card is audited again, its noise is the published budget, its numbers in closed form."""

from __future__ import annotations

import functools
import math
import re
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import sightline as sl
from examples.gallery.cards import FOLDER, NAMES, Audited, audited, least, read_card
from examples.gallery.page import (
    PAGE,
    PICTURES,
    page,
    picture,
    pictures,
    pictures_of,
    rows_of,
    section,
    table,
)

TEXT = PAGE.read_text(encoding="utf-8")
AGAIN = "python -m examples.gallery writes it again"

CARDS = {name: read_card(name) for name in NAMES}


@functools.cache
def audited_again(name: str) -> Audited:
    return audited(CARDS[name])


def test_there_are_twelve() -> None:
    assert len(NAMES) == 12
    assert {path.name for path in FOLDER.iterdir() if (path / "plan.toml").exists()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_short_and_says_what_is_not_reached(name: str) -> None:
    card = CARDS[name]
    assert len(f"{card.text} {card.gap}".split()) <= 200
    assert card.gap.endswith(".")
    assert card.source
    assert card.text in TEXT


@pytest.mark.parametrize("name", NAMES)
def test_its_table_is_drawn_again(name: str) -> None:
    stored = (FOLDER / name / "data.csv").read_text(encoding="utf-8")
    assert stored == CARDS[name].table_text(), AGAIN
    assert len(stored) < 100_000


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_its_numbers_are_those_of_the_page(name: str) -> None:
    again = audited_again(name)
    for row in rows_of(again):
        assert table(row, []).splitlines()[0] in TEXT, AGAIN
    assert section(again) in TEXT, AGAIN


def coarse(drawn: str) -> str:
    """A drawing with its coordinates to a thousandth: the last digits depend on the machine."""
    return re.sub(r"\d+\.\d+", lambda match: f"{float(match[0]):.3f}", drawn)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_its_pictures_are_drawn_again(name: str) -> None:
    for file, drawn in pictures(audited_again(name)).items():
        assert coarse((PICTURES / file).read_text(encoding="utf-8")) == coarse(drawn), AGAIN
    # A picture depends on the result: another one is drawn of another.
    again = audited_again(name)
    if CARDS[name].repeats > 1:
        assert picture(again.one_others_known) != picture(again.year_others_known)


@pytest.mark.thorough
def test_the_page_has_all_of_them_in_order() -> None:
    assert page([audited_again(name) for name in NAMES]) == TEXT, AGAIN
    ranks = [audited_again(name).rank for name in NAMES]
    titles = [CARDS[name].title for _, name in sorted(zip(ranks, NAMES, strict=True))]
    at = [TEXT.index(f"\n## {title}\n") for title in titles]
    assert at == sorted(at)
    files = {file for name in NAMES for file in pictures_of(audited_again(name))}
    assert {path.name for path in PICTURES.iterdir()} == files


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_repetition_and_knowledge_never_leave_more(name: str) -> None:
    again = audited_again(name)
    kept = [least(one) for one in (again.one, again.one_others_known, again.year, again.year_others_known)]
    one, known, year, year_known = kept
    assert known.lower <= one.upper
    assert year.lower <= one.upper
    assert year_known.lower <= min(known.upper, year.upper)
    if again.joined_halfway is not None:
        assert year_known.lower <= least(again.joined_halfway).upper
        assert least(again.joined_halfway).upper < year.lower, "one who joins is seen by the difference"


# ------------------------------------------------------------------ the noise is that of the published budget


def noises(name: str) -> list[tuple[float, float]]:
    """How often, and which scale or deviation, of each release, read from the plan."""
    releases = CARDS[name].plan()["release"]
    return [(one["times"], one["noise"].get("scale") or one["noise"]["stddev"]) for one in releases]


LAPLACE = {
    "google_mobility": 2.64,
    "google_symptoms": 1.68,
    "facebook_movement": 2.0,
    "linkedin_hiring": 4.8,
    "microsoft_broadband": 0.2,
}
CONCENTRATED = {"facebook_urls": 0.0728, "wikimedia_views": 0.015, "census_dhc": 4.96, "census_ddhca": 19.776}


@pytest.mark.parametrize("name", LAPLACE)
def test_laplace_noise_adds_up_to_epsilon(name: str) -> None:
    assert sum(times / scale for times, scale in noises(name)) == pytest.approx(LAPLACE[name], rel=1e-6)
    assert f"ε = {LAPLACE[name]:g}" in CARDS[name].published


@pytest.mark.parametrize("name", CONCENTRATED)
def test_gaussian_noise_adds_up_to_rho(name: str) -> None:
    spent = sum(times / (2 * stddev**2) for times, stddev in noises(name))
    assert spent == pytest.approx(CONCENTRATED[name], rel=1e-4)
    assert f"{CONCENTRATED[name]:g}" in CARDS[name].published


def test_the_redistricting_queries_about_one_answer_are_part_of_rho() -> None:
    """A pair of counts costs 1/σ²; the queries that do not count Hispanic people have the rest."""
    spent = sum(times / (2 * stddev**2) for times, stddev in noises("census_pl94"))
    assert 0.3 * 2.56 < spent < 2.56


def test_the_vaccination_noise_costs_its_epsilon() -> None:
    ((times, stddev),) = noises("google_vaccination")
    mu = math.sqrt(times) / stddev
    normal = NormalDist().cdf
    epsilon = 2.19
    delta = normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=1e-3)


def test_the_load_shapes_cost_their_epsilon() -> None:
    ((_, scale),) = noises("recurve_load")
    assert 24 * (4 / 100) / scale == pytest.approx(4 + 2.5 + 0.3, rel=1e-5)


def test_a_year_of_mobility_costs_964() -> None:
    year = CARDS["google_mobility"].plan(repeats=365)["release"]
    assert round(sum(one["times"] / one["noise"]["scale"] for one in year)) == 964


# ------------------------------------------------------------------ what is left, computed a second time


def gaussian_left(mu: float) -> tuple[float, float]:
    """What is left of an even yes or no behind Gaussian noise, μ apart, and how often it is guessed."""
    y = np.linspace(-12, mu + 12, 200_001)
    yes, no = (np.exp(-np.square(y - at) / 2) / math.sqrt(2 * math.pi) for at in (mu, 0.0))
    left = np.sum(2 * yes * no / (yes + no)) * (y[1] - y[0])
    return float(left), NormalDist().cdf(mu / 2)


def right_of(result: sl.AuditResult) -> Any:
    assert result.sharpest is not None
    return result.sharpest.right_after


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "year"),
    [
        ("facebook_urls", False),
        ("wikimedia_views", False),
        ("wikimedia_views", True),
        ("google_vaccination", False),
        ("google_vaccination", True),
        ("census_ddhca", False),
    ],
)
def test_gaussian_counts_in_closed_form(name: str, year: bool) -> None:
    """Whoever knows all others sees one answer in normal noise: right with the chance Φ(μ/2)."""
    again = audited_again(name)
    result = again.year_others_known if year else again.one_others_known
    repeats = CARDS[name].repeats if year else 1
    left, right = gaussian_left(math.sqrt(sum(repeats * times / stddev**2 for times, stddev in noises(name))))
    kept = least(result)
    assert kept.lower <= left * (1 + 1e-6)
    assert kept.lower == pytest.approx(left, rel=2e-2, abs=1e-4)
    assert kept.upper >= left * (1 - 1e-6)
    assert right_of(result) == pytest.approx(right, abs=1e-6)


def laplace_left(scale: float) -> tuple[float, float]:
    """The same behind two answers with Laplace noise, by the joint law of both on a grid."""
    y = np.linspace(-40 * scale, 1 + 40 * scale, 8_001)
    step = y[1] - y[0]
    yes, no = (np.exp(-np.abs(y - at) / scale) / (2 * scale) for at in (1.0, 0.0))
    left = right = 0.0
    for one, other in zip(yes, no, strict=True):
        both_yes, both_no = one * yes, other * no
        left += float(np.sum(2 * both_yes * both_no / (both_yes + both_no)))
        right += float(np.sum(np.maximum(both_yes, both_no))) / 2
    return left * step**2, right * step**2


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["microsoft_broadband", "facebook_movement"])
def test_two_laplace_counts_by_quadrature(name: str) -> None:
    result = audited_again(name).one_others_known
    ((times, scale),) = noises(name)
    assert times == 2
    left, right = laplace_left(scale)
    kept, margin = least(result), 1e-3  # of the grid
    assert kept.lower - margin <= left <= kept.upper + margin
    assert kept.upper - kept.lower < 0.04
    assert right <= right_of(result) + margin
    assert right_of(result) - right < 0.05


@pytest.mark.thorough
def test_a_year_in_one_group_tells_its_sum_and_no_more() -> None:
    """Of n people with one sum, each keeps 1 - 1/n, however often it is published."""
    smallest = {"facebook_movement": 10, "google_symptoms": 8, "linkedin_hiring": 10, "google_mobility": 6}
    for name, people in smallest.items():
        kept = least(audited_again(name).year)
        assert kept.lower == pytest.approx(1 - 1 / people, abs=2e-3)
        assert kept.lower <= 1 - 1 / people + 5e-3
