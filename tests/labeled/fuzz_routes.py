"""Random designs through every route that decides who is identifiable: all agree, exactly.

Each design is drawn once, and given to every route that takes it: as cells of partitions, as dense rows and
as sparse rows of small integers, and with its rows multiplied so that they are large integers or reals.
The truth is an elimination over the rationals. Where two routes compute the same risk, they agree to 1e-9,
or to the error that they state themselves where that is larger.

``python -m tools.fuzz --entry tests.labeled.fuzz_routes --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from scipy import sparse

import tests.labeled.exact_designs as drawn
import tests.labeled.fuzz_designs as designs
from sightline import MembershipDesign
from sightline.labeled.description import Readout
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.knowledge import unknown_records
from sightline.labeled.risk_forms import Quantity, Risks, risks_over_v
from sightline.labeled.routes.columns import by_columns
from sightline.labeled.routes.exact import by_elimination
from sightline.labeled.routes.gap import by_gap
from sightline.labeled.routes.independent import by_independent_rows
from sightline.labeled.routes.partitions import by_partitions
from sightline.labeled.routes.problem import Problem, Reading
from sightline.labeled.routes.sparse import by_sparse_factor
from sightline.labeled.sparse_gram import SparseGram
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.progress import silent
from tests.labeled.fuzz_sparse_route import partitions, usable
from tests.labeled.sparse_cases import pattern_of

AGREE = 1e-9
DENSE: tuple[Callable[[Problem], Reading | None], ...] = (
    by_columns,
    by_gap,
    by_independent_rows,
    by_partitions,
    by_elimination,
)


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    until, count, trial = time.monotonic() + seconds, Counter[str](), 0
    while time.monotonic() < until and trial < most:
        check(seed, trial, count)
        trial += 1
    return dict(sorted(count.items()))


def check(seed: int, trial: int, count: Counter[str]) -> None:
    """One design; a failure tells how to repeat it."""
    generator = np.random.default_rng([seed, trial])
    try:
        compare(generator, trial, count)
    except Exception as failure:
        failure.add_note(f"again: tests.labeled.fuzz_routes.check({seed}, {trial}, Counter())")
        raise


def compare(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    cells = None
    if trial % 2:
        signatures, counts = partitions(generator)
        widths = signatures.max(axis=0) + 1
        cells = CellIncidence.of(signatures.astype(np.int32), widths.astype(np.intp), counts.astype(np.intp))
        once = [signatures[:, p] == cell for p, width in enumerate(widths) for cell in range(width)]
        rows = np.repeat(np.array(once, dtype=np.int64), counts, axis=1)
        owner = np.repeat(np.arange(counts.size), counts)
    else:
        rows = usable(_rows(generator, trial))
        owner = np.arange(rows.shape[1])
    records = rows.shape[1]
    known: tuple[int, ...] = ()
    if cells is None and generator.random() < 0.3:
        known = tuple(sorted(generator.permutation(records)[: int(generator.integers(1, records))].tolist()))
    unknown = unknown_records(records, known)
    truth = _sum_is_identifiable(rows[:, unknown])
    noise = 10 ** generator.uniform(-0.5, 0.5, len(rows))
    risks = risks_over_v(1 / 12, excess=1.0, precision=40.0)
    count["designs"] += 1
    count["identifiable"] += int(truth.sum())
    seen: dict[Quantity, tuple[np.ndarray, float]] = {}
    factor = generator.uniform(0.5, 2.0, len(rows))[:, None]
    # Multiplied by a real number and rounded, rows are other rows; their truth is that of the doubles.
    real = np.array(
        [[int(Fraction(x) * 2**60) for x in row] for row in (rows * factor).tolist()], dtype=object
    )
    true_of_real = _sum_is_identifiable(real[:, unknown])
    truths = {True: true_of_real, False: truth}
    for name, reading, back in _readings(factor, rows, cells, owner, noise, known, risks):
        decisions, truth = reading.decisions, truths["real" in name]
        yes = decisions.identifiable[decisions.group][back]
        open_ = decisions.undecided[decisions.group][back]
        wrong = ~open_ & (yes != truth)
        assert not wrong.any(), (name, np.flatnonzero(wrong).tolist())
        count[f"by {name}"] += 1
        count[f"undecided by {name}"] += int(open_.sum())
        if "large" in name or "real" in name:
            continue  # other numbers: the rows were multiplied
        for quantity in risks:
            value, error = reading.quantities[quantity][back], reading.share_error
            other, other_error = seen.setdefault(quantity, (value, error))
            apart = float(np.max(np.abs(value - other), initial=0.0))
            assert apart <= max(AGREE, error + other_error), (name, quantity, apart)
            count["numbers"] += value.size


def _readings(  # many parameters: a design, its noise and what is known
    factor: np.ndarray,
    rows: np.ndarray,
    cells: CellIncidence | None,
    owner: np.ndarray,
    noise: np.ndarray,
    known: tuple[int, ...],
    risks: Risks,
) -> Iterator[tuple[str, Reading, np.ndarray]]:
    """What every route says of every form of a design, and the place of each record in its reading."""
    everyone = np.arange(rows.shape[1] - len(known))
    forms = {
        "dense rows": (rows, everyone),
        "sparse rows": (sparse.csr_array(rows), everyone),
        "large rows": (rows * 2.0**40, everyone),
        "real rows": (rows * factor, everyone),
    }
    if cells is not None:
        forms["cells"] = (cells, owner)
    for name, (given, back) in forms.items():
        design = MembershipDesign(given, noise=noise, readout=Readout.SUM)
        unknown = unknown_records(design.size, known)
        problem = Problem(gram=UnknownRecordsGram.of(design, unknown), risks=risks, progress=silent)
        for route in DENSE:
            if route not in (by_columns, by_gap) and not design.incidence.whole:
                continue  # those two take all that is not small integers
            reading = route(problem)
            if reading is not None:
                yield f"{route.__name__.removeprefix('by_')} of {name}", reading, back
        if name in ("sparse rows", "cells") and design.incidence.whole:
            gram = SparseGram.of(design, unknown, pattern_of(design))
            yield f"sparse factor of {name}", by_sparse_factor(gram, risks, silent).reading, back


def _rows(generator: np.random.Generator, trial: int) -> np.ndarray:
    if trial % 8 == 0:
        rows = designs.nasty_integers(generator, largest=9)
        if float(np.abs(rows).max()) ** 2 * rows.shape[1] < 2**50:
            return rows
    lines, records = int(generator.integers(2, 12)), int(generator.integers(2, 14))
    rows = (generator.random((lines, records)) < generator.uniform(0.1, 0.5)).astype(np.int64)
    return rows[:, generator.integers(0, records, records)] if generator.random() < 0.3 else rows


def _sum_is_identifiable(rows: np.ndarray) -> np.ndarray:
    """For every record whether the sum of all records with its column is identifiable."""
    kinds = {column: place for place, column in enumerate(dict.fromkeys(zip(*rows.tolist(), strict=True)))}
    back = [kinds[column] for column in zip(*rows.tolist(), strict=True)]
    return drawn.identifiable(np.array(list(kinds), dtype=object).T)[back]
