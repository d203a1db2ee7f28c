"""Which columns of a table may be the record and the secret, and why.

Three things speak for a column: the words of its name, its type, and whether its values repeat. A guess is
made only where one column alone has a name that says it. Otherwise there are candidates, and people decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sightline.tables.engines.protocol import DATA, Column, ColumnKind, Engine
from sightline.tables.sql.fragments import quoted

_ROWS = 100_000  # that are looked at
_CELLS = 2_000_000  # and no more values than this: a second
_MANY = 20  # distinct values of a number
_MOST_GROUPS = 50  # distinct values of a column to group by
_LEAST_WIDE = 4  # columns with one name and a running number
_MOST_CANDIDATES = 6


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PERSON = _set(
    "person people patient customer client user member household home house employee worker respondent "
    "subscriber resident citizen student pupil meter subject participant firm company borrower tenant donor "
    "driver passenger guest voter individual taxpayer farm school pid uid ssn seqn"
)
_KEY = _set("id ids key nr no num number uuid identifier ref")
_SENSITIVE = _set(
    "income salary salaries wage wages pay earnings revenue turnover spend spending spent amount balance "
    "debt loan rent donation cost costs charge charges bill tax watt watts kw kwh mwh power load consumption "
    "usage "
    "energy diagnosis disease ill illness hiv infected cancer drug bmi weight cholesterol glucose pressure "
    "pregnant religion vote orientation smoker grade sales profit"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """A column, the words of its name, and what its first rows are like."""

    column: Column
    words: frozenset[str]
    distinct: int
    unique: bool  # a different value in every row, and none missing
    whole: bool  # whole numbers only

    @property
    def may_be_key(self) -> bool:
        return self.distinct > 1 and (
            self.column.kind is ColumnKind.TEXT or (self.column.kind is ColumnKind.NUMBER and self.whole)
        )

    @property
    def may_be_secret(self) -> bool:
        return self.column.kind in (ColumnKind.NUMBER, ColumnKind.BOOLEAN, ColumnKind.TEXT)

    @property
    def may_group(self) -> bool:
        """Whether it looks public, with groups of several rows."""
        return (
            self.column.kind in (ColumnKind.TEXT, ColumnKind.BOOLEAN)
            and 1 < self.distinct <= _MOST_GROUPS
            and not self.unique
            and not self.words & (_SENSITIVE | _PERSON | _KEY)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A column that may be meant, and what speaks for it."""

    name: str
    reasons: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnGuess:
    """The column that is meant, if one alone can be; and all that may be, the likeliest first."""

    sure: Candidate | None
    candidates: tuple[Candidate, ...]


def facts_of(engine: Engine) -> tuple[ColumnFacts, ...]:
    """Look at the first rows of the table: how many values each column has. Values are not kept."""
    columns = engine.columns()
    looked = [c for c in columns if c.kind in (ColumnKind.TEXT, ColumnKind.NUMBER, ColumnKind.BOOLEAN)]
    rows = max(1_000, min(_ROWS, _CELLS // max(1, len(looked))))
    listed = ", ".join(f"{quoted(column.name)} AS c{place}" for place, column in enumerate(looked))
    answer = engine.fetch(f"SELECT {listed or 1} FROM {quoted(DATA)} LIMIT {rows}")
    values = {
        column: [one for one in answer[f"c{place}"].tolist() if one is not None and one == one]
        for place, column in enumerate(looked)
    }
    number = len(next(iter(answer.values())))
    return tuple(
        ColumnFacts(
            column=column,
            words=_words(column.name),
            distinct=(distinct := len(set(values.get(column, ())))),
            unique=1 < distinct == number,
            whole=column.kind is not ColumnKind.NUMBER or all(one % 1 == 0 for one in values[column]),
        )
        for column in columns
    )


def guess_record(facts: Sequence[ColumnFacts]) -> ColumnGuess:
    """Guess whose row a row is: by the one column that is named after people, and after nothing else."""
    keys = [one for one in facts if one.may_be_key and not one.words & _SENSITIVE]
    named = [one for one in keys if one.words & _PERSON and one.words <= _PERSON | _KEY]
    others = [one for one in keys if one not in named and (one.words & (_PERSON | _KEY) or one.unique)]
    listed = (*named, *others)[:_MOST_CANDIDATES]
    candidates = tuple(Candidate(name=one.column.name, reasons=_key_reasons(one)) for one in listed)
    return ColumnGuess(sure=candidates[0] if len(named) == 1 else None, candidates=candidates)


def guess_secret(facts: Sequence[ColumnFacts], *, record: str | None) -> ColumnGuess:
    """Guess the column to protect: the one with a sensitive name, or the only one besides the record."""
    running = {name for group in wide_columns(facts) for name in group}
    free = [one for one in facts if one.may_be_secret and one.column.name not in {record, *running}]
    named = [one for one in free if one.words & _SENSITIVE]
    many = [
        one
        for one in free
        if one not in named
        and one.column.kind is ColumnKind.NUMBER
        and one.distinct >= _MANY
        and not one.words & (_PERSON | _KEY)
    ]
    only = free if record is not None and len(facts) == 2 else []
    listed = (named + many or only)[:_MOST_CANDIDATES]
    candidates = tuple(Candidate(name=one.column.name, reasons=_secret_reasons(one)) for one in listed)
    sure = candidates and (len(named) == 1 or (not named and bool(only))) and not running
    return ColumnGuess(sure=candidates[0] if sure else None, candidates=candidates)


def wide_columns(facts: Sequence[ColumnFacts]) -> list[list[str]]:
    """Columns of numbers with one name and a running number, such as h00, h01, …"""
    groups: dict[str, list[str]] = {}
    for one in facts:
        parts = re.fullmatch(r"(.*?\D|)\d+", one.column.name)
        if parts and one.column.kind is ColumnKind.NUMBER:
            groups.setdefault(parts.group(1), []).append(one.column.name)
    return [names for names in groups.values() if len(names) >= _LEAST_WIDE]


def _words(name: str) -> frozenset[str]:
    """The words of a name, in lower case.

    >>> sorted(_words("CustomerID")), sorted(_words("monthly_kWh")), sorted(_words("patientid"))
    (['customer', 'id'], ['kwh', 'monthly'], ['id', 'patient'])
    """
    spaced = re.sub(r"(?<=[a-z]{2})(?=[A-Z][a-z]|ID\b)", " ", name)
    found = set()
    for word in re.findall(r"[a-z]+", spaced.casefold()):
        if word not in _PERSON | _KEY and word.endswith("id") and word[:-2] in _PERSON:
            found |= {word[:-2], "id"}
        else:
            found.add(word)
    return frozenset(found)


def _key_reasons(one: ColumnFacts) -> str:
    reasons = []
    if one.words & _PERSON:
        reasons.append("its name says whose row it is")
    elif one.words & _KEY:
        reasons.append("its name is that of a key")
    reasons.append("a different value in every row" if one.unique else "its values repeat")
    return "; ".join(reasons)


def _secret_reasons(one: ColumnFacts) -> str:
    kinds = {ColumnKind.NUMBER: "a number", ColumnKind.BOOLEAN: "yes or no", ColumnKind.TEXT: "text"}
    named = ["its name is that of something private"] if one.words & _SENSITIVE else []
    many = " with many values" if one.column.kind is ColumnKind.NUMBER and one.distinct >= _MANY else ""
    return "; ".join([*named, kinds[one.column.kind] + many])
