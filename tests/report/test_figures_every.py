"""Every figure: drawn from a result alone, as SVG and PDF, the same each time, with few marks."""

from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import sightline as sl
from sightline.cli import main
from sightline.display import Displayed
from sightline.errors import InvalidInput, MissingExtra
from sightline.examples.shipped import example_plan
from sightline.format import percent, percent_at_least
from sightline.report import notebook, style
from sightline.report.figures import FIGURES, draw_distribution, draw_timeline
from sightline.theory.attacks.blue import Blue
from tests.report.report_cases import RESULTS, budgeted, microgrid, nothing

MOST_MARKS = 500  # 60 stages in a few layers


def data_of(chart: object) -> list[dict]:
    """The rows of every dataset of a chart; of a chart and of its layers."""
    found = style.specification(chart)
    parts = [part for part in (found, *found.get("layer", [])) if "data" in part]
    return [row for part in parts for row in json.loads(part["data"]["values"])]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
@pytest.mark.parametrize("name", RESULTS)
class TestEveryFigure:
    @pytest.mark.sampled(6)
    @pytest.mark.slow
    def test_it_is_the_same_each_time_and_small(self, name: str, figure: object) -> None:
        result = RESULTS[name]()
        if not figure.drawable(result):
            assert name == "nothing" or (figure.name == "accountants" and result.budget.epsilon is None)
            return
        first, second = (style.specification(figure.draw(result)) for _ in range(2))
        assert first == second
        assert len(data_of(figure.draw(result))) <= MOST_MARKS
        assert first["description"] == figure.describe(result)
        assert len(figure.describe(result)) > 30


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_it_is_drawn_as_svg_and_can_be_zoomed(figure: object) -> None:
    chart = style.specification(figure.draw(budgeted()))
    drawing = ElementTree.fromstring(style.svg(chart))
    assert drawing.tag.endswith("svg")
    parts = [chart, *chart.get("layer", [])]
    params = [param for part in parts for param in part.get("params", [])]
    # The picture of the first screen is small: there is nothing to look closer at.
    assert any(param.get("bind") == "scales" for param in params) is (figure.name != "before-after")


@pytest.mark.slow
def test_the_distribution_draws_every_record() -> None:
    drawn = [row for row in data_of(draw_distribution(microgrid())) if "low" in row]
    # Bars and their numbers are two layers over the same data.
    assert {row["low"]: row["records"] for row in drawn} == {
        low: count
        for low, count in zip(microgrid().distribution.edges, microgrid().distribution.records, strict=False)
        if count
    }


@pytest.mark.slow
def test_numbers_on_bars_do_not_collide() -> None:
    crowded = microgrid().distribution.model_copy(
        update={"edges": tuple(k / 20 for k in range(21)), "records": (12_345,) * 20}
    )
    drawn = data_of(draw_distribution(microgrid().model_copy(update={"distribution": crowded})))
    drawn = [row for row in drawn if "low" in row and row["text"]]
    places = sorted({row["low"] for row in drawn})
    assert {row["text"] for row in drawn} == {"12,345"}
    assert min(high - low for low, high in itertools.pairwise(places)) >= 0.15


def test_a_lower_bound_is_never_rounded_up() -> None:
    for share in [0.0, 1e-9, 0.00999, 0.0999999, 0.12999, 0.5, 0.999, 1.0]:
        assert float(percent_at_least(share).removesuffix(" %")) / 100 <= share * (1 + 1e-12)
    assert percent(0.5) == "50 %"


class TestExport:
    @pytest.mark.thorough
    @pytest.mark.slow
    def test_every_figure_as_svg_and_pdf(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "new" / "figures"
        assert main(["figures", str(example_plan("microgrid")), "--out", str(out)]) == 2
        drawn = [figure for figure in FIGURES if figure.drawable(microgrid())]
        names = {f"{figure.name}{suffix}" for figure in drawn for suffix in (".svg", ".pdf")}
        assert {path.name for path in out.iterdir()} == names
        assert {Path(line).name for line in capsys.readouterr().out.splitlines()} == names
        assert all(path.read_bytes().startswith(b"%PDF") for path in out.glob("*.pdf"))
        before = {path.name: path.read_bytes() for path in out.glob("*.svg")}
        assert main(["figures", str(example_plan("microgrid")), "--out", str(out)]) == 1
        assert "which exists; give another name, or --force" in capsys.readouterr().err
        assert main(["figures", str(example_plan("microgrid")), "--out", str(out), "--force"]) == 2
        assert {path.name: path.read_bytes() for path in out.glob("*.svg")} == before, "the same bytes"

    @pytest.mark.slow
    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(InvalidInput, match=r"expected a folder to write to, got .*: not a directory"):
            sl.export_figures(microgrid(), tmp_path / "file" / "figures")

    @pytest.mark.slow
    def test_of_nothing_there_is_little_to_draw(self, tmp_path: Path) -> None:
        assert sl.export_figures(nothing(), tmp_path) == ()


def curve() -> sl.multiset.ReleaseCurve:
    basic = sl.BasicComposition(sl.Budget(epsilon=1.0, delta=1e-5))
    return sl.release_curve([0.7, -0.4], family=sl.Moments(), accountant=basic, releases=range(1, 9))


def simulation() -> sl.attacks.Simulation:
    releases = [sl.SubsetMean(members=range(4), radius=1.0), sl.SubsetMean(members=[1, 2, 3], radius=1.0)]
    transcript = sl.Transcript(releases, noise=[0.1, 0.1])
    return sl.simulate(transcript, attack=Blue(target=0), at=[0.1, 0.2, 0.3, 0.4], domain=(0, 1), trials=50)


SHOWN = {"audit": microgrid, "nothing": nothing, "curve": curve, "simulation": simulation}


@pytest.mark.parametrize("name", SHOWN)
class TestNotebook:
    @pytest.mark.slow
    def test_it_shows_itself_without_scripts(self, name: str) -> None:
        found = SHOWN[name]()
        shown = found._repr_html_()
        assert shown is not None
        assert "<script" not in shown
        assert ("data:image/svg+xml" in shown) == (name != "nothing")
        assert shown == found._repr_html_()

    @pytest.mark.slow
    def test_it_gives_a_chart(self, name: str) -> None:
        if name == "nothing":
            return
        assert style.svg(style.specification(SHOWN[name]().plot())).startswith("<svg")

    def test_without_the_extra_the_plain_form_remains(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing(_: str) -> None:
            raise MissingExtra("no")

        monkeypatch.setattr("sightline.display._display", missing)
        assert SHOWN[name]()._repr_html_() is None
        with pytest.raises(MissingExtra):
            SHOWN[name]().plot()


@pytest.mark.slow
def test_a_curve_that_is_never_identifiable_says_so() -> None:
    basic = sl.BasicComposition(sl.Budget(epsilon=1.0, delta=1e-5))
    blind = sl.release_curve([0.7, -0.4], family=sl.Moments(), accountant=basic, releases=[1])
    assert "No number of releases" in blind._repr_html_()


def test_a_report_that_is_not_installed_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    with pytest.raises(MissingExtra, match="pip install"):
        Displayed().plot()


@pytest.mark.parametrize("draw", [notebook.plot, notebook.html])
def test_what_nobody_can_draw_is_refused(draw: object) -> None:
    with pytest.raises(InvalidInput, match="expected a result that can be"):
        draw(3)


@pytest.mark.parametrize("stages", [1, 2, 3, 5, 8])
def test_names_below_a_figure_have_room_on_a_telephone(stages: int) -> None:
    """Side by side a line has 6 pixels a letter, of 210 in all; askew a line takes 16 of them."""
    result = microgrid()
    named = tuple(
        one.model_copy(update={"release": "by gender, marital status and occupation"})
        for one in result.timeline[:stages]
    )
    found = style.specification(draw_timeline(result.model_copy(update={"timeline": named})))
    params = [one for part in (found, *found["layer"]) for one in part.get("params", ())]
    (names,) = (one["value"] for one in params if one["name"] == "stage_names")
    assert len(names) == stages
    longest, lines = max(len(line.strip("\u2068\u2069")) for name in names for line in name), len(names[0])
    if stages <= 3:
        assert 6 * longest * stages <= 210
    else:
        assert 16 * lines * stages <= 210
