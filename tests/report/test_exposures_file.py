"""The most exposed as CSV: the result's numbers, and no formula."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

import sightline as sl
from sightline.cli import main
from sightline.errors import InvalidInput
from sightline.examples.shipped import example_plan
from sightline.report.audit_outputs import write_exposures
from tests.report.report_cases import HOSTILE, microgrid, with_names

FORMULAS = ["=1+2", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "＝1", "|calc", '=HYPERLINK("http://a.b")', "\n=1"]
Captured = pytest.CaptureFixture[str]


def csv_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))


@pytest.mark.slow
def test_csv_has_the_numbers_of_the_result(tmp_path: Path) -> None:
    result, path = microgrid(), tmp_path / "out.csv"
    write_exposures(result, path)
    rows = csv_rows(path)
    assert len(rows) == len(result.exposed)
    for row, one in zip(rows, result.exposed, strict=True):
        left = one.remaining_uncertainty
        assert left is not None
        assert (row["who"], int(row["size"])) == (one.record, one.size)
        assert float(row["remaining_lower"]) == left.lower
        assert float(row["remaining_stddev_upper"]) == math.sqrt(left.upper)
        assert row["error"] == ("" if one.rmse is None else repr(one.rmse))
        assert row["releases"] == "; ".join(one.releases)
        assert (row["identifiable"] == "yes") == one.identifiable
    assert path.stat().st_mode & 0o077 == 0  # it has keys
    with pytest.raises(InvalidInput, match="--force"):
        write_exposures(result, path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FORMULAS, *HOSTILE.values()])
def test_no_name_becomes_a_formula(name: str, tmp_path: Path) -> None:
    result = with_names(microgrid(), name)
    write_exposures(result, tmp_path / "out.csv")
    texts = [text for row in csv_rows(tmp_path / "out.csv") for text in row.values()]
    assert not [text for text in texts if text.lstrip()[:1] in tuple("=+-@＝＋－＠|\t\r\n") and text]


def test_a_number_that_is_not_finite_is_a_text(tmp_path: Path) -> None:
    result = sl.AuditResult.from_json((Path(__file__).parent / "snapshot" / "result.json").read_bytes())
    first = result.exposed[0].model_copy(update={"rmse": math.inf})
    write_exposures(result.model_copy(update={"exposed": (first,)}), tmp_path / "out.csv")
    assert csv_rows(tmp_path / "out.csv")[0]["error"] == "Infinity"


@pytest.mark.slow
def test_the_command_says_how_many_there_are(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "out.csv"
    plan = str(example_plan("microgrid"))
    assert main(["audit", plan, "--top", "2", "--publishable", "--exposures", str(path)]) == 2
    assert f"Wrote {path}: 2 of 9 exposed; --top lists more" in capsys.readouterr().err
    assert [row["who"] for row in csv_rows(path)] == ["no. 1", "no. 2"]
    assert path.stat().st_mode & 0o044


def test_another_file_is_refused_before_the_audit(tmp_path: Path, capsys: Captured) -> None:
    assert main(["audit", "no such plan", "--exposures", str(tmp_path / "out.ods")]) == 1
    assert "expected a file that ends in .csv, got 'out.ods'" in capsys.readouterr().err
