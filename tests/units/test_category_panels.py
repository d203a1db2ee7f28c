"""Persons with many rows of a category: by eigenvalues, as by matrices over all rows, and by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import polars
import pytest

from sightline.auditing.findings import LinearFindings, linear_findings
from sightline.auditing.pricing import price
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.bounds import few_values
from sightline.bounds.coin import CoinPrior
from sightline.units import panels, row_decisions, row_solver, units
from sightline.units.target import Seen

BY_CATEGORY = "SELECT {0}, x, COUNT(*) FROM data GROUP BY {0}, x"
SEVERAL = "SELECT {0}, COUNT(*) FILTER (WHERE x IN ('a', 'b')) FROM data GROUP BY {0}"


def findings(
    seed: int, sql: tuple[str, ...], law: str, many: int, patch: pytest.MonkeyPatch
) -> LinearFindings:
    """What an audit finds of four to six persons with up to four rows, if so many columns are many."""
    for module in (units, row_solver, row_decisions):
        patch.setattr(module, "MANY_ROWS", many)
    draw = np.random.default_rng(seed)
    rows = int(draw.integers(9, 16))
    columns = {"who": np.arange(rows) % draw.integers(4, 7), "x": draw.choice(list("abc"), rows)}
    columns |= {name: draw.integers(4, size=rows) for name in "gh"}
    columns["g"] = np.where(columns["who"] == 0, 7, columns["g"])  # the first person has groups of their own
    data = {"source": polars.DataFrame(columns), "record": "who", "secret": "x", "kind": "category"}
    noise = {"law": law, "stddev": float(10 ** draw.uniform(-1, 0.5))}
    plan = {
        "data": data | {"categories": ["a", "b", "c"], "max_rows_per_record": 4, "values": "independent"},
        "release": [
            {"name": key, "sql": one.format(key), "noise": noise} for key, one in zip("gh", sql, strict=True)
        ],
    }
    checked, base = read_plan(plan)
    with opened(checked, base) as session:
        membership = session.membership()
        found = linear_findings(checked, membership, price(checked, membership))
    assert found is not None
    assert found.exposure.directions.size  # decided as long as so many are many
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("sql", [(BY_CATEGORY, BY_CATEGORY), (BY_CATEGORY, SEVERAL)])
@pytest.mark.parametrize("small", [160, 0])
def test_they_are_seen_as_by_matrices(
    law: str, sql: tuple[str, ...], small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panels, "PANEL", small)
    found_any = 0
    for seed in range(3):
        whole, panel = (findings(seed, sql, law, many, monkeypatch).exposure for many in (10**6, 1))
        assert np.allclose(panel.upper, whole.upper, rtol=1e-6)
        assert np.all(panel.upper >= whole.upper * (1 - 1e-9 - whole.error))
        assert np.array_equal(panel.directions, whole.directions)
        assert np.array_equal(panel.identifiable, whole.identifiable)
        if sql[1] == BY_CATEGORY and small:
            assert np.allclose(panel.lower, whole.lower, rtol=1e-6)
        found_any += int(panel.directions.max())
    assert found_any


@pytest.mark.parametrize("sql", [(BY_CATEGORY, BY_CATEGORY), (BY_CATEGORY, SEVERAL)])
def test_their_ends_hold_against_all_pairs_of_categories(
    sql: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upper ends by dense algebra. If nobody hides them, lower ends are at most a coin by the best pairs."""
    monkeypatch.setattr(few_values, "MOST_LISTED", 0)
    for seed in range(4):
        found = findings(seed, sql, "gaussian", 1, monkeypatch)
        linear, own = found.linear, found.linear.units
        A, noise, s = linear.table.toarray(), linear.design.noise.variance, linear.design.prior.scale
        K = linear.design.prior.kernel
        persons = [
            np.repeat(A[:, own.starts[u] : own.starts[u + 1]].reshape(len(A), -1, 3), times, axis=1)
            for u, times in enumerate(np.split(own.times[::3], own.starts[1:-1] // 3))
        ]
        M = sum(n * np.einsum("lrc,cd,mrd->lm", B, K, B) for n, B in zip(own.people, persons, strict=True))
        Y = np.linalg.inv(np.diag(noise) + s * np.asarray(M))
        for unit, B in enumerate(persons):
            left = s * np.kron(np.eye(B.shape[1]), K)
            flat = B.reshape(len(A), -1)
            left = left - left @ flat.T @ Y @ flat @ left
            for c in range(3):
                upper = np.linalg.eigvalsh(left[c::3, c::3])[0] / (2 * s)
                assert found.exposure.upper[unit, c] == pytest.approx(upper, rel=1e-7)
            sharpest = 0.0
            for pairs in itertools.product(itertools.combinations(range(3), 2), repeat=B.shape[1]):
                D = np.stack([B[:, r, a] - B[:, r, b] for r, (a, b) in enumerate(pairs)], axis=1)
                sharpest = max(sharpest, float(np.linalg.eigvalsh(D.T @ (D / noise[:, None]))[-1]))
            seen = Seen(information=np.array([sharpest]), linear_information=np.zeros(1))
            kept = float(CoinPrior(share=1 / 3).lower(seen)[0])
            assert np.all(found.exposure.lower[unit] <= np.minimum(kept, found.exposure.upper[unit]) + 1e-9)
