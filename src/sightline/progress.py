"""Long work: how it reports on itself, as a stage and the share of it that is done; and its threads.

The callback is ambient: a job sets it once with :func:`reporting`, and whatever takes time calls
:func:`report`. No function in between passes it on. A thread that should report runs in a copy of the context
(``contextvars.copy_context().run``).

Blocks of a large table are read on all cores (:func:`on_cores`). Many small matrices in a row need BLAS on
one thread (:func:`one_blas_thread`): a sparse factor is thousands of products of small matrices, and so is an
audit of a small plan. On several threads each waits for the slowest thread. An audit of 1,000 rows × 200
cells took 0.6 s on one thread, 7 s on two threads of busy cores.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

LOOK = 0.2  # seconds between two looks at what is under way
Progress: TypeAlias = Callable[[str, float], None]
Item = TypeVar("Item")
Found = TypeVar("Found")


def silent(stage: str, share: float) -> None:
    """The default: report nothing."""


_current: ContextVar[Progress] = ContextVar("progress", default=silent)


def report(stage: str, share: float) -> None:
    """Call the callback of the job that this runs in."""
    _current.get()(stage, share)


@contextmanager
def reporting(progress: Progress | None) -> Iterator[None]:
    """Within the block, reports go to this callback; with ``None`` (or :func:`report`) where they went
    before.

    >>> with reporting(lambda stage, share: print(stage, share)):
    ...     report("reading", 0.5)
    reading 0.5
    >>> report("reading", 0.6)
    """
    token = _current.set(_current.get() if progress is None or progress is report else progress)
    try:
        yield
    finally:
        _current.reset(token)


def reported(items: Sequence[Item], stage: str = "computing") -> Iterator[Item]:
    """The items one by one; before each, report the share of them that is done.

    >>> with reporting(lambda stage, share: print(stage, share)):
    ...     print(list(reported("ab")))
    computing 0.0
    computing 0.5
    ['a', 'b']
    """
    for done, item in enumerate(items):
        report(stage, done / len(items))
        yield item


def counted(items: Sequence[Item], progress: Progress, stage: str = "computing") -> Iterator[Item]:
    """As :func:`reported`, to a callback that is passed along.

    >>> [item for item in counted("ab", lambda stage, share: print(stage, share))]
    computing 0.0
    computing 0.5
    ['a', 'b']
    """
    for done, item in enumerate(items):
        progress(stage, done / len(items))
        yield item


def on_cores(function: Callable[[Item], Found], items: Iterable[Item], *, alone: bool = False) -> list[Found]:
    """What a function gives for every item, in their order: on all cores, or in this thread alone.

    Array operations let other threads run. The first item is done by itself, so that what it makes once for
    all is there for the others. The items are taken in this thread, few ahead of the work: one that reports
    can end it. What a thread raises is raised here, and nothing that has not begun is begun then.

    >>> on_cores(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    each = iter(items)
    found = [function(item) for item in islice(each, 1)]
    cores = 1 if alone else available_cores()
    if cores == 1:
        return found + [function(item) for item in each]
    from concurrent.futures import ThreadPoolExecutor  # small audits start without it

    waiting: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(cores) as pool:
        try:
            for item in each:
                waiting.append(pool.submit(copy_context().run, function, item))
                if len(waiting) > cores:
                    found.append(waiting.popleft().result())
            found += [one.result() for one in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# OpenBLAS itself takes one thread for matrices of fewer entries (≤ 44 rows), and to find the libraries takes
# 8 ms.
_FEWEST_ENTRIES = 2_000


_LOCK = Lock()


class _Limit:
    """The number of threads is one for the whole process: the first user lowers it, the last restores it."""

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self._controller = ThreadpoolController()
        self._users = 0
        self._limiter: Any = None

    def enter(self) -> None:
        if self._users == 0:
            self._limiter = self._controller.limit(limits=1, user_api="blas")
        self._users += 1

    def leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._limiter.restore_original_limits()


_limit = cache(_Limit)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it, BLAS and LAPACK use one thread."""
    with _LOCK:
        _limit().enter()
    try:
        yield
    finally:
        with _LOCK:
            _limit().leave()


def blas_threads_for(*, rows: int, columns: int) -> AbstractContextManager[None]:
    """Within it, BLAS uses one thread if the matrices of a design of this size are small."""
    from sightline.arrays import AT_A_TIME  # help loads no NumPy

    small = _FEWEST_ENTRIES < rows * (rows + columns) <= AT_A_TIME
    return one_blas_thread() if small else nullcontext()
