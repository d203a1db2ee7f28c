r"""Limits on what is left of rows with few values: by all genies at once, and by the best linear attack.

A record keeps the limit L if :math:`k(p) \ge L`, with the bound k by all genies at once of
``bounds/genies.py``. It is a smooth function of the precisions p. So is :math:`s = (1/k - 1)/(1/L - 1)`, the
share of the limit that is used, and nearly a linear one: of Gaussian values it would be what is told. Its
tangent takes the place of the limit, and what the next noise uses says by how much it fell short.

What the best linear attack leaves is no less than any bound that an audit can have. Others then hide like
Gaussian numbers with their variance, whatever the noise: limits of the same form as those of numbers, and
convex in the variances. The least noise with which linear attacks keep the limit costs no more than any that
passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array

from sightline.advising.hidden_limits import HiddenLimits
from sightline.advising.levels import rows_alike
from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.lowering import Lowered
from sightline.bounds.few_values import FewValues
from sightline.bounds.genies import Genies

_MOST = 1e9  # the share of a limit that is used where nothing is shown to be left
_NEAR = 0.1  # of a limit: limits of which less is used have no tangent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """A variance that hides the same whatever the noise."""

    variance: float

    def precision(self, information: FloatArray) -> FloatArray:
        return np.full(information.shape, 1 / self.variance)

    def precision_slope(self, information: FloatArray) -> FloatArray:
        return np.zeros(information.shape)

    def precision_excess(self, information: FloatArray) -> FloatArray:
        return np.zeros(information.shape)


def attack_limits(linear: Lowered, units: IndexArray, limit: float) -> HiddenLimits:
    r"""What the best linear attack on a row of some units, or an indicator of it, must leave.

    The indicators of k categories have the covariance :math:`(I - \mathbf 1 \mathbf 1^\top/k)/k`: each hides
    like its column less the mean of the columns of the row. With P what is seen of one, :math:`1 - P/(k - 1)`
    of it is left.
    """
    k, table = linear.columns_of_unit, csc_array(linear.table, dtype=np.float64)
    variance, most = float(linear.prior.of_column.variance), 0.0
    if k > 1:
        rows = table.shape[1] // k
        center = np.eye(k) - 1 / k
        line, column = np.divmod(np.arange(rows * k * k), k)
        weights = np.tile(center.ravel(), rows)
        first = (line // k) * k + column
        table = csc_array(table @ csc_array((weights, (first, line)), shape=(rows * k, rows * k)))
        variance = 1 / k
        most = (1 - limit) * (k - 1)
    else:
        most = (1 - limit) / variance
    chosen = np.concatenate([np.arange(linear.units.starts[u], linear.units.starts[u + 1]) for u in units])
    seen = np.diff(table.indptr)[chosen] > 0
    own = chosen[seen]
    return HiddenLimits(
        columns=csc_array(table[:, own]),
        most=np.full(own.size, most / (1 - variance * most)),
        times_precision=0.0,
        own=own,
        removed=np.ones(own.size),
        hiders=table,
        counts=rows_alike(linear),
        prior=_Spread(variance=variance),
        seen_best=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _System:
    """Kinds of rows that hide each other, and the persons with the limit among them."""

    table: FloatArray  # kinds × values × numbers
    numbers: IndexArray
    counts: FloatArray
    kinds: IndexArray  # persons × rows
    times: IndexArray
    person: IndexArray  # of each its place among those of the limits


@dataclass(frozen=True, kw_only=True, eq=False)
class CrowdLimits:
    """The limits on some units, by all genies at once."""

    few: FewValues
    limit: float
    units: IndexArray  # the first unit of each person with a limit
    person: IndexArray  # the same among the persons of few values
    numbers: int

    @classmethod
    def of(cls, linear: Lowered, units: IndexArray, limit: float) -> CrowdLimits | None:
        """None where rows have more than few values, or the bound is not made for somebody."""
        if not units.size or FewValues.of_design(linear.design) is None:
            return None
        few = FewValues.of(linear.design, linear.units.without_repeated_columns())
        person, first = np.unique(few.person[units], return_index=True)
        limits = cls(
            few=few,
            limit=limit / few.share,
            units=units[first],
            person=person,
            numbers=linear.row_count,
        )
        looked_at = np.zeros(person.size, dtype=np.bool_)
        for system in limits._systems if person[0] >= 0 else ():
            looked_at[system.person] = True
        return limits if looked_at.all() else None

    @cached_property
    def _systems(self) -> list[_System]:
        """As the audit takes them together, persons with as many rows at a time. Of a person with rows in
        several systems every one of these is a limit.
        """
        few, listed = self.few, []
        wide = np.zeros(len(few.kinds), dtype=np.bool_)
        wide[self.person] = True
        for together, persons in few.systems(wide):
            chosen = persons[wide[persons]]
            of_kind = few.rows.by_numbers[together]
            for component in np.unique(of_kind).tolist():
                kinds = together[of_kind == component]
                inside = (few.kinds[chosen] >= 0) & np.isin(few.kinds[chosen], kinds)
                sizes = np.count_nonzero(inside, axis=1)
                table, numbers = few.rows.columns(kinds)
                for size in np.unique(sizes[sizes > 0]).tolist():
                    some = chosen[sizes == size]
                    rows = inside[sizes == size]
                    listed.append(
                        _System(
                            table=table,
                            numbers=numbers,
                            counts=few.rows.counts[kinds],
                            kinds=np.searchsorted(kinds, few.kinds[some][rows].reshape(-1, size)),
                            times=few.times[some][rows].reshape(-1, size),
                            person=np.searchsorted(self.person, some),
                        )
                    )
        return listed

    def least(self, precisions: FloatArray) -> float:
        """What all genies at once leave everyone with a limit, at least."""
        return float(self.at(precisions).kept.min()) * self.few.share

    def at(self, precisions: FloatArray) -> CrowdAt:
        """The limits at some precisions of the numbers."""
        chances = self.few.rows.chances
        genies: dict[int, Genies] = {}
        for system in self._systems:
            if id(system.table) not in genies:
                genies[id(system.table)] = Genies(
                    columns=system.table * np.sqrt(precisions[system.numbers]),
                    chances=chances,
                    counts=system.counts,
                    usable=np.ones((len(system.table), chances.size, chances.size)),
                )
        each = [genies[id(system.table)] for system in self._systems]
        values = [
            (value, system, own)
            for system, own in zip(self._systems, each, strict=True)
            for value in self.few.asked
        ]
        kept = np.concatenate(
            [own.of_persons(value, system.kinds, system.times) for value, system, own in values]
        )
        shares = np.minimum((1 / np.maximum(kept, 1 / _MOST) - 1) / (1 / self.limit - 1), _MOST)
        return CrowdAt(limits=self, precisions=precisions, genies=each, kept=kept, shares=shares)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CrowdAt:
    """The limits at some precisions."""

    limits: CrowdLimits
    precisions: FloatArray
    genies: list[Genies]  # of every system
    kept: FloatArray  # of the persons of a system for every value asked, and so on: the limits
    shares: FloatArray  # of the limits that are used

    @property
    def most(self) -> float:
        """The largest share of a limit that is used."""
        return float(self.shares.max(initial=0.0))

    def tangents(self) -> tuple[IndexArray, IndexArray, FloatArray]:
        """Persons and values asked, and the tangents of their limits: sums of precisions, at most 1."""
        limits, listed, first = self.limits, [], 0
        for system, genies in zip(limits._systems, self.genies, strict=True):
            for column, value in enumerate(limits.few.asked):
                shares, kept = (one[first : first + system.person.size] for one in (self.shares, self.kept))
                first += system.person.size
                near = np.flatnonzero(shares > _NEAR)
                if not near.size:
                    continue
                scale = -1 / kept[near] ** 2 / (1 / limits.limit - 1)
                by_logarithm = genies.slopes(value, system.kinds[near], system.times[near])
                used = np.zeros((near.size, limits.numbers))
                used[:, system.numbers] = np.maximum(by_logarithm * scale[:, None], 0.0)
                total = used.sum(axis=1)
                room = 1 - shares[near] + total
                inside = (room > 0) & (total > 0)
                tangents = used[inside] / room[inside, None] / self.precisions
                listed.append((system.person[near[inside]], np.full(inside.sum(), column), tangents))
        none = np.zeros(0, dtype=np.intp)
        persons, columns, tangents = zip((none, none, np.zeros((0, limits.numbers))), *listed, strict=True)
        return np.concatenate(persons), np.concatenate(columns), np.concatenate(tangents)
