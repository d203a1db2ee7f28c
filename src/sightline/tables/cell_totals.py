"""The sum of the secrets in every cell, for the owner only: one query for each way to group the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.arrays import FloatArray
from sightline.tables.cell_numbers import CellNumbers, SignatureCells
from sightline.tables.collect import SUM_OF_V, CountedTable
from sightline.tables.engines.protocol import Engine

_PER_QUERY = 200  # signatures


def cell_totals(engine: Engine, counted: CountedTable, cells: SignatureCells) -> FloatArray:
    """For every cell, partition after partition, the sum of the secrets that the attacker does not know."""
    each = [
        _layout_totals(engine, counted, parts, numbers)
        for parts, numbers in zip(counted.encoding.layouts, cells.layouts, strict=True)
    ]
    return np.concatenate([each[index] for index in cells.layout_of])


def words_totals(engine: Engine, counted: CountedTable, words: Sequence[tuple[int, ...]]) -> FloatArray:
    """The same for every signature of some, given by their words."""
    encoding = counted.encoding
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = ", ".join(f"{text} AS {name}" for text, name in zip(encoding.words, names, strict=True))
    coded = f"SELECT {listed}, {counted.unknown_secret} AS v FROM {encoding.coded_source(*_texts(counted))}"
    by = ", ".join(names)
    found: dict[tuple[int, ...], float] = {}
    for start in range(0, len(words), _PER_QUERY):
        wanted = " OR ".join(
            "(" + " AND ".join(f"{name} = {int(word)}" for name, word in zip(names, own, strict=True)) + ")"
            for own in words[start : start + _PER_QUERY]
        )
        answer = engine.fetch(f"SELECT {by}, {SUM_OF_V} FROM ({coded}) AS coded WHERE {wanted} GROUP BY {by}")
        listed_words = zip(*(answer[name].tolist() for name in names), strict=True)
        found.update(zip(listed_words, answer["total"].tolist(), strict=True))
    return np.array([found.get(own, 0.0) for own in words], dtype=np.float64)


def _layout_totals(
    engine: Engine, counted: CountedTable, parts: tuple[int, ...], numbers: CellNumbers
) -> FloatArray:
    encoding = counted.encoding
    names = [f"a{part}" for part in parts]
    codes = "".join(f"{encoding.coded_keys[part].code(f'd{part}')} AS a{part}, " for part in parts)
    source = encoding.coded_source(*_texts(counted), only=parts)
    coded = f"SELECT {codes}{counted.unknown_secret} AS v FROM {source}"
    by = f" GROUP BY {', '.join(names)}" if names else ""
    answer = engine.fetch(f"SELECT {', '.join([*names, SUM_OF_V])} FROM ({coded}) AS coded{by}")
    number = np.zeros(len(answer["total"]), dtype=np.int64)
    for name, place in zip(names, numbers.layout.keys, strict=True):
        number = number * place.size + answer[name].astype(np.int64)
    inside = np.flatnonzero(numbers.layout.met(number))
    totals = np.zeros(numbers.occurring.size)
    totals[np.searchsorted(numbers.occurring, number[inside])] = answer["total"].astype(np.float64)[inside]
    return totals


def _texts(counted: CountedTable) -> tuple[str, ...]:
    """What the source must make visible besides the keys."""
    return counted.rows.secret, counted.known
