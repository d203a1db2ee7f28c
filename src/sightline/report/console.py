"""The console that results are printed on."""

from __future__ import annotations

from rich.console import Console

_WIDTH = 118  # of text that is not printed to a terminal


def console() -> Console:
    """Return standard output: with colours and the window's width in a terminal, else as plain text."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=_WIDTH, no_color=True)
