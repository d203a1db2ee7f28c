"""What a design exposes, read by signature: who is of interest, worst first, and how many keep how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.recipes import Cookbook
from sightline.auditing.result import EDGES, Exposed, Uncertainty
from sightline.auditing.secret import Secret
from sightline.auditing.view import View
from sightline.labeled.contributions import Contributions
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.progress import Progress

# The keys of the records with some signatures; asked of the engine, and only when wanted.
Keys = Callable[[Sequence[int]], dict[int, tuple[str, ...]]]

# Sums over larger groups are what publishing is for; smaller ones are listed with the exposed records.
_SMALL_GROUP = 5
# Taking releases away costs one elimination of the cells; with very uneven noise, a factorisation for each.
_MOST_CELLS, _AFFORDABLE = 4_000, 2e12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """The exposures of a view's columns, with the limit that they are held against."""

    view: View
    exposures: Exposures
    counts: IndexArray  # unknown records of each column, 0 for known ones
    limit: float | None

    @classmethod
    def of(cls, view: View, *, secret: Secret, limit: float | None, progress: Progress) -> Findings:
        """Assess all columns of a view."""
        exposures = view.exposures(view.design, secret, progress)
        counts = view.design.incidence.counts
        assert counts is not None  # a pattern of cells has them
        return cls(view=view, exposures=exposures, counts=np.where(view.known, 0, counts), limit=limit)

    @property
    def below(self) -> BoolArray:
        """Columns whose remaining uncertainty may be below the limit: the lower end decides."""
        if self.limit is None:
            return np.zeros(len(self.exposures), dtype=np.bool_)
        with np.errstate(invalid="ignore"):
            found: BoolArray = self.exposures.remaining_lower < self.limit
        return found

    @property
    def visible(self) -> BoolArray:
        """Columns whose value is identifiable, or the sum of whose records is."""
        exposures = self.exposures
        found: BoolArray = np.append(exposures.groups.identifiable, False)[exposures.group]
        return found

    @property
    def listed(self) -> BoolArray:
        """Columns that belong on the list of the exposed: below the limit, or visible in a small group."""
        found: BoolArray = self.below | (self.visible & (self.counts <= _SMALL_GROUP))
        return found

    @property
    def below_limit(self) -> int:
        """How many records are below the limit."""
        return self.records(self.below)

    @property
    def of_interest(self) -> int:
        """How many columns are on that list."""
        return int(np.count_nonzero(self.listed))

    def identifiable_records(self, keys: Keys | None) -> int:
        """How many records are identifiable on their own; ``keys`` tells which rows are of one record."""
        columns = np.flatnonzero(self.exposures.identifiable)
        if keys is None or columns.size == 0:
            return self.records(self.exposures.identifiable)
        wanted = sorted({int(i) for column in columns for i in self.view.signatures_of(int(column))})
        return len({key for owners in keys(wanted).values() for key in owners})

    @property
    def identifiable_groups(self) -> int:
        """How many groups of several records have an identifiable sum."""
        return int(np.count_nonzero(self.exposures.groups.identifiable & (self.exposures.groups.sizes > 1)))

    @property
    def least(self) -> Uncertainty | None:
        """The bracket of the record of which the least may remain; of several, the one seen best."""
        lower, upper = self.exposures.remaining_lower, self.exposures.remaining_upper
        if np.all(np.isnan(lower)):
            return None
        alike = np.flatnonzero(lower == np.nanmin(lower))
        return self.bracket(int(alike[np.argmin(upper[alike])]))

    @property
    def distribution(self) -> tuple[int, ...]:
        """How many records keep how much, in the bins of ``EDGES``."""
        lower = self.per_record(self.exposures.remaining_lower).min(axis=0)
        counts = self.per_record(self.counts)[0]
        kept = counts > 0
        found, _ = np.histogram(lower[kept], bins=np.array(EDGES), weights=counts[kept].astype(np.float64))
        return tuple(int(number) for number in found)

    def contributions(self, progress: Progress) -> Contributions | None:
        """What each release has to do with it, if anyone is identifiable and the question is affordable."""
        design = self.view.design
        costly = (
            design.row_count > _MOST_CELLS
            or design.release_count * float(design.row_count) ** 3 > _AFFORDABLE
        )
        if costly or not np.any(self.visible):
            return None
        return design.contributions(
            known=self.view.known_columns, exposures=self.exposures, progress=progress
        )

    def worst(self, count: int) -> IndexArray:
        """The listed columns, the most exposed first; ties go by position."""
        columns = np.flatnonzero(self.listed)
        lower, group_rmse = self.exposures.remaining_lower[columns], self.group_rmse(columns)
        if columns.size > count:
            near = lower <= np.partition(lower, count - 1)[count - 1]
            columns, lower, group_rmse = columns[near], lower[near], group_rmse[near]
        chosen: IndexArray = columns[np.lexsort((columns, group_rmse, lower))][:count]
        return chosen

    def group_rmse(self, columns: IndexArray) -> FloatArray:
        """The error of the best unbiased attack on each column's value or sum."""
        found: FloatArray = self.exposures.groups.rmse[self.exposures.group[columns]]
        return found

    def describe(self, columns: IndexArray, cookbook: Cookbook, *, keys: Keys | None) -> tuple[Exposed, ...]:
        """Some columns, in words and numbers."""
        wanted = sorted({int(i) for column in columns for i in self.view.signatures_of(int(column))})
        named = keys(wanted) if keys is not None and wanted else {}
        return tuple(self._one(int(column), cookbook, named) for column in columns)

    def _one(self, column: int, cookbook: Cookbook, named: dict[int, tuple[str, ...]]) -> Exposed:
        size = int(self.counts[column])
        rmse = float(self.group_rmse(np.array([column]))[0])
        recipe = cookbook.best(column)
        signatures = self.view.signatures_of(column)
        owners = sorted({key for i in signatures for key in named.get(int(i), ())})
        categories = self.view.categories
        return Exposed(
            record=", ".join(owners) if owners else None,
            signature=int(signatures[0]),
            size=size,
            category=categories[self.view.column_category[column]] if categories else None,
            identifiable=recipe is not None,
            local=False,
            rmse=rmse if recipe is not None else None,
            rmse_percent_of_range=100 * rmse / (size * self.exposures.width) if recipe is not None else None,
            remaining_uncertainty=self.bracket(column),
            releases=tuple(dict.fromkeys(step.release for step in recipe.steps))
            if recipe is not None
            else (),
            recipe=recipe,
            shortest=cookbook.shortest(column) if recipe is not None else None,
        )

    def bracket(self, column: int) -> Uncertainty:
        """The bracket of a column's remaining uncertainty."""
        return Uncertainty(
            lower=float(self.exposures.remaining_lower[column]),
            upper=float(self.exposures.remaining_upper[column]),
        )

    def records(self, columns: BoolArray) -> int:
        """Records with at least one of some columns: a categorical secret has several for each."""
        return int(self.per_record(self.counts)[0] @ self.per_record(columns).any(axis=0))

    def per_record(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of columns with the categories of one record below each other."""
        return values.reshape(max(1, len(self.view.categories)), -1)
