"""Release records: read, checked, made into a plan and back; refusals, and the draft for the registry."""

from __future__ import annotations

import copy
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sightline.auditing.plan import Plan
from sightline.auditing.query_files import GivenPlan
from sightline.auditing.reading import plan_file_text, plan_of_text
from sightline.cli import main
from sightline.errors import InvalidPlan
from sightline.records.release_record import (
    About,
    plan_of,
    read_record,
    record_of,
    record_of_text,
    record_schema,
    records_of,
    registry_entry,
    registry_text,
)
from tests.numbered_cases import trials
from tests.records import fuzz_records, fuzz_whole_records
from tests.records.fuzz_records import RECORD
from tests.records.registry_schema import problems as registry_problems

FIXTURES = Path(__file__).parent / "fixtures"


def _changed(path: str, value: Any) -> dict[str, Any]:
    """The record with one field changed, or removed if the value is None."""
    content: Any = copy.deepcopy(RECORD)
    inner, keys = content, path.split(".")
    for key in keys[:-1]:
        inner = inner[int(key) if key.isdigit() else key]
    if value is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    return dict(content)


class TestRoundTrip:
    def test_record_to_plan_to_record(self) -> None:
        first = record_of(RECORD)
        second = record_of(_changed("release.name", "total") | {"about": {"published_at": "2026-02-01"}})
        plan = plan_of({"a.json": first, "b.json": second}, source="homes.csv")
        assert [release.name for release in plan.releases] == ["total", "by feeder"]  # by the day
        written = plan_of_text(plan_file_text(plan), "plan.toml")
        assert records_of(written, [second.about, first.about]) == (second, first)
        assert record_of_text(first.text()) == first
        assert json.loads(first.text()) == RECORD

    @pytest.mark.parametrize("folder", sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
    def test_what_the_libraries_wrote_comes_back(self, folder: str) -> None:
        records = {path.name: read_record(path) for path in sorted((FIXTURES / folder).iterdir())}
        written = plan_of_text(plan_file_text(plan_of(records, source="homes.csv")), "plan.toml")
        assert records_of(written, [one.about for one in records.values()]) == tuple(records.values())
        for record in records.values():
            assert record_of_text(record.text()) == record
            assert registry_problems(yaml.safe_load(registry_text(record))) == []

    def test_groups_that_noise_hid_are_withheld_and_come_back(self) -> None:
        hidden = record_of(RECORD)
        assert hidden.release.hidden_by_noise
        assert hidden.release.withhold == (("d",),)
        plan = plan_of({"a": hidden}, source="homes.csv")
        assert plan.releases == (hidden.release,)
        written = plan_of_text(plan_file_text(plan), "plan.toml")
        assert records_of(written, [hidden.about]) == (hidden,)

    def test_a_plan_gives_records_of_what_has_noise(self) -> None:
        releases = [
            {"name": "a", "sql": "SELECT SUM(x) FROM data", "noise_stddev": 3.0},
            {"name": "b", "sql": "SELECT AVG(x) FROM data"},
        ]
        data = {"source": "t.csv", "record": "id", "secret": "x", "bounds": [0, 1]}
        plan = Plan.model_validate(
            {"data": data, "privacy": {"epsilon": 1.0, "delta": 1e-6}, "release": releases}
        )
        (record,) = records_of(plan)
        assert record.release.name == "a"
        assert record.data == {"record": "id", "secret": "x", "bounds": [0.0, 1.0]}
        assert record.about == About()

    def test_two_secrets_of_one_table_are_one_plan(self) -> None:
        other = _changed("data.secret", "rent") | {"release": {**RECORD["release"], "name": "rents"}}
        plan = plan_of({"a": record_of(RECORD), "b": record_of(other)}, source="homes.csv")
        assert plan.data.secret == "watts"
        assert [(one.column, one.bounds) for one in plan.secrets] == [("rent", (0.0, 9000.0))]

    def test_each_record_keeps_its_secret(self) -> None:
        data = {"record": "home", "secret": "heating", "categories": ["gas", "oil"], "public": ["feeder"]}
        sql = "SELECT COUNT(*) FILTER (WHERE heating = 'gas') FROM data"
        release = {"name": "heating", "sql": sql, "noise": {"stddev": 2.0}}
        other = record_of({"record": "sightline.release/1", "release": release, "data": data})
        first = record_of(RECORD)
        plan = plan_of({"a": first, "b": other}, source="homes.csv")
        assert records_of(plan, [first.about, other.about]) == (first, other)

    def test_what_is_missing_is_said_and_can_be_given(self) -> None:
        record = record_of({name: RECORD[name] for name in ("record", "release")})
        assert record.missing == ("record", "secret", "bounds")
        with pytest.raises(InvalidPlan, match=r"data\.record in a record, or --record COLUMN, got neither"):
            plan_of({"a": record}, source="homes.csv")
        given = GivenPlan(record="home", secret="watts", bounds=(0.0, 9000.0), max_rows=3)
        plan = plan_of({"a": record}, source="homes.csv", given=given)
        assert (plan.data.record, plan.data.bounds, plan.data.max_rows_per_record) == (
            "home",
            (0.0, 9000.0),
            3,
        )
        with pytest.raises(InvalidPlan, match="expected bounds for a number"):
            plan_of({"a": record}, source="homes.csv", given=GivenPlan(record="home", secret="watts"))

    def test_the_schema_says_what_is_read(self) -> None:
        jsonschema.Draft202012Validator.check_schema(record_schema())
        jsonschema.validate(RECORD, record_schema())
        for path, value in [
            ("about.engin", "x"),
            ("data.source", "x.csv"),
            ("record", "sightline.release/2"),
        ]:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(_changed(path, value), record_schema())


def test_mutated_records_are_read_or_refused_with_one_line() -> None:
    most = len(trials(300))
    counted = fuzz_records.fuzz(3, math.inf, most=most)
    assert counted["priced"] > most / 60
    assert counted["refused"] > most / 3


@pytest.mark.thorough
def test_no_limit_above_what_discrete_noise_leaves_passes() -> None:
    counted = fuzz_whole_records.fuzz(3, math.inf, most=16)
    assert counted["failed"] + counted.get("not shown", 0) > 5
    assert counted["a third: passed"] > 3


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("record", "sightline.release/2", "r.json: record: sightline.release/1, got 'sightline.release/2'"),
        ("record", None, "r.json: record: sightline.release/1, got nothing"),
        ("release.scale", 3, "release 'by feeder' scale: expected a field that exists"),
        ("release.noise.0.scale", 3.0, "r.json: release: noise: stddev, got scale"),
        ("release.noise.0.stddev", -1, "noise number 1 stddev: expected a number > 0, got -1"),
        ("release.noise.0.law", "cauchy", "noise number 1 law: expected one of 'gaussian'"),
        ("release.noise.0.by_cell", "n.csv", "of a file of noise, write its rows here"),
        ("release.noise", {"mechanism": "C.npy", "stddev": 1.0}, "a record that names no file"),
        ("release.sql", "q.sql", "r.json: release: a record that names no file"),
        ("release.noise", None, "r.json: release: noise, got none"),
        ("data.source", "homes.csv", "r.json: data: no source, got one; it is given"),
        ("data.tables", {"a": "/etc/passwd"}, "r.json: data: no tables"),
        ("data.bounds", [9000, 0], r"\[data\]: expected bounds \[low, high\] with low < high"),
        ("data.recrod", "home", r"\[data\] recrod: expected a field that exists.*did you mean 'record'"),
        ("about.neighbors", "x", r"\[about\] neighbors: expected .* did you mean 'neighbours'"),
        ("about.neighbours", "some", r"\[about\] neighbours: expected one of 'add-remove' or 'replace-one'"),
        ("about.published_at", "2026-02-30", r"\[about\] published_at: expected a day as 2026-03-01"),
        ("about.facts.color", "read", r"\[about\] facts: expected facts about fields of .* got 'color'"),
        ("about.facts.sql", "guessed", r"\[about\] facts sql: expected one of 'read', 'derived' or 'stated'"),
        (
            "about.engine",
            "smartnoise-sql 1.0.10",
            "noise: law: a law that smartnoise-sql has, got 'discrete-g",
        ),
        ("about.engine", "dp-accounting 0.6.0", "noise: law: a law that dp-accounting has, got 'discrete-g"),
        ("release.noise.0.stddev", math.nan, "expected 'release.noise.1.stddev': a finite number, got nan"),
        (
            "about.privacy_parameters.rho",
            math.inf,
            "'about.privacy_parameters.rho': a finite number, got inf",
        ),
        ("data.bounds", [0, -math.inf], "'data.bounds.2': a finite number, got -inf"),
        (
            "about.privacy_parameters.epsilon",
            1e300,
            r"\[about\] privacy_parameters epsilon: expected a number <= 1e\+09",
        ),
        ("extra", 1, "r.json: a field that exists, got 'extra'"),
        ("release", [], "r.json: release: a section, got another value"),
        ("release.sql", "", "release 'by feeder' sql: expected text, not an empty string"),
    ],
)
def test_refusals(path: str, value: Any, says: str) -> None:
    with pytest.raises(InvalidPlan, match=says) as error:
        record_of_text(json.dumps(_changed(path, value)), "r.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"record": NaN}', "r.json: expected 'record': a finite number, got nan"),
        (
            '{"about": {"privacy_parameters": {"rho": 1e999}}}',
            "privacy_parameters.rho': a finite number, got inf",
        ),
        ('{"a": 1, "a": 2}', "expected every field once, got .'a'. twice"),
        ("[" * 100_000, "expected a release record in JSON"),
        ("record: 1", "expected a release record in JSON"),
        ("[1]", "r.json: a release record, got other JSON"),
        ('{"record": "\\ud800"}', "expected a release record in JSON"),
        (b"\xff\xfe", "expected a release record in JSON"),
    ],
)
def test_what_is_no_json(text: str | bytes, says: str) -> None:
    with pytest.raises(InvalidPlan, match=says) as error:
        record_of_text(text, "r.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("release.times", 3, "a name of its own for each release, got 'by feeder' in 2 records"),
        (
            "data.record",
            "person",
            r"b.json: data.record: records of one table and one unit, got another than in a",
        ),
        ("data.bounds", [0, 9], "b.json: data.bounds: records of one table and one unit"),
        ("release.sql", "SELECT SUM(", "b.json: release.sql: expected "),
        ("release.sql", "COPY data TO 'x'", "b.json: release.sql: expected a SELECT statement, got COPY"),
        ("about.privacy_unit", "person", "b.json: about.privacy_unit: records of one table and one unit"),
        ("about.neighbours", "replace-one", "b.json: about.neighbours: records of one table and one unit"),
    ],
)
def test_records_that_are_not_one_plan(path: str, value: Any, says: str) -> None:
    other = _changed(path, value)
    if path != "release.times":
        other["release"]["name"] = "another"
    with pytest.raises(InvalidPlan, match=says) as error:
        plan_of({"a.json": record_of(RECORD), "b.json": record_of(other)}, source="homes.csv")
    assert "\n" not in str(error.value)


def test_no_record_is_no_plan() -> None:
    with pytest.raises(InvalidPlan, match="a release record, got none"):
        plan_of({}, source="homes.csv")


class TestRegistry:
    """Drafts against the registry's own schema, as its own check reads them: from YAML."""

    @pytest.mark.parametrize(
        "content",
        [
            RECORD,
            {name: RECORD[name] for name in ("record", "release")},
            _changed("about.privacy_parameters", {"epsilon": 1e-05}),
            _changed("about.privacy_parameters", {"rho": 1e9, "epsilon": 1e-300, "delta": 1e-10}),
            _changed("release.name", 'a: "b" # {c}\\ \u2028\x7f\x85\ufeff é \U0001f600 %'),
            _changed("release.times", 12),
        ],
    )
    def test_a_draft_is_valid(self, content: dict[str, Any]) -> None:
        record = record_of(content)
        entry = yaml.safe_load(registry_text(record))
        assert registry_problems(entry) == []
        delta = entry["deployment"]["privacy_loss"]["privacy_parameters"].get("delta")
        assert isinstance(delta, float | None)
        assert entry == registry_entry(record)

    def test_it_says_what_the_record_says(self) -> None:
        entry = registry_entry(record_of(RECORD))["deployment"]
        assert entry["privacy_loss"]["privacy_parameters"] == {"rho": 0.1667, "delta": 1e-6}
        assert entry["dp_variant"]["variant_name"] == "Zero-concentrated DP"
        assert "discrete-gaussian noise" in entry["implementation"]["mechanisms"]

    @pytest.mark.parametrize(
        ("parameters", "law", "variant"),
        [
            ({"epsilon": 1.0}, "geometric", "Pure DP"),
            ({"epsilon": 1.0, "delta": 1e-6}, "geometric", "Approximate DP"),
            ({"epsilon": 1.0}, "gaussian", None),  # no Gaussian noise has a pure epsilon
            ({}, "geometric", None),
        ],
    )
    def test_the_variant_is_named_where_it_is_known(
        self, parameters: dict[str, float], law: str, variant: str | None
    ) -> None:
        content = _changed("about.privacy_parameters", parameters)
        content["release"] |= {"noise": {"law": law, "stddev": 3e4}}
        entry = registry_entry(record_of(content))["deployment"]
        assert entry.get("dp_variant", {}).get("variant_name") == variant

    @pytest.mark.parametrize(
        ("path", "value", "says"),
        [
            ("basic.publication_date", "1/1/2026", "'1/1/2026' is not a 'date'"),
            ("basic.data_product_type", "Surprise!", "'Surprise!' is not one of"),
            ("basic.data_curators", ["U.S. Census Bureau"], "is not of type 'object'"),
            ("basic.author", "x", "'author' was unexpected"),
            ("privacy_loss.privacy_parameters", {"epsilon": "1e-05"}, "is not of type 'number'"),
            ("administrative.tier", 0, "0 is not one of [1, 2, 3]"),
            ("administrative.status", None, "'status' is a required property"),
        ],
    )
    def test_what_the_registry_refuses_is_refused_here(self, path: str, value: Any, says: str) -> None:
        """As the registry's own examples of bad entries."""
        entry = registry_entry(record_of(RECORD))
        section, field = path.split(".")
        entry["deployment"][section][field] = value
        if value is None:
            del entry["deployment"][section][field]
        (problem,) = registry_problems(entry)
        assert says in problem


class TestCommands:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        rows = "\n".join(f"h{i},{'abcd'[i % 4]},{i * 977 % 9001}" for i in range(40))
        (tmp_path / "homes.csv").write_text(f"home,feeder,watts\n{rows}\n")
        (tmp_path / "by_feeder.json").write_text(json.dumps(RECORD))
        return tmp_path

    def test_check_init_and_audit(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["check", "by_feeder.json"]) == 0
        assert capsys.readouterr().out == "by_feeder.json: a good record\n"
        assert main(["check", "by_feeder.json", "--registry"]) == 0
        assert registry_problems(yaml.safe_load(capsys.readouterr().out)) == []
        assert main(["check", "--record-schema"]) == 0
        assert json.loads(capsys.readouterr().out) == record_schema()
        assert main(["init", "homes.csv", "--from-records", "by*.json", "--out", "plan.toml"]) == 0
        shown = capsys.readouterr()
        assert "read: stddev; derived: sql; stated: secret" in shown.err
        assert "not said how: bounds, hidden_by_noise, public, record" in shown.err
        assert "The library counts delta 1e-06, rho 0.1667." in shown.err
        # Two sums: both count min over a of a·rho + log(1 − 1/a) − log(a·delta)/(a − 1).
        # The library's two deltas are on top.
        assert "rho = 0.333, which is epsilon = 4.16 at delta = 3e-06, added up;" in shown.err
        assert "the audit counts epsilon = 4.16 at delta = 1e-06 (accountant: zcdp)." in shown.err
        assert 'the plan withholds them, and a pass needs that you accept "hidden_by_noise"' in shown.err
        shown_of = _audited(capsys, status=2)
        assert "NOT SHOWN" in shown_of
        assert "hid groups whose noisy count was small" in shown_of
        text = (folder / "plan.toml").read_text()
        (folder / "plan.toml").write_text(text.replace("[limits]", '[limits]\naccept = ["hidden_by_noise"]'))
        assert "PASSED" in _audited(capsys)

    def test_people_with_several_rows_behind_discrete_noise(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As OpenDP and Tumult publish integer columns."""
        rows = "\n".join(f"h{i % 20},{'abcd'[i % 4]},{i * 977 % 9001}" for i in range(40))
        (folder / "homes.csv").write_text(f"home,feeder,watts\n{rows}\n")
        for law in ("discrete-gaussian", "geometric"):
            content = _changed("release.noise", {"law": law, "stddev": 15588.457})
            content["release"] = {
                name: one
                for name, one in content["release"].items()
                if name not in ("withhold", "hidden_by_noise")
            }
            content["data"] |= {"max_rows_per_record": 2}
            (folder / "by_feeder.json").write_text(json.dumps(content))
            options = ["--from-records", "by*.json", "--out", "plan.toml", "--force"]
            assert main(["init", "homes.csv", *options]) == 0
            capsys.readouterr()
            assert "PASSED" in _audited(capsys)

    def test_check_reads_the_query(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for sql, good in (
            ("SELECT feeder, SUM(watts) FROM data GROUP BY feeder", True),
            ("SELECT SUM(watts) FROM data WHERE feeder ~ 'a'", True),  # of some engine
            ("SELECT SUM(watts FROM data", False),
            ("DROP TABLE data", False),
            ("SELECT 1; SELECT 2", False),
        ):
            (folder / "one.json").write_text(json.dumps(_changed("release.sql", sql)))
            assert main(["check", "one.json"]) == (0 if good else 1)
            shown = capsys.readouterr()
            assert good or ("one.json: release.sql: " in shown.err and shown.err.count("\n") == 1)

    def test_one_line_for_every_mistake(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "bad.json").write_text(json.dumps(_changed("about.engin", "x")))
        assert main(["check", "bad.json"]) == 1
        assert "did you mean 'engine'?" in capsys.readouterr().err
        assert main(["check", "by_feeder.json", "bad.json"]) == 1
        assert main(["init", "homes.csv", "--from-records", "*.json", "--out", "p.toml"]) == 1
        assert main(["init", "homes.csv", "--from-records", "none/*.json", "--out", "p.toml"]) == 1
        assert "which is no file" in capsys.readouterr().err
        options = ["--epsilon", "1", "--out", "p.toml"]
        assert main(["init", "homes.csv", "--from-records", "by*.json", *options]) == 1
        assert "release records alone, got other releases or noise" in capsys.readouterr().err
        assert not (folder / "p.toml").exists()
        (folder / "by_feeder.json").write_text(json.dumps(_changed("data.secret", "wats")))
        assert main(["init", "homes.csv", "--from-records", "by*.json", "--out", "p.toml"]) == 0
        assert "the audit refuses this plan: " in capsys.readouterr().err
        (folder / "p.toml").unlink()
        # A name with a line break stays in its comment, and in the text of its field.
        (folder / "by_feeder.json").write_text(json.dumps(_changed("data.record", "a\n[evil]\nb = 1\x1b[2J")))
        assert main(["init", "homes.csv", "--from-records", "by*.json", "--out", "p.toml"]) == 0
        assert "\x1b" not in (folder / "p.toml").read_text() + capsys.readouterr().err
        assert "evil" not in tomllib.loads((folder / "p.toml").read_text())
        (folder / "p.toml").unlink()
        with pytest.raises(InvalidPlan, match="no such file"):
            read_record(folder / "missing.json")


def _audited(capsys: pytest.CaptureFixture[str], status: int = 0) -> str:
    assert main(["audit", "plan.toml"]) == status
    return capsys.readouterr().out
