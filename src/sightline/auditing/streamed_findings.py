"""The findings of an audit whose table is streamed: the same passes over units, which stay in the engine.

A batch is a table of some records, and is lowered like one. What a pass returns travels as plain arrays, and
so does what the last pass reads of the solver: a cluster sends both. Of all units the last pass keeps those
that are worth a closer look, and counts of the others. What an audit states about all records comes from a
pass; what would take more passes is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray
from sightline.auditing.budget import costs_without_pure
from sightline.auditing.findings import (
    Findings,
    LinearFindings,
    OtherRecords,
    nothing_linear,
    plans_by_belief,
    worst_belief,
)
from sightline.auditing.lowering import Lowered, UnitLowering, lower
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import at_least_by_noise, price
from sightline.auditing.record_costs import CellCosts
from sightline.auditing.result import EDGES
from sightline.bounds.assessment import unit_brackets
from sightline.bounds.lines import with_alike
from sightline.bounds.unit_brackets import UnitBrackets
from sightline.errors import TooMuchWork
from sightline.progress import report
from sightline.tables.cells import MOST_KEPT as MOST_KEPT
from sightline.tables.cells import PackedCodes, first_in_order
from sightline.tables.engines.protocol import Arrays, SignatureBatch, SignatureStore
from sightline.tables.membership import Membership, PersonTable
from sightline.tables.streamed import BatchTables, StreamedTable
from sightline.units.design import MadeOfUnits
from sightline.units.row_forms import RowForm
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.units import Arrays as UnitArrays
from sightline.units.units import UnitReduction, Units
from sightline.values import frozen


def find_streamed(plan: Plan, table: StreamedTable, *, most: int = MOST_KEPT) -> Findings:
    """Price a plan and assess its design by passes over all signatures; keep the ``most`` worst of them.

    Of several beliefs that the plan leaves open the worst counts: each takes passes of its own.
    """
    return worst_belief(_found(one, table, most) for one in plans_by_belief(plan, table.membership))


def _found(plan: Plan, table: StreamedTable, most: int) -> Findings:
    pricing = price(plan, table.membership)
    if pricing.strategies or pricing.exact.any():
        got = "noise that numbers share" if pricing.strategies else "numbers without noise"
        raise TooMuchWork(
            f"expected independent noise on all numbers of a table that is streamed, got {got}; "
            "allow more with max_memory, so that all signatures fit"
        )
    lowered = lower(plan, table.membership, pricing)
    made = BatchUnits(batches=table.batches, lowering=lowered.lowering)
    nothing = nothing_linear(plan, table.membership)
    findings = Findings(plan=plan, membership=table.membership, pricing=pricing, linear=nothing)
    if table.membership.known_rows and not _anyone(table, made):
        return findings
    # Passes are all that is asked of units that stay in the engine.
    units: Any = StreamedUnits(store=table.records, made=made)
    brackets = unit_brackets(replace(lowered.design, units=units, made=MadeOfUnits()))
    if not brackets.solver.leverage.error < 1:  # everyone might be identifiable, and would be kept
        raise TooMuchWork(
            "expected independent rows of a table that is streamed, got some that are too nearly dependent; "
            "allow more with max_memory, so that all signatures fit"
        )
    limit, moved = findings.limit, findings.most_moved
    scan = ExposureScan(
        made=made,
        brackets=SolvedForms.of(brackets),
        most=most,
        edges=np.array(EDGES),
        # Nobody is below a limit that the noise alone keeps.
        limit=0.0 if findings.kept_by_noise >= limit else limit,
        costs=costs_without_pure(pricing),
        moves=pricing.moves,
        always=table.membership.others.words,
    )
    arrays = table.records.run(scan, "assessing every record")
    kept = table.listing(arrays, _rows(table, scan, lowered))
    report("assessing the most exposed", 0.0)
    rest = OtherRecords(
        below=int(arrays["below"][1]),
        signatures_below=int(arrays["below"][0]),
        histogram=arrays["histogram"],
        relative_error=float(arrays["largest_error"][0]),
        people=int(arrays["rest"][1]),
        brackets=brackets,
    )
    lowered = lower(plan, kept.membership, pricing)
    exposure = rest.exposure(lowered, pricing)
    linear = LinearFindings(
        linear=lowered, exposure=exposure, lower=exposure.lower.ravel(), limit=limit, others=rest
    )
    return replace(findings, membership=kept.membership, linear=linear, moved_at_most=moved)


def _anyone(table: StreamedTable, made: BatchUnits) -> bool:
    """Whether there is a record that the attacker does not know."""
    return bool(table.largest(lambda batch: np.array(len(made.lowering.units(batch)[0]))))


def _rows(table: StreamedTable, scan: ExposureScan, lowered: Lowered) -> Arrays:
    """Rows of several persons, or of one, whose sum may be identifiable: a pass over signatures."""
    if table.persons is None or lowered.lowering.constant:
        none = np.zeros(0, dtype=np.int64)
        return {"words": table.membership.others.words[:, :0], "counts": none, "known": none}
    alone = replace(table.membership, persons=PersonTable(), contributions=1)
    rows = replace(table, persons=None, membership=alone)
    by_row = replace(scan, made=replace(scan.made, batches=rows.batches), most=0)
    return table.store.run(by_row, "assessing every row")


Packed = Mapping[str, NDArray[Any]]
_SPARSE = ("data", "rows", "columns", "shape")  # the arrays of a sparse matrix


@frozen
class BatchUnits:
    """How a batch becomes units. It can travel."""

    batches: BatchTables
    lowering: UnitLowering

    def of(self, batch: SignatureBatch) -> tuple[Membership, PackedCodes, Units, IndexArray]:
        """The table of a batch, the words of its signatures, its units, and the unit of every record."""
        membership, words = self.batches.of(batch)
        return membership, words, *self.lowering.units(membership)


@frozen(slots=False)
class StreamedUnits:
    """Units that are read from a store in passes."""

    store: SignatureStore
    made: BatchUnits

    @property
    def numbers(self) -> int:
        """How many rows there are."""
        order = list(self.made.lowering.order)
        return int(np.diff(self.made.batches.membership.starts)[order].sum())

    def __len__(self) -> int:
        return self.store.signatures

    def run(self, reduction: UnitReduction) -> UnitArrays:
        """One pass over all units."""
        unit_pass = UnitPass(made=self.made, reduction=reduction)
        return _unpacked(self.store.run(unit_pass, "reading every record"))


@frozen
class UnitPass:
    """A pass over units as a pass over signatures. Its arrays are plain ones, so that they can travel."""

    made: BatchUnits
    reduction: UnitReduction

    def of_batch(self, batch: SignatureBatch) -> Packed:
        *_, units, _ = self.made.of(batch)
        parts = [self.reduction.of_block(block) for block in units.every_block()]
        return _packed(self.reduction.merged(parts)) if parts else {}

    def merged(self, first: Packed, second: Packed) -> Packed:
        if not first or not second:
            return first or second
        return _packed(self.reduction.merged([_unpacked(first), _unpacked(second)]))


def _packed(arrays: UnitArrays) -> Packed:
    """Numbers and sparse matrices as plain arrays."""
    packed: dict[str, NDArray[Any]] = {}
    for name, value in arrays.items():
        if sparse.issparse(value):
            entries = value.tocoo()
            packed |= {f"{name} {_SPARSE[0]}": entries.data, f"{name} {_SPARSE[3]}": np.array(entries.shape)}
            packed |= {f"{name} {_SPARSE[1 + axis]}": entries.coords[axis] for axis in range(2)}
        else:
            packed[name] = np.asarray(value)
    return packed


def _unpacked(packed: Packed) -> UnitArrays:
    arrays: dict[str, Any] = {}
    for name, value in packed.items():
        matrix, _, array = name.rpartition(" ")
        if matrix and array == _SPARSE[0]:
            data, rows, columns, shape = (packed[f"{matrix} {one}"] for one in _SPARSE)
            entries = sparse.coo_array((data, (rows, columns)), shape=tuple(shape.tolist()))
            arrays[matrix] = sparse.csr_array(entries)
        elif not matrix:
            arrays[name] = value.item() if value.ndim == 0 else value
    return arrays


@frozen(slots=False)
class SolvedForms:
    """What the last pass reads of a solver, without the units that it was made from: it can travel."""

    noise: RowNoise
    prior: UnitPrior
    numbers: int
    linear: Any
    hidden: Any
    leverage: RowForm

    @classmethod
    def of(cls, brackets: UnitBrackets) -> UnitBrackets:
        """The brackets with such solvers."""
        hidings = tuple(replace(one, solver=cls._solved(one.solver)) for one in brackets.hidings)
        return replace(brackets, solver=cls._solved(brackets.solver), hidings=hidings)

    @classmethod
    def _solved(cls, solver: Any) -> Any:
        names = ("noise", "prior", "numbers", "linear", "hidden", "leverage")
        return cls(**{name: getattr(solver, name) for name in names})


# Of a record and of each of its signatures, what is kept: arrays over records, and over their lines.
_OF_RECORDS = ("lower", "upper", "near", "cost", "error", "unknown", "persons", "sizes", "group", "first")
_OF_LINES = ("counts", "known", "line_known", "line_rows")
_COUNTED = ("histogram", "below", "rest")


@frozen
class ExposureScan:
    """Counts over all unknown records, and the records that are worth a closer look.

    Kept are those that may be identifiable, the ``most`` of which the least may remain, of those tied for the
    least the one with the least upper end, the one that pays most of the budget, and those that are asked
    for. The counts are of the records that are not kept.
    """

    made: BatchUnits
    brackets: UnitBrackets
    most: int
    edges: FloatArray  # of the histogram of lower ends
    limit: float  # of the remaining uncertainty; 0 without one
    costs: CellCosts  # of the budget
    moves: CellCosts  # how far one row in a cell moves its number, in squared units of the noise
    always: PackedCodes  # (words × signatures) that are kept whatever they are

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        membership, words, units, unit_of = self.made.of(batch)
        records = _records(membership, words)
        count = records["sizes"].size
        # A record that the attacker knows all rows of is nobody's exposure, but it may pay most.
        lower, upper, error = np.full(count, np.inf), np.full(count, np.inf), np.zeros(count)
        near, some = np.zeros(count, dtype=np.bool_), np.flatnonzero(unit_of >= 0)
        if len(units):
            moved = np.zeros(len(units))
            np.maximum.at(moved, unit_of[some], self.moves.by_record(membership)[some])
            seen = self._seen(units, moved)
            lower[some], upper[some], error[some], near[some] = (
                seen[name][unit_of[some]] for name in ("lower", "upper", "error", "near")
            )
        if not membership.by_person:  # what persons pay is asked of all of them
            near |= _among(words, self.always)
            records["cost"] = self.costs.by_record(membership)
        records["first"] = np.zeros(count, dtype=np.bool_)
        records["first"][np.unique(unit_of, return_index=True)[1]] = True  # of the records of one unit
        records["unknown"] = np.where(unit_of >= 0, records["unknown"], 0)
        records |= {"lower": lower, "upper": upper, "error": error, "near": near}
        return self._kept(records, self._no_rest())

    def _seen(self, units: Units, moved: FloatArray) -> Mapping[str, NDArray[Any]]:
        """What is seen of every unit."""
        seen = self.brackets.merged([self.brackets.of_block(block) for block in units.every_block()])
        lower = with_alike(units, self.brackets.solver.noise, seen["lower"], seen["upper"])
        lower = at_least_by_noise(lower, seen["upper"], moved)
        error, near = seen["error"].max(axis=1), seen["near"]
        return {"lower": lower.min(axis=1), "upper": seen["upper"].min(axis=1), "error": error, "near": near}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        both: dict[str, NDArray[Any]] = {
            name: np.concatenate([first[name], second[name]]) for name in (*_OF_RECORDS, *_OF_LINES)
        }
        both["words"] = np.concatenate([first["words"], second["words"]], axis=1)
        rest: dict[str, NDArray[Any]] = {name: first[name] + second[name] for name in _COUNTED}
        rest["largest_error"] = np.maximum(first["largest_error"], second["largest_error"])
        rest["least_left"] = np.minimum(first["least_left"], second["least_left"])
        return self._kept(both, rest)

    def _kept(self, own: Arrays, rest: Arrays) -> Arrays:
        """The records that stay, and the counts of the others added to those so far."""
        lower, sizes = own["lower"], own["sizes"]
        chosen = own["near"].copy()
        first = own["words"][:, np.cumsum(sizes) - sizes]
        if lower.size:
            chosen[first_in_order(first, np.flatnonzero(own["cost"] == own["cost"].max()))] = True
            # Numbers of those near identifiability are refined later: they take no place of others.
            worst = np.flatnonzero(np.isfinite(lower) & ~own["near"])
            if worst.size > self.most or sizes[worst].sum() > AT_A_TIME:
                least = worst[lower[worst] == lower[worst].min(initial=np.inf)]
                least = least[own["upper"][least] == own["upper"][least].min(initial=np.inf)]
                chosen[first_in_order(first, least)] = True
                # The most exposed are those whom the best attack leaves least of, as in memory.
                upper = own["upper"]
                limit = np.partition(upper[worst], min(self.most, worst.size) - 1)[: self.most].max(initial=0)
                worst = worst[upper[worst] <= limit]
                ties = (own["group"][worst], *first[::-1, worst], lower[worst], upper[worst])
                order = np.lexsort(ties)[: self.most]
                worst = worst[order]
                worst = worst[np.cumsum(sizes[worst]) <= AT_A_TIME]  # lines: a quarter of a gigabyte
            chosen[worst] = True
            # Persons with the same unknown rows are one unit: all of them stay, or none.
            chosen |= np.isin(own["group"], own["group"][chosen & (own["group"] > 0)])
        self._check(own, chosen)
        left = ~chosen & np.isfinite(lower)
        people = own["unknown"][left]
        below = lower[left] < self.limit
        histogram, _ = np.histogram(lower[left], bins=self.edges, weights=people)
        lines = np.repeat(chosen, sizes)
        return {
            **{name: own[name][chosen] for name in _OF_RECORDS},
            **{name: own[name][lines] for name in _OF_LINES},
            "words": own["words"][:, lines],
            "histogram": rest["histogram"] + histogram.astype(np.int64),
            "below": rest["below"]
            + np.array([np.count_nonzero(below & own["first"][left]), people[below].sum()]),
            "rest": rest["rest"] + np.array([np.count_nonzero(~chosen), people.sum()]),
            "largest_error": np.maximum(rest["largest_error"], own["error"][left].max(initial=0.0)),
            "least_left": np.minimum(rest["least_left"], lower[left].min(initial=np.inf)),
        }

    def _check(self, own: Arrays, chosen: NDArray[np.bool_]) -> None:
        """Persons of whom something may be identifiable are all looked at: with many rows, not too many."""
        lines = int(own["sizes"][chosen].sum())
        if lines > 8 * AT_A_TIME and int(own["sizes"].max()) > 1:
            raise TooMuchWork(
                f"expected records with up to {8 * AT_A_TIME:,} kinds of rows of whom something may be "
                f"identifiable, got {lines:,} of a table that is streamed; allow more with max_memory"
            )

    def _no_rest(self) -> Arrays:
        return {
            "histogram": np.zeros(self.edges.size - 1, dtype=np.int64),
            "below": np.zeros(2, dtype=np.int64),
            "rest": np.zeros(2, dtype=np.int64),
            "largest_error": np.zeros(1),
            "least_left": np.full(1, np.inf),
        }


def _records(membership: Membership, words: PackedCodes) -> dict[str, NDArray[Any]]:
    """The records of a batch, and the lines of each: a signature, or the signatures of a kind of person."""
    people = membership.persons
    if not membership.by_person:
        count, none = len(membership.counts), membership.counts == 0
        signature, known, rows = np.arange(count), none, np.ones(count, dtype=np.intp)
        persons, sizes = membership.counts, np.ones(count, dtype=np.intp)
        unknown, group = membership.counts - membership.known, np.zeros(count, dtype=np.int64)
    else:
        signature, known, rows = people.signatures, people.known, people.rows
        persons, sizes, group = people.persons, np.diff(people.starts), people.groups
        unknown = persons
    of_lines = {
        "words": words[:, signature],
        "counts": membership.counts[signature],
        "known": membership.known[signature],
    }
    of_records = {"persons": persons, "sizes": sizes, "unknown": unknown, "group": group}
    return of_lines | of_records | {"line_known": known, "line_rows": rows, "cost": np.zeros(sizes.size)}


def _among(words: PackedCodes, wanted: PackedCodes) -> NDArray[np.bool_]:
    """Which signatures are among some others."""
    inside = np.isin(words[0], wanted[0])
    listed = set(map(tuple, wanted.T.tolist()))
    places = np.flatnonzero(inside)
    inside[places] = [tuple(one) in listed for one in words[:, places].T.tolist()]
    return inside
