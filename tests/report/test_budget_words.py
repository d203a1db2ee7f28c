"""The page heads a plan's budget with the epsilon of everything that is published."""

from __future__ import annotations

import pytest

from sightline.report.page import report_html
from sightline.report.wording import budget_words
from tests.report.report_cases import microgrid


@pytest.mark.slow
def test_the_page_heads_several_periods_with_their_total() -> None:
    result = microgrid()
    update = {"epsilon": 1.0, "periods": 12, "total_epsilon": 3.613, "total_accountant": "zcdp"}
    budget = result.budget.model_copy(update={**update, "sharing": result.budget.releases})
    page = report_html(result.model_copy(update={"budget": budget}))
    words = "epsilon = 3.613 in all under zcdp at delta = 1e-05 (12 periods with epsilon = 1 each)"
    assert budget_words(budget) == words
    assert f"<dt>Budget</dt><dd>{words}</dd>" in page
