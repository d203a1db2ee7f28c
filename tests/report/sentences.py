"""The page docs/sentences.md: what a result says, in every state that each sentence can have.

``python -m tests.report.sentences`` writes it again; a person reads it aloud before it lands. The states are
made from one result by changing what it found, so that none of them needs a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import sightline as sl
from sightline.advising.noise_slack import LEAST_FACTOR
from sightline.advising.remedies import Do, WhyUntried
from sightline.auditing.assumptions import AssumptionCase, Case, cases_of
from sightline.auditing.findings import find
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import (
    AllSecrets,
    AuditResult,
    BeliefReport,
    CertainReport,
    Change,
    ChangeKind,
    Exposed,
    HomogeneousCell,
    Unverified,
    Verdict,
    VerdictStatus,
)
from sightline.auditing.result_parts import (
    CertainGroup,
    Explained,
    LeftBySums,
    LikelyGroup,
    LinearAttack,
    NoiseSlack,
    RulesReport,
    SeenTogether,
    SharpestView,
    Step,
    TotalView,
    TrueTotals,
    Uncertainty,
    fact,
)
from sightline.report.advice import changes_in_words, holds, needs
from sightline.report.first_screen import (
    about_line,
    accepted_lines,
    certain_list,
    change_lines,
    combination,
    exposed_title,
    more_line,
    open_lines,
    public_line,
    slack_line,
    tried_line,
)
from sightline.report.reasons import with_reason
from sightline.report.wording import (
    belief_line,
    known_to,
    limit_line,
    secret_line,
    status_word,
    still_unknown,
    verdict_words,
    view_line,
)
from sightline.tables.explained import ExplainedVariance as Columns
from tests.auditing.hand_made import membership_of, partition, plan_of
from tests.report import fact_states
from tests.report.report_cases import microgrid

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sentences.md"
HEAD = """# What a result says

<!-- Written by python -m tests.report.sentences: a test compares it with the code. -->

Every sentence of a first screen, and after these every other one of an audit, in every state that it can
have. Figures are made up.
Whoever changes a sentence reads this page aloud.
"""
States = Iterator[tuple[str, str]]
ONE_ONLY = (Case.NOTHING_GUARANTEED, Case.NO_FRAME)  # a table is one
PASSED, FAILED, OPEN = VerdictStatus.PASSED, VerdictStatus.FAILED, VerdictStatus.NOT_SHOWN


@cache
def base() -> AuditResult:
    """A result of 90 homes about which nothing else is said."""
    result = sl.AuditResult.from_json(microgrid().to_json())
    return result.model_copy(
        update={
            "source": "meters.csv",
            "record": "home",
            "secret": "kwh",
            "bounds": (0.0, 40.0),
            "records": 90,
            "cells": 74,
            "identifiable_records": 3,
            "exposed": (),
            "exposed_in_all": 0,
            "unverified": (),
            "beliefs": (),
            "homogeneous": (),
            "looks_odd": (),
            "slack": None,
            "tried": (),
            "prior": "values spread evenly from 0 to 40",
            "taken_as_public": (),
            "explained": None,
            "dropped": 0,
            "least_remaining_uncertainty": Uncertainty(lower=0.4, upper=0.5),
        }
    )


def verdict(status: VerdictStatus | None = PASSED, **update: Any) -> Verdict:
    found = {
        "passed": None if status is None else status is PASSED,
        "status": status,
        "limit": None if status is None else 0.5,
        "below_limit": 7 if status is FAILED else 0,
        "judged": 90,
        "text": "",
    }
    return Verdict(**{**found, **update})


def result(**update: Any) -> AuditResult:
    return base().model_copy(update={"verdict": verdict(), **update})


def lacking(name: AssumptionName = AssumptionName.EMPTY, *, accepted: bool = False) -> Unverified:
    reason = "1 release aggregates no row; check its condition"
    return Unverified(name=name, count=1, reason=reason, accepted=accepted, owner_only=False)


BELIEFS = (
    BeliefReport(name="apart", holds=True, below_limit=0, least_remaining_uncertainty=None),
    BeliefReport(
        name="level",
        holds=False,
        below_limit=2,
        least_remaining_uncertainty=Uncertainty(lower=0.1, upper=0.2),
        total=TotalView(rows=24, before=27.7, after_lower=3.1, after_upper=5.0),
        level=(0.0, 4.0),
    ),
    BeliefReport(
        name="block",
        holds=False,
        below_limit=2,
        least_remaining_uncertainty=Uncertainty(lower=0.1, upper=0.2),
        block="month",
    ),
)
WIDE = BELIEFS[2].model_copy(update={"least_remaining_uncertainty": Uncertainty(lower=0.0, upper=1.0)})


def verdicts() -> States:
    certain = CertainReport(people=2)
    rules = RulesReport(broken=(), in_all=3, checked="k = 5: every number and every difference of two")
    told = verdict(FAILED, below_limit=0)
    cases: dict[str, dict[str, Any]] = {
        "no limit": {"verdict": verdict(None)},
        "guaranteed by the noise": {"verdict": verdict(guaranteed=True)},
        "guaranteed, one record": {"verdict": verdict(guaranteed=True, judged=1), "records": 1},
        "on average": {},
        "on average, whatever rows have in common": {"beliefs": BELIEFS},
        "nothing is made of the secret": {"cells": 0},
        "all are known": {"verdict": verdict(judged=0), "known_rows": 90},
        "some are known": {"verdict": verdict(judged=80)},
        "a limit in the secret's unit": {"verdict": verdict(known_to=2.5)},
        "it fails": {"verdict": verdict(FAILED, known_to=2.5)},
        "it is not shown": {"verdict": verdict(OPEN, known_to=2.5), "unverified": (lacking(),)},
        "a limit on guesses": {"verdict": verdict(guessed_right=0.6), "kind": "boolean", "secret": "ill"},
        "a group's values are accepted": {"verdict": verdict(accepts_groups=True)},
        "and somebody decided it": {"verdict": verdict(accepts_groups=True, set_by="the data officer")},
        "fails": {"verdict": verdict(FAILED)},
        "fails for one": {"verdict": verdict(FAILED, below_limit=1)},
        "fails a limit on guesses": {"verdict": verdict(FAILED, guessed_right=0.6), "secret": "ill"},
        "fails: values are certain": {
            "verdict": told,
            "certain": certain,
            "unverified": (lacking(AssumptionName.CERTAIN),),
        },
        "fails: values are ruled out": {
            "verdict": told,
            "certain": certain.model_copy(update={"ruled_out": 4}),
            "unverified": (lacking(AssumptionName.CERTAIN),),
        },
        "fails: certain in some draws": {
            "verdict": told,
            "certain": CertainReport(draws=(3, 100), by_draw=2),
            "unverified": (lacking(AssumptionName.CERTAIN),),
        },
        "fails: presence": {"verdict": told, "unverified": (lacking(AssumptionName.PRESENCE),)},
        "fails: a rule alone": {"verdict": told, "rules": rules},
        "not shown": {"verdict": verdict(OPEN), "unverified": (lacking(),)},
        "not shown, for two reasons": {"verdict": verdict(OPEN), "unverified": (lacking(), lacking())},
        "not shown, to readers": {"verdict": verdict(OPEN)},
        "not shown for a limit on guesses": {
            "verdict": verdict(OPEN, guessed_right=0.6),
            "unverified": (lacking(),),
        },
        "the worst of two secrets": {"other_secrets": (result(secret="bonus"),)},
    }
    for state, update in cases.items():
        one = result(**update)
        yield state, f"{status_word(one)}  {limit_line(one)}"
        if one.other_secrets:
            yield "its heading on the page", verdict_words(one)
            yield "the other secret", secret_line(one.other_secrets[0])


def beliefs() -> States:
    yield "one of three holds", belief_line(result(beliefs=BELIEFS))
    yield "one alone fails", belief_line(result(beliefs=(BELIEFS[1],)))
    yield "nothing is shown of it", belief_line(result(beliefs=(WIDE, BELIEFS[0])))


def about() -> States:
    budget = base().budget
    spent = {"plain": 10.147, "guarantees nothing": 180_000.0, "exact numbers": float("inf")}
    for state, epsilon in spent.items():
        own = {"budget": budget.model_copy(update={"spent": {"zcdp": epsilon}})}
        kept = 0.0 if math.isinf(epsilon) else base().guaranteed_by_noise
        yield state, about_line(result(guaranteed_by_noise=kept, **own))
    table = budget.model_copy(update={"spent": {"zcdp": 10.147}, "everyone": False})
    yield "a budget of the table's people", about_line(result(budget=table))
    yield "counts that chance rounds", about_line(result(guaranteed_by_noise=0.6, **own))
    yield (
        "some are known, no noise",
        about_line(result(budget=budget.model_copy(update={"spent": {}}), known_rows=12)),
    )
    yield "some rows have no secret", about_line(result(dropped=2))
    yield "presence is the secret", about_line(result(presence=True))
    yield "presence, with a frame", about_line(result(presence=True, frame="homes.csv"))
    yield "several secrets", about_line(result(all_secrets=AllSecrets(epsilon=2.0, delta=2e-6, text="")))


def view(**update: Any) -> SharpestView:
    found = {"of": "value", "before": 11.5, "after_lower": 3.0, "after_upper": 4.0, "text": ""}
    return SharpestView(**{**found, **update})


def views() -> States:
    total = TotalView(rows=24, before=27.7, after_lower=3.1, after_upper=5.0)
    named = total.model_copy(update={"span": ("hour", "h00", "h23")})
    first = exposed(total=named)
    true = TrueTotals(least=3.44, most=23.5, spread=5.3, record="H007", total=10.84)
    yes = {"right_before": 0.83, "right_after": 0.92}
    people = {"people_right_before": 74.7, "people_beyond_chance": 3.21, "sure_after": 0.12}
    cases: dict[str, dict[str, Any]] = {
        "a number": {"sharpest": view()},
        "no bound": {"sharpest": view(after_lower=0.0, after_upper=11.5)},
        "rows with nothing in common": {"sharpest": view(of="rows")},
        "a total": {"sharpest": view(total=total), "beliefs": BELIEFS},
        "a total, to the owner": {
            "sharpest": view(total=total),
            "exposed": (first,),
            "true_totals": true,
        },
        "a total, without names": {
            "sharpest": view(total=total),
            "true_totals": true.model_copy(update={"record": None, "total": None}),
        },
        "a yes or no": {"sharpest": view(**yes), "kind": "boolean", "secret": "ill"},
        "a yes or no of many": {"sharpest": view(**yes, **people), "kind": "boolean", "secret": "ill"},
        "an attack is right": {
            "sharpest": view(right_before=0.5, right_after=1.0),
            "kind": "boolean",
            "secret": "ill",
            "least_remaining_uncertainty": Uncertainty(lower=0.0, upper=0.02),
        },
        "a yes or no without a bound": {
            "sharpest": view(right_before=0.5, right_after=1.0),
            "kind": "boolean",
            "secret": "ill",
            "least_remaining_uncertainty": Uncertainty(lower=0.0, upper=1.0),
        },
        "a question": {"sharpest": view(**yes), "least_about": "kwh > 12"},
        "a category": {
            "sharpest": view(right_before=0.2, right_after=0.47),
            "kind": "category",
            "secret": "diagnosis",
        },
    }
    for state, update in cases.items():
        yield state, view_line(result(**update))


def exposed(**update: Any) -> Exposed:
    found = {
        "signature": 1,
        "size": 1,
        "record": "H007",
        "identifiable": False,
        "rmse": None,
        "rmse_percent_of_range": None,
        "remaining_uncertainty": Uncertainty(lower=0.07, upper=0.12),
    }
    return Exposed(**{**found, **update})


def step(release: str, cell: str = "", weight: float = 1.0) -> Step:
    return Step(release=release, cell=cell, weight=weight, times=1)


def attack(**update: Any) -> LinearAttack:
    steps = (step("feeder days", "north, 7"), step("tariff weeks", "night, 1"))
    found = {
        "steps": steps,
        "share": 0.992,
        "few": steps,
        "few_numbers": 2,
        "few_share": 0.934,
        "numbers": 30,
        "together": None,
        "text": "",
    }
    return LinearAttack(**{**found, **update})


LITTLE = Uncertainty(lower=0.0, upper=0.02)


def hows() -> States:
    sums = LeftBySums(
        added='"feeder days"', subtracted='"tariff weeks"', numbers=(1092, 104), people=2, stddev=1383.0
    )
    one = result(sharpest=view())
    cases = {
        "two numbers": exposed(attack=attack()),
        "one number": exposed(attack=attack(few=attack().steps[:1], few_numbers=1)),
        "more numbers": exposed(attack=attack(few_numbers=9)),
        "many numbers": exposed(attack=attack(few=(), few_numbers=0)),
        "with somebody": exposed(
            attack=attack(together=SeenTogether(others=1, records=("H018",), stddev=2.2))
        ),
        "with others": exposed(attack=attack(together=SeenTogether(others=9, stddev=2.2))),
        "the difference of two sums": exposed(left_by_sums=sums),
        "the same, alone": exposed(left_by_sums=sums.model_copy(update={"people": 1, "subtracted": ""})),
        "the same, of means": exposed(left_by_sums=sums.model_copy(update={"means": True})),
        "moments and thresholds": exposed(local=True),
        "nothing was found": exposed(),
    }
    yield "heading", exposed_title(result(exposed_in_all=8))
    guess = exposed(right_before=0.2, right_after=0.467)
    categories = result(kind="category", exposed=(guess,), exposed_in_all=8)
    yield "heading, of guesses", exposed_title(categories)
    for state, entry in cases.items():
        yield state, f"{known_to(entry, one)}  {combination(entry, one)}"
    total = TotalView(rows=24, before=27.7, after_lower=3.1, after_upper=5.0)
    yield "a total", known_to(exposed(total=total), one)
    yield "a category", known_to(guess, categories)
    yield "a category, in full", f"Signature 1{still_unknown(guess, categories)}"
    yield "a category of an older result", known_to(exposed(), result(kind="category"))
    certain = exposed(right_before=0.5, right_after=1.0, remaining_uncertainty=LITTLE)
    yield "a yes or no that an attack knows", known_to(certain, result(kind="boolean"))
    open_guess = exposed(
        right_before=0.5, right_after=1.0, remaining_uncertainty=Uncertainty(lower=0.0, upper=1.0)
    )
    yield "a yes or no without a bound", known_to(open_guess, result(kind="boolean"))
    yield "a question", known_to(exposed(about="kwh > 12", right_before=0.5, right_after=0.86), one)
    yield "no bound", known_to(exposed(remaining_uncertainty=Uncertainty(lower=0.0, upper=1.0)), one)


def certain() -> States:
    group = CertainGroup(people=2, label="area isle", value="no", recipe='"counts: isle"')
    some = CertainReport(people=2, groups=(group,))
    for state, found in {
        "certain": some,
        "certain, in many groups": CertainReport(people=9, groups=(group,) * 5),
        "likely": CertainReport(
            likely=LikelyGroup(people=3, label="area isle", value="yes", chance=0.91, left=0.33, steps=1000)
        ),
    }.items():
        shown = certain_list(result(certain=found), ": --full")
        yield state, f"{shown.title}: {shown.lines[0]}"


def changes() -> States:
    failed = verdict(FAILED)
    for one in (change for change in microgrid().what_to_change if change.reaches_limit):
        yield f"a change ({one.kind.value})", change_lines(result(verdict=failed, what_to_change=(one,)))[0]
    for line in change_lines(result(verdict=failed, what_to_change=())):
        yield "nothing is enough", line
    tried = changes_in_words(
        (
            *(Change(kind=ChangeKind.MERGE, what=one) for one in fact_states.REGROUPED),
            Change(kind=ChangeKind.DROP, what=fact(Do.LEAVE_OUT_ANY)),
        )
    )
    untried = changes_in_words(
        Change(kind=ChangeKind.COARSER, what=fact(what), why_untried=fact(why))
        for what, why in ((Do.GROUP_ANY, WhyUntried.RULES), (Do.LEAVE_OUT_ANY, WhyUntried.CATEGORIES))
    )
    for state, listed in {
        "what was tried": tried[-2:],
        "much was tried": tried,
        "what was not tried": untried,
        "both": (tried[-1], untried[0]),
    }.items():
        yield state, tried_line(result(verdict=failed, tried=listed))
    none = NoiseSlack(holds=False, noise_factor=None, epsilon=None, text="No amount of noise is enough.")
    for line in change_lines(result(verdict=failed, what_to_change=(), slack=none)):
        yield "nothing is enough, and why", line


def slacks() -> States:
    for state, factor, epsilon in (
        ("slack", 0.041, None),
        ("slack of a budget", 0.041, 49.0),
        ("noise does not matter", LEAST_FACTOR, None),
        ("none", 1.0, None),
    ):
        slack = NoiseSlack(holds=True, noise_factor=factor, epsilon=epsilon, text=holds(factor, epsilon))
        yield state, slack_line(result(slack=slack))
    yield "shortfall", needs(1.25, None)
    yield "shortfall of a budget", needs(1.25, 3.2)


def public() -> States:
    known = Explained(columns=("hour", "feeder"), share=0.45)
    yield "not declared", public_line(result(taken_as_public=("feeder", "hour", "tariff")))
    yield "declared", public_line(result(declared_public=("feeder", "hour")))
    yield "explained", public_line(result(explained=known))
    one = Explained(columns=("hour",), share=0.45)
    yield "both", public_line(result(taken_as_public=("a", "b", "c", "d", "e"), explained=one))
    yield "more", more_line(result())
    yield "more, without names", more_line(result(exposed=(exposed(record=None),)))


def assumptions() -> States:
    """Every assumption, for one thing and for three: what is open, and what the plan accepts."""
    plan = plan_of({"name": "a", "noise_stddev": 1.0})
    membership = replace(
        membership_of([partition(0, "a")], [["", None, None]]),
        derived=("copy_of_x: equal in all rows",),
        explained=Columns(columns=("area", "sex"), share=0.62),
    )
    alike = HomogeneousCell(release="a", cell="isle", rows=30, remaining=0.01, text="")
    for case in cases_of(find(plan, membership), (alike,), CertainReport(draws=(3, 100))):
        for number in (1,) if case.case in ONE_ONLY else (1, 3):
            yield f"{case.name.value}, {number}", _open(replace(case, count=number))
        if case.case in FEW_VALUES:
            for other, figures in FEW_VALUES.items():
                yield f"few_values, {other.value}", _open(replace(case, count=3, case=other, figures=figures))
    (line,) = accepted_lines(result(unverified=(lacking(accepted=True),)))
    yield "accepted", line


FEW_VALUES: dict[Case, dict[str, Any]] = {
    Case.VALUES_WITHIN: {"within": 2.5},
    Case.VALUES_TAKEN: {"secret": "kwh", "of_level": False},
    Case.MULTIPLES: {"step": 0.5, "secret": "kwh", "of_level": True},
    Case.CLUSTERS: {"secret": "kwh", "of_level": False},
}


def _open(case: AssumptionCase) -> str:
    open_one = with_reason(case.unverified(accepted=False))
    kind = "category" if case.case is Case.UNUSED else base().kind
    (line,) = open_lines(result(verdict=verdict(OPEN), unverified=(open_one,), kind=kind))
    return line


SECTIONS = {
    "Whether to publish": verdicts,
    "Which belief fails": beliefs,
    "What was audited": about,
    "What is known of the most exposed": views,
    "To what, and how": hows,
    "Who is certain": certain,
    "What to change": changes,
    "How much less noise would do, or more": slacks,
    "What is taken as public, and where more is": public,
    "What was not verified": assumptions,
    **fact_states.SECTIONS,
}


def page() -> str:
    """The page."""
    parts = [HEAD]
    for title, states in SECTIONS.items():
        lines = [f"| {state} | {_cell(text)} |" for state, text in states()]
        parts.append("\n".join([f"## {title}\n", "| state | what is said |", "|---|---|", *lines, ""]))
    return "\n".join(parts)


def _cell(text: str) -> str:
    """A text in which nothing is markup."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
