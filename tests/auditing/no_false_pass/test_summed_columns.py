"""A column that is added up or averaged may tell the secret: it is public only if the plan says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.cli import main
from sightline.errors import InvalidPlan

SUMMED = "SELECT cell, {} FROM data GROUP BY cell"


def _salaries() -> pl.DataFrame:
    """Salaries and what else is paid, nearly the same; five people are alone in their cell."""
    rng = np.random.default_rng(4)
    salary = rng.uniform(20_000, 180_000, 60).round(2)
    cell = [f"alone {i}" if i < 5 else f"c{i % 5}" for i in range(60)]
    total = salary * rng.uniform(1.05, 1.35, 60)
    return pl.DataFrame(
        {"who": range(60), "cell": cell, "salary": salary, "total_comp": total, "age": [40] * 60}
    )


def _plan(*sql: str, **data: object) -> dict[str, object]:
    about = {"source": _salaries(), "record": "who", "secret": "salary", "bounds": [0, 200_000]}
    noisy = {"name": "salaries", "sql": SUMMED.format("SUM(salary)"), "noise_stddev": 500_000.0}
    return {
        "data": about | data,
        "limits": {"remaining_uncertainty": "50%"},
        "release": [
            noisy,
            *({"name": f"r{i}", "sql": one, "noise_stddev": 1.0} for i, one in enumerate(sql)),
        ],
    }


def test_the_attack_that_passed() -> None:
    """Total pay over 1.2 is the salary of whoever is alone in a cell, to a few per cent of what it may be."""
    table = _salaries().filter(pl.col("cell").str.starts_with("alone"))
    error = table["total_comp"] / 1.2 - table["salary"]
    assert float((error**2).mean()) < 0.05 * 200_000**2 / 12


@pytest.mark.parametrize(
    "aggregate",
    [
        "AVG(total_comp)",
        "SUM(total_comp)",
        "MAX(total_comp)",
        "SUM(total_comp) / COUNT(*)",
        "AVG(total_comp) FILTER (WHERE age > 30)",
        "SUM(salary), AVG(1.2 * total_comp + age)",
        "SUM(salary) + SUM(total_comp)",
        "AVG(salary) - MAX(total_comp)",
        "SUM(salary) / SUM(total_comp)",
        "SUM(salary + total_comp)",
        "STDDEV(total_comp)",
    ],
)
def test_what_is_summed_is_declared_or_refused(aggregate: str) -> None:
    with pytest.raises(
        InvalidPlan, match=r"sums and means of columns that \[data\] public lists, got .*\[\[secret\]\]"
    ):
        sl.audit(_plan(SUMMED.format(aggregate)))
    declared = sl.audit(_plan(SUMMED.format(aggregate), public=["cell", "total_comp", "age"]))
    assert declared.cells >= 10


@pytest.mark.parametrize(
    "aggregate",
    [
        "SUM(salary)",
        "COUNT(*)",
        "COUNT(DISTINCT who)",
        "SUM(salary * age) / SUM(age)",
        "SUM(CASE WHEN age > 30 THEN 1 ELSE 0 END)",
    ],
)
def test_counts_and_weights_need_no_declaration(aggregate: str) -> None:
    assert sl.audit(_plan(SUMMED.format(aggregate))).cells >= 10


def test_the_command_line_declares_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _salaries().write_csv(tmp_path / "t.csv")
    (tmp_path / "pay.sql").write_text(SUMMED.format("SUM(salary), AVG(total_comp)"))
    options = [
        "audit",
        str(tmp_path / "pay.sql"),
        "--table",
        str(tmp_path / "t.csv"),
        "--record",
        "who",
        "--secret",
    ]
    options += ["salary", "--bounds", "0", "200000", "--noise", "500000"]
    assert main(options) == 1
    assert "--public on the command line" in capsys.readouterr().err
    assert main([*options, "--public", "cell, total_comp"]) in (0, 2)
