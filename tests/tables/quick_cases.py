"""What tests need of the quick checks: the sizes of cells, and a check with other texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sightline.tables.membership import Membership
from sightline.tables.sql.check_query import QuickCheck
from sightline.tables.sql.reader import ReleaseQuery


def sizes_of(membership: Membership) -> dict[tuple[int, int], Counter[int]]:
    """The sizes of the cells of a release with one aggregate and one grouping set."""
    return {(0, 0): Counter(cell.rows for cell in membership.cells)}


def without_quick(queries: Sequence[ReleaseQuery]) -> list[ReleaseQuery]:
    """The releases with the check of every group alone."""
    return [
        replace(query, checks=tuple(one and replace(one, quick=None) for one in query.checks))
        for query in queries
    ]


def changed_texts(check: QuickCheck, before: str, after: str) -> QuickCheck:
    """The check with another text in place of every occurrence of one."""

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(before, after)
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{one.name: changed(getattr(value, one.name)) for one in fields(value)})
        return value

    found = changed(check)
    assert isinstance(found, QuickCheck)
    assert found != check
    return found
