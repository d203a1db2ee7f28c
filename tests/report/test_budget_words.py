"""The page heads a plan's budget with the epsilon of everything that is published."""

from __future__ import annotations

import pytest

from sightline.report.page import report_html
from sightline.report.wording import budget_words
from tests.report.report_cases import microgrid


@pytest.mark.slow
def test_the_page_heads_a_part_with_the_total_of_everything() -> None:
    result = microgrid()
    update = {"epsilon": 1.0, "total_epsilon": 3.613, "total_accountant": "zcdp"}
    budget = result.budget.model_copy(update={**update, "sharing": result.budget.releases - 1})
    page = report_html(result.model_copy(update={"budget": budget}))
    parts = "a budget of epsilon = 1, and 1 release outside it"
    words = f"epsilon = 3.613 in all under zcdp at delta = 1e-05 ({parts}), for every conceivable person"
    assert budget_words(budget) == words
    assert f"<dt>Budget</dt><dd>{words}</dd>" in page
