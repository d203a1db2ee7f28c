"""Random designs through the sparse route, against exact arithmetic: a decision is right or it is left open.

0/1 rows with few members, nested and crossed partitions with records outside some of them, repeated and
dependent rows, integer weights, known records, noise over several orders of magnitude. Numbers, where they
are compared, are within the error that the result states.
"""

from __future__ import annotations

import math
import time
from collections import Counter

import numpy as np
from scipy import sparse

import tests.labeled.exact_designs as drawn
import tests.labeled.fuzz_designs as designs
from sightline import MembershipDesign
from sightline.labeled.description import Readout
from sightline.labeled.incidence.cells import CellIncidence
from tests.labeled.exact_answers import ExactDesign
from tests.labeled.sparse_cases import sparsely

# The truth of numbers costs more than that of decisions.
NUMBERS = 1 / 20


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    until, count, trial = time.monotonic() + seconds, Counter[str](), 0
    while time.monotonic() < until and trial < most:
        check(seed, trial, count)
        trial += 1
    return dict(sorted(count.items()))


def check(seed: int, trial: int, count: Counter[str]) -> None:
    """One case; a failure tells how to repeat it."""
    generator = np.random.default_rng([seed, trial])
    kind = (cells, few_members, nasty_rows, cells, few_members)[trial % 5]
    try:
        kind(generator, count)
    except Exception as failure:
        failure.add_note(f"again: tests.labeled.fuzz_sparse_route.check({seed}, {trial}, Counter())")
        raise


def cells(generator: np.random.Generator, count: Counter[str]) -> None:
    """Cells of partitions that refine or cross each other, given as signatures with counts."""
    signatures, counts = partitions(generator)
    widths = signatures.max(axis=0) + 1
    cells_of = [signatures[:, p] == cell for p, width in enumerate(widths) for cell in range(width)]
    rows = np.repeat(np.array(cells_of, dtype=np.int64), counts, axis=1)
    noise = 10 ** generator.uniform(-1, 1, len(rows))
    incidence = CellIncidence.of(signatures.astype(np.int32), widths.astype(np.intp), counts.astype(np.intp))
    design = MembershipDesign(incidence, noise=noise, readout=Readout.SUM)
    found = sparsely(design)
    exact = ExactDesign(rows=rows, covariance=noise)
    count["cell designs"] += 1
    first = np.cumsum(counts) - counts
    truth = drawn.identifiable(np.array(cells_of, dtype=np.int64))
    undecided = found.undecided | (~found.groups.identifiable & (found.evidence.name == "NONE"))
    wrong = ~undecided & (found.groups.identifiable != truth)
    assert not wrong.any(), ("the sum of a group", np.flatnonzero(wrong).tolist())
    count["undecided"] += int(undecided.sum())
    count["decisions"] += int((~undecided).sum())
    count["identifiable"] += int(found.groups.identifiable.sum())
    if found.evidence.name != "NONE":
        assert found.rank == len(exact.reduced[1])
        count["ranks"] += 1
    if generator.random() < NUMBERS:
        case = designs.Case(rows=rows, noise=design.law, exact=exact, known=())  # type: ignore[arg-type]
        designs.compare_ends(found, case, "uniform", count, records=first)


def few_members(generator: np.random.Generator, count: Counter[str]) -> None:
    """0/1 rows over records in a few rows each, some of them sums or copies of others."""
    lines, records = int(generator.integers(2, 14)), int(generator.integers(2, 16))
    rows = (generator.random((lines, records)) < generator.uniform(0.1, 0.5)).astype(np.int64)
    if generator.random() < 0.5:
        disjoint = np.flatnonzero((rows @ rows[0]) == 0)
        if disjoint.size:
            rows = np.vstack([rows, rows[0] + rows[disjoint[0]]])
    if generator.random() < 0.3:
        rows = rows[:, generator.integers(0, records, records)]
    compare(usable(rows), generator, count)


def nasty_rows(generator: np.random.Generator, count: Counter[str]) -> None:
    """Chains, ladders, nearly dependent rows and integer weights, as far as products of rows are exact."""
    rows = designs.nasty_integers(generator, largest=9)
    if float(np.abs(rows).max()) ** 2 * rows.shape[1] < 2**50:
        compare(usable(rows), generator, count)


def compare(rows: np.ndarray, generator: np.random.Generator, count: Counter[str]) -> None:
    """Decisions of the sparse route, and now and then numbers, against exact ones."""
    records = rows.shape[1]
    known: tuple[int, ...] = ()
    if generator.random() < 0.3:
        known = tuple(sorted(generator.permutation(records)[: int(generator.integers(1, records))].tolist()))
    spread = (0.0, 1.0, 3.0)[int(generator.integers(3))]
    noise = 10 ** generator.uniform(-spread, spread, len(rows))
    design = MembershipDesign(sparse.csr_array(rows), noise=noise, readout=Readout.SUM)
    found = sparsely(design, known=known)
    left = rows[:, np.setdiff1d(np.arange(records), known)]
    exact = ExactDesign(rows=left, covariance=noise)
    case = designs.Case(rows=rows, noise=design.law, exact=exact, known=known)  # type: ignore[arg-type]
    count["designs of rows"] += 1
    if found.evidence.name != "NONE":
        assert found.rank == len(exact.reduced[1])
        count["ranks"] += 1
    count["identifiable"] += int(found.identifiable.sum())
    designs.compare(found, case, "uniform", count, numbers=generator.random() < NUMBERS)


def partitions(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Signatures and counts: a fine partition, coarser, finer and crossed ones, some with gaps."""
    records = int(generator.integers(3, 16))
    fine = generator.integers(int(generator.integers(2, 9)), size=records)
    keys = [fine]
    for _ in range(int(generator.integers(1, 5))):
        base = keys[int(generator.integers(len(keys)))]
        match int(generator.integers(4)):
            case 0:
                keys.append(base // 2)
            case 1:
                keys.append(generator.integers(3, size=records))
            case 2:
                keys.append(base * 2 + generator.integers(2, size=records))
            case _:
                keys.append(np.where(generator.random(records) < 0.3, -1, base))
    columns = []
    for key in keys:
        values, back = np.unique(key, return_inverse=True)
        columns.append(back - int(values[0] < 0))
    table = np.stack(columns, axis=1)
    table = table[:, table.max(axis=0) >= 0]
    signatures, counts = np.unique(table, axis=0, return_counts=True)
    more = generator.random(counts.size) < 0.2
    return signatures, counts + more * generator.integers(1, 4, counts.size)


def usable(rows: np.ndarray) -> np.ndarray:
    rows = rows[rows.any(axis=1)]
    return rows if len(rows) else np.array([[1, 1], [0, 1]], dtype=np.int64).repeat(2, axis=1)
