"""How wide the bracket of the remaining uncertainty is, through the engine: the upper over the lower end.

Three kinds of designs: the two plans that ship; a census-like table of 2,000 people in some 270 cells of
eight tables of means, with noise as a share of the range; and random subset means over many people. "Others
told" is the lower end that holds whatever the others' values are.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import sightline as sl
from sightline.auditing import findings
from sightline.examples.shipped import example_plan
from sightline.labeled.bounds.priors import number_prior
from sightline.labeled.bounds.target import Seen
from sightline.labeled.description import Known
from sightline.labeled.exposures import Exposures

PRIORS = ("uniform", "cos2", "two-point")


def census(people: int = 2000) -> np.ndarray:
    """Memberships in the cells of eight tables, by one or two of six columns."""
    generator = np.random.default_rng(3)
    columns = [generator.zipf(1.6, people) % size for size in (16, 15, 2, 7, 5)]
    columns.append(generator.integers(17, 80, people))
    rows = []
    for table in ((0,), (1,), (2,), (3,), (4,), (0, 2), (5, 2), (4, 1)):
        keys = np.stack([columns[c] for c in table], axis=1)
        _, cells = np.unique(keys, axis=0, return_inverse=True)
        rows += [cells.ravel() == cell for cell in range(cells.max() + 1)]
    return np.array(rows)


def widths(lower: np.ndarray, upper: np.ndarray) -> str:
    known = np.isnan(lower)
    ratio = np.where(lower > 1e-9, upper / np.maximum(lower, 1e-300), np.inf)[~known]
    return " ".join(f"{q:9.3f}" for q in np.quantile(ratio, (0.05, 0.5, 0.95), method="inverted_cdf"))


def row(name: str, found: Exposures, told: Exposures | None, seconds: float) -> None:
    shown = widths(found.remaining_lower, found.remaining_upper)
    others = "" if told is None else f"   others told {widths(told.remaining_lower, found.remaining_upper)}"
    least = f"least lower end {np.nanmin(found.remaining_lower):.3f}, {1e3 * seconds:.0f} ms"
    print(f"{name:<42} {shown}{others}   {least}", flush=True)


def of_design(name: str, design: sl.MembershipDesign) -> None:
    for prior in PRIORS:
        start = time.perf_counter()
        found = design.exposures(domain=(0, 1), prior=prior)
        elapsed = time.perf_counter() - start
        told = design.exposures(domain=(0, 1), prior=prior, known=Known.ALL_OTHERS)
        row(f"{name}, {prior}", found, told, elapsed)


def of_example(name: str) -> None:
    """The engine's own exposures of a plan that ships, a record for each signature."""
    seen: list[Exposures] = []
    assess = findings.assess

    def kept(*arguments: object) -> Exposures:
        seen.append(assess(*arguments))  # type: ignore[arg-type]
        return seen[-1]

    findings.assess = kept  # type: ignore[assignment]
    try:
        start = time.perf_counter()
        sl.audit(example_plan(name))
        elapsed = time.perf_counter() - start
    finally:
        findings.assess = assess
    row(f"{name}, as it ships (whole audit)", seen[0], None, elapsed)


def of_laplace_copies() -> None:
    """One uniform value in equal Laplace answers with noise of 0.02 of the range in all."""
    prior = number_prior("uniform", 0.0, 1.0)
    for copies in (1, 2, 5, 20):
        information = np.array([0.02**-2])
        seen = Seen(
            information=information,
            linear_information=information / 2,
            laplace_answers=np.array([float(copies)]),
            laplace_information=information,
        )
        lower, upper = prior.lower(seen)[0], prior.upper(seen)[0]
        print(
            f"{copies} Laplace answers: {lower:.4f} to {upper:.4f}, upper over lower end {upper / lower:.2f}"
        )


def main(people: int = 200_000, lines: int = 300) -> None:
    print("upper over lower end at the 5th, 50th and 95th percentile")
    of_example("microgrid")
    of_example("health_survey")
    rows = census()
    for noise in (0.5, 0.1, 0.02):
        design = sl.MembershipDesign(rows, noise=np.full(len(rows), noise))
        of_design(f"census {rows.shape[1]:,} × {len(rows)}, noise {noise}", design)
    of_laplace_copies()
    subsets = np.random.default_rng(0).integers(0, 2, (lines, people)).astype(bool)
    for noise in (1e-3, 1e-5):
        design = sl.MembershipDesign(subsets, noise=np.full(lines, noise))
        of_design(f"subsets {people:,} × {lines}, noise {noise:g}", design)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
