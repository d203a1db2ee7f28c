"""What every route is given, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.risk_forms import Quantity, RiskForms, Risks
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics.decision import Rank
from sightline.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decisions:
    """The unknown records grouped by signature, and which group sums are identifiable."""

    group: IndexArray  # over the unknown records: the group of each
    sizes: IndexArray  # over the groups
    first: IndexArray  # one unknown record of each group, as a position among the unknown
    identifiable: BoolArray  # over the groups
    undecided: BoolArray  # over the groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """The records to assess, and the risks to compute for each."""

    gram: UnknownRecordsGram
    risks: Risks
    progress: Progress

    def read(self, forms: RiskForms) -> tuple[dict[Quantity, FloatArray], FloatArray]:
        """The quantities of every unknown record, and the linear forms of every record."""
        unknown = self.gram.unknown
        values = self.gram.design.incidence.forms(forms.forms, unknown, self.progress)
        # NaN is below no limit, so it would pass for a record that keeps its uncertainty.
        require(
            not np.isnan(values).any(),
            "a number for every record",
            got=f"NaN from {self.gram.device}",
            fix="leave out the device",
        )
        count = len(forms.names)
        quantities = values[:count] if unknown.all() else values[:count, unknown]
        return dict(zip(forms.names, quantities, strict=True)), values[count:]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """What a route found: the rank, who is identifiable, and the quantities of every unknown record."""

    rank: Rank
    decisions: Decisions
    quantities: dict[Quantity, FloatArray]
    share_error: float  # a bound on the error of every risk over v


def group_sizes(group: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The size of each group, and the position of its first member."""
    sizes = np.bincount(group)
    first = np.full(sizes.size, group.size, dtype=np.intp)
    np.minimum.at(first, group, np.arange(group.size))
    return sizes, first
