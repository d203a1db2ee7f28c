"""The numbers that are really published: without those withheld.

Rows keep their signatures' places, so that an engine still finds them. Two signatures may then have the same
cells: ``Membership.distinct`` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from sqlglot import exp

from sightline.arrays import IndexArray
from sightline.tables.collect import expand
from sightline.tables.encoding import key_text
from sightline.tables.engines.protocol import DATA, Engine
from sightline.tables.membership import Cell, Membership
from sightline.tables.rows import Rows, audited_rows
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.grammar import parse_condition, parse_query, refuse, shown
from sightline.tables.sql.grouping import has_aggregate
from sightline.tables.sql.reader import PartitionQuery, ReleaseQuery
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Subject


def published(membership: Membership, *, withheld: Collection[int] = ()) -> Membership:
    """The membership without some cells, given by their positions; partitions without cells are left out."""
    if not withheld:
        return membership
    kept_cells = np.setdiff1d(np.arange(len(membership.cells)), np.array(list(withheld), dtype=np.intp))
    owner = np.array([cell.partition for cell in membership.cells], dtype=np.intp)
    kept = np.unique(owner[kept_cells])
    new_partition = np.full(len(membership.partitions), -1, dtype=np.intp)
    new_partition[kept] = np.arange(kept.size)
    cells = tuple(
        replace(membership.cells[c], partition=int(new_partition[owner[c]])) for c in kept_cells.tolist()
    )
    return replace(
        membership,
        partitions=tuple(membership.partitions[p] for p in kept),
        cells=cells,
        signatures=_signatures(membership, kept, kept_cells),
        weights=None if membership.weights is None else membership.weights[:, kept],
        distinct=False,
    )


def without_queries(membership: Membership, dropped: Collection[int]) -> Membership:
    """The membership without some of the plan's releases, and the others numbered anew."""
    if not dropped:
        return membership
    gone = [c for c, cell in enumerate(membership.cells) if _query(membership, cell) in dropped]
    found = published(membership, withheld=gone)
    kept = [query for query in range(_queries(membership)) if query not in dropped]
    place = {query: number for number, query in enumerate(kept)}
    return replace(
        found,
        partitions=tuple(
            replace(part, query=place[part.query]) for part in found.partitions if part.query in place
        ),
        unaudited=tuple(rows for query, rows in enumerate(membership.unaudited) if query in place),
    )


def _query(membership: Membership, cell: Cell) -> int:
    return membership.partitions[cell.partition].query


def _queries(membership: Membership) -> int:
    return max(len(membership.unaudited), 1 + max((part.query for part in membership.partitions), default=-1))


def _signatures(
    membership: Membership, kept: IndexArray, kept_cells: IndexArray
) -> np.ndarray[tuple[int, int], np.dtype[np.signedinteger]]:
    """The table of signatures over the partitions that are kept, with the new numbers of their cells."""
    starts, table = membership.starts, membership.signatures
    found = np.empty((len(kept), len(table)), dtype=table.dtype)
    for line, p in zip(found, kept, strict=True):
        stays = np.isin(np.arange(starts[p], starts[p + 1]), kept_cells)
        number = np.where(stays, np.cumsum(stays) - 1, -1)
        line[:] = np.append(number, -1)[table[:, p]]  # the last entry is for rows in no cell
    found.setflags(write=False)
    return found.T


_AGGREGATES = (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)
_ALLOWED = (
    *_AGGREGATES,
    *(exp.Distinct, exp.Star, exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between),
)


def suppressed_cells(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    subject: Subject,
    membership: Membership,
    *,
    release: int,
    condition: str,
) -> list[int]:
    """The positions of one release's cells whose groups meet a condition."""
    test = read_suppression(engine, queries[release], subject, condition)
    rows = audited_rows(queries, subject, engine.columns())
    _, partitions = expand(engine, rows, queries, subject.categories)
    found: list[int] = []
    groups: dict[tuple[str | None, tuple[str, ...]], dict[tuple[str, ...], bool]] = {}
    for p, (partition, query) in enumerate(zip(membership.partitions, partitions, strict=True)):
        if partition.query != release:
            continue
        mark = (query.condition, query.keys)
        if mark not in groups:
            groups[mark] = _groups(engine, rows, query, test)
        for place in range(membership.starts[p], membership.starts[p + 1]):
            key = membership.cells[place].key
            if key not in groups[mark]:
                refuse("groups that their keys tell apart", got=", ".join(key), fix="use withhold")
            if groups[mark][key]:
                found.append(place)
    return found


def _groups(engine: Engine, rows: Rows, query: PartitionQuery, test: str) -> dict[tuple[str, ...], bool]:
    """For every group of a partition, by its key for people, whether it meets the test."""
    names = [f"k{number}" for number in range(len(query.keys))]
    listed = [f"{key} AS {name}" for key, name in zip(query.keys, names, strict=True)]
    where = f" WHERE {query.condition}" if query.condition else ""
    by = f" GROUP BY {', '.join(query.keys)}" if query.keys else ""
    answer = engine.fetch(
        f"SELECT {', '.join([*listed, f'CASE WHEN {test} THEN 1 ELSE 0 END AS met'])} "
        f"FROM {rows.every_row(query.condition, *query.keys)}{where}{by}"
    )
    met = [bool(value) for value in answer["met"].tolist()]
    columns = [["NULL" if v is None else key_text(v) for v in answer[name].tolist()] for name in names]
    keys = list(zip(*columns, strict=True)) if columns else [()] * len(met)
    if len(set(keys)) < len(keys):
        refuse(
            "suppress for groups that their keys tell apart",
            got="two groups that read alike",
            fix="use withhold, or name the groups apart",
        )
    return dict(zip(keys, met, strict=True))


def read_suppression(engine: Engine, query: ReleaseQuery, subject: Subject, condition: str) -> str:
    """The condition as SQL for our own queries; refused if it depends on the secret."""
    dialect = engine.dialect
    _check_release(query, dialect, subject)
    test = exp.Paren(this=parse_condition(condition, dialect))
    for node in test.walk():
        if not isinstance(node, _ALLOWED):
            refuse(
                "suppress with COUNT(*) and other aggregates of public columns, compared with constants",
                got=shown(node),
                fix="for example COUNT(*) < 10",
            )
    if test.find(*_AGGREGATES) is None:
        refuse("suppress with an aggregate", got=shown(test), fix="for example COUNT(*) < 10")
    for column in list(test.find_all(exp.Column)):
        name = find_column(engine.columns(), column.name).name
        secret = subject.is_secret(name)
        if secret or column.table.casefold() not in ("", DATA):
            refuse(
                "suppress on public columns of data",
                got=f"{shown(column)} in {shown(test.this)}",
                fix="which groups are missing would tell something of the secret"
                if secret
                else "name a column of data",
            )
        table = exp.to_identifier(DATA, quoted=True)
        column.replace(exp.column(exp.to_identifier(name, quoted=True), table=table))
    return embedded(test.this, dialect)


def _check_release(query: ReleaseQuery, dialect: str, subject: Subject) -> None:
    """Refuse releases in which COUNT(*) depends on the secret, or is not the count of one set of rows."""
    select = parse_query(query.sql, dialect)
    source = select.args.get("from_")
    plain = isinstance(select, exp.Select) and source is not None and isinstance(source.this, exp.Table)
    others = ("with_", "having", "limit", "offset", "fetch", "distinct", "qualify")
    if not plain or any(select.args.get(part) for part in others):
        refuse(
            "suppress for one plain SELECT over data",
            got="WITH, a subquery, UNION ALL, HAVING or LIMIT",
            fix="write the opposite as HAVING",
        )
    for clause in ("where", "group"):
        part = select.args.get(clause)
        if part is not None and any(map(subject.is_secret, _columns(part))):
            refuse(
                f"suppress for a release without the secret in {clause.upper()}",
                got=shown(part),
                fix="how many rows a group has would depend on the secret",
            )
    for item in select.expressions:
        secret = [subject.is_secret(name) for name in _columns(item)]
        if has_aggregate(item) and any(secret) and not all(secret):
            refuse(
                "suppress for aggregates of the secret alone, over all rows of a group",
                got=shown(item),
                fix="write its condition in WHERE, or list the groups under withhold",
            )


def _columns(node: exp.Expr) -> set[str]:
    return {column.name.casefold() for column in node.find_all(exp.Column)}
