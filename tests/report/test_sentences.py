"""The page of sentences shows what the code says, in every state; none has what no sentence should have."""

from __future__ import annotations

import re

import pytest

from sightline.auditing.assumption_facts import NOT_ACCEPTED
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import VerdictStatus
from tests.report.fact_states import NAMES, every_name
from tests.report.sentences import PAGE, SECTIONS, page


def test_the_page_is_what_the_code_says() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "python -m tests.report.sentences writes it again"


@pytest.mark.parametrize("title", SECTIONS)
def test_every_sentence_is_one(title: str) -> None:
    """Nothing is empty, doubled or left over from a template; brackets and quotation marks are in pairs."""
    for state, text in SECTIONS[title]():
        assert text, state
        assert not re.search(r"\{|\}|\(\)|None|  \w+  \w|\.\.|, ,|nan|inf ", text.replace("{ yes", "")), text
        assert text.count("(") == text.count(")"), text
        assert text.count('"') % 2 == 0, text
        assert not re.search(r"\b1 (rows|records|homes|numbers|groups|releases)\b", text), text
        assert not re.search(r"\b3 (row|record|home|number|group|release)\b", text), text
        assert not re.search(r"\b3 \w+ (is|has|tells|aggregates)\b", text), text


def test_each_status_and_each_assumption_is_there() -> None:
    said = [state for state, _ in SECTIONS["What was not verified"]()]
    carried = {AssumptionName.TURNOVER}  # of ledgers, in their own words
    for name in set(AssumptionName) - carried:
        assert any(state.startswith(f"{name.value},") for state in said), name
    verdicts = " ".join(text for _, text in SECTIONS["Whether to publish"]())
    for status in ("PASSED", "BELOW THE LIMIT", "NOT SHOWN TO HOLD", "ACCEPTED, NOT SHOWN", "VERDICT"):
        assert status in verdicts
    assert len(VerdictStatus) == 3
    accepting = [text for _, text in SECTIONS["What was not verified"]() if "accept = [" in text]
    assert not any(f'"{name.value}"' in text for text in accepting for name in NOT_ACCEPTED)


def test_a_cost_is_never_printed_lower_than_it_is() -> None:
    """An epsilon of 10.147 is 10.2, not 10.1."""
    about = dict(SECTIONS["What was audited"]())
    assert "epsilon = 10.2 " in about["plain"]


@pytest.mark.parametrize("title", NAMES)
def test_the_page_has_every_fact(title: str) -> None:
    facts, kinds = NAMES[title]
    assert every_name(facts) >= {member.value for kind in kinds for member in kind}
