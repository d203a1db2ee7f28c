"""The settings of a what-if in words: who keeps least in each, and why a plan has none."""

from __future__ import annotations

from collections.abc import Callable

from sightline.advising.what_if import NoWhatIf, Worst
from sightline.auditing.result_parts import Fact, WhatIf


def what_if_in_words(found: WhatIf | None) -> WhatIf | None:
    """The settings, each with who keeps least; none where there are none."""
    if found is None:
        return None
    settings = tuple(
        one if one.whom is None else one.model_copy(update={"worst": words(one.whom)})
        for one in found.settings
    )
    return found.model_copy(update={"settings": settings})


def no_what_if(fact: Fact | None) -> str | None:
    """Why there is no what-if, in words."""
    return None if fact is None else words(fact)


def words(fact: Fact) -> str:
    """A fact in words."""
    return WORDS[fact.name](**fact.figures)


def _nothing_depends(some_known: bool) -> str:
    secret = "a secret that the attacker does not know" if some_known else "the secret"
    return f"nothing that is published depends on {secret}"


def _with_category(whom: str, category: str) -> str:
    return f"{whom}, {category}" if category else whom


def _alike(people: int, category: str) -> str:
    return _with_category(f"one of {people:,} records that nothing tells apart", category)


WORDS: dict[str, Callable[..., str]] = {
    NoWhatIf.NOTHING_DEPENDS: _nothing_depends,
    NoWhatIf.TOO_LARGE: lambda most: (
        f"it has more than {most:,} numbers, or too many people for so many of them"
    ),
    NoWhatIf.TOO_MANY_ROWS: lambda most: f"it has moments or thresholds of more than {most:,} rows",
    NoWhatIf.SHARED_NOISE: lambda: "its numbers share their noise",
    NoWhatIf.FIT: lambda: "releases are computed from the fit to others, which it would leave out",
    NoWhatIf.NO_NOISE: lambda: "no number has noise that could be more or less",
    NoWhatIf.OWN_BUDGETS: lambda: "its releases have budgets of their own",
    NoWhatIf.STREAMED: lambda: "the table is streamed",
    Worst.NOBODY: lambda: "nobody",
    Worst.RECORD: lambda category="": _with_category("one record", category),
    Worst.OF_QUESTION: lambda question: f"one record, about {question}",
    Worst.NAMED: lambda key, category: _with_category(key, category),
    Worst.ALIKE: _alike,
}
