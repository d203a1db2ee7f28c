"""The shipped examples: their exact verdicts, computed again from the tables, and their provenance."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path
from random import Random

import duckdb
import flint
import numpy as np
import pytest
from pyarrow import parquet

import sightline as sl
from sightline.auditing.reading import read_plan
from sightline.errors import InvalidInput
from sightline.examples.shipped import EXAMPLES, example_plan
from tests.auditing.example_tables import HOURS, TABLES, readings, table_text

ROOT = Path(__file__).parents[2]


def homes() -> list[dict[str, str]]:
    with (example_plan("microgrid").parent / "homes.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def microgrid_rows() -> tuple[list[str], np.ndarray]:
    """The numbers that the micro-grid publishes and who is in each, read off the table by hand."""
    table = homes()
    months = ("January", "February", "March", "April", "May", "June")
    named = [
        (month, [h["joined"] <= f"2016-{number:02d}" for h in table])
        for number, month in enumerate(months, start=1)
    ]
    for column in ("feeder", "tariff"):
        for value in sorted({h[column] for h in table}):
            named.append((f"by {column}: {value}", [h[column] == value for h in table]))
    return [name for name, _ in named], np.array([row for _, row in named], dtype=int)


def exactly_identifiable(rows: np.ndarray) -> list[int]:
    rank = flint.fmpz_mat(rows.tolist()).rank()
    unit = np.eye(rows.shape[1], dtype=int)
    return [
        j for j in range(rows.shape[1]) if flint.fmpz_mat(np.vstack([rows, unit[j]]).tolist()).rank() == rank
    ]


@pytest.fixture(scope="module")
def microgrid() -> sl.AuditResult:
    return sl.audit(example_plan("microgrid"), names=True, full=True)


@pytest.fixture(scope="module")
def survey() -> sl.AuditResult:
    return sl.audit(example_plan("health_survey"), full=True)


def test_two_homes_are_identifiable_and_no_other(microgrid: sl.AuditResult) -> None:
    _, rows = microgrid_rows()
    exposed = {homes()[j]["home"] for j in exactly_identifiable(rows)}
    assert exposed == {"H13", "H16"}
    assert {one.record for one in microgrid.exposed if one.identifiable and one.size == 1} == exposed
    assert microgrid.identifiable_records == 2
    assert microgrid.rank == flint.fmpz_mat(rows.tolist()).rank()


def test_their_errors_are_those_of_least_squares(microgrid: sl.AuditResult) -> None:
    _, rows = microgrid_rows()
    means = rows / rows.sum(axis=1, keepdims=True)
    for one in microgrid.exposed[:2]:
        target = [h["home"] for h in homes()].index(one.record or "")
        weights = np.linalg.lstsq(means.T / 10, np.eye(18)[target], rcond=None)[0]  # least norm, noise 10 W
        np.testing.assert_allclose(means.T / 10 @ weights, np.eye(18)[target], atol=1e-9)
        assert one.rmse == pytest.approx(float(np.linalg.norm(weights)), rel=1e-9)


def test_the_recipes_give_the_loads_of_the_table(microgrid: sl.AuditResult) -> None:
    names, rows = microgrid_rows()
    loads = np.array([float(h["evening_watts"]) for h in homes()])
    published = dict(zip(names, rows @ loads / rows.sum(axis=1), strict=True))
    for one in microgrid.exposed[:2]:
        assert one.recipe is not None
        assert one.shortest is not None
        for recipe in (one.recipe, one.shortest):
            total = sum(
                step.weight * published[f"{step.release}: {step.cell}" if step.cell else step.release]
                for step in recipe.steps
            )
            truth = loads[[h["home"] for h in homes()].index(one.record or "")]
            assert total == pytest.approx(truth, abs=1e-6)
    shortest = microgrid.exposed[0].shortest
    assert shortest is not None
    assert shortest.rmse == pytest.approx(10 * math.hypot(13, 12))


def test_the_loads_are_real_and_the_rest_is_said_to_be_made_up() -> None:
    for name in EXAMPLES:
        provenance = (example_plan(name).parent / "PROVENANCE.md").read_text(encoding="utf-8")
        assert provenance.startswith("# Where these data come from")
    text = (example_plan("microgrid").parent / "PROVENANCE.md").read_text(encoding="utf-8")
    assert "made up by us" in text
    assert "Apache-2.0" in text
    assert len(homes()) == 18


@pytest.mark.slow
def test_nobody_is_named_unless_asked(survey: sl.AuditResult) -> None:
    assert all(one.record is None for one in survey.exposed)
    anonymous = sl.audit(example_plan("microgrid"), full=True)
    assert all(one.record is None for one in anonymous.exposed)
    assert "H13" not in anonymous.to_json()


def survey_rows() -> np.ndarray:
    """One row for every group of every breakdown, over the people with a body mass index."""
    plan, base = read_plan(example_plan("health_survey"))
    source = base / plan.data.source
    rows = []
    for release in plan.releases:
        keys = release.sql.split("GROUP BY")[1]
        ranked = (
            f"SELECT person, DENSE_RANK() OVER (ORDER BY {keys}) AS g FROM '{source}' WHERE bmi IS NOT NULL"
        )
        found = duckdb.execute(f"SELECT g FROM ({ranked}) ORDER BY person").fetchall()
        group = np.array([g for (g,) in found])
        rows += [group == value for value in np.unique(group)]
    return np.array(rows)


@pytest.mark.slow
def test_the_survey_is_decided_exactly(survey: sl.AuditResult) -> None:
    rows = survey_rows()
    assert survey.cells == len(rows)
    # Signatures instead of people: equal columns, with their number. Exact rank modulo two large primes.
    columns, counts = np.unique(rows, axis=1, return_counts=True)
    assert survey.signatures == columns.shape[1]
    products = (columns.astype(float) * counts) @ columns.T.astype(float)
    for prime in (4611686018427387847, 2305843009213693951):
        reduced = flint.nmod_mat(*products.shape, [int(x) for x in products.ravel()], prime)
        assert survey.rank == reduced.rank()
    # Who is identifiable: leverage one, where no other is near it.
    leverage = counts * np.einsum("ij,ij->j", columns, np.linalg.pinv(products) @ columns)
    alone = leverage[counts == 1]
    assert np.count_nonzero(alone > 1 - 1e-9) == survey.identifiable_records == 7
    assert not np.any((alone > 1 - 1e-3) & (alone < 1 - 1e-9))


def test_both_examples_read_as_plans_and_have_what_they_promise(survey: sl.AuditResult) -> None:
    assert len(survey.releases) == 12
    assert survey.verdict.passed is True
    assert survey.records == 5175
    assert survey.dropped == 90
    for name in EXAMPLES:
        plan, base = read_plan(example_plan(name))
        assert (base / plan.data.source).exists()
    sizes = [p.stat().st_size for name in EXAMPLES for p in example_plan(name).parent.iterdir()]
    assert sum(sizes) < 500_000, "small enough to ship: a year of hourly readings is most of it"


@pytest.mark.parametrize("name", TABLES)
def test_the_made_up_tables_are_drawn_again(name: str) -> None:
    folder = example_plan(name).parent
    assert (folder / TABLES[name][0]).read_text(encoding="utf-8") == table_text(name)
    assert "made up by us" in (folder / "PROVENANCE.md").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_the_readings_of_a_year_are_drawn_again() -> None:
    header, *rows = readings(Random("sightline readings"))
    shipped = parquet.read_table(example_plan("readings").parent / "readings.parquet").to_pylist()
    drawn = [dict(zip(header, row, strict=True)) for row in rows]
    drawn.sort(key=lambda row: (row["hour"], row["home"]))
    assert shipped == drawn
    assert 20 * 8_000 < len(drawn) < 20 * 8_760  # one home joined later, and meters fail


@pytest.mark.parametrize("name", TABLES)
def test_the_page_of_five_tables_shows_the_plans_that_ship(name: str) -> None:
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    schema, plan = example_plan(name).read_text(encoding="utf-8").split("\n", maxsplit=1)
    assert schema == "#:schema ./plan.schema.json"
    assert "\n[data]\n" in plan
    shown = example_plan(name).relative_to(ROOT).as_posix()
    assert f"```{{literalinclude}} ../{shown}\n" in page


@pytest.mark.slow
def test_the_meters_rows_are_those_of_a_hand_made_long_table(tmp_path: Path) -> None:
    """The numbers of the wide example, from a long table that this test makes by itself."""
    plan, base = read_plan(example_plan("meters"))
    with (base / "meters.csv").open(encoding="utf-8") as file:
        wide = list(csv.DictReader(file))
    lines = ["home,feeder,tariff,hour,kwh"]
    for row in wide:
        lines += [f"{row['home']},{row['feeder']},{row['tariff']},{h},{row[h]}" for h in HOURS]
    (tmp_path / "long.csv").write_text("\n".join(lines) + "\n")
    data = plan.data.model_copy(update={"source": str(tmp_path / "long.csv"), "sql": None})
    long = sl.audit(plan.model_copy(update={"data": data}))
    own = {"source", "table_digest", "plan", "plan_name", "publishable_plan"}
    ours, by_hand = (one.model_dump(exclude=own) for one in (sl.audit(example_plan("meters")), long))
    made = [line for line in ours.pop("assumptions") if line not in by_hand["assumptions"]]
    assert len(made) == 1
    assert "[data] sql makes" in made[0]
    totals = [one.pop("true_totals") for one in (ours, by_hand)]  # added up in another order
    assert totals[0] == pytest.approx(totals[1])
    assert ours == {name: value for name, value in by_hand.items() if name != "assumptions"}


def test_an_example_that_does_not_exist() -> None:
    with pytest.raises(
        InvalidInput,
        match=f"one of {', '.join(EXAMPLES)}, got 'nothing'",
    ):
        example_plan("nothing")


@pytest.mark.slow
def test_the_order_of_releases_changes_what_is_new_but_not_what_is_seen(microgrid: sl.AuditResult) -> None:
    plan, base = read_plan(example_plan("microgrid"))
    turned = plan.model_copy(
        update={
            "releases": plan.releases[::-1],
            "data": plan.data.model_copy(update={"source": str(Path(base / plan.data.source).resolve())}),
        }
    )
    again = sl.audit(turned, names=True, full=True)
    assert again.identifiable_records == microgrid.identifiable_records
    for one, other in itertools.zip_longest(again.exposed, microgrid.exposed):
        assert one.record == other.record
        assert one.remaining_uncertainty.lower == pytest.approx(other.remaining_uncertainty.lower, rel=1e-9)
    assert [r.newly_exposes for r in again.releases] != [r.newly_exposes for r in microgrid.releases]


def test_the_rounded_frequency_table_tells_a_group_of_three() -> None:
    with (example_plan("frequency").parent / "people.csv").open(encoding="utf-8") as file:
        people = list(csv.DictReader(file))
    result = sl.audit(example_plan("frequency"), names=True)
    few = [one for one in people if (one["age"], one["origin"]) == ("25-34", "west")]
    assert result.certain is not None
    assert {key for group in result.certain.groups for key in group.records} == {one["person"] for one in few}
    assert {one["employed"] for one in few} == {"yes"}
    assert len(few) == 3  # published as 5, which is 3 to 7


def test_blanks_of_the_discharges_break_the_rule_by_what_is_left_of_a_group() -> None:
    with (example_plan("discharges").parent / "discharges.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    result = sl.audit(example_plan("discharges"))
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row["age_group"], row["month"]), []).append(row["diagnosis"])
    small = [
        (group, name)
        for group, held in groups.items()
        for name in set(held)
        if held.count(name) >= 5 > len(held) - held.count(name)
    ]
    assert result.rules is not None
    texts = [one.text for one in result.rules.broken]
    for (age, month), name in small:
        assert any(f"by age and month: {age}, {month}, {name}" in text for text in texts)
    assert result.certain is not None
    assert result.certain.people == 0
