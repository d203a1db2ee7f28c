r"""Whose yes or no follows with certainty from counts that are known to lie in intervals.

Class u has :math:`n_u` people whom no published number tells apart, and :math:`x_u` of them say yes. Of every
number i it is known that :math:`l_i \le (A x)_i \le h_i`: an exact count has :math:`l = h`, a rounded one and
a blank have an interval. Somebody in class u is certain if every whole x within the intervals has
:math:`x_u = 0`, or every one :math:`x_u = n_u`; otherwise both answers fit what is published.

The true table x is at hand, so a class of which some say yes and some say no is settled. For the others a
*change* is looked for: a whole table y within the intervals with :math:`y_u \ne x_u`. Both answers are
checked:

- *not certain*: by the table y itself, in whole numbers.
- *certain*: by weights w on the numbers (Farkas). For every x, :math:`x_u = w^\top A x + (e_u - A^\top w)x`,
  so that

  .. math:: x_u \le \sum_i \max(w_i l_i, w_i h_i) + \sum_v n_v \max(0, (e_u - A^\top w)_v),

  and below 1 that is 0. Whatever the weights are, this holds: the linear program only finds them.

Where the linear program leaves room for a part of a person, but not for a whole one, an integer program
decides, and there are no weights. What it does not decide within a number of nodes is *undecided*: on every
machine the same.

Components of the numbers that share no class are decided by themselves.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.progress import report, reported
from sightline.values import frozen

BoolArray = NDArray[np.bool_]
_ROOM = 1e-6  # below one person, by which a bound must stay: sums of weights are rounded by far less
_NOTHING = 1e-12  # a weight that is rounding alone
_WHOLE = 1e-5  # within which a solver's number is taken as whole; the table is checked afterwards
_MOST_MOVES = 24  # of a search for a table: longer ones found nothing more in tables of 100,000 people
_SOME = 0.9  # the gap at which a table that changes some classes is good enough: others are asked again
_FEW_STARTS = 100  # of a search after which none frees somebody: counts are exact, and no search helps
# Nodes of an integer program about one class, and entries × nodes: tables of offices take one node, in
# milliseconds, and the hardest that are given up some 20 seconds.
_MOST_NODES, _MOST_WORK = 5_000, 40_000_000
# Entries × steps of a linear program, so that it ends on every machine with the same answer: half a minute.
# Three columns with all margins of 4,400 blank and exact counts need a tenth of them; exact counts by all two
# of four columns over 100,000 people would take hours.
_MOST_STEPS_OF_ENTRIES = 300_000_000
_STOPPED = 1  # the status of a program that SciPy's solver has stopped at its limit


@frozen(slots=False)
class CountIntervals:
    """What is known of some counts, and the true table; classes are people whom nothing tells apart."""

    weights: Any  # numbers × classes, sparse: how often a person of a class counts
    low: FloatArray  # of each number, of what the people of the classes add to it
    high: FloatArray
    sizes: FloatArray  # people of each class
    truth: FloatArray  # how many of them say yes

    def __post_init__(self) -> None:
        require(
            bool(np.all(self.low <= self.high))
            and bool(np.all((self.truth >= 0) & (self.truth <= self.sizes))),
            "intervals with low <= high, and counts between 0 and the size of a class",
            got="others",
        )
        require(self.meets(self.truth), "a table within the intervals", got="one outside")

    def meets(self, table: FloatArray) -> bool:
        """Whether a table is within the intervals; whole numbers have no rounding to allow for."""
        numbers, slack = self.weights @ table, 1e-9 * (1 + np.abs(self.low))
        inside = np.all((numbers >= self.low - slack) & (numbers <= self.high + slack))
        return bool(inside and np.all((table >= 0) & (table <= self.sizes)))

    @cached_property
    def columns(self) -> Any:
        """The weights, class by class."""
        return sparse.csc_array(self.weights)

    def take(self, numbers: IndexArray, classes: IndexArray) -> CountIntervals:
        """Some numbers and classes; the others add to these numbers what they truly do."""
        rows = self.weights[numbers]
        own = sparse.csr_array(sparse.csc_array(rows)[:, classes])
        rest = rows @ self.truth - own @ self.truth[classes]
        return CountIntervals(
            weights=own,
            low=self.low[numbers] - rest,
            high=self.high[numbers] - rest,
            sizes=self.sizes[classes],
            truth=self.truth[classes],
        )


@frozen(slots=False)
class Decisions:
    """Of every class: whether its people are certain, or whether that is not decided."""

    certain: BoolArray
    undecided: BoolArray
    # Of certain classes, the weights on the numbers that prove it; none where whole numbers alone do.
    proofs: dict[int, dict[int, float]] = field(default_factory=dict)


def decide(intervals: CountIntervals) -> Decisions:
    """Decide for every class whether somebody in it is certain.

    Of three people two of whom are counted with the third, in two exact counts:

    >>> rows = sparse.csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
    >>> counts = np.array([2.0, 1.0])
    >>> found = decide(CountIntervals(
    ...     weights=rows, low=counts, high=counts, sizes=np.ones(3), truth=np.array([1.0, 1.0, 0.0])))
    >>> found.certain.tolist(), found.proofs[2]
    ([True, True, True], {1: 1.0, 0: -1.0})
    """
    classes = len(intervals.sizes)
    certain, undecided = np.zeros((2, classes), dtype=np.bool_)
    proofs: dict[int, dict[int, float]] = {}
    asked = intervals.sizes > 0
    asked &= (intervals.truth == 0) | (intervals.truth == intervals.sizes)
    known = _known_by_single_numbers(intervals, asked)
    for place in np.flatnonzero(known.found & asked).tolist():
        certain[place] = True
        if (proof := _completed(intervals, place, known.proof(intervals, place), known)) is not None:
            proofs[place] = proof
    asked &= ~known.found & ~_free_alone(intervals)
    # What is known is a constant: it joins no components.
    asked &= ~_freed_by_moves(intervals, asked)
    for numbers, members in reported(_components(intervals, known.found, asked), "deciding who is certain"):
        own = _decide_component(intervals.take(numbers, members), asked[members])
        certain[members] |= own.certain
        undecided[members] = own.undecided
        for one, weights in own.proofs.items():
            place, weighted = int(members[one]), {int(numbers[i]): w for i, w in weights.items()}
            if (proof := _completed(intervals, place, weighted, known)) is not None:
                proofs[place] = proof
    return Decisions(certain=certain, undecided=undecided, proofs=proofs)


def some_table(
    weights: Any, low: FloatArray, high: FloatArray, sizes: FloatArray
) -> tuple[FloatArray | None, bool]:
    """A whole table within the intervals, if there is one; and whether so many nodes found none and did not
    prove that there is none.

    Any of them will do in place of the true one: who is certain is certain in all of them alike.

    >>> row = sparse.csr_array(np.ones((1, 2)))
    >>> some_table(row, np.array([2.0]), np.array([3.0]), np.ones(2))
    (array([1., 1.]), False)
    >>> some_table(row, np.array([3.0]), np.array([3.0]), np.ones(2))
    (None, False)
    """
    if not np.all(low <= high):
        return None, False
    return _whole_table(weights, (low, high), np.zeros(sizes.size), np.zeros(sizes.size), sizes)


def contradiction(weights: Any, low: FloatArray, high: FloatArray, sizes: FloatArray) -> dict[int, float]:
    r"""Weights on the numbers that prove that no table is within the intervals; none if none was found.

    Every table has :math:`w^\top A x \le \sum_v n_v \max(0, (A^\top w)_v)`, and the intervals want at least
    :math:`\sum_i \min(w_i l_i, w_i h_i)`. The weights are those of the program that makes what is missing
    from the intervals least (Farkas); whatever they are, that they prove it is checked. Numbers that only
    whole tables contradict have no such weights.

    >>> rows = sparse.csr_array(np.array([[1.0, 0.0], [1.0, 1.0]]))
    >>> contradiction(rows, np.array([8.0, 3.0]), np.array([12.0, 7.0]), np.array([20.0, 5.0]))
    {0: 1.0, 1: -1.0}
    """
    from scipy.optimize import linprog

    numbers, classes = weights.shape
    missing = sparse.eye_array(numbers, format="csr")
    rows = sparse.block_array([[weights, -missing], [-weights, -missing]], format="csr")
    bounds = np.stack(
        [np.zeros(classes + numbers), np.concatenate([sizes, np.full(numbers, np.inf)])], axis=1
    )
    objective = np.concatenate([np.zeros(classes), np.ones(numbers)])
    ends = np.concatenate([high, -low])
    solved = linprog(objective, A_ub=rows, b_ub=ends, bounds=bounds, method="highs")
    if solved.x is None:
        return {}
    above, below = np.split(np.asarray(solved.ineqlin.marginals), 2)
    used = {i: w for i, w in enumerate((above - below).tolist()) if abs(w) > 1e-9}
    for denominator in (1, 2, 3, 4, 6, 12, 0):
        tried = {i: round(w * denominator) / denominator if denominator else w for i, w in used.items()}
        tried = {i: w for i, w in tried.items() if w}
        if tried and _contradicts(weights, (low, high), sizes, tried):
            return tried
    return {}


def _contradicts(
    weights: Any, ends: tuple[FloatArray, FloatArray], sizes: FloatArray, tried: dict[int, float]
) -> bool:
    numbers, w = np.array(list(tried)), np.array(list(tried.values()))
    combination = np.asarray(w @ weights[numbers]).ravel()
    least = np.minimum(w * ends[0][numbers], w * ends[1][numbers]).sum()
    return bool(least > np.maximum(0.0, combination) @ sizes + _ROOM)


def upper_bound(intervals: CountIntervals, place: int, weights: dict[int, float]) -> float:
    """The most people of a class who can answer other than they do, as weights on the numbers prove."""
    numbers = np.fromiter(weights, dtype=np.intp, count=len(weights))
    w = np.fromiter(weights.values(), dtype=np.float64, count=len(weights))
    combination = np.asarray(w @ intervals.weights[numbers]).ravel() if w.size else 0 * intervals.sizes
    rest = -combination
    flipped = intervals.truth[place] > 0  # everybody says yes: how many can say no
    rest[place] += -1.0 if flipped else 1.0
    ends = np.maximum(w * intervals.low[numbers], w * intervals.high[numbers])
    bound = float(ends.sum() + np.maximum(0.0, rest) @ intervals.sizes)
    return bound + float(intervals.sizes[place]) if flipped else bound


@frozen(slots=False)
class _Known:
    """Classes that one number settles, given those that were settled before; in rounds."""

    found: BoolArray
    number: IndexArray  # that settles each class; -1 for none
    rounds: tuple[IndexArray, ...]  # the classes of each

    def proof(self, intervals: CountIntervals, place: int) -> dict[int, float]:
        """The weight on its number that proves a class certain, where those settled before are constants."""
        number = int(self.number[place])
        return {number: (-1.0 if intervals.truth[place] > 0 else 1.0) / _weight(intervals, number, place)}


def _weight(intervals: CountIntervals, number: int, place: int) -> float:
    classes, weights = _row(intervals, number)
    return float(weights[classes == place].sum())


def _row(intervals: CountIntervals, number: int) -> tuple[IndexArray, FloatArray]:
    own = slice(intervals.weights.indptr[number], intervals.weights.indptr[number + 1])
    return intervals.weights.indices[own], intervals.weights.data[own]


def _known_by_single_numbers(intervals: CountIntervals, asked: BoolArray) -> _Known:
    """Classes that follow from one number after the other: a count that can only be at its least or its most,
    and an exact count of which everybody else is known.
    """
    A, sizes, truth = intervals.weights, intervals.sizes, intervals.truth
    found, by = np.zeros(sizes.size, dtype=np.bool_), np.full(sizes.size, -1, dtype=np.intp)
    owner, up, down = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)), A.maximum(0), A.minimum(0)
    exact, rounds = intervals.low == intervals.high, list[IndexArray]()
    while True:
        least_of, most_of = np.where(found, truth, 0.0), np.where(found, truth, sizes)
        least, most = up @ least_of + down @ most_of, up @ most_of + down @ least_of
        open_ones = ~found[A.indices] & (A.data != 0) & (sizes[A.indices] > 0)
        # By how much people can move a number away from its end before they leave the interval.
        at_end = np.zeros(A.data.size, dtype=np.bool_)
        for room in (intervals.high - least, most - intervals.low):
            at_end |= np.abs(A.data) > room[owner] + 1e-9
        alone = np.bincount(owner[open_ones], minlength=A.shape[0]) == 1
        settled = open_ones & ((at_end & asked[A.indices]) | (exact & alone)[owner])
        classes, first = np.unique(A.indices[settled], return_index=True)
        if not classes.size:
            return _Known(found=found, number=by, rounds=tuple(rounds))
        by[classes], found[classes] = owner[settled][first], True
        rounds.append(classes.astype(np.intp))


def _completed(
    intervals: CountIntervals, place: int, weights: dict[int, float], known: _Known
) -> dict[int, float] | None:
    """Weights that also prove what they use of classes that single numbers settle; none if they do not prove
    it: whole numbers may say more than weights.

    What is left of such a class is taken away by the number that settles it, the last round first: all others
    in that number were settled before.
    """
    total = dict(weights)
    if upper_bound(intervals, place, total) < 1 - _ROOM:
        return total
    rest = np.zeros(intervals.sizes.size)
    rest[place] = -1.0 if intervals.truth[place] > 0 else 1.0
    for number, weight in total.items():
        classes, entries = _row(intervals, number)
        rest[classes] -= weight * entries
    for settled in reversed(known.rounds):
        truth, amount = intervals.truth[settled], rest[settled]
        few, many = (
            amount > _NOTHING,
            amount < -_NOTHING,
        )  # more than the truth would raise the bound, or less
        harms = np.where(truth == 0, few, np.where(truth == intervals.sizes[settled], many, few | many))
        for one in settled[harms & (settled != place)].tolist():
            number = int(known.number[one])
            added = float(rest[one]) / _weight(intervals, number, one)
            total[number] = total.get(number, 0.0) + added
            classes, entries = _row(intervals, number)
            rest[classes] -= added * entries
    total = {number: weight for number, weight in total.items() if abs(weight) > _NOTHING}
    return total if upper_bound(intervals, place, total) < 1 - _ROOM else None


def _free_alone(intervals: CountIntervals) -> BoolArray:
    """Classes of which one person can answer otherwise and no number leaves its interval."""
    A, columns = intervals.weights, intervals.columns
    numbers = A @ intervals.truth
    step = np.where(intervals.truth > 0, -1.0, 1.0)
    moved = columns.data * np.repeat(step, np.diff(columns.indptr))
    after = numbers[columns.indices] + moved
    stays = (after >= intervals.low[columns.indices] - 1e-9) & (
        after <= intervals.high[columns.indices] + 1e-9
    )
    blocked = np.bincount(
        np.repeat(np.arange(step.size), np.diff(columns.indptr)), ~stays, minlength=step.size
    )
    return np.asarray(blocked == 0)


def _freed_by_moves(intervals: CountIntervals, asked: BoolArray) -> BoolArray:
    """Classes that a search frees: somebody answers otherwise, and a few others make up for it.

    Each move is the one after which the fewest numbers are outside their intervals. It frees nearly all
    classes of a large table, for which linear programs take minutes; what it misses, these decide.
    """
    columns, sizes = intervals.columns, intervals.sizes
    widths = np.diff(columns.indptr)
    width = int(widths.max(initial=1))
    # The numbers of every class and its weights there, filled up with a number that is never outside.
    padded, last = np.full((sizes.size, width), intervals.low.size), np.zeros((sizes.size, width))
    place = np.arange(columns.indices.size) - np.repeat(columns.indptr[:-1], widths)
    owner = np.repeat(np.arange(sizes.size), widths)
    padded[owner, place], last[owner, place] = columns.indices, columns.data
    low, high = np.append(intervals.low, -np.inf) - 1e-9, np.append(intervals.high, np.inf) + 1e-9
    table, numbers = intervals.truth.copy(), np.append(intervals.weights @ intervals.truth, 0.0)
    free = np.zeros(sizes.size, dtype=np.bool_)
    for tried, start in enumerate(np.flatnonzero(asked).tolist()):
        if tried == _FEW_STARTS and not free.any():
            break
        if free[start]:
            continue
        moved = _repaired(intervals, (padded, last), (low, high), (table, numbers), start)
        if moved:
            free[list(moved)] = True
    return free & asked


def _repaired(  # many parameters: arrays that are made once for all searches
    intervals: CountIntervals,
    classes: tuple[IndexArray, FloatArray],
    ends: tuple[FloatArray, FloatArray],
    state: tuple[FloatArray, FloatArray],
    start: int,
) -> dict[int, float]:
    """Moves of people, of the class ``start`` first, after which every number is in its interval; or none."""
    (rows, weights), (low, high), (table, numbers), moves = classes, ends, state, dict[int, float]()
    step = -1.0 if table[start] > 0 else 1.0
    rng = np.random.default_rng(start)
    one, outside = start, set[int]()
    for _ in range(_MOST_MOVES):
        numbers[rows[one]] += step * weights[one]
        table[one] += step
        moves[one] = moves.get(one, 0.0) + step
        near = {int(i) for i in rows[one]}
        outside = {i for i in outside | near if not low[i] <= numbers[i] <= high[i]}
        if not outside:
            break
        number = min(outside)
        own = slice(intervals.weights.indptr[number], intervals.weights.indptr[number + 1])
        others, sign = intervals.weights.indices[own], np.sign(intervals.weights.data[own])
        steps = np.where(numbers[number] > high[number], -1.0, 1.0) * sign
        able = (table[others] + steps >= 0) & (table[others] + steps <= intervals.sizes[others])
        able &= others != start
        others, steps = others[able], steps[able]
        if not others.size:
            break
        before, after = numbers[rows[others]], numbers[rows[others]] + steps[:, None] * weights[others]
        lo, hi = low[rows[others]], high[rows[others]]
        worse = np.count_nonzero((after < lo) | (after > hi), axis=1)
        worse -= np.count_nonzero((before < lo) | (before > hi), axis=1)
        best = np.flatnonzero(worse == worse.min())
        chosen = int(best[rng.integers(best.size)])
        one, step = int(others[chosen]), float(steps[chosen])
    for other, total in moves.items():  # as it was
        table[other] -= total
        numbers[rows[other]] -= total * weights[other]
    return {other: total for other, total in moves.items() if total} if not outside else {}


def _components(
    intervals: CountIntervals, known: BoolArray, asked: BoolArray
) -> list[tuple[IndexArray, IndexArray]]:
    """Numbers and classes that hang together, for each component with a class that is asked about.

    A number that all of its people together cannot move out of its interval ties nobody to anybody. Classes
    that are known are constants.
    """
    A = intervals.weights
    least_of = np.where(known, intervals.truth, 0.0)
    most_of = np.where(known, intervals.truth, intervals.sizes)
    up, down = A.maximum(0), A.minimum(0)
    least, most = up @ least_of + down @ most_of, up @ most_of + down @ least_of
    binding = np.flatnonzero((intervals.low > least + 1e-9) | (intervals.high < most - 1e-9))
    free = np.flatnonzero(~known & (intervals.sizes > 0))
    own = sparse.csr_array(sparse.csc_array(A[binding])[:, free])
    graph = sparse.block_array([[None, own], [own.T, None]], format="csr")
    count, label = sparse.csgraph.connected_components(graph, directed=False)
    of_number, of_class = label[: binding.size], label[binding.size :]
    wanted = np.unique(of_class[asked[free]])
    by_number, by_class = np.argsort(of_number, kind="stable"), np.argsort(of_class, kind="stable")
    starts = np.searchsorted(of_number[by_number], np.arange(count + 1))
    places = np.searchsorted(of_class[by_class], np.arange(count + 1))
    return [
        (
            binding[np.sort(by_number[starts[one] : starts[one + 1]])],
            free[np.sort(by_class[places[one] : places[one + 1]])],
        )
        for one in wanted.tolist()
    ]


def _decide_component(own: CountIntervals, asked: BoolArray) -> Decisions:
    """Free classes by whole tables as long as one frees somebody; then ask of each that is left.

    Of a component that is too large for one linear program nobody is asked: all of them are undecided.
    """
    found = Decisions(certain=np.zeros_like(asked), undecided=np.zeros_like(asked))
    left = asked.copy()
    while left.any():
        table = _table_with_most_changes(own, left)
        if table is None:
            found.undecided[left] = True
            return found
        freed = left & _changed(own, table)
        if not freed.any():
            break
        left &= ~freed
    for place in np.flatnonzero(left).tolist():
        if left[place]:
            report("asking of each class", 1 - int(left.sum()) / int(asked.sum()))
            left &= ~_decide_class(own, place, found)
            left[place] = False
    return found


def _changed(own: CountIntervals, table: FloatArray) -> BoolArray:
    """Classes of which somebody answers otherwise in a whole table; of one outside the intervals none."""
    return np.asarray((table != own.truth) & own.meets(table))


def _table_with_most_changes(own: CountIntervals, left: BoolArray) -> FloatArray | None:
    """A whole table in which people of as many of some classes as possible answer otherwise; none if the
    linear program is too large.
    """
    yes = own.truth > 0
    toward = np.where(yes, 1.0, -1.0) * left
    # One person of each class counts: more of one class would be found in place of others.
    low = np.where(left & yes, own.sizes - 1, 0.0)
    high = np.where(left & ~yes, 1.0, own.sizes)
    table, _, gave_up = _linear_program(own, toward, low, high)
    if gave_up:
        return None
    if _changed(own, np.round(table)).any():
        return np.round(table)
    if float(np.abs(table - own.truth) @ left) < 1 - _ROOM:  # not even one person, in parts
        return own.truth
    found, _ = _integer_program(own, toward, low, high, gap=_SOME)
    return own.truth if found is None else found


def _decide_class(own: CountIntervals, place: int, found: Decisions) -> BoolArray:
    """Enter the decision of one class; classes that a table found on the way frees are returned."""
    yes, size = own.truth[place] > 0, own.sizes.size
    toward = np.zeros(size)
    toward[place] = 1.0 if yes else -1.0
    low, high = np.zeros(size), own.sizes.copy()
    table, weights, gave_up = _linear_program(own, toward, low, high)
    if gave_up:
        found.undecided[place] = True
        return np.zeros(size, dtype=np.bool_)
    if (proof := _proof(own, place, weights)) is not None:
        found.certain[place], found.proofs[place] = True, proof
        return np.zeros(size, dtype=np.bool_)
    if not _changed(own, np.round(table))[place]:
        low[place], high[place] = (0.0, own.sizes[place] - 1) if yes else (1.0, own.sizes[place])
        whole, gave_up = _integer_program(own, np.zeros(size), low, high)
        table = own.truth if whole is None else whole
        settled = not gave_up and (whole is None or bool(_changed(own, table)[place]))
        found.certain[place] = settled and whole is None
        found.undecided[place] = not settled
    return _changed(own, np.round(table))


def _proof(own: CountIntervals, place: int, weights: FloatArray) -> dict[int, float] | None:
    """The weights as small fractions if these prove it, else as they are; none if they prove nothing."""
    used = {i: w for i, w in enumerate(weights.tolist()) if abs(w) > 1e-9}
    for denominator in (1, 2, 3, 4, 6, 12):
        rounded = {i: round(w * denominator) / denominator for i, w in used.items()}
        rounded = {i: w for i, w in rounded.items() if w}
        if upper_bound(own, place, rounded) < 1 - _ROOM:
            return rounded
    return used if upper_bound(own, place, used) < 1 - _ROOM else None


def _linear_program(
    own: CountIntervals, objective: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """A table of the least value, in parts of people, the weights on the numbers that prove it least, and
    whether it was given up.
    """
    from scipy.optimize import linprog  # takes long to import, and few audits need it

    rows = sparse.vstack([own.weights, -own.weights], format="csr")
    ends = np.concatenate([own.high, -own.low])
    steps = max(1, _MOST_STEPS_OF_ENTRIES // max(1, int(own.weights.nnz)))
    solved = linprog(
        objective,
        A_ub=rows,
        b_ub=ends,
        bounds=np.stack([low, high], axis=1),
        method="highs",
        options={"maxiter": steps},
    )
    if solved.status != 0 or solved.x is None:  # the truth is a table: the solver failed, or was stopped
        return own.truth, np.zeros(own.low.size), solved.status == _STOPPED
    upper, lower = np.split(np.asarray(solved.ineqlin.marginals), 2)
    return np.asarray(solved.x), lower - upper, False


def _integer_program(
    own: CountIntervals, objective: FloatArray, low: FloatArray, high: FloatArray, *, gap: float = 0.0
) -> tuple[FloatArray | None, bool]:
    """A whole table of the least value, if there is one; and whether it was given up without an answer."""
    return _whole_table(own.weights, (own.low, own.high), objective, low, high, gap=gap)


def _most_nodes(weights: Any) -> int:
    return max(1, min(_MOST_NODES, _MOST_WORK // max(1, int(weights.nnz))))


def _whole_table(  # many parameters: an integer program
    weights: Any,
    ends: tuple[FloatArray, FloatArray],
    objective: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    gap: float = 0.0,
) -> tuple[FloatArray | None, bool]:
    from scipy.optimize import Bounds, LinearConstraint, milp

    solved = milp(
        objective,
        constraints=LinearConstraint(weights, *ends),
        bounds=Bounds(low, high),
        integrality=np.ones(objective.size),
        options={"node_limit": _most_nodes(weights), "mip_rel_gap": gap},
    )
    infeasible = solved.status == 2
    return None if solved.x is None else np.round(solved.x), solved.x is None and not infeasible
