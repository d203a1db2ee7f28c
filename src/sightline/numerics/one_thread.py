"""Many small matrices in a row: BLAS on one thread.

A sparse factor is thousands of products of small matrices, and so is an audit of a small plan. On several
threads each of them waits for the slowest thread. An audit of 1,000 rows × 200 cells took 0.6 s on one
thread; on two threads of two busy cores it took 7 s and more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

_FEW_ENTRIES = 4_000_000  # of matrices that are small: a product of two of them takes a twentieth of a second


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
    return one_blas_thread() if rows * (rows + columns) <= _FEW_ENTRIES else nullcontext()
