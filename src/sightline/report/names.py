"""Make names from data safe to show: on one line, without control characters, not too long."""

from __future__ import annotations

import unicodedata

_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"


def one_line(text: str) -> str:
    r"""Return a text without line breaks, control characters and direction overrides.

    >>> one_line("a\tb\n\u202ec")
    'a b c'
    """
    spaced = " ".join(text.split())
    visible = (
        " " if unicodedata.category(c) in {"Cc", "Cs"} else c for c in spaced if not _changes_direction(c)
    )
    return "".join(visible)


def short(text: str, limit: int = 60) -> str:
    """Return a text on one line, cut if it is longer than the limit.

    >>> short("abcdef", 4)
    'abc…'
    """
    line = one_line(text[: 4 * limit + 200])
    return line if len(line) <= limit and len(text) <= 4 * limit + 200 else line[: limit - 1] + "…"


def isolated(text: str, limit: int = 40) -> str:
    """Return a short name for a figure; its writing direction does not affect the text around it."""
    name = short(text, limit)
    return name if name.isascii() else f"{_FIRST_STRONG_ISOLATE}{name}{_POP_ISOLATE}"


def _changes_direction(character: str) -> bool:
    return unicodedata.bidirectional(character) in _DIRECTIONS
