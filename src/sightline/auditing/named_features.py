"""What is seen of a record's rows by the names that people have for them: a period, the whole, one row.

The sharpest feature of a record with many rows is some combination of them. People ask about a month, the
year, an hour.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import cell_name
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result_parts import NamedFeature, Recipe, Uncertainty
from sightline.labeled.feature_brackets import PersonRows

_MOST_LISTED = 400  # periods of one record, the most exposed first


def named_features(findings: Findings, found: LinearFindings, column: int) -> tuple[NamedFeature, ...]:
    """The features of a record with several rows that have names, the one of which least is left first.

    None where the secret is a category: its features are counts of each.
    """
    linear = found.linear
    if linear.columns_of_unit > 1 or linear.rows_of_unit[column] == 1:
        return ()
    rows = PersonRows.of(found.exposure, column)
    named = [*_row(findings, found, rows, column), *_total(findings, found, rows, column)]
    named += _periods(findings, found, rows, column)
    return tuple(sorted(named, key=lambda one: one.remaining_uncertainty.upper))


def _row(findings: Findings, found: LinearFindings, rows: PersonRows, column: int) -> Iterator[NamedFeature]:
    """The row of which least is left."""
    one = sparse.eye_array(rows.times.size, format="csr")[:, rows.one_by_one]
    lower, upper = rows.brackets(one, one)
    best = int(np.argmin(upper))
    left = _uncertainty(findings, found, column, lower[best], upper[best])
    yield NamedFeature(kind="row", name="one row", rows=1, remaining_uncertainty=left)


def _total(
    findings: Findings, found: LinearFindings, rows: PersonRows, column: int
) -> Iterator[NamedFeature]:
    every = rows.times[:, None]
    (lower,), (upper,) = rows.brackets(every, every)
    left = _uncertainty(findings, found, column, lower, upper)
    yield NamedFeature(
        kind="total", name="all their rows", rows=int(rows.times.sum()), remaining_uncertainty=left
    )


def _periods(
    findings: Findings, found: LinearFindings, rows: PersonRows, column: int
) -> Iterator[NamedFeature]:
    """Of every published number that the record is in, the record's own part."""
    lower, upper = rows.brackets(rows.times[:, None] * rows.table, rows.times[:, None] * rows.table**2)
    writer, membership = RecipeWriter(findings=findings, found=found), findings.membership
    order = np.lexsort((rows.published, upper))
    for place in order[rows.published[order] >= 0][:_MOST_LISTED].tolist():
        cell = int(found.linear.cells[rows.published[place]])
        withheld = findings.key_columns[membership.cells[cell].partition]
        name, public = cell_name(membership, cell), cell_name(membership, cell, withheld=withheld)
        yield NamedFeature(
            kind="period",
            name=name,
            publishable_name=public if public != name else None,
            rows=int(rows.times[rows.table[:, place] != 0].sum()),
            remaining_uncertainty=_uncertainty(findings, found, column, lower[place], upper[place]),
            recipe=_alone(writer, rows, column, place),
        )


def _uncertainty(
    findings: Findings, found: LinearFindings, column: int, lower: float, upper: float
) -> Uncertainty:
    """Other releases than linear ones may leave less: then the lower end of all features counts."""
    least = float(found.lower[column]) if findings.has_nonlinear else float(lower)
    return Uncertainty(lower=min(least, float(upper)), upper=float(upper))


def _alone(writer: RecipeWriter, rows: PersonRows, column: int, place: int) -> Recipe | None:
    """A number that is this record's part of itself, or its difference from one that the record is not in.

    The difference of two rows is about one record alone iff its own part makes up all of the rows' products,
    which are whole numbers where weights are.
    """
    found, i = writer.found, int(rows.published[place])
    own: FloatArray = rows.table[:, place]
    if found.people[column] > 1:
        return None
    M = found.exposure.products.matrix
    line = M[i] if isinstance(M, np.ndarray) else M[[i]].toarray()[0]
    diagonal = np.asarray(M.diagonal())
    apart = np.append(diagonal[i] + diagonal - 2 * line, diagonal[i])
    starts = found.linear.units.starts
    apart[found.linear.table[:, starts[column] : starts[column + 1]].indices] = np.inf
    others = np.flatnonzero(apart == float(rows.times @ own**2))
    if not others.size:
        return None
    variance = np.append(found.linear.design.noise.variance, 0.0)
    weights = np.zeros(found.linear.row_count + 1)
    weights[[i, int(others[np.argmin(variance[others])])]] = 1.0, -1.0
    return writer.written(column, weights[:-1], own)
