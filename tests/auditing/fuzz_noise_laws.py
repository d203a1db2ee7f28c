"""Plans of all noise laws about a few yes or no, or categories: the exact risk must be within the bracket.

Every world and every answer are enumerated. Answers with noise that is no whole number are on a fine grid.

``python -m tools.fuzz --entry tests.auditing.fuzz_noise_laws --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.auditing.findings import find
from sightline.privacy.law import Law
from sightline.tables.membership import Feature, Statistic
from tests.auditing.hand_made import membership_of, partition, plan_of
from tests.numbered_cases import check_cases

DATA = {"source": "t.csv", "record": "id", "secret": "x"}
YES_OR_NO = {**DATA, "kind": "boolean"}
CATEGORIES = ("a", "b", "c")
LAWS = ("none", "gaussian", "laplace", "discrete-gaussian", "geometric")
assert {*LAWS} == {law for law in Law if not law.by_count_rule}, "a law that no case draws"
_STEPS = 8  # of the grid for answers that are no whole numbers, for each unit
ON_GRID = (1 / _STEPS) ** 2 / 12 / 1.5**2 * 1.1  # what it loses at a kink of scale 1.5, and a tenth more
_REACH = 60  # of the noise, on either side


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """Two counts over four records, each of a law and a category drawn at random."""
    rows = generator.integers(0, 2, (2, 4))
    rows[np.arange(2), generator.integers(4, size=2)] = 1
    laws = [str(law) for law in generator.choice(LAWS, size=2)]
    parameters = generator.uniform(1.5, 3.0, 2).tolist()
    several = bool(trial % 2)
    if several and not set(laws) & {"none", "discrete-gaussian", "geometric"}:
        laws[0] = "geometric"  # two fine grids over all worlds of categories take long
    counted = [str(one) for one in generator.choice(CATEGORIES, size=2)] if several else None
    check_plan(rows, laws, parameters, counted)
    for law in laws:
        count[law] += 1
    count["categories" if several else "yes or no"] += 1


def check_plan(
    rows: np.ndarray, laws: Sequence[str], parameters: Sequence[float], counted: Sequence[str] | None = None
) -> np.ndarray:
    """Compare the bracket of every record with the exact risk; the lower ends.

    ``counted`` has the category that each number counts, or is none for a yes or no.
    """
    sizes = [
        {} if law == "none" else {"noise_multiplier": p} for law, p in zip(laws, parameters, strict=True)
    ]
    plan = plan_of(
        *({"name": f"r{i}", "noise": {"law": law, **sizes[i]}} for i, law in enumerate(laws)),
        data=YES_OR_NO if counted is None else {**DATA, "categories": list(CATEGORIES)},
    )
    kinds: list[dict[str, Any]] = [
        {} if counted is None else {"feature": Feature.INDICATOR, "parameter": one} for one in counted or laws
    ]
    membership = membership_of(
        [partition(i, statistic=Statistic.SUM, **kind) for i, kind in enumerate(kinds)],
        [["in" if one else None for one in row] for row in rows],
    )
    found = find(plan, membership).linear
    assert found is not None
    exact = exact_shares(rows, laws, parameters, counted)
    grid = ON_GRID if {"gaussian", "laplace"} & set(laws) else 1e-7
    for column in range(found.lower.size):
        inside = membership.signatures[found.linear.signatures_of(column)[0]] >= 0
        record = next(j for j in range(rows.shape[1]) if np.array_equal(inside, rows[:, j] > 0))
        category = found.linear.category(column)
        value = 1 if category is None or counted is None else CATEGORIES.index(category)
        bracket, truth = found.bracket(column), exact[record, value]
        assert bracket.lower <= truth + grid
        assert truth <= bracket.upper + grid
    return found.lower


def exact_shares(
    rows: np.ndarray, laws: Sequence[str], parameters: Sequence[float], counted: Sequence[str] | None = None
) -> np.ndarray:
    """The Bayes risk of whether each record has each value, over its variance: ``(records, values)``."""
    values = 2 if counted is None else len(CATEGORIES)
    worlds = np.array(list(itertools.product(range(values), repeat=rows.shape[1])))
    evidence = np.full((len(worlds), 1), 1 / len(worlds))
    for line, (row, law, p) in enumerate(zip(rows, laws, parameters, strict=True)):
        value = 1 if counted is None else CATEGORIES.index(counted[line])
        whole = law not in ("gaussian", "laplace")
        points = (2 * _REACH + len(row)) * (1 if whole else _STEPS) + 1
        away = np.linspace(-_REACH, _REACH + len(row), points) - ((worlds == value) @ row)[:, None]
        match law:
            case "gaussian" | "discrete-gaussian":
                density = np.exp(-(away**2) / (2 * p**2))
            case "laplace" | "geometric":
                density = np.exp(-np.abs(away) / p)
            case _:
                density = (away == 0).astype(float)
        density /= density.sum(axis=1, keepdims=True)
        evidence = (evidence[:, :, None] * density[:, None, :]).reshape(len(worlds), -1)
        evidence = evidence[:, evidence.max(axis=0) > 1e-16]
    total = evidence.sum(axis=0)
    shares = np.zeros((rows.shape[1], values))
    for record, value in itertools.product(range(rows.shape[1]), range(values)):
        own = (worlds[:, record] == value).astype(float) @ evidence
        shares[record, value] = np.sum(own * (1 - own / total)) / ((values - 1) / values**2)
    return shares
