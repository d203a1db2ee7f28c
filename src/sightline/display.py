"""Show results in a notebook: each wing draws its own results, which do not import what draws them.

What draws is an entry point of the group ``sightline.display``: ``report`` for the audit, ``theory`` for the
paper. If it or one of its dependencies is not installed, a notebook shows the plain ``repr``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from sightline.errors import MissingExtra


class Display(Protocol):
    """Something that draws results."""

    def plot(self, result: object) -> Any:
        """Return the result as an Altair chart."""

    def html(self, result: object) -> str:
        """Return the result as a piece of HTML without scripts."""


class Shown:
    """A result that shows itself in a notebook."""

    __slots__ = ()

    drawn_by: ClassVar[str] = "report"  # the entry point

    def _repr_html_(self) -> str | None:
        try:
            return _display(self.drawn_by).html(self)
        except MissingExtra:
            return None  # the notebook falls back on repr


class Displayed(Shown):
    """A result that shows itself in a notebook, with a drawing."""

    __slots__ = ()

    def plot(self) -> Any:
        """Return the result as an Altair chart to show, change or save; needs ``sightline[report]``."""
        return _display(self.drawn_by).plot(self)


def _display(name: str) -> Display:
    from importlib.metadata import entry_points

    displays = tuple(entry_points(group="sightline.display", name=name))
    if not displays:
        raise MissingExtra(
            'figures need Sightline installed with its report; pip install "sightline[report]"'
        )
    display: Display = displays[0].load()
    return display
