"""Where chunks run: in the calling process or on any executor, and the same digits wherever."""

from __future__ import annotations

import multiprocessing
import warnings
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import sightline as sl
from sightline.theory.attacks.monte_carlo import CHUNK
from tests.theory.attacks.attack_cases import INTERIOR, moments, triangle

pytestmark = pytest.mark.slow

RECORDS = (0.3, -0.2, 0.6)
MLE = {"attack": sl.ConstrainedMLE(), "at": INTERIOR, "trials": 3500, "seed": 11}
BLUE = {"attack": sl.Blue(), "at": RECORDS, "domain": (-1, 1), "trials": 2 * CHUNK + 1}


def same(one: sl.attacks.Simulation, other: sl.attacks.Simulation) -> bool:
    scalars = ("trials", "mse", "standard_error", "interval", "crb", "trivial_mse", "statuses", "certified")
    return all(getattr(one, name) == getattr(other, name) for name in scalars) and np.array_equal(
        one.bias, other.bias
    )


@pytest.fixture(scope="module")
def alone() -> sl.attacks.Simulation:
    return sl.simulate(moments(5.0), **MLE)


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the machine: ports, memory limits
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        )
        with cluster, distributed.Client(cluster) as client:
            yield client.get_executor()


@dataclass(frozen=True)
class Scaled:
    """By an inverse so large that threads share it: its last digits depend on how many they are."""

    def estimate(self, transcript, answers):
        found = sl.Blue().estimate(transcript, answers)
        inverse = np.linalg.inv(np.random.default_rng(0).random((300, 300)))
        values = found.values * np.abs(inverse).sum()
        return sl.attacks.Estimates(values=values, targets=found.targets, status=found.status)


class Watching:
    """An attack that notes how many threads the linear algebra has."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def estimate(self, transcript, answers):
        self.seen += blas_threads()
        return sl.Blue().estimate(transcript, answers)


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


class TestTheSameDigits:
    @pytest.mark.parametrize("count", [1, 3])
    def test_on_threads(self, alone, count) -> None:
        with ThreadPoolExecutor(count) as executor:
            assert same(sl.simulate(moments(5.0), **MLE, executor=executor), alone)

    @pytest.mark.thorough
    def test_on_processes(self, alone) -> None:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
            assert same(sl.simulate(moments(5.0), **MLE, executor=executor), alone)

    def test_on_a_dask_cluster(self, alone, dask) -> None:
        assert same(sl.simulate(moments(5.0), **MLE, executor=dask), alone)

    @pytest.mark.thorough
    def test_whatever_the_threads_of_the_linear_algebra(self) -> None:
        found = []
        for threads in (1, 2):
            with threadpool_limits(threads, user_api="blas"):
                found.append(sl.simulate(triangle(), **{**BLUE, "attack": Scaled()}))
        assert same(*found)

    def test_those_threads_come_back(self) -> None:
        attack = Watching()
        with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(2) as executor:
            before = blas_threads()
            for place in (None, executor):
                sl.simulate(triangle(), **{**BLUE, "attack": attack}, executor=place)
            assert set(attack.seen) == {1}
            assert blas_threads() == before


def test_progress_counts_chunks() -> None:
    for executor in (None, ThreadPoolExecutor(2)):
        calls: list[tuple[str, float]] = []
        sl.simulate(triangle(), **BLUE, executor=executor, progress=lambda *call: calls.append(call))  # noqa: B023
        assert calls == [("simulating", done / 3) for done in range(4)]


@pytest.mark.thorough
def test_an_error_in_one_chunk_cancels_the_rest() -> None:
    class Lazy(ThreadPoolExecutor):
        def __init__(self) -> None:
            super().__init__(1)
            self.futures: list[Future] = []

        def submit(self, *call, **named):
            future: Future = Future()
            if not self.futures:
                future.set_exception(RuntimeError("worker lost"))
            self.futures.append(future)
            return future

    with Lazy() as executor, pytest.raises(RuntimeError, match="worker lost"):
        sl.simulate(triangle(), **BLUE, executor=executor)
    assert all(future.cancelled() for future in executor.futures[1:])
