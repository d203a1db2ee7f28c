"""The dense part of an assessment on an accelerator, against the accelerator's own rates in the same process.

From a checkout: PYTHONPATH=src:. python3 benchmarks/bench_accelerator.py [--device cuda] [--small]. Needs
NumPy, SciPy, python-flint and one of PyTorch, CuPy and JAX. Two designs of random rows of 0s and 1s:

- 2,000,000 records × 2,048 rows. Products of rows and one product for the forms of every record, 4 N L²
  operations, are what no method avoids: the share is the time that they take at the measured rate of a plain
  product in double precision, over the time of products, factorisation and forms together, and over that of
  the whole call of ``exposures``. What the call takes beyond them runs on the host.
- 100,000 records × 20,000 rows: the whole call over the library's own eigenproblem of as many rows.

Decisions and numbers are compared with those of the host on a part of the records. Ends with 1 if they
differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.history import measured, not_run_here
from sightline.arrays import namespace
from sightline.bounds.assessment import unit_brackets
from sightline.bounds.membership_design import LoweredRecords, MembershipDesign
from sightline.bounds.priors import prior_on
from sightline.errors import InvalidInput
from sightline.numerics.device import Device
from sightline.units.design import MadeOfUnits

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


def random_rows(records: int, lines: int) -> np.ndarray[Any, Any]:
    """Random bits as 0s and 1s."""
    packed = np.frombuffer(np.random.default_rng(1).bytes(lines * records // 8), dtype=np.uint8)
    return np.unpackbits(packed.reshape(lines, records // 8), axis=1).view(np.bool_)


def line(name: str, seconds: float, note: str = "") -> None:
    print(f"  {name:<44} {seconds:9.3f} s  {note}", flush=True)


def dense_part(device: Device, design: MembershipDesign) -> float:
    """Seconds of products of rows, factorisation and forms of every record."""
    lowered = LoweredRecords.of(design, prior_on((0, 1), "uniform"), np.ones(design.size, dtype=np.bool_))

    def factorised() -> Any:
        brackets = unit_brackets(replace(lowered.design, made=MadeOfUnits()))
        return brackets.solver.leverage, brackets.solver.linear, brackets.solver.hidden

    seconds, forms = best(device, factorised)
    line("products of rows, and their factors", seconds)

    def read() -> Any:
        return [[form.forms(block) for form in forms] for block in lowered.design.units.blocks()]

    reading, _ = best(device, read)
    line("forms of every record", reading)
    return seconds + reading


def all_records(device: Device, per_second: float, records: int, lines: int) -> bool:
    print(f"{records:,} records × {lines:,} rows of 0s and 1s")
    rows = random_rows(records, lines)
    design = MembershipDesign(rows, noise=np.full(lines, NOISE)).on(device)
    start = time.perf_counter()
    wait(device, design.incidence.placed)
    line("the table to the device", time.perf_counter() - start)
    least = 4.0 * records * lines**2 / per_second
    dense = dense_part(device, design)
    line("together", dense, f"{least / dense:.0%} of the rate in double precision (at least 60 %)")
    case = f"{device}, {records:,} × {lines:,}"
    measured(f"{case}, dense part", dense / least, rival="the products at the measured rate")
    seconds, found = best(device, lambda: design.exposures(domain=(0, 1)), rounds=2)
    line(
        "the whole call of exposures",
        seconds,
        f"{least / seconds:.0%} (at least 25 %), {found.evidence.value}",
    )
    measured(f"{case}, whole call", seconds / least, rival="the products at the measured rate")
    some = MembershipDesign(rows[:, : 20 * lines], noise=np.full(lines, NOISE))
    host, there = (each.exposures(domain=(0, 1)) for each in (some, some.on(device)))
    same = np.array_equal(host.identifiable, there.identifiable)
    same &= np.allclose(host.remaining_upper, there.remaining_upper, rtol=1e-9)
    same &= np.allclose(host.remaining_lower, there.remaining_lower, rtol=1e-9)
    print(f"  as on the host: {'yes' if same else 'NO'}")
    return bool(same)


def many_rows(device: Device, records: int, lines: int) -> None:
    print(f"{records:,} records × {lines:,} rows of 0s and 1s")
    rows = random_rows(records, lines)
    products = device.put(np.random.default_rng(2).standard_normal((lines, lines)))
    products = products + products.T
    start = time.perf_counter()
    wait(device, namespace(products).linalg.eigh(products))
    plain = time.perf_counter() - start
    line("the plain eigenproblem", plain)
    del products
    design = MembershipDesign(rows, noise=np.full(lines, NOISE)).on(device)
    wait(device, design.incidence.placed)
    start = time.perf_counter()
    design.exposures(domain=(0, 1))
    line("the first call of exposures", time.perf_counter() - start, "JAX compiles and chooses products")
    start = time.perf_counter()
    found = design.exposures(domain=(0, 1))
    whole = time.perf_counter() - start
    line("the whole call of exposures", whole, f"{whole / plain:.2f} × (at most 2 ×), {found.evidence.value}")
    measured(f"{device}, {records:,} × {lines:,}, whole call", whole / plain, rival="the plain eigenproblem")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="without it CUDA by each of PyTorch, CuPy and JAX that is installed")
    parser.add_argument("--small", action="store_true", help="sizes for a processor")
    chosen = parser.parse_args(arguments)
    installed = [f"{each}:cuda" for each in ("torch", "cupy", "jax") if find_spec(each) is not None]
    names = [chosen.device] if chosen.device else installed
    right, reasons = True, ["none of PyTorch, CuPy and JAX is installed"]
    for name in names:
        if name.startswith("jax"):
            import_module("jax").config.update("jax_enable_x64", True)
        try:
            device = Device.named(name)
        except InvalidInput as error:
            if chosen.device:
                raise
            reasons.append(str(error))
            continue
        per_second = measured_rate(device, 1_024 if chosen.small else 8_192)
        right &= all_records(device, per_second, *((20_000, 128) if chosen.small else (2_000_000, 2_048)))
        many_rows(device, *((4_000, 800) if chosen.small else (100_000, 20_000)))
    if len(reasons) > len(names):
        not_run_here(reasons[-1])
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
