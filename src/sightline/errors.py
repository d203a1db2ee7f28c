"""The errors of Sightline. Every message says what was expected, what was given and what to do."""

from __future__ import annotations

import re
from typing import Any

# A user and a password before the host, or cut off before the @; and settings that hold one.
# One slash: a path takes the other one away.
_IN_ADDRESS = re.compile(
    r"""\b([A-Za-z][\w+.-]+:/{1,2})(?:[^\s'"]*(@)|[^\s/@'":]+:(?!\d{1,5}(?:[/?\s'"]|$))[^\s'"]*)"""
)
_IN_SETTING = re.compile(
    r"""(?i)((?<=[?&;])\w*(?:token|secret|sig|key)|\b\w*(?:password|passwd|pwd))=[^\s&;'"]+"""
)


def without_passwords(text: str) -> str:
    """A text without the users, passwords and tokens of addresses in it, wherever somebody wrote one.

    >>> without_passwords("column 'postgresql://ann:hush@db/grid?sslpassword=hush' is not in the table")
    "column 'postgresql://…@db/grid?sslpassword=…' is not in the table"
    """
    if "=" in text:
        text = _IN_SETTING.sub(r"\1=…", text)
    return _IN_ADDRESS.sub(lambda found: f"{found.group(1)}…{found.group(2) or ''}", text)


class SightlineError(Exception):
    """The base class of all errors that Sightline raises; the CLI prints them on one line."""

    def __str__(self) -> str:
        return without_passwords(super().__str__())


class InvalidInput(SightlineError, ValueError):
    """An argument that no result can be computed from."""


class InvalidBudget(InvalidInput):
    """A privacy budget, or a way of spending it, from which no noise can be computed."""


class InvalidRelease(InvalidInput):
    """A query that does not describe a publishable aggregate."""


class InvalidNoise(InvalidInput):
    """Noise that is not a distribution with finite, positive spread."""


class InvalidPlan(InvalidInput):
    """A plan, or data that it names, that cannot be audited."""


class DamagedLedger(SightlineError):
    """A ledger whose files are not as they were written; the CLI exits with 3."""


class TooMuchWork(SightlineError):
    """Work that needs more memory or time than is allowed."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C after an audit had its verdict: ``result`` has what was known by then, and says so."""

    def __init__(self, result: Any) -> None:
        super().__init__("the audit was interrupted")
        self.result = result


class MissingExtra(SightlineError, ImportError):
    """An optional dependency that the called feature needs is not installed."""


class Undecided(SightlineError):
    """The code asks for a yes or no, and the numbers do not decide it."""


def require(
    condition: bool,
    expected: str,
    *,
    got: object,
    fix: str = "",
    error: type[InvalidInput] = InvalidInput,
) -> None:
    """Raise ``error`` unless ``condition`` holds; the message is *expected, got, fix*.

    ``got`` is printed: describe an array by its shape or by the offending position, never by the
    values of records.

    >>> require(0.5 > 0, "radius > 0", got=0.5)
    >>> require(-1 > 0, "radius > 0", got=-1, fix="give the largest change of one record's value")
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidInput: expected radius > 0, got -1; give the largest change of one record's value
    """
    if not condition:
        raise error(f"expected {expected}, got {got}" + (f"; {fix}" if fix else ""))


def require_plan(condition: bool, expected: str, *, got: object, fix: str = "") -> None:
    """Refuse a plan unless ``condition`` holds: :func:`require` with :class:`InvalidPlan`."""
    require(condition, expected, got=got, fix=fix, error=InvalidPlan)
