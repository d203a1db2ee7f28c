r"""Compare our numbers with the published ones; test those that have intervals jointly.

Our Monte-Carlo point with standard error :math:`s` and a printed one with half-width :math:`w` differ
by :math:`z = (a - b)/\sqrt{s^2 + (w/1.96)^2}` standard deviations. All n points agree if the largest
:math:`|z|` is below the quantile at :math:`1 - \alpha/2n`: by Bonferroni the rate of false failures is at
most :math:`\alpha`, whatever the dependence among the points (the paper's two attacks may share their noise).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from sightline.errors import require
from sightline.paper.line import Line

FALSE_FAILURES = 1e-3  # of the joint test, over all its points together
_TWO_SIDED_95 = NormalDist().inv_cdf(0.975)


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
        return tuple(_TWO_SIDED_95 * (a - b) / math.hypot(s, w) for a, s, b, w in points)

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
        return sum(2 * NormalDist().cdf(_TWO_SIDED_95 * ratio) - 1 for ratio in ratios)


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
    return JointTest(
        points=points,
        largest_deviation=max(abs(z) for comparison in random for z in comparison.deviations),
        limit=NormalDist().inv_cdf(1 - FALSE_FAILURES / (2 * points)),
        false_failures=FALSE_FAILURES,
        inside=sum(comparison.inside for comparison in random),
        expected_inside=sum(comparison.expected_inside for comparison in random),
    )
