"""Exact Bayes risks of random small designs by quadrature: the bracket must hold them.

Up to three records and two answers, under every prior that the engine accepts, with Gaussian and Laplace
noise through :meth:`MembershipDesign.exposures`, and with both kinds side by side through the bounds
themselves, where the others may also have another prior than the target.

``python -m tools.fuzz --entry tests.bounds.fuzz_brackets --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

import tests.units.fuzz_designs as designs
from sightline import MembershipDesign
from sightline.noise.laws import GaussianNoise, LaplaceNoise
from sightline.units.description import Readout
from tests.bounds.brute_force import PRIORS, Small, exact_share, law, seen_of
from tests.numbered_cases import check_cases

NOISES = ("gaussian", "laplace", "mixed")
NAMES = ("uniform", "cos2", "two-point")
# Nodes for every record and grid points for every answer, coarse and fine; with three records fewer.
SMOOTH = (((20, 130), (28, 180)), ((11, 110), (15, 150)))
KINKED = (((20, 200), (28, 290)), ((14, 200), (20, 290)))


@dataclass(frozen=True)
class Named:
    """A prior by its name, which is all that a quadrature needs of it."""

    name: str


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One design under one prior."""
    noise, name = NOISES[trial % 3], NAMES[trial // 3 % 3]
    small = random_design(generator, noise)
    if noise != "mixed" and name in designs.PRIORS and small.rows.shape[1] > 1:
        through_the_engine(small, name, count)
    through_the_bounds(small, name, NAMES[int(generator.integers(3))], count)


def random_design(generator: np.random.Generator, noise: str) -> Small:
    """One or two answers about up to three records, some of them alike."""
    records = int(generator.integers(1, 4))
    lines = 2 if noise == "mixed" else int(generator.integers(1, 3))
    if noise != "gaussian" and lines == 2:
        records = min(records, 2)  # kinks want a fine quadrature, which two answers about three cannot have
    rows = generator.choice([0.0, 1.0, 1.0, 2.0, -1.0, 0.5], size=(lines, records))
    if records > 1 and generator.random() < 0.4:
        rows[:, 1] = rows[:, 0]
    rows[np.all(rows == 0, axis=1), 0] = 1.0
    laplace = {"gaussian": [False] * lines, "laplace": [True] * lines, "mixed": [True, False]}[noise]
    scales = 10 ** generator.uniform(-0.9 if noise == "gaussian" else -0.6, 0.5, lines)
    return Small(rows=rows, scales=scales, laplace=np.array(laplace))


def through_the_engine(small: Small, name: str, count: Counter[str]) -> None:
    """All records have the prior of this name."""
    noise = LaplaceNoise(scales=small.scales) if small.laplace[0] else GaussianNoise(stddevs=small.scales)
    chosen: dict[str, Any] = {"prior": name} if designs.CHOOSES_PRIOR else {}
    design = MembershipDesign(small.rows, noise=noise, readout=Readout.SUM)
    found = design.exposures(domain=(-0.5, 0.5), **chosen)
    for j in range(small.rows.shape[1]):
        inside(small, j, (name, name), (found.remaining_lower[j], found.remaining_upper[j]), count)


def through_the_bounds(small: Small, name: str, others: str, count: Counter[str]) -> None:
    """The target has one prior, all others have another or the same."""
    by_name = {prior.name: prior for prior in PRIORS}
    target = by_name[name]
    seen = seen_of(small, target=target, others=by_name[others])
    lower, upper = target.lower(seen), target.upper(seen)
    for j in range(small.rows.shape[1]):
        inside(small, j, (name, others), (lower[j], upper[j]), count)


def inside(
    small: Small, j: int, names: tuple[str, str], bracket: tuple[float, float], count: Counter[str]
) -> None:
    """The exact risk of the best attack on record j over its prior variance is in the bracket."""
    smooth, records = not small.laplace.any(), small.rows.shape[1]
    risks = []
    finer = 1 if smooth or len(small.rows) > 1 else (8 if records < 3 else 2)
    for nodes, points in (SMOOTH if smooth else KINKED)[records == 3]:
        answers = finer * points
        laws = [
            law(Named(names[k != j]), nodes if k != j else nodes + 1)  # type: ignore[arg-type]
            for k in range(records)
        ]
        risks.append(exact_share(small, j, laws, answers))
    error = 3 * abs(risks[1] - risks[0]) + 1e-8 + kinks(small, answers)
    if error > (1e-4 if smooth else 3e-2):
        count["quadrature too coarse"] += 1
        return
    lower, upper = bracket
    where = (names, small.rows.tolist(), small.scales.tolist(), small.laplace.tolist(), j)
    assert lower <= risks[1] + error, ("the lower end is above the risk", lower, risks[1], error, where)
    assert risks[1] <= upper + error, ("the upper end is below the risk", upper, risks[1], error, where)
    count[f"risks under {names[0]}, {'gaussian' if smooth else 'with laplace'}"] += 1


def kinks(small: Small, answers: int) -> float:
    """What the trapezoidal rule of ``exact_share`` loses at the kinks of Laplace densities: h²/12 at each."""
    steps = (np.abs(small.rows).sum(axis=1) / 2 / small.scales + 28) / answers
    return float(np.sum(np.where(small.laplace, steps**2 / 6, 0.0)))
