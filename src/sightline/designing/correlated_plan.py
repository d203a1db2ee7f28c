"""From the least covariance to a plan with correlated noise that the audit passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.findings import linear_findings
from sightline.auditing.plan import Correlation, NumberName, Plan
from sightline.auditing.pricing import price
from sightline.designing.choice import Chosen
from sightline.designing.correlated import CorrelatedOptimum, least_correlated_noise
from sightline.designing.following import FollowingRisks
from sightline.designing.levels import hidden_level, precisions_at, precisions_under
from sightline.designing.problem import NoiseProblem
from sightline.designing.risks import HiddenRisks, KnownRisks, Risks
from sightline.designing.task import DesignTask, Grain, Loss
from sightline.errors import InvalidPlan, require
from sightline.progress import Progress, silent


class NoiseKind(StrEnum):
    """Whether the noise on different numbers is independent."""

    INDEPENDENT = "independent"
    CORRELATED = "correlated"


MOST_NUMBERS = 400
_MOST_FACTOR = 1e3  # on what is added to the floors
_HALVINGS = 12
_PRECISIONS = 6  # how often the precisions of hidden records are raised
_SAME = 1e-6  # precisions that are the same
_ROUNDING = 1e-9  # more than the optimum, for rounding
_DIGITS = 12  # of a correlation
_INSIDE = 1e-6  # a correlation of less than this is none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CorrelatedPlan:
    """A plan with correlated noise that the audit passes."""

    plan: Plan
    stddevs: FloatArray  # of all cells
    at_least: float | None  # no covariance costs less, for the chosen bounds; none if hidden records count


def check_correlated(task: DesignTask, grain: Grain) -> None:
    """Refuse what correlated noise is not designed for."""
    several = task.linear.prior.categories > 2
    plan = task.plan
    published_once = all(plan.copies(release) == 1 for release in plan.releases if not release.published)
    reasons = {
        "loss = variance or relative": task.loss is not Loss.LARGEST,
        "grain = cell": grain is Grain.CELL,
        "no ceilings on the noise": not np.any(np.isfinite(task.most) & task.free),
        "noise that is given, not paid for by a budget": task.paid is None,
        "records with one row, and a number or a yes or no": task.membership.persons is None and not several,
        "releases that are published once": published_once,
        f"at most {MOST_NUMBERS} numbers": int(task.free.sum()) <= MOST_NUMBERS,
    }
    wrong = next((reason for reason, holds in reasons.items() if not holds), None)
    require(wrong is None, f"for correlated noise {wrong}", got="another plan", error=InvalidPlan)


def correlated_plan(task: DesignTask, chosen: Chosen, progress: Progress = silent) -> CorrelatedPlan | None:
    """The least correlated noise for the chosen bounds that the audit passes; none if none was found.

    Correlated noise changes how well hidden records hide each other, so their precisions are raised to those
    at the covariance, a few times. The cheapest plan that the audit passes is taken. The optimum for given
    precisions proves nothing about a covariance with smaller ones, so there is no lower bound then.
    """
    problem = chosen.problem
    if not all(isinstance(one, KnownRisks | FollowingRisks) for one in problem.risks):
        return None
    best: CorrelatedPlan | None = None
    assumed = precisions_at(task.linear, chosen.variances)
    problem = _with_precisions(task, chosen, assumed)
    for _ in range(_PRECISIONS):
        found = least_correlated_noise(problem, chosen.variances, progress)
        plan = _audited(task, problem, found)
        if plan is not None and chosen.hidden.any():
            plan = replace(plan, at_least=None)
        if plan is not None and (best is None or task.total(plan.stddevs) < task.total(best.stddevs)):
            best = plan
        if not chosen.hidden.any():
            break
        ratio = precisions_under(task.linear, found.covariance) / assumed
        if float(np.max(ratio)) <= 1 + _SAME:
            break
        assumed = assumed * np.maximum(ratio, 1.0)
        problem = _with_precisions(task, chosen, assumed)
    return best


def _with_precisions(task: DesignTask, chosen: Chosen, precision: FloatArray) -> NoiseProblem:
    """The chosen limits, with given precisions of the hidden records."""
    risks: list[Risks] = []
    for one, records in zip(chosen.problem.risks, chosen.records, strict=True):
        if isinstance(one, FollowingRisks):
            level = hidden_level(task.linear, records, task.limit, precision)
            given = HiddenRisks(
                columns=one.columns, needed=level.needed, tau=level.tau, products=level.products
            )
            risks.append(given)
        else:
            risks.append(one)
    return replace(chosen.problem, risks=tuple(risks))


def _audited(task: DesignTask, problem: NoiseProblem, found: CorrelatedOptimum) -> CorrelatedPlan | None:
    """The plan with the least common factor on what is added to the floors with which the audit passes."""
    floors = np.diag(problem.floors)

    def plan_at(factor: float) -> CorrelatedPlan:
        plan, stddevs = _plan(task, floors + factor * (found.covariance - floors))
        return CorrelatedPlan(plan=plan, stddevs=stddevs, at_least=found.lower)

    def passes(factor: float) -> bool:
        plan = plan_at(factor).plan
        seen = linear_findings(plan, task.membership, price(plan, task.membership))
        least = None if seen is None else seen.least
        return least is not None and least.lower >= task.limit

    if passes(1 + _ROUNDING):
        return plan_at(1 + _ROUNDING)
    low, high = 1 + _ROUNDING, 1.01
    while not passes(high):
        low, high = high, 1.5 * high
        if high > _MOST_FACTOR:
            return None
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if passes(middle) else (middle, high)
    return plan_at(high)


def _plan(task: DesignTask, covariance: FloatArray) -> tuple[Plan, FloatArray]:
    """The plan whose rows have a covariance, and the standard deviations of its cells."""
    linear = task.linear
    # A row is its factor times the published number; copies of what is published are one row.
    unit = np.sqrt(task.row_unit) * np.sign(linear.main.factors)
    numbers = covariance / np.outer(unit, unit)
    stddevs = np.zeros(len(task.membership.cells))
    stddevs[linear.cells] = np.sqrt(np.diagonal(numbers))
    stddevs = np.where(task.free, stddevs, task.floor)
    free = np.flatnonzero(task.free[linear.cells])
    spread = np.sqrt(np.diagonal(numbers))
    correlation = np.round(numbers / np.outer(spread, spread), _DIGITS)
    names = []
    for row in free.tolist():
        cell = task.membership.cells[linear.cells[row]]
        part = task.membership.partitions[cell.partition]
        name = task.plan.releases[part.query].name
        names.append(NumberName(release=name, key=cell.key, label=part.label))
    plan = task.proposal(stddevs)
    rows = tuple(tuple(correlation[row, free[:place]].tolist()) for place, row in enumerate(free.tolist()))
    if not any(abs(value) > _INSIDE for row in rows for value in row):
        return plan, stddevs
    stated = Correlation(numbers=tuple(names), rows=rows)
    return plan.model_copy(update={"correlation": stated}), stddevs
