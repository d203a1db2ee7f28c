"""The dense part of an assessment on an accelerator, against the accelerator's own rates in the same process.

From a checkout: PYTHONPATH=src python3 benchmarks/bench_accelerator.py [--device cuda] [--small]. Needs
NumPy, SciPy and one of PyTorch, CuPy and JAX. Two designs of random rows of 0s and 1s:

- 2,000,000 records × 2,048 rows. Two products of matrices over all records, 4 N L² operations, are what no
  method avoids: the share is the time that they take at the measured rate of a plain product in double
  precision, over the time of products, eigenproblem, error bounds and forms together. The whole call of
  ``exposures`` is printed as well. What it takes beyond that runs on the host.
- 100,000 records × 20,000 rows: every factorisation over the plain one of the array library.

Products of rows are checked against counts of bits. Ends with 1 if one differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from sightline.arrays import namespace, with_diagonal_plus
from sightline.labeled.design import MembershipDesign
from sightline.labeled.incidence.dense import DenseIncidence
from sightline.labeled.risk_forms import Spectrum, forms_from_eigenvalues, risks_over_v
from sightline.labeled.routes.problem import Problem
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics.device import Device
from sightline.numerics.inverse import positive_inverse
from sightline.numerics.residuals import inverse_error
from sightline.progress import silent

NOISE = 0.05
KEYS = 4  # linear forms that tell signatures apart


def wait(device: Device, found: Any) -> None:
    """Return when everything that was asked for has been computed."""
    if device.library == "torch" and device.place != "cpu":
        import_module("torch").cuda.synchronize()
    elif device.library == "cupy":
        import_module("cupy").cuda.Device().synchronize()
    elif device.library == "jax":
        import_module("jax").block_until_ready(found)


def once(device: Device, work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    start = time.perf_counter()
    found = work()
    wait(device, found)
    return time.perf_counter() - start, found


def best(device: Device, work: Callable[[], Any], rounds: int = 3) -> tuple[float, Any]:
    """The least seconds of some rounds after one that may compile, and the last result."""
    once(device, work)
    times = []
    for _ in range(rounds):
        seconds, found = once(device, work)
        times.append(seconds)
    return min(times), found


def line(name: str, seconds: float, note: str = "") -> None:
    print(f"  {name:<52} {seconds:9.3f} s  {note}", flush=True)


def measured_rate(device: Device, size: int) -> float:
    """Operations per second of a plain product in double precision."""
    matrix = device.put(np.random.default_rng(0).standard_normal((size, size)))
    seconds, _ = best(device, lambda: matrix @ matrix, rounds=5)
    rate = 2 * size**3 / seconds
    print(f"{device}: {rate / 1e12:.3g} TFLOP/s in a product of two {size:,} × {size:,} matrices of doubles")
    return rate


def random_design(records: int, lines: int) -> MembershipDesign:
    """Random bits, packed as the library keeps them: no table of records × rows bytes is made."""
    packed = np.frombuffer(np.random.default_rng(1).bytes(lines * records // 8), dtype=np.uint8)
    packed = packed.reshape(lines, records // 8)
    sizes = np.bitwise_count(packed).sum(axis=1, dtype=np.intp)
    incidence = DenseIncidence(
        stored=packed,
        records=records,
        binary=True,
        whole=True,
        integral=True,
        sizes=sizes,
        peaks=np.ones(lines),
    )
    return MembershipDesign(incidence, noise=np.full(lines, NOISE))


def exact(design: MembershipDesign, products: Any) -> bool:
    """Some products of rows as counts of common bits."""
    stored = design.incidence.stored
    pairs = np.random.default_rng(2).integers(0, len(stored), (64, 2))
    counted = [int(np.bitwise_count(stored[i] & stored[j]).sum(dtype=np.int64)) for i, j in pairs]
    same = np.array_equal(products[pairs[:, 0], pairs[:, 1]], counted)
    return bool(same and np.array_equal(np.diagonal(products), design.incidence.sizes))


def all_records(device: Device, per_second: float, records: int, lines: int) -> bool:
    print(f"{records:,} records × {lines:,} rows of 0s and 1s")
    design = random_design(records, lines)
    seconds, placed = once(device, lambda: design.on(device))
    line("rows to the device, as packed bits", seconds)
    everyone = np.ones(records, dtype=np.bool_)
    products, gram = best(device, lambda: UnknownRecordsGram.of(placed, everyone))
    operations = 2.0 * records * lines**2
    line("products", products, f"{operations / products / 1e12:.3g} TFLOP/s")
    eigen, spectrum = best(device, lambda: Spectrum.of(device.put(gram.matrix), gram.whitening))
    line("eigenproblem", eigen)
    risks = risks_over_v(1 / 12, excess=1.0, precision=12.0)
    keys = np.random.default_rng(3).integers(0, 1 << 40, (KEYS, lines)).astype(np.float64)
    bounds, forms = best(device, lambda: forms_from_eigenvalues(spectrum, risks, linear=keys))
    line("proved error bounds", bounds)
    problem = Problem(gram=gram, risks=risks, progress=silent)
    sweep, _ = best(device, lambda: problem.read(forms))
    line("forms of every record", sweep, f"{operations / sweep / 1e12:.3g} TFLOP/s")
    dense = products + eigen + bounds + sweep
    share = 2 * operations / per_second / dense
    line("together", dense, f"{share:.0%} of the rate in double precision (wanted: at least 60 %)")
    whole, found = best(device, lambda: placed.exposures(domain=(0, 1)), rounds=2)
    line(
        "the whole call of exposures",
        whole,
        f"{2 * operations / per_second / whole:.0%}, {found.evidence.value}",
    )
    right = exact(design, gram.matrix)
    print(f"  products of rows: {'exact' if right else 'DIFFER FROM COUNTS'}")
    return right


def many_rows(device: Device, records: int, lines: int) -> bool:
    print(f"{records:,} records × {lines:,} rows of 0s and 1s")
    design = random_design(records, lines)
    placed = design.on(device)
    everyone = np.ones(records, dtype=np.bool_)
    seconds, gram = once(device, lambda: UnknownRecordsGram.of(placed, everyone))
    line("products", seconds, f"{2.0 * records * lines**2 / seconds / 1e12:.3g} TFLOP/s, with the way back")
    plain = factorisations(device, gram.matrix / (records / 4))
    whole, found = once(device, lambda: placed.exposures(domain=(0, 1)))
    line(
        "the whole call of exposures",
        whole,
        f"{whole / plain:.2f} × the eigenproblem, {found.evidence.value}",
    )
    right = exact(design, gram.matrix)
    print(f"  products of rows: {'exact' if right else 'DIFFER FROM COUNTS'}")
    return right


def factorisations(device: Device, products: Any) -> float:
    """The seconds of the eigenproblem; the others are printed."""
    matrix = device.put(products)
    shifted = with_diagonal_plus(matrix * 1.0, 1.0)
    xp = namespace(matrix)
    plain, _ = best(device, lambda: xp.linalg.cholesky(shifted), rounds=2)
    line("plain Cholesky factorisation", plain)
    # The library may overwrite the matrix, so it gets a copy, which is a part of its time.
    ours, inverse = best(device, lambda: positive_inverse(shifted * 1.0), rounds=2)
    line("inverse", ours, f"{ours / plain:.1f} × the factorisation")
    seconds, error = best(device, lambda: inverse_error(shifted, inverse), rounds=2)
    line("its proved error", seconds, f"{error:.1e}")
    eigen, _ = once(device, lambda: xp.linalg.eigh(matrix))
    line("plain eigenproblem", eigen)
    return eigen


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for a processor")
    chosen = parser.parse_args(arguments)
    if chosen.device.startswith("jax"):
        import_module("jax").config.update("jax_enable_x64", True)
    device = Device.named(chosen.device)
    per_second = measured_rate(device, 1_024 if chosen.small else 8_192)
    right = all_records(device, per_second, *((20_000, 128) if chosen.small else (2_000_000, 2_048)))
    right &= many_rows(device, *((4_000, 400) if chosen.small else (100_000, 20_000)))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
