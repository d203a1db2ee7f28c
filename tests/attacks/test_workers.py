"""Where chunks run: by default on local processes where that pays, and the same digits wherever."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import sightline as sl
from sightline.attacks import monte_carlo, workers
from sightline.attacks.monte_carlo import CHUNK
from sightline.errors import InvalidInput, SightlineError
from sightline.progress import Progress, reporting
from tests.attacks.attack_cases import INTERIOR, moments, triangle

pytestmark = pytest.mark.slow

RECORDS = (0.3, -0.2, 0.6)
MLE = {"attack": sl.ConstrainedMLE(), "at": INTERIOR, "trials": 3500, "seed": 11}
BLUE = {"attack": sl.Blue(), "at": RECORDS, "domain": (-1, 1), "trials": 2 * CHUNK + 1}


def run(function, calls, *, executor=None, count=None, progress: Progress | None = None):
    with reporting(progress):
        return workers.run_all(function, calls, executor=executor, workers=count)


def local_processes() -> list[str]:
    return [child.name for child in multiprocessing.active_children() if child.name.startswith("Loky")]


def same(one: sl.attacks.Simulation, other: sl.attacks.Simulation) -> bool:
    scalars = ("trials", "mse", "standard_error", "interval", "crb", "trivial_mse", "statuses", "certified")
    return all(getattr(one, name) == getattr(other, name) for name in scalars) and np.array_equal(
        one.bias, other.bias
    )


@pytest.fixture
def eager(monkeypatch) -> None:
    """Processes pay from the first chunk on, and there are cores for them."""
    monkeypatch.setattr(workers, "WORTH", 0.0)
    monkeypatch.setattr(workers, "_cores", lambda: 2)


@pytest.fixture(scope="module")
def alone() -> sl.attacks.Simulation:
    return sl.simulate(moments(5.0), **MLE, workers=1)


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


class TestTheSameDigits:
    def test_by_default(self, alone) -> None:
        assert same(sl.simulate(moments(5.0), **MLE), alone)

    @pytest.mark.usefixtures("eager")
    def test_by_default_when_processes_pay(self, alone) -> None:
        assert same(sl.simulate(moments(5.0), **MLE), alone)

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("count", [2, 3])
    def test_on_local_processes(self, alone, count) -> None:
        assert same(sl.simulate(moments(5.0), **MLE, workers=count), alone)

    @pytest.mark.parametrize("count", [1, 3])
    def test_on_any_executor(self, alone, count) -> None:
        with ThreadPoolExecutor(count) as executor:
            assert same(sl.simulate(moments(5.0), **MLE, executor=executor), alone)

    def test_on_a_dask_cluster(self, alone, dask) -> None:
        assert same(sl.simulate(moments(5.0), **MLE, executor=dask), alone)

    @pytest.mark.thorough
    def test_whatever_the_threads_of_the_linear_algebra(self) -> None:
        found = []
        for threads in (1, 2):
            with threadpool_limits(threads, user_api="blas"):
                found.append(sl.simulate(triangle(), **{**BLUE, "attack": Scaled()}, workers=1))
        found.append(sl.simulate(triangle(), **{**BLUE, "attack": Scaled()}, workers=2))
        assert same(found[0], found[1])
        assert same(found[0], found[2])

    def test_those_threads_come_back(self) -> None:
        def threads(*_: object) -> list[int]:
            return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

        with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(2) as executor:
            before = threads()
            during = run(threads, [()] * 2) + run(threads, [()] * 2, executor=executor)
            assert all(count == 1 for seen in during for count in seen)
            assert threads() == before


class TestWhere:
    def test_as_many_processes_as_asked_for(self) -> None:
        places = set(run(os.getpid, [()] * 6, count=2))
        assert os.getpid() not in places
        assert len(places) <= 2

    @pytest.mark.parametrize(("count", "calls"), [(1, 3), (3, 1), (None, 3)])
    def test_one_worker_one_chunk_or_little_work_is_the_calling_process(self, count, calls) -> None:
        assert set(run(os.getpid, [()] * calls, count=count)) == {os.getpid()}

    @pytest.mark.usefixtures("eager")
    def test_by_default_what_is_left_runs_on_processes_once_that_pays(self) -> None:
        first, *rest = run(os.getpid, [()] * 4)
        assert first == os.getpid()
        assert os.getpid() not in rest

    @pytest.mark.usefixtures("eager")
    def test_one_core_is_the_calling_process(self, monkeypatch) -> None:
        monkeypatch.setattr(workers, "_cores", lambda: 1)
        assert set(run(os.getpid, [()] * 3)) == {os.getpid()}

    @pytest.mark.usefixtures("eager")
    @pytest.mark.parametrize(("name", "value"), [("frozen", True), ("executable", "")])
    def test_a_program_that_is_not_python_starts_none_by_default(self, monkeypatch, name, value) -> None:
        monkeypatch.setattr(sys, name, value, raising=False)
        assert set(run(os.getpid, [()] * 3)) == {os.getpid()}

    def test_the_cores_are_those_that_the_process_may_use(self) -> None:
        assert 1 <= workers._cores() <= (os.cpu_count() or 1)

    @pytest.mark.thorough
    @pytest.mark.parametrize("count", [1, 2])
    def test_progress_counts_chunks(self, count) -> None:
        calls: list[tuple[str, float]] = []
        sl.simulate(triangle(), **BLUE, workers=count, progress=lambda *call: calls.append(call))
        assert calls == [("simulating", done / 3) for done in range(4)]

    @pytest.mark.usefixtures("eager")
    def test_chunks_that_are_spread_already_stay(self, monkeypatch) -> None:
        """Those that JAX compiles."""
        jax_numpy = pytest.importorskip("jax.numpy")

        def refuse(*_: object) -> None:
            raise AssertionError("processes")

        monkeypatch.setattr(workers, "_on_processes", refuse)
        custom = sl.DeepSet(feature=jax_numpy.sin, readout=lambda s: s, members=range(1), sensitivity=2.0)
        prior = sl.labeled.UniformPrior(-1.0, 1.0)
        grid = sl.attacks.PosteriorMean(prior=prior, points=100)
        sl.simulate(sl.Transcript([custom], noise=[1.0]), attack=grid, at=prior, trials=CHUNK + 20)
        with pytest.raises(AssertionError, match="processes"):
            sl.simulate(triangle(), **BLUE)

    def test_a_worker_knows_a_job_again(self) -> None:
        job = monte_carlo._job(triangle(), sl.Blue(), RECORDS, (-1, 1), seed=0, key=())
        other = monte_carlo._job(triangle(), sl.Blue(), RECORDS, (-1, 1), seed=0, key=())
        first, second = (pickle.loads(pickle.dumps(job)) for _ in range(2))
        assert monte_carlo._first(first) is monte_carlo._first(second)
        assert monte_carlo._first(other) is not monte_carlo._first(first)


def nested() -> tuple[bool, bool, str]:
    """In a worker: whether the default stays in it, whether it is daemonic, and what two workers say."""
    workers.WORTH = 0.0
    workers._cores = lambda: 2  # type: ignore[assignment]
    stays = set(run(os.getpid, [()] * 3)) == {os.getpid()}
    daemonic = multiprocessing.current_process().daemon
    try:
        run(os.getpid, [()] * 2, count=2)
    except InvalidInput as error:
        return stays, daemonic, str(error)
    return stays, daemonic, ""


class TestInAWorker:
    @pytest.mark.thorough
    def test_of_a_pool(self) -> None:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            stays, daemonic, message = pool.apply(nested)
        assert stays
        assert daemonic
        assert "expected a process that may start workers, got a daemonic one" in message

    @pytest.mark.thorough
    def test_of_an_executor(self) -> None:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
            assert executor.submit(nested).result() == (True, False, "")

    @pytest.mark.thorough
    def test_of_ours(self) -> None:
        assert run(nested, [(), ()], count=2) == [(True, False, "")] * 2

    def test_of_dask(self, dask) -> None:
        stays, daemonic, message = dask.submit(nested).result()
        assert stays
        assert daemonic == bool(message)


class Odd(Exception):
    """Can be sent, and cannot be read."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one)


def odd(*_: object) -> None:
    raise Odd(1, 2)


class TestTrouble:
    def test_an_error_reaches_the_caller_as_what_it_is(self) -> None:
        with pytest.raises(ZeroDivisionError, match="division"):
            run(divmod, [(1, 1), (1, 0), (1, 1)], count=2)
        assert local_processes() == []

    def test_of_the_caller_too(self) -> None:
        def stop(stage: str, share: float) -> None:
            if share > 0:
                raise TimeoutError

        with pytest.raises(TimeoutError):
            run(os.getpid, [()] * 8, count=2, progress=stop)
        assert local_processes() == []

    def test_a_worker_that_dies(self) -> None:
        with pytest.raises(
            SightlineError, match=r"^expected every worker .* got one that died; .* fewer workers$"
        ):
            run(os._exit, [(3,)] * 3, count=2)
        assert local_processes() == []

    def test_what_cannot_be_sent(self) -> None:
        with pytest.raises(InvalidInput, match="cannot be pickled; workers=1"):
            run(repr, [(threading.Lock(),)] * 3, count=2)

    @pytest.mark.thorough
    def test_what_cannot_be_sent_back(self) -> None:
        with pytest.raises(InvalidInput, match="cannot be pickled; workers=1"):
            run(odd, [()] * 3, count=2)

    @pytest.mark.usefixtures("eager")
    def test_by_default_it_stays_in_the_calling_process(self) -> None:
        lock = threading.Lock()
        assert run(repr, [(lock,)] * 3) == [repr(lock)] * 3

    def test_an_error_in_one_chunk_cancels_the_rest(self) -> None:
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

    @pytest.mark.skipif(sys.platform == "win32", reason="signals to a group of processes")
    def test_an_interrupt_ends_the_workers(self) -> None:
        """As Ctrl+C does, it goes to all processes; the pipes close when the last of them has ended."""
        script = """if True:
            import os, signal, time
            from sightline.attacks.workers import run_all
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
            def chunk():
                os.write(1, b"running\\n")
                time.sleep(300)
            run_all(chunk, [()] * 9, executor=None, workers=2)
        """
        command = [sys.executable, "-W", "error", "-c", script]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert [process.stdout.readline() for _ in range(2)] == ["running\n"] * 2
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=600)
        assert process.returncode != 0
        assert errors.endswith("\nKeyboardInterrupt\n")
        assert errors.count("Traceback") == 1
        assert "Warning" not in errors

    @pytest.mark.skipif(sys.platform == "win32", reason="signals")
    def test_workers_end_with_a_process_that_was_killed(self) -> None:
        """It cannot end them; the pipe closes when the last of them has ended by itself."""
        script = """if True:
            import os, time
            from sightline.attacks.workers import run_all
            def chunk():
                os.write(1, b"running\\n")
                time.sleep(3000)
            run_all(chunk, [()] * 9, executor=None, workers=2)
        """
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
            assert [process.stdout.readline() for _ in range(2)] == ["running\n"] * 2
            process.kill()
            process.communicate(timeout=600)
        assert process.returncode == -signal.SIGKILL


@dataclass(frozen=True)
class Rounded:
    """What the script below defines, once more."""

    def estimate(self, transcript, answers):
        found = sl.Blue().estimate(transcript, answers)
        return sl.attacks.Estimates(values=found.values.round(), targets=found.targets, status=found.status)


SCRIPT = """
import sightline as sl

queries = [sl.SubsetSum(members=pair, radius=1.0) for pair in ((0, 1), (0, 2), (1, 2))]

class Rounded:
    def estimate(self, transcript, answers):
        found = sl.Blue().estimate(transcript, answers)
        return sl.attacks.Estimates(values=found.values.round(), targets=found.targets, status=found.status)

transcript = sl.Transcript(queries, noise=[0.2, 0.3, 0.4])
settings = dict(attack=Rounded(), at=(0.3, -0.2, 0.6), domain=(-1, 1), trials=2001)
print(sl.simulate(transcript, **settings, workers=2).mse.hex())
"""


class TestScripts:
    """None has a guard, each defines its attack, and warnings are errors."""

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("how", ["file", "standard input", "argument"])
    def test_runs_once(self, how, tmp_path) -> None:
        expected = sl.simulate(triangle(), **{**BLUE, "attack": Rounded()}, workers=1).mse.hex()
        file = tmp_path / "script.py"
        file.write_text(SCRIPT)
        given = {"file": [str(file)], "standard input": ["-"], "argument": ["-c", SCRIPT]}[how]
        done = subprocess.run(
            [sys.executable, "-W", "error", *given],
            input=SCRIPT if given == ["-"] else None,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert (done.stdout, done.stderr, done.returncode) == (expected + "\n", "", 0)
