"""Charts as files and pages: formats, identical bytes, scripts that cannot break out, sparse ticks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from sightline.errors import InvalidInput
from sightline.report import style
from sightline.theory.paper.comparison import Line
from sightline.theory.paper.drawing import axis, panel, stars_of

FALLING = Line.of("falling", x=[2, 3, 4], y=[100.0, 10.0, 1.0])
DIPPING = Line.of("dipping", x=[2, 3, 4], y=[5.0, 2.0, 7.0], half_widths=[1.0, 1.0, 1.0])


@pytest.fixture(scope="module")
def chart() -> dict[str, Any]:
    return style.specification(
        panel(
            (FALLING, DIPPING),
            title="A title",
            x_title="x",
            y_title="y",
            published=(FALLING,),
            stars=stars_of((FALLING, DIPPING)),
        )
    )


@pytest.mark.thorough
def test_files_have_the_format_that_their_name_asks_for(chart: dict[str, Any], tmp_path: Path) -> None:
    starts = {"a.svg": b"<svg", "a.png": b"\x89PNG", "a.pdf": b"%PDF"}
    for name, start in starts.items():
        style.save(chart, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(InvalidInput, match=r"named .svg, .pdf or .png, got '.gif'"):
        style.save(chart, tmp_path / "a.gif")


@pytest.mark.slow
def test_the_same_chart_is_the_same_bytes(chart: dict[str, Any]) -> None:
    assert style.svg(chart) == style.svg(json.loads(json.dumps(chart)))


@pytest.mark.slow
def test_a_chart_shows_its_title_its_axes_and_its_curves(chart: dict[str, Any]) -> None:
    root = ElementTree.fromstring(style.svg(chart))
    texts = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"A title", "x", "y", "falling", "dipping"} <= texts


@pytest.mark.thorough
def test_embedded_data_cannot_end_their_script() -> None:
    evil = {"one": {"title": "</script><script>alert(1)</script>"}}
    scripts = style.live_charts(evil)
    assert scripts.count("</script>") == 2
    (data,) = re.findall(r"of Object\.entries\((\{.*\})\)\) \{$", scripts, flags=re.MULTILINE)
    assert json.loads(data) == evil


@pytest.mark.slow
def test_a_still_is_an_image_that_needs_no_file(chart: dict[str, Any]) -> None:
    element = style.static_chart(style.svg(chart), identifier='a"b', description="x < y")
    assert element.startswith('<div id="a&quot;b"><img alt="x &lt; y" src="data:image/svg+xml,')
    assert element.count('"') == 6


def test_a_star_only_where_the_minimum_is_inside() -> None:
    assert stars_of((FALLING, DIPPING)) == [("dipping", 3.0, 2.0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((1.0, 1e6), [1.0, 10.0, 100.0, 1000.0, 1e4, 1e5, 1e6]),
        ((30.0, 300.0), [50.0, 100.0, 200.0]),
        ((1e-100, 1.0), None),
    ],
)
def test_logarithmic_ticks_are_round_and_few(values: tuple[float, float], ticks: list[float] | None) -> None:
    found = axis("y", values, title="", log=True).to_dict()["axis"]["values"]
    assert 2 <= len(found) <= 9
    assert ticks is None or found == ticks


def test_counts_have_no_ticks_between_them() -> None:
    assert axis("x", [2.0, 3.0, 4.0, 6.0], title="", log=False).to_dict()["axis"]["values"] == [2, 3, 4, 6]
