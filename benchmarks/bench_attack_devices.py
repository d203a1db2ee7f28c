"""Constrained maximum likelihood on every device that is there: trials per second, and the same numbers.

Needs NumPy and SciPy; PyTorch, JAX and CuPy are used if they can be imported, on the CPU and on a GPU. From a
checkout: PYTHONPATH=src python benchmarks/bench_attack_devices.py [trials]. Every device solves the same
answers in double precision. Agreement with NumPy: objectives to 1e-8 on every trial, and values to 1e-5 on
all but one trial in 10,000, where another point may have the same objective. Ends with 1 if a device differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from sightline.attacks.estimates import Estimates
from sightline.attacks.mle import ConstrainedMLE
from sightline.attacks.model import Model
from sightline.attacks.transcript_model import model_of
from sightline.noise.laws import GaussianNoise
from sightline.releases.moment import Moment

BOX = (-1.0, 1.0)
SAME_OBJECTIVE, SAME_VALUE, ELSEWHERE = 1e-8, 1e-5, 1e-4
Move = Callable[[np.ndarray], Any]
Device = tuple[str, Move, Callable[[], None], AbstractContextManager[Any]]


def numpy_device() -> Iterator[Device]:
    yield "NumPy, CPU", lambda answers: answers, lambda: None, nullcontext()


def torch_devices() -> Iterator[Device]:
    import torch

    yield (
        f"PyTorch {torch.__version__}, CPU",
        lambda answers: torch.asarray(answers),
        lambda: None,
        nullcontext(),
    )
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        yield (
            f"PyTorch {torch.__version__}, {name}",
            lambda answers: torch.asarray(answers, device="cuda"),
            torch.cuda.synchronize,
            nullcontext(),
        )


def jax_devices() -> Iterator[Device]:
    import jax

    for platform in ("cpu", "gpu"):
        try:
            device = jax.devices(platform)[0]
        except RuntimeError:
            continue

        def move(answers: np.ndarray, device: Any = device) -> Any:
            return jax.device_put(answers, device)

        yield (
            f"JAX {jax.__version__}, {device.device_kind}",
            move,
            lambda: None,  # the solver reads a flag back after its steps, and so waits for them
            jax.enable_x64(True),
        )


def cupy_devices() -> Iterator[Device]:
    import cupy

    if cupy.cuda.runtime.getDeviceCount():
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        yield (
            f"CuPy {cupy.__version__}, {name}",
            cupy.asarray,
            cupy.cuda.Device().synchronize,
            nullcontext(),
        )


def devices() -> Iterator[Device]:
    for found in (numpy_device, torch_devices, jax_devices, cupy_devices):
        try:
            yield from found()
        except ImportError as error:
            print(f"  ({error})")


def answers_of(values: tuple[float, ...], releases: int, epsilon: float, trials: int) -> Any:
    """Noisy moments under basic composition with the classical calibration, and their model."""
    moments = [
        Moment(order=order, members=range(len(values)), bound=1.0, convention="uniform")
        for order in range(1, releases + 1)
    ]
    kappa = 2 * np.log(1.25 * releases / 1e-5) * (releases / epsilon) ** 2
    noise = GaussianNoise(stddevs=np.concatenate([np.sqrt(kappa) * q.sensitivity for q in moments]))
    exact = np.concatenate([query.value(np.array(values)) for query in moments])
    noisy = exact + noise.sample(trials, generator=np.random.default_rng(0))
    return model_of(moments, noise), noisy


def timed(model: Model, noisy: np.ndarray, device: Device) -> tuple[float, Estimates]:
    _, move, wait, context = device
    attack = ConstrainedMLE()
    with context:
        best = np.inf
        placed = move(noisy)
        for _ in range(3):  # the first run may compile
            start = time.perf_counter()
            found = attack.fit(model, placed, box=BOX)
            wait()
            best = min(best, time.perf_counter() - start)
        return best, found.on_host()


def agreement(found: Estimates, reference: Estimates) -> tuple[bool, str]:
    gap = float(np.max(np.abs(found.objective - reference.objective)))
    apart = np.max(np.abs(found.values - reference.values), axis=1)
    elsewhere = int(np.sum(apart > SAME_VALUE))
    same = gap <= SAME_OBJECTIVE and elsewhere <= ELSEWHERE * len(apart)
    near = np.max(apart[apart <= SAME_VALUE], initial=0.0)
    text = f"objectives within {gap:.0e}, values within {near:.0e}, {elsewhere} elsewhere"
    return same, f"{'agrees' if same else 'DIFFERS'}: {text}"


def main(trials: int) -> int:
    differs = 0
    for values, releases, epsilon in (((-0.4, 0.7), 2, 5.0), ((-0.7, 0.1, 0.8), 6, 20.0)):
        model, noisy = answers_of(values, releases, epsilon, trials)
        print(f"m = {len(values)}, L = {releases}, epsilon {epsilon:g}, {trials} trials, 11 starts each")
        reference: tuple[float, Estimates] | None = None
        for device in devices():
            seconds, found = timed(model, noisy, device)
            reference = reference or (seconds, found)
            same, text = agreement(found, reference[1])
            differs += not same
            print(
                f"  {device[0]:36} {trials / seconds:12,.0f} trials/s {reference[0] / seconds:7.2f} × NumPy"
                f"   {text}",
                flush=True,
            )
    return min(differs, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000))
