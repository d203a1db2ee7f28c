"""The numbers of a result that matter, in a form that JSON holds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import sightline as sl

Summary = dict[str, Any]


def audit_summary(result: sl.AuditResult) -> Summary:
    """Who is identifiable, brackets, errors, the verdict, the budget, and what each release adds."""
    least = result.least_remaining_uncertainty
    return {
        "limit": result.verdict.limit,
        "status": None if result.verdict.status is None else str(result.verdict.status),
        "below": result.verdict.below_limit,
        "counts": [result.rows, result.records, result.known_rows, result.cells, result.rank],
        "identifiable": result.identifiable_records,
        "groups": result.identifiable_groups,
        "least": None if least is None else [least.lower, least.upper],
        "error": number(result.relative_error),
        "exposed": [_exposed(one) for one in result.exposed if _by_itself(one, result.verdict.limit)],
        "distribution": list(result.distribution.records),
        "noise": [[one.smallest_noise_stddev, one.largest_noise_stddev] for one in result.releases],
        "newly": [one.newly_exposes for one in result.releases],
        "alone": [one.exposes_alone for one in result.releases],
        "over time": [one.identifiable_records for one in result.timeline],
        "spent": {name: number(value) for name, value in sorted(result.budget.spent.items())},
        "needs": {name: number(value) for name, value in sorted(result.budget.would_need.items())},
        "multiplier": result.budget.noise_multiplier,
        "proven": result.budget.proven,
        "guaranteed": result.guaranteed_by_noise,
        "slack": None if result.slack is None else [result.slack.holds, result.slack.noise_factor],
        "local": None if result.local is None else [result.local.identifiable, result.local.below_limit],
        "questions": {
            one.text: [one.identifiable_records, one.below_limit, *_bracket(one.least_remaining_uncertainty)]
            for one in result.questions
        },
        "categories": result.category_count,
        "others": [audit_summary(one) for one in result.other_secrets],
    }


def _by_itself(one: Any, limit: float | None) -> bool:
    """Whether an entry is listed for what is seen of it, and not only since least remains of it."""
    below = limit is not None and one.remaining_uncertainty is not None
    below = below and one.remaining_uncertainty.lower < limit
    seen = one.identifiable and one.size <= (5 if one.rows == 1 else 1)
    return one.about is None and (one.local or below or seen)


def _exposed(one: Any) -> list[Any]:
    return [
        one.record,
        one.category,
        one.feature,
        one.rows,
        one.size,
        one.local,
        one.identifiable,
        None if one.rmse is None else number(one.rmse),
        *_bracket(one.remaining_uncertainty),
    ]


def _bracket(uncertainty: Any) -> list[float | None]:
    return [None, None] if uncertainty is None else [uncertainty.lower, uncertainty.upper]


def exposures_summary(found: Any) -> Summary:
    """The arrays of what a membership design exposes."""
    return {
        "identifiable": np.flatnonzero(found.identifiable).tolist(),
        "undecided": np.flatnonzero(found.undecided).tolist(),
        "rmse": numbers(found.rmse),
        "lower": numbers(found.remaining_lower),
        "upper": numbers(found.remaining_upper),
        "error": number(found.relative_error),
    }


def noise_summary(result: sl.DesignResult) -> Summary:
    """The designed noise, what it costs, and whether it is enough."""
    return {
        "binds": result.binds,
        "passed": result.passed,
        "before": result.loss_before,
        "loss": result.loss_designed,
        "at least": result.loss_at_least,
        "common": result.common_factor,
        "withheld": 0 if result.suppressed is None else len(result.suppressed.withheld),
        "stddevs": {f"{one.release} {one.cell}": one.stddev for one in result.noise},
    }


def number(value: float) -> float | str | None:
    """A number as JSON holds it: an infinite one as text, and none for one that is not a number."""
    if math.isnan(value):
        return None
    return float(value) if math.isfinite(value) else str(float(value))


def numbers(values: Iterable[float]) -> list[float | str | None]:
    """The same for each of an array's."""
    return [number(float(value)) for value in values]
