"""The section on who is exposed: the most exposed records and groups, and how many keep how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.arrays import IndexArray
from sightline.auditing.findings import Findings, Keys, LinearFindings
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result import EDGES, Distribution, Exposed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExposedSection:
    """The list of the most exposed, and the numbers that belong to it."""

    exposed: tuple[Exposed, ...]
    columns: IndexArray  # of the linear design, for those of the list that are seen through it
    exposed_in_all: int  # the length of the whole list
    identifiable_records: int


def exposed_section(findings: Findings, *, top: int, names: bool, keys: Keys | None) -> ExposedSection:
    """The ``top`` most exposed, named if ``names``.

    ``keys`` fetches records' keys: to name them, and to count a record with several rows once.
    """
    exposed: tuple[Exposed, ...] = ()
    columns = np.zeros(0, dtype=np.intp)
    in_all = identifiable = 0
    if (found := findings.linear) is not None:
        columns = found.most_exposed(np.flatnonzero(found.listed), top)
        exposed = describe(findings, found, columns, keys if names else None)
        in_all = int(np.count_nonzero(found.listed))
        several = findings.membership.contributions > 1
        identifiable = _identifiable_records(found, keys if several else None)
    if findings.nonlinear is not None:
        exposed += findings.nonlinear.worst(top - len(exposed))
        in_all += findings.nonlinear.report().identifiable
    return ExposedSection(
        exposed=exposed, columns=columns, exposed_in_all=in_all, identifiable_records=identifiable
    )


def about_signatures(findings: Findings, signatures: Sequence[int]) -> tuple[Exposed, ...]:
    """What is seen of the rows with some signatures of the membership."""
    found = findings.linear
    if found is None:
        return ()
    linear = found.linear
    wanted = np.isin(linear.column_signature, linear.signature_of[list(signatures)])
    return describe(findings, found, np.flatnonzero(wanted & ~linear.known), None)


def distribution(findings: Findings) -> Distribution:
    """How many records keep how much, in the bins of ``EDGES``."""
    found = findings.linear
    if found is None:
        return Distribution(edges=EDGES, records=(0,) * (len(EDGES) - 1))
    lower = found.per_record(found.lower).min(axis=0)
    counts = found.per_record(found.counts)[0]
    unknown = counts > 0
    weights = counts[unknown].astype(np.float64)
    records, _ = np.histogram(lower[unknown], bins=np.array(EDGES), weights=weights)
    return Distribution(edges=EDGES, records=tuple(int(number) for number in records))


def describe(
    findings: Findings, found: LinearFindings, columns: IndexArray, keys: Keys | None
) -> tuple[Exposed, ...]:
    """The entries of some columns."""
    writer = RecipeWriter(findings=findings, found=found)
    named = _keys_of(found, columns, keys) if keys is not None else {}
    return tuple(_entry(found, int(column), writer, named) for column in columns)


def _entry(
    found: LinearFindings, column: int, writer: RecipeWriter, named: dict[int, tuple[str, ...]]
) -> Exposed:
    size = int(found.counts[column])
    recipe = writer.best(column)
    rmse = None if recipe is None else float(found.group_rmse(np.array([column]))[0])
    signatures = found.linear.signatures_of(column)
    owners = sorted({key for i in signatures for key in named.get(int(i), ())})
    return Exposed(
        record=", ".join(owners) if owners else None,
        signature=int(signatures[0]),
        size=size,
        category=found.linear.category(column),
        identifiable=recipe is not None,
        local=False,
        rmse=rmse,
        rmse_percent_of_range=None if rmse is None else 100 * rmse / (size * found.exposures.prior.width),
        remaining_uncertainty=found.bracket(column),
        releases=() if recipe is None else tuple(dict.fromkeys(step.release for step in recipe.steps)),
        recipe=recipe,
        shortest=None if recipe is None else writer.shortest(column),
    )


def _identifiable_records(found: LinearFindings, keys: Keys | None) -> int:
    """How many records are identifiable; ``keys`` tells which rows belong to one record."""
    columns = np.flatnonzero(found.exposures.identifiable)
    if keys is None or columns.size == 0:
        return found.identifiable_records
    return len({key for owners in _keys_of(found, columns, keys).values() for key in owners})


def _keys_of(found: LinearFindings, columns: IndexArray, keys: Keys) -> dict[int, tuple[str, ...]]:
    wanted = sorted({int(i) for column in columns for i in found.linear.signatures_of(int(column))})
    return keys(wanted) if wanted else {}
