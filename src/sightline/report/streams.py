"""The standard streams: console, JSON, characters that their encoding lacks, readers that have ended."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TYPE_CHECKING, Any

from sightline.format import json_text

if TYPE_CHECKING:
    from rich.console import Console

# What to write for a character that the terminal's encoding lacks.
_PLAIN = {
    "×": "x",
    "−": "-",
    "–": "-",
    "…": "...",
    "±": "+-",
    "·": "*",
    "²": "^2",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "→": "->",
    "∞": "inf",
    "─": "-",
    "█": "#",
    "▒": ":",
    "\N{NO-BREAK SPACE}": " ",
}


def discard_output() -> None:
    """Drop what standard output no longer takes, so that Python does not fail to write it at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def accept_any_encoding() -> None:
    """Let the standard streams write something for every character, whatever their encoding."""
    codecs.register_error("sightline", _plain_text)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="sightline")


def _plain_text(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in missing), error.end


_WIDTH = 118  # of text that is not printed to a terminal


def console() -> Console:
    """Return standard output: with colours and the window's width in a terminal, else as plain text."""
    from rich.console import Console

    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=_WIDTH, no_color=True)


def print_json(document: Any) -> None:
    """Print a document; characters outside ASCII are escaped if the output is not in UTF-8."""
    utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    print(json_text(document, ascii_only=not utf8))
