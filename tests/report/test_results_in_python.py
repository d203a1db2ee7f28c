"""Results as a person meets them in Python: one line printed, a table of the exposed, keys by position."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

import sightline as sl
from sightline.cli import main
from sightline.errors import MissingExtra
from sightline.examples.shipped import example_plan
from tests.report.report_cases import HOSTILE


@pytest.fixture(scope="module")
def audited() -> sl.AuditResult:
    return sl.audit(example_plan("microgrid"))


def results() -> dict[str, Any]:
    design = sl.MembershipDesign([range(40), range(1, 40)], records=40, noise=[0.3, 0.4])
    mean = sl.SubsetMean(members=range(40), radius=1.0)
    transcript = sl.Transcript([mean, sl.SubsetMean(members=range(1, 40), radius=1.0)], noise=[0.1, 0.1])
    basic = sl.BasicComposition(sl.Budget(epsilon=1.0, delta=1e-5))
    curve = sl.release_curve([0.2, 0.5], family=sl.Moments(bound=1.0), accountant=basic, releases=range(2, 6))
    return {
        "exposures": design.exposures(domain=(0, 1)),
        "exposure": transcript.geometry().profile(target=0),
        "increment": transcript.geometry().profile(target=0).increment(mean, noise_stddev=0.1),
        "curve": curve,
    }


@pytest.mark.parametrize("name", ["exposures", "exposure", "increment", "curve"])
def test_the_repr_of_a_result_is_one_line_without_its_arrays(name: str) -> None:
    text = repr(results()[name])
    assert "\n" not in text
    assert "array(" not in text
    assert len(text) < 1500


def test_the_repr_of_an_explanation_is_one_short_line() -> None:
    text = repr(sl.explain(example_plan("microgrid"), "H17"))
    assert text.startswith("Explanation(record='H17', exposed=<tuple of ")
    assert "\n" not in text
    assert len(text) < 300


def test_a_notebook_shows_the_steps_of_an_explanation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # of terminals, not of a notebook
    shown = sl.explain(example_plan("microgrid"), "H17")._repr_html_()
    assert shown is not None
    assert "\x1b" not in shown
    assert "--" not in shown  # no options of a command
    monkeypatch.delenv("FORCE_COLOR")
    assert main(["explain", str(example_plan("microgrid")), "H17"]) == 0
    in_terminal = capsys.readouterr().out
    assert "1. " in in_terminal
    assert "--full" in in_terminal or "more part" not in in_terminal
    printed = [line for line in in_terminal.splitlines() if "--" not in line]
    text = unescape(shown.removeprefix('<pre style="white-space: pre-wrap">').removesuffix("</pre>"))
    assert [line.strip() for line in printed if line.strip() not in text] == []


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_an_explanation_has_no_markup_of_others(name: str) -> None:
    explanation = sl.explain(example_plan("microgrid"), "H17")
    exposed = tuple(one.model_copy(update={"category": f"[/b]{name}"}) for one in explanation.exposed)
    result = explanation.result.model_copy(update={"secret": name, "record": name})
    shown = replace(explanation, record=name, result=result, exposed=exposed)._repr_html_()
    assert shown is not None
    inner = shown.removeprefix('<pre style="white-space: pre-wrap">').removesuffix("</pre>")
    assert not re.search(r"[<>\"\x00\x1b\u2028\u202e\ud800]", inner)
    assert "= [/b]" in inner


def test_the_repr_of_an_audit_is_its_verdict(audited: sl.AuditResult) -> None:
    assert repr(audited) == str(audited)
    assert "\n" not in repr(audited)
    assert len(repr(audited)) < 200
    assert f"{audited.records} records" in repr(audited)
    assert "failed" in repr(audited)


def test_the_exposed_become_a_data_frame(audited: sl.AuditResult) -> None:
    frame = audited.to_frame()
    assert list(frame["record"]) == [each.record for each in audited.exposed]
    ends = [each.remaining_uncertainty for each in audited.exposed]
    assert list(frame["remaining_lower"]) == [end.lower for end in ends if end is not None]


def test_without_pandas_it_is_a_frame_of_polars(
    audited: sl.AuditResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    frame = audited.to_frame()
    assert type(frame).__module__.startswith("polars")
    assert frame["record"].to_list() == [each.record for each in audited.exposed]


def test_without_either_one_line_says_what_to_install(
    audited: sl.AuditResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match="pandas or polars"):
        audited.to_frame()


def test_explain_takes_the_key_by_position_and_as_a_number() -> None:
    plan = {
        "data": {"record": "home", "secret": "watts", "bounds": [0, 100]},
        "release": [
            {"name": "all", "sql": "SELECT SUM(watts) FROM data", "noise": [{"stddev": 1.0}]},
            {
                "name": "but one",
                "sql": "SELECT SUM(watts) FROM data WHERE home <> 209",
                "noise": [{"stddev": 1.0}],
            },
        ],
    }
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"home": [207, 208, 209], "watts": [1.5, 20.25, 30.75]})
    plan["data"]["source"] = table  # type: ignore[index]
    assert sl.explain(plan, 209) == sl.explain(plan, record="209")


def test_a_notebook_shows_the_verdict_before_the_picture_and_no_options(audited: sl.AuditResult) -> None:
    shown = audited._repr_html_()
    assert shown is not None
    assert shown.index("BELOW THE LIMIT") < shown.index("<img")
    assert "<pre" not in shown
    assert "--full" not in shown
