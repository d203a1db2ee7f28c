"""Where chunks of work run: in the calling process, on local processes, or on any executor.

Results are in the order of the calls, and every call uses one thread for its linear algebra, so the place and
the speed of a run change no digit.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pickle import PicklingError
from time import perf_counter
from typing import Any, TypeVar

from sightline.errors import InvalidInput, SightlineError, require
from sightline.numerics.one_thread import one_blas_thread
from sightline.progress import report

Call = tuple[Any, ...]
Result = TypeVar("Result")

# Seconds of work for which processes are worth starting: each takes half a second to load the library.
WORTH = 1.0
IDLE = 60.0  # seconds without work after which a process ends
_LOOK = 0.5  # seconds after which a process looks again whether the one that started it is there


class NotPicklable(InvalidInput):
    """Work that cannot be sent to other processes."""


def run_all(
    function: Callable[..., Result],
    calls: Sequence[Call],
    *,
    executor: Executor | None,
    workers: int | None,
) -> list[Result]:
    """The results of ``function`` for every tuple of arguments, in their order.

    The calls run on ``executor``, or on ``workers`` local processes, where 1 is the calling process itself.
    If neither is given, they run in the calling process. If the remaining calls would take it more than about
    a second, they run on one process for each core. A worker starts no workers, and calls that cannot be
    pickled run in the calling process.
    """
    results: list[Result] = []

    def keep(result: Result) -> None:
        results.append(result)
        report("simulating", len(results) / len(calls))

    report("simulating", 0.0)
    with one_blas_thread():  # some libraries have one limit for all threads of a process
        if executor is not None:
            _on_executor(executor, function, calls, keep)
        elif workers is not None and min(workers, len(calls)) > 1:
            _on_processes(min(workers, len(calls)), function, calls, keep)
        undecided = workers is None and _may_start_processes()
        while len(results) < len(calls):
            began = perf_counter()
            result = function(*calls[len(results)])
            seconds = perf_counter() - began
            keep(result)
            left = calls[len(results) :]
            if undecided and seconds * len(left) > WORTH and (count := min(_cores(), len(left))) > 1:
                try:
                    _on_processes(count, function, left, keep)
                except NotPicklable:
                    undecided = False
    return results


def _on_executor(
    executor: Executor, function: Callable[..., Result], calls: Sequence[Call], keep: Callable[[Result], None]
) -> None:
    futures = [executor.submit(_on_one_thread, function, *call) for call in calls]
    try:
        for future in futures:
            keep(future.result())
    except BaseException:  # also when interrupted: cancel the calls that have not begun
        for future in futures:
            future.cancel()
        raise


def _on_processes(
    count: int, function: Callable[..., Result], calls: Sequence[Call], keep: Callable[[Result], None]
) -> None:
    """Run on new processes, which end with the call.

    They are loky's, not the standard library's, which either forks a process that may have threads or imports
    the user's script again. With loky a script needs no ``if __name__ == "__main__"``, and an attack may be
    defined in the script or in a notebook.
    """
    require(
        not multiprocessing.current_process().daemon,
        "a process that may start workers",
        got="a daemonic one",
        fix="leave out workers, and the work runs in this process",
    )
    from loky.process_executor import BrokenProcessPool, ProcessPoolExecutor, TerminatedWorkerError

    pool = ProcessPoolExecutor(
        count,
        timeout=IDLE,
        initializer=_begin_worker,
        initargs=(os.getpid(),),
        env={"LOKY_MAX_MEMORY_LEAK_SIZE": "1e18"},  # no warning of a leak when later strata are larger
    )
    try:
        for future in [pool.submit(_on_one_thread, function, *call) for call in calls]:
            keep(future.result())
    except BaseException as reason:
        pool.shutdown(kill_workers=True)
        if isinstance(reason, TerminatedWorkerError):
            raise SightlineError(
                "expected every worker process to finish its work, got one that died; it may have run out of "
                "memory: give fewer workers"
            ) from reason
        if isinstance(reason, (PicklingError, BrokenProcessPool)):
            raise NotPicklable(
                "expected work that can be sent to other processes and back, got an attack, a release or an "
                "error that cannot be pickled; workers=1 runs it in this process"
            ) from reason
        raise
    pool.shutdown()


def _begin_worker(parent: int) -> None:
    """In a worker: leave interrupts to the calling process, which ends its workers; and end with it.

    A process that is killed cannot end its workers, so each looks for it in a thread of its own.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    import psutil

    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(_LOOK)
    os._exit(1)


def _may_start_processes() -> bool:
    """Whether this process is not a worker itself and its executable is Python."""
    return multiprocessing.parent_process() is None and bool(sys.executable) and not hasattr(sys, "frozen")


def _cores() -> int:
    """The number of cores that this process may use."""
    from loky import cpu_count

    return int(cpu_count())


def _on_one_thread(function: Callable[..., Result], *call: Any) -> Result:
    """The last digits of a large product depend on the number of threads. And processes with as many threads
    as cores slow each other down: two of them took ten times as long as one.
    """
    with one_blas_thread():
        return function(*call)
