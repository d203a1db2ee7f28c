"""A plan from a dbt project's manifest, which is not trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.auditing import dbt
from sightline.auditing.dbt import dbt_plan_text
from sightline.auditing.plan import Plan
from sightline.auditing.reading import plan_of_text
from sightline.cli import main
from sightline.errors import InvalidPlan
from sightline.jobs.audit import check
from sightline.tables.sql.grammar import parse_query

Captured = pytest.CaptureFixture[str]
HOMES = '"grid"."main"."homes"'
REGIONS = '"grid"."main"."regions"'
ROWS = [("A", "n", 1), ("B", "n", 2), ("C", "s", 3), ("D", "s", 4), ("E", "s", 9)]
DATA = {"record": "home", "secret": "watts", "bounds": [0, 10]}


def node(name: str, sql: str | None = None, **changes: Any) -> dict[str, Any]:
    """A node as dbt 1.8 writes it, with what is read of it and a few other fields."""
    return {
        "resource_type": "model",
        "name": name,
        "relation_name": f'"grid"."main"."{name}"',
        "depends_on": {"nodes": []},
        "raw_code": "{{ config() }} select 1",
        **({} if sql is None else {"compiled": True, "compiled_code": sql}),
        "config": {"materialized": "table", "meta": {"sightline": {"release": True}}, "post-hook": []},
        **changes,
    }


def manifest(folder: Path, *models: dict[str, Any], **changes: Any) -> Path:
    """A manifest with a seed of homes, and a public source of regions, beside the models."""
    blocks: dict[str, Any] = {
        "data": DATA,
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
        "limits": {"remaining_uncertainty": "50%"},
        **changes.pop("blocks", {}),
    }
    seed = node("homes", config={"materialized": "seed", "meta": {"sightline": blocks}})
    content = {
        "metadata": {"adapter_type": "duckdb", "dbt_version": "1.8.0"},
        "nodes": {f"model.grid.{one['name']}": one for one in models} | {"seed.grid.homes": seed},
        "sources": {"source.grid.raw.regions": node("regions", config={}, resource_type="source")},
        **changes,
    }
    path = folder / "manifest.json"
    path.write_text(json.dumps(content))
    return path


def table(folder: Path) -> str:
    lines = [f"{home},{feeder},{watts}" for home, feeder, watts in ROWS]
    (folder / "homes.csv").write_text("\n".join(["home,feeder,watts", *lines]) + "\n")
    (folder / "regions.csv").write_text("feeder,region\nn,north\ns,south\n")
    return str(folder / "homes.csv")


def plan_from_dbt(path: Path, *, source: str) -> Plan:
    """What :func:`dbt_plan_text` writes as TOML."""
    return dbt._plan(dbt._read(path), source)


def plan(folder: Path, *models: dict[str, Any], **changes: Any) -> Plan:
    return plan_from_dbt(manifest(folder, *models, **changes), source=table(folder))


QUERIES = {
    "plain": f"select avg(watts) as w from {HOMES}",
    "alias": f"select h.feeder, sum(h.watts) from {HOMES} as h group by 1",
    "qualified": f"select homes.feeder, avg(homes.watts) from {HOMES} group by homes.feeder",
    "import cte": f"with h as (\n  select * from {HOMES}\n)\nselect feeder, avg(watts) from h group by 1",
    "comment": f"-- of {HOMES}\nselect avg(watts) /* {HOMES} */ from {HOMES} where feeder <> '{HOMES}'",
    "join": f"select r.region, avg(h.watts) from {HOMES} h join {REGIONS} r using (feeder) group by 1",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_publishes_what_the_model_holds(name: str, tmp_path: Path) -> None:
    """The compiled SQL on dbt's relations, and the plan's SQL on the plan's tables, give the same rows."""
    tables = {"regions": str(tmp_path / "regions.csv")}
    made = plan(tmp_path, node("m", QUERIES[name]), blocks={"data": {**DATA, "tables": tables}})
    (release,) = made.releases
    engine = duckdb.connect()
    for schema in ("", "grid.main."):
        if schema:
            engine.execute("ATTACH ':memory:' AS grid")
        for called in ("homes" if schema else "data", "regions"):
            file = "regions" if called == "regions" else "homes"
            engine.execute(
                f"CREATE TABLE {schema}{called} AS FROM read_csv('{tmp_path / file}.csv', header = true)"
            )
    theirs = engine.execute(QUERIES[name]).fetchall()
    assert sorted(engine.execute(release.sql).fetchall()) == sorted(theirs) != []
    assert len(release.sql) - len(QUERIES[name]) == sum(
        len(after) - len(before) for before, after in CHANGES[name]
    )
    assert sl.audit(made).records == len(ROWS)


CHANGES = {name: [(HOMES, "data")] for name in QUERIES} | {
    "qualified": [(HOMES, 'data AS "homes"')],
    "join": [(HOMES, "data"), (REGIONS, "regions")],
}


def test_the_blocks_are_the_sections(tmp_path: Path) -> None:
    block = {"times": 3, "name": "every month", "noise_stddev": 2.5}
    monthly = node("monthly", QUERIES["plain"])
    monthly["config"]["meta"]["sightline"]["release"] = block
    old = node("older", meta={"sightline": {"release": {}}}, compiled_sql=QUERIES["plain"])
    old["config"] = {"materialized": "view"}
    made = plan(tmp_path, monthly, old, node("other", "select 1", config={"materialized": "table"}))
    assert [(one.name, one.times, one.noise_stddev) for one in made.releases] == [
        ("every month", 3, 2.5),
        ("older", 1, 0.0),
    ]
    assert (made.data.secret, made.limits.remaining_uncertainty) == (
        "watts",
        0.5,
    )
    assert made.privacy.epsilon == 1.0


def with_config(**config: Any) -> dict[str, Any]:
    one = node("m", QUERIES["plain"])
    return {**one, "config": {**one["config"], **config}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "incremental": (with_config(materialized="incremental"), "a release that is a table, view"),
    "ephemeral": (with_config(materialized="ephemeral"), "a release that is a table, view"),
    "post-hook": (with_config(**{"post-hook": [{"sql": "delete"}]}), "a release without a post-hook"),
    "not compiled": (node("m"), "compiled SQL, got None; run dbt compile"),
    "another table": (node("m", "select avg(watts) from grid.main.other"), "only the table and its public"),
    "another case": (
        node("m", 'select avg(watts) from "grid"."main"."Homes"'),
        "only the table and its public",
    ),
    "a file": (node("m", "select avg(watts) from read_csv('homes.csv')"), "only the table and its public"),
    "no SQL": (node("m", "selekt"), "expected"),
    "two queries": (node("m", f"{QUERIES['plain']}; drop table x"), "expected"),
    "hidden by a cte": (
        node("m", f"with data as (select 1 as watts) select avg(h.watts) from {HOMES} h, data"),
        "a WITH that does not define a name",
    ),
    "a block that is a list": (
        with_config(meta={"sightline": []}),
        "meta.sightline with data, secret, privacy",
    ),
    "an unknown block": (with_config(meta={"sightline": {"relase": {}}}), "got 'relase'"),
    "a release that is text": (with_config(meta={"sightline": {"release": "yes"}}), "fields of a release"),
    "sql in the block": (with_config(meta={"sightline": {"release": {"sql": "x"}}}), "other than sql"),
    "an unknown field": (with_config(meta={"sightline": {"release": {"tims": 2}}}), "did you mean 'times'"),
    "a second table": (with_config(meta={"sightline": {"data": DATA}}), "one model, seed or source with"),
    "a nameless model": ({**node("m", QUERIES["plain"]), "name": None}, "name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused(case: str, tmp_path: Path) -> None:
    model, words = REFUSED[case]
    with pytest.raises(InvalidPlan) as error:
        plan(tmp_path, model)
    assert words in str(error.value)


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    path, good = tmp_path / "manifest.json", node("m", QUERIES["plain"])
    for text in ("", "[]", "{}", '{"nodes": 3}', "[" * 100_000, "\xff", "null"):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(InvalidPlan, match="manifest"):
            plan_from_dbt(path, source="homes.csv")
    with pytest.raises(InvalidPlan, match="no such file"):
        plan_from_dbt(tmp_path / "missing.json", source="homes.csv")
    for changes, words in (
        ({"metadata": {"adapter_type": "snowflake"}}, "a dbt adapter whose SQL can be read"),
        ({"metadata": []}, "a dbt adapter whose SQL can be read"),
        ({"nodes": {}}, "got none"),
        ({"nodes": {"a": 3, "b": {"config": 4, "meta": "x"}}}, "got none"),
        ({"blocks": {"data": {**DATA, "source": "x"}}}, "without source"),
        ({"blocks": {"data": {**DATA, "tables": {"nobody": "x.csv"}}}}, "of the name 'nobody'"),
        ({"blocks": {"data": {"record": "home"}}}, "data"),
    ):
        with pytest.raises(InvalidPlan, match=words):
            plan(tmp_path, good, **changes)
    with pytest.raises(InvalidPlan, match="a model with meta"):
        plan(tmp_path)


def test_a_table_without_a_relation(tmp_path: Path) -> None:
    path = manifest(tmp_path, node("m", QUERIES["plain"]))
    content = json.loads(path.read_text())
    for relation in (None, 3, "(select 1)", f"{HOMES} join {REGIONS} using (feeder)"):
        content["nodes"]["seed.grid.homes"]["relation_name"] = relation
        path.write_text(json.dumps(content))
        with pytest.raises(InvalidPlan, match="a relation_name with the name of one table or view"):
            plan_from_dbt(path, source="homes.csv")


def test_a_relation_cannot_leave_the_comment(tmp_path: Path) -> None:
    strange = '"grid"."main"."homes\n[limits]\nremaining_uncertainty = 0.001\n"'
    path = manifest(tmp_path, node("m", f"select avg(watts) from {strange}"))
    path.write_text(path.read_text().replace(json.dumps(HOMES), json.dumps(strange)))
    text = dbt_plan_text(path, table(tmp_path), out=tmp_path / "plan.toml")
    assert plan_of_text(text, "plan").limits.remaining_uncertainty == 0.5
    assert check(plan_from_dbt(path, source=table(tmp_path))).releases[0].sql == "select avg(watts) from data"


def test_a_sample_is_left_for_the_reader_to_refuse(tmp_path: Path) -> None:
    made = plan(tmp_path, node("m", f"select avg(homes.watts) from {HOMES} tablesample 10%"))
    assert made.releases[0].sql == 'select avg(homes.watts) from data AS "homes" tablesample 10%'
    with pytest.raises(InvalidPlan, match="release 'm'"):
        check(made)


@pytest.mark.parametrize("name", ["plain", "qualified", "join"])
def test_wrong_positions_of_names_are_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sightline.auditing.dbt.parse_query", lambda sql, dialect: parse_query(f" {sql}", dialect)
    )
    with pytest.raises(InvalidPlan, match="expected"):
        plan(tmp_path, node("m", QUERIES[name]), blocks={"data": {**DATA, "tables": {"regions": "r.csv"}}})


def test_a_manifest_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.auditing.dbt.LARGEST_FILE", 10)
    with pytest.raises(InvalidPlan, match=r"manifest\.json of at most 10 bytes"):
        plan(tmp_path, node("m", QUERIES["plain"]))


def test_init_writes_the_plan_beside_its_paths(tmp_path: Path, capsys: Captured) -> None:
    path, out = manifest(tmp_path, node("m", QUERIES["alias"])), tmp_path / "plan.toml"
    command = ["init", table(tmp_path), "--from-dbt", str(path), "--out", str(out)]
    assert main(command) == 0
    assert 'source = "homes.csv"' in out.read_text()
    assert "grid" in out.read_text().splitlines()[1]
    assert main(["check", str(out)]) == 0
    assert main(command) == 1  # it exists
    assert main([*command, "--force", "--secret", "watts"]) == 1
    assert "expected --record and --secret in meta.sightline.data" in capsys.readouterr().err
