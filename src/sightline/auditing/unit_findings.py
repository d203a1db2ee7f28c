"""What a design exposes of what is asked of its units, and the limit that it is compared with."""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import MOST_SQUARE, FloatArray, IndexArray
from sightline.auditing.lowering import BoolArray, Lowered
from sightline.auditing.pricing import Pricing, at_least_by_noise
from sightline.auditing.result_parts import SMALL_GROUP, TotalView, Uncertainty
from sightline.bounds.assessment import ATTACKS, Bound, UnitExposure, exposure_of
from sightline.bounds.guesses import Guesses, guesses
from sightline.bounds.lines import with_alike
from sightline.bounds.unit_brackets import UnitBrackets
from sightline.bounds.value_rows import chances_of
from sightline.bounds.walking import with_walked_guesses
from sightline.values import frozen

_MOST_ROWS = 400  # of a design that may be assessed again for each release and each accountant
# Rows of a design that is factorised again, for recipes, advice and other noise, or compared in threes: it
# takes seconds.
MOST_FACTORISED = 1_000
# Taking each release away costs an elimination of the rows.
_AFFORDABLE = 2e12


@frozen
class OtherRecords:
    """The unknown records of a streamed table that have no unit: a pass over all of them counted these.

    None of them is identifiable, alone or by the sum of its group, and none keeps less than the units that
    are kept for how little remains.
    """

    brackets: UnitBrackets | None = None  # what all records were assessed with; none if all have units
    below: int = 0  # records that may keep less than the limit
    signatures_below: int = 0  # their signatures, or kinds of persons
    # Records by their lower end, in the bins of the result's distribution.
    histogram: IndexArray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    relative_error: float = 0.0  # a bound for their upper ends
    people: int = 0  # how many they are

    @property
    def streamed(self) -> bool:
        """Whether some records have no unit."""
        return self.brackets is not None

    def exposure(self, lowered: Lowered, pricing: Pricing) -> UnitExposure:
        """What is exposed of some units of a table that is streamed: what needs no other unit."""
        assert self.brackets is not None
        exposure = exposure_of(lowered.design, self.brackets, alone=False)
        alike = with_alike(lowered.units, lowered.design.noise, exposure.lower, exposure.upper)
        exposure = exposure.raised(alike, Bound.ALIKE)
        moved = lowered.of_records(pricing.moved(lowered.membership))
        return exposure.raised(at_least_by_noise(exposure.lower, exposure.upper, moved), Bound.NOISE)


@frozen(slots=False)
class LinearFindings:
    """What a design exposes of what is asked of its units, and the limit that it is compared with.

    Arrays are over columns: of unit u and category c of k, column u k + c.
    """

    linear: Lowered
    exposure: UnitExposure  # through the linear releases alone
    lower: FloatArray  # the lower end of remaining uncertainty, through all releases
    limit: float  # 0 without one: nobody keeps less
    others: OtherRecords = field(default_factory=OtherRecords)  # of a table that is streamed
    # Whether somebody below the limit is one of whom too much is seen; else that is only not excluded, since
    # rounded counts are bounded as if they were exact.
    attacks_claimed: bool = True
    # A limit on guesses: whoever is guessed right no more often keeps it, even where less remains than would
    # be enough by itself. The limit without it, which everyone has to keep besides.
    right_at_most: float = 0.0
    limit_of_variance: float = 0.0

    def __bool__(self) -> bool:
        """Whether something that is linear in the secret is published of a record that is not known."""
        return len(self.people) > 0

    @cached_property
    def upper(self) -> FloatArray:
        """The upper end of remaining uncertainty: what the best attack that is known leaves.

        A person with several rows is judged by the category of which it leaves least.
        """
        several, upper = (self.linear.rows_of_unit > 1)[:, None], self.exposure.upper_of_best
        return np.where(several, upper.min(axis=1, keepdims=True), upper).ravel()

    @cached_property
    def guesses(self) -> Guesses:
        """At most how often a guess at the value of every unit is right; of values that are few."""
        design = self.exposure.design
        guessed = guesses(design, chances_of(design.prior), self.per_unit(self.lower))
        return replace(guessed, right=with_walked_guesses(design, guessed.right))

    @property
    def counts(self) -> IndexArray:
        """The people of each column's unit."""
        return np.repeat(self.people, self._k)

    @property
    def people(self) -> IndexArray:
        """The people of each unit."""
        return self.exposure.design.units.people

    @property
    def _k(self) -> int:
        return self.linear.columns_of_unit

    @property
    def below(self) -> BoolArray:
        """Columns that the linear releases alone may leave less than the limit."""
        return self._less_than_limit(self.exposure.lower.ravel()) & self.attacks_claimed

    @property
    def not_shown(self) -> BoolArray:
        """Columns that all releases together are not shown to leave the limit."""
        return self._less_than_limit(self.lower)

    def _less_than_limit(self, lower: FloatArray) -> BoolArray:
        less = np.asarray(lower < self.limit)
        if not self.right_at_most or not self.attacks_claimed or self.others.streamed or not less.any():
            return less
        kept = np.repeat(self.guesses.right <= self.right_at_most, self._k)
        return np.asarray(np.where(kept, lower < self.limit_of_variance, less))

    @cached_property
    def visible(self) -> BoolArray:
        """Columns of which the sum over the unit's people is identifiable.

        Where persons have several rows, all columns of a unit of whose rows some feature is.
        """
        several = (self.linear.rows_of_unit.max(initial=1) > 1) & (self.exposure.directions > 0)
        return np.asarray(self.exposure.identifiable.ravel() | np.repeat(several, self._k))

    @property
    def identifiable(self) -> BoolArray:
        """Columns of one person whose value is identifiable, or some feature of their rows."""
        return np.asarray(self.visible & (self.counts == 1))

    @property
    def undecided(self) -> int:
        """Columns of which it is neither proved nor refuted that they are identifiable."""
        return int(self.exposure.undecided.sum())

    @property
    def rank(self) -> int:
        """How many directions of the values the numbers see."""
        return self.exposure.rank

    @property
    def listed(self) -> BoolArray:
        """Columns that are listed as exposed: below the limit, visible in a small group, or the worst one.

        Where persons have several rows, those below and those of whom something is identifiable: of each the
        category of which least remains. Groups of rows are listed besides.
        """
        if self.linear.rows_of_unit.max(initial=1) == 1:
            listed = self.below | (self.visible & (self.counts <= SMALL_GROUP))
            return np.asarray((listed & np.tile(self.linear.asked, len(self.people))) | self._worst)
        units = self.per_unit(self.below | self.identifiable | self._worst).any(axis=1)
        least = np.zeros((len(self.people), self._k), dtype=np.bool_)
        least[np.arange(len(self.people)), self.per_unit(self.lower).argmin(axis=1)] = units
        return least.ravel()

    @property
    def _worst(self) -> BoolArray:
        worst = np.zeros(self.lower.size, dtype=np.bool_)
        worst[self.least_columns] = True
        return worst

    @property
    def below_limit(self) -> int:
        """How many records are below the limit."""
        return self.records(self.below) + self.others.below

    @property
    def not_shown_records(self) -> int:
        """How many records are not shown to keep the limit."""
        return self.records(self.not_shown) + self.others.below

    @property
    def identifiable_records(self) -> int:
        """How many records have an identifiable value, or an identifiable feature of several rows."""
        return self.records(self.identifiable)

    @property
    def identifiable_groups(self) -> int:
        """How many groups of several records have an identifiable sum: of any category, once."""
        return int(np.count_nonzero(self.per_unit(self.visible & (self.counts > 1)).any(axis=1)))

    @property
    def sharpest_rmse(self) -> float | None:
        """The least error of an unbiased attack on a value or on a unit feature of a record."""
        least = float(np.min(self.exposure.rmse.ravel()[self.identifiable], initial=np.inf))
        return least if np.isfinite(least) else None

    @property
    def relative_error(self) -> float:
        """A bound for the errors of unbiased attacks and for the upper ends."""
        return max(self.exposure.relative_error, self.others.relative_error)

    @property
    def least_columns(self) -> IndexArray:
        """The column that the best attack leaves least of, of several that with the least lower end."""
        return self.most_exposed(np.arange(self.lower.size), 1)

    @property
    def least(self) -> Uncertainty:
        """What remains of the most exposed record, whoever that is; of nobody nothing is learned.

        Everybody keeps the least lower end at least. Somebody keeps the least upper end at most. These may be
        ends of two records: whose attack is known is not always who has the weaker proof.
        """
        return Uncertainty(lower=float(self.lower.min(initial=1.0)), upper=float(self.upper.min(initial=1.0)))

    @property
    def repeatable(self) -> bool:
        """Whether the design is small enough to be assessed again for each release and each accountant."""
        return self.has_at_most(_MOST_ROWS)

    def has_at_most(self, rows: int) -> bool:
        """Whether the design has at most so many rows, and units in memory that are not too many for them."""
        own = self.linear.row_count
        return own <= rows and len(self.people) * own <= MOST_SQUARE**2 and not self.others.streamed

    @property
    def work(self) -> float:
        """About how many operations one assessment takes."""
        rows = self.linear.row_count
        return float(rows) ** 3 + rows * len(self.people)

    @property
    def comparable(self) -> bool:
        """Whether it can be asked of each release who is identifiable without it."""
        rows, releases = self.linear.row_count, self.linear.queries.size
        affordable = rows <= MOST_SQUARE and releases * float(rows) ** 3 <= _AFFORDABLE
        return affordable and not self.others.streamed

    def most_exposed(self, columns: IndexArray, count: int) -> IndexArray:
        """The most exposed of some columns, worst first: by what the best attack that is known leaves.

        Ties go by lower end, by error, then by position.
        """
        upper = self.upper[columns]
        if columns.size > count > 0:
            columns = columns[upper <= np.partition(upper, count - 1)[count - 1]]
            upper = self.upper[columns]
        ties = (columns, self.group_rmse(columns), self.lower[columns], upper)
        chosen: IndexArray = columns[np.lexsort(ties)][:count]
        return chosen

    def group_rmse(self, columns: IndexArray) -> FloatArray:
        """The error of the best unbiased attack on each column's value or sum."""
        rmse: FloatArray = self.exposure.rmse.ravel()[columns]
        return rmse

    def bracket(self, column: int) -> Uncertainty:
        """The bracket of a column's remaining uncertainty."""
        return Uncertainty(lower=float(self.lower[column]), upper=float(self.upper[column]))

    def scale_of_total(self, column: int) -> int:
        """How many rows a record has that share a level, which is asked of it: their total is so many levels.

        1 where what is asked is a value or a feature of rows, and not a level.
        """
        level = self.linear.prior.level is not None and self.linear.prior.kind.measured
        return self.linear.rows_in_total(column) if level else 1

    def total(self, column: int) -> TotalView | None:
        """What is known of the total of a record's rows, where they share a level; else none."""
        rows = self.scale_of_total(column)
        if rows == 1:
            return None
        before, left = rows * math.sqrt(float(self.linear.prior.of_column.variance)), self.bracket(column)
        return TotalView(
            rows=rows,
            before=before,
            after_lower=before * left.stddev_lower,
            after_upper=before * min(left.stddev_upper, 1.0),
        )

    def lower_by(self, column: int) -> str:
        """The bound that gives the lower end of a column; information where releases are not linear."""
        if self.lower[column] != self.exposure.lower.ravel()[column]:
            return "information"
        return Bound(int(np.broadcast_to(self.exposure.by, self.exposure.lower.shape).ravel()[column])).text

    def upper_by(self, column: int) -> str:
        """The attack whose risk the upper end of a column is: the linear one, if it is as good."""
        unit, category = divmod(column, self._k)
        ends = self.exposure.upper_by_attack[:, unit]
        ends_of_unit = ends.min(axis=1) if self.linear.rows_of_unit[unit] > 1 else ends[:, category]
        return ATTACKS[int(np.argmin(ends_of_unit))]

    def records(self, columns: BoolArray) -> int:
        """How many records have at least one of some columns."""
        return int(self.people @ self.per_unit(columns).any(axis=1))

    def per_unit(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of columns as a table, units × categories."""
        return values.reshape(len(self.people), self._k)
