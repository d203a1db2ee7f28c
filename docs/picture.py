"""Draw docs/_static/picture.svg: one record, a mean with it, a mean without it, and three accountants.

Run ``python docs/picture.py`` when those numbers change; a test compares the file with the code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.privacy.accountant import Accountant, Budget
from sightline.privacy.composition import BasicComposition
from sightline.privacy.concentrated import ZeroConcentrated
from sightline.privacy.gaussian_dp import GaussianDP
from sightline.theory.geometry.exposure import Exposure
from sightline.theory.geometry.transcript import Transcript
from sightline.theory.releases.linear import SubsetMean

PICTURE = Path(__file__).parent / "_static" / "picture.svg"
INK, FAINT, TARGET = "#1b2733", "#9aa7b4", "#c2410c"
COLOURS = ("#64748b", "#0369a1", "#0f766e")

# The right panel: number of releases across, error up, both on logarithmic scales.
LEFT, RIGHT, TOP, BOTTOM = 430, 640, 76, 262
FEWEST, MOST, LOW, HIGH = 2, 32, 0.3, 100.0


_BACKGROUND = 50
_RELEASES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """What the picture shows: what is exposed, by which recipe, and with which error per accountant."""

    background: int
    epsilon: float
    delta: float
    identifiable_from_in: str
    identifiable_from_in_and_out: str
    recipe: tuple[float, float]  # weights on one IN and one OUT answer
    # accountant -> number of releases -> error, in units of the value's range
    rmse: dict[str, dict[int, float]]


def tour() -> Tour:
    """Attack record 0 of 51 with noisy means that include it (IN) and leave it out (OUT), as many of each.

    Values have range 1, and each transcript has the whole budget. With more copies the error grows under
    basic composition and stays the same under the exact accountant.
    """
    budget = Budget(epsilon=1.0, delta=1e-5)
    accountants: dict[str, Accountant] = {
        "basic composition": BasicComposition(budget),
        "zero-concentrated": ZeroConcentrated(budget),
        "exact Gaussian": GaussianDP(budget),
    }
    exact = accountants["exact Gaussian"]
    pair = _exposure(1, 1, exact)
    assert pair.recipe is not None  # the rows of one IN and one OUT mean are independent
    weight_in, weight_out = pair.recipe[0].round(9).tolist()
    return Tour(
        background=_BACKGROUND,
        epsilon=budget.epsilon,
        delta=budget.delta,
        identifiable_from_in=_exposure(1, 0, exact).identifiable.value,
        identifiable_from_in_and_out=pair.identifiable.value,
        recipe=(weight_in, weight_out),
        rmse={
            name: {releases: _exposure(releases // 2, releases // 2, rule).rmse for releases in _RELEASES}
            for name, rule in accountants.items()
        },
    )


def _exposure(copies_in: int, copies_out: int, accountant: Accountant) -> Exposure:
    mean_in = SubsetMean(members=np.arange(_BACKGROUND + 1), radius=1.0)
    mean_out = SubsetMean(members=np.arange(1, _BACKGROUND + 1), radius=1.0)
    transcript = Transcript((mean_in,) * copies_in + (mean_out,) * copies_out, noise=accountant)
    return transcript.geometry().profile(target=0)


def across(releases: float) -> float:
    return LEFT + (RIGHT - LEFT) * math.log(releases / FEWEST) / math.log(MOST / FEWEST)


def up(error: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * math.log(error / LOW) / math.log(HIGH / LOW)


def text(  # many parameters: one for each attribute of the element
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    fill: str = INK,
    weight: int = 400,
    size: int = 13,
) -> str:
    style = f'text-anchor="{anchor}" fill="{fill}" font-weight="{weight}" font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{words}</text>'


def dots(x: float, y: float, *, records: int, target: bool) -> list[str]:
    """One dot for each record, in three lines, the target first; the target is hollow if it is left out."""
    drawn = []
    for record in range(records):
        centre = f'cx="{x + 14 * (record // 3):.1f}" cy="{y + 14 * (record % 3):.1f}" r="4.5"'
        if record:
            drawn.append(f'<circle {centre} fill="{FAINT}"/>')
        else:
            fill = TARGET if target else "none"
            drawn.append(f'<circle {centre} fill="{fill}" stroke="{TARGET}" stroke-width="1.5"/>')
    return drawn


def what_is_exposed(found: Tour) -> list[str]:
    records = found.background + 1
    weight_in, weight_out = found.recipe
    return [
        text(24, 34, "What is exposed: the queries decide", weight=700, size=15),
        text(24, 78, "IN", weight=700),
        *dots(68, 62, records=records, target=True),
        text(24, 148, "OUT", weight=700),
        *dots(68, 132, records=records, target=False),
        text(24, 212, f"Can one record be told apart from the other {found.background}?"),
        text(24, 238, f"from IN alone: {found.identifiable_from_in}"),
        text(
            24,
            262,
            f"from IN and OUT: {found.identifiable_from_in_and_out}, "
            f"x = {weight_in:g} · IN − {-weight_out:g} · OUT",
            fill=TARGET,
            weight=700,
        ),
    ]


def how_sharply(found: Tour) -> list[str]:
    drawn = [text(400, 34, "How sharply: the accountant decides", weight=700, size=15)]
    for error in (1, 10, 100):
        drawn.append(f'<path d="M{LEFT} {up(error):.1f}H{RIGHT}" stroke="#e5e9ee"/>')
        drawn.append(text(LEFT - 8, up(error) + 4, str(error), anchor="end", fill=FAINT, size=12))
    for releases in (2, 4, 8, 16, 32):
        drawn.append(text(across(releases), BOTTOM + 18, str(releases), anchor="middle", fill=FAINT, size=12))
    middle = (LEFT + RIGHT) / 2
    drawn.append(text(middle, BOTTOM + 36, "number of releases in the budget", anchor="middle", size=12))
    drawn.append(text(LEFT - 30, TOP - 16, "error, in ranges of the value", size=12))
    drawn.append(f'<path d="M{LEFT} {up(0.5):.1f}H{RIGHT}" stroke="{TARGET}" stroke-dasharray="4 4"/>')
    drawn.append(text(RIGHT + 8, up(0.5) + 4, "guess the middle", fill=TARGET, size=12))
    lowest = 0.0
    for (accountant, errors), colour in zip(found.rmse.items(), COLOURS, strict=True):
        points = " ".join(f"{across(L):.1f},{up(error):.1f}" for L, error in errors.items())
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        lowest = max(up(errors[MOST]) + 2, lowest + 15)  # labels keep their distance
        drawn.append(text(RIGHT + 8, lowest, f"{accountant} {errors[MOST]:.3g}", fill=colour, size=12))
    return drawn


def svg(found: Tour) -> str:
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 310" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif">'
        "<title>What a mean with a record and a mean without it expose, and how sharply</title>"
        '<rect width="820" height="310" rx="8" fill="#ffffff"/>'
    )
    return "\n".join([head, *what_is_exposed(found), *how_sharply(found), "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(svg(tour()), encoding="utf-8")
