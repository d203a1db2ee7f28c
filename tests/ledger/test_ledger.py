"""A ledger answers as one audit of everything would; its files cannot change unseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sightline as sl
from sightline.cli import main
from sightline.errors import DamagedLedger, InvalidInput, SightlineError
from sightline.jobs.audit import compare
from sightline.ledger.book import Ledger
from sightline.ledger.decision import lines

HEAD = """[data]
source = "now.parquet"
record = "home"
secret = "watts"
bounds = [0, 9000]

[limits]
remaining_uncertainty = 0.5
"""
MEANS = {
    "name": "by feeder",
    "sql": "SELECT feeder, AVG(watts) FROM data GROUP BY feeder",
    "noise_stddev": 900.0,
}
TOTAL = {"name": "total", "sql": "SELECT SUM(watts) FROM data", "noise_stddev": 20000.0}


def written(path: Path, columns: dict[str, Any]) -> Path:
    """A Parquet file."""
    with duckdb.connect() as connection:
        connection.register("columns", columns)
        path.unlink(missing_ok=True)
        connection.execute(f"COPY (SELECT * FROM columns) TO '{path}' (FORMAT parquet)")
    return path


def month(folder: Path, homes: list[str], feeders: list[str], watts: list[float], name: str = "now") -> Path:
    """A month's table."""
    columns = {
        "home": np.array(homes, dtype=object),
        "feeder": np.array(feeders, dtype=object),
        "watts": np.array(watts, dtype=float),
    }
    return written(folder / f"{name}.parquet", columns)


def started(folder: Path, *, head: str = HEAD, values: str = "one") -> Ledger:
    """A ledger for five homes on two feeders."""
    month(folder, list("abcde"), list("NNNSS"), [100.0, 900.0, 4000.0, 7000.0, 8800.0])
    (folder / "head.toml").write_text(head)
    (folder / "key").write_bytes(b"sixteen bytes or more")
    return Ledger.start(folder / "ledger", head=folder / "head.toml", values=values, key=folder / "key")


def seen_of_everybody(result: sl.AuditResult) -> list[float]:
    """Who is identifiable, how precisely, and the bracket of everybody in the list, in order."""
    seen = []
    for one in result.exposed:
        kept = one.remaining_uncertainty
        assert kept is not None
        seen.append([one.size, one.identifiable, kept.lower, kept.upper, one.rmse or 0.0])
    ordered = sorted(seen, key=lambda line: [round(number, 7) for number in line])
    return [float(number) for line in ordered for number in line]


def test_a_difference_of_two_months_is_refused_and_named(tmp_path: Path) -> None:
    """A home that leaves is the difference of two totals: the second one is refused, with the recipe."""
    ledger = started(tmp_path)
    sharp = {**TOTAL, "noise_stddev": 500.0}
    _, first = ledger.add(sharp)
    assert first == 1
    month(tmp_path, list("abcd"), list("NNNS"), [100.0, 900.0, 4000.0, 7000.0])
    decision, second = ledger.add(sharp)
    assert second is None
    assert decision.newly_identifiable[0].record == "somebody not in this table (ledger number 4)"
    assert "total (1)" in decision.newly_identifiable[0].recipe.text  # type: ignore[union-attr]
    assert decision.before.identifiable == 0
    assert decision.noise_factor is not None
    assert ledger.check({**sharp, "noise_stddev": 500.0 * decision.noise_factor}).passed
    assert len(ledger.log()) == 2
    _, second = ledger.add(sharp, despite="the law requires it")
    assert second == 2
    later = ledger.check({**TOTAL, "noise_stddev": 1e6})
    assert "the law requires it" in later.despite[0]


def test_a_value_for_each_epoch_is_seen_once(tmp_path: Path) -> None:
    """Months of one value sharpen it; of values that have nothing in common, they do not."""
    one = started(tmp_path)
    for _ in range(3):
        same, _ = one.add(TOTAL, despite="a test")
    folder = tmp_path / "by epoch"
    folder.mkdir()
    apart = HEAD.replace("bounds", 'values = "independent"\nbounds')
    several = started(folder, values="by-epoch", head=apart)
    for name in ("2024", "2025", "2026"):
        several.start_epoch(name)
        own, _ = several.add(TOTAL, epoch=name, despite="a test")
    assert own.after.least is not None
    assert same.after.least is not None
    assert own.after.least.lower > same.after.least.lower
    with pytest.raises(InvalidInput, match="epoch"):
        several.check(TOTAL, epoch="2027")
    with pytest.raises(InvalidInput, match="one value"):
        one.check(TOTAL, epoch="2024")


def test_the_plan_of_everything_gives_the_same_answer(tmp_path: Path) -> None:
    """``ledger plan`` writes a plan that the audit reads, with fitted values."""
    ledger = started(tmp_path)
    for release in (MEANS, TOTAL):
        decision, _ = ledger.add(release, despite="a test")
    result = sl.audit(ledger.plan(tmp_path / "all.toml"))
    assert result.least_remaining_uncertainty == decision.after.least
    assert (tmp_path / "all.parquet").stat().st_mode & 0o077 == 0


def test_weights_categories_and_exact_numbers_are_frozen(tmp_path: Path) -> None:
    """Sums with weights, histograms and exact counts as one audit of the table has them."""
    columns = {
        "who": np.array(list("abcdef"), dtype=object),
        "area": np.array(list("NNNSSS"), dtype=object),
        "size": np.array([1.0, 2.0, 1.0, 1.0, 3.0, 1.0]),
        "kind": np.array(list("xyxyzx"), dtype=object),
    }
    written(tmp_path / "now.parquet", columns)
    data = {
        "source": str(tmp_path / "now.parquet"),
        "record": "who",
        "secret": "kind",
        "categories": list("xyz"),
    }
    (tmp_path / "head.toml").write_text(
        '[data]\nsource = "now.parquet"\nrecord = "who"\nsecret = "kind"\ncategories = ["x", "y", "z"]\n'
        "[limits]\nremaining_uncertainty = 0.1\n"
    )
    ledger = Ledger.start(tmp_path / "ledger", head=tmp_path / "head.toml", values="one")
    releases: list[Any] = [
        {
            "name": "kinds",
            "sql": "SELECT area, kind, COUNT(*) FROM data GROUP BY area, kind",
            "noise_stddev": 2.0,
        },
        {
            "name": "weighted",
            "sql": "SELECT SUM(CASE WHEN kind = 'x' THEN size ELSE 0 END) FROM data",
            "noise": {"law": "laplace", "stddev": 3.0},
        },
        {
            "name": "exact",
            "sql": "SELECT COUNT(*) FILTER (WHERE kind <> 'y') FROM data",
            "noise": {"law": "none"},
        },
    ]
    for release in releases:
        decision, _ = ledger.add(release, despite="a test")
    rival = sl.audit({"data": data, "release": releases, "limits": {"remaining_uncertainty": 0.1}})
    least = rival.least_remaining_uncertainty
    assert least is not None
    assert decision.after.least is not None
    assert decision.after.least.lower == pytest.approx(least.lower, rel=1e-9)
    assert decision.after.least.upper == pytest.approx(least.upper, rel=1e-6)
    assert decision.after.identifiable == rival.identifiable_records


ROWS = HEAD.replace("bounds = [0, 9000]", 'bounds = [0, 9000]\nmax_rows_per_record = 3\nvalues = "VALUES"')


def readings(folder: Path, homes: str, feeders: str, watts: list[float]) -> Path:
    """A table with several rows for some homes."""
    return month(folder, list(homes), list(feeders), watts)


@pytest.mark.thorough
def test_several_rows_of_one_value_are_one_audit(tmp_path: Path) -> None:
    """Homes with two meters on two feeders, both with one value: as one audit of all months has it."""
    ledger = started(tmp_path, head=ROWS.replace("VALUES", "constant"))
    values = {"a": 100.0, "b": 900.0, "c": 4000.0, "d": 7000.0}
    months = [("aabbcd", "NSNNNS"), ("aabbccd", "NSNSNNN"), ("abbcd", "NNSSS")]
    rows: list[tuple[str, str, float, int]] = []
    releases = []
    for number, (homes, feeders) in enumerate(months):
        readings(tmp_path, homes, feeders, [values[home] for home in homes])
        decision, _ = ledger.add(MEANS, despite="a test")
        rows += [(home, feeder, values[home], number) for home, feeder in zip(homes, feeders, strict=True)]
        sql = f"SELECT feeder, AVG(watts) FROM data WHERE month = {number} GROUP BY feeder"
        releases.append({"name": str(number), "sql": sql, "noise_stddev": 900.0})
    names = ("home", "feeder", "watts", "month")
    columns = {name: np.array(own) for name, own in zip(names, zip(*rows, strict=True), strict=True)}
    columns |= {name: columns[name].astype(object) for name in names[:2]}
    rival = sl.audit(
        {
            "data": {
                "source": str(written(tmp_path / "rival.parquet", columns)),
                "record": "home",
                "secret": "watts",
                "bounds": [0, 9000],
                "max_rows_per_record": 9,
                "values": "constant",
            },
            "release": releases,
            "privacy": {"sensitivity": "memberships"},
            "limits": {"remaining_uncertainty": 0.5},
        }
    )
    again = sl.audit(ledger.plan(tmp_path / "all.toml"))
    for other in (rival, again):
        least = other.least_remaining_uncertainty
        assert least is not None
        assert decision.after.least is not None
        assert decision.after.least.lower == pytest.approx(least.lower, rel=1e-9)
        assert decision.after.least.upper == pytest.approx(least.upper, rel=1e-9)
        assert decision.after.identifiable == other.identifiable_records
        assert decision.after.epsilon["gaussian-dp"] == pytest.approx(
            other.budget.spent["gaussian-dp"], rel=1e-9
        )


@pytest.mark.thorough
def test_several_rows_with_values_of_their_own_need_an_epoch_for_each_release(tmp_path: Path) -> None:
    """In an epoch of its own a release equals the audit of its table; a second one cannot be matched."""
    ledger = started(tmp_path, head=ROWS.replace("VALUES", "independent"), values="by-epoch")
    table = readings(tmp_path, "aabbcd", "NSNNNS", [100.0, 8000.0, 900.0, 3000.0, 4000.0, 7000.0])
    ledger.start_epoch("March")
    decision, _ = ledger.add(MEANS, epoch="March", despite="a test")
    data: dict[str, Any] = {"source": str(table), "record": "home", "secret": "watts", "bounds": [0, 9000]}
    data |= {"max_rows_per_record": 3, "values": "independent"}
    privacy = {"sensitivity": "memberships"}
    rival = sl.audit(
        {
            "data": data,
            "release": [MEANS],
            "privacy": privacy,
            "limits": {"remaining_uncertainty": 0.5},
        }
    )
    assert decision.after.least is not None
    assert rival.least_remaining_uncertainty is not None
    assert decision.after.least.lower == pytest.approx(rival.least_remaining_uncertainty.lower, rel=1e-9)
    assert decision.after.identifiable == rival.identifiable_records
    with pytest.raises(SightlineError, match="which values of one are those of the other"):
        ledger.check(TOTAL, epoch="March")
    ledger.start_epoch("April")
    later = ledger.check(MEANS, epoch="April")
    assert later.after.least is not None
    assert later.after.least.lower <= decision.after.least.lower + 1e-12


CURVED = {
    "squares": "SELECT feeder, AVG(watts * watts) FROM data GROUP BY feeder",
    "above": "SELECT feeder, COUNT(*) FILTER (WHERE watts > 3000) FROM data GROUP BY feeder",
    "below": "SELECT AVG(CASE WHEN watts < 3000 THEN 1 ELSE 0 END) FROM data",
    "between": "SELECT feeder, COUNT(*) FILTER (WHERE watts BETWEEN 500 AND 5000) FROM data GROUP BY feeder",
    "clipped": "SELECT SUM(LEAST(watts, 6000)) FROM data",
    "several": "SELECT feeder, SUM(watts), COUNT(*) FILTER (WHERE watts >= 3000) AS high FROM data "
    "GROUP BY feeder",
}
NOISE = {"squares": 3e7, "above": 1.5, "below": 0.4, "between": 1.5, "clipped": 9e3}


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("last", ["squares", "several"])
def test_powers_and_counts_above_a_level_are_frozen(tmp_path: Path, last: str) -> None:
    """What is not linear in the secret is stored and audited as one audit of the table has it."""
    ledger = started(tmp_path)
    order = [name for name in CURVED if name != last] + [last]
    releases = [
        {"name": name, "sql": CURVED[name], "noise_stddev": NOISE[name]}
        if name in NOISE
        else {
            "name": name,
            "sql": CURVED[name],
            "noise": [
                {"label": "SUM(watts) by feeder", "stddev": 6e3},
                {"label": "high by feeder", "stddev": 2.0},
            ],
        }
        for name in order
    ]
    for release in releases:
        decision, _ = ledger.add(release, despite="a test")
    plan = {
        "data": {
            "source": str(tmp_path / "now.parquet"),
            "record": "home",
            "secret": "watts",
            "bounds": [0, 9000],
        },
        "release": releases,
        "privacy": {"sensitivity": "memberships"},
        "limits": {"remaining_uncertainty": 0.5},
    }
    rival = sl.audit(plan)
    again = sl.audit(ledger.plan(tmp_path / "all.toml"))
    found = decision.result
    assert len(found.questions) == 3
    for other in (rival, again):
        assert found.verdict.below_limit == other.verdict.below_limit
        assert found.identifiable_records == other.identifiable_records
        assert found.least_remaining_uncertainty is not None
        assert other.least_remaining_uncertainty is not None
        assert found.least_remaining_uncertainty.lower == pytest.approx(
            other.least_remaining_uncertainty.lower, rel=1e-9
        )
        for mine, theirs in zip(found.questions, other.questions, strict=True):
            assert mine.text == theirs.text
            assert mine.least_remaining_uncertainty.lower == pytest.approx(  # type: ignore[union-attr]
                theirs.least_remaining_uncertainty.lower,  # type: ignore[union-attr]
                rel=1e-9,
            )
    assert {one.rows for one in found.homogeneous or ()} == {one.rows for one in rival.homogeneous or ()}


@pytest.mark.parametrize("noise", [3000.0, 1e6])
def test_a_missing_file_for_the_owner_is_not_shown_and_not_whole(tmp_path: Path, noise: float) -> None:
    """Without what the values showed nothing passes, not by the noise alone; verify says that it is gone."""
    ledger = started(tmp_path, head=HEAD + 'accept = ["homogeneous", "few_values", "values", "unequal"]\n')
    release = {**TOTAL, "noise_stddev": noise}
    ledger.add(release, despite="a test")
    before = ledger.check(release)
    next((tmp_path / "ledger").glob("*.owner.json")).unlink()
    decision = ledger.check(release)
    assert decision.findings.guaranteed == (noise == 1e6)
    assert (before.passed, decision.passed) == (True, False)
    assert {"derived", "clipped", "dropped"} <= {one.name for one in decision.result.unverified}
    assert sum("owner's file" in line for line in lines(decision, full=False)) == 1
    with pytest.raises(DamagedLedger, match=r"owner\.json"):
        ledger.verify()


def test_who_is_known_in_one_epoch_is_judged_in_another(tmp_path: Path) -> None:
    """An attacker who knows two homes of 2024 does not know their values of 2025."""
    knows = """[attacker]\nknows = ["feeder = 'S'"]\n\n[limits]"""
    head = HEAD.replace("[limits]", knows)
    ledger = started(tmp_path, head=head, values="by-epoch")
    for epoch in ("2024", "2025"):
        ledger.start_epoch(epoch)
        decision, _ = ledger.add(TOTAL, epoch=epoch, despite="a test")
        assert decision.result.known_rows == 2
        month(tmp_path, list("abcde"), list("NNNNN"), [100.0, 900.0, 4000.0, 4000.0, 3000.0])
    assert decision.result.rows == 10


def test_values_that_change_within_an_epoch_are_said(tmp_path: Path) -> None:
    """Two totals of the same homes that differ cannot be about one value each."""
    ledger = started(tmp_path)
    ledger.add({**TOTAL, "noise_stddev": 3000.0}, despite="a test")
    month(tmp_path, list("abcde"), list("NNNSS"), [800.0, 900.0, 4000.0, 7000.0, 8800.0])
    decision = ledger.check({**TOTAL, "noise_stddev": 3000.0})
    assert any("changed" in one.reason for one in decision.result.unverified)


def test_the_commands_say_what_a_release_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started(tmp_path)
    (tmp_path / "total.toml").write_text(
        '[[release]]\nname = "total"\nsql = "SELECT SUM(watts) FROM data"\nnoise_stddev = 20000\n'
    )
    folder, key = str(tmp_path / "ledger"), ["--key", str(tmp_path / "key")]
    release = str(tmp_path / "total.toml")
    assert main(["ledger", "check", folder, release, *key]) == 0
    first = capsys.readouterr().out
    assert "PASSED" in first
    assert len(first.splitlines()) <= 12
    assert main(["ledger", "add", folder, release, *key]) == 0
    assert main(["ledger", "log", folder, *key]) == 0
    assert "total" in capsys.readouterr().out
    assert main(["ledger", "verify", folder, *key]) == 0
    assert main(["ledger", "cancel", folder, "1", "--never-seen", "a test", *key]) == 0
    assert main(["ledger", "cancel", folder, "1", "--never-seen", "a test", *key]) == 1
    assert main(["ledger", "limit", folder, "99%", "--reason", "a test", *key]) == 0
    assert main(["ledger", "check", folder, release, *key]) == 2
    (tmp_path / "ledger" / "000001.json").unlink()
    assert main(["ledger", "verify", folder, *key]) == 3


def test_nothing_that_is_out_is_advised_against(tmp_path: Path) -> None:
    """Two totals tell a home; the one that is out cannot be left out any more."""
    table = month(tmp_path, list("abcde"), list("NNNSS"), [100.0, 900.0, 4000.0, 7000.0, 8800.0])
    data = {"source": str(table), "record": "home", "secret": "watts", "bounds": [0, 9000]}
    all_homes = {"name": "all", "sql": "SELECT SUM(watts) FROM data", "noise_stddev": 300.0}
    others = {"name": "others", "sql": "SELECT SUM(watts) FROM data WHERE home <> 'e'", "noise_stddev": 300.0}
    plan = {"data": data, "limits": {"remaining_uncertainty": 0.5}}
    for out in (0, 1):
        releases = [all_homes, others]
        releases[out] = {**releases[out], "published": True}
        result = sl.audit({**plan, "release": releases}, full=True)
        advised = {one.release for one in (*result.what_to_change, *result.reaching)}
        assert releases[out]["name"] not in advised
        assert releases[1 - out]["name"] in advised


def test_another_table_is_said_in_a_comparison(tmp_path: Path) -> None:
    table = month(tmp_path, list("abcde"), list("NNNSS"), [100.0, 900.0, 4000.0, 7000.0, 8800.0])
    data = {"source": str(table), "record": "home", "secret": "watts", "bounds": [0, 9000]}
    plan = {"data": data, "release": [TOTAL]}
    first, again = sl.audit(plan, full=True), sl.audit(plan, full=True)
    month(tmp_path, list("abcde"), list("NNNSS"), [100.0, 900.0, 4000.0, 7000.0, 8801.0])
    other = sl.audit(plan, full=True)
    assert not any("table" in line for line in compare(again, first).since.lines)  # type: ignore[union-attr]
    assert any("table is another" in line for line in compare(other, first).since.lines)  # type: ignore[union-attr]
    assert other.publishable().table_digest is None
