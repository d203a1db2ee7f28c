"""What a design asks of the audit: its verdict alone, and its lower ends without attacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.auditing.assemble import assemble, judged
from sightline.auditing.findings import find
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.labeled import record_numbers
from sightline.progress import silent
from tests.designing.tables import (
    CATEGORY,
    COUNTS,
    HISTOGRAMS,
    MEANS,
    NUMBER,
    YES_OR_NO,
    plan_for,
    write_table,
)
from tests.designing.test_common_factor import task_for


@pytest.mark.slow
@pytest.mark.parametrize(
    ("releases", "data"), [(MEANS, NUMBER), (COUNTS, YES_OR_NO), (HISTOGRAMS, CATEGORY)], ids=["n", "y", "c"]
)
@pytest.mark.parametrize(("noise", "limits"), [(0.3, {}), (300.0, {"accept": ["homogeneous"]})])
def test_the_verdict_alone_is_that_of_the_whole_audit(
    tmp_path: Path, releases: Any, data: Any, noise: float, limits: dict[str, Any]
) -> None:
    sections = {"limits": {"remaining_uncertainty": 0.5, **limits}}
    plan, base = read_plan(plan_for(write_table(tmp_path), releases, noise=noise, data=data, **sections))
    with opened(plan, base) as session:
        membership = session.membership(silent)
        findings = find(session.plan, membership)
        whole = assemble(findings, totals=session.totals).verdict
        assert judged(findings, totals=session.totals) == whole


@pytest.mark.slow
def test_what_is_not_refined_in_a_large_plan_is_rounded_outwards_by_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In plans of more than 1,000 rows sharp records are not computed again where no attack is asked for."""
    task, refined = task_for(tmp_path, "sharp"), []
    real = record_numbers.refine_sharp

    def counted(problem: Any, reading: Any) -> Any:
        found = real(problem, reading)
        refined.append(found[0].size)
        return found

    monkeypatch.setattr(record_numbers, "refine_sharp", counted)
    for stddevs in (task.before, task.times_common(1e3), task.times_common(1e7)):
        small = task.audited(stddevs).lower
        assert len(refined) == 1, "a small plan is refined"
        monkeypatch.setattr(record_numbers, "_MANY_ROWS", 0)
        large = task.audited(stddevs).lower
        assert len(refined) == 1, "a large plan is not"
        monkeypatch.undo()
        monkeypatch.setattr(record_numbers, "refine_sharp", counted)
        refined.clear()
        told = ~np.isnan(small)
        assert np.array_equal(told, ~np.isnan(large))
        assert np.all(large[told] <= small[told] * (1 + 1e-12))
        assert large[told] == pytest.approx(small[told], abs=1e-4)
