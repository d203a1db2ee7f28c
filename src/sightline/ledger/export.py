"""The ledger's table as a file, for the plan of everything: a column for each release, and no one's values.

``SELECT r14, AVG(x) FROM data WHERE r14 IS NOT NULL GROUP BY r14`` is what release 14 published: the column
``r14`` has the group that the person was in. Where numbers are published, the secret's column holds values
that give every release its true sums; what an audit reads from single values was found when each was made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import lsqr

from sightline.arrays import FloatArray
from sightline.ledger.history import KNOWN, History
from sightline.ledger.storage import files
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.subject import SecretKind


def write_table(past: History, path: Path) -> None:
    """Write the table of a history as Parquet."""
    rows, data = past.rows, past.plan.data
    labels = {one: past.label(one) for one in np.unique(rows.person).tolist()}
    columns: dict[str, NDArray[Any]] = {
        "label": np.array([labels[one] for one in rows.person.tolist()], dtype=object),
        KNOWN: rows.known,
    }
    value = "TRUE"
    if data.secret_kind is SecretKind.NUMBER:
        value, columns["value"] = "value", _fitted(past)
    elif data.categories:
        value = literal(data.categories[0])
    listed = [f"label AS {quoted(data.record)}", f"{value} AS {quoted(data.secret)}", KNOWN]
    for section, (one, column) in enumerate(past.owners):
        numbers = one.numbers[column]
        columns[f"c{section}"] = rows.codes[section]
        # Of a list, the entry before the first one is NULL.
        groups = ", ".join(map(literal, numbers.groups))
        listed.append(f"([{groups}])[c{section} + 1] AS {quoted(numbers.column)}")
        if numbers.weight:
            columns[numbers.weight] = rows.weights[section]
            listed.append(quoted(numbers.weight))
    with files() as connection:
        connection.register("frozen", columns)
        connection.sql(f"SELECT {', '.join(listed)} FROM frozen").write_parquet(str(path), compression="zstd")


def _fitted(past: History) -> FloatArray:
    """Values between the bounds that give every sum and mean its true sum, as far as there are such values.

    They start from a draw, because equal values of a group would look as if the group decided on them. Rows
    of one person that hold one value get one.
    """
    rows, (low, high) = past.rows, past.plan.data.domain
    unit = rows.person if past.plan.data.values == "constant" else np.arange(rows.person.size)
    drawn = np.random.default_rng(0).uniform(low, high, int(unit.max(initial=0)) + 1)
    lines, entries = [], []
    true: list[float] = []
    for section, (one, column) in enumerate(past.owners):
        for place, aggregate in enumerate(one.numbers[column].aggregates if one.found else ()):
            if aggregate.feature != "value":
                continue
            assert one.found is not None
            inside = np.flatnonzero((rows.codes[section] >= 0) & ~rows.known)
            lines.append(np.stack([len(true) + rows.codes[section][inside].astype(np.intp), unit[inside]]))
            entries.append(rows.weights[section][inside])
            true += one.found.sums[column][place]
    if true:
        placed = np.concatenate(lines, axis=1)
        matrix = coo_array((np.concatenate(entries), placed), shape=(len(true), drawn.size)).tocsr()
        drawn += least_change(matrix, np.array(true) - matrix @ drawn)
    return np.asarray(np.clip(drawn, low, high)[unit])


def least_change(matrix: csr_array, missing: FloatArray) -> FloatArray:
    r"""The least x with :math:`A x = b`, or nearest to it. Units in the same numbers change alike.

    So of n equal columns one is left, times :math:`\sqrt n`: a ledger has many people and few groups.

    >>> least_change(csr_array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), np.array([6.0, 4.0])).round(9).tolist()
    [3.0, 3.0, 2.0]
    """
    marks = np.random.default_rng(0).standard_normal((2, len(missing)))  # equal columns have equal sums
    _, first, column, alike = np.unique(
        matrix.T @ (marks[0] + 1j * marks[1]), return_index=True, return_inverse=True, return_counts=True
    )
    root = np.sqrt(alike)
    found = lsqr(matrix[:, first].multiply(root).tocsr(), missing, atol=1e-12, btol=1e-12)[0]
    return np.asarray((found / root)[column])
