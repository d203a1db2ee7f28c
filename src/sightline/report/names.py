"""Make names from data safe to show: on one line, without control characters, not too long."""

from __future__ import annotations

import textwrap
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


def unbroken(text: str) -> str:
    """Return a text in which a number or a bracket stays on one line with its sign before it and its unit.

    >>> unbroken("± 5–7 %") == "±\N{NO-BREAK SPACE}5\N{WORD JOINER}–\N{WORD JOINER}7\N{NO-BREAK SPACE}%"
    True
    """
    joined = text.replace("± ", "±\N{NO-BREAK SPACE}").replace(" %", "\N{NO-BREAK SPACE}%")
    return joined.replace("–", "\N{WORD JOINER}–\N{WORD JOINER}")


def wrapped(text: str, width: int, lines: int = 2) -> list[str]:
    r"""Return a name for a figure on several lines, cut at the end of the last one.

    >>> wrapped("by gender, marital status and health", 20)
    ['by gender, marital', 'status and health']
    >>> [len(line.strip("\u2068\u2069")) for line in wrapped("a" * 50, 20)]
    [20, 20]
    """
    found = textwrap.wrap(short(text, 4 * width * lines), width) or [""]
    if len(found) > lines:
        last = found[lines - 1][: width - 1].rstrip()
        found = [*found[: lines - 1], f"{last}…"]
    return [isolated(line, width) for line in found]


def _changes_direction(character: str) -> bool:
    return unicodedata.bidirectional(character) in _DIRECTIONS
