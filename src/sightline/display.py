"""Show results in a notebook: the report draws them, and their modules do not import it.

The report registers itself as an entry point of the group ``sightline.display``. If it or one of its
dependencies is not installed, a notebook shows the plain ``repr``.
"""

from __future__ import annotations

from typing import Any, Protocol

from sightline.errors import MissingExtra


class Display(Protocol):
    """Something that draws results."""

    def plot(self, result: object) -> Any:
        """Return the result as an Altair chart."""

    def html(self, result: object) -> str:
        """Return the result as a piece of HTML without scripts."""


class Displayed:
    """A result that shows itself in a notebook."""

    __slots__ = ()

    def plot(self) -> Any:
        """Return the result as an Altair chart to show, change or save; needs ``sightline[report]``."""
        return _display().plot(self)

    def _repr_html_(self) -> str | None:
        try:
            return _display().html(self)
        except MissingExtra:
            return None  # the notebook falls back on repr


def _display() -> Display:
    from importlib.metadata import entry_points

    displays = tuple(entry_points(group="sightline.display"))
    if not displays:
        raise MissingExtra(
            'figures need Sightline installed with its report; pip install "sightline[report]"'
        )
    display: Display = displays[0].load()
    return display
