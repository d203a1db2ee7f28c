r"""The standard streams: console, JSON, characters that their encoding lacks, readers that have ended.

Names come from tables and plans. None may move the cursor, begin a line, or start a command of a CI
service, which reads ``::error::`` at the start of a line and ``##[error]`` anywhere in a step's output.

Show progress on standard error for work that takes more than two seconds.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from io import StringIO
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from sightline.format import json_text
from sightline.progress import LOOK

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

# Control characters, line separators, half of a pair, and what changes the direction of the text around it.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_COMMANDS = (("::", " :"), ("##[", "# ["), ("##vso[", "# vso["))  # of GitHub and Azure: no longer one


def harmless(text: str) -> str:
    r"""A text of the same length that stays on its line and is no command of a CI service.

    >>> harmless("a\x1b[2J\n::error::b")
    'a�[2J� :error :b'
    """
    seen = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)
    for command, plain in _COMMANDS:
        seen = seen.replace(command, plain)
    return seen


def print_lines(lines: Iterable[str], file: TextIO | None = None) -> None:
    """Print lines with names in them: each stays one line."""
    for line in lines:
        print(harmless(line), file=file)


@cache
def screen_type() -> type[Console]:
    """A console that prints names from tables and plans as :func:`harmless` text."""
    from rich.console import Console
    from rich.text import Text

    class Screen(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterable[Any]:  # also of a table's cells
            if isinstance(renderable, str):
                renderable = _framed(renderable)
            elif isinstance(renderable, Text):
                renderable = renderable.copy()
                renderable.plain = _framed(renderable.plain)
            return super().render(renderable, options)

    return Screen


def _framed(text: str) -> str:
    """Harmless, but for the line breaks before and after a text, which are ours."""
    inner = text.strip("\n")
    start = text.index(inner)
    return text[:start] + harmless(inner) + text[start + len(inner) :]


def console(**options: Any) -> Console:
    """Return standard output: with colours and the window's width in a terminal, else as plain text."""
    make = screen_type()
    screen = make(highlight=False, **options)
    if screen.is_terminal:
        return screen
    return make(**{"highlight": False, "width": _WIDTH, "no_color": True, **options})


def printed(write: Callable[[Console], object], *, width: int) -> str:
    """What is printed to a console, as plain text: in a notebook too, and where colours are forced."""
    text = StringIO()
    write(console(file=text, width=width, force_terminal=False, force_jupyter=False))
    return text.getvalue()


def print_json(document: Any) -> None:
    """Print a document; characters outside ASCII are escaped if the output is not in UTF-8."""
    utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    print(harmless_json(json_text(document, ascii_only=not utf8)))


def harmless_json(text: str) -> str:
    r"""The same document; texts in it change no direction, and start no command of a CI service.

    >>> harmless_json('["##[error]", [1]]')
    '["##\\u005berror]", [1]]'
    """
    seen = re.sub(r"[\u2028-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found.group()):04x}", text)
    return re.sub(r"(?<=##)\[|(?<=##vso)\[", r"\\u005b", seen)


PATIENCE = 2.0  # seconds before the first line, and of a step before the time that is left of it is estimated
_REPEAT = 10.0  # seconds after which the line is printed again


class Ticker:
    """Shows the current stage on standard error, inside a ``with`` block, if the work takes long.

    It is called with a stage and the share of it that is done. A thread shows the latest stage, so that a
    stage that reports nothing is shown too: as a spinner in a terminal, elsewhere as one line for each stage.

    >>> with Ticker() as progress:
    ...     progress("records", 0.5)
    ...     progress.under_way
    'records 50 %'
    """

    def __init__(self, *, patience: float | None = None) -> None:
        self._patience = PATIENCE if patience is None else patience
        self._began, self._latest = "working", ("working", 0.0)
        self._heard = time.monotonic()  # when the latest share was reported
        self._step = self._heard, 0.0  # when the latest step began, and the share that was done then
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __call__(self, stage: str, share: float) -> None:
        now = time.monotonic()
        if share <= 0:
            self._began = stage
        if stage != self._latest[0] or share < self._latest[1]:
            self._step = now, share
        self._latest, self._heard = (stage, share), now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def stage(self) -> str:
        """The latest stage; if it is finished, the last stage that began."""
        stage, share = self._latest
        return stage if share < 1 else self._began

    @property
    def under_way(self) -> str:
        """The stage, and the share of it that is done if that is known."""
        stage, share = self._latest
        return f"{stage} {100 * share:.0f} %" if 0 < share < 1 else self.stage

    def seconds_left(self, now: float) -> float | None:
        """About how long the step under way still takes, if the rest is as fast; none if nothing is known.

        It counts down from the latest report, and does not grow while nothing is reported: not above 0, it
        has taken longer than expected.
        """
        (_, share), (since, first) = self._latest, self._step
        if now - since < self._patience or not first < share < 1:
            return None
        return (self._heard - since) * (1 - share) / (share - first) - (now - self._heard)

    def _watch(self) -> None:
        start = time.monotonic()
        if self._ended.wait(min(self._patience, threading.TIMEOUT_MAX)):
            return
        if sys.stderr.isatty():
            self._spin(start)
        else:
            self._write_lines(start)

    def _spin(self, start: float) -> None:
        from rich.console import Console
        from rich.text import Text

        with Console(stderr=True).status(Text(self._line(start))) as status:
            while not self._ended.wait(LOOK):
                status.update(Text(self._line(start)))

    def _write_lines(self, start: float) -> None:
        printed, when = "", 0.0
        while True:
            stage, now = self.stage, time.monotonic()
            if stage != printed or now - when >= _REPEAT:
                print(self._line(start), file=sys.stderr, flush=True)
                printed, when = stage, now
            if self._ended.wait(LOOK):
                return

    def _line(self, start: float) -> str:
        now = time.monotonic()
        left = self.seconds_left(now)
        rest = ""
        if left is not None:
            rest = f", this step about {left:.0f} s more" if left > 0 else ", time left of this step unknown"
        return f"{self.under_way} … {now - start:.0f} s{rest}"
