"""The dense part of an assessment on an accelerator, against the accelerator's own rate in the same process.

From a checkout: PYTHONPATH=src python3 benchmarks/bench_accelerator.py [--device cuda] [--small]. Needs
NumPy, SciPy, python-flint and one of PyTorch, CuPy and JAX. Random rows of 0s and 1s over 1,000,000
records × 1,024 rows: products of rows and one product for the forms of every record, 4 N L² operations, are
what no method avoids. The share is the time that they take at the measured rate of a plain product in double
precision, over the time of the whole call of ``exposures``. Factorisations of the size of the rows run on
the host.

Decisions and numbers are compared with those of the host on a part of the records. Ends with 1 if they
differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from sightline.bounds.membership_design import MembershipDesign
from sightline.errors import InvalidInput
from sightline.numerics.device import Device

NOISE = 0.05


def wait(device: Device, found: Any) -> None:
    """Return when everything that was asked for has been computed."""
    if device.library == "torch" and device.place != "cpu":
        import_module("torch").cuda.synchronize()
    elif device.library == "cupy":
        import_module("cupy").cuda.Device().synchronize()
    elif device.library == "jax":
        import_module("jax").block_until_ready(found)


def best(device: Device, work: Callable[[], Any], rounds: int = 3) -> tuple[float, Any]:
    """The least seconds of some rounds after one that may compile, and the last result."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = work()
        wait(device, found)
        times.append(time.perf_counter() - start)
    return min(times), found


def measured_rate(device: Device, size: int) -> float:
    """Operations per second of a plain product in double precision."""
    matrix = device.put(np.random.default_rng(0).standard_normal((size, size)))
    seconds, _ = best(device, lambda: matrix @ matrix, rounds=5)
    rate = 2 * size**3 / seconds
    print(f"{device}: {rate / 1e12:.3g} TFLOP/s in a product of two {size:,} × {size:,} matrices of doubles")
    return rate


def all_records(device: Device, per_second: float, records: int, lines: int) -> bool:
    print(f"{records:,} records × {lines:,} rows of 0s and 1s")
    rows = np.random.default_rng(1).integers(0, 2, (lines, records), dtype=np.uint8)
    design = MembershipDesign(rows, noise=np.full(lines, NOISE)).on(device)
    seconds, found = best(device, lambda: design.exposures(domain=(0, 1)), rounds=2)
    operations = 4.0 * records * lines**2
    share = operations / per_second / seconds
    print(
        f"  exposures {seconds:9.3f} s, {share:.0%} of the rate in double precision, {found.evidence.value}"
    )
    some = MembershipDesign(rows[:, : 20 * lines], noise=np.full(lines, NOISE))
    host, there = (each.exposures(domain=(0, 1)) for each in (some, some.on(device)))
    same = np.array_equal(host.identifiable, there.identifiable)
    same &= np.allclose(host.remaining_upper, there.remaining_upper, rtol=1e-9)
    print(f"  as on the host: {'yes' if same else 'NO'}")
    return bool(same)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="cuda unless given; without it a machine that has none is left out")
    parser.add_argument("--small", action="store_true", help="sizes for a processor")
    chosen = parser.parse_args(arguments)
    name = chosen.device or "cuda"
    if name.startswith("jax"):
        import_module("jax").config.update("jax_enable_x64", True)
    try:
        device = Device.named(name)
    except InvalidInput as error:
        if chosen.device is not None:
            raise
        print(f"not run here: {error}")
        return 0
    per_second = measured_rate(device, 1_024 if chosen.small else 8_192)
    right = all_records(device, per_second, *((20_000, 128) if chosen.small else (1_000_000, 1_024)))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
