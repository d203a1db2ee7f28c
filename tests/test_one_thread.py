"""BLAS uses one thread for small designs, and as many as before otherwise and afterwards.

For designs so small that it uses one by itself, nothing is set.
"""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import sightline as sl
from sightline.examples.shipped import example_plan
from sightline.progress import blas_threads_for, one_blas_thread


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize(
    ("rows", "columns", "inside"),
    [(11, 18, 2), (40, 20, 1), (200, 1_000, 1), (1_900, 300, 2), (100, 10**6, 2)],
)
def test_one_thread_for_small_matrices_alone(rows: int, columns: int, inside: int) -> None:
    with threadpool_limits(2, user_api="blas"):
        with blas_threads_for(rows=rows, columns=columns):
            assert threads() == {inside}
        assert threads() == {2}


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("job", [sl.audit, sl.design])
def test_a_small_plan_is_assessed_on_one_thread(job: object) -> None:
    seen: dict[str, set[int]] = {}

    def watch(stage: str, done: float) -> None:
        seen[stage] = threads()

    with threadpool_limits(2, user_api="blas"):
        assert callable(job)
        job(example_plan("census"), limit=0.3, progress=watch)
        assert threads() == {2}
    assert seen["factorising the products"] == {1}


def test_the_last_user_restores_the_threads() -> None:
    """Two audits in one process that overlap: the first to begin is the first to end."""
    with threadpool_limits(2, user_api="blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == {2}
