r"""Tell one line, or a flat: lower ends of uniform values that others hide, of units with a few rows each.

**One line.** A direction d moves the rows of a unit by u, each row in between by at most 1, and some row by
1. Tell the line :math:`x + td`: what is left of t is at least the chord bound R
(:mod:`sightline.bounds.van_trees`), so that :math:`\mathbb E \operatorname{Cov}(x_B \mid y) \succeq
R\, u u^\top` on the rows B of the unit. Of a record that is its own value. Two kinds of u are tried: each row
by itself, and the features that the best linear attack sees best and worst.

**One flat.** A direction for each row of the unit, that moves no other row of it, and no two of which move a
row together. What is left in the flat that they span is a box, and with the information H of the answers
about its sides and a diagonal :math:`\Lambda \succeq H` at least :math:`\operatorname{diag}(R_i)`, each at
the information :math:`\Lambda_{ii}`: no row pays for the others.

Every mean of such matrices is a bound. Its least eigenvalue is that of the sharpest feature; the weights are
found as in a game. A good direction changes the releases little and moves few others, since each of them
shortens the chord: the minimum of

.. math:: \tfrac12 d^\top G d + \mu \sum_k \bigl(|d_k| + \tfrac12 d_k^2\bigr)

over the rows of others, which move by at most m: a chord is :math:`6 \int \ell (1 - \ell) \prod_k (1 - \ell
|d_k|) \, d\ell` long on average, and :math:`-\log(1 - \ell |d_k|)` is :math:`\ell |d_k| + \ell^2 d_k^2/2`.
It is convex, and is solved to the end, so that neither rounding nor the noise of other numbers decides where
the search stops. Some penalties :math:`\mu` are tried, and more of them around the best one; beside them
moves that only their squares hold, which spread over more rows. In a flat each row of others serves one row
of the unit: some ways to share them are tried. How good a minimum, a way or a weight is does not matter for
the truth of a bound. Proofs: the theory page on named records.

**A line to those in the same exact numbers.** Let the rows :math:`K` be in exactly the exact numbers that
row j is in, as often as j. Row j rises and all m of K fall by 1/m of it: no exact number changes, and numbers
with noise see the move. Every choice of K gives a bound; the rows that noise tells apart least come first. A
yes or no has moves in place of lines (:mod:`sightline.bounds.moves`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sightline.arrays import MOST_COMPARED, ROUNDING, FloatArray, IndexArray, distinct_lines
from sightline.bounds.canonical_order import in_canonical_order
from sightline.bounds.priors import UniformPrior
from sightline.bounds.van_trees import MOST_MOVED, chord_bounds, chord_slopes, mean_squares
from sightline.numerics.residuals import gamma
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.unit_block import BoolArray
from sightline.units.units import Units, UnitStore
from sightline.values import frozen

MOST_KINDS = 2_000  # of which columns are fetched
# Brackets narrower than that are left alone, and no other is made narrower: so an end that more noise leaves
# alone is no lower than one that was improved before.
WIDE = 1.001
MOST_ENTRIES = 1_000_000  # rows × columns of designs in which every two columns are compared: 0.1 s
_MOST_CHOICES = 8  # sets K that are tried for a column
_FIRST = (
    16  # of a set, where columns at one distance are ordered: in a larger one each changes the mean little
)
FEW_ROWS = 8  # of a person: of more, bounds and attacks row by row say little


@frozen(slots=False)
class DistinctColumns:
    """The different columns of a design, the unknown rows of all persons with each, and who is one row of
    one.
    """

    entries: FloatArray  # rows × columns
    counts: FloatArray
    group: IndexArray  # the column of every column of a kind
    column: IndexArray  # of every kind, that of its first row
    single: BoolArray  # kinds that are one row

    @classmethod
    def of(cls, units: Units) -> DistinctColumns:
        first, group = distinct_lines(np.concatenate([units.rows, units.weights], axis=1))
        numbers = np.repeat(units.people, np.diff(units.starts)) * units.times
        entries = np.zeros((units.numbers + 1, first.size))
        line = np.repeat(np.arange(first.size), units.rows.shape[1])
        entries[units.rows[first].ravel(), line] = units.weights[first].ravel()
        return cls(
            entries=entries[:-1],
            counts=np.asarray(np.bincount(group, numbers), dtype=np.float64),
            group=group,
            column=group[units.starts[:-1]],
            single=(np.diff(units.starts) == 1) & (units.times[units.starts[:-1]] == 1),
        )


def among_alike(units: UnitStore) -> FloatArray:
    """What remains of every kind because nothing tells its rows from others, whatever the noise."""
    return units.among_alike if isinstance(units, Units) else np.asarray(1 - 1 / units.alike)


def with_alike(units: UnitStore, noise: RowNoise, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Lower ends of all units, not below what remains because nothing tells their rows from others."""
    among = among_alike(units)[:, None] * noise.share
    return np.minimum(np.maximum(lower, among), upper)


def swap_bounds(design: Design) -> FloatArray:
    """At most the remaining uncertainty of every kind, by its first row; 0 where nothing is shown."""
    prior, number = design.prior.target, len(design.units)
    if (
        design.prior.categories > 1
        or not isinstance(prior, UniformPrior)
        or number > MOST_KINDS
        or design.noise.shared
    ):
        return np.zeros(number)
    columns = DistinctColumns.of(design.units.choose(np.arange(number)))
    if columns.counts.size > MOST_COMPARED or columns.entries.size > MOST_ENTRIES:
        return np.zeros(number)
    noisy = ~design.noise.exact
    seen = columns.entries[noisy] * (np.sqrt(design.noise.information[noisy, None]) * prior.width)
    group = np.unique(columns.entries[design.noise.exact], axis=1, return_inverse=True)[1].ravel()
    gaussian = not design.noise.laplace[noisy].any()
    sets = [
        choice for target in range(group.size) for choice in _swap_sets(columns.counts, seen, group, target)
    ]
    if not sets:
        return np.zeros(number)
    numbers = np.array([choice.number for choice in sets])
    together = np.array([choice.together for choice in sets])
    bounds = _uniform_bounds(numbers, together, gaussian=gaussian)
    best = np.zeros(group.size)
    np.maximum.at(best, [choice.target for choice in sets], bounds)
    return np.where(columns.single, best[columns.column], 0.0)


@frozen
class _SwapSet:
    """A set K for one column: how many rows, and how far noise tells the column from their mean."""

    target: int
    number: float
    together: float


def _swap_sets(numbers: FloatArray, seen: FloatArray, group: IndexArray, target: int) -> Iterator[_SwapSet]:
    """The sets K that are tried for a column: those that noise tells apart least come first."""
    others = np.flatnonzero(group == group[target])
    counts = numbers[others] - (others == target)
    apart = np.sum((seen[:, others] - seen[:, [target]]) ** 2, axis=0) * (1 + ROUNDING)
    order = np.argsort(apart, kind="stable")
    order = order[counts[order] > 0]
    if not order.size:
        return
    order = _ties_by_mean(order, counts, seen[:, others] - seen[:, [target]], apart)
    for last in np.unique(np.geomspace(1, order.size, _MOST_CHOICES).astype(np.intp)):
        chosen = order[:last]
        number = counts[chosen]
        moved = seen[:, others[chosen]] @ (number / number.sum()) - seen[:, target]
        yield _SwapSet(target=target, number=float(number.sum()), together=float(moved @ moved))


def _ties_by_mean(order: IndexArray, counts: FloatArray, moved: FloatArray, apart: FloatArray) -> IndexArray:
    """Of columns that are equally far apart, up to rounding, first the one that leaves the mean nearest.

    Else rounding would say which, and sets would change with constants in weights beside exact sums.
    """
    order, rising = order.copy(), apart[order]
    ends = np.flatnonzero(np.append(np.diff(rising) > ROUNDING * rising[1:], True)) + 1
    sizes = np.diff(ends, prepend=0)
    several = (sizes > 1) & (ends <= _FIRST)
    for end, size in zip(ends[several].tolist(), sizes[several].tolist(), strict=True):
        for start in range(end - size, end - 1):
            before, left = order[:start], order[start:end]
            sums = (moved[:, before] @ counts[before])[:, None] + moved[:, left] * counts[left]
            lengths = np.sum(sums**2, axis=0) / (counts[before].sum() + counts[left]) ** 2
            nearest = int(np.argmax(lengths <= lengths.min() * (1 + ROUNDING)))
            order[start:end] = [left[nearest], *np.delete(left, nearest)]
    return order


def _uniform_bounds(numbers: FloatArray, information: FloatArray, *, gaussian: bool) -> FloatArray:
    """The bounds for a uniform number on a domain of width 1, if the others fall by 1/m each."""
    few = numbers <= MOST_MOVED
    moves, counts = 1 / numbers[few, None], numbers[few, None]
    bounds = np.zeros(numbers.size)
    bounds[few] = chord_bounds(moves, counts, information[few] * (1 + ROUNDING) + 1e-300, gaussian=gaussian)
    return np.where(np.isfinite(bounds), 12 * bounds * (1 - ROUNDING), 0.0)


# Designs of up to so many columns, and so many entries. Of each, as many units with the widest brackets.
# Tuned so that an audit of 18 records spends less than a quarter of its time here.
_MOST_SEARCHED, _MOST_SEARCHED_ENTRIES = 40, 20_000
# Penalties for a domain of width 1: a small one finds the shortest change that hardly changes a release. The
# best lines are searched again with penalties of their own. Of 858 lines 2 in a thousand end more than a
# thousandth below what a general program finds from the best line on.
_PENALTIES = np.geomspace(0.01, 10.0, 9)
_AGAIN, _TIMES_AGAIN = 2, 2
# Newton steps: each leaves a tenth of the gap, and a share of the way to the border.
_STEPS, _TOWARDS, _INSIDE, _CLOSE = 30, 0.1, 0.95, 1e-9
_FARTHEST = 2.0  # m: others may move farther than a unit's own row, which then moves by less than 1
_STILL = 1e-7  # a move that is this small is none: it would count as one more row that moves
# Information that counts as no more, in the search alone: with more of it a system has no digits.
_SEEN = 1e11
_SQUARES_OVERFLOW = 1e100
# Of the game: of 107 units 1 in 100 is left more than a hundredth below what 1,500 small steps find.
_ROUNDS, _STEP, _SMALLER_AFTER = 250, 4.0, 10


def with_lines(design: Design, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Lower ends of units with a few rows, improved by lines through the rows where brackets are wide."""
    prior, number = design.prior.target, len(design.units)
    if design.prior.categories > 1 or not isinstance(prior, UniformPrior) or not 0 < number <= MOST_KINDS:
        return lower
    units = design.units.choose(np.arange(number))
    sizes = np.add.reduceat(units.times, units.starts[:-1])
    groups = distinct_lines(np.concatenate([units.rows, units.weights], axis=1))[0].size
    if sizes.min() > FEW_ROWS or groups > _MOST_SEARCHED or units.numbers * groups > _MOST_SEARCHED_ENTRIES:
        return lower
    # A search in another order may end elsewhere: that of the plan must not matter.
    design, units = in_canonical_order(design, units)
    sizes = np.add.reduceat(units.times, units.starts[:-1])
    columns = DistinctColumns.of(units)
    groups = columns.counts.size
    # Units with the same rows have the same bracket.
    precision = np.zeros((number, groups))
    np.add.at(precision, (np.repeat(np.arange(number), np.diff(units.starts)), columns.group), units.times)
    first, block = distinct_lines(precision)
    low, high = lower[first, 0] / design.noise.share, upper[first, 0]
    wide = np.flatnonzero((high > WIDE * low) & (sizes[first] <= FEW_ROWS))
    chosen = wide[np.argsort(low[wide] / high[wide], kind="stable")][:_MOST_SEARCHED]
    whitened = design.noise.white(columns.entries) * prior.width
    largest = np.abs(whitened).max(axis=1, initial=0.0, keepdims=True)
    if not chosen.size or not np.all(largest < _SQUARES_OVERFLOW):
        return lower
    whitened = whitened * np.minimum(1.0, math.sqrt(_SEEN) / np.maximum(largest, 1e-300))
    gram = whitened.T @ whitened
    search = _Search(columns=columns, noise=design.noise, width=prior.width, gram=gram)
    best = np.zeros(first.size)
    for size in np.unique(sizes[first[chosen]]).tolist():
        some = chosen[sizes[first[chosen]] == size]
        best[some] = search.bounds(precision[first[some]].astype(np.intp), low[some])
    improved = (np.minimum(best, high) * design.noise.share)[block]
    return np.asarray(np.maximum(lower, improved[:, None]))


@frozen(slots=False)
class _Lines:
    """Directions: how far each row of a unit moves, and each row of others."""

    columns: IndexArray  # directions × rows of the unit
    own: FloatArray  # their moves
    others: FloatArray  # directions × columns: rows of others that may move
    moves: FloatArray  # of each of them

    @classmethod
    def still(cls, *, columns: IndexArray, own: FloatArray, others: FloatArray) -> _Lines:
        """The rows of a unit move, and no other."""
        return cls(columns=columns, own=own, others=others, moves=np.zeros(others.shape))

    def __len__(self) -> int:
        return len(self.own)

    def again(self, times: int, moves: FloatArray | None = None) -> _Lines:
        """Each direction some times, with other moves of others: directions × times × columns."""
        lines = self.take(np.repeat(np.arange(len(self)), times))
        return lines if moves is None else replace(lines, moves=moves.reshape(lines.others.shape))

    def take(self, lines: IndexArray) -> _Lines:
        return _Lines(
            columns=self.columns[lines],
            own=self.own[lines],
            others=self.others[lines],
            moves=self.moves[lines],
        )

    def sums(self, size: bool = False) -> FloatArray:
        """Directions × columns: the moves of all rows of a column together; or of their sizes."""
        own, moves = (np.abs(self.own), np.abs(self.moves)) if size else (self.own, self.moves)
        total = self.others * moves
        np.add.at(total, (np.arange(len(self))[:, None], self.columns), own)
        return total

    def normal(self) -> _Lines:
        """The largest move is 1, and as many others move as a chord bound takes: those that move most."""
        order = np.argsort(-np.abs(self.moves), axis=1, kind="stable")
        counted = np.cumsum(np.take_along_axis(self.others, order, axis=1), axis=1)
        kept = np.zeros(self.others.shape, dtype=np.bool_)
        np.put_along_axis(kept, order, counted + self.own.shape[1] - 1 <= MOST_MOVED, axis=1)
        others = np.where(kept & (self.moves != 0), self.others, 0.0)
        moves = np.where(others > 0, self.moves, 0.0)
        largest = np.maximum(np.abs(self.own).max(axis=1), np.abs(moves).max(axis=1))[:, None]
        return replace(self, own=self.own / largest, others=others, moves=moves / largest)

    def chords(self, information: FloatArray, gaussian: bool) -> FloatArray:
        """At most what is left of t over the variance of a uniform number, of normal directions."""
        return 12 * chord_bounds(*self._beside_the_first(), information, gaussian=gaussian)

    def linear(self, information: FloatArray) -> FloatArray:
        """No less than :meth:`chords`: what the best linear attack leaves of a chord as long on average."""
        square = mean_squares(*self._beside_the_first())
        return np.asarray(12 * square / (12 + square * information))

    def slopes(self, information: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What is left less by the move of one row of each column, and by the information."""
        by_moves, by_information = chord_slopes(*self._beside_the_first(), information)
        return by_moves[:, self.own.shape[1] :], by_information

    def _beside_the_first(self) -> tuple[FloatArray, FloatArray]:
        """How far rows move and how many do, without one of those that move most."""
        moves = np.minimum(np.abs(np.concatenate([self.own, self.moves], axis=1)), 1.0)
        counts = np.concatenate([np.where(self.own != 0, 1.0, 0.0), self.others], axis=1)
        counts[np.arange(len(self)), np.argmax(moves, axis=1)] -= 1
        return moves, counts


@frozen(slots=False)
class _Search:
    """What directions are looked for in."""

    columns: DistinctColumns
    noise: RowNoise
    width: float
    gram: FloatArray  # columns × columns: G for a domain of width 1

    def bounds(self, own: IndexArray, low: FloatArray) -> FloatArray:
        """At most what is left of the sharpest feature of units with as many rows each, by column."""
        units, r = len(own), int(own[0].sum())
        columns = np.repeat(np.nonzero(own)[1], own[own > 0]).reshape(units, r)
        one = np.broadcast_to(np.eye(r), (units, r, r))
        features = one
        if r > 1:  # and what the linear attack leaves of each feature
            features = np.concatenate([one, self._features(columns)], axis=1)
        each = features.shape[1]
        asked = features.reshape(-1, r)
        start = _Lines.still(
            columns=np.repeat(columns, each, axis=0),
            own=asked / np.abs(asked).max(axis=1, keepdims=True),
            others=np.repeat(self.columns.counts - own, each, axis=0),
        )
        known = np.repeat(low, each)
        try:
            few, spread = (find(start, _PENALTIES) for find in (self._few_moves, self._spread_moves))
            best, order = self._best(few, known)
            again = start.again(_AGAIN, few.take(order[:, :_AGAIN].ravel()).moves)
            best = np.maximum(best, self._best(spread, np.maximum(best, known))[0])
            for _ in range(_TIMES_AGAIN):
                weights = self._weights(again)[:, None]
                again = self._few_moves(start.again(_AGAIN), weights)
                best = np.maximum(best, self._best(again, np.maximum(best, known))[0])
            boxes = self._boxes(few, spread, units) if r > 1 else None
        except np.linalg.LinAlgError:  # systems that are singular, to rounding, find no moves
            return np.zeros(units)
        kept = best.reshape(units, -1)
        if boxes is None:
            return kept[:, 0]
        features = asked / np.linalg.norm(asked, axis=1, keepdims=True)
        lines = best[:, None, None] * features[:, :, None] * features[:, None, :]
        # The best mean of the lines of an orthogonal basis keeps as much of every feature.
        kept = 1 / np.sum(1 / np.maximum(best.reshape(units, -1, r), 1e-300), axis=2)
        known = np.maximum(low, kept.max(axis=1))[:, None, None, None] * np.eye(r)
        return _game(np.concatenate([lines.reshape(units, -1, r, r), boxes, known], axis=1))

    def _best(self, lines: _Lines, known: FloatArray) -> tuple[FloatArray, IndexArray]:
        """What the best of some lines leaves of each feature, 0 if that is no more than is known; and the
        lines from the best one on, as far as they were looked at.
        """
        normal = lines.normal()
        seen, most = self._seen(normal), self._most(normal).reshape(known.size, -1)
        left, asked = np.zeros(most.shape), np.arange(known.size)[:, None]
        tried = np.zeros(most.shape, dtype=np.bool_)
        tried[asked[:, 0], np.argmax(most, axis=1)] = True
        for looked_at in (tried, ~tried):
            some = np.flatnonzero(looked_at & (most > np.maximum(left.max(axis=1), known)[:, None]))
            chords = normal.take(some).chords(seen[some], self._gaussian)
            left.ravel()[some] = chords * np.sum(normal.own[some] ** 2, axis=1)
        order = np.lexsort((-most, -left), axis=1)
        return left.max(axis=1), order + most.shape[1] * asked

    def _most(self, normal: _Lines) -> FloatArray:
        """No less than is left of a unit's feature."""
        return np.asarray(normal.linear(self._seen(normal)) * np.sum(normal.own**2, axis=1))

    def _seen(self, lines: _Lines) -> FloatArray:
        """The information about t."""
        return np.diagonal(self._information(lines, len(lines)), axis1=1, axis2=2).ravel()

    def _weights(self, lines: _Lines) -> FloatArray:
        """Lines × columns: the penalties with which a line stays where it leaves most."""
        by_moves, by_information = lines.slopes(np.minimum(self._seen(lines), _SEEN))
        weights = np.maximum(by_moves, 1e-300) / np.maximum(2 * by_information, 1e-300)[:, None]
        return np.asarray(weights / (1 + np.abs(lines.moves)))

    @property
    def _gaussian(self) -> bool:
        return not self.noise.laplace.any()

    def _features(self, columns: IndexArray) -> FloatArray:
        """Units × features × rows: an orthogonal basis, from what is seen best to what is seen least."""
        counts = self.columns.counts
        inverse = np.linalg.inv(np.diag(12 / np.maximum(counts, 1.0)) + self.gram)
        seen = self.gram - self.gram @ inverse @ self.gram
        products = seen[columns[:, :, None], columns[:, None, :]]
        axes = np.linalg.eigh(products)[1].swapaxes(1, 2)
        return np.where(np.abs(axes) < 1e-6, 0.0, axes)

    def _few_moves(self, start: _Lines, penalties: FloatArray) -> _Lines:
        """Some others move with a unit's rows: a line for every penalty, which may differ by column."""
        listed = penalties if penalties.ndim == 3 else np.atleast_2d(penalties)[..., None]
        tried = np.broadcast_to(listed, (len(start), *listed.shape[1:]))
        copies = start.again(tried.shape[1]).others.reshape(*tried.shape[:2], -1)
        pull = (start.sums() @ self.gram)[:, None] * copies
        moves = least_moves(self.gram, copies, pull, tried * np.where(copies > 0, copies, 1.0))
        return start.again(tried.shape[1], np.where(copies > 0, moves, 0.0))

    def _spread_moves(self, start: _Lines, penalties: FloatArray) -> _Lines:
        """The same, where only the squares of moves are held: over as many rows as may help."""
        copies, places = start.others[:, None, :, None], np.arange(start.others.shape[1])
        matrix = np.where(copies > 0, np.repeat(self.gram[None, None], penalties.size, axis=1), 0.0)
        weight = penalties[:, None] / np.where(copies[..., 0] > 0, copies[..., 0], 1.0)
        matrix[..., places, places] += weight + 1e-15 * float(np.trace(self.gram))
        pull = (start.sums() @ self.gram)[:, None, :, None]
        moves = np.linalg.solve(matrix, np.repeat(np.where(copies > 0, -pull, 0.0), penalties.size, axis=1))
        moves = np.where(copies > 0, moves / np.where(copies > 0, copies, 1.0), 0.0)
        return start.again(penalties.size, moves[..., 0])

    def _boxes(self, few: _Lines, spread: _Lines, units: int) -> FloatArray:
        """Units × boxes × r × r: for every penalty a flat, by each of some ways to share the other rows."""
        r, size = few.own.shape[1], few.moves.shape[1]
        shape = units, -1, _PENALTIES.size
        alone = np.arange(len(few)).reshape(shape)[:, :r]  # rows by themselves
        others = few.others[alone.ravel()].reshape(units, r, _PENALTIES.size, size)
        far, near = (np.abs(one.moves[alone.ravel()]).reshape(others.shape) for one in (spread, few))
        # A row that is not needed by itself may stand in for one that serves another row.
        sizes = near + _STANDS_IN * far
        # A flat is of one penalty: units × penalties × rows.
        start = few.take(alone.transpose(0, 2, 1).ravel())
        ways, boxes = dict[bytes, FloatArray](), list[FloatArray]()

        def look_at(shared: FloatArray) -> None:
            if shared.tobytes() not in ways:
                ways[shared.tobytes()] = shared
                boxes.append(self._flats(start, shared.transpose(0, 2, 1, 3).reshape(-1, size)))

        for share in (_shared_by_size, _shared_evenly):
            for needed in (sizes, far):
                look_at(share(others[:, 0], needed))
        for one in boxes[:]:  # once more, with more others for the row of which least is left
            left = np.diagonal(one, axis1=1, axis2=2).reshape(units, -1, r).swapaxes(1, 2)[..., None]
            behind = left.max(axis=1, keepdims=True) / np.maximum(left, _LEAST_LEFT)
            for share in (_shared_by_size, _shared_evenly):
                look_at(share(others[:, 0], (near + far) * behind**2))
        return np.concatenate([one.reshape(units, -1, r, r) for one in boxes], axis=1)

    def _flats(self, start: _Lines, shared: FloatArray) -> FloatArray:
        """Flats × r × r: searched again with the others that each row of a flat has."""
        r = start.own.shape[1]
        penalties = np.tile(np.repeat(_PENALTIES, r), len(start) // (r * _PENALTIES.size))[:, None]
        again = self._few_moves(_Lines.still(columns=start.columns, own=start.own, others=shared), penalties)
        flats = again.normal()
        seen = np.abs(self._information(flats, len(flats) // r)).sum(axis=2).ravel()
        left = flats.chords(seen, self._gaussian).reshape(-1, r)
        moves = flats.own[np.arange(len(flats)), np.tile(np.arange(r), len(flats) // r)].reshape(-1, r)
        return np.asarray((left * moves**2)[:, :, None] * np.eye(r))

    def _information(self, lines: _Lines, flats: int) -> FloatArray:
        """Flats × directions × directions: H for a domain of width 1, rounded away from 0."""
        entries, noise = self.columns.entries, self.noise
        moved, size = entries @ lines.sums().T, np.abs(entries) @ lines.sums(size=True).T
        rounding = gamma(entries.shape[1] + 8 + 2 * len(entries))
        if not noise.shared:
            white, error = np.sqrt(noise.information)[:, None], 0.0
            other = moved = white * moved
            lengths, off = np.linalg.norm(moved, axis=0), rounding * np.linalg.norm(white * size, axis=0)
        else:
            form = noise.precision
            other, lengths, error = form.matrix[:-1, :-1] @ moved, form.root[:-1] @ size, form.error
            rounding += gamma(form.roundings)
            off = 1.5 * rounding * lengths
            if not error < 1:
                return np.full((flats, len(lines) // flats, len(lines) // flats), np.inf)
        shape = len(entries), flats, len(lines) // flats
        information = np.einsum("nfi,nfj->fij", moved.reshape(shape), other.reshape(shape))
        # Rounding of the sums, then of the form, counts as if it added information.
        lengths, off = lengths.reshape(flats, -1), off.reshape(flats, -1)
        most = (lengths + off)[:, :, None] * (lengths + off)[:, None]
        added = most - (1 - 2 * rounding) * lengths[:, :, None] * lengths[:, None]
        return np.asarray(
            (information + np.where(information < 0, -added, added)) * (self.width**2 / (1 - error))
        )


def least_moves(gram: FloatArray, copies: FloatArray, pull: FloatArray, penalty: FloatArray) -> FloatArray:
    r"""Many minima of :math:`\tfrac12 d^\top N G N d + g^\top d + w^\top (|d| + \tfrac12 d^2)` over
    :math:`|d_k| \le m`, with the copies N of every column on the diagonal.

    With :math:`|d_k| \le t_k \le m` it is a convex problem: Newton steps from within, each with the products
    of multipliers and inequalities nearer to 0. A step takes one system of the size of d; t is eliminated.
    """
    size = copies.shape[-1]
    d, places = np.zeros(copies.shape), np.arange(size)
    squares = gram * copies[..., :, None] * copies[..., None, :]
    # Of t − d ≥ 0, t + d ≥ 0 and m − t ≥ 0: how far they are from equality, then their multipliers.
    pairs = np.array(
        [np.full((3, *copies.shape), _FARTHEST / 2), np.broadcast_to(penalty, (3, *copies.shape))]
    )
    enough = _CLOSE * penalty.sum(axis=-1)
    for _ in range(_STEPS):
        slack, dual = pairs
        gap = np.einsum("i...k,i...k->...", slack, dual) / 3
        if not (gap > enough).any():
            break
        rate, pushed = dual / slack, (_TOWARDS / size * gap)[..., None] / slack
        across, both = rate[1] - rate[0], rate[0] + rate[1]
        own = both + rate[2]
        right_t = pushed[0] + pushed[1] - pushed[2] - penalty
        slope = (squares @ d[..., None])[..., 0] + pull + penalty * d
        right_d = pushed[1] - pushed[0] - slope - across * right_t / own
        matrix = squares.copy()
        # Not negative: (r₁ + r₂)(r₁ + r₂ + r₃) is at least (r₂ − r₁)².
        matrix[..., places, places] += (4 * rate[0] * rate[1] + both * rate[2]) / own + penalty
        step_d = np.linalg.solve(matrix, right_d[..., None])[..., 0]
        step_t = (right_t - across * step_d) / own
        of_slack = np.array([step_t - step_d, step_t + step_d, -step_t])
        steps = np.array([of_slack, pushed - dual - rate * of_slack])
        fastest = np.max(-steps / pairs, axis=(0, 1, -1))
        far = np.where(gap > enough, np.minimum(1.0, _INSIDE / np.maximum(fastest, _INSIDE)), 0.0)[..., None]
        d, pairs = d + far * step_d, pairs + far * steps
    return np.where(np.isfinite(d) & (np.abs(d) >= _STILL), d, 0.0)


def _shared_by_size(others: FloatArray, sizes: FloatArray) -> FloatArray:
    """Units × rows × penalties × columns: how many others serve each row, in proportion to how far it moves
    them; those that remain serve the row that moves them most.
    """
    total = sizes.sum(axis=1, keepdims=True)
    shared = np.floor(others[:, None] * sizes / np.where(total > 0, total, 1.0))
    most = np.argmax(sizes, axis=1)[:, None]
    rest = (others - shared.sum(axis=1))[:, None]
    np.put_along_axis(shared, most, np.take_along_axis(shared, most, axis=1) + rest, axis=1)
    return shared


# What is left of a row at least, when others are shared again.
_LEAST_LEFT = 1e-3
# What moves that are only spread count, beside those that are needed.
_STANDS_IN = 0.02
# What a row that is served by nobody counts as having: the first to serve it are not worth all others.
_UNSERVED = 0.05


def _shared_evenly(others: FloatArray, sizes: FloatArray) -> FloatArray:
    """The same, but one after the other, largest moves first, each serves the row that it helps most,
    relative to what serves that row already.

    Rows that would move all others alike would else leave every one of them to the same row.
    """
    total = sizes.sum(axis=1, keepdims=True)
    shared = np.floor(others[:, None] * sizes / np.where(total > 0, total, 1.0))
    rest, served = others - shared.sum(axis=1), np.sum(shared * sizes, axis=3)
    for column in np.moveaxis(np.argsort(-total[:, 0], axis=2, kind="stable"), 2, 0):
        at = column[:, None, :, None]
        move = np.take_along_axis(sizes, np.broadcast_to(at, (*served.shape, 1)), axis=3)[..., 0]
        left = np.take_along_axis(rest, column[..., None], axis=2)[..., 0]
        for number in range(int(left.max(initial=0.0))):
            helped = np.argmax(move / (served + _UNSERVED), axis=1)[:, None]
            gets = np.zeros_like(served)
            np.put_along_axis(gets, helped, (left > number)[:, None].astype(np.float64), axis=1)
            served = served + gets * move
            np.put_along_axis(
                shared,
                np.broadcast_to(at, (*served.shape, 1)),
                np.take_along_axis(shared, np.broadcast_to(at, (*served.shape, 1)), axis=3) + gets[..., None],
                axis=3,
            )
    return shared


def _game(matrices: FloatArray) -> FloatArray:
    """Units × matrices: at most the largest least eigenvalue of a mean of each unit's matrices.

    Each is paid for what it adds to the feature that the mean leaves least of.
    """
    units, number, r = matrices.shape[:3]
    rounding = gamma(64 * r) * np.trace(matrices, axis1=2, axis2=3).max(axis=1)
    best = np.linalg.eigvalsh(matrices)[:, :, 0].max(axis=1)
    share, paid = np.full((units, number), 1 / number), np.zeros((units, number))
    for place in range(_ROUNDS):
        values, vectors = np.linalg.eigh(np.einsum("um,umij->uij", share, matrices))
        best, least = np.maximum(best, values[:, 0]), vectors[:, :, 0]
        pay = np.einsum("ui,umij,uj->um", least, matrices, least)
        paid += (
            _STEP / (1 + place / _SMALLER_AFTER) * pay / np.maximum(pay.max(axis=1, keepdims=True), 1e-300)
        )
        share = np.exp(paid - paid.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(best - rounding, 0.0))
