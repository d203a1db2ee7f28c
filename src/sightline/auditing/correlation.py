r"""Correlated noise of a plan: the correlations of the numbers that it names.

With standard deviations :math:`D` and correlations :math:`C` the covariance is :math:`D C D`. It is at least
:math:`\lambda_{\min}(C)\, D^2`, so independent noise of :math:`\sqrt{\lambda_{\min}}\, D` protects no better:
accountants, which take noise to be independent, are given that.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan
from sightline.auditing.withheld import cells_named
from sightline.errors import InvalidPlan, require
from sightline.tables.membership import Feature, Membership
from sightline.tables.subject import SecretKind

_LEAST_SHARE = 1e-9  # below it a combination of the numbers has no noise, up to rounding


def correlation_of(plan: Plan, membership: Membership) -> FloatArray | None:
    """The correlations of the noise on all cells; none if the plan has none."""
    stated = plan.correlation
    if stated is None:
        return None
    _check(plan, membership)
    queries = {release.name: query for query, release in enumerate(plan.releases)}
    cells = [
        cell
        for name in stated.numbers
        for cell in cells_named(membership, queries.get(name[0], -1), name[1:], f"[correlation] {name[0]!r}")
    ]
    require(
        len(set(cells)) == len(cells) == len(stated.numbers),
        "[correlation] each number once, with its label where its release has several aggregates",
        got="one twice, or several at once",
        error=InvalidPlan,
    )
    own = np.eye(len(cells))
    for i, row in enumerate(stated.rows):
        own[i, :i] = own[:i, i] = row
    found = np.eye(len(membership.cells))
    at = np.array(cells, dtype=np.intp)
    found[np.ix_(at, at)] = own
    require(
        least_own_share(found) > _LEAST_SHARE,
        "[correlation] noise on every combination of the numbers",
        got="a combination without noise",
        fix="correlations must form a positive definite matrix",
        error=InvalidPlan,
    )
    return found


def least_own_share(correlation: FloatArray | None) -> float:
    """The least eigenvalue of some correlations: 1 for none."""
    if correlation is None or not correlation.size:
        return 1.0
    rounding = 1e-13 * len(correlation)
    return float(min(1.0, np.linalg.eigvalsh(correlation)[0] - rounding))


def _check(plan: Plan, membership: Membership) -> None:
    assert plan.correlation is not None  # it has been looked at
    releases = {release.name: release for release in plan.releases}
    mine = [releases[one[0]] for one in plan.correlation.numbers if one[0] in releases]
    require(
        all(release.noise_given and plan.copies(release) == 1 for release in mine),
        "[correlation] releases with a noise of their own, published once",
        got="another",
        error=InvalidPlan,
    )
    linear = all(part.feature in (Feature.VALUE, Feature.INDICATOR) for part in membership.partitions)
    require(
        linear and plan.data.max_rows_per_record == 1,
        "[correlation] means, sums and counts of records with one row",
        got="others",
        error=InvalidPlan,
    )
    several = plan.data.secret_kind is SecretKind.CATEGORY and len(plan.data.categories or ()) > 2
    require(
        not several,
        "[correlation] a number or a yes or no",
        got="a secret of three categories or more",
        error=InvalidPlan,
    )
