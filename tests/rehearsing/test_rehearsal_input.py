"""The noise of a rehearsal, its command, bad input, surprises."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sightline.auditing.findings import find
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.cli import main
from sightline.errors import InvalidInput, InvalidPlan, TooMuchWork
from sightline.examples.shipped import example_plan
from sightline.rehearsing import publication, run
from sightline.rehearsing.publication import Truth, published_means
from sightline.rehearsing.result import AttackKind, Coverage, Guess, Rehearsal
from sightline.rehearsing.run import rehearse
from tests.rehearsing import rehearsal_plans
from tests.rehearsing.rehearsal_plans import PLANS


class TestPublication:
    def test_what_is_not_linear_in_the_secret_is_not_rehearsed(self, tmp_path: Path) -> None:
        plan = PLANS["number"](tmp_path)
        for sql in (
            "SELECT COUNT(*) FROM data WHERE watts BETWEEN 20 AND 50",
            "SELECT SUM(LEAST(watts, 50)) FROM data",
            "SELECT AVG(watts * watts) FROM data",
            "SELECT COUNT(*) FROM data WHERE watts > 50",
        ):
            plan["release"][0]["sql"] = sql
            with pytest.raises(InvalidPlan, match="a band or a clipped sum in"):
                rehearse(plan, seed=2, repetitions=20)

    def test_correlated_noise_has_its_law(self, tmp_path: Path) -> None:
        plan = rehearsal_plans.number_plan(tmp_path)
        np.save(tmp_path / "C.npy", np.linalg.inv(np.linalg.cholesky([[4.0, 3.6], [3.6, 4.0]])))
        noise = {"mechanism": str(tmp_path / "C.npy"), "stddev": 1.0}
        sql = "SELECT home = 'H7', SUM(watts) FROM data GROUP BY home = 'H7'"
        plan["release"] = [{"name": "in twos", "sql": sql, "noise": noise}]
        chances = []
        for seed in range(200):
            checked, base = read_plan(plan)
            if not seed:
                with opened(checked, base) as session:
                    findings = find(checked, session.membership())
                    truth = Truth.of(session, findings).answers
            apart = published_means(findings, truth, np.random.default_rng(seed)) - truth
            chances.append(chi2.sf(apart @ np.linalg.solve([[4.0, 3.6], [3.6, 4.0]], apart), 2))
        # Uniform: Kolmogorov's bound for 200 draws at a false alarm rate of one in ten thousand.
        away = np.abs(np.sort(chances) - (np.arange(200) + 0.5) / 200).max()
        assert away < 2.23 / math.sqrt(200)


@pytest.mark.slow
class TestCommand:
    def test_it_is_marked_and_its_files_are_the_owners(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        figure = tmp_path / "figure.svg"
        options = ["--figure", str(figure), "--repetitions", "100"]
        assert main(["rehearse", str(example_plan("microgrid")), *options]) == 0
        printed = capsys.readouterr()
        assert "FOR THE OWNER OF THE TABLE ONLY" in printed.out
        assert "H13" in printed.out
        assert "H13" not in printed.err
        assert stat.S_IMODE(figure.stat().st_mode) == 0o600
        assert "For the owner of the table only" in figure.read_text()
        assert main(["rehearse", str(example_plan("microgrid")), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["owner_only"] is True
        assert document["agrees"] is True
        assert {guess["attack"] for guess in document["guesses"]} == {"best unbiased", "best linear"}

    def test_existing_files_are_kept(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "figure.svg"
        path.write_text("mine")
        assert main(["rehearse", str(example_plan("microgrid")), "--figure", str(path)]) == 1
        assert "which exists" in capsys.readouterr().err
        assert path.read_text() == "mine"

    def test_a_notebook_says_whose_it_is(self) -> None:
        shown = rehearse(example_plan("microgrid"), repetitions=20, top=2)._repr_html_()
        assert shown is not None
        assert "FOR THE OWNER OF THE TABLE ONLY" in shown


class TestBadInput:
    def test_options(self, tmp_path: Path) -> None:
        plan = rehearsal_plans.number_plan(tmp_path)
        for wrong in ({"seed": -1}, {"repetitions": 19}, {"top": 0}):
            with pytest.raises(InvalidInput):
                rehearse(plan, **wrong)  # type: ignore[arg-type]

    def test_nothing_that_depends_on_the_secret(self, tmp_path: Path) -> None:
        plan = rehearsal_plans.number_plan(tmp_path)
        plan["release"] = [{"name": "count", "sql": "SELECT COUNT(*) FROM data", "noise_stddev": 1.0}]
        with pytest.raises(InvalidPlan, match="a published number that depends on the secret"):
            rehearse(plan)

    def test_an_attacker_who_knows_everyone(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidPlan, match="a secret that the attacker does not know"):
            rehearse(rehearsal_plans.number_plan(tmp_path, attacker={"knows": ["1 = 1"]}))

    def test_values_that_are_known_to_within_a_number(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidPlan, match="got values_within"):
            rehearse(rehearsal_plans.number_plan(tmp_path, attacker={"values_within": 5.0}))

    def test_noise_of_another_law(self, tmp_path: Path) -> None:
        plan = rehearsal_plans.yes_or_no_plan(tmp_path)
        noise = {"law": "geometric", "stddev": 2.0}
        plan["release"] = [{**one, "noise": noise} for one in plan["release"]]
        with pytest.raises(InvalidPlan, match="got the law 'geometric'"):
            rehearse(plan)

    def test_several_rows_of_one_value(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.csv"
        path.write_text("home,day,watts\n" + "".join(f"H{i},{d},{i}.5\n" for i in range(4) for d in range(2)))
        data = {"source": str(path), "record": "home", "secret": "watts", "bounds": [0, 9]}
        data |= {"max_rows_per_record": 2, "values": "constant"}
        release = {
            "name": "days",
            "sql": "SELECT day, SUM(watts) FROM data GROUP BY day",
            "noise_stddev": 1.0,
        }
        with pytest.raises(InvalidPlan, match='got values = "constant"'):
            rehearse({"data": data, "release": [release]})
        rows = rehearse({"data": {**data, "values": "independent"}, "release": [release]}, repetitions=20)
        assert "at the combination of a record's rows" in rows.notes[0]

    def test_too_much_work(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plan = rehearsal_plans.number_plan(tmp_path)
        monkeypatch.setattr(publication, "AT_A_TIME", 3)
        with pytest.raises(TooMuchWork, match="at most 3 published numbers"):
            rehearse(plan)
        monkeypatch.setattr(run, "MOST_SQUARE", 3)
        with pytest.raises(TooMuchWork, match="rehearse some of the releases"):
            rehearse(plan)

    def test_a_large_table_is_repeated_less_often(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run, "_MOST_DRAWS", 12 * 30)
        result = rehearse(rehearsal_plans.number_plan(tmp_path), repetitions=40)
        assert {g.repetitions for g in result.guesses if g.attack is AttackKind.LINEAR} == {30}
        assert "repeated 30 times" in result.notes[0]


class TestSurprises:
    def guess(self, **changes: Any) -> Guess:
        given: dict[str, Any] = {
            "attack": AttackKind.UNBIASED,
            "record": "H1",
            "what": "watts",
            "alike": 1,
            "truth": 0.0,
            "guess": 0.1,
            "standard_error": 1.0,
            "interval": (-1.9, 2.1),
            "coverage": Coverage.EXACT,
            "repetitions": 2000,
            "covered": 1900,
            "mse": 1.0,
            "mse_error": 0.03,
            "stated_mse": 1.0,
            "bracket": None,
        }
        return Guess(**(given | changes))

    def surprises(self, **changes: Any) -> int:
        result = Rehearsal(
            source="t.csv",
            record="home",
            secret="watts",
            kind="number",
            bounds=(0.0, 1.0),
            prior="",
            seed=0,
            numbers=1,
            guesses=(self.guess(**changes),),
            notes=(),
        )
        return len(result.surprises)

    def test_what_agrees_is_none(self) -> None:
        assert self.surprises() == 0
        assert self.surprises(coverage=Coverage.AT_LEAST, covered=2000) == 0
        assert self.surprises(coverage=Coverage.AT_LEAST, covered=2000, repetitions=500, mse=2.0) == 0

    def test_what_differs_is_one(self) -> None:
        assert self.surprises(covered=1850) == 1
        assert self.surprises(covered=1950) == 1
        assert self.surprises(coverage=Coverage.AT_LEAST, covered=1850) == 1
        assert self.surprises(mse=1.2) == 1
        assert self.surprises(coverage=Coverage.AT_LEAST, covered=2000, mse=1.2) == 1
