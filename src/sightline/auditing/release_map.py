"""The section on roles: what every release has to do with the most exposed signatures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result import MapColumn, Role
from sightline.auditing.signature_names import signature_names

# What a page can draw and a reader can take in.
_MOST_COLUMNS, _MOST_ENTRIES = 1_000, 12_000
_MOST_NAMED = 300
# Weights below this share of the largest are rounding of weights that are zero.
_NOTHING = 1e-9


def release_map(findings: Findings) -> tuple[MapColumn, ...]:
    """The most exposed signatures, worst first, with the role of each release."""
    found = findings.linear
    if found is None:
        return ()
    count = max(20, min(_MOST_COLUMNS, _MOST_ENTRIES // len(findings.plan.releases)))
    columns = found.most_exposed(np.arange(found.lower.size), count)
    roles = _present(findings, found, columns)
    _mark_used(roles, findings, found, columns)
    if found.comparable and found.identifiable.any():
        _mark_needed(roles, findings, found, columns)
    visible, counts, signatures = found.visible, found.counts, found.linear.first_signatures(columns)
    return tuple(
        MapColumn(
            signature=findings.membership.signature_number(int(signature)),
            size=int(counts[column]),
            category=found.linear.category(int(column)),
            identifiable=bool(visible[column]),
            remaining_uncertainty=found.bracket(int(column)),
            roles="".join(entries),
            label=label,
        )
        for column, signature, entries, label in zip(
            columns, signatures, roles.T.tolist(), _labels(findings, signatures), strict=True
        )
    )


def _labels(findings: Findings, signatures: IndexArray) -> tuple[str, ...]:
    """The names of the first signatures; more than these no figure shows."""
    named = signature_names(findings, signatures[:_MOST_NAMED])
    return named + ("",) * (signatures.size - len(named))


def _present(findings: Findings, found: LinearFindings, columns: IndexArray) -> NDArray[np.str_]:
    """Releases × columns."""
    membership = findings.membership
    rows = membership.signatures[found.linear.first_signatures(columns)] >= 0
    roles = np.full((len(findings.plan.releases), columns.size), Role.ABSENT.value, dtype="<U1")
    for p, part in enumerate(membership.partitions):
        roles[part.query, rows[:, p]] = Role.PRESENT.value
    return roles


def _mark_used(
    roles: NDArray[np.str_], findings: Findings, found: LinearFindings, columns: IndexArray
) -> None:
    writer, query_of_row = RecipeWriter(findings=findings, found=found), found.linear.query_of_row
    for position in np.flatnonzero(found.visible[columns]).tolist():
        recipe = writer.weights(int(columns[position]))
        if recipe is not None:
            weights = np.abs(recipe)
            roles[query_of_row[weights > _NOTHING * weights.max()], position] = Role.USED.value


def _mark_needed(
    roles: NDArray[np.str_], findings: Findings, found: LinearFindings, columns: IndexArray
) -> None:
    for query in found.linear.queries.tolist():
        others = findings.without(query)
        kept = np.zeros(columns.size, dtype=np.bool_) if others is None else others.identifiable[columns]
        roles[query, found.identifiable[columns] & ~kept] = Role.NEEDED.value
