"""The job: from a plan and a limit to the least noise with which everyone keeps it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightline.advising.choice import Chosen
from sightline.advising.design_result import DesignedBudget, DesignedNoise, DesignResult, PricedAttack
from sightline.advising.fitted_loss import better_derived
from sightline.advising.least_noise import NotEnough
from sightline.advising.levels import never_binds_below
from sightline.advising.loss import Loss
from sightline.advising.proposal import in_digits, solve
from sightline.advising.suppression import replaced_task, smallest_suppression, suppressed_numbers
from sightline.advising.task import DesignTask, Grain, task_of
from sightline.arrays import COARSE, FloatArray, IndexArray
from sightline.auditing.exposed import keys_of
from sightline.auditing.findings import Findings, Keys, find, plans_by_belief
from sightline.auditing.plan import Plan
from sightline.auditing.plan_fields import MOST_TIMES
from sightline.auditing.plans_by_secret import plans_by_secret
from sightline.auditing.reading import PlanLike, plan_text, read_plan, with_limit
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.secret_prior import SecretPrior
from sightline.auditing.session import Session, opened
from sightline.bounds.chance_of_error import one_budget
from sightline.errors import InvalidPlan, require, require_plan
from sightline.format import percent_at_least, percent_stated
from sightline.jobs.assemble import judged, rules_of
from sightline.progress import Progress, blas_threads_for, report, reporting
from sightline.report.design import who


@one_budget()
def design(  # many parameters: the options of one command
    plan: PlanLike,
    *,
    limit: float | str | None = None,
    grain: str = "cell",
    loss: str = "size",
    series: int = 1,
    digits: int | None = None,
    names: bool = False,
    top: int = 10,
    progress: Progress | None = None,
) -> DesignResult:
    """The least noise with which everyone keeps the limit, as a plan that the audit passes.

    ``limit`` replaces the plan's: the share of its uncertainty that every record must keep, as 0.5 or "50%".
    ``grain`` is "cell" for a noise on each published number, or "release" for one factor on each release.
    ``loss`` is what is made small, times each release's weight: "size", the variances relative to the size
    class of each number; "relative", the variances over today's; or "variance", for numbers of one unit.
    ``series`` is how many periods the plan is published in, such as twelve months, under one budget.
    ``digits`` rounds the noise to so many of them, and the audit passes with that. ``names`` names records
    in the attacks by their keys, and ``top`` is how many attacks are listed. Of a plan about several secrets,
    the releases about each are designed by themselves. Only noise is added: a release's floor is its noise in
    the plan, unless the plan says noise_within.
    """
    require(top >= 1, "top >= 1", got=top)
    require(series >= 1, "series >= 1", got=series)
    require(digits is None or digits >= 1, "digits >= 1", got=digits)
    for text, known in ((grain, Grain), (loss, Loss)):
        require(text in set(known), f"one of {', '.join(known)}", got=repr(text))
    checked, base = read_plan(plan)
    if limit is not None:
        checked = with_limit(checked, limit)
    if not checked.limits.given:
        raise InvalidPlan(
            "expected a limit, got none; give --limit 50%, or remaining_uncertainty in [limits]"
        )
    require_plan(
        not checked.data.only_guarantee,
        "a frame of everybody who might be there, to design noise with secret = 'presence'",
        got="none",
        fix="without one the noise alone counts; audit says how much more of it is enough",
    )
    parts = plans_by_secret(_in_periods(checked, series))
    shown = _Shown(periods=series, digits=digits, names=names, top=top)
    with reporting(progress):
        designs = [_about_one(part, base, Grain(grain), Loss(loss), shown) for part in parts]
    if len(parts) == 1:
        return designs[0]
    secrets = [{"secret": part.data.secret} for part in parts]
    named = [one.model_copy(update=secret) for one, secret in zip(designs, secrets, strict=True)]
    return named[0].model_copy(update={"other_secrets": tuple(named[1:])})


def _in_periods(plan: Plan, periods: int) -> Plan:
    """The plan of a series: every release so many times as often."""
    if periods == 1:
        return plan
    out = [release.name for release in plan.releases if release.published]
    require_plan(not out, "a series of releases that are not out yet", got=f"{out[0][:60]!r}" if out else "")
    most = max(release.times for release in plan.releases) * periods
    require_plan(most <= MOST_TIMES, f"at most {MOST_TIMES:,} publications of a release", got=f"{most:,}")
    releases = [
        one if one.derived else one.model_copy(update={"times": one.times * periods}) for one in plan.releases
    ]
    return plan.model_copy(update={"releases": tuple(releases)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The options of a design that say what of it is shown, and how."""

    periods: int
    digits: int | None
    names: bool
    top: int


def _about_one(checked: Plan, base: Path, grain: Grain, loss: Loss, shown: _Shown) -> DesignResult:
    """The design of the releases about one secret."""
    with ExitStack() as stack:
        report("opening the table", 0.0)
        session = stack.enter_context(opened(checked, base))
        checked = session.plan
        membership = session.membership()
        stack.enter_context(blas_threads_for(rows=len(membership.cells), columns=membership.signature_count))
        plans = plans_by_belief(checked, membership)
        share = max(SecretPrior.of(one, membership).limit(one.limits) for one in plans)
        assert share  # design asks for one
        task = task_of(checked, membership, limit=share, grain=grain, loss=loss)
        kept, suppressed = task, {}
        for gone in smallest_suppression(task):
            kept = replaced_task(task, gone.chosen, grain)
            suppressed = {"suppressed": suppressed_numbers(task, gone)}
        return _designed(session, kept.for_the_fit(shown.periods), grain, shown).model_copy(update=suppressed)


def _designed(session: Session, task: DesignTask, grain: Grain, shown: _Shown) -> DesignResult:
    keys = session.keys(task.membership) if shown.names else None
    try:
        exact = solve(task)
    except NotEnough:
        raise _infeasible(task, keys) from None
    written = in_digits(task, exact, shown.digits)
    common, chosen, proof = written.common, written.chosen, written.proof
    proposed = task.proposal(proof.stddevs)
    findings = find(proposed, task.membership, linear=proof.findings)
    judgement = judged(findings, totals=session.totals, rules=rules_of(session, findings))
    total = task.total(proof.stddevs)
    delta = task.plan.privacy.cost_delta
    alone = PricedAttacks(attacks=(sharpest_attack(findings, keys=keys)[0],), in_all=1, budget=0.0)
    # The attacks are those on the design that was solved: that of the belief that was the worst before.
    solved = task.linear.lowering.shared
    own = next(one for one in findings.every_belief if one.linear.linear.lowering.shared == solved)
    priced = next((priced_attacks(own, one, top=shown.top, keys=keys) for one in chosen), alone)
    return DesignResult(
        limit=task.limit,
        grain=grain.value,
        loss=task.loss.value,
        binds=_binds(task, priced.in_all),
        loss_before=task.total(task.before),
        loss_with_common_factor=task.total(common.stddevs),
        common_factor=float(np.max((exact.common.stddevs / task.common_base)[task.free])),
        common_factor_audited=common.audits > 0,
        loss_designed=total,
        loss_at_least=written.loss_at_least,
        by_attacks=any(one.attacked is not None for one in chosen),
        noise=_noise(task, proof.stddevs),
        periods=shown.periods,
        digits=shown.digits,
        attacks=priced.attacks,
        attacks_in_all=priced.in_all,
        budget=_budget(task, proof.stddevs, priced.budget),
        never_binds_below_epsilon=never_binds_below(task.linear.prior, task.limit, delta),
        delta=delta,
        passed=judgement.passed is True,
        verdict=judgement.text,
        rounds=sum(one.optimum.rounds for one in chosen),
        plan=plan_text(proposed),
        **_published(task, proof.stddevs),
    )


def _published(task: DesignTask, stddevs: FloatArray) -> dict[str, Any]:
    """The error of a typical number, and what else is said of a plan that publishes its fit."""
    variances = np.square if task.fitted is None else task.fitted.variances
    before, after = (float(np.sqrt(np.median(variances(one)))) for one in (task.before, stddevs))
    errors: dict[str, Any] = {"typical_before": before, "typical_designed": after}
    if task.fitted is None:
        return errors
    derived = better_derived(task.plan, task.membership, task.paid, stddevs)
    return {**errors, "fitted": True, "better_derived": derived}


def _binds(task: DesignTask, attacks: int) -> bool:
    """Whether the limit asks for noise: more than the floors, and more than the budget where it pays."""
    if task.paid.bundles:
        return attacks > 0
    return task.findings.least.lower < task.limit


def _budget(task: DesignTask, stddevs: FloatArray, price: float) -> DesignedBudget | None:
    paid = task.paid
    if not paid.bundles:
        return None
    return DesignedBudget(
        accountant=paid.accountant,
        epsilon=paid.allowed,
        delta=paid.delta,
        epsilon_spent=paid.epsilon(stddevs),
        price=price,
        everyone=task.plan.privacy.covers_everyone,
    )


def _noise(task: DesignTask, stddevs: FloatArray) -> tuple[DesignedNoise, ...]:
    reports, ranges = [], task.ranges
    for place, cell in enumerate(task.membership.cells):
        part = task.membership.partitions[cell.partition]
        which = (part.label,) if part.label else ()
        reports.append(
            DesignedNoise(
                release=task.plan.releases[part.query].name,
                cell=", ".join([*cell.key, *which]),
                stddev_before=float(task.before[place]),
                stddev=float(stddevs[place]),
                published=task.plan.releases[part.query].published,
                range=float(ranges[place]),
            )
        )
    return tuple(reports)


def _infeasible(task: DesignTask, keys: Keys | None) -> InvalidPlan:
    """Who is not protected by any noise within the ceilings, and by which recipe they are seen."""
    most = np.minimum(task.most_factors, 1e12)
    findings = find(task.proposal(task.stddevs(most)), task.membership)
    attack, kept = sharpest_attack(findings, keys=keys)
    return InvalidPlan(
        f"expected a limit that some noise keeps, got {percent_stated(task.limit)}: with the most noise that "
        f"the plan allows, {who(attack)} may keep {percent_at_least(kept)}, by {attack.recipe}; "
        "raise noise_within, lower the limit, or leave out one of these numbers"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedAttacks:
    """The dearest attacks, how many have a price, and the share of the noise that the budget asks for."""

    attacks: tuple[PricedAttack, ...]
    in_all: int
    budget: float


def priced_attacks(findings: Findings, chosen: Chosen, *, top: int, keys: Keys | None) -> PricedAttacks:
    """The dearest attacks, and how many have a price."""
    targets, names, asked = chosen.attacks
    total, budget = float(asked.sum()), chosen.for_the_budget
    if total <= COARSE * max(total, budget) or total <= 0:
        return PricedAttacks(attacks=(), in_all=0, budget=1.0 if budget > 0 else 0.0)
    share = asked / (total + budget)
    paid = np.flatnonzero(share > COARSE)
    share = share / (share[paid].sum() + budget / (total + budget))
    order = paid[np.lexsort((paid, -share[paid]))]
    writer = RecipeWriter(findings=findings, found=findings.linear)
    columns = chosen.targets.record[targets]
    columns = np.where(columns >= 0, columns, -1 - columns)  # of a person with several rows
    named = _names(findings, columns[order[:top]], keys)
    attacks = []
    for i in order[:top].tolist():
        own = int(columns[i])
        shortest, size = writer.shortest(own), int(findings.linear.counts[own])
        attacks.append(
            PricedAttack(
                record=named.get(own),
                size=size,
                recipe=_in_words(writer, own, chosen.recipe(i)),
                shortest=None if shortest is None else shortest.text,
                bound=names[i].value,
                price=float(share[i]),
            )
        )
    return PricedAttacks(attacks=tuple(attacks), in_all=int(paid.size), budget=1.0 - float(share[paid].sum()))


def sharpest_attack(findings: Findings, *, keys: Keys | None) -> tuple[PricedAttack, float]:
    """The attack on the record that keeps least, and what it keeps."""
    found = findings.linear
    lower = found.lower
    column = int(np.argmin(lower))
    weights = found.linear.image(column) / found.linear.design.noise.variance
    writer = RecipeWriter(findings=findings, found=found)
    best, shortest = writer.best(column), writer.shortest(column)
    recipe = best or writer.written(column, weights / float(np.max(np.abs(weights))))
    attack = PricedAttack(
        record=_names(findings, np.array([column]), keys).get(column),
        size=int(found.counts[column]),
        recipe=recipe.text,
        shortest=None if shortest is None else shortest.text,
        bound="the largest of the audit's",
        price=1.0,
    )
    return attack, float(lower[column])


def _in_words(writer: RecipeWriter, column: int, weights: FloatArray) -> str:
    """The recipe in words. Small weights are left out: they belong to numbers that hardly help."""
    kept = np.where(np.abs(weights) > 1e-3 * np.max(np.abs(weights)), weights, 0.0)
    return writer.written(column, kept).text


def _names(findings: Findings, columns: IndexArray, keys: Keys | None) -> dict[int, str]:
    """The keys of the records of some columns."""
    if keys is None or not columns.size:
        return {}
    named = keys_of(findings.linear, columns, keys)
    return {column: ", ".join(own) for column, own in named.items() if own}
