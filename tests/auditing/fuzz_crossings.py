"""Plans that cross all features, against the truth from the raw SQL on tables that differ in one secret.

Compared are: who is identifiable (rank over the rationals), both ends (exact Bayes risk by enumeration and
quadrature, best linear attack), epsilon (largest change over neighbouring tables), what the noise guarantees
(attackers who know all others) and the verdict. No number is read off the library but the noise of a budget.

``python -m tools.fuzz --entry tests.auditing.fuzz_crossings --seed 1 --seconds 3600 --most 2500`` runs 20,000
cases of it alone, in about half an hour of one core.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, lru_cache, partial
from random import Random

import numpy as np

import sightline as sl
from sightline.auditing.findings import FetchKeys, Keys, find
from sightline.auditing.reading import read_plan
from sightline.auditing.result import Exposed, VerdictStatus
from sightline.auditing.session import opened
from sightline.errors import SightlineError
from sightline.jobs.assemble import assemble
from tests.auditing.crossing_truth import Share, Truth
from tests.auditing.crossings import Crossing, Engine, NotAdditive, drawn, effects, with_other_noise
from tests.numbered_cases import check_cases

ROUNDING = 1e-7
BESIDE_EXACT = 1e-4  # of upper ends: a little noise stands for none
PLANS = 8  # about each table: reading it takes as long as to assess one

Audit = Callable[[Crossing], sl.AuditResult]


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Tables 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


@cache
def engine() -> Engine:
    """One connection for all cases."""
    return Engine()


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """Draw a table and plans about it, and compare what the audit says of each with the truth.

    The table is read once: the plans differ in noise, prior, budget and limit.
    """
    draw = Random(int(generator.integers(2**62)))
    crossing = drawn(draw)
    count["tables"] += 1
    with ExitStack() as stack:
        audit = audit_of(crossing, stack)
        check_crossing(crossing, generator, count, audit)
        for _ in range(PLANS - 1):
            check_crossing(with_other_noise(draw, crossing), generator, count, audit)


def audited(crossing: Crossing) -> sl.AuditResult:
    """What the audit says of a plan, all of it."""
    return sl.audit(crossing.complete(), names=True, top=1000)


def audit_of(crossing: Crossing, stack: ExitStack) -> Audit:
    """The same of plans about one table, which is read once; without what assesses a plan again."""
    try:
        session = stack.enter_context(opened(*read_plan(crossing.complete())))
        membership = session.membership()
    except SightlineError as refusal:
        return partial(_refuse, refusal)
    keys = session.keys(membership)
    names = Keys(
        of_signatures=lambda places: _kept(keys.of_signatures, tuple(places)),
        of_kinds=lambda places: _kept(keys.of_kinds, tuple(places)),
    )
    values, totals = cache(session.values), cache(partial(session.totals, membership=membership))

    def audit(other: Crossing) -> sl.AuditResult:
        plan, _ = read_plan(other.complete())
        findings = find(plan, membership, values=values)
        result = assemble(findings, top=1000, names=True, keys=names, totals=totals)
        return result.cut_short("the verdict alone was asked for")

    return audit


def _refuse(refusal: SightlineError, crossing: Crossing) -> sl.AuditResult:
    raise refusal


@lru_cache(maxsize=64)
def _kept(fetch: FetchKeys, places: tuple[int, ...]) -> dict[int, tuple[str, ...]]:
    return fetch(places)


def check_crossing(
    crossing: Crossing, random: np.random.Generator, count: Counter[str], audit: Audit = audited
) -> None:
    """Compare one plan with the truth; raise where they differ."""
    count["cases"] += 1
    try:
        result = audit(crossing)
    except SightlineError as refusal:
        count["refused"] += 1
        count[f"refused: {str(refusal)[:60]}"] += 1
        return
    count[str(result.verdict.status)] += 1
    try:
        truth = truth_of(crossing, result)
    except NotAdditive as told:
        # No noise hides which lines and NULLs an answer has.
        accepted = "groups" in crossing.plan["limits"]["accept"]
        count[f"telling {told}"] += 1
        if not accepted and result.verdict.status is VerdictStatus.PASSED:
            raise AssertionError(f"passed, but the {told} differ") from None
        return
    check_decisions(crossing, truth, result)
    check_budget(crossing, truth, result)
    check_ends(crossing, truth, result, random, count)


def truth_of(crossing: Crossing, result: sl.AuditResult) -> Truth:
    """The raw answers, and the noise that the plan states or, with a budget, the audit gives."""
    numbers, start, added = effects(crossing, engine())
    laws, scales, copies = [], [], []
    budget = crossing.plan.get("privacy", {}).get("accountant")
    for release, _, _ in numbers:
        asked, report = crossing.asked[release], result.releases[release]
        law, stddev = asked.law, asked.stddev
        if budget is not None:
            law = "laplace" if budget == "laplace" else "gaussian"
            stddev = report.smallest_noise_stddev or 0.0  # none if it publishes nothing about a secret
        laws.append(law)
        scales.append(scale_of(law, stddev))
        copies.append(asked.times)
    kept = (np.abs(added).max(axis=(0, 1), initial=0.0) > 0) if added.size else np.zeros(len(numbers), bool)
    return Truth(
        crossing=crossing,
        start=start[kept],
        added=added[:, :, kept],
        laws=[law for law, one in zip(laws, kept, strict=True) if one],
        scales=np.array(scales)[kept],
        copies=np.array(copies, dtype=int)[kept],
    )


def scale_of(law: str, stddev: float) -> float:
    """The parameter of a law with a standard deviation."""
    match law:
        case "laplace":
            return stddev / math.sqrt(2)
        case "geometric":
            return 0.5 / math.asinh(1 / (math.sqrt(2) * stddev))
    return stddev


def one_noise(result: sl.AuditResult) -> bool:
    """Whether each release has one noise on all its numbers, so that the report tells the noise of each."""
    return all(one.smallest_noise_stddev == one.largest_noise_stddev for one in result.releases)


def check_decisions(crossing: Crossing, truth: Truth, result: sl.AuditResult) -> None:
    """Who is identifiable, by rank over the rationals."""
    if not truth.linear.any():
        return
    expected = sum(truth.identifiable(person) for person in crossing.persons)
    undecided = sum(one.count for one in result.unverified if one.name.value == "undecided")
    assert abs(result.identifiable_records - expected) <= undecided, (
        f"identifiable: {result.identifiable_records}, by rank {expected}"
    )


def check_budget(crossing: Crossing, truth: Truth, result: sl.AuditResult) -> None:
    """No accountant says less than the epsilon that the noise has, nor gives noise that costs more."""
    if "none" in truth.laws or not one_noise(result):
        return
    budget = result.budget
    least = truth.epsilon(budget.delta)
    for name, spent in budget.spent.items():
        assert spent >= least * (1 - 1e-6) - 1e-9, f"{name} says {spent}, the noise has {least}"
    if budget.epsilon is not None and budget.proven:
        assert least <= budget.epsilon * (1 + 1e-6), f"the noise costs {least}, the plan has {budget.epsilon}"


def check_ends(
    crossing: Crossing,
    truth: Truth,
    result: sl.AuditResult,
    random: np.random.Generator,
    count: Counter[str],
) -> None:
    """Ends, the guarantee and the verdict, against exact risks."""
    if not one_noise(result):
        count["several noises in a release"] += 1
        return
    limit, status = crossing.plan["limits"]["remaining_uncertainty"], result.verdict.status
    # A plan that accepts "local" is told no more than what is seen near the true values.
    locally = any(one.name.value == "local" for one in result.unverified)
    listed = {
        name: one
        for one in result.exposed
        if one.record is not None and one.remaining_uncertainty is not None
        for name in one.record.split(", ")
        # Where persons have several rows, groups of rows are listed besides, by all their names.
        if one.record == name or crossing.plan["data"].get("values") != "independent"
    }
    for person in crossing.persons:
        features = truth.features(person)
        exact = truth.risks(features, random)
        alone = truth.risks(features, random, alone=crossing.persons[person])
        if alone is not None and result.guaranteed_by_noise is not None:
            worst = least(alone)
            # A share is not below 0: where exact numbers leave nothing, the sum of its terms may be.
            assert result.guaranteed_by_noise <= max(worst.value, 0.0) + worst.error + ROUNDING, (
                f"guaranteed {result.guaranteed_by_noise}, {worst} remains of {person}"
            )
        if exact is None:
            count["not enumerated"] += 1
            exact = {}
        worst = least(exact)
        if result.least_remaining_uncertainty is not None and exact and result.least_about is None:
            assert result.least_remaining_uncertainty.lower <= worst.value + worst.error + ROUNDING, (
                f"{result.least_remaining_uncertainty} for all, {worst} for {person}"
            )
        if status is VerdictStatus.PASSED and exact and not locally:
            assert worst.value + worst.error + ROUNDING >= limit, f"passed {limit}, {worst} of {person}"
            count["passes checked"] += 1
        one = listed.get(person)
        if one is None or one.remaining_uncertainty is None:
            continue
        if one.about is None:
            check_bracket(crossing, truth, person, one, exact)
            count["brackets"] += 1
        else:
            yes = answers_yes(crossing, one.about)
            asked = truth.risks(truth.features(person, yes), random)
            check_question(one, person, asked or {}, even=bool(crossing.nodes[1] @ yes == 0.5))
            count["brackets of a question"] += 1
    guaranteed = result.guaranteed_by_noise
    if guaranteed is not None and guaranteed >= limit:
        assert status is not VerdictStatus.FAILED, f"guaranteed {guaranteed}, and below {limit}"
    accepted = set(crossing.plan["limits"]["accept"]) - {"local"}  # which a plan cannot accept
    every = accepted >= {one.name.value for one in result.unverified}
    assert not (every and status is VerdictStatus.NOT_SHOWN), "all is accepted, and not shown"
    assert (status is VerdictStatus.FAILED) == (result.verdict.below_limit > 0)


def least(shares: dict[str, Share]) -> Share:
    """The feature of which least remains; all of it, if nothing is asked."""
    return min(shares.values(), key=lambda one: one.value, default=Share(value=1.0, error=0.0))


def answers_yes(crossing: Crossing, question: str) -> np.ndarray:
    """Which nodes answer yes to ``x > 5`` or ``x in (a, b)``."""
    if "(" in question:
        names = question.partition("(")[2].rstrip(")").split(", ")
        return np.array([level in names for level in crossing.levels])
    return np.asarray(crossing.nodes[0] > float(question.rpartition(" ")[2]))


def check_question(one: Exposed, person: str, exact: dict[str, Share], *, even: bool) -> None:
    """Both ends of a yes or no: of other odds than even ones no less is left, which are the worst."""
    bracket, worst = one.remaining_uncertainty, least(exact)
    assert bracket is not None
    assert bracket.lower <= worst.value + worst.error + ROUNDING, (
        f"lower end {bracket.lower} of a question, {worst} of {person}"
    )
    assert not even or not exact or bracket.upper >= worst.value - worst.error - BESIDE_EXACT, (
        f"upper end {bracket.upper} of a question, {worst} of {person}"
    )


def check_bracket(
    crossing: Crossing, truth: Truth, person: str, one: Exposed, exact: dict[str, Share]
) -> None:
    """Both ends of one person: the exact risk is within, and no linear attack is better."""
    bracket, several = one.remaining_uncertainty, len(crossing.persons[person]) > 1
    assert bracket is not None
    if one.category is not None:
        exact = {name: share for name, share in exact.items() if name.startswith(one.category)}
    if exact:
        worst = least(exact)
        assert bracket.lower <= worst.value + worst.error + ROUNDING, (
            f"lower end {bracket.lower}, {worst} of {person}"
        )
        assert several or bracket.upper >= worst.value - worst.error - BESIDE_EXACT, (
            f"upper end {bracket.upper}, {worst} of {person}"
        )
    if crossing.kind != "category" and truth.linear.any():
        # Of one row an attack that is not linear may leave less, but no less than the exact risk above.
        linear = truth.best_linear(person)
        error = BESIDE_EXACT if "none" in truth.laws else 1e-6
        assert bracket.upper <= linear + error, f"upper end {bracket.upper}, best linear {linear}: {person}"
        # So may one of several rows of few values, whose worlds can be listed.
        listed = crossing.kind == "boolean" or crossing.prior == "two-point"
        assert listed or not several or bracket.upper >= linear - error, (
            f"upper end {bracket.upper} of rows, {linear}"
        )
