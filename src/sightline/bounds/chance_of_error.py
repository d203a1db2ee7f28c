"""One chance that anything is wrong of what an audit simulates, divided among its assessments.

Ends by listed worlds, by walks and by walked guesses have margins that hold but for a chance. An audit
assesses its design often: for every question, belief, stage and change that is tried. That anything in all of
them is wrong has the chance :data:`OF_AN_AUDIT`. Each gets the same part of it, so that a number does not
depend on what else was computed; after :data:`MOST_ASSESSMENTS` of a kind nothing is simulated any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum

OF_AN_AUDIT = 1e-6
MOST_ASSESSMENTS = 10_000


class Simulated(StrEnum):
    """What is simulated in an assessment."""

    WORLDS = "worlds"
    WALK = "walk"
    GUESSES = "guesses"


_SHARES = {Simulated.WORLDS: 1 / 4, Simulated.WALK: 1 / 2, Simulated.GUESSES: 1 / 4}


class Taken(Counter[Simulated]):
    """How many assessments of each kind an audit has made."""


_taken: ContextVar[Taken | None] = ContextVar("taken", default=None)


def chance_of(kind: Simulated) -> float:
    """The chance of error of one assessment.

    >>> f"{chance_of(Simulated.WALK):g}"
    '5e-11'
    """
    return OF_AN_AUDIT * _SHARES[kind] / MOST_ASSESSMENTS


def may_simulate(kind: Simulated) -> bool:
    """Whether the audit has a chance of error left for one assessment more, which it takes.

    >>> with one_budget():
    ...     told = [may_simulate(Simulated.WALK) for _ in range(MOST_ASSESSMENTS + 1)]
    >>> sum(told), told[-1], may_simulate(Simulated.WALK)
    (10000, False, True)
    """
    taken = _taken.get()
    if taken is None:
        return True
    taken[kind] += 1
    return taken[kind] <= MOST_ASSESSMENTS


@contextmanager
def one_budget(taken: Taken | None = None) -> Iterator[None]:
    """Everything within is one audit, which goes on from what it has ``taken``; or part of an outer one."""
    if _taken.get() is not None:
        yield
        return
    token = _taken.set(Taken() if taken is None else taken)
    try:
        yield
    finally:
        _taken.reset(token)
