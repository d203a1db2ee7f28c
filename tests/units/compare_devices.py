"""The same designs on the host and on a device: the same decisions, and numbers to 1e-10.

Needs no pytest: ``PYTHONPATH=src python3 tests/units/compare_devices.py cuda cupy:cuda jax:cuda``
compares 200 random designs on each device that is named, and ends with 1 if one differs. Designs that need
exact arithmetic are counted apart where python-flint is missing; the others are compared nevertheless.

The lower end magnifies the last digits of what it is a function of: by steps between the nodes of a table,
and for the cos² prior by cancellation. It is rounded down for both, so fewer of its digits are compared.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray
from sightline.bounds.membership_design import Exposures, MembershipDesign
from sightline.bounds.priors import number_prior
from sightline.errors import MissingExtra
from sightline.numerics.device import HOST, Device
from sightline.units.description import Known, Readout
from sightline.units.target import TargetPrior

SAME = 1e-10
LOWER = 1e-6
DECISIONS = ("identifiable", "undecided", "touched", "known", "group")
NUMBERS = ("remaining_upper", "information", "rmse")
PRIORS = ("uniform", "cos2", "two-point")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A design and what is asked of it."""

    kind: str
    design: MembershipDesign
    prior: TargetPrior
    known: Any


def cases(seed: int, count: int) -> Iterator[Case]:
    """Random designs of every kind, in turn."""
    kinds = (subsets, pairs_of_subsets, whole_weights, real_weights, members, sparse_rows, partitions, many)
    for number in range(count):
        generator = np.random.default_rng((seed, number))
        kind = kinds[number % len(kinds)]
        design = kind(generator)
        prior = number_prior(PRIORS[int(generator.integers(3))], 0.0, 1.0)
        known = known_to(generator, design.size)
        yield Case(kind=kind.__name__, design=design, prior=prior, known=known)


def subsets(generator: np.random.Generator) -> MembershipDesign:
    """Dense rows of 0s and 1s, more records than rows."""
    lines, records = int(generator.integers(2, 30)), int(generator.integers(40, 400))
    return noisy(generator, with_members(generator.integers(0, 2, (lines, records))), lines)


def pairs_of_subsets(generator: np.random.Generator) -> MembershipDesign:
    """Each row twice, once without one record: differences that identify."""
    lines, records = int(generator.integers(2, 12)), int(generator.integers(10, 120))
    rows = with_members(generator.integers(0, 2, (lines, records)))
    others = rows.copy()
    others[:, int(generator.integers(records))] = 0
    return noisy(generator, with_members(np.vstack([rows, others])), 2 * lines)


def whole_weights(generator: np.random.Generator) -> MembershipDesign:
    lines, records = int(generator.integers(2, 12)), int(generator.integers(5, 60))
    rows = with_members(generator.integers(-3, 4, (lines, records)))
    rows = np.vstack([rows, rows[:1] + rows[1:2], rows[-1:]])
    rows[~rows.any(axis=1)] = 1
    return noisy(generator, rows, lines + 2, readout="sum")


def real_weights(generator: np.random.Generator) -> MembershipDesign:
    lines, records = int(generator.integers(2, 8)), int(generator.integers(5, 40))
    return noisy(generator, generator.standard_normal((lines, records)), lines, readout="sum")


def members(generator: np.random.Generator) -> MembershipDesign:
    """Lists of members of few records, which many rows expose."""
    lines, records = int(generator.integers(3, 12)), int(generator.integers(4, 14))
    rows = with_members(generator.integers(0, 2, (lines, records)))
    return noisy(generator, [np.flatnonzero(row) for row in rows], lines, records=records)


def sparse_rows(generator: np.random.Generator) -> MembershipDesign:
    lines, records = int(generator.integers(20, 60)), int(generator.integers(60, 300))
    rows = with_members((generator.random((lines, records)) < 0.08).astype(np.int64))
    return noisy(generator, sparse.csr_array(rows), lines)


def partitions(generator: np.random.Generator) -> MembershipDesign:
    """Cells of crossed keys over signatures that stand for several records."""
    widths = generator.integers(2, 9, 3)
    signatures = np.unique(generator.integers(0, widths, (80, 3)), axis=0)
    for key, width in enumerate(widths):  # every cell has a member
        missing = np.setdiff1d(np.arange(width), signatures[:, key])
        more = signatures[: missing.size].copy()
        more[:, key] = missing
        signatures = np.unique(np.vstack([signatures, more]), axis=0)
    counts = generator.integers(1, 6, len(signatures))
    starts = np.cumsum(widths) - widths
    lines = (signatures + starts).repeat(counts, axis=0)
    columns = np.repeat(np.arange(len(lines)), 3)
    table = sparse.csr_array((np.ones(lines.size), (lines.ravel(), columns)))
    return noisy(generator, table, int(widths.sum()))


def many(generator: np.random.Generator) -> MembershipDesign:
    """Several blocks of records on the host."""
    lines, records = int(generator.integers(20, 60)), int(generator.integers(9_000, 12_000))
    return noisy(generator, with_members(generator.integers(0, 2, (lines, records))), lines)


def with_members(rows: np.ndarray) -> np.ndarray:
    """No row and no column pattern without a member: an empty row is refused."""
    rows[~rows.any(axis=1), 0] = 1
    return rows


def noisy(generator: np.random.Generator, rows: Any, lines: int, **more: Any) -> MembershipDesign:
    """Uneven noise of a random size; correlated every fifth time, where the rows may be."""
    stddevs = 10 ** generator.uniform(-2, 1) * generator.uniform(0.5, 2.0, lines)
    noise: np.ndarray = stddevs
    if generator.random() < 0.2:
        shared = generator.uniform(0.0, 0.9)
        noise = np.outer(stddevs, stddevs) * (shared + (1 - shared) * np.eye(lines))
    return MembershipDesign(rows, noise=noise, **more)


def known_to(generator: np.random.Generator, size: int) -> Any:
    """What the attacker knows: mostly nothing, sometimes a fifth of the records, or all others."""
    drawn = generator.random()
    if drawn < 0.3:
        return np.flatnonzero(generator.random(size) < 0.2)[: size - 2]
    return Known.ALL_OTHERS if drawn < 0.4 else ()


def compare(case: Case, device: Device) -> float:
    """The largest relative difference of two numbers; an error where decisions or evidence differ."""
    host = case.design.exposures(prior=case.prior, known=case.known)
    there = case.design.on(device).exposures(prior=case.prior, known=case.known)
    same_decisions(case.kind, host, there)
    limit = max(SAME, host.relative_error)
    lower = np.abs(host.remaining_lower - there.remaining_lower)[~host.known]
    if not np.all(lower <= LOWER * host.remaining_lower[~host.known] + SAME):
        raise AssertionError(f"{case.kind}: lower ends differ by {lower.max():.1e}")
    numbers = {name: (getattr(host, name), getattr(there, name)) for name in NUMBERS}
    return max(same_numbers(case.kind, name, *pair, limit=limit) for name, pair in numbers.items())


def same_decisions(kind: str, host: Exposures, there: Exposures) -> None:
    """Everything that is decided, with the evidence for it."""
    for name in DECISIONS:
        if not np.array_equal(getattr(host, name), getattr(there, name)):
            raise AssertionError(f"{kind}: {name} differs")
    if (host.evidence, host.rank) != (there.evidence, there.rank):
        raise AssertionError(f"{kind}: {host.evidence}, {host.rank} against {there.evidence}, {there.rank}")
    if not np.array_equal(host.groups.identifiable, there.groups.identifiable):
        raise AssertionError(f"{kind}: groups differ")


def same_numbers(kind: str, name: str, one: FloatArray, other: FloatArray, *, limit: float = SAME) -> float:
    """The largest relative difference, if it is within the limit."""
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        raise AssertionError(f"{kind}: {name} is finite for other records")
    scale = np.maximum(np.abs(one[finite]), np.finfo(np.float64).tiny)
    apart = float(np.max(np.abs(one[finite] - other[finite]) / scale, initial=0.0))
    if not apart <= limit:
        raise AssertionError(f"{kind}: {name} differs by {apart:.1e}")
    return apart


def rows_stay(device: Device) -> None:
    """A table that lies on an accelerator is assessed there, whole multiples of one number too."""
    rows = np.random.default_rng(0).integers(0, 2, (5, 400)).astype(np.float64)
    for table in (rows, rows / 3):
        design = MembershipDesign(device.put(table), noise=np.ones(5), readout=Readout.SUM)
        if design.incidence.device.library != device.library or not design.incidence.integral:
            raise AssertionError(f"rows on {device} are assessed on {design.incidence.device}")
        same_decisions("rows", design.on(HOST).exposures(domain=(0, 1)), design.exposures(domain=(0, 1)))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("devices", nargs="*", default=["cuda"])
    parser.add_argument("--count", type=int, default=200, help="designs; JAX compiles for each anew")
    chosen = parser.parse_args(arguments)
    if any(name.startswith("jax") for name in chosen.devices):
        import_module("jax").config.update("jax_enable_x64", True)
    failed = 0
    for name in chosen.devices:
        device = Device.named(name)
        if device.place != "cpu":
            rows_stay(device)
        seen: Counter[str] = Counter()
        worst = 0.0
        for case in cases(0, chosen.count):
            try:
                worst = max(worst, compare(case, device))
                seen["compared"] += 1
            except MissingExtra:
                seen["needs python-flint"] += 1
            except AssertionError as error:
                seen["DIFFERS"] += 1
                print(f"  {error}")
        failed += seen["DIFFERS"] + (seen["compared"] == 0)
        print(f"{device}: {dict(seen)}, largest relative difference {worst:.1e}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
