"""What a design exposes of every record: one column store, read by record, by group or by danger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput, require
from sightline.numerics.decision import Decision, Evidence

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExposure:
    """What the releases expose of one record."""

    record: int
    identifiable: Decision
    rmse: float
    remaining_uncertainty: tuple[float, float]
    rmse_if_others_known: float
    touched: bool
    hidden_among: int

    def __str__(self) -> str:
        low, high = self.remaining_uncertainty
        state = "identifiable" if self.identifiable is Decision.YES else "not identifiable"
        return (
            f"record {self.record}: {state}, rmse {self.rmse:.4g}, "
            f"remaining uncertainty {low:.1%} to {high:.1%}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Records with one membership signature: nothing tells them apart, but their sum may be exposed.

    Groups are numbered by their first record; a group of one is a record that nobody resembles.
    """

    sizes: IndexArray
    identifiable: BoolArray  # the sum of the group
    rmse: FloatArray  # of the sum
    first: IndexArray  # one member

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exposures:
    """Arrays over the records, all of length N. They depend on the design and the noise, on no value.

    ``remaining_lower`` and ``remaining_upper`` bracket the risk of the best possible attack over the prior
    variance: 1 means that nothing is learned. Entries of records that the attacker knows are NaN.
    """

    identifiable: BoolArray
    undecided: BoolArray
    rmse: FloatArray  # of the best unbiased attack; infinite where there is none
    remaining_lower: FloatArray
    remaining_upper: FloatArray
    information: FloatArray  # G_jj: about a record whose company is known
    touched: BoolArray  # whether any release depends on the record
    known: BoolArray
    group: IndexArray  # the record's group; -1 for a known record
    groups: Groups
    evidence: Evidence
    rank: int  # directions that the releases see
    relative_error: float  # first-order estimate for the numbers above
    width: float  # of the domain
    recipes: FloatArray  # weights on the answers, one row for each identifiable group in order
    names: tuple[str, ...]  # of the rows

    def __len__(self) -> int:
        return len(self.rmse)

    def __getitem__(self, record: int) -> RecordExposure:
        j = self._unknown(record)
        information = float(self.information[j])
        return RecordExposure(
            record=j,
            identifiable=self.decision(j),
            rmse=float(self.rmse[j]),
            remaining_uncertainty=(float(self.remaining_lower[j]), float(self.remaining_upper[j])),
            rmse_if_others_known=information**-0.5 if information > 0 else np.inf,
            touched=bool(self.touched[j]),
            hidden_among=int(self.groups.sizes[self.group[j]]),
        )

    def __iter__(self) -> Iterator[RecordExposure]:
        return (self[int(j)] for j in np.flatnonzero(~self.known))

    def decision(self, record: int) -> Decision:
        """Whether one record is identifiable."""
        j = self._unknown(record)
        if self.undecided[j]:
            return Decision.UNDECIDED
        return Decision.YES if self.identifiable[j] else Decision.NO

    def worst(self, count: int = 10) -> tuple[RecordExposure, ...]:
        """The records of which the least uncertainty may remain, the most exposed first."""
        require(count >= 1, "count >= 1", got=count)
        candidates = np.flatnonzero(~self.known)
        count = min(count, candidates.size)
        danger = self.remaining_lower[candidates]
        # Ties (repeated signatures) go by position, so that the same inputs give the same list.
        limit = np.partition(danger, count - 1)[count - 1]
        near = candidates[danger <= limit]
        chosen = near[np.lexsort((near, self.rmse[near], self.remaining_lower[near]))][:count]
        return tuple(self[int(j)] for j in chosen)

    def recipe(self, record: int) -> FloatArray:
        """Weights on the published answers of the best unbiased attack on an identifiable record."""
        j = self._unknown(record)
        require(
            bool(self.identifiable[j]),
            "an identifiable record",
            got=f"record {j}, which is not",
            fix="no weights on the answers give its value",
        )
        require(
            len(self.recipes) > 0,
            "one set of known records",
            got="all others, a different set for each record",
            fix=f"ask for the exposures with known=[every record but {j}]",
        )
        return self.group_recipe(int(self.group[j]))

    def group_recipe(self, group: int) -> FloatArray:
        """Weights on the published answers of the best unbiased attack on a group's sum."""
        require(
            0 <= group < len(self.groups) and bool(self.groups.identifiable[group]),
            "a group whose sum is identifiable",
            got=f"group {group}",
        )
        row = int(np.count_nonzero(self.groups.identifiable[:group]))
        return np.array(self.recipes[row])

    def explain(self, record: int) -> str:
        """The recipe in words, the heaviest weights first; weights that are only rounding are left out."""
        weights = self.recipe(record)
        order = np.argsort(-np.abs(weights), kind="stable")
        used = [i for i in order if abs(weights[i]) > 1e-9 * abs(weights[order[0]])]
        terms = [f"{'−' if weights[i] < 0 else '+'} {abs(weights[i]):.6g} × {self.names[i]!r}" for i in used]
        return " ".join(terms).removeprefix("+ ")

    def smallest_groups(self) -> IndexArray:
        """Groups of several records whose sum is identifiable, the smallest first."""
        found = np.flatnonzero(self.groups.identifiable & (self.groups.sizes > 1))
        return found[np.argsort(self.groups.sizes[found], kind="stable")]

    def members(self, group: int) -> IndexArray:
        """The records of a group."""
        return np.flatnonzero(self.group == group)

    def _unknown(self, record: int) -> int:
        if not 0 <= record < len(self):
            raise InvalidInput(f"expected a record from 0 to {len(self) - 1}, got {record}")
        require(
            not self.known[record],
            "a target that the attacker does not know",
            got=f"record {record}, which is in known=",
        )
        return int(record)
