"""Sums in which a row's value is multiplied by a public weight: against dense linear algebra."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.findings import Findings, find
from sightline.auditing.homogeneous import homogeneous_cells
from sightline.tables.membership import Feature, Membership, Statistic
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of

BOUNDS = (0.0, 10.0)


def weighted(membership: Membership, weights: dict[int, list[float]], table: np.ndarray) -> Membership:
    """A membership with weights of every row in some partitions; each row has a signature of its own."""
    every = np.ones((len(table), len(membership.partitions)))
    for p, own in weights.items():
        every[:, p] = own
    both, back = np.unique(np.hstack([table, every]), axis=0, return_inverse=True)
    width = len(membership.partitions)
    parts = tuple(replace(part, weighted=p in weights) for p, part in enumerate(membership.partitions))
    return replace(
        membership,
        partitions=parts,
        signatures=both[:, :width].astype(np.int32),
        weights={p: both[:, width + p] for p in range(width)},
        counts=np.bincount(back.ravel()).astype(np.int64),
        known=np.zeros(len(both), dtype=np.int64),
    )


def random_case(seed: int, rows: int = 9) -> tuple[Findings, np.ndarray, np.ndarray]:
    """Random groups and weights as findings, and the same as a dense matrix with its noise."""
    draw = np.random.default_rng(seed)
    groups = [[str(g) for g in draw.integers(2, size=rows)] for _ in range(3)]
    groups.append([None if row == 4 else "" for row in range(rows)])
    weights = {0: draw.choice([0.5, 1.0, 3.0], rows).tolist(), 2: draw.choice([-2.0, 1.5], rows).tolist()}
    statistics = [Statistic.SUM, Statistic.MEAN, Statistic.MEAN, Statistic.SUM]
    parts = [partition(p, f"r{p}", statistic=statistics[p]) for p in range(4)]
    plain = membership_of(parts, groups)
    names = [sorted({g for g in line if g is not None}) for line in groups]
    table = np.array(
        [[-1 if g is None else names[p].index(g) for p, line in enumerate(groups) for g in [line[row]]]
         for row in range(rows)]
    )  # fmt: skip
    membership = weighted(plain, weights, table)
    noise = draw.uniform(0.1, 2.0, 4)
    plan = plan_of(*({"name": f"r{p}", "noise_stddev": float(noise[p])} for p in range(4)))
    matrix, scale = [], []
    for c, cell in enumerate(membership.cells):
        p = cell.partition
        inside = table[:, p] == c - membership.starts[p]
        matrix.append(np.where(inside, weights.get(p, [1.0] * rows), 0.0))
        scale.append(noise[p] * (cell.rows if statistics[p] is Statistic.MEAN else 1.0))
    return find(plan, membership), np.array(matrix), np.array(scale)


@pytest.mark.parametrize(("seed", "rows"), [(0, 9), (1, 9), (2, 9), (3, 200), (4, 200)])
def test_a_weighted_design_is_the_dense_one(seed: int, rows: int) -> None:
    """Of 200 rows many share a signature: their column stands for several records."""
    findings, A, scale = random_case(seed, rows)
    exposures, linear = findings.linear.exposure, findings.linear.linear
    key = [tuple(column) for column in A.T.tolist()]
    columns = linear.table.toarray()
    units = np.abs(columns).max(axis=1) / np.abs(A).max(axis=1)  # rows are multiplied to be whole numbers
    assert np.array_equal(columns, np.rint(columns))
    dense = sl.MembershipDesign(A * units[:, None], noise=scale * units, readout="sum")
    expected = dense.exposures(domain=BOUNDS)
    for column, values in enumerate((columns / units[:, None]).T.tolist()):
        record = key.index(tuple(values))
        assert key.count(tuple(values)) == findings.linear.counts[column]
        assert findings.linear.identifiable[column] == expected.identifiable[record]
        assert exposures.lower[column, 0] == pytest.approx(expected.remaining_lower[record], rel=1e-9)
        assert exposures.upper[column, 0] == pytest.approx(expected.remaining_upper[record], rel=1e-9)
        # And by textbook algebra: the best unbiased attack, and the best linear one under the prior.
        whitened = A / scale[:, None]
        information = whitened.T @ whitened
        v = 100 / 12
        risk = np.linalg.inv(information + np.eye(A.shape[1]) / v)[record, record] / v
        assert exposures.upper[column, 0] == pytest.approx(risk, rel=1e-8 + exposures.relative_error)
        if findings.linear.identifiable[column]:
            error = np.sqrt(np.linalg.pinv(information, rcond=1e-10)[record, record])
            assert exposures.rmse[column, 0] == pytest.approx(error, rel=1e-7)


def test_the_sensitivity_is_that_of_the_largest_weight() -> None:
    findings, A, _ = random_case(3)
    cells = findings.membership.cells
    for c, cell in enumerate(cells):
        mean = findings.membership.partitions[cell.partition].statistic is Statistic.MEAN
        expected = 10 * np.abs(A[c]).max() / (cell.rows if mean else 1)
        assert findings.pricing.sensitivity[c] == pytest.approx(expected)


TABLE = "who,region,w,x\n" + "".join(
    f"p{i},{'north' if i % 2 else 'south'},{1 + i % 3},{(7 * i) % 10}.5\n" for i in range(12)
)


def audit(folder: Path, *releases: dict[str, Any], **changes: Any) -> sl.AuditResult:
    (folder / "t.csv").write_text(changes.pop("table", TABLE))
    data = {"source": str(folder / "t.csv"), "record": "who", "secret": "x", "bounds": [0, 10]}
    return sl.audit(
        {
            "data": {**data, **changes.pop("data", {})},
            "release": list(releases),
            "limits": {"remaining_uncertainty": 0.5, **changes.pop("limits", {})},
            **changes,
        }
    )


def test_a_weight_that_singles_out_a_record_does_not_pass(tmp_path: Path) -> None:
    """Two weighted sums whose difference is one record's value: the same rows, other weights."""
    alone = "CASE WHEN who = 'p3' THEN 2 ELSE 1 END"
    result = audit(
        tmp_path,
        {"name": "all", "sql": "SELECT SUM(x) FROM data", "noise_stddev": 0.5},
        {"name": "again", "sql": f"SELECT SUM(x * {alone}) FROM data", "noise_stddev": 0.5},
    )
    assert result.identifiable_records == 1
    assert result.verdict.passed is False
    assert result.exposed[0].rmse == pytest.approx(np.sqrt(0.5), rel=1e-9)


def test_a_large_weight_is_seen_through_the_noise(tmp_path: Path) -> None:
    weight = "CASE WHEN who = 'p3' THEN 1000 ELSE 1 END"
    sql = f"SELECT SUM(x * {weight}) FROM data"
    result = audit(tmp_path, {"name": "r", "sql": sql, "noise_stddev": 100.0})
    assert result.verdict.passed is False
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.upper < 0.01
    enough = audit(tmp_path, {"name": "r", "sql": sql, "noise_stddev": 40_000.0})
    assert enough.verdict.passed is True


def test_a_weighted_sum_at_its_least_tells_everyone(tmp_path: Path) -> None:
    table = "who,region,w,x\n" + "".join(f"p{i},north,{1 + i % 3},0\n" for i in range(40))
    release = {"name": "r", "sql": "SELECT SUM(x * w) FROM data", "noise_stddev": 30.0}
    result = audit(
        tmp_path, release, table=table, limits={"remaining_uncertainty": 0.8, "accept": ["few_values"]}
    )
    assert result.homogeneous
    assert result.homogeneous[0].rows == 40
    assert result.verdict.passed is False


def test_the_homogeneous_check_counts_rows_by_their_weights() -> None:
    """By hand: weights 1, 1, 2 over values 0, 0, 0 with noise s are four rows over one."""
    parts = [partition(0, "r", statistic=Statistic.SUM)]
    membership = weighted(membership_of(parts, [[""] * 3]), {0: [1.0, 1.0, 2.0]}, np.zeros((3, 1)))
    plan = plan_of({"name": "r", "noise_stddev": 1.0}, limits={"remaining_uncertainty": 0.9})
    cells = homogeneous_cells(find(plan, membership), lambda _: np.zeros((2, 1)))
    four = membership_of(parts, [[""] * 4])
    same = homogeneous_cells(find(plan, four), lambda _: np.zeros((1, 1)))
    assert [cell.remaining for cell in cells] == pytest.approx([same[0].remaining])
    assert cells[0].rows == 3


@pytest.mark.parametrize("values", ["constant", "independent"])
def test_weighted_rows_of_one_person(values: str, tmp_path: Path) -> None:
    """A person's own weighted total at little noise does not pass; the error is that of their rows."""
    table = "who,region,w,x\n" + "".join(f"p{i // 2},{'ab'[i % 2]},{1 + i % 2},5.5\n" for i in range(12))
    releases = [
        {"name": "all", "sql": "SELECT SUM(x * w) FROM data", "noise_stddev": 0.1},
        {"name": "but", "sql": "SELECT SUM(x * w) FROM data WHERE who <> 'p2'", "noise_stddev": 0.1},
    ]
    accept = {"accept": ["values", "few_values"]}
    result = audit(
        tmp_path,
        *releases,
        table=table,
        data={"max_rows_per_record": 2, "values": values},
        limits=accept,
    )
    assert result.identifiable_records == 1
    assert result.verdict.passed is False
    # Rows of weight 1 and 2: one value is seen times 3; of two values, half of the one and the other times 2.
    times = 3 if values == "constant" else 2
    assert result.exposed[0].rmse == pytest.approx(np.sqrt(0.02) / times, rel=1e-6)


def test_weighted_counts_of_a_yes_or_no(tmp_path: Path) -> None:
    """SUM(cost) over those who are ill: two sums whose difference is 3 times one record's yes or no."""
    table = "who,cost,ill\n" + "".join(
        f"p{i},{1 + i % 4},{'true' if i % 3 else 'false'}\n" for i in range(12)
    )
    data = {"secret": "ill", "kind": "boolean", "bounds": None}
    result = audit(
        tmp_path,
        {"name": "all", "sql": "SELECT SUM(cost) FROM data WHERE ill", "noise_stddev": 0.3},
        {
            "name": "but",
            "sql": "SELECT SUM(CASE WHEN NOT ill THEN cost ELSE 0 END) FROM data WHERE who <> 'p2'",
            "noise_stddev": 0.3,
        },
        table=table,
        data=data,
    )
    assert result.identifiable_records == 1
    assert result.exposed[0].rmse == pytest.approx(np.sqrt(0.18) / 3, rel=1e-9)
    recipe = result.exposed[0].recipe
    assert recipe is not None
    # The complement counts the cost of all others, 27, less those who are ill.
    assert recipe.constant == pytest.approx(-27 / 3)
    assert result.verdict.passed is False


def test_weighted_powers_are_bounded_by_their_sensitivity() -> None:
    parts = [partition(0, "r", statistic=Statistic.SUM, feature=Feature.POWER, parameter=2.0)]
    membership = weighted(membership_of(parts, [[""] * 3]), {0: [1.0, 2.0, 4.0]}, np.zeros((3, 1)))
    result = assembled(find(plan_of({"name": "r", "noise_stddev": 100.0}), membership))
    assert result.budget.noise_multiplier is None
    found = find(plan_of({"name": "r", "noise_stddev": 100.0}), membership)
    assert found.pricing.sensitivity.tolist() == [400.0]
