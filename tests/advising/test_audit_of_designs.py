"""What a design asks of the audit: its verdict alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.auditing.findings import find
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.jobs.assemble import judged, rules_of
from tests.advising.tables import (
    CATEGORY,
    COUNTS,
    HISTOGRAMS,
    MEANS,
    NUMBER,
    YES_OR_NO,
    plan_for,
    write_table,
)
from tests.auditing.hand_made import assembled


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
        membership = session.membership()
        findings = find(session.plan, membership)
        whole = assembled(findings, totals=session.totals).verdict
        rules = rules_of(session, findings)
        assert judged(findings, totals=session.totals, rules=rules) == whole
