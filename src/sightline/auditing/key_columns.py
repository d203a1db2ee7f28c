"""Which columns of a GROUP BY are keys of persons; a publishable result withholds their values."""

from __future__ import annotations

from collections import Counter

from sightline.tables.membership import Membership

WITHHELD = "(withheld)"


def key_columns(membership: Membership) -> tuple[frozenset[int], ...]:
    """For every partition, the positions in its cells' keys that are as good as a person's key.

    Those are the positions where at least half of the values stand in no more rows than one record can have:
    the record's own column always, and columns such as an account or a meter number.
    """
    rows: list[dict[int, Counter[str]]] = [{} for _ in membership.partitions]
    for cell in membership.cells:
        for position, value in enumerate(cell.key):
            rows[cell.partition].setdefault(position, Counter())[value] += cell.rows
    most = membership.contributions
    return tuple(
        frozenset(
            position
            for position, totals in columns.items()
            if 2 * sum(total <= most for total in totals.values()) >= len(totals)
        )
        for columns in rows
    )


def publishable_key(key: tuple[str, ...], columns: frozenset[int]) -> tuple[str, ...]:
    """A cell's key without what stands in some columns.

    >>> publishable_key(("H13", "north"), frozenset({0}))
    ('(withheld)', 'north')
    """
    return tuple(WITHHELD if position in columns else value for position, value in enumerate(key))
