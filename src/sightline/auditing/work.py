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
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from threading import TIMEOUT_MAX, Event, Thread, get_ident
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.errors import TooMuchWork, require
from sightline.format import shown_memory
from sightline.labeled.sparse_row_solver import RouteCost
from sightline.progress import Progress
from sightline.tables.engines.protocol import DATA, Column, Engine, SignatureStore, StoringEngine

Answer = TypeVar("Answer")

_UNITS = {
    "": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_MATRICES = 10  # dense matrices over the cells in memory at once: 9 were measured at 2,187 cells
_PER_SECOND = 1e10  # operations of one factorisation; a laptop's core does about as many
_AGAIN = 0.5  # seconds between two interrupts of one query
_GRACE = 0.5  # seconds for work to notice by itself that its time is over
_LAST = 5.0  # seconds for the last one to arrive, so that it does not hit a later query
_ENGINE_SHARE = 0.6  # of the memory that an audit may use
_SHARE = 0.8  # of the memory that is free now; the rest is for the engine and for everybody else


_last_stage: ContextVar[str] = ContextVar("last_stage", default="beginning")


class _TimeIsOver(BaseException):
    """Raised in the thread of some work by the thread that watches its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimits:
    """How much memory (in bytes) and time (in seconds) an audit may take; no seconds mean no limit."""

    memory: float
    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic
    began: float = field(default=0.0)
    held: float = 0.0  # memory that the engine holds besides

    @classmethod
    def of(cls, max_memory: int | float | str | None, max_seconds: float | None) -> WorkLimits:
        """Limits as a user gives them, for work that begins now. Without memory: what is free."""
        require(
            max_seconds is None or max_seconds > 0, "max_seconds > 0", got=max_seconds, fix="for example 600"
        )
        memory = _free_memory() if max_memory is None else memory_of(max_memory)
        return cls(memory=memory, seconds=max_seconds, began=time.monotonic())

    @property
    def left(self) -> float:
        """Seconds until the work must end."""
        return math.inf if self.seconds is None else self.began + self.seconds - self.clock()

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

        An exception is raised in the thread of the block from outside. A call into compiled code ends first.
        """
        if self.seconds is None:
            yield
            return
        self.check_time("waiting for a turn")
        ended, worker = Event(), ctypes.c_ulong(get_ident())

        def interrupt() -> None:
            while not ended.wait(_AGAIN):
                if self.left < -_GRACE:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(worker, ctypes.py_object(_TimeIsOver))

        thread = Thread(target=interrupt, daemon=True)
        thread.start()
        try:
            yield
        except _TimeIsOver:
            self.check_time(_last_stage.get())
            raise
        finally:
            ended.set()
            thread.join(_LAST)
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

    def check_cells(
        self, cells: int, designs: int, sparse: Callable[[], RouteCost | None] = lambda: None
    ) -> None:
        """Refuse dense matrices over the cells that do not fit, or take longer than allowed.

        ``sparse`` estimates what sparse ones take, if they are; it is asked only where dense ones do not do.
        """
        try:
            self._check_dense(cells, designs)
        except TooMuchWork:
            cost = sparse()
            if cost is None:
                raise
            what = f"sparse factors over {cells:,} cells"
            self._check_memory(designs * cost.bytes, what, "publish fewer or coarser groups")
            self._check_seconds(designs * cost.seconds, what)

    def _check_dense(self, cells: int, designs: int) -> None:
        what = f"matrices of {cells:,} × {cells:,} cells"
        self._check_memory(_MATRICES * designs * 8 * cells**2, what, "publish fewer or coarser groups")
        self._check_seconds(designs * float(cells) ** 3 / _PER_SECOND, what)

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
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", str(value).lower(), re.ASCII)
    size = float(found[1]) * _UNITS.get(found[2], math.nan) if found else math.nan
    require(0 < size < math.inf, "an amount of memory as 4GB or 500MB", got=repr(value)[:60])
    return size


def _free_memory() -> float:
    import psutil

    return _SHARE * float(psutil.virtual_memory().available)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedEngine:
    """An engine whose queries end when the time is over."""

    engine: Engine
    limits: WorkLimits

    @property
    def dialect(self) -> str:
        return self.engine.dialect

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        return self.engine.columns(table)

    def functions(self) -> frozenset[str]:
        return self.engine.functions()

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self._timed(self.engine.fetch, query)

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self._timed(self.engine.fetch_own, query)

    def compile_own(self, query: str) -> None:
        self.engine.compile_own(query)

    def store_signatures(self, query: str, *, columns: Sequence[str]) -> SignatureStore:
        """Keep signatures where the engine can; see ``storing`` for whether it can."""
        assert isinstance(self.engine, StoringEngine)
        engine = self.engine
        return self._timed(lambda text: engine.store_signatures(text, columns=columns), query)

    @property
    def storing(self) -> bool:
        """Whether the engine can keep signatures."""
        return isinstance(self.engine, StoringEngine)

    def define(self, query: str) -> None:
        self.engine.define(query)

    def check_unchanged(self) -> None:
        self.engine.check_unchanged()

    def interrupt(self) -> None:
        self.engine.interrupt()

    def close(self) -> None:
        self.engine.close()

    def _timed(self, ask: Callable[[str], Answer], query: str) -> Answer:
        stage = "waiting for the engine"
        self.limits.check_time(stage)
        if self.limits.seconds is None:
            return ask(query)
        try:
            with self._interrupted_in_time():
                return ask(query)
        except BaseException:  # what an interrupted query raises depends on the engine
            self.limits.check_time(stage)
            raise

    @contextlib.contextmanager
    def _interrupted_in_time(self) -> Iterator[None]:
        """Interrupt the query when the time is over, and again until it ends.

        An engine that is still planning, or is between two jobs, has nothing to interrupt and forgets it.
        """
        ended = Event()

        def interrupt(wait: float) -> None:
            while not ended.wait(wait):
                with contextlib.suppress(Exception):  # the query may just have ended, or the connection
                    self.engine.interrupt()
                wait = _AGAIN

        left = min(max(self.limits.left, 0.0), TIMEOUT_MAX)
        thread = Thread(target=interrupt, args=(left,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(_LAST)
