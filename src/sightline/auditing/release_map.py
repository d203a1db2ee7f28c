"""Which release exposes whom: the role of every release for the most exposed signatures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import IndexArray
from sightline.auditing.findings import Findings
from sightline.auditing.plan import Plan
from sightline.auditing.result import MapColumn, Role
from sightline.labeled.contributions import Contributions
from sightline.tables.membership import Membership

# What a page can draw and a reader can take in.
_MOST_COLUMNS, _MOST_ENTRIES = 2_000, 24_000
# Weights below this share of the largest are rounding of weights that are zero.
_NOTHING = 1e-9


def release_map(
    plan: Plan, membership: Membership, found: Findings, contributions: Contributions | None
) -> tuple[MapColumn, ...]:
    """The most exposed signatures, worst first, with the role of each release."""
    columns = _most_exposed(found, max(20, min(_MOST_COLUMNS, _MOST_ENTRIES // len(plan.releases))))
    roles = _present(plan, membership, found, columns)
    _mark_used(roles, found, columns)
    if contributions is not None:
        _mark_needed(roles, found, columns, contributions)
    categories = found.view.categories
    visible, signatures = found.visible, found.view.first_signatures(columns)
    return tuple(
        MapColumn(
            signature=int(signature),
            size=int(found.counts[column]),
            category=categories[found.view.column_category[column]] if categories else None,
            identifiable=bool(visible[column]),
            remaining_uncertainty=found.bracket(int(column)),
            roles="".join(entries),
        )
        for column, signature, entries in zip(columns, signatures, roles.T.tolist(), strict=True)
    )


def _most_exposed(found: Findings, count: int) -> IndexArray:
    columns = np.flatnonzero(~found.view.known)
    lower = found.exposures.remaining_lower[columns]
    if columns.size > count:
        columns = columns[lower <= np.partition(lower, count - 1)[count - 1]]
        lower = found.exposures.remaining_lower[columns]
    chosen: IndexArray = columns[np.lexsort((columns, found.group_rmse(columns), lower))][:count]
    return chosen


def _present(plan: Plan, membership: Membership, found: Findings, columns: IndexArray) -> NDArray[np.str_]:
    """Releases × columns."""
    rows = membership.signatures[found.view.first_signatures(columns)] >= 0
    roles = np.full((len(plan.releases), columns.size), Role.ABSENT.value, dtype="<U1")
    for p, part in enumerate(membership.partitions):
        roles[part.query, rows[:, p]] = Role.PRESENT.value
    return roles


def _mark_used(roles: NDArray[np.str_], found: Findings, columns: IndexArray) -> None:
    exposures, view = found.exposures, found.view
    place = np.cumsum(exposures.groups.identifiable) - 1
    query_of_line = view.queries[view.design.release_of]
    for position, column in enumerate(columns):
        group = exposures.group[column]
        if exposures.groups.identifiable[group]:
            weights = np.abs(exposures.recipes[place[group]])
            roles[query_of_line[weights > _NOTHING * weights.max()], position] = Role.USED.value


def _mark_needed(
    roles: NDArray[np.str_], found: Findings, columns: IndexArray, contributions: Contributions
) -> None:
    place = {int(record): i for i, record in enumerate(contributions.records)}
    for position, column in enumerate(columns):
        if int(column) in place:
            needed = np.isinf(contributions.rmse_without[:, place[int(column)]])
            roles[found.view.queries[needed], position] = Role.NEEDED.value
