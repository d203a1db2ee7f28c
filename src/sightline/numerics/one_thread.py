"""Many small matrices in a row: BLAS on one thread.

A sparse factor is thousands of products of small matrices. On several threads each of them waits for the
slowest thread, and on a busy machine that took more than ten times as long as one thread alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it, BLAS and LAPACK use one thread."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
