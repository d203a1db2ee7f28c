"""The common factor: the least one by the estimates of the audit's lower ends, for few factorisations.

The audit has more bounds for a yes or no: it shows no less than the estimates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.advising import levels
from sightline.advising.choice import common_guess, targets_of
from sightline.advising.loss import Loss
from sightline.advising.proposal import certified_common
from sightline.advising.task import DesignTask, Grain, task_of
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from tests.advising.tables import COUNTS, MEANS, NUMBER, YES_OR_NO, plan_for, write_table

CASES: dict[str, tuple[Any, dict[str, Any], float, float]] = {
    "half": (MEANS, NUMBER, 1.0, 0.5),
    "little": (MEANS, NUMBER, 1.0, 0.05),
    "nearly all": (MEANS, NUMBER, 1.0, 0.95),
    "sharp": (MEANS, NUMBER, 1e-3, 0.5),
    "published": (({**MEANS[0], "published": True}, *MEANS[1:]), NUMBER, 4.0, 0.5),
    "yes or no": (COUNTS, YES_OR_NO, 0.1, 0.5),
    "enough": (MEANS, NUMBER, 1e3, 0.5),
}
_FEW = 14  # that find the factor to nine digits
_LESS = 1 - 1e-6  # of the variance that the least factor adds, with which the estimates do not keep the limit


def task_for(folder: Path, name: str, *, seed: int = 0) -> DesignTask:
    releases, data, noise, limit = CASES[name]
    table = write_table(folder, people=60, seed=seed)
    plan, base = read_plan(plan_for(table, releases, noise=noise, data=data))
    with opened(plan, base) as session:
        membership = session.membership()
    return task_of(plan, membership, limit=limit, grain=Grain.CELL, loss=Loss.VARIANCE)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_few_factorisations_find_the_least_common_factor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    task = task_for(tmp_path, name, seed=seed)
    enough, made = common_guess(task, targets_of(task)), []
    real = levels.inverse_of_sum

    def counted(products: Any, variances: Any) -> Any:
        made.append(len(products))
        return real(products, variances)

    monkeypatch.setattr(levels, "inverse_of_sum", counted)
    found = certified_common(task, enough)
    assert len(made) <= _FEW
    assert task.lowest(found.stddevs) >= task.limit
    if enough > 1:
        less = task.times_common(1 + (np.max((found.stddevs / task.common_base)[task.free]) ** 2 - 1) * _LESS)
        assert task.estimate(less) < task.limit
        assert task.lowest(less) >= task.estimate(less) * (1 - 1e-6)
        if name != "yes or no":
            assert task.lowest(less) < task.limit


def test_noise_that_is_enough_needs_no_factorisation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_for(tmp_path, "enough")
    monkeypatch.setattr(levels, "inverse_of_sum", None)
    found = certified_common(task, 1.0)
    np.testing.assert_array_equal(found.stddevs, task.before)
