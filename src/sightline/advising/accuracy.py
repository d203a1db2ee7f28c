"""What a change costs in the accuracy of the numbers that are published: their errors after it and today."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from sightline.arrays import NOTICEABLE, FloatArray
from sightline.auditing.plan import Plan
from sightline.auditing.result_parts import Fact, fact
from sightline.tables.membership import Membership

# Of each release, by its name, the least and the largest standard deviation of the noise on a number.
Errors = Mapping[str, tuple[float, float]]

_NAMED = 2  # releases whose errors are said; of the others how many have changed


class Error(StrEnum):
    """What becomes of the errors of the numbers that are published."""

    OF_RELEASE = "error of a release"
    OF_OTHERS = "errors of others"
    AS_TODAY = "errors as today"


def errors_of(plan: Plan, membership: Membership, stddev: FloatArray) -> Errors:
    """The errors of releases whose numbers have these standard deviations, a cell each."""
    owner = np.array([membership.partitions[one.partition].query for one in membership.cells], dtype=np.intp)
    own = ((release.name, stddev[owner == query]) for query, release in enumerate(plan.releases))
    return {name: (float(noise.min()), float(noise.max())) for name, noise in own if noise.size}


def changed_errors(today: Errors, after: Errors) -> tuple[Fact, ...]:
    """The errors after a change, of the releases first whose numbers change most; or that none does."""

    def change(name: str) -> float:
        ends = [(now, then) for now, then in zip(today[name], after[name], strict=True) if now > 0]
        return max((abs(float(np.log(then / now))) for now, then in ends if then > 0), default=0.0)

    changed = [name for name in after if name in today and change(name) > NOTICEABLE]
    if not changed:
        return (fact(Error.AS_TODAY),)
    changed.sort(key=change, reverse=True)
    said = tuple(
        fact(
            Error.OF_RELEASE,
            release=name,
            least=after[name][0],
            most=after[name][1],
            least_today=today[name][0],
            most_today=today[name][1],
        )
        for name in changed[:_NAMED]
    )
    others = len(changed) - len(said)
    return (*said, *([fact(Error.OF_OTHERS, releases=others)] if others else []))
