"""How long work reports on itself: one callback, called with a stage and the share of it that is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

Progress: TypeAlias = Callable[[str, float], None]
Item = TypeVar("Item")


def silent(stage: str, share: float) -> None:
    """The default: report nothing."""


def counted(items: Sequence[Item], progress: Progress, stage: str = "computing") -> Iterator[Item]:
    """The items one by one; before each, report the share of them that is done.

    >>> [item for item in counted("ab", lambda stage, share: print(stage, share))]
    computing 0.0
    computing 0.5
    ['a', 'b']
    """
    for done, item in enumerate(items):
        progress(stage, done / len(items))
        yield item
