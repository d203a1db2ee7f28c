"""Passes over a store of signatures, against the same numbers from all signatures at once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sightline.auditing.lowering import UnitLowering
from sightline.auditing.record_costs import CellCosts
from sightline.auditing.streamed_findings import (
    BatchUnits,
    ExposureScan,
    SolvedForms,
    StreamedUnits,
    UnitPass,
)
from sightline.bounds.assessment import exposure_of, unit_brackets
from sightline.bounds.priors import prior_on
from sightline.bounds.unit_brackets import UnitBrackets
from sightline.errors import InvalidInput, InvalidPlan, TooMuchWork
from sightline.progress import reporting
from sightline.tables.cells import CellNumbers, CellSizes, CodePlace, Layout, SignatureCells
from sightline.tables.engines import duckdb_engine
from sightline.tables.engines.duckdb_engine import DuckDBEngine
from sightline.tables.engines.protocol import Arrays, Reduction, SignatureBatch, run_batches
from sightline.tables.membership import Cell, Feature, Membership, Partition, Statistic
from sightline.tables.streamed import BatchTables, Ranks, loaded
from sightline.units.design import Design, MadeOfUnits
from sightline.units.row_noise import RowNoise
from sightline.units.row_products import RowProducts
from sightline.units.target import UnitPrior

EDGES = np.linspace(0, 1, 21)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayStore:
    """Signatures in arrays of this process."""

    words: NDArray[np.int64]
    counts: NDArray[np.int64]
    known: NDArray[np.int64]
    batch: int = 1000

    @property
    def signatures(self) -> int:
        return len(self.counts)

    def run(self, reduction: Reduction, stage: str) -> Arrays:
        return run_batches(self._batches(), reduction, stage, signatures=self.signatures)

    def close(self) -> None:
        """Arrays are given back by the interpreter."""

    def _batches(self) -> Iterator[SignatureBatch]:
        for start in range(0, self.signatures, self.batch):
            own = slice(start, start + self.batch)
            yield SignatureBatch(words=self.words[:, own], counts=self.counts[own], known=self.known[own])


class Case:
    """A random table: some partitions over two words, one of them under a condition."""

    def __init__(self, seed: int, *, rows: int = 400, nested: bool = False) -> None:
        draw = np.random.default_rng(seed)
        sizes = [int(size) for size in draw.integers(2, 9, 4)]
        keys = [draw.integers(0, size, rows) for size in sizes]
        met = draw.random(rows) < 0.7
        # Two keys share the first word; the second word has the conditional key (0: not met) and the last.
        words = np.stack([keys[0] | keys[1] << 4, np.where(met, keys[2] + 1, 0) | keys[3] << 4])
        listed, place = np.unique(words, axis=1, return_inverse=True)
        self.words = listed.astype(np.int64)
        self.counts = np.bincount(place.ravel()).astype(np.int64)
        self.known = np.minimum(self.counts, draw.integers(0, 2, self.counts.size) * (draw.random() < 0.5))
        at = [(0, 0), (0, 4), (1, 0), (1, 4)]
        codes = [
            CodePlace(word=word, shift=shift, width=4, size=size + (number == 2))
            for number, ((word, shift), size) in enumerate(zip(at, sizes, strict=True))
        ]
        self.layouts: tuple[Layout, ...] = (
            Layout(keys=(codes[0],), conditional=False),
            Layout(keys=(codes[0], codes[1]) if nested else (codes[1],), conditional=False),
            Layout(keys=(codes[2],), conditional=True),
            Layout(keys=(codes[3], codes[0]), conditional=False),
        )

    def store(self, batch: int) -> ArrayStore:
        return ArrayStore(words=self.words, counts=self.counts, known=self.known, batch=batch)

    def cells(self) -> SignatureCells:
        sizes = CellSizes(layouts=self.layouts)
        found = self.store(7).run(sizes, "cells")
        numbers = [sizes.occurring(found, place)[0] for place in range(len(self.layouts))]
        return SignatureCells(
            layouts=tuple(
                CellNumbers(layout=layout, occurring=own)
                for layout, own in zip(self.layouts, numbers, strict=True)
            ),
            layout_of=(0, 1, 2, 3, 1),  # one partition twice
        )


def made_of(cells: SignatureCells) -> BatchUnits:
    """How batches of a case become units."""
    parts = tuple(
        Partition(query=place, name=f"r{place}", statistic=Statistic.SUM, feature=Feature.VALUE)
        for place in range(len(cells.widths))
    )
    numbers = tuple(
        Cell(partition=place, key=(str(cell),), rows=1)
        for place, width in enumerate(cells.widths.tolist())
        for cell in range(width)
    )
    none = np.zeros(0, dtype=np.int64)
    membership = Membership(
        partitions=parts,
        cells=numbers,
        signatures=np.zeros((0, len(parts)), dtype=np.int32),
        counts=none,
        known=none,
        rows=1,
        records=1,
        contributions=1,
        dropped=0,
        clipped=0,
    )
    every = np.ones((1, len(parts)), dtype=np.bool_)
    return BatchUnits(
        batches=BatchTables(membership=membership, cells=cells),
        lowering=UnitLowering(order=tuple(range(len(parts))), counted=every, shared=None),
    )


def costs_of(cells: SignatureCells, costs: np.ndarray) -> CellCosts:
    """What every cell costs those in it."""
    count = len(cells.widths)
    return CellCosts(
        costs=costs,
        bundles=tuple((place,) for place in range(count)),
        times=np.ones(count, dtype=np.intp),
        row_norms=np.ones(count),
    )


def design_of(
    cells: SignatureCells, case: Case, law: str, prior: str, places: np.ndarray | None = None
) -> Design:
    """The design over all signatures with unknown rows, or over some of them."""
    unknown = case.counts - case.known
    chosen = np.flatnonzero(unknown > 0)
    chosen = chosen if places is None else np.intersect1d(chosen, places)
    batch = SignatureBatch(words=case.words[:, chosen], counts=case.counts[chosen], known=case.known[chosen])
    *_, units, place = made_of(cells).of(batch)
    numbers = units.numbers
    scales, copies = 0.5 + np.random.default_rng(1).random(numbers), 1.0 + (np.arange(numbers) % 3)
    laplace = np.full(numbers, float(law == "laplace"))
    if law == "mixed":
        laplace[::3] = 1.0
    stddevs = scales * np.where(laplace > 0, 2**0.5, 1.1 if law == "mixed" else 1.0)
    return Design(
        units=units,
        noise=RowNoise.of(scales, stddevs, laplace, copies.astype(np.float64)),
        prior=UnitPrior(target=prior_on((0.0, 1.0), prior)),
        release=np.arange(numbers),
        place=place,
    )


def brackets_of(case: Case, cells: SignatureCells, law: str, prior: str, batch: int) -> UnitBrackets:
    """The brackets by passes over the store."""
    units: Any = StreamedUnits(store=case.store(batch), made=made_of(cells))
    design = design_of(cells, case, law, prior)
    return SolvedForms.of(unit_brackets(replace(design, units=units, made=MadeOfUnits())))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("prior", ["uniform", "cos2", "two-point"])
@pytest.mark.parametrize("law", ["gaussian", "laplace", "mixed"])
@pytest.mark.parametrize("nested", [False, True])
def test_streamed_brackets_and_decisions_are_those_of_all_records_at_once(
    law: str, prior: str, nested: bool
) -> None:
    for seed in range(2):
        case = Case(seed + (law == "mixed"), nested=nested, rows=60 + 200 * seed)
        compare_with_memory(case, law, prior, batch=1 + 50 * seed, most=5, limit=0.4)


def compare_with_memory(case: Case, law: str, prior: str, *, batch: int, most: int, limit: float) -> int:
    """One table read in passes against the same one in memory; how many groups are identifiable."""
    cells = case.cells()
    brackets = brackets_of(case, cells, law, prior, batch)
    whole = design_of(cells, case, law, prior)
    memory = unit_brackets(whole)
    expected, solver = exposure_of(whole, memory, alone=False), memory.solver
    scan = ExposureScan(
        made=made_of(cells),
        brackets=brackets,
        most=most,
        edges=EDGES,
        limit=limit,
        costs=costs_of(cells, np.zeros(int(cells.widths.sum()))),
        moves=costs_of(cells, np.full(int(cells.widths.sum()), np.inf)),
        always=case.words[:, -1:],
    )
    found = case.store(9).run(scan, "scan")
    places = placed(case, found["words"])
    got = exposure_of(design_of(cells, case, law, prior, places), memory, alone=False)
    assert brackets.solver.numbers == solver.numbers
    unknown = np.flatnonzero(case.counts > case.known)
    mine, rows = np.isin(unknown, places), (case.counts - case.known)[unknown]
    assert np.array_equal(got.identifiable, expected.identifiable[mine])
    assert not expected.identifiable[~mine].any()
    np.testing.assert_array_equal(got.lower, expected.lower[mine])
    np.testing.assert_array_equal(got.upper, expected.upper[mine])
    # Kept and left together are everybody.
    lower = expected.lower[:, 0]
    assert found["rest"].tolist() == [case.counts.size - places.size, int(rows[~mine].sum())]
    counted = np.histogram(lower[~mine], bins=EDGES, weights=rows[~mine])[0]
    assert found["histogram"].tolist() == counted.tolist()
    below = lower[~mine] < limit
    assert found["below"].tolist() == [int(below.sum()), int(rows[~mine][below].sum())]
    # Kept are those whom the best attack leaves least of, and the one of whom least may remain.
    worst = np.sort(expected.upper[:, 0])[: min(most, lower.size)]
    np.testing.assert_array_equal(np.sort(got.upper[:, 0])[: worst.size], worst)
    assert got.lower.min(initial=np.inf) == lower.min(initial=np.inf)
    return int(np.count_nonzero(expected.identifiable))


def products_of(cells: SignatureCells, case: Case) -> RowProducts:
    """The pass that sums up the products of rows."""
    design = design_of(cells, case, "gaussian", "uniform")
    return RowProducts(prior=design.prior, noise=design.noise)


def placed(case: Case, words: np.ndarray) -> np.ndarray:
    """Where some signatures are in the table, in its order."""
    where = {tuple(one): place for place, one in enumerate(case.words.T.tolist())}
    return np.sort([where[tuple(one)] for one in words.T.tolist()])


@pytest.mark.parametrize("seed", range(3))
def test_batches_in_any_order_give_the_same_bits(seed: int) -> None:
    case = Case(seed)
    cells, draw = case.cells(), np.random.default_rng(seed)
    brackets = brackets_of(case, cells, "gaussian", "uniform", batch=100)
    costs = draw.random(int(cells.widths.sum()))
    passes: list[Reduction] = [
        CellSizes(layouts=case.layouts),
        UnitPass(made=made_of(cells), reduction=products_of(cells, case)),
        Ranks(words=case.words[:, np.sort(draw.choice(case.counts.size, 6, replace=False))]),
        ExposureScan(
            made=made_of(cells),
            brackets=brackets,
            most=3,
            edges=EDGES,
            limit=0.5,
            costs=costs_of(cells, costs),
            moves=costs_of(cells, np.full(int(cells.widths.sum()), np.inf)),
            always=case.words[:, :1],
        ),
    ]
    order = draw.permutation(case.counts.size)
    shuffled = ArrayStore(
        words=case.words[:, order], counts=case.counts[order], known=case.known[order], batch=11
    )
    for one in passes:
        expected, got = case.store(1000).run(one, ""), shuffled.run(one, "")
        sides = []
        for arrays in (expected, got):
            lined = np.lexsort(arrays["words"]) if "words" in arrays else slice(None)
            count = arrays["words"].shape[1] if "words" in arrays else None
            sides.append(
                {name: own[..., lined] if own.shape[-1:] == (count,) else own for name, own in arrays.items()}
            )
        assert sides[0].keys() == sides[1].keys()
        for name in sides[0]:
            assert np.array_equal(sides[0][name], sides[1][name]), name


def test_cells_and_their_sizes_are_counted_with_and_without_a_list() -> None:
    case = Case(5)
    sizes = CellSizes(layouts=case.layouts)
    direct = case.store(13).run(sizes, "")
    expected = [sizes.occurring(direct, place) for place in range(4)]
    table = case.cells().table(case.words)
    case.layouts = tuple(replace(layout, direct=False) for layout in case.layouts)
    sizes = CellSizes(layouts=case.layouts)
    listed = case.store(13).run(sizes, "")
    for place, (codes, rows) in enumerate(expected):
        own_codes, own_rows = sizes.occurring(listed, place)
        assert np.array_equal(codes, own_codes)
        assert np.array_equal(rows, own_rows)
        inside = table[place] >= 0
        counted = np.bincount(table[place][inside], case.counts[inside], codes.size)
        assert rows.tolist() == counted.tolist()
        assert np.array_equal(
            case.layouts[place].codes(codes),
            np.unique(
                np.stack([key.codes(case.words)[inside] for key in case.layouts[place].keys], axis=1), axis=0
            ),
        )
    assert np.array_equal(table, case.cells().table(case.words))
    assert expected[2][1].sum() == case.counts[(case.words[1] & 15) > 0].sum()  # all rows that meet it
    # One signature for each of the two sets of conditions, the first in order, with its rows.
    patterns = np.array([(case.words[1] & 15) > 0])
    for pattern, word, count in zip(direct["pattern"], direct["words"].T, direct["counts"], strict=True):
        first = np.flatnonzero(patterns[0] == bool(pattern))[0]  # the words of the case are in order
        assert word.tolist() == case.words[:, first].tolist()
        assert count == case.counts[first]


def test_ranks_are_places_in_the_order_of_words() -> None:
    case = Case(2)
    places = np.array([0, 3, 4, 17, case.counts.size - 1])
    found = case.store(10).run(Ranks(words=case.words[:, places]), "")
    assert found["before"].tolist() == places.tolist()


def test_too_many_sets_of_conditions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.tables.cells.MOST_KEPT", 1)
    case = Case(0)
    with pytest.raises(TooMuchWork, match="sets of conditions"):
        case.store(10).run(CellSizes(layouts=case.layouts), "")


def test_a_store_has_signatures() -> None:
    words, none = np.zeros((1, 2), dtype=np.int64), np.zeros(0, dtype=np.int64)
    empty = ArrayStore(words=words[:, :0], counts=none, known=none)
    assert (empty.signatures, len(SignatureBatch(words=words, counts=none, known=none))) == (0, 0)
    with pytest.raises(InvalidInput, match="at least one signature"):
        empty.run(Ranks(words=words), "")


def test_a_pass_can_travel() -> None:
    """A cluster sends a pass to its executors, and the arrays of each batch back."""
    case = Case(3)
    cells = case.cells()
    brackets = brackets_of(case, cells, "laplace", "uniform", batch=100)
    costs = np.ones(int(cells.widths.sum()))
    scan = ExposureScan(
        made=made_of(cells),
        brackets=brackets,
        most=4,
        edges=EDGES,
        limit=0.5,
        costs=costs_of(cells, costs),
        moves=costs_of(cells, np.full(int(cells.widths.sum()), np.inf)),
        always=case.words[:, :2],
    )
    copied = pickle.loads(pickle.dumps(scan))
    expected, got = case.store(20).run(scan, ""), case.store(20).run(copied, "")
    assert all(np.array_equal(expected[name], got[name]) for name in expected)
    assert all(isinstance(values, np.ndarray) and values.dtype != object for values in got.values())


def test_signatures_in_duckdb_are_those_in_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(4)
    lines = [
        f"{first},{second},{count},{known}"
        for first, second, count, known in zip(*case.words, case.counts, case.known, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,k", *lines]))
    engine = DuckDBEngine("t.csv", base=tmp_path)
    monkeypatch.setattr(duckdb_engine, "BATCH", 9)
    store = engine.store_signatures(
        "SELECT a AS w0, b AS w1, c AS n, k AS known FROM data", columns=("w0", "w1", "n", "known")
    )
    assert store.signatures == case.counts.size
    stages: list[float] = []
    with reporting(lambda stage, share: stages.append(share)):
        words, counts, known = loaded(store)
    assert np.array_equal(words, case.words)
    assert np.array_equal(counts, case.counts)
    assert np.array_equal(known, case.known)
    assert len(stages) > 5
    assert stages == sorted(stages)
    assert stages[-1] == 1.0
    with pytest.raises(InvalidInput, match=f"a pass over {case.counts.size + 1} signatures"):
        loaded(replace(store, signatures=case.counts.size + 1))
    store.close()
    store.close()
    with pytest.raises(InvalidPlan, match="a query that DuckDB can run"):
        loaded(store)
    with pytest.raises(InvalidPlan, match="one SELECT, got SELECT and DROP"):
        engine.store_signatures("SELECT 1; DROP TABLE data", columns=())
    with pytest.raises(InvalidPlan, match="a query that DuckDB can run"):
        engine.store_signatures("SELECT nothing AS w0 FROM data", columns=("w0",))
    engine.close()
