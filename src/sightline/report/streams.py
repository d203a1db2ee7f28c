"""The standard streams: characters that their encoding lacks, and readers that have ended."""

from __future__ import annotations

import codecs
import os
import sys

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
