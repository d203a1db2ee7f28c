"""The most rows that one record has in each cell."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.tables.cells import RowGrouping
from sightline.tables.encoding import Encoding
from sightline.tables.engines.protocol import Engine

_CONDITIONS_PER_QUERY = 200


def largest_shares(
    engine: Engine, encoding: Encoding, groupings: Sequence[RowGrouping], contributions: int
) -> list[list[int]]:
    """For each cell of each grouping, the most rows that one record has in it."""
    shares = [[contributions] * len(grouping.rows) for grouping in groupings]
    if contributions == 1:
        return shares
    single = [position for position, grouping in enumerate(groupings) if _is_single(encoding, grouping)]
    for start in range(0, len(single), _CONDITIONS_PER_QUERY):
        batch = single[start : start + _CONDITIONS_PER_QUERY]
        answer = engine.fetch(
            _single_shares(encoding, [groupings[position].coded_keys[0] for position in batch])
        )
        for position in batch:
            most = int(answer[f"a{groupings[position].coded_keys[0]}"][0])
            shares[position] = [most] * len(groupings[position].rows)
    for position, grouping in enumerate(groupings):
        if grouping.coded_keys and position not in single:
            shares[position] = _keyed_shares(engine, encoding, grouping)
    return shares


def _is_single(encoding: Encoding, grouping: RowGrouping) -> bool:
    """Whether it is one cell: a condition without GROUP BY."""
    return len(grouping.coded_keys) == 1 and encoding.coded_keys[grouping.coded_keys[0]].key is None


def _single_shares(encoding: Encoding, parts: Sequence[int]) -> str:
    """A query for the largest shares of many conditions without GROUP BY, in one pass over the records."""
    sums = ", ".join(f"SUM({encoding.coded_keys[part].code('')}) AS a{part}" for part in parts)
    record = encoding.rows.record
    counted = f"SELECT {sums} FROM {encoding.coded_source(record, only=parts)} GROUP BY {record}"
    return f"SELECT {', '.join(f'MAX(a{part}) AS a{part}' for part in parts)} FROM ({counted}) AS counted"


def _keyed_shares(engine: Engine, encoding: Encoding, grouping: RowGrouping) -> list[int]:
    names = [f"a{part}" for part in grouping.coded_keys]
    codes = ", ".join(
        f"{encoding.coded_keys[part].code(f'd{part}')} AS a{part}" for part in grouping.coded_keys
    )
    by = ", ".join(names)
    coded = (
        f"SELECT {codes}, {encoding.rows.record} AS r FROM {encoding.coded_source(only=grouping.coded_keys)}"
    )
    counted = f"SELECT {by}, r, COUNT(*) AS n FROM ({coded}) AS coded GROUP BY {by}, r"
    answer = engine.fetch(f"SELECT {by}, MAX(n) AS most FROM ({counted}) AS counted GROUP BY {by}")
    listed = zip(*(answer[name].tolist() for name in names), strict=True)
    largest = dict(zip(listed, answer["most"].tolist(), strict=True))
    return [int(largest[tuple(row)]) for row in grouping.codes.tolist()]
