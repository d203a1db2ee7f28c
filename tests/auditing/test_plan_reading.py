"""Plans: what a good one says, and one line for every way to get it wrong."""

from __future__ import annotations

import copy
import json
import re
import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.auditing.plan import AssumptionName, Plan
from sightline.auditing.reading import plan_schema, read_plan, with_limit
from sightline.errors import InvalidPlan, SightlineError
from sightline.tables.subject import SecretKind

ROOT = Path(__file__).resolve().parents[2]

PLAN = """
[data]
source = "homes.csv"
record = "home"
secret = "watts"
bounds = [0, 9000]

[privacy]
epsilon = 1
delta = 1e-5

[[release]]
name = "mean"
sql = "SELECT AVG(watts) FROM data"
times = 12

[[release]]
name = "by feeder"
sql = "SELECT feeder, AVG(watts) FROM data GROUP BY feeder"
noise_stddev = 2.5

[attacker]
knows = ["home = 'A7'"]

[limits]
remaining_uncertainty = "50%"
"""

GOOD = {
    "data": {"source": "homes.csv", "record": "home", "secret": "watts", "bounds": [0, 9000]},
    "privacy": {"epsilon": 1, "delta": 1e-5},
    "release": [{"name": "mean", "sql": "SELECT AVG(watts) FROM data"}],
}


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "plan.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def changed(section: str, **changes: object) -> dict[str, object]:
    """A good plan with some fields of a section changed, or removed if None."""
    plan = copy.deepcopy(GOOD)
    place = plan["release"][0] if section == "release" else plan.setdefault(section, {})
    for field, value in changes.items():
        if value is None:
            del place[field]
        else:
            place[field] = value
    return plan


def test_every_field_arrives(tmp_path: Path) -> None:
    plan, base = read_plan(written(tmp_path, PLAN))
    assert base == tmp_path
    assert plan.data.bounds == (0.0, 9000.0)
    assert plan.data.secret_kind is SecretKind.NUMBER
    assert plan.privacy.accountant == "gaussian-dp"
    assert [(r.name, r.times, r.noise_stddev) for r in plan.releases] == [
        ("mean", 12, 0.0),
        ("by feeder", 1, 2.5),
    ]
    assert plan.attacker.knows == ("home = 'A7'",)
    assert plan.limits.remaining_uncertainty == 0.5


def test_a_mapping_and_a_plan_are_as_good_as_a_file() -> None:
    plan, base = read_plan(GOOD)
    assert base == Path()
    assert read_plan(plan) == (plan, Path())


def test_a_plan_cannot_be_changed() -> None:
    plan, _ = read_plan(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        plan.data.source = "other.csv"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("data", "kind", "domain"),
    [
        ({"bounds": [1, 3]}, SecretKind.NUMBER, (1.0, 3.0)),
        ({"bounds": [1, 3], "kind": "number"}, SecretKind.NUMBER, (1.0, 3.0)),
        ({"kind": "boolean"}, SecretKind.BOOLEAN, (0.0, 1.0)),
        ({"categories": ["a", "b"]}, SecretKind.CATEGORY, (0.0, 1.0)),
    ],
)
def test_the_kind_of_secret_follows_from_its_domain(
    data: dict[str, object], kind: SecretKind, domain: tuple[float, float]
) -> None:
    plan = {**GOOD, "data": {"source": "homes.csv", "record": "home", "secret": "watts", **data}}
    found = read_plan(plan)[0].data
    assert (found.secret_kind, found.domain) == (kind, domain)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (changed("data", source=None), "plan: [data] source: expected a value, got nothing"),
        (
            changed("data", source=None, sorce="homes.csv"),
            "plan: [data] sorce: expected a field that exists, got 'sorce'; did you mean 'source'?",
        ),
        (
            changed("data", colour=1),
            "plan: [data] colour: expected a field that exists, got 'colour'; there are: source, record, "
            "secret, sql, frame, bounds, categories, kind, public, tables, max_rows_per_record, "
            "values, level, blocks",
        ),
        (
            changed("data", wide={"columns": ["h0", "h1"], "name": "hour"}),
            "plan: [data] wide: expected no field 'wide', which plans no longer have; write sql = "
            '"SELECT * FROM source UNPIVOT INCLUDE NULLS (value FOR name IN (a, b, …))"',
        ),
        (
            changed("data", keep={"rows": 2, "order": "day"}),
            "plan: [data] keep: expected no field 'keep', which plans no longer have; write sql = "
            '"SELECT * FROM source QUALIFY ROW_NUMBER() OVER (PARTITION BY record ORDER BY day) <= 3", and '
            "max_rows_per_record = 3",
        ),
        (
            changed("rules", dominance={"n": 1, "share": "80%"}),
            'plan: [rules] dominance: expected a list, got a section; write [1, "80%"]: how many of the '
            "largest, and their largest share",
        ),
        (
            changed("privacy", periods={"May": 1.0}),
            "plan: [privacy] periods: expected no field 'periods', which plans no longer have; write "
            "times = n in each release, and the epsilon of all periods",
        ),
        (
            changed("data", total_by=["feeder"]),
            "plan: [data] total_by: expected no field 'total_by', which plans no longer have; write sql = "
            '"SELECT record, area, LEAST(GREATEST(SUM(secret), low), high) AS secret FROM source GROUP BY '
            'record, area"',
        ),
        (changed("data", source=""), "plan: [data] source: expected text, not an empty string, got ''"),
        (changed("data", source=3), "plan: [data] source: expected text in quotes, got 3"),
        (
            changed("data", bounds=[9000, 0]),
            "plan: [data]: expected bounds [low, high] with low < high, got [9000.0, 0.0]",
        ),
        (
            changed("data", bounds=[-1.7e308, 1.7e308]),
            "plan: [data] bounds number 1: expected a number >= -1e+50, got -1.7e+308",
        ),
        (changed("data", bounds=[0, True]), "plan: [data] bounds number 2: expected a number, got True"),
        (
            changed("data", bounds=[0, float("nan")]),
            "plan: [data] bounds number 2: expected a finite number, got nan",
        ),
        (changed("data", bounds=[0]), "plan: [data] bounds number 2: expected a value, got nothing"),
        (
            changed("data", bounds=[0, 1, 2]),
            "plan: [data] bounds: expected at most 2 entries, got [0, 1, 2]",
        ),
        (changed("data", bounds=7), "plan: [data] bounds: expected a list, got 7"),
        (
            changed("data", bounds=None),
            "plan: [data]: expected bounds for a number, categories for a category, or kind = 'boolean', "
            "got none of them; a guess from the data would reveal them; say what the secret can be",
        ),
        (
            changed("data", kind="boolean"),
            "plan: [data]: expected bounds for a number and for nothing else, got kind 'boolean' with bounds",
        ),
        (
            changed("data", bounds=None, kind="category"),
            "plan: [data]: expected categories for a category and for nothing else, got kind "
            "'category' without categories",
        ),
        (
            changed("data", bounds=None, categories=["a", "b", "a"]),
            "plan: [data]: expected distinct categories, got ['a'] twice",
        ),
        (
            changed("data", bounds=None, categories=["a"]),
            "plan: [data] categories: expected at least 2 entries, got ['a']",
        ),
        (
            changed("data", record="watts"),
            "plan: [data]: expected a record column other than the secret, got 'watts' for both",
        ),
        (
            changed("data", max_rows_per_record=0),
            "plan: [data] max_rows_per_record: expected a number >= 1, got 0",
        ),
        (
            changed("data", max_rows_per_record=1.5),
            "plan: [data] max_rows_per_record: expected a whole number, got 1.5",
        ),
        (
            changed("data", bandwidth=1.0),
            "plan: [data] bandwidth: expected no field 'bandwidth', which plans no longer have; leave it "
            "out: a count above a level is audited as the yes or no that it asks",
        ),
        (changed("data", tables={"a": 1}), "plan: [data] tables a: expected text in quotes, got 1"),
        (
            changed("privacy", epsilon=-1),
            "plan: [privacy] epsilon: expected a number > 0, got -1",
        ),
        (changed("privacy", delta=1), "plan: [privacy] delta: expected a number < 1, got 1"),
        (
            changed("privacy", accountant="rdp"),
            "plan: [privacy] accountant: expected one of 'basic', 'basic-analytic', 'advanced', 'zcdp', "
            "'renyi', 'gaussian-dp', 'per-record', 'laplace' or 'optimal', got 'rdp'",
        ),
        (
            changed("privacy", epsilon=None),
            "plan: expected [privacy] epsilon, or noise_stddev for every release, got neither "
            "for release 'mean'",
        ),
        (
            changed("privacy", delta=None),
            "plan: expected [privacy] delta, got none; give one far below one over the number of records, or "
            "use accountant = 'laplace'",
        ),
        (changed("release", times=0), "plan: release 'mean' times: expected a number >= 1, got 0"),
        (changed("release", name=None), "plan: release number 1 name: expected a value, got nothing"),
        (
            changed("release", tmes=2),
            "plan: release 'mean' tmes: expected a field that exists, got 'tmes'; did you mean 'times'?",
        ),
        (
            {**GOOD, "release": GOOD["release"] * 2},
            "plan: expected a name of its own for each release, got 'mean' twice; for copies of one "
            "query use times",
        ),
        (
            {**GOOD, "release": []},
            "plan: expected at least one release, got none; add a section [[release]] with its name and sql",
        ),
        (
            {"data": GOOD["data"]},
            "plan: expected at least one release, got none; add a section [[release]] with its name and sql",
        ),
        ({**GOOD, "release": [3]}, "plan: release number 1: expected a section, got 3"),
        (
            {**GOOD, "relaese": 1},
            "plan: [relaese]: expected a field that exists, got 'relaese'; did you mean 'release'?",
        ),
        ({**GOOD, "data": 1}, "plan: [data]: expected a section, got 1"),
        ({}, "plan: [data]: expected a value, got nothing"),
        (
            {**GOOD, "attacker": {"knows": ["", 1]}},
            "plan: [attacker] knows number 1: expected text, not an empty string, got ''",
        ),
        (
            {**GOOD, "limits": {"remaining_uncertainty": "150%"}},
            "plan: [limits] remaining_uncertainty: expected a limit of at most 99.9%, got '150%'; that "
            "all of it remains can never be shown",
        ),
        (
            {**GOOD, "limits": {"remaining_uncertainty": 50}},
            "plan: [limits] remaining_uncertainty: expected a limit of at most 99.9%, got 50; for 50 % write "
            '"50%"',
        ),
        (
            {**GOOD, "limits": {"remaining_uncertainty": "half%"}},
            "plan: [limits] remaining_uncertainty: expected a number, got 'half%'",
        ),
        (
            {**GOOD, "data": {**GOOD["data"], "source": {"long": "x" * 100}}},
            "plan: [data] source: expected text in quotes, got a section",
        ),
        (
            {**GOOD, "data": {**GOOD["data"], "max_rows_per_record": 10**5000}},
            "plan: [data] max_rows_per_record: expected a number <= 1e+09, "
            "got a whole number of more than 60 digits",
        ),
        (
            {**GOOD, "data": {**GOOD["data"], "bounds": "x" * 100}},
            f"plan: [data] bounds: expected a list, got '{'x' * 56}…",
        ),
    ],
)
def test_each_mistake_is_one_line(plan: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidPlan) as raised:
        read_plan(plan)
    assert str(raised.value) == message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[data\n", "plan.toml: expected TOML, got a file that is not"),
        (b"\xff\xfe", "expected a plan file in UTF-8, got other bytes in 'plan.toml'"),
        (b"a = " + b"[" * 5000, "plan.toml: expected TOML, got a file that is not"),
        (b"#" * 4_000_001, "expected a plan file of at most 4,000,000 bytes, got more"),
        (b"", "plan.toml: [data]: expected a value, got nothing"),
    ],
)
def test_what_is_not_a_plan_file(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan) as raised:
        read_plan(written(tmp_path, content))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan, match="no such file or directory; sightline init TABLE writes one"):
        read_plan(tmp_path / "none.toml")
    with pytest.raises(InvalidPlan, match=r"expected a plan file, got .*: is a directory"):
        read_plan(tmp_path)
    with pytest.raises(InvalidPlan, match="not a path"):
        read_plan("a\0b")


@pytest.mark.parametrize(("limit", "share"), [("25%", 0.25), ("0.25", 0.25), (0.25, 0.25)])
def test_a_limit_can_be_given_apart(limit: float | str, share: float) -> None:
    plan, _ = read_plan(GOOD)
    assert with_limit(plan, limit).limits.remaining_uncertainty == share
    assert plan.limits.remaining_uncertainty == 0


@pytest.mark.parametrize("limit", ["", "x", "99.95%", 0, -1, "nan", 2, "0%"])
def test_a_limit_that_is_none(limit: float | str) -> None:
    plan, _ = read_plan(GOOD)
    with pytest.raises(InvalidPlan, match="limit: expected a "):
        with_limit(plan, limit)


# ------------------------------------------------------------------ no traceback ever


def read_or_refuse(plan: object) -> None:
    message = ""
    try:
        read_plan(plan)  # type: ignore[arg-type]
    except SightlineError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 1000


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    read_or_refuse(written(tmp_path_factory.mktemp("fuzz"), content))


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    ["data", "privacy", "release", "attacker", "limits", "source", "bounds", "times", "name", "sql", "kind"]
)


@given(st.dictionaries(fields | st.text(max_size=10), values, max_size=6))
def test_no_mapping_breaks_the_reader(plan: dict[str, object]) -> None:
    read_or_refuse(plan)


@given(
    section=st.sampled_from(["data", "privacy", "release", "attacker", "limits"]),
    field=fields | st.sampled_from(["epsilon", "delta", "accountant", "categories", "tables", "knows"]),
    value=values,
)
def test_no_changed_field_breaks_the_reader(section: str, field: str, value: object) -> None:
    plan = copy.deepcopy(GOOD)
    place = plan["release"][0] if section == "release" else plan.setdefault(section, {})
    place[field] = value
    read_or_refuse(plan)


@given(
    start=st.integers(0, len(PLAN)),
    length=st.integers(0, 30),
    extra=st.text(alphabet='[]{}"=\n\\x0.,#', max_size=5),
)
def test_no_damaged_file_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, start: int, length: int, extra: str
) -> None:
    damaged = PLAN[:start] + extra + PLAN[start + length :]
    read_or_refuse(written(tmp_path_factory.mktemp("fuzz"), damaged))


@pytest.mark.parametrize(("limit", "share"), [("99.9%", 0.999), ("50 %", 0.5), ("0.1%", 0.001), (0.25, 0.25)])
def test_a_limit_in_per_cent_is_the_number_that_it_says(limit: object, share: float) -> None:
    content = {**GOOD, "limits": {"remaining_uncertainty": limit}}
    assert read_plan(content)[0].limits.remaining_uncertainty == share


# ------------------------------------------------------------------ the published schema


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "plan.schema.json").read_text(encoding="utf-8"))
    assert published == plan_schema(), "run: python docs/plan_page.py"


def test_every_field_of_the_schema_is_described() -> None:
    schema = plan_schema()
    sections = {name: one for name, one in schema["$defs"].items() if "properties" in one}
    for name, section in sections.items():
        for field, about in section["properties"].items():
            assert about.get("description"), f"{name}.{field}"
        assert section["additionalProperties"] is False


def test_the_page_of_the_plan_is_written_from_the_schema() -> None:
    writer = runpy.run_path(str(ROOT / "docs" / "plan_page.py"))
    page = writer["PAGE"].read_text(encoding="utf-8")
    assert page == writer["plan_page"](plan_schema()), "run: python docs/plan_page.py"
    for section in plan_schema()["$defs"].values():
        for field in [*section.get("properties", ()), *section.get("enum", ())]:
            assert f"`{field}`" in page, field


def test_every_assumption_is_explained() -> None:
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    named = " ".join(re.findall(r"^\|([^|]*)\|[^|]*\|[^|]*\|$", page, flags=re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", named)) >= {name.value for name in AssumptionName}


def test_a_dumped_plan_is_the_same_plan() -> None:
    plan, _ = read_plan(GOOD)
    content = plan.model_dump(mode="python", by_alias=True)
    assert Plan.model_validate(content) == plan


@pytest.mark.parametrize("name", ["homes.csv", "homes.PARQUET", "homes.csv.gz", "grid.duckdb"])
def test_a_table_is_not_a_plan(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("home,watts\nA,1\n")
    with pytest.raises(
        InvalidPlan, match=r"expected a plan file, got the table .*; sightline init .* writes"
    ):
        read_plan(tmp_path / name)


@pytest.mark.parametrize("limit", ["99.95%", "150%", 0.9995, 1])
def test_more_than_can_be_proven_to_remain_is_no_limit(limit: float | str) -> None:
    with pytest.raises(
        InvalidPlan, match=r"^limit: .* at most 99\.9%, .*; that all of it remains can never be shown$"
    ):
        with_limit(read_plan(GOOD)[0], limit)


@pytest.mark.parametrize("limit", ["50", 50.0, 50])
def test_a_percentage_without_its_sign_is_told_from_a_number_in_the_unit(limit: float | str) -> None:
    with pytest.raises(InvalidPlan, match=r'"±50".*got 50; for 50 % write "50%"$'):
        with_limit(read_plan(GOOD)[0], limit)


@pytest.mark.parametrize("section", ["privacy", "attacker", "limits", "rules"])
def test_a_section_that_is_left_out_is_as_an_empty_one(section: str) -> None:
    left_out = Plan.model_fields[section].default
    assert left_out == type(left_out).model_validate({})
