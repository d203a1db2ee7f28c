"""How results show themselves in a notebook: the report draws them, and they do not know it.

The report announces itself as an entry point of the group ``sightline.display``; without it, or without what
it needs, a result shows as its plain ``repr``.
"""

from __future__ import annotations

from typing import Any, Protocol

from sightline.errors import MissingExtra


class Display(Protocol):
    """What draws results."""

    def plot(self, result: object) -> Any:
        """The result as an Altair chart."""

    def html(self, result: object) -> str:
        """The result as a piece of HTML without scripts."""


class Displayed:
    """A result that shows itself in a notebook."""

    __slots__ = ()

    def plot(self) -> Any:
        """The result as an Altair chart, to show, to change or to save; needs ``sightline[report]``."""
        return _display().plot(self)

    def _repr_html_(self) -> str | None:
        try:
            return _display().html(self)
        except MissingExtra:
            return None  # the notebook falls back on repr


def _display() -> Display:
    from importlib.metadata import entry_points

    found = tuple(entry_points(group="sightline.display"))
    if not found:
        raise MissingExtra(
            'figures need Sightline installed with its report; pip install "sightline[report]"'
        )
    display: Display = found[0].load()
    return display
