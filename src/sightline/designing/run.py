"""The job: from a plan and a limit to the least noise with which everyone keeps it."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.assemble import judged
from sightline.auditing.findings import find
from sightline.auditing.reading import PlanLike, plan_text, read_plan, with_limit
from sightline.auditing.session import Session, opened
from sightline.designing.attacks import priced_attacks, sharpest_attack
from sightline.designing.levels import never_binds_below
from sightline.designing.proposal import solve, trade_off
from sightline.designing.result import DesignedBudget, DesignedNoise, DesignResult, who
from sightline.designing.suppression import replaced_task, smallest_suppression, suppressed_numbers
from sightline.designing.task import DesignTask, Grain, Loss, task_of
from sightline.errors import InvalidPlan, require
from sightline.numerics.one_thread import blas_threads_for
from sightline.progress import Progress, report, reporting

_USUAL_DELTA = 1e-6


def design(  # many parameters: the options of one command
    plan: PlanLike,
    *,
    limit: float | str | None = None,
    grain: str = "cell",
    loss: str = "variance",
    names: bool = False,
    top: int = 10,
    other_limits: bool = False,
    progress: Progress | None = None,
) -> DesignResult:
    """The least noise with which everyone keeps the limit, as a plan that the audit passes.

    ``limit`` replaces the plan's: the share of its uncertainty that every record must keep, as 0.5 or "50%".
    ``grain`` is "cell" for a noise on each published number, or "release" for one factor on each release.
    ``loss`` is what is made small: "variance", the weighted sum of variances; "relative", the same over
    today's variances; or "largest", the largest weighted standard deviation. ``names`` names records in the
    attacks by their keys, and ``top`` is how many attacks are listed. ``other_limits`` also says what a
    handful of other limits would cost. Only noise is added: a release's
    floor is its noise in the plan, unless the plan says noise_within.
    """
    require(top >= 1, "top >= 1", got=top)
    for text, known in ((grain, Grain), (loss, Loss)):
        require(text in set(known), f"one of {', '.join(known)}", got=repr(text))
    checked, base = read_plan(plan)
    if limit is not None:
        checked = with_limit(checked, limit)
    share = checked.limits.remaining_uncertainty
    if share is None:
        raise InvalidPlan(
            "expected a limit, got none; give --limit 50%, or remaining_uncertainty in [limits]"
        )
    with reporting(progress), ExitStack() as stack:
        report("opening the table", 0.0)
        session = stack.enter_context(opened(checked, base))
        checked = session.plan
        membership = session.membership(report)
        stack.enter_context(blas_threads_for(rows=len(membership.cells), columns=membership.signature_count))
        task = task_of(checked, membership, limit=share, grain=Grain(grain), loss=Loss(loss))
        gone = smallest_suppression(task)
        kept = task if gone is None else replaced_task(task, gone.withheld, Grain(grain))
        found = _designed(session, kept, Grain(grain), names=names, top=top)
        if gone is not None:
            found = found.model_copy(update={"suppressed": suppressed_numbers(task, gone)})
        if not other_limits:
            return found
        losses = {"designed": found.loss_designed, "common": found.loss_with_common_factor}
        return found.model_copy(update={"trade_off": trade_off(kept, **losses)})


def _designed(session: Session, task: DesignTask, grain: Grain, *, names: bool, top: int) -> DesignResult:
    found = solve(task)
    if found is None:
        raise _infeasible(session, task, names=names)
    common, chosen, proof = found.common, found.chosen, found.proof
    proposed = task.proposal(proof.stddevs)
    findings = find(proposed, task.membership, linear=proof.findings)
    judgement = judged(findings, totals=session.totals)
    total = task.total(proof.stddevs)
    delta = task.plan.privacy.delta or _USUAL_DELTA
    keys = session.keys(task.membership) if names else None
    priced = None if chosen is None else priced_attacks(findings, chosen, top=top, keys=keys)
    attacks, in_all = ((), 1) if priced is None else (priced.attacks, priced.in_all)
    if priced is None or (task.loss is Loss.LARGEST and attacks):  # one attack alone decides
        attacks, in_all = (sharpest_attack(findings, keys=keys)[0],), 1
    return DesignResult(
        limit=task.limit,
        grain=grain.value,
        loss=task.loss.value,
        binds=_binds(task, in_all),
        loss_before=task.total(task.before),
        loss_with_common_factor=task.total(common.stddevs),
        common_factor=_factor(task, common.stddevs),
        common_factor_audited=common.audits > 0,
        loss_designed=total,
        loss_at_least=found.loss_at_least,
        noise=_noise(task, proof.stddevs),
        attacks=attacks,
        attacks_in_all=in_all,
        budget=_budget(task, proof.stddevs, 0.0 if priced is None else priced.budget),
        never_binds_below_epsilon=never_binds_below(task.linear.prior, task.limit, delta),
        delta=delta,
        passed=judgement.passed is True,
        verdict=judgement.text,
        rounds=0 if chosen is None else chosen.optimum.rounds,
        plan=plan_text(proposed),
    )


def _binds(task: DesignTask, attacks: int) -> bool:
    """Whether the limit asks for noise: more than the floors, and more than the budget where it pays."""
    if task.paid is not None:
        return attacks > 0
    least = task.findings.least
    return least is not None and least.lower < task.limit


def _budget(task: DesignTask, stddevs: FloatArray, price: float) -> DesignedBudget | None:
    if task.paid is None:
        return None
    budget = task.paid.accountant.budget
    return DesignedBudget(
        accountant=task.paid.name,
        epsilon=budget.epsilon,
        delta=budget.delta,
        epsilon_spent=task.paid.epsilon(stddevs),
        price=price,
    )


def _factor(task: DesignTask, stddevs: FloatArray) -> float:
    """The common factor on all standard deviations."""
    return float(np.max((stddevs / task.common_base)[task.free]))


def _noise(task: DesignTask, stddevs: FloatArray) -> tuple[DesignedNoise, ...]:
    found = []
    for place, cell in enumerate(task.membership.cells):
        part = task.membership.partitions[cell.partition]
        which = (part.label,) if part.label else ()
        found.append(
            DesignedNoise(
                release=task.plan.releases[part.query].name,
                cell=", ".join([*cell.key, *which]),
                stddev_before=float(task.before[place]),
                stddev=float(stddevs[place]),
                published=task.plan.releases[part.query].published,
            )
        )
    return tuple(found)


def _infeasible(session: Session, task: DesignTask, *, names: bool) -> InvalidPlan:
    """Who is not protected by any noise within the ceilings, and by which recipe they are seen."""
    most = np.minimum(task.most_factors, 1e12)
    findings = find(task.proposal(task.stddevs(most)), task.membership)
    attack, kept = sharpest_attack(findings, keys=session.keys(task.membership) if names else None)
    return InvalidPlan(
        f"expected a limit that some noise keeps, got {100 * task.limit:.4g} %: with the most noise that the "
        f"plan allows, {who(attack)} may keep {100 * kept:.3g} %, by {attack.recipe}; "
        "raise noise_within, lower the limit, or leave out one of these numbers"
    )
