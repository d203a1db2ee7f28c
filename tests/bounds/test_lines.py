"""Lines and flats through the rows of a person: exact risks above them, and cases with a known answer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize

from sightline.bounds import assessment, lines
from sightline.bounds.assessment import assess
from sightline.bounds.lines import DistinctColumns
from tests.bounds.person_risks import Persons, persons
from tests.numbered_cases import trials

LAWS = ("gaussian", "laplace", "mixed")


def on_a_grid(
    one: Persons, own: np.ndarray, points: int, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean posterior covariance of some rows over the prior variance, and its standard errors.

    Every row has one of a few points, evenly: all worlds are listed. Nothing is taken from the engine.
    """
    generator, rows = np.random.default_rng(seed), one.owner.size
    values = (np.arange(points) + 0.5) / points
    worlds = np.array(list(itertools.product(values, repeat=rows)))
    seen = worlds @ one.table.T / one.scales
    found = []
    for _ in range(draws // 50):
        truth = generator.random((50, rows)) @ one.table.T / one.scales
        noise = np.where(one.laplace, generator.laplace(size=truth.shape), generator.normal(size=truth.shape))
        away = (truth + noise)[:, None] - seen
        fit = -np.where(one.laplace, np.abs(away), away**2 / 2).sum(axis=2)
        chances = np.exp(fit - fit.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        mean, held = chances @ worlds[:, own], worlds[:, own]
        second = (chances @ (held[:, :, None] * held[:, None]).reshape(len(held), -1)).reshape(
            50, own.size, -1
        )
        found.append(12 * (second - mean[:, :, None] * mean[:, None]))
    every = np.concatenate(found)
    return every.mean(axis=0), every.std(axis=0) / np.sqrt(len(every))


def by_lines(one: Persons) -> np.ndarray:
    """What lines and flats alone say of every person."""
    units = one.design().units
    nothing = np.zeros((len(units), 1))
    return lines.with_lines(one.design(), nothing, nothing + 1.0)[:, 0]


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("law", LAWS)
def test_no_line_or_flat_keeps_more_than_the_best_attack(law: str) -> None:
    generator, below = np.random.default_rng([5, LAWS.index(law)]), []
    for trial in trials(6):
        table = generator.choice([0.0, 0.0, 1.0, 1.0, 2.0], (int(generator.integers(1, 4)), 4))
        table[0] = 1.0
        scales = generator.uniform(0.15, 0.6, len(table))
        laplace = np.full(len(table), law == "laplace")
        laplace[0] |= law == "mixed"
        one = Persons(table=table, owner=np.array([0, 0, 1, 2]), scales=scales, laplace=laplace)
        left, error = on_a_grid(one, np.arange(2), 12, 800, trial)
        values, vectors = np.linalg.eigh(left)
        least = vectors[:, 0]
        off = 6 * float(np.abs(least) @ error @ np.abs(least)) + 12**-2.0
        found = by_lines(one)[0]
        assert found <= values[0] + off, (law, trial)
        below.append(found / values[0])
    assert np.median(below) > 0.6


def test_two_rows_that_two_others_hide_keep_half_each_and_not_a_quarter() -> None:
    """One number of a row and an other, twice: no row pays for the other one in a flat."""
    table = np.kron(np.eye(2), np.ones((1, 2)))
    one = Persons(
        table=table, owner=np.array([0, 1, 0, 2]), scales=np.full(2, 1e-3), laplace=np.zeros(2, bool)
    )
    assert by_lines(one)[0] == pytest.approx(0.5, rel=2e-2)  # of x₁ + x₂ half of x₁ remains
    assert by_lines(one)[0] <= 0.5 + 12 * 1e-6


def test_rows_of_one_person_that_are_alike_keep_what_their_number_among_all_says() -> None:
    """Two of five rows in one number: 1 − 2/5 of their total remains; of two of four half, by a flat."""
    for others, exact in ((2, 0.5), (3, 0.6)):
        owner = np.array([0, 0, *range(1, others + 1)])
        one = Persons(
            table=np.ones((1, owner.size)), owner=owner, scales=np.array([1e-3]), laplace=np.zeros(1, bool)
        )
        found = by_lines(one)[0]
        assert 0.45 <= found <= exact + 12 * 1e-6  # the noise adds less


def test_three_rows_that_one_other_hides_keep_a_sixth() -> None:
    """There is no flat: a line for each row keeps 1/2 of it, and the mean of three lines 1/6."""
    one = Persons(
        table=np.ones((1, 4)),
        owner=np.array([0, 0, 0, 1]),
        scales=np.array([1e-3]),
        laplace=np.zeros(1, bool),
    )
    assert 0.166 < by_lines(one)[0] <= 0.25


@pytest.mark.parametrize("seed", range(3))
def test_information_and_moves_of_directions_by_hand(seed: int) -> None:
    generator = np.random.default_rng(seed)
    one = persons(generator, noise=0.2)
    units = one.design().units
    columns = DistinctColumns.of(units)
    noise = one.design().noise
    whitened = noise.white(columns.entries)
    search = lines._Search(columns=columns, noise=noise, width=1.0, gram=whitened.T @ whitened)
    size = columns.counts.size
    drawn = lines._Lines(
        columns=generator.integers(0, size, (6, 2)),
        own=generator.normal(size=(6, 2)),
        others=generator.integers(0, 4, (6, size)).astype(float),
        moves=generator.normal(size=(6, size)),
    ).normal()
    white = columns.entries / 0.2
    changes = []
    for line in range(6):
        change = white @ (drawn.others[line] * drawn.moves[line])
        for place in range(2):
            change = change + white[:, drawn.columns[line, place]] * drawn.own[line, place]
        changes.append(change)
        moved = np.abs(drawn.moves[line])[drawn.others[line] > 0]
        assert max(np.abs(drawn.own[line]).max(), moved.max(initial=0.0)) == 1.0
    expected = np.array(changes).reshape(3, 2, -1)
    assert search._information(drawn, 3) == pytest.approx(
        np.einsum("fin,fjn->fij", expected, expected), rel=1e-9, abs=1e-9
    )


def drawn_search(seed: int) -> tuple[lines._Search, np.ndarray]:
    """What directions are looked for in, of a few columns; and the others beside a row of the first one."""
    generator = np.random.default_rng([43, seed])
    size = int(generator.integers(3, 7))
    entries = generator.integers(0, 3, (3, size)).astype(float)
    white = entries / generator.uniform(0.02, 0.3, (3, 1))
    counts = generator.integers(1, 3, size).astype(float)
    search = lines._Search(
        columns=DistinctColumns(
            entries=entries,
            counts=counts,
            group=np.arange(size),
            column=np.arange(size),
            single=np.ones(size, bool),
        ),
        noise=persons(generator, noise=0.1).design().noise,  # directions do not read it
        width=1.0,
        gram=white.T @ white,
    )
    return search, counts - (np.arange(size) == 0)


@pytest.mark.parametrize("seed", [1, 2, 16, 17, 25])
def test_the_search_ends_at_the_least_change(seed: int) -> None:
    """½ (u + d)ᵀ G (u + d) + μ Σ (|d| + d²/2) over moves of at most 2, beside a program that knows bounds.

    Where moves were cut off after each step, others did not make up for what was cut off: 22 times the
    least, of these designs.
    """
    search, others = drawn_search(seed)
    gram, size, generator = search.gram, others.size, np.random.default_rng([44, seed])
    start = lines._Lines.still(columns=np.array([[0]]), own=np.ones((1, 1)), others=others[None])
    found = search._few_moves(start, lines._PENALTIES).moves
    for penalty, moves in zip(lines._PENALTIES, found, strict=True):

        def cost(moves: np.ndarray, penalty: float = penalty) -> float:
            sums = others * moves + (np.arange(size) == 0)
            held = np.abs(moves) + np.square(moves) / 2
            return float(sums @ gram @ sums / 2 + penalty * (others @ held))

        def cost_of_both(up_and_down: np.ndarray, size: int = size) -> float:
            return cost(up_and_down[:size] - up_and_down[size:])

        least = min(
            optimize.minimize(
                cost_of_both, start, bounds=[(0, lines._FARTHEST)] * (2 * size), method="L-BFGS-B"
            ).fun
            for start in generator.uniform(0, 1, (2, 2 * size))
        )
        assert np.abs(moves).max() <= lines._FARTHEST * (1 + 1e-9)
        assert cost(moves) <= (1 + 1e-6) * least


def test_moves_are_the_minimum_of_what_they_cost() -> None:
    """At the minimum no column would rather move more or less: of noise over ten orders of magnitude."""
    generator = np.random.default_rng(8)
    free = held = still = 0
    for _ in range(20):
        size = int(generator.integers(1, 9))
        table = generator.integers(0, 3, (int(generator.integers(1, 6)), size))
        white = table / 10.0 ** generator.uniform(-4, 1, (len(table), 1))
        gram, copies = white.T @ white, generator.integers(1, 5, (2, 3, size)).astype(float)
        pull = copies * (4 * generator.standard_normal((2, 3, size)) @ gram)
        penalty = copies * 10.0 ** generator.uniform(-2, 1, (2, 3, 1))
        d = lines.least_moves(gram, copies, pull, penalty)
        slope = copies * ((copies * d) @ gram) + pull + penalty * d
        # An error of d is one of the slope, by as much as the slope changes.
        close = 1e-4 * (penalty + np.abs(pull) + copies * (copies @ np.abs(gram)))
        assert np.all(np.abs(d) <= lines._FARTHEST * (1 + 1e-9))
        at_end = np.abs(d) > lines._FARTHEST - 1e-4
        between = (np.abs(d) > 1e-4) & ~at_end
        assert np.all(np.abs(slope + penalty * np.sign(d))[between] <= close[between])
        assert np.all((slope * np.sign(d) + penalty)[at_end] <= close[at_end])
        assert np.all((np.abs(slope) - penalty)[d == 0] <= close[d == 0])
        free, held, still = free + between.sum(), held + at_end.sum(), still + (d == 0).sum()
    assert min(free, held, still) > 10


@pytest.mark.parametrize("seed", [1, 2, 16])
def test_lines_that_are_not_looked_at_leave_no_more(seed: int) -> None:
    """A line is left out if the linear attack leaves less: no proof on that line leaves more."""
    search, others = drawn_search(seed)
    start = lines._Lines.still(columns=np.array([[0]]), own=np.ones((1, 1)), others=others[None])
    few, spread = (find(start, lines._PENALTIES) for find in (search._few_moves, search._spread_moves))
    for one in (few.normal(), spread.normal()):
        total = one.sums()
        seen = np.einsum("li,ij,lj->l", total, search.gram, total)
        assert np.all(one.linear(seen) >= one.chords(seen, True))
        assert np.any(one.linear(seen) < 1.5 * one.chords(seen, True))


@pytest.mark.parametrize(
    ("sizes", "served"),
    [([[1.0, 1.01], [1.0, 1.0]], 1), ([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], 1), ([[1.0, 0.9], [0.1, 0.1]], 0)],
)
def test_every_row_is_served_by_some_of_the_others(sizes: list[list[float]], served: int) -> None:
    """Each of two rows has one of two others that both would move alike; and none that serves it badly."""
    moves = np.array(sizes)[None, :, None]
    others = np.ones((1, 1, moves.shape[3]))
    shared = lines._shared_evenly(others, moves)[0, :, 0]
    assert shared.sum(axis=0).tolist() == [1.0] * moves.shape[3]
    assert shared.sum(axis=1).min() >= served
    by_size = lines._shared_by_size(others, moves)[0, :, 0]
    assert by_size.sum(axis=0).tolist() == [1.0] * moves.shape[3]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("law", LAWS)
def test_persons_keep_at_least_what_they_did_without_lines(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng([9, LAWS.index(law)])
    drawn = [persons(generator, noise=0.05, law=law) for _ in range(6)]
    found = [assess(one.design()) for one in drawn]
    monkeypatch.setattr(assessment, "with_lines", lambda design, lower, upper: lower)
    before = [assess(one.design()).lower for one in drawn]
    assert all(np.all(now.lower >= then) for now, then in zip(found, before, strict=True))
    assert all(np.all(now.lower <= now.upper) for now in found)
    several = [np.bincount(one.owner) > 1 for one in drawn]
    gained = [
        (now.lower / np.maximum(then, 1e-9))[own]
        for now, then, own in zip(found, before, several, strict=True)
    ]
    assert max(float(one.max(initial=1.0)) for one in gained) > 1.5
