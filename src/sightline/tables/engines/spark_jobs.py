"""The jobs of one audit on Spark: marked, so that they can be watched and ended, and refused in one line."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sightline.errors import InvalidPlan, SightlineError, TooMuchWork
from sightline.progress import Progress

_LOOK = 0.2  # seconds between two looks at a job
_AGAIN, _ATTEMPTS = 0.5, 20  # seconds between two attempts to end it, and how many there are
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

    def watched(self, job: Callable[[], Answer], stage: str, progress: Progress) -> Answer:
        """Run a job on a thread of its own, and report meanwhile which share of its tasks is done.

        If ``progress`` raises, for example because the time is over, the job is ended.
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

        progress(stage, 0.0)
        thread = InheritableThread(
            target=run, daemon=True, **({"session": self.session} if self.remote else {})
        )
        thread.start()
        done = 0.0
        try:
            while thread.is_alive():
                thread.join(_LOOK)
                done = max(done, self._share(group))
                progress(stage, done)
        except BaseException:
            for _ in range(_ATTEMPTS):
                if thread.is_alive():
                    with contextlib.suppress(Exception):  # the job may just have ended
                        self.interrupt()
                    thread.join(_AGAIN)
            raise
        for error in errors:
            refuse(error)
        progress(stage, 1.0)
        return answers[0]

    def _share(self, group: str) -> float:
        """The share of the tasks known so far that are done; Spark plans some stages only later."""
        done = total = 0
        with contextlib.suppress(Exception):  # a lost connection is the job's own error
            tracker = self.session.sparkContext.statusTracker()  # which Spark Connect does not have
            for job in tracker.getJobIdsForGroup(group):
                found = tracker.getJobInfo(job)
                for stage in () if found is None else map(tracker.getStageInfo, found.stageIds):
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
