"""Bounds on an audit's work: what it would need is estimated before it starts, and time is watched.

An audit of P partitions, S signatures and L linear cells holds a table of P × S cell numbers and a few dense
L × L matrices, and factorises them in about L³ operations. What does not fit is refused with the number.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import field, replace
from pathlib import Path
from threading import Event, Thread, get_ident
from typing import TypeVar

from sightline.errors import TooMuchWork, require
from sightline.format import shown_memory
from sightline.progress import LOOK, Progress
from sightline.units.sparse_row_solver import DENSE_MATRICES, RouteCost
from sightline.values import frozen

Answer = TypeVar("Answer")

# Bytes where all are in memory: of a signature its own numbers, and its cell in each partition; of a
# signature of a kind of person, measured on panels of 40 million.
_PER_SIGNATURE, _PER_PARTITION, _PER_LINE = 400, 8, 130
_PER_SECOND = 1e10  # operations of one factorisation; a laptop's core does about as many
_ENGINE_SHARE = 0.6  # of the memory that an audit may use
_LINUX_MEMORY = Path("/proc/meminfo")
_SHARE = 0.8  # of the memory that is free now; the rest is for the engine and for everybody else


_last_stage: ContextVar[str] = ContextVar("last_stage", default="beginning")


class _TimeIsOver(BaseException):
    """Raised in the thread of some work by the thread that watches its time."""


@frozen(eq=True)
class WorkLimits:
    """How much memory (in bytes) and time (in seconds) an audit may take; infinitely many if nobody says."""

    memory: float
    seconds: float = math.inf
    clock: Callable[[], float] = time.monotonic
    began: float = field(default=0.0)
    held: float = 0.0  # memory that the engine holds besides
    interrupts: list[Callable[[], None]] = field(default_factory=list)  # end the queries of engines in use

    @classmethod
    def of(cls, max_memory: int | float | str | None, max_seconds: float | None) -> WorkLimits:
        """Limits as a user gives them, for work that begins now. Without memory: what is free."""
        seconds = math.inf if max_seconds is None else max_seconds
        require(seconds > 0, "max_seconds > 0", got=max_seconds, fix="for example 600")
        memory = _free_memory() if max_memory is None else memory_of(max_memory)
        return cls(memory=memory, seconds=seconds, began=time.monotonic())

    @property
    def left(self) -> float:
        """Seconds until the work must end."""
        return self.began + self.seconds - self.clock()

    def hold(self, signatures: int, partitions: int, lines: int) -> bool:
        """Whether all signatures fit into memory, beside what the cells take.

        ``lines`` are the signatures of all kinds of persons, where records have several rows.
        """
        needed = float(signatures) * (_PER_SIGNATURE + _PER_PARTITION * partitions) + float(lines) * _PER_LINE
        return needed <= self.memory

    def check_time(self, stage: str) -> None:
        """Refuse to go on once the time is over."""
        if self.left <= 0:
            raise TooMuchWork(
                f"expected an audit of at most {self.seconds:g} seconds, got more, while {stage}; "
                "allow more with max_seconds, or publish fewer releases"
            )

    def watched(self, progress: Progress) -> Progress:
        """The same progress, which also looks at the clock."""

        def watch(stage: str, share: float) -> None:
            _last_stage.set(stage)
            self.check_time(stage)
            progress(stage, share)

        return watch

    @contextlib.contextmanager
    def enforced(self) -> Iterator[None]:
        """End the block when the time is over, whatever it does: also between two looks at the clock.

        A thread interrupts the queries of engines, again and again: one that is still planning has nothing to
        interrupt, and forgets it. Then it raises an exception in the thread of the block. Other calls into
        compiled code end first. Whatever is raised after the time is over, the time is the reason.
        """
        if math.isinf(self.seconds):
            yield
            return
        self.check_time("waiting for a turn")
        ended, worker = Event(), ctypes.c_ulong(get_ident())

        def interrupt() -> None:
            while not ended.wait(LOOK):
                if self.left > 0:
                    continue
                for end_query in list(self.interrupts):
                    with contextlib.suppress(Exception):  # the query may just have ended, or the connection
                        end_query()
                if self.left < -LOOK:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(worker, ctypes.py_object(_TimeIsOver))

        thread = Thread(target=interrupt, daemon=True)
        thread.start()
        try:
            yield
        except (_TimeIsOver, Exception):
            self.check_time(_last_stage.get())
            raise
        finally:
            ended.set()
            thread.join(10 * LOOK)  # the last one has arrived then, and hits no later query
            ctypes.pythonapi.PyThreadState_SetAsyncExc(worker, None)  # one that has not arrived

    @property
    def engine_memory(self) -> float:
        """The part of the memory that an engine may use; the rest is for what is read from it."""
        return _ENGINE_SHARE * self.memory

    @property
    def beside_engine(self) -> WorkLimits:
        """The same without the engine's part of the memory: for what is held while the engine is full."""
        return replace(self, memory=self.memory - self.engine_memory, held=self.engine_memory)

    def check_signatures(self, signatures: int, partitions: int) -> None:
        """Refuse a table of the cells of every signature that does not fit into memory."""
        need = 4 * signatures * partitions * 2  # the table, and the part of it that is linear
        self._check_memory(
            need,
            f"{signatures:,} signatures of {partitions:,} partitions",
            "publish fewer groups or grouping sets",
        )

    def check_cells(self, cells: int, sparse: Callable[[], RouteCost | None] = lambda: None) -> None:
        """Refuse dense matrices over the cells that do not fit, or take longer than allowed.

        ``sparse`` estimates what sparse ones take, if they are; it is asked only where dense ones do not do.
        """
        what = f"matrices of {cells:,} × {cells:,} cells"
        try:
            self._check_memory(DENSE_MATRICES * 8 * cells**2, what, "publish fewer or coarser groups")
            self._check_seconds(float(cells) ** 3 / _PER_SECOND, what)
        except TooMuchWork:
            cost = sparse()
            if cost is None:
                raise
            what = f"sparse factors over {cells:,} cells"
            self._check_memory(cost.bytes, what, "publish fewer or coarser groups")
            self._check_seconds(cost.seconds, what)

    def _check_seconds(self, seconds: float, what: str) -> None:
        if seconds > self.left:
            raise TooMuchWork(
                f"expected an audit of at most {self.seconds:g} seconds, got about {seconds:,.0f} for "
                f"{what}; allow more with max_seconds, or publish fewer or coarser groups"
            )

    def _check_memory(self, need: float, what: str, fix: str) -> None:
        if need > self.memory:
            held = f", of which the engine holds {shown_memory(self.held)}" if self.held else ""
            raise TooMuchWork(
                f"expected an audit in {shown_memory(self.memory + self.held)} of memory{held}, got about "
                f"{shown_memory(need)} for {what}; allow more with max_memory, or {fix}"
            )


def memory_of(value: int | float | str) -> float:
    """Bytes, from a number or from a text with a unit.

    >>> memory_of("4GB"), memory_of("1.5 MiB"), memory_of(1000)
    (4000000000.0, 1572864.0, 1000.0)
    """
    text = r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgt])(i?)b)?\s*"
    match = re.fullmatch(text, str(value).lower(), re.ASCII)
    size = float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " ") if match else 0.0
    require(0 < size < math.inf, "an amount of memory as 4GB or 500MB", got=repr(value)[:60])
    return size


def _free_memory() -> float:
    """Bytes, from the file that psutil reads too on Linux: psutil takes 7 ms to load."""
    lines = _LINUX_MEMORY.read_text().splitlines() if _LINUX_MEMORY.exists() else []
    for line in lines:
        if line.startswith("MemAvailable:"):
            return _SHARE * 1024 * float(line.split()[1])
    import psutil

    return _SHARE * float(psutil.virtual_memory().available)
