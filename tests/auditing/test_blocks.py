"""Rows of one person in the same block may share a level of their own: a further end of the beliefs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.auditing import work
from sightline.auditing.result import AuditResult, BeliefReport
from sightline.errors import InvalidPlan, TooMuchWork
from sightline.report.first_screen import first_screen
from tests.auditing.no_false_pass.doors import ledger, records, streamed

HOMES, MONTHS, DAYS = 6, 4, 5
WIDTH, VARIANCE = 10.0, 100 / 12


def _table(seed: int = 0) -> pl.DataFrame:
    """Rows by home, month, day and time, with a public weight; some are missing, so that homes differ."""
    rng = np.random.default_rng(seed)
    home, month, day, time = (
        axis.ravel() for axis in np.meshgrid(*map(range, (HOMES, MONTHS, DAYS, 3)), indexing="ij")
    )
    table = pl.DataFrame(
        {
            "home": home,
            "month": month,
            "day": month * DAYS + day,
            "row": np.arange(home.size),
            "whole": np.zeros(home.size, dtype=np.int64),
            "w": rng.choice([-1.0, 1.0, 2.0], home.size),
            "x": rng.uniform(0, WIDTH, home.size),
        }
    )
    return table.filter(pl.Series((rng.random(home.size) < 0.8) | (time == 0)))


QUERIES = {
    "months": "SELECT month, SUM(x) FROM data GROUP BY month",
    "without": "SELECT month, SUM(x) FROM data WHERE home <> 4 GROUP BY month",
    "weighted": "SELECT day, SUM(x * w) FROM data WHERE home > 2 GROUP BY day",
}


def _plan(table: Any, *, blocks: tuple[str, ...], noise: float = 9.0, **data: Any) -> dict[str, Any]:
    about = {"record": "home", "secret": "x", "bounds": [0, WIDTH], "max_rows_per_record": 1000} | data
    return {
        "data": {"source": table, "blocks": list(blocks), **about},
        "limits": {"remaining_uncertainty": "20%", "accept": ["few_values", "homogeneous"]},
        "release": [{"name": name, "sql": sql, "noise_stddev": noise} for name, sql in QUERIES.items()],
    }


def _numbers(table: pl.DataFrame) -> np.ndarray[Any, Any]:
    """Published numbers × rows, by hand."""
    columns = {name: table[name].to_numpy() for name in table.columns}
    months = [columns["month"] == one for one in range(MONTHS)]
    lines = [own * 1.0 for own in months]
    lines += [own * (columns["home"] != 4) for own in months]
    days = np.unique(columns["day"])
    lines += [(columns["day"] == one) * (columns["home"] > 2) * columns["w"] for one in days]
    return np.array(lines)


def _left(table: pl.DataFrame, blocks: str, noise: float = 9.0) -> float:
    """What the best linear attack leaves of the best seen feature of any home's levels: a dense posterior."""
    A, home, block = _numbers(table), table["home"].to_numpy(), table[blocks].to_numpy()
    pairs, place = np.unique(np.stack([home, block]), axis=1, return_inverse=True)
    levels = np.zeros((len(A), pairs.shape[1]))
    for row, level in enumerate(place.ravel()):
        levels[:, level] += A[:, row]
    S = VARIANCE * levels @ levels.T + noise**2 * np.eye(len(A))
    seen = []
    for own in range(HOMES):
        W = levels[:, pairs[0] == own]
        seen.append(np.linalg.eigvalsh(VARIANCE * W.T @ np.linalg.solve(S, W)).max())
    return float(1 - max(seen))


def _under(result: AuditResult, name: str) -> BeliefReport:
    return next(one for one in result.beliefs if name in (one.block, one.name))


@pytest.mark.parametrize("seed", range(3))
def test_each_end_is_what_a_dense_posterior_leaves(seed: int) -> None:
    table = _table(seed)
    result = sl.audit(_plan(table, blocks=("day", "month")))
    columns = {"apart": "row", "level": "whole", "day": "day", "month": "month"}
    assert {one.block or one.name for one in result.beliefs} == set(columns)
    for name, column in columns.items():
        found = _under(result, name).least_remaining_uncertainty
        assert found is not None
        left = _left(table, column)
        assert found.upper == pytest.approx(left, rel=1e-7), name
        assert 0 < found.lower <= left
    ends = [one.least_remaining_uncertainty for one in result.beliefs]
    assert [one.lower for one in ends if one] == sorted(one.lower for one in ends if one)  # the worst first


def test_blocks_of_one_row_and_of_all_rows_are_the_two_ends() -> None:
    result = sl.audit(_plan(_table(), blocks=("row", "whole")))
    for block, name in (("row", "apart"), ("whole", "level")):
        one, other = (_under(result, each).least_remaining_uncertainty for each in (block, name))
        assert one is not None
        assert other is not None
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), rel=1e-9)


def test_blocks_are_the_rows_of_a_table_that_adds_them_up() -> None:
    """Twelve rows a month with bounds [0, 10], or one row a month with bounds [0, 120]: the same brackets."""
    table = _table().drop("w").with_columns(count=pl.lit(1))
    full = table.group_by("home", "month").agg(pl.col("x").sum() * (12 / pl.col("count").sum()))
    hours = pl.concat([full.with_columns(pl.col("x") / 12)] * 12)

    def plan(source: pl.DataFrame, width: float, **data: Any) -> dict[str, Any]:
        about = {"record": "home", "secret": "x", "bounds": [0, width], "max_rows_per_record": 1000} | data
        releases = [{"name": n, "sql": QUERIES[n], "noise_stddev": 30.0} for n in ("months", "without")]
        return {"data": {"source": source, **about}, "release": releases}

    fine = _under(sl.audit(plan(hours, 10.0, blocks=["month"])), "month").least_remaining_uncertainty
    coarse = _under(sl.audit(plan(full, 120.0)), "apart").least_remaining_uncertainty
    assert fine is not None
    assert coarse is not None
    assert (fine.lower, fine.upper) == pytest.approx((coarse.lower, coarse.upper), rel=1e-8)


def test_the_lower_end_holds_for_every_attack_on_two_blocks() -> None:
    """One home, two blocks of two rows, two numbers: the posterior covariance on a grid of both levels."""
    table = pl.DataFrame(
        {"home": [0, 0, 0, 0], "b": [0, 0, 1, 1], "w": [1.0, 1, 1, -3], "x": [0.2, 0.4, 0.5, 0.9]}
    )
    sums = ("SELECT SUM(x) FROM data", "SELECT SUM(x * w) FROM data")
    plan = {
        "data": {
            "source": table,
            "record": "home",
            "secret": "x",
            "bounds": [0, 1],
            "max_rows_per_record": 4,
            "blocks": ["b"],
        },
        "release": [{"name": f"r{place}", "sql": sql, "noise_stddev": 0.7} for place, sql in enumerate(sums)],
    }
    found = _under(sl.audit(plan), "b").least_remaining_uncertainty
    assert found is not None
    A = np.array([[2.0, 2.0], [2.0, -2.0]])
    grid = (np.arange(40) + 0.5) / 40
    u = np.stack(np.meshgrid(grid, grid, indexing="ij")).reshape(2, -1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    noise = 0.7 * np.stack(np.meshgrid(nodes, nodes, indexing="ij")).reshape(2, -1)
    chance = np.outer(weights, weights).ravel() / (2 * np.pi)
    covariance = np.zeros((2, 2))
    for truth in u.T[::7]:  # every seventh level: an average over them
        answers = (A @ truth)[:, None] + noise
        apart = answers[:, :, None] - (A @ u)[:, None, :]
        likely = np.exp(-0.5 * np.square(apart / 0.7).sum(axis=0))
        likely /= likely.sum(axis=1, keepdims=True)
        mean = likely @ u.T
        second = np.einsum("as,is,js->aij", likely, u, u)
        covariance += np.einsum("a,aij->ij", chance, second - mean[:, :, None] * mean[:, None, :])
    covariance /= len(u.T[::7])
    least = np.linalg.eigvalsh(covariance).min() * 12
    assert found.lower <= least + 1e-3
    assert least <= found.upper + 1e-3


def test_the_screen_says_which_end_decided() -> None:
    """The months of one home against each other: levels cancel, and rows apart are hidden; months are not."""
    sign = _table().with_columns(s=1 - 2 * (pl.col("month") % 2))
    plan = _plan(sign, blocks=("month",))
    release = {"name": "r", "sql": "SELECT SUM(x * s) FROM data WHERE home = 4", "noise_stddev": 45.0}
    plan |= {"release": [release], "limits": {"remaining_uncertainty": "50%"}}
    result = sl.audit(plan, names=True)
    assert [(one.name, one.block, one.holds) for one in result.beliefs] == [
        ("block", "month", False),
        ("apart", None, True),
        ("level", None, True),
    ]
    assert result.exposed[0].record == "4"
    assert result.exposed[0].rows == sign.filter(pl.col("home") == 4).height
    screen = " ".join(" ".join(line.plain for line in first_screen(result, 200)).split())
    assert "Fails if the rows of a home are alike within each month (" in screen
    assert "; holds if they have nothing in common and if they are alike." in screen
    passed = sl.audit(plan | {"release": [release | {"noise_stddev": 900.0}]})
    text = " ".join(" ".join(line.plain for line in first_screen(passed, 300)).split())
    assert "in common: one level, one for each month, or nothing" in text or passed.verdict.guaranteed


def test_what_is_proposed_holds_under_every_end() -> None:
    table = _table()
    plan = _plan(table, blocks=("month",), noise=4.0) | {"limits": {"remaining_uncertainty": "50%"}}
    proposed = sl.design(plan)
    assert proposed.passed
    factor = next(one for one in sl.audit(plan).reaching if one.text.startswith("multiply all noise by"))
    by = float(factor.text.split()[4].rstrip(":"))
    for column in ("row", "whole", "month"):
        assert _left(table, column, 4.0 * by) >= 0.5
        assert _left(table, column, 4.0) < 0.5 or column == "row"


def test_a_category_has_one_value_in_a_block() -> None:
    """Blocks of all rows are one category a person, as the level belief has it."""
    table = _table().with_columns(
        x=pl.col("row").map_elements(lambda i: "abc"[i % 3], return_dtype=pl.String)
    )
    data = {"record": "home", "secret": "x", "categories": ["a", "b", "c"], "max_rows_per_record": 1000}
    sql = "SELECT month, x, COUNT(*) FROM data GROUP BY month, x"
    plan = {
        "data": {"source": table, "blocks": ["whole", "row"], **data},
        "release": [{"name": "r", "sql": sql, "noise_stddev": 9.0}],
    }
    result = sl.audit(plan)
    for block, name in (("whole", "level"), ("row", "apart")):
        one, other = (_under(result, each).least_remaining_uncertainty for each in (block, name))
        assert one is not None
        assert other is not None
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), rel=1e-9)


def test_to_know_a_row_of_a_block_is_to_know_the_block() -> None:
    table = _table()
    plan = _plan(table, blocks=("month",)) | {"attacker": {"knows": ["month = 1 AND day = 5"]}}
    some = table.filter(pl.col("month") != 1)
    found = _under(sl.audit(plan), "month").least_remaining_uncertainty
    assert found is not None
    assert found.upper == pytest.approx(_left(some, "month"), rel=1e-7)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"values": "independent"}, "blocks = .columns., each once, for records with several rows"),
        ({"max_rows_per_record": 1}, "blocks = .columns., each once, for records with several rows"),
        ({"blocks": ["month", "Month"]}, "each once, .* got a column twice"),
        ({"blocks": ["home"]}, "blocks of public columns, got the record or the secret"),
        ({"blocks": ["X"]}, "blocks of public columns, got the record or the secret"),
        ({"blocks": ["week"]}, r"\[data\] blocks: .*week"),
    ],
)
def test_blocks_that_go_with_no_plan_are_refused(data: dict[str, Any], why: str) -> None:
    plan = _plan(_table(), blocks=("month",))
    with pytest.raises(InvalidPlan, match=why):
        sl.audit(plan | {"data": plan["data"] | data})


def test_a_record_carries_blocks_a_ledger_refuses_them_and_nothing_is_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _table().write_parquet(tmp_path / "t.parquet")
    plan = _plan(str(tmp_path / "t.parquet"), blocks=("month",))
    again = records(plan, tmp_path, monkeypatch)
    assert [one.block for one in again.beliefs] == [one.block for one in sl.audit(plan).beliefs]
    with pytest.raises(InvalidPlan, match=r"no \[data\] blocks"):
        ledger(plan, tmp_path, monkeypatch)
    # Nothing is streamed: signatures are audited in memory where they fit, and refused where they do not.
    assert streamed(plan, tmp_path, monkeypatch).beliefs == sl.audit(plan).beliefs
    monkeypatch.setattr(work.WorkLimits, "check_signatures", _too_many)
    with pytest.raises(TooMuchWork, match="because rows of a record may share a level in blocks"):
        streamed(plan, tmp_path, monkeypatch)


def _too_many(limits: work.WorkLimits, signatures: int, partitions: int) -> None:
    raise TooMuchWork("expected fewer signatures")
