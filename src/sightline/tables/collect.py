"""Ask an engine who falls into which published cell, in a handful of queries; only counts leave it.

Every release is read as computed on the rows that have a secret and a record key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InvalidPlan
from sightline.tables.cells import Cut, cut, signature_table
from sightline.tables.encoding import Encoding, Words, encode
from sightline.tables.engines.engine import DATA, Column, Engine, Kind
from sightline.tables.membership import Cell, Feature, Membership, Partition
from sightline.tables.rows import Rows, audited_rows, literal, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import Piece, ReleaseQuery, read_condition

Progress = Callable[[str], None]
MOST_CATEGORIES = 1_000
_TOGETHER = 200  # conditions answered by one query


def collect(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    *,
    record: str,
    secret: str,
    secret_kind: Kind,
    bounds: tuple[float, float] | None = None,
    categories: Sequence[str] | None = None,
    known: Sequence[str] = (),
    contribution_limit: int | None = None,
    progress: Progress | None = None,
) -> Membership:
    """The signatures of all rows with a secret, their numbers, and the cells that the queries publish.

    ``known`` are conditions on public columns and the record key: rows that meet any of them are counted as
    known to the attacker. ``categories`` is the domain of a text secret (by default the categories in the
    data). ``contribution_limit`` is the most rows that one record may have; the data are checked against
    it.
    """
    tell = progress or (lambda step: None)
    columns = engine.columns()
    rows = audited_rows(queries, columns=columns, record=record, secret=secret, secret_kind=secret_kind)
    told = told_by(known, columns=columns, secret=secret)

    tell("counting rows and records")
    total, present, clipped = _totals(engine, rows, outside=_outside(rows, bounds, categories))
    records, contributions = _contributions(engine, rows)
    if contribution_limit is not None and contributions > contribution_limit:
        several = "rows" if contribution_limit > 1 else "row"
        refuse(
            f"at most {contribution_limit} {several} per record, the declared contribution limit",
            got=f"{contributions} rows of one record",
            fix="raise the limit, or keep fewer rows per record",
        )
    _check_lookups(engine, rows, present)

    tell("numbering the published cells")
    partitions, pieces = expand(engine, rows, queries, categories)
    try:
        encoding = encode(engine, pieces, rows=rows)
        tell("listing signatures")
        words, counts, known_counts = _signatures(engine, encoding, told)
    except InvalidPlan as error:
        raise _blamed(engine, rows, queries, error) from None

    tell("naming the cells")
    cuts = [cut(encoding.atoms, parts, words, counts) for parts in encoding.layouts]
    shares = _shares(engine, encoding, cuts, contributions)
    cells = tuple(
        Cell(partition=position, key=key, rows=int(number), largest_share=int(share))
        for position, index in enumerate(encoding.layout_of)
        for key, number, share in zip(cuts[index].keys, cuts[index].rows, shares[index], strict=True)
    )
    return Membership(
        partitions=partitions,
        cells=cells,
        signatures=signature_table(cuts, encoding.layout_of) if cuts else np.empty((1, 0), np.int16),
        counts=counts,
        known=known_counts,
        rows=present,
        records=records,
        contributions=contributions,
        dropped=total - present,
        clipped=clipped,
    )


def told_by(known: Sequence[str], *, columns: Sequence[Column], secret: str) -> str:
    """The condition that a row is known to the attacker, as SQL; empty if none is."""
    return " OR ".join(f"({read_condition(text, columns=columns, secret=secret)})" for text in known)


def expand(
    engine: Engine, rows: Rows, queries: Sequence[ReleaseQuery], categories: Sequence[str] | None
) -> tuple[tuple[Partition, ...], tuple[Piece, ...]]:
    """Partitions and their pieces, in step; a histogram of a text secret becomes one of each per category."""
    if categories is None and any(_is_histogram(piece) for query in queries for piece in query.pieces):
        categories = _categories(engine, rows)
    partitions: list[Partition] = []
    pieces: list[Piece] = []
    for position, query in enumerate(queries):
        expanded = [
            (piece, name, parameter)
            for piece in query.pieces
            for name, parameter in (
                [(f"{piece.label} = {one}", one) for one in categories or ()]
                if _is_histogram(piece)
                else [(piece.label if piece.above else f"{piece.label}, complement", piece.parameter)]
            )
        ]
        for piece, name, parameter in expanded:
            pieces.append(replace(piece, parameter=parameter))
            partitions.append(
                Partition(
                    query=position,
                    name=query.name if len(expanded) == 1 else f"{query.name}: {name}",
                    statistic=piece.statistic,
                    feature=piece.feature,
                    parameter=parameter,
                    above=piece.above,
                    label="" if len(expanded) == 1 else name,
                )
            )
    return tuple(partitions), tuple(pieces)


def _is_histogram(piece: Piece) -> bool:
    return piece.feature is Feature.INDICATOR and piece.parameter is None


def _categories(engine: Engine, rows: Rows) -> list[str]:
    found = engine.fetch(
        f"SELECT DISTINCT {rows.secret} AS k FROM {rows.source()} LIMIT {MOST_CATEGORIES + 1}"
    )["k"]
    if len(found) > MOST_CATEGORIES:
        refuse(
            f"at most {MOST_CATEGORIES:,} categories of the secret",
            got="more",
            fix="group the categories in the table, or declare the list",
        )
    return sorted(map(str, found))


def _outside(rows: Rows, bounds: tuple[float, float] | None, categories: Sequence[str] | None) -> str:
    if bounds is not None:
        return f"{rows.secret} < {bounds[0]!r} OR {rows.secret} > {bounds[1]!r}"
    if categories is not None:
        return f"{rows.secret} NOT IN ({', '.join(map(literal, categories))})" if categories else "TRUE"
    return "FALSE"


def _totals(engine: Engine, rows: Rows, *, outside: str) -> tuple[int, int, int]:
    inside = "CAST(COALESCE(SUM(CASE WHEN {} THEN 1 ELSE 0 END), 0) AS BIGINT)"
    answer = engine.fetch(
        f"SELECT COUNT(*) AS total, {inside.format(rows.present)} AS present, "
        f"{inside.format(f'({rows.present}) AND ({outside})')} AS clipped FROM {quoted(DATA)}"
    )
    total, present, clipped = (int(answer[name][0]) for name in ("total", "present", "clipped"))
    if total == 0:
        refuse("rows in the table", got="an empty table", fix="check the data source")
    if present == 0:
        refuse(
            "rows with a record key and a finite secret",
            got=f"none among {total:,} rows",
            fix="check which columns the plan names",
        )
    return total, present, clipped


def _contributions(engine: Engine, rows: Rows) -> tuple[int, int]:
    per_record = f"SELECT {rows.record} AS r, COUNT(*) AS n FROM {rows.source()} GROUP BY {rows.record}"
    answer = engine.fetch(f"SELECT COUNT(*) AS records, MAX(n) AS most FROM ({per_record}) AS counted")
    return int(answer["records"][0]), int(answer["most"][0])


def _check_lookups(engine: Engine, rows: Rows, present: int) -> None:
    """A lookup keeps every row once; if a row finds two matches, its record would be published twice."""
    for join in rows.joins:
        joined = int(engine.fetch(f"SELECT COUNT(*) AS n FROM {rows.source(join.alias)}")["n"][0])
        if joined != present:
            refuse(
                f'at most one row of "{join.table}" for each row of data',
                got=f"{joined:,} rows where data has {present:,}",
                fix="make the joined columns unique in that table",
            )


def _signatures(
    engine: Engine, encoding: Encoding, told: str
) -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = [f"{text} AS {name}" for text, name in zip(encoding.words, names, strict=True)]
    numbers = ["COUNT(*) AS n"]
    if told:
        listed.append(f"CASE WHEN {told} THEN 1 ELSE 0 END AS told")
        numbers.append("CAST(SUM(told) AS BIGINT) AS told")
    coded = f"SELECT {', '.join(listed) or '1'} FROM {encoding.coded_source()}"
    by = ", ".join(names)
    answer = engine.fetch(
        f"SELECT {', '.join([*names, *numbers])} FROM ({coded}) AS coded"
        + (f" GROUP BY {by} ORDER BY {by}" if by else "")
    )
    counts = _whole(answer["n"])
    known = _whole(answer["told"]) if told else np.zeros(len(counts), dtype=np.int64)
    words = np.empty((len(names), len(counts)), dtype=np.int64)
    for word, name in zip(words, names, strict=True):
        word[:] = answer.pop(name)
    return words, counts, known


def _shares(engine: Engine, encoding: Encoding, cuts: Sequence[Cut], contributions: int) -> list[list[int]]:
    """For each cell of each cut the most rows that a single record has in it."""
    shares = [[contributions] * len(one.rows) for one in cuts]
    if contributions == 1:
        return shares
    single = [position for position, one in enumerate(cuts) if _is_single(encoding, one)]
    for start in range(0, len(single), _TOGETHER):
        together = single[start : start + _TOGETHER]
        answer = engine.fetch(_single_shares(encoding, [cuts[position].atoms[0] for position in together]))
        for position in together:
            most = int(answer[f"a{cuts[position].atoms[0]}"][0])
            shares[position] = [most] * len(cuts[position].rows)
    for position, one in enumerate(cuts):
        if one.atoms and position not in single:
            shares[position] = _keyed_shares(engine, encoding, one)
    return shares


def _is_single(encoding: Encoding, one: Cut) -> bool:
    return len(one.atoms) == 1 and encoding.atoms[one.atoms[0]].key is None


def _single_shares(encoding: Encoding, parts: Sequence[int]) -> str:
    """The largest shares of many conditions without GROUP BY, in one pass over the records."""
    sums = ", ".join(f"SUM({encoding.atoms[part].code('')}) AS a{part}" for part in parts)
    record = encoding.rows.record
    counted = f"SELECT {sums} FROM {encoding.coded_source(record, only=parts)} GROUP BY {record}"
    return f"SELECT {', '.join(f'MAX(a{part}) AS a{part}' for part in parts)} FROM ({counted}) AS counted"


def _keyed_shares(engine: Engine, encoding: Encoding, one: Cut) -> list[int]:
    names = [f"a{part}" for part in one.atoms]
    codes = ", ".join(f"{encoding.atoms[part].code(f'd{part}')} AS a{part}" for part in one.atoms)
    by = ", ".join(names)
    coded = f"SELECT {codes}, {encoding.rows.record} AS r FROM {encoding.coded_source(only=one.atoms)}"
    counted = f"SELECT {by}, r, COUNT(*) AS n FROM ({coded}) AS coded GROUP BY {by}, r"
    answer = engine.fetch(f"SELECT {by}, MAX(n) AS most FROM ({counted}) AS counted GROUP BY {by}")
    listed = zip(*(answer[name].tolist() for name in names), strict=True)
    found = dict(zip(listed, answer["most"].tolist(), strict=True))
    return [int(found[tuple(row)]) for row in one.codes.tolist()]


def _blamed(engine: Engine, rows: Rows, queries: Sequence[ReleaseQuery], error: InvalidPlan) -> InvalidPlan:
    """The same refusal, with the name of the first release that the engine cannot run by itself."""
    for query in queries:
        for piece in query.pieces:
            guard = piece.condition or "TRUE"
            texts = [f"COUNT(CASE WHEN {guard} THEN {key} END)" for key in ("1", *piece.keys)]
            try:
                engine.fetch(f"SELECT {', '.join(texts)} FROM {rows.source(guard, *piece.keys)}")
            except InvalidPlan as own:
                return InvalidPlan(f'release "{query.name}": {own}')
    return error


def _whole(values: NDArray[np.generic]) -> NDArray[np.int64]:
    return np.ascontiguousarray(values, dtype=np.int64)
