"""Signatures on Spark's executors: passes run where they are, and only a few merged arrays come back."""

from __future__ import annotations

import contextlib
import math

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from sightline.errors import InvalidPlan, require
from sightline.progress import Progress, silent
from sightline.tables.engines.spark_jobs import SparkJobs, refuse, without_pandas_warning
from sightline.tables.engines.spark_passes import PART, PartsOnWorker, SignaturesOnWorker, merged_parts
from sightline.tables.signature_store import BATCH, Arrays, Reduction


class SparkStore:
    """The answer to a GROUP BY of signatures, kept on the executors' disks until the store is closed.

    A pass is a job of two steps. Each task reduces its signatures to a few arrays, and the arrays of the
    tasks are merged in groups, so that the driver receives the square root of the number of tasks. Spark
    runs a task again if its worker is lost. The job counts the signatures it has read, and must read each
    of them once.
    """

    def __init__(self, jobs: SparkJobs, frame: DataFrame, *, word_count: int) -> None:
        self._jobs, self._word_count = jobs, word_count
        self._frame = frame.persist(StorageLevel.DISK_ONLY)
        try:
            self._signatures = int(jobs.watched(self._frame.count, "listing signatures", silent))
        except BaseException:
            self.close()
            raise

    @property
    def signatures(self) -> int:
        return self._signatures

    @property
    def word_count(self) -> int:
        return self._word_count

    def run(self, reduction: Reduction, stage: str, progress: Progress) -> Arrays:
        require(self._signatures > 0, "at least one signature", got="none")
        try:
            with without_pandas_warning():
                # Each task unpacks the pass's tables, so that small tasks cost more than they save.
                parts = self._frame.coalesce(self._tasks()).mapInArrow(
                    SignaturesOnWorker(reduction, word_count=self._word_count), PART
                )
                # By the number of the task: a task that runs again must not send its arrays elsewhere.
                merged = parts.repartition(math.isqrt(self._tasks()), "task").mapInArrow(
                    PartsOnWorker(reduction), PART
                )
        except Exception as error:
            refuse(error)
        table = self._jobs.watched(merged.toArrow, stage, progress)
        found = merged_parts(reduction, table.to_batches())
        read = 0 if found is None else found[0]
        require(
            found is not None and read == self._signatures,
            f"a pass over {self._signatures:,} signatures",
            got=f"one over {read:,}",
            fix="the table may have changed: run it again, on a copy if it is written often",
            error=InvalidPlan,
        )
        assert found is not None
        return found[1]

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the session may have been stopped
            self._frame.unpersist()

    def _tasks(self) -> int:
        """Tasks that read half a batch each, and no fewer than Spark has cores."""
        session = self._jobs.session
        cores = 1 if self._jobs.remote else session.sparkContext.defaultParallelism
        return max(cores, 2 * self._signatures // BATCH)
