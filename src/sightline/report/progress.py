"""Progress on standard error, for whatever takes more than two seconds."""

from __future__ import annotations

import sys
import time

_PATIENCE = 2.0  # seconds


class Ticker:
    """Called with a stage and its share that is done; says so now and then, and only if it takes long."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, stage: str, share: float) -> None:
        now = time.monotonic()
        if now - self._last >= _PATIENCE:
            self._last = now
            done = f" {share:.0%}" if share else ""
            print(f"{stage}{done} …", file=sys.stderr, flush=True)
