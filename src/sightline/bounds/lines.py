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

.. math:: \tfrac12 d^\top G d + \mu \sum_k |d_k|

over the rows of others, which move by at most 1, for some penalties :math:`\mu`. Each is found as a sequence
of weighted least squares, in which the last :math:`|d_k|` become weights, and rows that reach 1 are held
there. In a flat each row of others serves one row of the unit: two ways to share them are tried. How good a
minimum, a way or a weight is does not matter for the truth of a bound. Proofs: the theory page on named
records.

**A line to those in the same exact numbers.** Let the rows :math:`K` be in exactly the exact numbers that
row j is in, as often as j. Row j rises and all m of K fall by 1/m of it: no exact number changes, and numbers
with noise see the move. Every choice of K gives a bound; the rows that noise tells apart least come first. A
yes or no has moves in place of lines (:mod:`sightline.bounds.moves`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sightline.arrays import MOST_COMPARED, ROUNDING, FloatArray, IndexArray, distinct_lines
from sightline.bounds.canonical_order import in_canonical_order
from sightline.bounds.priors import UniformPrior
from sightline.bounds.van_trees import MOST_MOVED, chord_bounds
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
# Penalties for a domain of width 1. A small one finds the shortest change that hardly changes a release.
# With two fewer in the middle, ends of persons were up to a third lower, and one number fewer lowered them;
# without 0.1 those of one golden design were lower by up to 0.001.
_PENALTIES = np.array([0.03, 0.1, 0.2, 0.6, 2.0, 5.0])
_STEPS, _NOTHING = 12, 0.02
_ROUNDS = 90  # of the game


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
    # With so little noise that squares lose all digits least squares find nothing.
    if not chosen.size or not float(np.max(np.abs(whitened))) ** 2 * np.finfo(np.float64).eps < 1:
        return lower
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

    def __len__(self) -> int:
        return len(self.own)

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
        """At least what is left of t over the variance of a uniform number, of normal directions."""
        moves = np.minimum(np.abs(np.concatenate([self.own, self.moves], axis=1)), 1.0)
        counts = np.concatenate([np.where(self.own != 0, 1.0, 0.0), self.others], axis=1)
        counts[np.arange(len(self)), np.argmax(moves, axis=1)] -= 1
        return 12 * chord_bounds(moves, counts, information, gaussian=gaussian)


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
        others = self.columns.counts - own
        one = np.broadcast_to(np.eye(r), (units, r, r))
        features = one
        if r > 1:  # and what the linear attack leaves of each feature
            features = np.concatenate([one, self._features(columns)], axis=1)
        asked = features.reshape(-1, r)
        each = features.shape[1]
        try:
            lines = self._directions(
                np.repeat(columns, each, axis=0), asked, np.repeat(others, each, axis=0), _PENALTIES
            )
        except np.linalg.LinAlgError:  # least squares that are singular, to rounding, find none
            return np.zeros(units)
        normal = lines.normal()
        seen = np.diagonal(self._information(normal, len(normal)), axis1=1, axis2=2).ravel()
        left = normal.chords(seen, self._gaussian)
        matrices = (left[:, None, None] * normal.own[:, :, None] * normal.own[:, None, :]).reshape(
            units, -1, r, r
        )
        if r == 1:
            return np.asarray(matrices.max(axis=(1, 2, 3)))
        boxes = self._boxes(lines, units, r, each)
        # The best mean of the lines of an orthogonal basis keeps as much of every feature.
        kept = (left * np.sum(normal.own**2, axis=1)).reshape(units, -1, r, _PENALTIES.size).max(axis=3)
        kept = 1 / np.sum(1 / np.maximum(kept, 1e-300), axis=2)
        known = np.maximum(low, kept.max(axis=1))[:, None, None, None] * np.eye(r)
        return _game(np.concatenate([matrices, boxes, known], axis=1))

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

    def _directions(
        self, columns: IndexArray, own: FloatArray, others: FloatArray, penalties: FloatArray
    ) -> _Lines:
        """For each move of a unit's rows some of others: one for every penalty, for all or for each."""
        size = others.shape[1]
        own = own / np.abs(own).max(axis=1, keepdims=True)
        moved = _Lines(columns=columns, own=own, others=others, moves=np.zeros(others.shape)).sums()
        # Columns without others, and those that move as far as they may, are held by a weight that is larger
        # than all information. Where those would rather move less they are let go. Every column has some
        # weight, beside which little noise does not make squares singular.
        alone = others == 0
        counts = np.where(alone, 1.0, others)[:, None, :]
        heavy, least_weight = np.array([1e12, 1e-15]) * float(np.trace(self.gram))
        tried = np.broadcast_to(penalties, (len(own), penalties.shape[-1]))[..., None]
        pull = np.repeat(-(moved @ self.gram)[:, None, :], tried.shape[1], axis=1)
        d = np.ones((*tried.shape[:2], size))
        held = np.zeros(d.shape)  # where each column is held, and 0 if it is free
        # Columns that are held and let go in turn make steps that go up again: the best one counts.
        least, best = np.full(d.shape[:2], np.inf), d
        for _ in range(_STEPS):
            weights = tried / (np.abs(d) + _NOTHING) + least_weight
            fixed = np.where(alone[:, None, :] | (held != 0), heavy, 0.0)
            matrix = np.tile(self.gram, (*tried.shape[:2], 1, 1))
            matrix[..., np.arange(size), np.arange(size)] += (weights + fixed) / counts
            target = pull + fixed * held
            free = np.linalg.solve(matrix, target[..., None])[..., 0] / counts
            d = np.clip(free, -1.0, 1.0)
            slope = (d * counts) @ self.gram - pull + weights * d
            held = np.where(held * slope > 0, 0.0, np.where(np.abs(free) > 1, np.sign(free), held))
            reached = np.where(alone[:, None, :], 0.0, d)
            total = moved[:, None, :] + others[:, None, :] * reached
            value = np.sum(total @ self.gram * total, axis=2) / 2
            value += tried[..., 0] * np.sum(np.abs(reached) * others[:, None, :], axis=2)
            best = np.where((value < least)[..., None], reached, best)
            least = np.minimum(least, value)
        d = best
        again = np.repeat(np.arange(len(own)), tried.shape[1])
        return _Lines(columns=columns[again], own=own[again], others=others[again], moves=d.reshape(-1, size))

    def _boxes(self, lines: _Lines, units: int, r: int, each: int) -> FloatArray:
        """Units × boxes × r × r: for every penalty a flat, by each of two ways to share the other rows."""
        size = lines.moves.shape[1]
        shape = units, each, _PENALTIES.size
        alone = np.arange(len(lines)).reshape(shape)[:, :r]  # rows by themselves
        sizes = np.abs(lines.moves[alone.ravel()]).reshape(units, r, _PENALTIES.size, size)
        others = lines.others[alone.ravel()].reshape(sizes.shape)
        # A flat is of one penalty: units × penalties × rows.
        start = lines.take(alone.transpose(0, 2, 1).ravel())
        ways = _shared_by_size(others[:, 0], sizes), _shared_evenly(others[:, 0], sizes)
        different = ways[:1] if np.array_equal(*ways) else ways
        boxes = [self._flats(start, shared.transpose(0, 2, 1, 3).reshape(-1, size)) for shared in different]
        return np.concatenate([one.reshape(units, -1, r, r) for one in boxes], axis=1)

    def _flats(self, start: _Lines, shared: FloatArray) -> FloatArray:
        """Flats × r × r: searched again with the others that each row of a flat has."""
        r = start.own.shape[1]
        penalties = np.tile(np.repeat(_PENALTIES, r), len(start) // (r * _PENALTIES.size))[:, None]
        try:
            again = self._directions(start.columns, start.own, shared, penalties)
        except np.linalg.LinAlgError:
            return np.zeros((0, r, r))
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
    for _ in range(_ROUNDS):
        values, vectors = np.linalg.eigh(np.einsum("um,umij->uij", share, matrices))
        best, least = np.maximum(best, values[:, 0]), vectors[:, :, 0]
        pay = np.einsum("ui,umij,uj->um", least, matrices, least)
        paid += pay / np.maximum(pay.max(axis=1, keepdims=True), 1e-300)
        share = np.exp((paid - paid.max(axis=1, keepdims=True)) / 2)
        share /= share.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(best - rounding, 0.0))
