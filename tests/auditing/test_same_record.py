"""The headline and the list are about the same record, and what is said of it is in its own unit."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow
import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.format import percent_at_most
from sightline.report.first_screen import change_lines, exposed_lines
from sightline.report.wording import limit_line, view_line
from tests.numbered_cases import trials

TABLE = pyarrow.table(
    {
        "person": [f"p{i}" for i in range(25)],
        "area": [*("nsew"[i % 4] for i in range(24)), "x"],
        "income": [*np.random.default_rng(1).uniform(0, 500_000, 24), 300_000.0],
    }
)
RICH = "SELECT area, COUNT(*) FILTER (WHERE income > 250000) FROM data GROUP BY area"
MEAN = "SELECT area, AVG(income) FROM data GROUP BY area"


def audited(*releases: tuple[str, float], limit: float = 0.5) -> sl.AuditResult:
    plan: dict[str, Any] = {
        "data": {"source": TABLE, "record": "person", "secret": "income", "bounds": [0, 500_000]},
        "release": [
            {"name": f"r{i}", "sql": sql, "noise_stddev": noise} for i, (sql, noise) in enumerate(releases)
        ],
        "limits": {"remaining_uncertainty": limit, "accept": ["homogeneous", "few_values"]},
    }
    return sl.audit(plan)


@pytest.mark.parametrize("releases", [((RICH, 0.3),), ((RICH, 0.3), (MEAN, 9e5))])
def test_a_question_that_keeps_least_is_said_as_a_question(releases: tuple[tuple[str, float], ...]) -> None:
    """One person's own count: of the yes or no little is left, and of the income much."""
    result = audited(*releases)
    least = result.least_remaining_uncertainty
    assert least is not None
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.least_about == "income > 250,000"
    assert limit_line(result).endswith("of income, or of whether income > 250,000.")
    assert view_line(result).startswith(
        "Whether income > 250,000 holds for the most exposed person is guessed right"
    )
    first = result.exposed[0]
    assert first.remaining_uncertainty == least
    assert first.about == result.least_about
    view = result.sharpest
    assert view is not None
    assert view.right_after is not None
    known = f"whether income > 250,000: right at most {percent_at_most(view.right_after)}"
    assert exposed_lines(result)[0].split("  ")[1] == known
    # One yes or no with noise 0.3 is told right by the sign: Φ(1/0.6) = 95 %; the bound is above it.
    assert 0.952 < view.right_after < 0.98
    # In which half the income lies is all that can be seen of it: half of ± remains, at the least.
    assert 0.35 * view.before < view.after_lower
    assert view.before == pytest.approx(500_000 / 12**0.5)
    (change,) = result.reaching
    assert change.noise_factor is not None
    again = audited(*((sql, noise * change.noise_factor) for sql, noise in releases))
    assert again.verdict.below_limit == 0
    assert change_lines(result)


def test_the_record_of_the_headline_is_the_first_of_the_list() -> None:
    """Also where it is one of a large group, and cannot be singled out."""
    draw = Random(4)
    totals = ["SELECT SUM(income) FROM data", "SELECT SUM(income) FROM data WHERE area <> 'n'", MEAN]
    for _ in trials(12):
        chosen = [(sql, 10 ** draw.uniform(3, 6.5)) for sql in draw.sample(totals, draw.choice([1, 2]))]
        result = audited(*chosen, limit=draw.choice([0.05, 0.5, 0.9]))
        first = result.exposed[0]
        assert first.remaining_uncertainty == result.least_remaining_uncertainty
        assert result.sharpest is not None
        assert result.least_remaining_uncertainty is not None
        lower = result.least_remaining_uncertainty.stddev_lower
        assert result.sharpest.after_lower == pytest.approx(lower * result.sharpest.before)
        if result.verdict.below_limit:
            assert first.remaining_uncertainty is not None
            assert first.remaining_uncertainty.lower < (result.verdict.limit or 0.0)
            assert change_lines(result), "what to change is never nothing"
