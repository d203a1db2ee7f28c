"""A named curve of numbers, which panels compute, draw and compare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sightline.errors import require

INTERVAL_95 = 1.959964  # half the width of a 95 % interval, in standard errors


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
