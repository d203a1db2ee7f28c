"""The same designs on the host and on a device: the same decisions, and numbers to 1e-10.

Needs no pytest: ``PYTHONPATH=src python3 tests/labeled/compare_devices.py cuda cupy:cuda jax:cuda``
compares 200 random designs on each device that is named, and ends with 1 if one differs. Designs that need
exact arithmetic are counted apart where python-flint is missing; the others are compared nevertheless.

The lower end is a function of a few numbers for each record. The host evaluates it, and it magnifies their
last digits: by steps between the nodes of a table, and for the cos² prior by cancellation. It is rounded down
for both. So what the function is given is compared, as shares of the uncertainty, and not its value.
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
from sightline.errors import MissingExtra
from sightline.labeled.bounds.domain import number_prior
from sightline.labeled.bounds.target import Seen, TargetPrior
from sightline.labeled.description import Readout
from sightline.labeled.design import MembershipDesign
from sightline.labeled.exposures import Exposures, exposures
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.knowledge import Known
from sightline.numerics.device import HOST, Device

SAME = 1e-10
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
    incidence = CellIncidence.of(signatures, widths.astype(np.intp), counts.astype(np.intp))
    return noisy(generator, incidence, int(widths.sum()))


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


@dataclass(kw_only=True)
class RecordedPrior:
    """A prior that keeps what it is asked about."""

    own: TargetPrior
    seen: Seen | None = None
    asked: FloatArray | None = None  # the information of the largest precision that was asked for

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def width(self) -> float:
        return self.own.width

    @property
    def variance(self) -> float:
        return self.own.variance

    def precision(self, information: FloatArray) -> FloatArray:
        self.asked = information
        return self.own.precision(information)

    def precision_slope(self, information: FloatArray) -> FloatArray:
        return self.own.precision_slope(information)

    def precision_excess(self, information: FloatArray) -> FloatArray:
        return self.own.precision_excess(information)

    def lower(self, seen: Seen) -> FloatArray:
        self.seen = seen
        return self.own.lower(seen)

    def upper(self, seen: Seen) -> FloatArray:
        return self.own.upper(seen)


def compare(case: Case, device: Device) -> float:
    """The largest relative difference of two numbers; an error where decisions or evidence differ."""
    asked = [RecordedPrior(own=case.prior) for _ in range(2)]
    host = exposures(case.design, prior=asked[0], known=case.known)
    there = exposures(case.design.on(device), prior=asked[1], known=case.known)
    same_decisions(case.kind, host, there)
    limit = max(SAME, host.relative_error)
    numbers = {name: (getattr(host, name), getattr(there, name)) for name in NUMBERS}
    one, other = (shares(prior, host_precision(asked[0])) for prior in asked)
    numbers |= {name: (one[name], other[name]) for name in one}
    return max(same_numbers(case.kind, name, *pair, limit=limit) for name, pair in numbers.items())


def host_precision(prior: RecordedPrior) -> FloatArray | float | None:
    """What the prior adds to the information, as the host evaluates it."""
    return None if prior.seen is None else prior.seen.precision


def shares(prior: RecordedPrior, precision: FloatArray | float | None) -> dict[str, FloatArray]:
    """What the ends are functions of; hidden information as the share of uncertainty that it leaves."""
    seen = prior.seen
    assert seen is not None
    found = {"seen": seen.information, "linear share": 1 / (1 + prior.variance * seen.linear_information)}
    if seen.hidden_information is not None and precision is not None:
        with np.errstate(invalid="ignore"):
            found["hidden share"] = 1 / (1 + seen.hidden_information / precision)
    if prior.asked is not None:
        found["asked"] = prior.asked
    return found


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
