"""``sightline init`` guesses well or not at all, and always says which."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import duckdb
import pytest

import sightline as sl
from sightline.auditing.reading import SCHEMA_ID, plan_schema
from sightline.auditing.starter import starter_plan
from sightline.cli import main

Captured = pytest.CaptureFixture[str]
TABLE = "home,feeder,watts\nA,n,1\nB,n,2\nC,s,3\nD,s,4\n"


def filled_in(text: str) -> str:
    """A plan of init's with what the secret can be."""
    return text.replace("# bounds", "bounds").replace("# categories", "categories")


def written(folder: Path, table: str, *options: str) -> str:
    """The plan that init writes for a table."""
    (folder / "t.csv").write_text(table, encoding="utf-8")
    assert main(["init", str(folder / "t.csv"), "--out", str(folder / "plan.toml"), "--force", *options]) == 0
    return (folder / "plan.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_init_writes_a_plan_that_waits_for_what_the_secret_can_be(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "plan.toml"
    text = written(tmp_path, TABLE)
    captured = capsys.readouterr()
    assert (
        f"Say in it what the secret can be, change what is wrong, then:  sightline audit {out}"
        in captured.out
    )
    assert captured.err.splitlines() == [
        "Guessed the record: home: its name says whose row it is; a different value in every row. Check it.",
        "Guessed the secret: watts: its name is that of something private; a number. Check it.",
    ]
    assert text.startswith("#:schema ./plan.schema.json\n")
    assert "then run:  sightline audit plan.toml\n" in text
    assert text.count("# GUESSED, check it: ") == 2
    content = tomllib.loads(text)
    assert content["data"] == {"source": "t.csv", "record": "home", "secret": "watts", "public": ["feeder"]}
    assert 'public = ["feeder"]    # CONFIRM: everybody may know these of everyone' in text
    assert [r["name"] for r in content["release"]] == ["everyone", "by feeder"]
    for command in ("check", "audit"):
        assert main([command, str(out)]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "got none of them; a guess from the data would reveal them; say what the secret can be" in (
            captured.err
        )
    out.write_text(filled_in(text), encoding="utf-8")
    assert main(["check", str(out)]) == 0
    assert main(["audit", str(out)]) == 0


def test_the_schema_has_a_name() -> None:
    assert plan_schema()["$id"] == SCHEMA_ID


# ------------------------------------------------------------------ the guesses, on tables of five kinds

CENSUS = "SERIALNO,AGEP,SEX,SCHL,WAGP\n" + "".join(
    f"{i},{20 + i},{i % 2},{i % 4},{i}000\n" for i in range(30)
)
METERS = "home,feeder,h00,h01,h02,h03\n" + "".join(f"H{i},f{i % 2},1.{i},2,3,4\n" for i in range(9))
ORDERS = "InvoiceNo,CustomerID,Country,Quantity,UnitPrice\n" + "".join(
    f"{i},{i % 4},c{i % 2},{i},{i}.5\n" for i in range(30)
)
STAYS = "stay_id,patient_id,ward,days,diagnosis,cost\n" + "".join(
    f"{i},p{i % 5},w{i % 2},{i % 3},flu,{i + 1}00\n" for i in range(30)
)
SALARIES = "id,name,department,salary\n" + "".join(f"{i},n{i},d{i % 3},{i + 1}000\n" for i in range(30))

GUESSES: dict[str, tuple[str, str, str]] = {
    "a census extract": (CENSUS, "", ""),
    "meters": (METERS, "home", ""),
    "orders": (ORDERS, "CustomerID", ""),
    "stays": (STAYS, "patient_id", ""),
    "salaries": (SALARIES, "", "salary"),
    "two keys of people": ("patient,member_no,bmi\na,1,20\nb,2,30\n", "", "bmi"),
    "a person's other column": ("key,customer_name,income\n1,a,2\n2,b,3\n", "", "income"),
    "an income of households": ("id,household_income\n1,2\n2,3\n", "", "household_income"),
    "two columns": ("person,x\na,1\nb,2\n", "person", "x"),
    "nothing": ("a,b,c\nx,y,z\nx,y,z\n", "", ""),
}


@pytest.mark.parametrize("case", GUESSES)
def test_a_guess_is_made_only_if_one_column_alone_can_be_meant(
    case: str, tmp_path: Path, capsys: Captured
) -> None:
    table, record, secret = GUESSES[case]
    text = written(tmp_path, table)
    data = tomllib.loads(text)["data"]
    assert (data["record"], data["secret"]) == (record, secret)
    said = capsys.readouterr().err
    for field, name in (("record", record), ("secret", secret)):
        assert (f"Guessed the {field}: {name}: " if name else f"Left the {field} open. ") in said
    assert ("[[release]]" in text.replace("# [[release]]", "")) == bool(secret), "no release without a secret"
    if not (record and secret):
        assert main(["check", str(tmp_path / "plan.toml")]) == 1, "an open plan is refused"


def test_an_open_field_lists_its_candidates_with_reasons(tmp_path: Path) -> None:
    text = written(tmp_path, STAYS)
    assert (
        'secret = ""    # SAY WHICH COLUMN TO PROTECT. Candidates:\n'
        "#   diagnosis: its name is that of something private; text\n"
        "#   cost: its name is that of something private; a number with many values\n"
    ) in text
    text = written(tmp_path, SALARIES)
    assert (
        'record = ""    # SAY WHOSE ROW IT IS. Candidates:\n'
        "#   id: its name is that of a key; a different value in every row\n"
        "#   name: a different value in every row\n"
    ) in text


def test_numbered_columns_are_proposed_as_wide_form(tmp_path: Path) -> None:
    text = written(tmp_path, METERS)
    made = 'SELECT * FROM source UNPIVOT INCLUDE NULLS (value FOR name IN ("h00", "h01", "h02", "h03"))'
    assert f"# sql = '{made}'" in text
    text = text.replace('secret = ""', 'secret = "value"').replace("# bounds", "bounds")
    text = text.replace("# max_rows_per_record = 1 ", "max_rows_per_record = 4 ")
    text = text.replace("# [[release]]\n# name", "[[release]]\nname").replace("# sql", "sql")
    (tmp_path / "plan.toml").write_text(text.replace("SECRET", "value"))
    assert main(["check", str(tmp_path / "plan.toml")]) == 0


@pytest.mark.thorough
def test_a_thousand_columns_are_a_line(tmp_path: Path) -> None:
    """What init writes is a plan, once what it leaves open is said; and as many numbers are audited."""
    names = ",".join(f"h{place:04}" for place in range(1_000))
    lines = [f"home,feeder,{names}", *(f"H{home},{home % 2}{',1.5' * 1_000}" for home in range(4))]
    text = written(tmp_path, "\n".join(lines) + "\n")
    made = 'UNPIVOT INCLUDE NULLS (value FOR name IN (COLUMNS(* EXCLUDE ("home", "feeder"))))'
    assert f"# sql = 'SELECT * FROM source {made}'" in text
    assert max(map(len, text.splitlines())) < 200
    about = {"record": "home", "secret": "value", "bounds": [0, 2], "max_rows_per_record": 1_000}
    release = {
        "name": "r",
        "sql": "SELECT feeder, name, SUM(value) FROM data WHERE name < 'h0003' GROUP BY ALL",
    }
    content = {
        "data": {"source": str(tmp_path / "t.csv"), "sql": f"SELECT * FROM source {made}", **about},
        "release": [release | {"noise_stddev": 9.0}],
    }
    result = sl.audit(content)
    assert (result.rows, result.records, result.cells) == (4_000, 4, 6)


def test_rows_that_repeat_are_said_to(tmp_path: Path) -> None:
    assert "# Several rows have the same CustomerID. SAY how many" in written(tmp_path, ORDERS)
    assert "Several rows" not in written(tmp_path, TABLE)


def test_groups_are_columns_with_few_values_and_harmless_names(tmp_path: Path) -> None:
    text = written(tmp_path, STAYS, "--secret", "cost")
    assert [r["name"] for r in tomllib.loads(text)["release"]] == ["everyone", "by ward"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "domain", "sql"),
    [
        ("home,s\na,true\nb,false\n", {"kind": "boolean"}, "COUNT(*) FILTER"),
        ("home,s\na,flu\nb,well\n", {"categories": ["yes", "no"]}, 'GROUP BY "s"'),
        ('home,"odd ""na\'me"\na,1\nb,2\n', {"bounds": [0, 100]}, "AVG("),
    ],
)
def test_init_knows_what_a_secret_can_be(
    table: str, domain: dict[str, object], sql: str, tmp_path: Path
) -> None:
    out = tmp_path / "plan.toml"
    out.write_text(filled_in(written(tmp_path, table)), encoding="utf-8")
    content = tomllib.loads(out.read_text(encoding="utf-8"))
    assert {field: content["data"][field] for field in domain} == domain
    assert sql in content["release"][0]["sql"]
    # The example's categories are not the table's: nothing is shown of such values, and the limit is not.
    assert main(["audit", str(out)]) == (2 if "categories" in domain else 0)


# ------------------------------------------------------------------ what is given


@pytest.mark.parametrize(
    ("options", "record", "secret"),
    [
        (["--secret", "FEEDER"], "home", "feeder"),
        (["--secret", "home"], "", "home"),
        (["--record", "watts"], "watts", ""),
        (["--record", "feeder", "--secret", "home"], "feeder", "home"),
    ],
)
def test_init_takes_the_columns_that_it_is_given(
    options: list[str], record: str, secret: str, tmp_path: Path
) -> None:
    data = tomllib.loads(written(tmp_path, TABLE, *options))["data"]
    assert (data["record"], data["secret"]) == (record, secret)


def test_init_needs_columns_that_can_be_a_key_and_a_secret(tmp_path: Path, capsys: Captured) -> None:
    table = tmp_path / "odd.parquet"
    duckdb.execute(f"COPY (SELECT 'A' AS home, 2 AS b, [1] AS list) TO '{table}'")
    for options, words in (
        (["--secret", "c"], 'expected a column of the table, got "c"'),
        (["--secret", "list"], 'numbers, text, or yes and no, got "list", which holds something else'),
        (["--record", "b", "--secret", "b"], 'a record and a secret in two columns, got "b" as both'),
    ):
        assert main(["init", str(table), "--out", str(tmp_path / "p.toml"), *options]) == 1
        assert words in capsys.readouterr().err


def test_init_needs_a_table_and_a_place(tmp_path: Path, capsys: Captured) -> None:
    assert main(["init", str(tmp_path / "none.csv"), "--out", str(tmp_path / "p.toml")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "one.csv").write_text("k\na\n")
    assert main(["init", str(tmp_path / "one.csv"), "--out", str(tmp_path / "p.toml")]) == 1
    assert "expected a table with a key and a secret, got 1 column" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text(TABLE)
    assert main(["init", str(tmp_path / "t.csv"), "--out", str(tmp_path / "no" / "p.toml")]) == 1
    assert "expected a place to write" in capsys.readouterr().err


def test_init_never_overwrites_unless_forced(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    out = tmp_path / "plan.toml"
    out.write_text("mine")
    arguments = ["init", str(tmp_path / "t.csv"), "--out", str(out)]
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("InvalidInput: expected a new file")
    assert "which exists; give another name, or --force" in said
    assert out.read_text() == "mine"
    assert main([*arguments, "--force"]) == 0
    assert out.read_text() != "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plan.toml", "t.csv"], "nothing is left behind"


def test_names_cannot_break_out_of_their_comments(tmp_path: Path) -> None:
    table = tmp_path / "odd.parquet"
    duckdb.execute(
        f'COPY (SELECT i AS "id\n[limits]", i AS "key\nx = 1" FROM range(3) AS t(i)) TO \'{table}\''
    )
    assert main(["init", str(table), "--out", str(tmp_path / "plan.toml")]) == 0
    content = tomllib.loads((tmp_path / "plan.toml").read_text(encoding="utf-8"))
    assert set(content) == {"data", "privacy", "limits"}
    assert content["data"]["record"] == ""


def test_a_column_of_each_record_beside_the_time_is_unpivoted(tmp_path: Path) -> None:
    rows = "".join(f"2016-01-{day:02},{day},{2 * day},{3 * day},{day * day}\n" for day in range(1, 29))
    (tmp_path / "homes.csv").write_text("day,e1de,x,b841,a7d5\n" + rows, encoding="utf-8")
    plan = starter_plan(str(tmp_path / "homes.csv"), out=tmp_path / "plan.toml")
    made = re.search("^# sql = '(.*)'$", plan.text, flags=re.MULTILINE)
    assert made is not None
    about = {"record": "name", "secret": "value", "bounds": [0, 1000], "max_rows_per_record": 28}
    found = sl.audit(
        {
            "data": {"source": str(tmp_path / "homes.csv"), "sql": made[1], "values": "independent", **about},
            "release": [
                {"name": "r", "sql": "SELECT day, SUM(value) FROM data GROUP BY day", "noise_stddev": 9}
            ],
        }
    )
    assert (found.records, found.cells) == (4, 28)
