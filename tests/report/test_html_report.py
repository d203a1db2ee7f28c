"""The report as a text: complete, the same each time, closed to the network, deaf to what names say."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sys
import tomllib
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

import sightline as sl
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import HomogeneousCell, Unverified
from sightline.cli import main
from sightline.errors import InvalidInput
from sightline.examples.shipped import example_plan
from sightline.report import files
from sightline.report import page as pages
from sightline.report.figures import FIGURES
from sightline.report.page import headline, report_html, write_report
from sightline.report.wording import isolated, limit_line, one_line, short, wrapped
from tests.report.report_cases import (
    HOSTILE,
    RESULTS,
    SHIPPED,
    SNAPSHOT,
    calm,
    largest,
    microgrid,
    normalised,
    nothing,
    one_release,
    page,
    with_names,
)

pytestmark = pytest.mark.slow
TWO_MEGABYTES = 2_000_000


class Outline(HTMLParser):
    """Every element with its attributes, the texts of headings, and elements that were left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("name", RESULTS)
class TestEveryReport:
    @pytest.mark.sampled(1)
    def test_the_same_result_gives_the_same_bytes(self, name: str) -> None:
        result = RESULTS[name]()
        again = sl.AuditResult.from_json(result.to_json())
        assert report_html(again) == page(name)

    @pytest.mark.sampled(2)
    def test_it_is_well_formed_and_its_headings_go_down_one_by_one(self, name: str) -> None:
        outline = Outline(page(name))
        assert outline.open == []
        levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch(r"h[1-6]", tag)]
        assert levels.count(1) == 1
        assert levels[0] == 1
        assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
        assert len(outline.all("main")) == 1
        identifiers = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
        assert len(set(identifiers)) == len(identifiers)

    def test_every_drawing_has_words(self, name: str) -> None:
        outline = Outline(page(name))
        drawn = [figure.name for figure in FIGURES if figure.drawable(RESULTS[name]())]
        assert [a["data-figure"] for a in outline.all("div") if "data-figure" in a] == drawn
        assert all(len(image["alt"] or "") > 30 for image in outline.all("img"))
        assert len(outline.texts.get("figcaption", [])) == len(drawn)

    def test_it_is_closed_to_the_network(self, name: str) -> None:
        text = page(name)
        outline = Outline(text)
        (policy,) = [a["content"] for a in outline.all("meta") if "http-equiv" in a]
        assert policy is not None
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
        styles = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
        for part in scripts + styles:
            digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
        sources = [a[key] for _, a in outline.elements for key in ("src", "href") if key in a]
        assert all((source or "").startswith(("data:image/", "#")) for source in sources)
        assert not any(key.startswith("on") or key == "style" for _, a in outline.elements for key in a)

    def test_it_is_small_enough_to_send(self, name: str) -> None:
        assert len(page(name).encode()) < TWO_MEGABYTES


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("releases", [12, 1_500], ids=["long", "wide"])
def test_the_largest_pages_say_what_they_leave_out(releases: int) -> None:
    """As many exposed records and settings as an audit hands over, with long names."""
    text = report_html(largest(releases))
    assert len(text.encode()) < TWO_MEGABYTES
    assert "The first 100,000 of 400,000 characters." in text
    assert ("The first 100 of 1,500 releases." in text) is (releases > 100)
    assert text.count('<tr><th scope="row">') >= min(releases, 100)
    assert "data-copy=" in text


def shape(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """The elements and attributes of a page; titles hold what is too long to show."""
    return [(tag, tuple(sorted(set(found) - {"title"}))) for tag, found in Outline(text).elements]


def without_copying(found: list[tuple[str, tuple[str, ...]]]) -> list[tuple[str, tuple[str, ...]]]:
    """The same without the buttons that copy a recipe, each of which has one element inside."""
    buttons = {place for place, (_, attributes) in enumerate(found) if "data-copy" in attributes}
    return [one for place, one in enumerate(found) if not {place, place - 1} & buttons]


@cache
def plain_shape() -> list[tuple[str, tuple[str, ...]]]:
    return shape(report_html(with_names(microgrid(), "plain")))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_adds_no_element_and_stays_data(name: str, tmp_path: Path) -> None:
    write_report(with_names(microgrid(), name), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    # A recipe that is too long to show has no button to copy it.
    copied = "data-copy=" in text
    assert copied is (len(name) < 600)
    assert shape(text) == (plain_shape() if copied else without_copying(plain_shape()))
    (data,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', text, flags=re.DOTALL)
    assert not set(data) & set("<>&\u2028")
    params = json.loads(data)["timeline"]["layer"][2].get("params") or json.loads(data)["timeline"]["params"]
    assert wrapped(name, 36, 1) in next(param["value"] for param in params if param["name"] == "stage_names")


def test_no_name_changes_the_direction_of_writing_on_the_page() -> None:
    """Not in titles, where a pointer rests, nor in lists and in the plan."""
    forged = with_names(microgrid(), "total \u202efdp.exe \u2066x")
    forged = forged.model_copy(update={"assumptions": (*forged.assumptions, "columns: g\u202eh")})
    text = report_html(forged)
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
    assert "columns: g\\u202eh" in text
    assert 'title="' in text


def test_names_are_shown_short_and_on_one_line() -> None:
    assert short("x" * 10_000, 60) == "x" * 59 + "…"
    assert short(" " * 10_000, 60).endswith("…")
    assert one_line("a\u202eb\u2066c") == "abc"
    assert "\n" not in one_line("a\r\nb\x85c\u2029d")
    assert isolated("ascii") == "ascii"
    assert isolated("بيت") == "\u2068بيت\u2069"


def test_the_snapshot_of_a_result_gives_the_snapshot_of_its_page() -> None:
    result = sl.AuditResult.from_json((SNAPSHOT / "result.json").read_text(encoding="utf-8"))
    expected = (SNAPSHOT / "report.html").read_text(encoding="utf-8")
    assert normalised(report_html(result)) == expected, "python tests/report/report_cases.py writes it again"


def with_groups_alike() -> sl.AuditResult:
    """The microgrid, and a number that tells the values of its rows."""
    text = '"April" less "March" tells the values of 2 rows'
    cell = HomogeneousCell(release="April", cell="April", rows=2, remaining=0.4, text=text)
    found = Unverified(
        name=AssumptionName.HOMOGENEOUS, count=1, reason="1 number tells", accepted=False, owner_only=True
    )
    return microgrid().model_copy(update={"homogeneous": (cell,), "unverified": (found,)})


def test_the_order_of_the_sections() -> None:
    headings = Outline(report_html(with_groups_alike())).texts["h2"]
    optional = {"What a pass needs and was not verified", "Groups that are nearly all alike "}
    assert Outline(page("microgrid")).texts["h2"] == [one for one in headings if one not in optional]
    assert headings == [
        "Below the limit",
        "Every change that reaches the limit",
        "In full",
        "What was audited",
        "How much uncertainty remains",
        "The most exposed",
        "Exposure after each release",
        "What each release does, and how accurate it is",
        "The same plan under each accountant",
        "What a pass needs and was not verified",
        "Groups that are nearly all alike ",
        "What this rests on",
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_example_is_drawn_in_full(name: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    status = main(["audit", str(example_plan(name)), "--html", str(path)])
    assert status in {0, 2}
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < TWO_MEGABYTES
    drawn = set(re.findall('data-figure="([^"]+)"', text))
    assert {figure.name for figure in FIGURES} - drawn <= {"accountants"}  # they need a budget


def test_the_plan_in_the_page_is_the_plan() -> None:
    (text,) = re.findall(r'<pre dir="ltr"[^>]*>(.*?)</pre>', page("microgrid"), flags=re.DOTALL)
    content = tomllib.loads(unescape(text))
    original = tomllib.loads(example_plan("microgrid").read_text(encoding="utf-8"))
    assert [r["sql"] for r in content["release"]] == [r["sql"] for r in original["release"]]


class TestOwnerOnly:
    def test_it_is_marked(self) -> None:
        text = report_html(with_groups_alike())
        assert "for the owner of the table only" in text
        marked = text.count('<span class="badge owner">owner only</span>')
        assert "Of the number" in text
        assert marked == 2, "what was left out, and groups that are nearly all alike"
        assert "The names are for the owner only." in text

    def test_a_publishable_report_has_none_of_it(self) -> None:
        text = report_html(with_groups_alike(), publishable=True)
        assert "owner only" not in text
        assert "alike" not in text
        assert "clipped to the bounds" not in text
        assert "Of the number" not in text
        assert all(one.accuracy is None for one in microgrid().publishable().releases)
        keys = [one.record for one in microgrid().exposed]
        assert keys
        assert not any(re.search(rf"\b{key}\b", normalised(text)) for key in keys)

    def test_the_command_line_keeps_it_from_json_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        main(["audit", str(example_plan("microgrid")), "--names", "--publishable", "--json"])
        printed = json.loads(capsys.readouterr().out)
        assert printed["dropped"] is None
        assert {one["record"] for one in printed["exposed"]} == {None}


def test_no_date_unless_asked() -> None:
    assert report_html(microgrid(), date="1 May <2026>") != page("microgrid")
    assert "1 May &lt;2026&gt;" in report_html(microgrid(), date="1 May <2026>")


class TestHeadline:
    def test_it_is_in_the_units_of_the_secret(self) -> None:
        number, words = headline(microgrid())
        assert number == "± 577 → ± 123–146"
        known = "evening_watts of the most exposed home is known to ± 123–146; before ± 577."
        assert words == known

    def test_it_is_rounded_outwards(self) -> None:
        least = calm().least_remaining_uncertainty
        assert least is not None
        shown = headline(calm())[0].rpartition("± ")[2]
        low, _, high = shown.partition("–")
        prior = 1000 / math.sqrt(12)
        assert float(low) <= prior * math.sqrt(least.lower)
        assert float(high or low) >= prior * math.sqrt(least.upper)

    def test_the_limit_is_given_as_both_shares(self) -> None:
        assert limit_line(microgrid()) == (
            "Do not publish this yet. 9 of 18 homes may keep less than 50 % of the variance (70.7 % of the "
            "±) of evening_watts."
        )
        assert limit_line(one_release()).startswith(
            "No limit was set, so that nothing is judged. 1 of 12 homes can be told apart from everything "
        )
        assert "all 40 homes keep at least 50 % of the variance" in limit_line(calm())

    def test_of_nothing_it_says_so(self) -> None:
        assert headline(nothing())[0] == "0"


def test_a_calm_page_says_so() -> None:
    text = page("calm")
    assert "The limit holds" in text
    assert (
        "The record of which least remains, and every one that can be singled out, alone or in a small "
        "group, or that may be below the limit." in text
    )


class TestBadInput:
    def test_an_existing_file_is_kept(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "report.html"
        path.write_text("mine")
        plan = str(example_plan("microgrid"))
        assert main(["audit", plan, "--html", str(path)]) == 1
        assert path.read_text() == "mine"
        captured = capsys.readouterr()
        assert "which exists; give another name, or --force" in captured.err
        assert captured.out == "", "refused before the audit"
        assert main(["audit", plan, "--html", str(path), "--force", "--no-what-if"]) == 2
        assert path.read_text().startswith("<!DOCTYPE html>")
        assert [p.name for p in tmp_path.iterdir()] == ["report.html"]

    @pytest.mark.thorough
    def test_a_folder_is_not_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="expected the name of a file, got the directory"):
            write_report(calm(), tmp_path, force=True)

    @pytest.mark.thorough
    def test_a_folder_that_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="no such directory; make it first"):
            write_report(calm(), tmp_path / "missing" / "report.html")

    def test_a_place_that_cannot_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        result = calm()  # its audit opens files, too
        monkeypatch.setattr(files.os, "open", refuse)
        with pytest.raises(InvalidInput, match=r"expected a place to write .* got: permission denied"):
            write_report(result, tmp_path / "report.html")

    def test_a_file_that_somebody_else_made_meanwhile(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "report.html"
        path.write_text("theirs")
        monkeypatch.setattr(files, "check_new", lambda path, *, force: None)
        with pytest.raises(InvalidInput, match="file exists"):
            write_report(calm(), path)
        assert path.read_text() == "theirs"

    def test_a_result_of_a_newer_version(self) -> None:
        content = json.loads(calm().to_json())
        content["schema_version"] += 1
        with pytest.raises(InvalidInput, match="read it with the Sightline that wrote it, or a newer one"):
            sl.AuditResult.from_json(json.dumps(content))


class TestDemo:
    def test_it_says_where_the_report_is(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "demo.html"
        assert main(["demo", "--html", str(path), "--no-what-if"]) == 0
        assert f"The report, to open in a browser: {path}" in capsys.readouterr().out
        assert "H13" in path.read_text(encoding="utf-8")

    @pytest.mark.thorough
    def test_without_the_extra_it_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setitem(sys.modules, "jinja2", None)
        assert main(["demo", "--html", str(tmp_path / "demo.html"), "--no-what-if"]) == 0
        captured = capsys.readouterr()
        assert "No report was written: the report needs Jinja2, which is not installed" in captured.err
        assert "Your own table:" in captured.out


def test_a_figure_that_its_page_does_not_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = replace(FIGURES[0], name="extra", drawable=lambda _: False)
    monkeypatch.setattr(pages, "FIGURES", (*FIGURES, extra))
    with pytest.raises(AssertionError, match=r"the page has no place for the figures .*extra"):
        report_html(microgrid())
