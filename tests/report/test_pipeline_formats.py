"""Formats for pipelines: they keep their rules, and tell no key or value."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.cli import main
from sightline.examples.shipped import example_plan
from sightline.report.pipelines import PipelineFormat, Rule, checked_text, escaped, problems_of, result_text
from sightline.testing import assert_keeps
from tests.report.pipeline_cases import checked_junit
from tests.report.report_cases import HOSTILE, RESULTS

MICROGRID = example_plan("microgrid")
Captured = pytest.CaptureFixture[str]

KEYS = ("KEYONE", "KEYTWO", "KEYTHREE", "KEYFOUR")
VALUES = ("77.125", "3.0625", "55.375", "81.6875")


def secret_plan(folder: Path, *, limit: str = "50%", table: str = "") -> str:
    """A plan whose table has keys and values that no text has by chance; one release groups by the key."""
    rows = "".join(f"{key},{value}\n" for key, value in zip(KEYS, VALUES, strict=True))
    (folder / "t.csv").write_text(f"home,watts\n{rows}{table}")
    path = folder / "plan.toml"
    path.write_text(
        '[data]\nsource = "t.csv"\nrecord = "home"\nsecret = "watts"\nbounds = [0, 100]\n\n'
        f'[limits]\nremaining_uncertainty = "{limit}"\n\n'
        '[[release]]\nname = "all"\nsql = "SELECT AVG(watts) FROM data"\nnoise_stddev = 5.0\n\n'
        '[[release]]\nname = "each"\nsql = "SELECT home, SUM(watts) FROM data GROUP BY home"\n'
        "noise_stddev = 5.0\n"
    )
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
class TestEveryResult:
    def test_what_is_publishable_stays_so(self, name: str) -> None:
        shown = RESULTS[name]().publishable()
        assert shown.publishable() == shown

    def test_junit_keeps_its_rules_and_passes_only_what_passes(self, name: str) -> None:
        result = RESULTS[name]()
        text = result_text(result, MICROGRID, PipelineFormat.JUNIT)
        outcomes = checked_junit(text)
        passed = result.verdict.passed
        said = {name for name in outcomes if name == "assumptions" or name.startswith("exposed no. ")}
        stated = "skipped" if said else "failure"
        assert outcomes["limit"] == {True: "passed", False: stated, None: "skipped"}[passed]
        assert ("failure" in outcomes.values()) == (passed is False)
        releases = {outcome for case, outcome in outcomes.items() if case.startswith("release ")}
        assert passed or "passed" not in releases
        assert text.isascii()

    def test_markdown_has_no_markup_of_others(self, name: str) -> None:
        text = result_text(RESULTS[name](), MICROGRID, PipelineFormat.MARKDOWN)
        prose = re.sub(r"^```text\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        assert text.count("```") == 2
        assert not re.search(r"[<>`\[\]]|://|[@#](?=\w)(?<!&#)", prose)


@pytest.mark.slow
def test_below_the_limit_is_who_the_verdict_counts() -> None:
    result = RESULTS["microgrid"]()
    found = problems_of(result.publishable(), MICROGRID.name).problems
    below = [one for one in found if one.rule is Rule.BELOW_LIMIT]
    assert len(below) == result.verdict.below_limit == 9  # every signature there is one home
    assert all(one.releases for one in below)


@pytest.mark.slow
def test_no_format_tells_a_key_or_a_value(tmp_path: Path, capsys: Captured) -> None:
    path = secret_plan(tmp_path)
    files = [f"{one.value}={tmp_path / one.value}" for one in PipelineFormat]
    options = [part for file in files for part in ("--write", file)]
    assert main(["audit", path, "--format", "junit", *options]) == 2
    outputs = [capsys.readouterr().out, *((tmp_path / one.value).read_text() for one in PipelineFormat)]
    assert main(["audit", path]) == 2
    assert KEYS[0] in capsys.readouterr().out  # the owner's terminal has them
    for text in outputs:
        assert not [one for one in (*KEYS, *VALUES) if one in text]
        assert "each" in text
    assert (tmp_path / "junit").stat().st_mode & 0o044


def one_exposed(*, rules: str = "", accept: str = '"few_values", "homogeneous"') -> dict[str, Any]:
    """A plan that exposes one of nine people: the difference of its two sums."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"home": range(9), "watts": [5.0, 9, 21, 33, 42, 58, 66, 74, 91]})
    sums = {"all": "SELECT SUM(watts) FROM data", "but one": "SELECT SUM(watts) FROM data WHERE home <> 3"}
    plan = tomllib.loads(
        f'[data]\nrecord = "home"\nsecret = "watts"\nbounds = [0, 100]\n{rules}\n'
        f"[limits]\nremaining_uncertainty = 0.5\naccept = [{accept}]\n"
    )
    plan["data"]["source"] = table
    plan["release"] = [{"name": name, "sql": sql, "noise": [{"stddev": 0.5}]} for name, sql in sums.items()]
    return plan


def failures_of(plan: dict[str, Any]) -> list[str]:
    outcomes = checked_junit(result_text(sl.audit(plan), "plan.toml", PipelineFormat.JUNIT))
    assert "passed" not in {of for name, of in outcomes.items() if name != "plan"}
    return [name for name, outcome in outcomes.items() if outcome == "failure"]


def test_one_exposed_person_is_one_failure() -> None:
    assert failures_of(one_exposed()) == ["exposed no. 1"]
    # A broken rule is another finding, and the verdict says it.
    assert failures_of(one_exposed(rules="[rules]\nk = 3")) == ["limit", "exposed no. 1"]
    # Where it is not said who is below the limit, the limit fails.
    hidden = sl.audit(one_exposed()).model_copy(update={"exposed": ()})
    assert checked_junit(result_text(hidden, "p", PipelineFormat.JUNIT))["limit"] == "failure"


@pytest.mark.slow
def test_what_is_not_shown_is_a_failure(tmp_path: Path) -> None:
    result = sl.audit(secret_plan(tmp_path, limit="0.01%", table="KEYFIVE,999\n"))
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    (clipped,) = result.unverified
    lines = tmp_path / "plan.toml"
    outcomes = checked_junit(result_text(result, lines, PipelineFormat.JUNIT))
    assert outcomes == {
        "plan": "passed",
        "limit": "failure",
        "release all": "skipped",
        "release each": "skipped",
    }
    (limit,) = problems_of(result.publishable(), "plan.toml").problems
    assert limit.rule is Rule.LIMIT
    assert "but a pass is a proof, and the reason is for the owner only." in limit.text
    # Were it not for the owner only, it would be told.
    told = result.model_copy(update={"unverified": (clipped.model_copy(update={"owner_only": False}),)})
    outcomes = checked_junit(result_text(told, lines, PipelineFormat.JUNIT))
    assert [name for name, outcome in outcomes.items() if outcome == "failure"] == ["assumptions"]
    assert outcomes["limit"] == "skipped"


@pytest.mark.slow
def test_every_secret_is_shown_and_the_worst_decides(tmp_path: Path, capsys: Captured) -> None:
    rows = [f"H{place},{10 * place},{place}" for place in range(1, 9)]
    (tmp_path / "t.csv").write_text("\n".join(["home,watts,gas", *rows]) + "\n")
    releases = {
        name: {"name": name, "sql": f"SELECT {sql} FROM data", "noise_stddev": noise}
        for name, sql, noise in (
            ("watts", "SUM(watts)", 900.0),
            ("gas", "SUM(gas)", 0.01),
            ("gas but one", "SUM(gas) FILTER (WHERE home <> 'H1')", 0.01),
        )
    }
    plan = {
        "data": {"source": str(tmp_path / "t.csv"), "record": "home", "secret": "watts", "bounds": [0, 100]},
        "secret": [{"column": "gas", "bounds": [0, 10]}],
        "limits": {"remaining_uncertainty": 0.5, "accept": ["secrets", "few_values", "homogeneous"]},
        "release": list(releases.values()),
    }
    lines = "plan.toml"
    result = sl.audit(plan)
    assert [one.verdict.passed for one in (result, *result.other_secrets)] == [False, True]
    assert (result.secret, result.other_secrets[0].secret) == ("gas", "watts")
    outcomes = checked_junit(result_text(result, lines, PipelineFormat.JUNIT))
    # A finding fails once, not once for every release that it is made of.
    listed = [
        one for one in problems_of(result.publishable(), lines).problems if one.rule is Rule.BELOW_LIMIT
    ]
    assert [name for name, outcome in outcomes.items() if outcome == "failure"] == [
        f"exposed no. {place}" for place in range(1, len(listed) + 1)
    ]
    assert outcomes["limit"] == "skipped"
    assert {outcomes[f"release {name}"] for name in releases} == {"skipped"}
    # The same problems, whichever secret the result is that of.
    swapped = result.other_secrets[0].model_copy(
        update={"other_secrets": (result.model_copy(update={"other_secrets": ()}),)}
    )
    for one in (result, swapped):
        found = problems_of(one.publishable(), lines).problems
        assert "passed" not in {
            outcome
            for name, outcome in checked_junit(result_text(one, lines, PipelineFormat.JUNIT)).items()
            if name != "plan"
        }
        assert all(note.text.startswith(("Secret gas: ", "Secret watts: ")) for note in found)
        below = [note for note in found if note.rule is Rule.BELOW_LIMIT]
        assert below
        assert {name for note in below for name in note.releases} <= {"gas", "gas but one"}
    text = result_text(result, lines, PipelineFormat.MARKDOWN)
    assert "## Sightline: Below the limit" in text
    assert "Of 2 secrets, gas fares worst" in text
    assert "watts: The limit holds" in text
    with pytest.raises(
        AssertionError,
        match=r"^BELOW THE LIMIT  Of 2 secrets, gas fares worst(.|\n)*\nwatts: The limit holds",
    ):
        assert_keeps(plan)


@pytest.mark.slow
def test_a_release_of_a_cut_list_does_not_pass() -> None:
    result = RESULTS["microgrid"]()
    cut = result.model_copy(update={"exposed": result.exposed[:1]})
    outcomes = checked_junit(result_text(cut, MICROGRID, PipelineFormat.JUNIT))
    assert outcomes["exposed no. 1"] == "failure"
    assert outcomes["release March"] == outcomes["release May"] == "skipped"
    assert [name for name, outcome in outcomes.items() if outcome == "passed"] == ["plan"]


@pytest.mark.parametrize("chosen", PipelineFormat)
def test_an_error_is_written_in_every_format(
    chosen: PipelineFormat, tmp_path: Path, capsys: Captured
) -> None:
    path = Path(secret_plan(tmp_path))
    path.write_text(path.read_text().replace("SUM(watts)", "SUM(wats)"))
    file = tmp_path / "out"
    command = ["audit", str(path), "--format", chosen.value, "--write", f"{chosen.value}={file}"]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert "InvalidPlan: release 'each': expected" in printed.err
    assert printed.out == file.read_text()
    assert main(["check", str(path), "--format", chosen.value]) == 1
    assert capsys.readouterr().out == printed.out
    match chosen:
        case PipelineFormat.JUNIT:
            assert checked_junit(printed.out) == {"plan": "error"}
        case PipelineFormat.MARKDOWN:
            assert "plan.toml: InvalidPlan: release 'each'" in printed.out


@pytest.mark.parametrize("chosen", PipelineFormat)
def test_check_says_that_a_plan_is_good(chosen: PipelineFormat, tmp_path: Path, capsys: Captured) -> None:
    path = secret_plan(tmp_path)
    assert main(["check", path, path, "--format", chosen.value]) == 0
    text = capsys.readouterr().out
    match chosen:
        case PipelineFormat.JUNIT:
            assert checked_junit(text) == {"plan": "passed"}
        case PipelineFormat.MARKDOWN:
            assert text.count("plan.toml: A good plan.") == 2


def test_check_goes_on_after_a_bad_plan(tmp_path: Path, capsys: Captured) -> None:
    good = secret_plan(tmp_path)
    assert main(["check", str(tmp_path / "no.toml"), good]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{good}: a good plan, with 2 releases\n"
    assert printed.err.startswith(f"{tmp_path / 'no.toml'}: InvalidPlan: expected a plan file")


def test_names_are_refused_beside_a_format_that_names_nobody(tmp_path: Path, capsys: Captured) -> None:
    assert main(["audit", secret_plan(tmp_path), "--names", "--format", "junit"]) == 1
    assert "expected --names with text or json, got junit" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["junit", "junit=", "text=a", "=a"])
def test_a_file_needs_a_format(text: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["audit", secret_plan(tmp_path), "--write", text]) == 1
    assert "expected FORMAT=FILE with json, junit, markdown" in capsys.readouterr().err


def test_a_file_that_exists_is_kept(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "old").write_text("old")
    assert main(["audit", secret_plan(tmp_path), "--write", f"junit={tmp_path / 'old'}"]) == 1
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_messages(name: str) -> None:
    said = [("plan.toml", f"InvalidPlan: {name}")]
    assert checked_junit(checked_text(said, PipelineFormat.JUNIT)) == {"plan": "error"}


def test_markdown_makes_no_mention_and_no_link() -> None:
    assert escaped("@ann #12 www.a.b ![x](y)") == ("@\u2060ann #\u206012 www&#46;a.b !&#91;x&#93;(y)")


@pytest.mark.slow
def test_no_name_ends_the_block_of_a_comment() -> None:
    result = RESULTS["microgrid"]().publishable()
    named = result.model_copy(update={"secret": "``` <b>", "source": "```"})
    text = result_text(named, MICROGRID, PipelineFormat.MARKDOWN)
    assert "''' <b>" in text
    assert text.count("```") == 2
