"""From a folder of SQL to a verdict: one command, files in a plan, and the table's own name in FROM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sightline as sl
from sightline.auditing.query_files import GivenPlan, named_queries, statements
from sightline.cli import main
from sightline.errors import InvalidPlan
from sightline.examples.shipped import example_plan

ABOUT = ["--record", "home", "--secret", "evening_watts", "--bounds", "0", "2000"]
MONTHLY = "-- the mean of all; once a month\nSELECT AVG(homes.evening_watts) FROM homes;\n"
FEEDERS = "SELECT h.feeder, AVG(evening_watts) AS mean FROM homes AS h GROUP BY h.feeder"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("homes.csv").write_bytes((example_plan("microgrid").parent / "homes.csv").read_bytes())
    Path("queries").mkdir()
    Path("queries/monthly.sql").write_text(MONTHLY, encoding="utf-8")
    Path("queries/feeders.sql").write_text(FEEDERS, encoding="utf-8-sig")
    return tmp_path


def spelt_out(noise: float | None) -> sl.AuditResult:
    """The same plan, written out in full."""
    own = {} if noise is None else {"noise_stddev": noise}
    about = {"source": "homes.csv", "record": "home", "secret": "evening_watts", "bounds": [0, 2000]}
    return sl.audit(
        {
            "data": about,
            "privacy": {"delta": 1e-6, **({"epsilon": 1.0} if noise is None else {})},
            "limits": {"remaining_uncertainty": 0.5},
            "release": [
                {
                    "name": "feeders",
                    "sql": "SELECT feeder, AVG(evening_watts) FROM data GROUP BY feeder",
                    **own,
                },
                {"name": "monthly", "sql": "SELECT AVG(evening_watts) FROM data", **own},
            ],
        },
        full=True,
    )


def test_braces_in_a_text_are_no_template(folder: Path) -> None:
    sql = "SELECT AVG(evening_watts) FROM homes WHERE feeder <> '{{ x }}' -- {% not even here %}"
    Path("queries/braces.sql").write_text(sql, encoding="utf-8")
    assert main(["audit", "queries/braces.sql", "--table", "homes.csv", *ABOUT, "--epsilon", "1"]) == 0


@pytest.mark.thorough
def test_one_command_as_a_shell_runs_it(folder: Path) -> None:
    command = (
        f"{sys.executable} -m sightline.cli audit queries/*.sql --table homes.csv --record home "
        "--secret evening_watts --bounds 0 2000 --epsilon 1"
    )
    script = "import sys; from sightline.cli import main; sys.exit(main(sys.argv[1:]))"
    command = command.replace("-m sightline.cli", f'-c "{script}"')
    run = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, env={**os.environ}
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("PASSED  You can publish this.")
    assert "18 homes, 4 numbers" in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("noise", [None, 10.0])
def test_it_is_the_plan_that_one_would_write(
    folder: Path, noise: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--epsilon", "1"] if noise is None else ["--noise", "10"]
    expected = spelt_out(noise)
    status = 2 if expected.verdict.passed is False else 0
    queries = ["queries/feeders.sql", "queries/monthly.sql"]
    assert main(["audit", *queries, "--table", "homes.csv", *ABOUT, *given, "--json"]) == status
    found = sl.AuditResult.from_json(capsys.readouterr().out)
    same = {"verdict", "exposed", "distribution", "sharpest", "slack", "what_to_change", "cells"}
    assert found.model_dump(include=same) == expected.model_dump(include=same)
    # init writes the same plan, with the same words, or with the table first, wherever it is put
    for place, words in enumerate((["homes.csv", *queries], [*queries, "--table", "homes.csv"])):
        assert main(["init", *words, *ABOUT, *given, "--out", f"{place}.toml"]) == 0
    first, second = (Path(f"{place}.toml").read_text(encoding="utf-8") for place in (0, 1))
    assert first.replace("0.toml", "1.toml") == second
    assert capsys.readouterr().out.count("Check it, then") == 2
    Path("plans").mkdir()
    assert main(["init", "homes.csv", *queries, *ABOUT, *given, "--out", "plans/plan.toml"]) == 0
    assert "Check it, then" in capsys.readouterr().out
    assert main(["audit", "plans/plan.toml", "--json"]) == status
    again = sl.AuditResult.from_json(capsys.readouterr().out)
    assert again.model_dump(include=same) == expected.model_dump(include=same)


def test_init_lists_the_columns_that_the_queries_use_as_public(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Joined is a number with many values, which init by itself would not take for public."""
    rows = "".join(f"{place},{20 + place},{10 * place}\n" for place in range(60))
    Path("people.csv").write_text("who,age,pay\n" + rows, encoding="utf-8")
    sql = "SELECT FLOOR(Age / 10) AS who_is, AVG(pay) FROM people WHERE 'pay' <> 'x' GROUP BY 1 -- by who"
    Path("ages.sql").write_text(sql, encoding="utf-8")
    about = ["--record", "who", "--secret", "pay", "--bounds", "0", "600", "--epsilon", "1"]
    assert main(["init", "people.csv", "ages.sql", *about]) == 0
    assert 'public = ["age"] ' in Path("plan.toml").read_text(encoding="utf-8")
    assert main(["audit", "plan.toml"]) in (0, 2)
    assert "InvalidPlan" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_plan_with_another_budget(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(example_plan("microgrid"))
    assert main(["audit", plan, "--epsilon", "1"]) == 0
    assert "PASSED" in capsys.readouterr().out
    assert main(["audit", plan, "--noise", "10", "--json"]) == 2
    found = sl.AuditResult.from_json(capsys.readouterr().out)
    assert found.verdict == sl.audit(plan).verdict
    assert main(["audit", plan, "--noise", "10", "--epsilon", "1"]) == 1
    assert "got both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["queries/monthly.sql"], "expected --table FILE"),
        (["queries/monthly.sql", "--table", "homes.csv"], "expected --epsilon E, a budget"),
        (
            ["queries/monthly.sql", "--table", "two.csv", "--noise", "1"],
            "expected --secret COLUMN, got none",
        ),
        (
            ["queries/monthly.sql", "--table", "homes.csv", "--noise", "1", "--secret", "evening_watts"],
            "expected --bounds LOW HIGH (or --categories 0,1), what 'evening_watts' can be",
        ),
        (
            ["queries/monthly.sql", "--table", "homes.csv", "--noise", "1", "--secret", "feeder"],
            "expected --categories A,B",
        ),
        (
            ["queries/monthly.sql", "--table", "wide.csv", "--noise", "1", "--secret", "kwh"],
            "got 'kwh', and 24 columns of numbers that may hold it; sightline init",
        ),
        (["queries/monthly.sql", "plan.toml"], "one plan, or files of SQL, got both"),
        (["plan.toml", "other.toml"], "got 2 files"),
        (["plan.toml", "--table", "homes.csv"], "got a plan, which says them itself"),
        (["queries", "--table", "homes.csv"], "got a folder; write queries/*.sql"),
        (
            ["queries/none.sql", "--table", "homes.csv", "--noise", "1", *ABOUT],
            "of SQL in 'none.sql', got",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"H{i},{i * 7},{i * 11}\n" for i in range(30))
    Path("two.csv").write_text(f"home,gas,heat\n{rows}", encoding="utf-8")
    wide = [",".join(f"h{hour}" for hour in range(24)), *(",".join("1234" * 6) for _ in range(9))]
    Path("wide.csv").write_text("\n".join(wide), encoding="utf-8")
    assert main(["audit", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_the_columns_that_a_plan_takes_as_public_may_be_given_beside_it(folder: Path) -> None:
    """A sum of a column asks for it, and says how it is given."""
    rows = "".join(f"H{i},{i % 4},{i % 30},{i % 2}\n" for i in range(60))
    Path("owned.csv").write_text(f"home,feeder,age,ill\n{rows}", encoding="utf-8")
    Path("owned.toml").write_text(
        '[data]\nsource = "owned.csv"\nrecord = "home"\nsecret = "ill"\nkind = "boolean"\n[[release]]\n'
        'name = "sums"\nnoise_stddev = 3.0\nsql = "SELECT feeder, SUM(age) AS ages, '
        'COUNT(*) FILTER (WHERE ill = 1) AS n FROM data GROUP BY feeder"\n',
        encoding="utf-8",
    )
    assert main(["audit", "owned.toml"]) == 1
    assert main(["audit", "owned.toml", "--public", "age,feeder"]) == 0


def test_a_file_of_several_queries_is_several_releases(folder: Path) -> None:
    Path("two.sql").write_text("SELECT 'a;b' AS x; -- one; comment\n\nSELECT 2;\n;", encoding="utf-8")
    assert [one["name"] for one in named_queries(["two.sql", "queries/monthly.sql"])] == [
        "two 1",
        "two 2",
        "monthly",
    ]
    assert statements(Path("two.sql"))[0] == "SELECT 'a;b' AS x"
    with pytest.raises(InvalidPlan, match=r"one SELECT in 'two\.sql', got 2 statements"):
        GivenPlan(table="homes.csv", secret="evening_watts").starter(["two.sql"], out=Path("plan.toml"))


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ({"sql": "none.sql"}, "release 'r': expected a file of SQL in 'none.sql', got"),
        ({"file": "queries/monthly.sql", "sql": "SELECT 1"}, 'no longer have; write sql = "query.sql"'),
        ({"sql": "https://x/y.sql"}, "or the name of a file with it, got an address"),
        ({"sql": "two.sql"}, "one SELECT in 'two.sql', got 2 statements"),
        ({"sql": "empty.sql"}, "a SELECT in 'empty.sql', got nothing"),
        ({"sql": "bytes.sql"}, "expected a file of SQL in 'bytes.sql' in UTF-8"),
        ({"sql": "large.sql"}, "at most 4,000,000 bytes"),
        ({"sql": "folder.sql"}, "is a directory"),
        ({}, "release 'r' sql: expected a value"),
        ({"sql": "SELECT AVG(evening_watts) FROM {{ ref('homes') }}"}, "a template, .*init --from-dbt"),
        ({"sql": "SELECT AVG(evening_watts) FROM houses"}, "the plan's table is called data or homes;"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    folder: Path, release: dict[str, object], message: str
) -> None:
    Path("folder.sql").mkdir()
    Path("two.sql").write_text("SELECT 1; SELECT 2", encoding="utf-8")
    Path("empty.sql").write_text("-- nothing;\n;", encoding="utf-8")
    Path("bytes.sql").write_bytes(b"SELECT '\xff'")
    Path("large.sql").write_text(" " * 4_000_001, encoding="utf-8")
    about = {"source": "homes.csv", "record": "home", "secret": "evening_watts", "bounds": [0, 2000]}
    with pytest.raises(InvalidPlan, match=message.replace("(", r"\(")):
        sl.audit({"data": about, "release": [{"name": "r", "noise_stddev": 1.0, **release}]})


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT feeder, AVG(evening_watts) FROM homes GROUP BY feeder",
        "SELECT homes.feeder, AVG(homes.evening_watts) FROM homes GROUP BY homes.feeder",
        'SELECT h.feeder, AVG(h.evening_watts) FROM "homes" h GROUP BY 1',
        "SELECT feeder, AVG(evening_watts) FROM 'homes.csv' GROUP BY feeder",
        "WITH f AS (SELECT * FROM homes) SELECT feeder, AVG(evening_watts) FROM f GROUP BY feeder",
        "SELECT feeder, AVG(evening_watts) FROM HOMES GROUP BY feeder ORDER BY feeder",
    ],
)
def test_the_tables_own_name_is_data(folder: Path, sql: str) -> None:
    about = {"source": "homes.csv", "record": "home", "secret": "evening_watts", "bounds": [0, 2000]}

    def audited(query: str) -> sl.AuditResult:
        return sl.audit({"data": about, "release": [{"name": "r", "sql": query, "noise_stddev": 10.0}]})

    plain = audited("SELECT feeder, AVG(evening_watts) FROM data GROUP BY feeder")
    assert audited(sql).distribution == plain.distribution
    assert audited(sql).cells == plain.cells


def test_a_number_of_two_categories_is_a_yes_or_no(folder: Path) -> None:
    rows = "".join(f"H{i},{i % 2}\n" for i in range(30))
    Path("two.csv").write_text(f"home,away\n{rows}", encoding="utf-8")
    Path("away.sql").write_text("SELECT COUNT(*) FROM two WHERE away = 1", encoding="utf-8")
    given = {"table": "two.csv", "record": "home", "secret": "away", "amounts": {"noise": 9.0}}
    found = sl.audit(GivenPlan(**given, categories=("1", "0")).of_queries(["away.sql"]))
    about = {"source": "two.csv", "record": "home", "secret": "away", "kind": "boolean"}
    release = {"name": "away", "sql": "SELECT COUNT(*) FROM data WHERE away = 1", "noise_stddev": 9.0}
    again = sl.audit({"data": about, "release": [release], "limits": {"remaining_uncertainty": 0.5}})
    assert found.kind == again.kind == "boolean"
    assert found.distribution == again.distribution


def test_another_table_of_that_name_is_not_data(folder: Path) -> None:
    about = {"source": "homes.csv", "record": "home", "secret": "evening_watts", "bounds": [0, 2000]}
    for data, sql in (
        (about, "SELECT AVG(evening_watts) FROM flats"),
        (about, "SELECT AVG(evening_watts) FROM other.homes"),
        (about, "WITH homes AS (SELECT 1 AS evening_watts) SELECT AVG(evening_watts) FROM homes"),
        ({**about, "tables": {"homes": "homes.csv"}}, "SELECT AVG(evening_watts) FROM homes"),
    ):
        with pytest.raises(InvalidPlan):
            sl.audit({"data": data, "release": [{"name": "r", "sql": sql, "noise_stddev": 10.0}]})


def test_where_rows_are_made_of_it_the_name_is_that_of_the_source(folder: Path) -> None:
    about = {"source": "homes.csv", "record": "home", "secret": "evening_watts", "bounds": [0, 2000]}
    made = {**about, "sql": "SELECT home, feeder, LEAST(evening_watts, 2000) AS evening_watts FROM source"}
    whole = (
        "SELECT feeder, AVG(evening_watts) FROM "
        "(SELECT home, feeder, LEAST(evening_watts, 2000) AS evening_watts FROM homes) GROUP BY feeder"
    )
    result = sl.audit({"data": made, "release": [{"name": "r", "sql": whole, "noise_stddev": 10.0}]})
    assert result.cells == 3
    raw = "SELECT feeder, AVG(evening_watts) FROM homes GROUP BY feeder"
    # It would read rows that [data] sql does not make.
    with pytest.raises(InvalidPlan, match=r"FROM data, got .*; data are the rows that \[data\] sql makes"):
        sl.audit({"data": made, "release": [{"name": "r", "sql": raw, "noise_stddev": 10.0}]})
