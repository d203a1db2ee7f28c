"""Random tables read in passes, against the same tables in memory: brackets, counts and decisions."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sightline.labeled.bounds.domain import prior_on
from sightline.labeled.exposures import exposures
from sightline.labeled.kept_exposures import kept_exposures
from sightline.progress import silent
from sightline.tables.store_passes import ExposureScan
from tests.numbered_cases import check_cases
from tests.tables.test_signature_store import EDGES, Case, design_of, forms_of, placed


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Cases of a seed until the time is up."""
    return check_cases(check, seed, seconds)


def check(draw: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One table: no decision differs, and the numbers of all records agree."""
    law, prior = (
        str(draw.choice(["gaussian", "laplace", "mixed"])),
        str(draw.choice(["uniform", "cos2", "two-point"])),
    )
    case = Case(int(draw.integers(1 << 30)), rows=int(draw.integers(20, 400)), nested=bool(draw.integers(2)))
    cells = case.cells()
    forms = forms_of(case, cells, law, prior, batch=int(draw.integers(1, 300)))
    whole, known, copies = design_of(cells, case, law)
    expected = exposures(whole, prior=prior_on((0.0, 1.0), prior), known=np.flatnonzero(known), copies=copies)
    scan = ExposureScan(
        cells=cells,
        forms=forms,
        most=int(draw.integers(1, 30)),
        edges=EDGES,
        limit=float(draw.random()),
        costs=draw.random(int(cells.widths.sum())),
        always=case.words[:, :1],
    )
    found = case.store(int(draw.integers(1, 300))).run(scan, "", silent)
    places = placed(case, found["words"])
    kept, kept_known, copies = design_of(cells, case, law, places)
    got = kept_exposures(kept, forms, known=np.flatnonzero(kept_known), copies=copies)
    unknown = np.flatnonzero(case.counts > case.known)
    mine = np.isin(unknown, places)
    assert np.array_equal(got.groups.identifiable, expected.groups.identifiable[mine])
    assert not expected.groups.identifiable[~mine].any()
    assert not expected.undecided.any()
    lower, rows = expected.remaining_lower[~known], (case.counts - case.known)[unknown]
    np.testing.assert_allclose(got.remaining_lower[~kept_known], lower[mine], rtol=1e-9, atol=1e-12)
    stated = got.relative_error + expected.relative_error
    upper = expected.remaining_upper[~known][mine]
    np.testing.assert_allclose(got.remaining_upper[~kept_known], upper, rtol=1e-9 + stated)
    np.testing.assert_allclose(got.groups.rmse, expected.groups.rmse[mine], rtol=1e-9 + stated)
    far = np.abs(lower - scan.limit) > 1e-9
    below = (lower < scan.limit) & ~mine
    if far.all():
        assert found["below"].tolist() == [int(below.sum()), int(rows[below].sum())]
    assert int(found["histogram"].sum()) == int(rows[~mine].sum())
    assert not lower.size or lower.min() >= got.remaining_lower[~kept_known].min() * (1 - 1e-9)
    count["tables"] += 1
    count["identifiable groups"] += int(expected.groups.identifiable.sum())
    count["left"] += int(np.count_nonzero(~mine))
