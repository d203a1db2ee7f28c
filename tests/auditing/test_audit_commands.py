"""The audit's commands as their user meets them: exit codes, JSON, names, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

import sightline as sl
from sightline.auditing.reading import plan_schema
from sightline.cli import main
from sightline.errors import InvalidInput, InvalidPlan
from sightline.examples.shipped import example_plan
from sightline.report import streams

MICROGRID = str(example_plan("microgrid"))
SURVEY = str(example_plan("health_survey"))

Captured = pytest.CaptureFixture[str]

TABLE = "home,feeder,ill,watts\nA,n,true,1\nB,n,false,2\nC,s,true,3\nD,s,false,4\n"


def plan(
    folder: Path, *releases: str, table: str = TABLE, data: str = "bounds = [0, 10]", source: str = "t.csv"
) -> str:
    """A plan in a folder, with a table beside it."""
    if source == "t.csv":
        (folder / source).write_text(table, encoding="utf-8")
    sections = [
        f'[data]\nsource = "{source}"\nrecord = "home"\nsecret = "watts"\n{data}\n',
        "[privacy]\nepsilon = 1.0\ndelta = 1e-5\n",
    ]
    for number, sql in enumerate(releases or ("SELECT AVG(watts) FROM data",)):
        sections.append(f"[[release]]\nname = 'release {number}'\nsql = '''{sql}'''\n")
    path = folder / "plan.toml"
    path.write_text("\n".join(sections), encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_a_limit_that_fails_exits_with_2(capsys: Captured) -> None:
    assert main(["audit", MICROGRID]) == 2
    assert "BELOW THE LIMIT" in capsys.readouterr().out
    assert main(["audit", MICROGRID, "--limit", "4%"]) == 0
    assert "PASSED" in capsys.readouterr().out


@pytest.mark.thorough
def test_so_it_does_for_a_survey() -> None:
    assert main(["audit", SURVEY, "--limit", "0.94"]) == 2


@pytest.mark.slow
def test_without_a_limit_there_is_nothing_to_fail(tmp_path: Path, capsys: Captured) -> None:
    assert main(["audit", plan(tmp_path)]) == 0
    assert "VERDICT" in capsys.readouterr().out


@pytest.mark.slow
def test_json_is_the_result(capsys: Captured) -> None:
    assert main(["audit", MICROGRID, "--json", "--top", "3"]) == 2
    result = sl.AuditResult.from_json(capsys.readouterr().out)
    assert result == sl.audit(MICROGRID, top=3, full=True)
    assert len(result.exposed) == 3


@pytest.mark.slow
def test_names_only_when_asked(capsys: Captured) -> None:
    main(["audit", MICROGRID])
    assert "H13" not in capsys.readouterr().out
    main(["audit", MICROGRID, "--names"])
    assert "H13" in capsys.readouterr().out


@pytest.mark.slow
def test_the_demo_audits_the_micro_grid_and_says_where_things_are(capsys: Captured) -> None:
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert '13 × "March" − 12 × "January"' in printed
    assert "\x1b" not in printed
    assert str(example_plan("microgrid").parent) in printed
    assert main(["demo", "--json"]) == 0
    assert sl.AuditResult.from_json(capsys.readouterr().out).identifiable_records == 2


@pytest.mark.slow
def test_explain_gives_the_recipe_step_by_step(capsys: Captured) -> None:
    assert main(["explain", MICROGRID, "--record", "H16"]) == 0
    printed = capsys.readouterr().out
    assert '1. add 16 × "May"' in printed
    assert '2. subtract 15 × "April"' in printed
    assert "with an error of 219.3" in printed
    assert main(["explain", MICROGRID, "H16"]) == 0
    assert capsys.readouterr().out == printed
    assert main(["explain", MICROGRID]) == 1
    assert "audit --names names the most exposed" in capsys.readouterr().err
    assert main(["explain", MICROGRID, "--record", "H13", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["shortest"]["text"] == '13 × "March" − 12 × "January"'
    assert main(["explain", MICROGRID, "--record", "H02"]) == 0
    assert "it is not identifiable" in capsys.readouterr().out


@pytest.mark.slow
def test_explain_a_stranger_or_a_known_record(tmp_path: Path, capsys: Captured) -> None:
    assert main(["explain", MICROGRID, "--record", "H99"]) == 1
    assert "expected a home that has a row with a secret, got 'H99'" in capsys.readouterr().err
    path = Path(
        plan(tmp_path, "SELECT AVG(watts) FROM data", "SELECT AVG(watts) FROM data WHERE home <> 'A'")
    )
    path.write_text(path.read_text() + "\n[attacker]\nknows = [\"home = 'A'\"]\n")
    assert main(["explain", str(path), "--record", "A"]) == 0
    assert "the attacker knows it already" in capsys.readouterr().out


@pytest.mark.slow
def test_explain_a_record_without_a_secret(tmp_path: Path, capsys: Captured) -> None:
    path = plan(tmp_path, table="home,watts\nA,1\nB,\nC,3\n")
    assert main(["explain", path, "--record", "B"]) == 1
    assert "got 'B', whose rows have none; nothing that is published depends on it" in capsys.readouterr().err
    assert main(["explain", path, "--record", "Z"]) == 1
    assert "got 'Z', which no row is about; check its spelling" in capsys.readouterr().err


@pytest.mark.slow
def test_a_wrong_column_is_a_fault_of_the_data_section(tmp_path: Path, capsys: Captured) -> None:
    path = Path(plan(tmp_path))
    good = path.read_text()
    for change, words in {
        ("record", "home", "hom"): '[data] record: expected a column of the table, got "hom"',
        ("secret", "watts", "wats"): '[data] secret: expected a column of the table, got "wats"',
        ("secret", "watts", "HOME"): "[data] secret: expected a secret that is not the record key",
        ("secret", "watts", "feeder"): '[data] secret: expected a column of numbers, got "feeder", a text '
        "column: 4 of its 4 values are not numbers; repair them, or declare categories",
    }.items():
        field, old, new = change
        path.write_text(good.replace(f'{field} = "{old}"', f'{field} = "{new}"'))
        assert main(["check", str(path)]) == 1
        assert capsys.readouterr().err.startswith(f"InvalidPlan: {words}")


def test_one_value_that_is_no_number_is_counted_and_not_told(tmp_path: Path, capsys: Captured) -> None:
    assert main(["audit", plan(tmp_path, table="home,watts\nA,1\nB,n/a\nC,\n")]) == 1
    said = capsys.readouterr().err
    assert 'got "watts", a text column: 1 of its 2 values is not a number;' in said
    assert "n/a" not in said


@pytest.mark.slow
def test_check_reads_the_plan_and_the_columns(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", MICROGRID]) == 0
    assert "a good plan, with 8 releases\n" in capsys.readouterr().out
    assert main(["check", plan(tmp_path, "SELECT AVG(kwh) FROM data")]) == 1
    assert "InvalidPlan: release 'release 0': expected" in capsys.readouterr().err
    assert main(["check"]) == 1
    assert "expected a plan file, got none" in capsys.readouterr().err


def test_check_of_a_folder_checks_its_plans(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert main(["check", str(tmp_path)]) == 1
    assert "expected a folder with a plan, a .toml file with [data]" in capsys.readouterr().err
    good = Path(plan(tmp_path))
    (tmp_path / "worse.toml").write_text(good.read_text().replace("watts", "wats"))
    assert main(["check", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{good}: a good plan, with 1 release\n"
    skipped, refused = printed.err.splitlines()
    assert skipped == f"{tmp_path / 'pyproject.toml'}: skipped, it has no [data] section"
    assert refused.startswith(f"{tmp_path / 'worse.toml'}: InvalidPlan: ")


def test_check_of_a_folder_says_what_it_does_not_check(tmp_path: Path, capsys: Captured) -> None:
    good = Path(plan(tmp_path))
    (tmp_path / "typo.toml").write_text(good.read_text().replace("[data]", "[dat]"))
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert main(["check", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{good}: a good plan, with 1 release\n"
    assert printed.err.splitlines() == [
        f"{tmp_path / name}: skipped, it has no [data] section" for name in ("pyproject.toml", "typo.toml")
    ]
    (tmp_path / "bad.toml").write_text("[data\nsource = ")
    (tmp_path / "bytes.toml").write_bytes(b"\xff[data]")
    assert main(["check", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{good}: a good plan, with 1 release\n"
    refused = [line for line in printed.err.splitlines() if "skipped" not in line]
    for name, line in zip(("bad.toml", "bytes.toml"), refused, strict=True):
        assert line.startswith(f"{tmp_path / name}: InvalidPlan: ")
    assert main(["check", str(tmp_path), "--format", "junit"]) == 1
    assert capsys.readouterr().out.count("<error ") == 2


def test_check_prints_the_schema(capsys: Captured) -> None:
    assert main(["check", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == plan_schema()


# ------------------------------------------------------------------ whatever is wrong is one line


MISTAKES = {
    "missing table": ({"source": "none.csv"}, "none.csv"),
    "a directory": ({"source": "."}, ""),
    "two statements": ({"sql": "SELECT AVG(watts) FROM data; DROP TABLE data"}, "one SELECT"),
    "DDL": ({"sql": "DROP TABLE data"}, "SELECT"),
    "not SQL": ({"sql": "SELEC"}, ""),
    "secret in GROUP BY": ({"sql": "SELECT watts, AVG(watts) FROM data GROUP BY watts"}, ""),
    "a random function": ({"sql": "SELECT AVG(watts) FROM data WHERE random() < 0.5"}, ""),
    "an unknown column": ({"sql": "SELECT AVG(wats) FROM data"}, "watts"),
    "a maximum": ({"sql": "SELECT MAX(watts) FROM data"}, "MAX"),
    "a huge query": (
        {"sql": "SELECT AVG(watts) FROM data WHERE " + "home = 'A' OR " * 80_000 + "home = 'B'"},
        "",
    ),
    "an empty table": ({"table": "home,watts\n"}, "got an empty table"),
    "too many rows": ({"table": TABLE + "A,n,true,7\n"}, "at most 1 row per record"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_1(case: str, tmp_path: Path, capsys: Captured) -> None:
    changes, words = MISTAKES[case]
    sql = changes.get("sql", "SELECT AVG(watts) FROM data")
    options = {k: v for k, v in changes.items() if k != "sql"}
    assert main(["audit", plan(tmp_path, sql, **options)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert words in captured.err
    assert len(captured.err) < 600


def test_a_truncated_parquet_file(tmp_path: Path, capsys: Captured) -> None:
    whole = tmp_path / "whole.parquet"
    duckdb.execute(f"COPY (SELECT 'A' AS home, 1.0 AS watts) TO '{whole}'")
    (tmp_path / "cut.parquet").write_bytes(whole.read_bytes()[:-20])
    assert main(["audit", plan(tmp_path, source="cut.parquet")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "records", "dropped", "clipped"),
    [
        ("home,watts\nA,1\nB,\n,3\n", 1, 2, 0),
        ("home,watts\nA,1\nB,nan\nC,3\n", 2, 1, 0),
        ("home,watts\nA,-5\nB,50\nC,3\n", 3, 0, 2),
        ("home,watts\nA,1\n", 1, 0, 0),
    ],
    ids=["NULLs", "NaN", "outside the bounds", "one record"],
)
def test_odd_tables_have_a_result(
    table: str, records: int, dropped: int, clipped: int, tmp_path: Path
) -> None:
    types = "home VARCHAR, watts DOUBLE"
    rows = [line.split(",") for line in table.splitlines()[1:]]
    duckdb.execute(f"CREATE OR REPLACE TABLE odd ({types})")
    for home, watts in rows:
        duckdb.execute("INSERT INTO odd VALUES (?, ?)", [home or None, float(watts) if watts else None])
    duckdb.execute(f"COPY odd TO '{tmp_path / 'odd.parquet'}'")
    result = sl.audit(plan(tmp_path, source="odd.parquet"))
    assert (result.records, result.dropped, result.clipped) == (records, dropped, clipped)
    assert result.identifiable_records == (1 if records == 1 else 0)
    assert main(["audit", str(tmp_path / "plan.toml")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["WHERE FALSE", ""], ids=["no rows", "no secrets"])
def test_a_table_without_secrets_is_refused(rows: str, tmp_path: Path, capsys: Captured) -> None:
    table = tmp_path / "odd.parquet"
    duckdb.execute(f"COPY (SELECT 'A' AS home, CAST(NULL AS DOUBLE) AS watts {rows}) TO '{table}'")
    assert main(["audit", plan(tmp_path, source="odd.parquet")]) == 1
    assert capsys.readouterr().err.startswith("InvalidPlan: expected rows ")


def test_a_group_of_one_and_a_group_of_none(tmp_path: Path) -> None:
    path = plan(
        tmp_path,
        "SELECT AVG(watts) FROM data WHERE home = 'A'",
        "SELECT AVG(watts) FROM data WHERE home = 'Z'",
    )
    with pytest.raises(InvalidPlan, match=r"release 'release 1': expected rows that meet its conditions"):
        sl.audit(path)


@pytest.mark.slow
def test_quoted_and_foreign_identifiers(tmp_path: Path) -> None:
    table = 'home,"größe der ""Wohnung""",watts\nA,klein,1\nB,groß,2\nC,groß,3\n'
    sql = 'SELECT "größe der ""Wohnung""", AVG("WATTS") FROM data GROUP BY 1'
    result = sl.audit(plan(tmp_path, sql, table=table))
    assert result.identifiable_records == 1
    assert {one.recipe.text for one in result.exposed if one.recipe is not None} == {
        '1 × "release 0: klein"',
        '2 × "release 0: groß"',
    }


@pytest.mark.slow
def test_boolean_and_categorical_secrets_from_sql(tmp_path: Path) -> None:
    ill = plan(
        tmp_path, "SELECT feeder, COUNT(*) FROM data WHERE ill GROUP BY feeder", data='kind = "boolean"'
    )
    text = Path(ill).read_text().replace('secret = "watts"', 'secret = "ill"')
    Path(ill).write_text(text)
    assert sl.audit(ill).kind == "boolean"
    table = TABLE.replace("true", "flu").replace("false", "well")
    sick = plan(
        tmp_path,
        "SELECT feeder, ill, COUNT(*) FROM data GROUP BY feeder, ill",
        table=table,
        data='categories = ["cold", "flu", "well"]',
    )
    Path(sick).write_text(Path(sick).read_text().replace('secret = "watts"', 'secret = "ill"'))
    result = sl.audit(sick)
    assert result.kind == "category"
    assert result.budget.releases == 1, "a histogram is one release"


@pytest.mark.slow
def test_moments_and_thresholds_from_sql(tmp_path: Path) -> None:
    path = plan(
        tmp_path,
        "SELECT AVG(watts), AVG(POWER(watts, 2)), AVG(watts * watts * watts), AVG(POWER(watts, 4)) FROM data",
        "SELECT COUNT(*) FROM data WHERE watts > 2.2",
        data="bounds = [0, 10]",
    )
    result = sl.audit(path)
    assert result.local is not None
    assert result.local.fixed_group
    assert result.local.identifiable == 4
    assert result.budget.releases == 5


@pytest.mark.slow
def test_several_rows_a_record(tmp_path: Path) -> None:
    table = "home,hour,watts\nA,1,1\nA,2,2\nB,1,3\nB,2,4\n"
    path = plan(
        tmp_path,
        "SELECT home, hour, AVG(watts) FROM data WHERE home = 'A' GROUP BY home, hour",
        table=table,
        data='bounds = [0, 10]\nmax_rows_per_record = 2\nvalues = "independent"',
    )
    result = sl.audit(path, names=True)
    assert result.rows == 4
    assert result.records == 2
    assert result.identifiable_records == 1, "two rows of one record"
    assert [(one.record, one.feature, one.rows) for one in result.exposed] == [("A", "row", 2)]


@pytest.mark.slow
def test_a_quick_run_says_nothing_about_progress(capsys: Captured) -> None:
    """Quick is what ends before the patience does; in the tests it never ends."""
    assert main(["audit", MICROGRID]) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_run_that_outlasts_the_patience_says_what_is_under_way(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PATIENCE", 0.0)
    assert main(["audit", MICROGRID]) == 2
    assert " … " in capsys.readouterr().err


def test_progress_must_be_a_function() -> None:
    for call in (
        lambda: sl.audit(MICROGRID, progress=True),
        lambda: sl.explain("", record="", progress=True),
    ):
        with pytest.raises(InvalidInput, match=r"progress to be a function of a stage .* got True"):
            call()


def test_top_must_be_a_number_of_records(capsys: Captured) -> None:
    assert main(["audit", MICROGRID, "--top", "0"]) == 1
    assert "expected top >= 1, got 0" in capsys.readouterr().err


def test_the_function_is_not_hidden_by_its_room() -> None:
    import sightline.auditing.plan  # noqa: F401

    assert callable(sl.audit)
