"""The page of a design: its figures draw what the result says, and it is closed to the network."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import sightline as sl
from sightline.cli import main
from sightline.designing.result import DesignResult
from sightline.examples.shipped import example_plan
from sightline.report import page as pages
from sightline.report import style
from sightline.report.design_figures import DESIGN_FIGURES, draw_noise, draw_prices
from sightline.report.figures import FIGURES
from sightline.report.page import design_headline, design_html, report_html, write_design
from tests.report.report_cases import HOSTILE, microgrid
from tests.report.test_html_report import Outline, shape

pytestmark = pytest.mark.slow


@cache
def designed() -> DesignResult:
    """A design of the shipped example, named."""
    return sl.design(example_plan("microgrid"), names=True)


def data_of(chart: object) -> list[dict]:
    found = style.specification(chart)
    parts = [found, *found.get("layer", [])]
    return [row for part in parts if "data" in part for row in json.loads(part["data"]["values"])]


def test_the_figures_draw_the_numbers_of_the_result() -> None:
    result = designed()
    lines = {(row["release"], row["when"]): row for row in data_of(draw_noise(result))}
    for release in {one.release for one in result.noise}:
        own = [one for one in result.noise if one.release == release]
        before, after = lines[release, "today"], lines[release, "designed"]
        assert (before["least"], before["largest"]) == (
            min(one.stddev_before for one in own),
            max(one.stddev_before for one in own),
        )
        assert (after["least"], after["largest"]) == (
            min(one.stddev for one in own),
            max(one.stddev for one in own),
        )
    bars = {row["attack"]: row["price"] for row in data_of(draw_prices(result))}
    assert sum(bars.values()) == pytest.approx(1, abs=1e-3)
    assert len(bars) == len(result.attacks)


def test_attacks_that_are_not_listed_share_a_bar() -> None:
    few = sl.design(example_plan("microgrid"), top=1)
    bars = data_of(draw_prices(few))
    listed = {bar["attack"]: bar["price"] for bar in bars}
    assert listed[f"{few.attacks_in_all - 1} other attacks"] == pytest.approx(1 - few.attacks[0].price)


def test_the_page_is_well_formed_closed_and_complete() -> None:
    text = design_html(designed())
    outline = Outline(text)
    assert outline.open == []
    assert [a["data-figure"] for a in outline.all("div") if "data-figure" in a] == [
        figure.name for figure in DESIGN_FIGURES
    ]
    assert all(len(image["alt"] or "") > 30 for image in outline.all("img"))
    (policy,) = [a["content"] for a in outline.all("meta") if "http-equiv" in a]
    assert (policy or "").startswith("default-src 'none'; ")
    sources = [a[key] for _, a in outline.elements for key in ("src", "href") if key in a]
    assert all((source or "").startswith(("data:image/", "#")) for source in sources)
    assert text == design_html(DesignResult.model_validate_json(designed().model_dump_json()))
    assert "for the owner of the table only" in text
    assert "H13" in text


def renamed(text: str) -> str:
    """The page with a text in place of every name."""
    noise = tuple(one.model_copy(update={"release": text, "cell": text}) for one in designed().noise)
    attacks = tuple(
        one.model_copy(update={"record": text, "recipe": text, "shortest": text})
        for one in designed().attacks
    )
    update = {"noise": noise, "attacks": attacks, "plan": text, "verdict": text}
    return design_html(designed().model_copy(update=update))


@cache
def plain_shape() -> list[tuple[str, tuple[str, ...]]]:
    return shape(renamed("plain"))


@pytest.mark.parametrize("case", ["the end of a script", "an attribute", "a template", "half a surrogate"])
def test_a_hostile_name_stays_data(case: str) -> None:
    text = renamed(HOSTILE[case])
    assert shape(text) == plain_shape()
    (data,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', text, flags=re.DOTALL)
    assert not set(data) & set("<>&\u2028")


def test_the_command_writes_a_page_that_only_its_owner_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "design.html"
    assert main(["design", str(example_plan("microgrid")), "--html", str(page)]) == 0
    assert f"Wrote {page}" in capsys.readouterr().err
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert main(["design", str(example_plan("microgrid")), "--html", str(page)]) == 1
    assert "exists" in capsys.readouterr().err


def test_a_design_without_noise_to_add_is_drawn_too(tmp_path: Path) -> None:
    calm = sl.design(example_plan("microgrid"), limit=0.01)
    write_design(calm, tmp_path / "calm.html", date="today")
    text = (tmp_path / "calm.html").read_text(encoding="utf-8")
    assert "The plan keeps the limit as it is" in text
    assert "No number of the" in text
    assert design_headline(calm)[0] == "0"


def test_a_figure_that_its_page_does_not_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = replace(FIGURES[0], name="extra", drawable=lambda _: False)
    monkeypatch.setattr(pages, "FIGURES", (*FIGURES, extra))
    with pytest.raises(AssertionError, match=r"report\.html has no place for the figures .*extra"):
        report_html(microgrid())
