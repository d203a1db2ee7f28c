"""Show progress on standard error for work that takes more than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

PATIENCE = 2.0  # seconds before the first line
_REFRESH = 0.2  # seconds between updates
_REPEAT = 10.0  # seconds after which the line is printed again
_ENOUGH = 3.0  # seconds of a step after which the time that is left of it is estimated


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
        self._step = time.monotonic(), 0.0  # when the latest step began, and the share that was done then
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __call__(self, stage: str, share: float) -> None:
        if share <= 0:
            self._began = stage
        if stage != self._latest[0] or share < self._latest[1]:
            self._step = time.monotonic(), share
        self._latest = stage, share

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
        """About how long the step under way still takes, if the rest is as fast; none if nothing is known."""
        (_, share), (since, first) = self._latest, self._step
        if now - since < _ENOUGH or not first < share < 1:
            return None
        return (now - since) * (1 - share) / (share - first)

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
            while not self._ended.wait(_REFRESH):
                status.update(Text(self._line(start)))

    def _write_lines(self, start: float) -> None:
        printed, when = "", 0.0
        while True:
            stage, now = self.stage, time.monotonic()
            if stage != printed or now - when >= _REPEAT:
                print(self._line(start), file=sys.stderr, flush=True)
                printed, when = stage, now
            if self._ended.wait(_REFRESH):
                return

    def _line(self, start: float) -> str:
        now = time.monotonic()
        left = self.seconds_left(now)
        rest = "" if left is None else f", this step about {left:.0f} s more"
        return f"{self.under_way} … {now - start:.0f} s{rest}"
