"""A population that a plan states: its file, what the verdict says of it, and what remains under it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.plan_fields import Population
from sightline.auditing.reading import files_read, plan_text, read_plan
from sightline.errors import InvalidPlan
from tests.auditing import fuzz_crossings
from tests.auditing.crossings import POPULATION, drawn
from tests.numbered_cases import trials

GOOD = "low,high,weight\n0,20,3\n20,100,1\n"


def plan(folder: Path, text: str | None = GOOD, *, noise: float = 60.0, **data: Any) -> Path:
    """A plan in a folder of its own, beside its population."""
    (folder / "people.csv").write_text(
        "who,area,x\n" + "".join(f"P{n},{'uv'[n % 2]},{(37 * n) % 101}\n" for n in range(40))
    )
    if text is not None:
        (folder / "population.csv").write_text(text)
    data = {"source": "people.csv", "record": "who", "secret": "x", "bounds": [0, 100], **data}
    lines = "\n".join(f"{name} = {value!r}" for name, value in data.items())
    path = folder / "plan.toml"
    path.write_text(
        f"[data]\n{lines}\n[attacker]\nprior = 'population.csv'\n[[release]]\nname = 'sums'\n"
        "sql = 'SELECT area, SUM(x) AS n FROM data GROUP BY area'\n"
        f"noise_stddev = {noise}\n"
        "[limits]\nremaining_uncertainty = 0.3\n"
    )
    return path


class TestAudit:
    def test_what_remains_is_said_to_be_an_average_over_it(self, tmp_path: Path) -> None:
        result = sl.audit(plan(tmp_path))
        assert result.prior == "values spread as in population.csv from 0 to 100"
        assert "On average over values spread as in population.csv from 0 to 100" in result.verdict.text
        assert result.verdict.passed

    def test_before_the_releases_its_own_standard_deviation_is_known(self, tmp_path: Path) -> None:
        result = sl.audit(plan(tmp_path))
        mean = 0.75 * 10 + 0.25 * 60
        variance = 0.75 * (10**2 + 20**2 / 12) + 0.25 * (60**2 + 80**2 / 12) - mean**2
        assert result.sharpest is not None
        assert result.sharpest.before == pytest.approx(math.sqrt(variance), rel=1e-9)

    def test_its_file_is_found_beside_the_plan_and_written_back(self, tmp_path: Path) -> None:
        path = plan(tmp_path)
        checked, _ = read_plan(path)
        assert checked.attacker.prior == Population("population.csv", ((0.0, 20.0, 3.0), (20.0, 100.0, 1.0)))
        assert 'prior = "population.csv"' in plan_text(checked)
        assert tmp_path / "population.csv" in files_read(path)

    def test_it_does_not_silence_few_values(self, tmp_path: Path) -> None:
        """Every value is 0 or 100. An attacker who knows that rounds, whatever the histogram says."""
        path = plan(tmp_path, noise=20.0)
        people = [f"P{n},{'uvwxyz'[n % 6]},{100 * (n % 4 == 0)}" for n in range(48)]
        (tmp_path / "people.csv").write_text("\n".join(["who,area,x", *people, ""]))
        names = {one.name.value for one in sl.audit(path).unverified}
        assert "few_values" in names

    def test_values_that_it_gives_no_weight_are_said_to_the_owner(self, tmp_path: Path) -> None:
        result = sl.audit(plan(tmp_path, "low,high,weight\n0,20,3\n60,100,1\n"), full=True)
        between = sum(20 < (37 * n) % 101 < 60 for n in range(40))
        (line,) = (one for one in result.looks_odd or () if "population.csv" in one)
        assert line.startswith(f"{between} rows hold values that population.csv gives no weight.")
        assert "no weight" not in result.publishable().to_json()
        assert not any("population.csv" in one for one in sl.audit(plan(tmp_path), full=True).looks_odd or ())

    def test_a_limit_in_the_secrets_unit(self, tmp_path: Path) -> None:
        checked, _ = read_plan(plan(tmp_path))
        before = math.sqrt(checked.attacker.prior.prior((0.0, 100.0)).variance)  # type: ignore[union-attr]
        with pytest.raises(InvalidPlan, match="known_to of at most"):
            sl.audit(plan(tmp_path), limit=f"±{before + 1:.1f}")
        assert sl.audit(plan(tmp_path), limit="±5").verdict.passed

    @pytest.mark.slow
    def test_a_rehearsal_draws_from_it(self, tmp_path: Path) -> None:
        found = sl.rehearse(plan(tmp_path), repetitions=400, seed=3)
        linear = [one for one in found.guesses if one.attack.value == "best linear"]
        assert linear
        for one in linear:
            assert one.stated_mse is not None
            assert abs(one.mse - one.stated_mse) < 4 * one.mse_error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "expected [attacker] prior: 'population.csv': a CSV file, got "),
        ("", "the columns low, high and weight, once each, got an empty file"),
        ("low,high\n0,1\n", "got a header without weight"),
        ("low,high,weight,low\n0,1,1,1\n", "got a header without low"),
        ("low,high,weight\n", "2 to 1,000 bins of a weight above 0, got 0"),
        ("low,high,weight\n0,100,1\n", "2 to 1,000 bins of a weight above 0, got 1"),
        ("low,high,weight\n0,50,0\n50,100,1\n", "2 to 1,000 bins of a weight above 0, got 1"),
        ("low,high,weight\n0,50,1\n50,100,-1\n", "line 3: a weight >= 0, got -1"),
        ("low,high,weight\n0,50,1\n50,100,nan\n", "line 3: finite numbers, got 'nan'"),
        ("low,high,weight\n0,50,1\n50,inf,1\n", "line 3: finite numbers, got 'inf'"),
        ("low,high,weight\n0,50,1\n50,many,1\n", "line 3: finite numbers, got 'many'"),
        ("low,high,weight\n0,50,1\n50\n", "line 3: a low, a high and a weight, got fewer"),
        ("low,high,weight\n50,0,1\n50,100,1\n", "line 2: low <= high, got 50 and 0"),
        ("low,high,weight\n0,60,1\n50,100,1\n", "bins that do not overlap, got those of lines 2 and 3"),
        ("low,high,weight\n5,5,1\n5,5,1\n", "bins that do not overlap, got those of lines 2 and 3"),
        (
            "low,high,weight\n-1,50,1\n50,100,1\n",
            "line 2: a bin within the bounds of the secret, 0 to 100, got -1 to 50",
        ),
        ("low,high,weight\n5,5,1\n5.000001,5.000001,1\n", "values that differ by a millionth of the bounds"),
        ('low,high,weight\n"0,50,1\n', "a CSV file, got a file that is no CSV"),
    ],
)
def test_a_bad_file_is_one_clear_line(text: str | None, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan) as refused:
        sl.audit(plan(tmp_path, text))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


class TestRefused:
    def content(self, **attacker: Any) -> dict[str, Any]:
        return {
            "data": {"source": "people.csv", "record": "who", "secret": "x", "kind": "boolean"},
            "attacker": {"prior": "population.csv", **attacker},
            "release": [{"name": "n", "sql": "SELECT COUNT(*) FROM data WHERE x", "noise_stddev": 3}],
        }

    def test_for_a_yes_or_no(self) -> None:
        with pytest.raises(InvalidPlan, match="population for a number that is the only secret, got a bool"):
            read_plan(self.content())

    def test_beside_values_within(self) -> None:
        content = self.content(values_within=2.0)
        content["data"] |= {"kind": "number", "bounds": [0, 10]}
        with pytest.raises(InvalidPlan, match="population, or values_within, got both"):
            read_plan(content)

    def test_an_address(self) -> None:
        content = self.content()
        content["data"] |= {"kind": "number", "bounds": [0, 10]}
        content["attacker"]["prior"] = "https://example.org/population.csv"
        with pytest.raises(InvalidPlan, match="a CSV file, got an address"):
            read_plan(content)

    def test_a_prior_that_is_none(self) -> None:
        with pytest.raises(InvalidPlan, match="two-point', a CSV file"):
            read_plan(self.content(prior="normal"))


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_what_is_said_of_crossed_plans_is_true_under_it(seed: int) -> None:
    """Weights, known records, laws and several rows, against enumeration and quadrature of its nodes."""
    count = Counter[str]()
    for place in (cases := trials(14)):
        crossing = drawn(Random(100 * seed + place))
        if crossing.kind != "number":
            continue
        attacker = {**crossing.plan["attacker"], "prior": POPULATION}
        changed = replace(crossing, plan={**crossing.plan, "attacker": attacker})
        fuzz_crossings.check_crossing(changed, np.random.default_rng(place), count)
    assert count["brackets"] > 3 * len(cases) / 14
