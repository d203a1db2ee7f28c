"""Releases that are computed from the fit: accepted exactly where they follow from what is measured.

The second computation has a column for every person, and ranks of whole numbers by python-flint.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import sightline as sl
from sightline.arrays import FloatArray
from sightline.errors import InvalidPlan, TooMuchWork
from sightline.jobs.fit import fit_task, fitted_tables, noisy_file
from sightline.numerics import least_squares
from sightline.numerics.least_squares import LeastSquares, combinations
from tests.auditing.test_published_fit import plan, table
from tests.numerics.test_least_squares import tables


def released(
    name: str, columns: str, what: str = "SUM(pay)", where: str = "", **fields: Any
) -> dict[str, Any]:
    listed = f"{columns}, " if columns else ""
    group = f" GROUP BY {columns}" if columns else ""
    return {"name": name, "sql": f"SELECT {listed}{what} FROM data{where}{group}", **fields}


NOISE = {"noise_stddev": 20.0}
DERIVED = {"derived": True}
CELLS = released("cells", "region, age", **NOISE)


def test_a_derived_release_changes_nothing_about_anybody(tmp_path: Path) -> None:
    table(tmp_path)
    regions = released("regions", "region", noise_stddev=5.0)
    without = sl.audit(plan(tmp_path, release=[CELLS, regions]), limit=0.3, names=True)
    derived = [CELLS, released("ages", "age", **DERIVED), regions, released("total", "", **DERIVED)]
    beside = sl.audit(plan(tmp_path, release=derived), limit=0.3, names=True)
    for section in (
        "verdict",
        "exposed",
        "least_remaining_uncertainty",
        "budget",
        "records",
        "cells",
        "rank",
    ):
        assert getattr(without, section) == getattr(beside, section)
    one = beside.releases[1]
    assert (one.name, one.outputs, one.counted, one.smallest_noise_stddev) == ("ages", 4, 0, None)
    assert one.note.startswith("computed from the fit")
    task = fit_task(plan(tmp_path, release=derived))
    made = fitted_tables(task, np.zeros(len(task.names())))
    own = [s for name, s in zip(task.all_names(), made.stddevs, strict=True) if name[0] == "ages"]
    assert (one.smallest_fit_stddev, one.largest_fit_stddev) == pytest.approx((min(own), max(own)), rel=1e-12)


def test_derived_numbers_are_sums_of_the_fitted_ones_and_so_are_their_errors(tmp_path: Path) -> None:
    rows = table(tmp_path)
    others = [
        released("ages", "age", **DERIVED),
        released("means", "age", "AVG(pay)", **DERIVED),
        released("total", "", **DERIVED),
        released("but one", "age", where=" WHERE region <> 'n'", **DERIVED),
    ]
    task = fit_task(
        plan(
            tmp_path, release=[CELLS, released("north", "age", where=" WHERE region = 'n'", **NOISE), *others]
        )
    )
    noisy = np.random.default_rng(3).normal(300, 50, len(task.names()))
    made = fitted_tables(task, noisy, covariance=True)
    assert made.covariance is not None
    values = dict(zip(task.all_names(), made.values.tolist(), strict=True))
    place = {name: at for at, name in enumerate(task.all_names())}
    for age in map(str, range(20, 24)):
        cells = {name: value for name, value in values.items() if name[0] == "cells" and name[3] == age}
        people = sum(str(row["age"]) == age for row in rows)
        total = sum(cells.values())
        assert values["ages", "", age] == pytest.approx(total, rel=1e-12)
        assert values["means", "", age] == pytest.approx(total / people, rel=1e-12)
        north = next(value for name, value in cells.items() if name[2] == "n")
        assert values["but one", "", age] == pytest.approx(total - north, rel=1e-9)
        own = [place[name] for name in cells]
        variance = made.covariance[np.ix_(own, own)].sum()
        at = place["ages", "", age]
        assert made.stddevs[at] ** 2 == pytest.approx(variance, rel=1e-9)
        assert made.covariance[at, at] == pytest.approx(variance, rel=1e-9)
        assert made.stddevs[place["means", "", age]] == pytest.approx(made.stddevs[at] / people, rel=1e-9)


@pytest.mark.parametrize(
    "releases",
    [
        [released("regions", "region", **NOISE), released("cells", "region, age", **DERIVED)],
        [released("regions", "region", **NOISE), released("ages", "age", **DERIVED)],
        [CELLS, released("squares", "region", "SUM(pay * pay)", **DERIVED)],
        [CELLS, released("one", "", where=" WHERE id = 7", **DERIVED)],
        [released("some", "age", where=" WHERE id <> 7", **NOISE), released("ages", "age", **DERIVED)],
        [{**CELLS, "withhold": [["n", "20"]]}, released("regions", "region", **DERIVED)],
        [
            released("high", "region", "COUNT(*) FILTER (WHERE pay > 50)", **NOISE),
            released("regions", "region", **DERIVED),
        ],
    ],
)
def test_what_does_not_follow_from_measured_numbers_is_refused_at_every_door(
    releases: list[dict[str, Any]], tmp_path: Path
) -> None:
    table(tmp_path)
    content = plan(tmp_path, release=releases, limits={"remaining_uncertainty": 0.1})
    content["data"]["public"] = ["region", "age", "id"]
    for door in (fit_task, sl.audit):
        with pytest.raises(InvalidPlan, match="derived numbers that follow from measured ones"):
            door(content)
    for other in (sl.design, sl.rehearse):  # which know no squares, and no counts above a level
        with pytest.raises(InvalidPlan):
            other(content)


def test_what_is_left_of_a_release_that_withholds_still_derives(tmp_path: Path) -> None:
    """The other regions follow, and the one with a withheld cell does if it was measured itself."""
    table(tmp_path)
    held = {**CELLS, "withhold": [["n", "20"]]}
    rest = released("regions", "region", where=" WHERE region <> 'n'", **DERIVED)
    assert sl.audit(plan(tmp_path, release=[held, rest])).releases[1].outputs == 3
    north = released("north", "", where=" WHERE region = 'n'", **NOISE)
    assert (
        sl.audit(plan(tmp_path, release=[held, north, released("regions", "region", **DERIVED)]))
        .releases[2]
        .outputs
        == 4
    )


def test_categories_and_complements_follow_from_public_sizes(tmp_path: Path) -> None:
    rows = table(tmp_path)
    measured = released(
        "a and b",
        "region",
        "COUNT(*) FILTER (WHERE state = 'a') AS a, COUNT(*) FILTER (WHERE state = 'b') AS b",
        **NOISE,
    )
    derived = released("c", "region", "COUNT(*) FILTER (WHERE state = 'c')", **DERIVED)
    content = plan(tmp_path, "state", release=[measured, derived])
    task = fit_task(content)
    made = fitted_tables(task, np.arange(8.0))
    values = dict(zip(task.all_names(), made.values.tolist(), strict=True))
    for region in "nsew":
        people = sum(row["region"] == region for row in rows)
        assert values["c", "", region] == pytest.approx(
            people - values["a and b", "a by region", region] - values["a and b", "b by region", region]
        )


def test_a_number_that_nobody_changes_is_known() -> None:
    rows = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))
    system = LeastSquares(rows=rows, variances=np.ones(3), partition=np.arange(3))
    assert system.fitted(np.array([3.0, 9.0, 4.0])).tolist() == [3.0, 0.0, 4.0]
    assert system.stddevs().tolist() == [1.0, 0.0, 1.0]
    weights, wrong = combinations(rows, np.array([True, False, True]), np.arange(3))
    assert not weights.nnz
    assert not wrong.size


@given(st.integers(0, 10**6))
def test_a_row_is_accepted_exactly_if_it_is_in_the_span(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 4, 3).tolist()
    chosen = [
        tuple(np.flatnonzero(generator.random(3) < 0.6).tolist()) for _ in range(generator.integers(2, 5))
    ]
    rows, owner = tables(generator, sizes, chosen, int(generator.integers(3, 30)))
    rows, weights = rows[generator.random(len(rows)) < 0.9], generator.integers(1, 3, rows.shape[1])
    rows = rows * weights
    owner = np.arange(len(rows)) if seed % 3 == 0 else np.zeros(0, dtype=np.intp)
    if not owner.size:  # partitions again, without the rows that are gone
        owner = np.array(
            [
                min(p for p in range(at + 1) if not any(rows[q] @ rows[at] for q in range(p, at)))
                for at in range(len(rows))
            ],
            dtype=np.intp,
        )
    measured = generator.random(len(rows)) < 0.7
    if not measured.any() or measured.all():
        return
    found, wrong = combinations(sparse.csr_array(rows), measured, owner)

    def rank(lines: FloatArray) -> int:
        return int(flint.fmpz_mat(lines.astype(int).tolist()).rank())

    own = rank(rows[measured])
    for at, row in enumerate(np.flatnonzero(~measured)):
        inside = rank(np.vstack([rows[measured], rows[row]])) == own
        assert inside == (row not in wrong)
        if inside:
            np.testing.assert_allclose(found[[at]] @ rows[measured], rows[[row]], atol=1e-9)


def test_too_many_numbers_to_decide_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_squares, "MOST_DENSE", 2)
    rows = sparse.csr_array(np.vstack([np.eye(5), np.ones((1, 5)) - np.eye(5)[:1], np.ones((1, 5))]))
    with pytest.raises(TooMuchWork, match="at most 2 numbers beside the largest table"):
        combinations(rows, np.arange(7) < 6, np.array([0, 0, 0, 0, 1, 2, 3]))


@pytest.mark.parametrize(
    ("releases", "publish", "more", "message"),
    [
        ([CELLS, released("d", "region", **DERIVED, **NOISE)], True, {}, "true without noise"),
        ([CELLS, released("d", "region", derived=True, times=2)], True, {}, "derived = true without noise"),
        ([CELLS, released("d", "region", **DERIVED)], False, {}, "got consistent = false"),
        ([released("d", "region", **DERIVED)], True, {}, "got no other release"),
        ([CELLS, released("d", "region", **DERIVED)], True, {"rules": {"k": 3}}, "without derived releases"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_derive_is_refused(
    releases: list[dict[str, Any]], publish: bool, more: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidPlan, match=message):
        sl.audit(plan(tmp_path, publish={"consistent": publish}, release=releases, **more))


def test_weights_that_are_no_whole_numbers_are_not_decided(tmp_path: Path) -> None:
    table(tmp_path)
    weighted = released("weighted", "region, age", "SUM(pay * (age / 7.0))", **NOISE)
    with pytest.raises(InvalidPlan, match="whole weights, got others in release 'weighted'"):
        fit_task(
            plan(tmp_path, release=[weighted, released("d", "region", "SUM(pay * (age / 7.0))", **DERIVED)])
        )


def test_the_ledger_takes_no_release_without_noise(tmp_path: Path) -> None:
    table(tmp_path)
    content = plan(tmp_path, release=[CELLS, released("all", "", **DERIVED)])
    (tmp_path / "head.toml").write_text(
        '[data]\nsource = "t.csv"\nrecord = "id"\nsecret = "pay"\nbounds = [0, 100]\n'
        "[limits]\nremaining_uncertainty = 0.1\n"
    )
    ledger = sl.Ledger.start(tmp_path / "ledger", head=tmp_path / "head.toml", values="one")
    with pytest.raises(InvalidPlan, match="derived = true beside measured releases"):
        ledger.check(content["release"][1])


def test_leaving_a_release_out_is_no_remedy_if_another_is_computed_from_it(tmp_path: Path) -> None:
    table(tmp_path)
    sharp = released("ages", "age", noise_stddev=0.5)
    for derived, remedies in (
        ([], {"ages", "regions"}),
        ([released("total", "", **DERIVED)], {"ages", "regions"}),
        ([released("by age", "age", "AVG(pay)", **DERIVED)], {"regions"}),
    ):
        releases = [released("regions", "region", **NOISE), sharp, *derived]
        audit = sl.audit(plan(tmp_path, release=releases, limits={"remaining_uncertainty": 0.9}), full=True)
        assert not audit.verdict.passed
        assert {
            one.release for one in audit.what_to_change if one.kind == "drop" and one.reaches_limit
        } == remedies


def test_no_secret_reaches_a_derived_table(tmp_path: Path) -> None:
    """Other secrets, the same groups and noisy numbers: the tables are the same."""
    content = plan(tmp_path, release=[CELLS, released("regions", "region", **DERIVED)])
    found = []
    for seed in (0, 1):
        table(tmp_path, secrets=seed)
        task = fit_task(content)
        lines = list(csv.reader(io.StringIO(noisy_file(task).decode())))
        assert {line[1] for line in lines[1:]} == {
            "cells"
        }  # a derived number needs no noise, and has no line
        made = fitted_tables(task, np.arange(float(len(lines) - 1)))
        assert "4 more numbers, computed from the fit." in made.lines()
        found.append(dict(made.files()))
    assert found[0] == found[1]
    assert sorted(found[0]) == ["cells.csv", "regions.csv"]
