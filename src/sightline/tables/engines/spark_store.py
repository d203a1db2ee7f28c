"""Spark's jobs of one audit: marked, so that they can be watched and ended; and signatures on its executors.

Passes run where the signatures are, and only a few merged arrays come back.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import InheritableThread, StorageLevel, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sightline.errors as errors
from sightline.errors import InvalidPlan, SightlineError, TooMuchWork, require
from sightline.progress import LOOK, report
from sightline.tables.engines.protocol import BATCH, Arrays, Reduction, batches_of, folded, of_batches

_ATTEMPTS = 50  # to end a job that is not wanted any more
Answer = TypeVar("Answer")

# What Spark's error says, and what helps. Nothing of the error's own text is shown: it may quote a value.
_CAUSES = (
    (
        r"java\.lang\.StackOverflowError",
        "a query whose plan fits Java's stack, got one with too many keys and subqueries",
        "start Spark with spark.driver.defaultJavaOptions=-Xss16m and the same for spark.executor",
    ),
    (
        r"UNABLE_TO_ACQUIRE_MEMORY|OutOfMemoryError|GC overhead limit",
        "queries that fit Spark's memory, got one that does not",
        "raise spark.driver.memory and spark.executor.memory",
    ),
    (
        r"spark\.driver\.maxResultSize",
        "answers that fit spark.driver.maxResultSize, got a larger one",
        "raise it, or publish fewer or coarser groups",
    ),
    (
        r"No space left on device",
        "room in spark.local.dir, got a full disk",
        "free some, or set spark.local.dir to another disk",
    ),
    (
        r"No module named|PackageNotFoundError|PYTHON_VERSION_MISMATCH|Cannot run program|"
        r"Python in worker has different version",
        "workers with the driver's Python and with Sightline, got others",
        "install 'sightline[spark]' where the workers run, and set PYSPARK_PYTHON to that Python",
    ),
)


class SparkJobs:
    """The jobs that one engine starts in a session, which may be the caller's."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.tag = f"sightline_{uuid4().hex}"
        self._watched = 0

    @property
    def remote(self) -> bool:
        """Whether it is a session of Spark Connect, which has no context in this process."""
        return "connect" in type(self.session).__module__

    @contextlib.contextmanager
    def marked(self) -> Iterator[None]:
        """Mark the jobs that this thread starts, so that ``interrupt`` finds them."""
        owner: Any = self.session if self.remote else self.session.sparkContext
        add, remove = (
            (owner.addTag, owner.removeTag) if self.remote else (owner.addJobTag, owner.removeJobTag)
        )
        add(self.tag)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                remove(self.tag)

    def interrupt(self) -> None:
        """End our jobs: those with our tag, and no others of the session.

        The query ends at once. A task of it keeps its core until Spark next looks whether it was cancelled:
        at the next batch of rows that it scans. Between two batches a cross join can run for long.
        """
        if self.remote:
            self.session.interruptTag(self.tag)
        else:
            self.session.sparkContext.cancelJobsWithTag(self.tag)

    def watched(self, job: Callable[[], Answer], stage: str) -> Answer:
        """Run a job on a thread of its own, and report meanwhile which share of its tasks is done.

        If a report raises, for example because the time is over, the job is ended.
        """
        self._watched += 1
        group = f"{self.tag}_{self._watched}"
        answers: list[Answer] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                with self.marked():
                    if not self.remote:
                        self.session.sparkContext.setJobGroup(group, stage)
                    answers.append(job())
            except Exception as error:
                errors.append(error)

        report(stage, 0.0)
        thread = InheritableThread(
            target=run, daemon=True, **({"session": self.session} if self.remote else {})
        )
        thread.start()
        done = 0.0
        try:
            while thread.is_alive():
                thread.join(LOOK)
                done = max(done, self._share(group))
                report(stage, done)
        except BaseException:
            for _ in range(_ATTEMPTS):
                if thread.is_alive():
                    with contextlib.suppress(Exception):  # the job may just have ended
                        self.interrupt()
                    thread.join(LOOK)
            raise
        for error in errors:
            refuse(error)
        report(stage, 1.0)
        return answers[0]

    def _share(self, group: str) -> float:
        """The share of the tasks known so far that are done; Spark plans some stages only later."""
        done = total = 0
        with contextlib.suppress(Exception):  # a lost connection is the job's own error
            tracker = self.session.sparkContext.statusTracker()  # which Spark Connect does not have
            for job in tracker.getJobIdsForGroup(group):
                job_info = tracker.getJobInfo(job)
                for stage in () if job_info is None else map(tracker.getStageInfo, job_info.stageIds):
                    if stage is not None:
                        done, total = done + stage.numCompletedTasks, total + stage.numTasks
        return min(done / total, 0.99) if total else 0.0


def refuse(error: Exception) -> NoReturn:
    """Raise what a user can do about an error of Spark, in one line and without its text."""
    if isinstance(error, SightlineError):
        raise error
    text = str(error)
    for pattern, expected, fix in _CAUSES:
        if re.search(pattern, text):
            raise TooMuchWork(f"expected {expected}; {fix}") from None
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    raise InvalidPlan(
        f"expected a query that Spark can run, got {condition or type(error).__name__}; "
        "check the types of its columns, and that Spark still runs"
    ) from None


@contextlib.contextmanager
def without_pandas_warning() -> Iterator[None]:
    """PySpark warns about pandas 3 wherever it looks for pandas. Our functions use none of it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


class SparkStore:
    """The answer to a GROUP BY of signatures, kept on the executors' disks until the store is closed.

    A pass is a job of two steps. Each task reduces its signatures to a few arrays, and the arrays of the
    tasks are merged in groups, so that the driver receives the square root of the number of tasks. Spark
    runs a task again if its worker is lost. The job counts the signatures it has read, and must read each
    of them once.
    """

    def __init__(self, jobs: SparkJobs, frame: DataFrame, *, columns: Sequence[str]) -> None:
        self._jobs = jobs
        if "g" in columns:  # in one task, as neighbours
            frame = frame.repartition("g").sortWithinPartitions("g", "p")
        self._frame = frame.select(*columns).persist(StorageLevel.DISK_ONLY)
        try:
            self._signatures = int(jobs.watched(self._frame.count, "listing signatures"))
        except BaseException:
            self.close()
            raise

    @property
    def signatures(self) -> int:
        return self._signatures

    def run(self, reduction: Reduction, stage: str) -> Arrays:
        require(self._signatures > 0, "at least one signature", got="none")
        try:
            with without_pandas_warning():
                # Each task unpacks the pass's tables, so that small tasks cost more than they save.
                parts = self._frame.coalesce(self._tasks()).mapInArrow(SignaturesOnWorker(reduction), PART)
                # By the number of the task: a task that runs again must not send its arrays elsewhere.
                merged = parts.repartition(math.isqrt(self._tasks()), "task").mapInArrow(
                    PartsOnWorker(reduction), PART
                )
        except Exception as error:
            refuse(error)
        table = self._jobs.watched(merged.toArrow, stage)
        read, found = folded(reduction, parts_of(table.to_batches()))
        require(
            read == self._signatures,
            f"a pass over {self._signatures:,} signatures",
            got=f"one over {read:,}",
            fix="the table may have changed: run it again, on a copy if it is written often",
            error=InvalidPlan,
        )
        return found

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the session may have been stopped
            self._frame.unpersist()

    def _tasks(self) -> int:
        """Tasks that read half a batch each, and no fewer than Spark has cores."""
        session = self._jobs.session
        cores = 1 if self._jobs.remote else session.sparkContext.defaultParallelism
        return max(cores, 2 * self._signatures // BATCH)


# One row of a pass: the task that wrote it, how many signatures it has read, and its arrays or its error.
PART = "task INT, signatures BIGINT, arrays BINARY, error STRING, message STRING"
_SCHEMA = pa.schema(
    [
        ("task", pa.int32()),
        ("signatures", pa.int64()),
        ("arrays", pa.binary()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)
_SIZE = struct.Struct("<q")


class SignaturesOnWorker:
    """Reduces the signatures of one task to one row. It travels to the workers with its pass."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction, self.version = reduction, version("sightline")

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            _check_version(self.version)
            whole = batches_of(_large_chunks(batches))
            read, found = folded(self.reduction, of_batches(self.reduction, whole))
            if read:
                yield _row(read, found)
        except SightlineError as error:
            yield _error_row(error)


class PartsOnWorker:
    """Merges the rows of several tasks into one row."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction, self.version = reduction, version("sightline")

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            _check_version(self.version)
            read, found = folded(self.reduction, parts_of(batches))
            if read:
                yield _row(read, found)
        except SightlineError as error:
            yield _error_row(error)


def parts_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Arrays]]:
    """How many signatures each row stands for, and its arrays. Raises the errors of rows."""
    for batch in batches:
        for signatures, packed, error, message in zip(*batch.columns[1:], strict=True):
            if error.is_valid:
                raise getattr(errors, error.as_py())(message.as_py())
            yield signatures.as_py(), unpacked(packed.as_buffer())


def packed(arrays: Arrays) -> bytes:
    """Arrays as bytes. Most entries of products are zero, so they are compressed.

    >>> arrays = {"rows": np.array([2, 0]), "words": np.zeros((3, 0), dtype=np.int64)}
    >>> {name: (values.shape, values.tolist()) for name, values in unpacked(packed(arrays)).items()}
    {'rows': ((2,), [2, 0]), 'words': ((3, 0), [[], [], []])}
    """
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **arrays)
    whole = written.getbuffer()
    return _SIZE.pack(whole.nbytes) + bytes(pa.compress(whole, codec="zstd", asbytes=True))


def unpacked(data: bytes | pa.Buffer) -> Arrays:
    """The arrays that were packed."""
    view = memoryview(data)
    (size,) = _SIZE.unpack(view[: _SIZE.size])
    whole = pa.decompress(view[_SIZE.size :], decompressed_size=size, codec="zstd")
    with np.load(io.BytesIO(whole), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _large_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[Arrays]:
    """Lines in chunks of a size that pays for a pass's tables: Spark sends some thousand at a time."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= BATCH:
            yield _columns(waiting)
            waiting, rows = [], 0
    if rows:
        yield _columns(waiting)


def _columns(batches: list[pa.RecordBatch]) -> Arrays:
    table = pa.Table.from_batches(batches)
    return {name: table[name].to_numpy() for name in table.column_names}


def _check_version(expected: str) -> None:
    if version("sightline") != expected:
        raise InvalidPlan(
            f"expected Sightline {expected} on Spark's workers, as on the driver, "
            f"got {version('sightline')}; install the same version there"
        )


def _row(signatures: int, arrays: Arrays) -> pa.RecordBatch:
    return _batch(signatures, packed(arrays), None, None)


def _error_row(error: SightlineError) -> pa.RecordBatch:
    """An error of ours as a row: its message is for people. Spark would wrap it in an error of its own."""
    return _batch(0, None, type(error).__name__, str(error))


def _batch(*values: object) -> pa.RecordBatch:
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    row = dict(zip(_SCHEMA.names, (task, *values), strict=True))
    return pa.RecordBatch.from_pylist([row], schema=_SCHEMA)
