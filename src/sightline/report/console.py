"""The console that results are printed on."""

from __future__ import annotations

from rich.console import Console

_WIDTH = 118  # of a text that no window limits


def console() -> Console:
    """Standard output: colours and the window's width in a terminal, plain text elsewhere."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=_WIDTH, no_color=True)
