r"""What a figure is made of: lines of numbers, claims, comparisons with the published numbers.

Numbers that have intervals are tested jointly. Our Monte-Carlo point with standard error :math:`s` and a
printed one with half-width :math:`w` differ by :math:`z = (a - b)/\sqrt{s^2 + (w/1.96)^2}` standard
deviations. All n points agree if the largest :math:`|z|` is below the quantile at :math:`1 - \alpha/2n`: by
Bonferroni the rate of false failures is at most :math:`\alpha`, whatever the dependence among the points (the
paper's two attacks may share their noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from sightline.errors import require

INTERVAL_95 = NormalDist().inv_cdf(0.975)  # half the width of a 95 % interval, in standard errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One of our curves and the printed one, at the printed x."""

    panel: str
    ours: Line
    published: Line

    def __post_init__(self) -> None:
        require(
            self.ours.x == self.published.x,
            "both curves at the same x",
            got=f"{len(self.ours.x)} and {len(self.published.x)} points",
        )

    @property
    def largest_relative_difference(self) -> float:
        """The largest relative difference over all points."""
        pairs = zip(self.ours.y, self.published.y, strict=True)
        return max(abs(a - b) / abs(b) for a, b in pairs)

    @property
    def random(self) -> bool:
        """Whether the printed points come with intervals: they are then compared by :func:`joint_test`."""
        return len(self.published.half_widths) > 0

    @property
    def deviations(self) -> tuple[float, ...]:
        """The standardised difference z of each point."""
        ours = self.ours.half_widths or (0.0,) * len(self.ours.y)
        points = zip(self.ours.y, ours, self.published.y, self.published.half_widths, strict=True)
        return tuple(INTERVAL_95 * (a - b) / math.hypot(s, w) for a, s, b, w in points)

    @property
    def inside(self) -> int:
        """The number of our points inside the printed intervals."""
        points = zip(self.ours.y, self.published.y, self.published.half_widths, strict=True)
        return sum(abs(a - b) <= w for a, b, w in points)

    @property
    def expected_inside(self) -> float:
        """The expected number inside if both are right; our own error moves some points out."""
        ours = self.ours.half_widths or (0.0,) * len(self.ours.y)
        ratios = (w / math.hypot(s, w) for s, w in zip(ours, self.published.half_widths, strict=True))
        return sum(2 * NormalDist().cdf(INTERVAL_95 * ratio) - 1 for ratio in ratios)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTest:
    """The joint test of all printed points that have intervals."""

    points: int
    largest_deviation: float
    limit: float
    false_failures: float
    inside: int
    expected_inside: float

    @property
    def passes(self) -> bool:
        """Whether no point differs by more than the limit."""
        return self.largest_deviation <= self.limit

    def __str__(self) -> str:
        verdict = "agree" if self.passes else "disagree"
        return (
            f"{self.points} random points {verdict}: largest |z| {self.largest_deviation:.2f}, limit "
            f"{self.limit:.2f} (false failures at most {self.false_failures:g}); {self.inside} inside the "
            f"printed 95 % intervals, {self.expected_inside:.1f} expected"
        )


def joint_test(comparisons: Iterable[Comparison]) -> JointTest | None:
    """Test all random points of several comparisons together; ``None`` if there are none.

    >>> ours = Line.of("risk", x=[1.0, 2.0], y=[1.02, 2.0], half_widths=[0.05, 0.05])
    >>> published = Line.of("risk", x=[1.0, 2.0], y=[1.0, 2.1], half_widths=[0.05, 0.05])
    >>> test = joint_test([Comparison(panel="left", ours=ours, published=published)])
    >>> test.passes, round(test.largest_deviation, 3), test.inside
    (True, 2.772, 1)
    """
    random = [comparison for comparison in comparisons if comparison.random]
    points = sum(len(comparison.published.y) for comparison in random)
    if points == 0:
        return None
    false_failures = 1e-3  # over all points together
    return JointTest(
        points=points,
        largest_deviation=max(abs(z) for comparison in random for z in comparison.deviations),
        limit=NormalDist().inv_cdf(1 - false_failures / (2 * points)),
        false_failures=false_failures,
        inside=sum(comparison.inside for comparison in random),
        expected_inside=sum(comparison.expected_inside for comparison in random),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The points of one curve; ``half_widths`` are those of 95 % intervals, if it has any.

    >>> Line.of("bound", x=[1, 2], y=[3.0, 4.0]).y
    (3.0, 4.0)
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    half_widths: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require(len(self.x) == len(self.y), "as many x as y", got=f"{len(self.x)} and {len(self.y)}")
        require(
            len(self.half_widths) in (0, len(self.x)),
            "a half-width for every point or for none",
            got=len(self.half_widths),
        )

    @classmethod
    def of(
        cls, name: str, *, x: Iterable[float], y: Iterable[float], half_widths: Iterable[float] = ()
    ) -> Line:
        """Make a line from numbers of any type, also NumPy's."""
        return cls(
            name=name,
            x=tuple(float(value) for value in x),
            y=tuple(float(value) for value in y),
            half_widths=tuple(float(value) for value in half_widths),
        )

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """The points (x, y)."""
        return tuple(zip(self.x, self.y, strict=True))

    def over(self, other: Line) -> list[float]:
        """This curve over another at the same places."""
        return [a / b for a, b in zip(self.y, other.y, strict=True)]

    @property
    def lowest(self) -> tuple[float, float]:
        """The point with the smallest y."""
        at = min(range(len(self.y)), key=self.y.__getitem__)
        return self.x[at], self.y[at]


class ClaimVerdict(Enum):
    """The result of a check."""

    HOLDS = "holds"
    REMARK = "holds with a remark"
    FAILS = "does not hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement: its label in the paper, its text, how it was checked, the number and the verdict."""

    label: str
    says: str
    checked: str
    value: float
    quantity: str  # the meaning of the value
    verdict: ClaimVerdict
    remark: str = ""


Check = Callable[[int, np.random.Generator], Claim]  # from a number of random cases and what draws them


def claim(  # many parameters: they are the columns of the table of claims
    label: str,
    says: str,
    *,
    checked: str,
    value: float,
    quantity: str = "largest relative difference",
    holds: bool,
    remark: str = "",
) -> Claim:
    """Make a claim; its verdict follows from ``holds`` and from whether there is a remark."""
    verdict = ClaimVerdict.FAILS if not holds else ClaimVerdict.REMARK if remark else ClaimVerdict.HOLDS
    return Claim(
        label=label,
        says=says,
        checked=checked,
        value=float(value),
        quantity=quantity,
        verdict=verdict,
        remark=remark,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text with a heading."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How many random cases a figure draws, and their seed; none if nothing in it is random."""

    trials: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure or table of the paper. All have the same functions, so that one loop makes them all.

    ``compute`` returns a frozen dataclass of plain numbers, which can be written as JSON. ``draw`` returns an
    Altair chart for each panel, ``compare`` pairs our curves with the printed ones, and ``claims`` checks
    what the caption and the text say.
    """

    title: str
    about: str
    full: Effort = Effort()  # how many random cases a whole run draws
    fast: Effort = Effort()  # and a fast one
    compute: Callable[[Effort], Any]
    draw: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    compare: Callable[[Any], tuple[Comparison, ...]] = lambda _: ()
    claims: Callable[[Any], tuple[Claim, ...]]
    tables: Callable[[Any], tuple[Table, ...]] = lambda _: ()

    def effort(self, *, fast: bool, seed: int) -> Effort:
        """The effort of a run, with the seed if the figure uses random numbers."""
        chosen = self.fast if fast else self.full
        return replace(chosen, seed=seed) if chosen.trials else chosen


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """A drawn panel: its Vega-Lite specification and the SVG file that shows it."""

    name: str
    file: Path
    specification: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MadeFigure:
    """A finished figure: its result, panels, comparisons with the printed curves, and claims."""

    label: str
    figure: Figure
    document: dict[str, Any]  # the content of its JSON file
    result: Any
    panels: tuple[Panel, ...]
    comparisons: tuple[Comparison, ...]
    agreement: JointTest | None
    claims: tuple[Claim, ...]

    @property
    def beyond_the_paper(self) -> bool:
        """Whether the paper has no such figure."""
        return self.label.startswith("beyond:")

    @property
    def largest_relative_difference(self) -> float | None:
        """The largest over all printed curves without intervals; ``None`` if there are none."""
        exact = [c.largest_relative_difference for c in self.comparisons if not c.random]
        return max(exact) if exact else None
