r"""``fig:realdata``: pairs of real loads at the first identifiable stage, and where such loads lie.

The paper's corpus is not public. Its 96 printed points can still be tested: with the parity-tight
sensitivities

.. math:: \mathrm{CRB}(2) = \frac{\kappa_2}{4\gamma^2}\Bigl(\tfrac12 + 8(\mu^2 + \gamma^2)\Bigr),

so every point must give a :math:`\mu^2 \ge 0` with :math:`|\mu| + \gamma \le 1`, and a load that occurs in
several pairs must have the same value in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.report.style import INK, PALETTE, altair
from sightline.theory.multiset.curve import release_curves
from sightline.theory.multiset.moments import Moments, pair_crb_at_two
from sightline.theory.paper.comparison import Claim, Effort, Figure, claim
from sightline.theory.paper.drawing import axis
from sightline.theory.paper.published import BASIC, normalise, reference, shipped_loads
from sightline.theory.releases.query import Convention

BINS = ("interior", "mixed", "near-boundary", "boundary")
_LIMITS = (0.6, 0.85, 0.99)  # of the bins: ours, for our loads; the paper does not give its own
_HALF_DIGIT = 5e-6  # relative: the points are printed with six digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A pair: half its gap, its bound at L = 2, and the larger magnitude of its two values."""

    gamma: float
    crb: float
    magnitude: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RealDataPairs:
    """The printed points, solved for their pairs, and our loads under the same protocol."""

    published: dict[str, tuple[Point, ...]]  # magnitudes solved under the tight convention
    consistent_tight: int
    consistent_uniform: int
    recurring: int  # solved values that occur in more than one printed pair
    recurring_by_chance: float  # the number expected if no two pairs shared a load
    loads: dict[str, tuple[Point, ...]]
    load_shares: dict[str, float]
    loads_formula_error: float  # of eq:m2_L2 in its tight form against the engine, relative


def compute(effort: Effort) -> RealDataPairs:
    """Solve the printed points for their pairs; sample pairs of the shipped loads."""
    printed = {name: np.array(reference()["fig:realdata"]["left"][name]) for name in BINS}
    everything = np.concatenate(list(printed.values()))
    solved = {name: _mu(points, BASIC.kappa(2), "tight")[1] for name, points in printed.items()}
    z = normalise(shipped_loads())
    pairs, places = _sample(z, effort)
    crb = release_curves(pairs, family=Moments(), accountant=BASIC, releases=[2]).crb[:, 0]
    formula = [pair_crb_at_two(pair, family=Moments(), accountant=BASIC) for pair in pairs]
    recurring, chance = _recurring(everything, np.concatenate(list(solved.values())))
    return RealDataPairs(
        published={
            name: tuple(
                Point(gamma=float(g), crb=float(c), magnitude=float(mu + g))
                for (g, c), mu in zip(points, solved[name], strict=True)
            )
            for name, points in printed.items()
        },
        consistent_tight=_consistent(everything, BASIC.kappa(2), "tight"),
        consistent_uniform=_consistent(everything, BASIC.kappa(2), "uniform"),
        recurring=recurring,
        recurring_by_chance=chance,
        loads={
            name: tuple(
                Point(gamma=float(b - a) / 2, crb=float(value), magnitude=float(max(abs(a), abs(b))))
                for (a, b), value, place in zip(pairs, crb, places, strict=True)
                if place == i
            )
            for i, name in enumerate(BINS)
        },
        load_shares={
            name: float(np.mean(np.digitize(np.abs(z), _LIMITS) == i) * 100) for i, name in enumerate(BINS)
        },
        loads_formula_error=float(np.max(np.abs(np.array(formula) / crb - 1))),
    )


def _mu(
    points: FloatArray, kappa: float, convention: Convention
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """|μ| of each printed point: lower end, value and upper end under its rounding; NaN if μ² < 0."""
    ends = []
    for sign in (-1, 0, 1):
        gamma, crb = (points * (1 + sign * _HALF_DIGIT)).T
        match convention:
            case "tight":
                square = (4 * gamma**2 * crb / kappa - 0.5) / 8 - gamma**2
            case "uniform":
                square = (2 * gamma**2 * crb / kappa - 1) / 4 - gamma**2
        with np.errstate(invalid="ignore"):
            ends.append(np.sqrt(square))
    return ends[0], ends[1], ends[2]


def _consistent(points: FloatArray, kappa: float, convention: Convention) -> int:
    """The number of printed points that some pair in [−1, 1] can produce."""
    low, _, high = _mu(points, kappa, convention)
    real = ~np.isnan(high)
    least = np.where(np.isnan(low), 0.0, low) + points[:, 0] * (1 - _HALF_DIGIT)
    return int(np.sum(real & (least <= 1)))


def _recurring(points: FloatArray, mu: FloatArray) -> tuple[int, float]:
    """The number of values |z| that agree with one of another pair to 2·10⁻⁵, and the number by chance.

    By chance: each value is moved by a random amount of up to 0.01, which keeps their distribution and breaks
    shared values; the mean of 200 draws with a fixed seed.
    """

    def shared(values: FloatArray) -> int:
        owner = np.repeat(np.arange(len(values)), 2)
        flat = np.abs(values).ravel()
        near = np.abs(flat[:, None] - flat[None, :]) <= 2e-5
        near &= owner[:, None] != owner[None, :]
        return int(np.sum(near.any(axis=1)))

    values = np.stack([mu - points[:, 0], mu + points[:, 0]], axis=1)
    generator = np.random.default_rng(0)
    moved = [shared(values + generator.uniform(-0.01, 0.01, values.shape)) for _ in range(200)]
    return shared(values), float(np.mean(moved))


def _sample(z: FloatArray, effort: Effort) -> tuple[FloatArray, FloatArray]:
    """Draw equally many pairs of different loads for every bin of the larger magnitude."""
    generator = np.random.default_rng(effort.seed)
    drawn = np.sort(generator.choice(z, size=(200_000, 2)), axis=1)
    drawn = drawn[drawn[:, 0] < drawn[:, 1]]
    interval = np.digitize(np.max(np.abs(drawn), axis=1), _LIMITS)
    chosen = np.concatenate([np.flatnonzero(interval == i)[: effort.trials] for i in range(len(BINS))])
    return drawn[chosen], interval[chosen]


def draw(result: RealDataPairs) -> dict[str, Any]:
    """The paper's two panels, each followed by the same for our loads."""
    printed = {name: float(reference()["fig:realdata"]["right"][name]) for name in BINS}
    records = "of 408 records (91 + 123 + 191 + 3)"
    note = "other real loads than the paper's: 18 Belgian buildings, 2016"
    panels = {
        "left": (_scatter(result.published), "Printed pairs, L = 2", "dashed: slope −2, as printed"),
        "left, our loads": (_scatter(result.loads), "Pairs of the shipped loads, L = 2", note),
        "right": (_bars(printed), "Printed magnitudes", records),
        "right, our loads": (_bars(result.load_shares), "Magnitudes of the shipped loads", note),
    }
    alt = altair()
    return {
        name: alt.layer(*layers).properties(
            title=alt.TitleParams(title, subtitle=subtitle), width=285, height=205
        )
        for name, (layers, title, subtitle) in panels.items()
    }


def _scatter(groups: dict[str, tuple[Point, ...]]) -> list[Any]:
    alt = altair()
    rows: list[dict[str, Any]] = [
        {"bin": name, "x": point.gamma, "y": point.crb, "magnitude": point.magnitude}
        for name, points in groups.items()
        for point in points
    ]
    line = [{"x": x, "y": y} for x, y in reference()["fig:realdata"]["reference"]]
    span = [row["x"] for row in rows] + [point["x"] for point in line]
    x = axis("x", span, title="half the gap, γ", log=True)
    y = axis("y", [row["y"] for row in rows] + [point["y"] for point in line], title="CRB at L = 2", log=True)
    colour = alt.Color(
        "bin:N",
        title=None,
        scale=alt.Scale(domain=list(BINS), range=list(PALETTE[:4])),
        legend=alt.Legend(columns=4),
    )
    shape = alt.Shape("bin:N", title=None, scale=alt.Scale(domain=list(BINS)))
    tips = [alt.Tooltip(f"{field}:Q", format=".6g") for field in ("x", "y", "magnitude")]
    dashed = alt.Chart(alt.Data(values=line)).mark_line(strokeDash=[5, 4], color=INK, strokeWidth=1)
    points = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, opacity=0.75, size=42)
    return [
        dashed.encode(x=x, y=y),
        points.encode(x=x, y=y, color=colour, shape=shape, tooltip=[alt.Tooltip("bin:N"), *tips]),
    ]


def _bars(shares: dict[str, float]) -> list[Any]:
    alt = altair()
    rows = [{"bin": name, "share": share, "label": f"{share:.1f} %"} for name, share in shares.items()]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("bin:N", sort=list(BINS), title=None, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("share:Q", title="share of records (%)", scale=alt.Scale(domain=[0, 60])),
    )
    colour = alt.Color("bin:N", scale=alt.Scale(domain=list(BINS), range=list(PALETTE[:4])), legend=None)
    return [base.mark_bar(width=44).encode(color=colour), base.mark_text(dy=-7).encode(text="label:N")]


def claims(result: RealDataPairs) -> tuple[Claim, ...]:
    """What the caption and ``subsec:experiments_static`` say."""
    total = sum(len(points) for points in result.published.values())
    magnitudes = {name: [point.magnitude for point in group] for name, group in result.published.items()}
    spans = {name: (min(group), max(group)) for name, group in magnitudes.items()}
    ranges = "; ".join(f"{name} {low:.3f} to {high:.3f}" for name, (low, high) in spans.items())
    line = np.log(np.array(reference()["fig:realdata"]["reference"]))
    slope = float(np.polyfit(line[:, 0], line[:, 1], 1)[0])
    shares = reference()["fig:realdata"]["right"]
    whole = max(abs(share / 100 * 408 - round(share / 100 * 408)) for share in shares.values())
    disjoint = all(spans[a][1] <= spans[b][0] for a, b in pairwise(BINS))
    return (
        claim(
            "fig:realdata",
            "(left) The points are CRB(2) of pairs of normalised loads (eq:m2_L2).",
            checked="each printed point solved for |μ|: a pair in [−1, 1] must exist, up to the six printed "
            "digits",
            value=result.consistent_tight,
            quantity=f"consistent points of {total}",
            holds=result.consistent_tight == total,
            remark="under the parity-tight sensitivities; under those of tab:adjacency (eq:m2_L2 as "
            f"printed) only {result.consistent_uniform} are possible. Solved so, {result.recurring} of "
            f"{2 * total} values recur in another pair ({result.recurring_by_chance:.0f} by chance), as "
            "in draws from one small pool",
        ),
        claim(
            "fig:realdata",
            "(left) Colours are bins of the larger magnitude max(|z₁|, |z₂|).",
            checked="range of the solved |μ| + γ within each colour",
            value=spans["boundary"][1],
            quantity="largest magnitude among the points called boundary",
            holds=disjoint,
            remark=f"the ranges overlap: {ranges}; no point called boundary reaches the boundary, so the "
            "printed colours are bins of something else. Their limits are not printed",
        ),
        claim(
            "fig:realdata",
            "(left) The dashed reference falls as γ⁻².",
            checked="slope of the 100 printed points of the line on logarithmic axes",
            value=slope,
            quantity="slope",
            holds=abs(slope + 2) < 1e-4,
        ),
        claim(
            "fig:realdata",
            "(right) Boundary records are rare; mixed and near-boundary records dominate the pool.",
            checked="the printed percentages are whole numbers of 408 records: 91, 123, 191 and 3",
            value=whole,
            quantity="largest distance from a whole number of records",
            holds=whole < 0.005,
            remark="on the shipped loads, which are not the paper's, with our own limits: "
            + ", ".join(f"{name} {share:.1f} %" for name, share in result.load_shares.items()),
        ),
        claim(
            "fig:realdata",
            "The same protocol on other real loads: the L = 2 bound of a pair and its closed form.",
            checked=f"{sum(map(len, result.loads.values()))} pairs of shipped loads, engine against closed "
            "form",
            value=result.loads_formula_error,
            holds=result.loads_formula_error < 1e-9,
        ),
    )


FIGURES = {
    "fig:realdata": Figure(
        title="Operating points from real electricity loads",
        about=(
            "The first identifiable bound against the separation of a pair, and the magnitudes of "
            "normalised records. The printed points are shown as they are, and beside them the same "
            "protocol on loads of 18 Belgian buildings, which are not the paper's corpus."
        ),
        compute=compute,
        draw=draw,
        claims=claims,
    )
}
