"""A first plan for a table: columns are guessed where their names leave no doubt, and left open otherwise.

Three things speak for a column: the words of its name, its type, and whether its values repeat. A guess is
made only where one column alone has a name that says it. Otherwise there are candidates, and people decide.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from sightline.arrays import AT_A_TIME
from sightline.auditing.result_parts import FEW, MOST_LISTED, TOP
from sightline.errors import InvalidPlan, require_plan
from sightline.privacy.registry import ACCOUNTANTS
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import DATA, Column, ColumnKind, Engine
from sightline.tables.occurring import FEW_VALUES
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.scope import find_column
from sightline.values import frozen

_HEAD = """\
#:schema ./plan.schema.json
# For help in an editor:  sightline check --schema > plan.schema.json
#
# A plan for sightline: what will be published about a table, and what that lets an attacker see.
# Read it, say what is left open, change what is wrong, then run:  sightline audit {name}

[data]
source = {source}
{record}
{secret}
{domain}
{rows}
{public}
# tables = {{ regions = "regions.csv" }}    # public tables that the queries join

[privacy]
{privacy}    # far below one over the number of records
accountant = "gaussian-dp"    # {accountants}

[limits]
remaining_uncertainty = "50%"    # what everyone must keep; the audit exits with 2 if that is not shown
# accept = ["dropped"]    # assumptions that a pass may rest on: rows without a secret, say

# [attacker]
# knows = ["{known} = 'A7'"]    # rows whose secret the attacker knows already

# [[secret]]
# column = "income"    # one more secret column, which no release here may use

# Who is in which group is public: leave out releases by columns that are secret themselves.
"""
STARTER_BUDGET = "epsilon = {}    # the budget of everything below together"
_ONE_ROW = "# max_rows_per_record = 1    # the most rows that one record may have"
_MORE_ROWS = """\
# Several rows have the same {record}. SAY how many at most, and remove the # of the next lines.
# max_rows_per_record = 10    # the data are checked; or keep some rows of each, by sql
# values = "constant"       # if all rows of a record hold one value"""

# The reader fills this in: with a guess, values would be clipped, and the plan might pass.
_OPEN_DOMAIN = (
    "# SAY WHAT IT CAN BE and remove the first # of the next line; a guess from the data would reveal it."
)
_NUMBER = "# bounds = [0, 100]    # the smallest and the largest value"
_CATEGORY = '# categories = ["yes", "no"]    # all its values'
_DOMAINS = {
    ColumnKind.NUMBER: f"{_OPEN_DOMAIN}\n{_NUMBER}",
    ColumnKind.BOOLEAN: 'kind = "boolean"',
    ColumnKind.TEXT: f"{_OPEN_DOMAIN}\n{_CATEGORY}",
}
_ANY_DOMAIN = f'{_OPEN_DOMAIN}\n{_NUMBER}\n{_CATEGORY}\n# kind = "boolean"'
_MEANINGS = {
    "record": "the column that says whose row it is: the unit of privacy",
    "secret": "the column to protect",
}
_OPEN = {"record": "SAY WHOSE ROW IT IS", "secret": "SAY WHICH COLUMN TO PROTECT"}
# Columns of no table, which examples name until somebody names one.
_STAND_INS = {
    "record": Column("home", ColumnKind.OTHER),
    "secret": Column("SECRET", ColumnKind.OTHER),
}


@frozen(eq=True)
class StarterPlan:
    """The text of a first plan, and what was guessed or left open in it."""

    text: str
    notes: tuple[str, ...]
    closed: bool = False  # whether nothing is left for somebody to fill in


def starter_plan(  # many parameters: what is known of a plan before it is written
    source: str,
    *,
    out: Path,
    record: str = "",
    secret: str = "",
    stated: Mapping[str, str] = MappingProxyType({}),
    releases: Sequence[str] = (),
    used: Collection[str] = (),
) -> StarterPlan:
    """A commented plan for a table, to be written to ``out``.

    ``stated`` has the texts for ``domain``, ``rows`` and ``privacy`` that somebody decided, and ``releases``
    those of the releases, which use the names in ``used``, in lower case; without any, means over a few
    columns are proposed.

    A column that is not given is guessed if one alone can be meant, and the plan says why. Otherwise it is
    left open, with candidates, and the plan is refused until somebody fills it in. What a number or a
    category can be is always left open.
    """
    facts = _facts(source)
    columns = [one.column for one in facts]
    require_plan(len(columns) > 1, "a table with a key and a secret", got="1 column")
    key, hidden = _columns(facts, record, secret)
    if key.column == hidden.column:
        raise InvalidPlan(f'expected a record and a secret in two columns, got "{key.column.name}" as both')
    public = [one for one in facts if one.column not in (key.column, hidden.column)]
    groups = [one.column for one in public if one.may_group][:FEW]
    named = [one.column for one in public if one.column.name.casefold() in used]
    text = _HEAD.format(
        name=out.name,
        accountants=_alternatives(tuple(ACCOUNTANTS)),
        source=quoted_text(relative_source(source, out.parent)),
        record=key.line,
        secret=hidden.line + "".join(_wide(own, columns) for own in wide_columns(facts) if hidden.open),
        domain=stated.get("domain") or _DOMAINS.get(hidden.column.kind, _ANY_DOMAIN),
        rows=stated.get("rows") or _rows(facts, key.column),
        privacy=stated.get("privacy") or f"{STARTER_BUDGET.format(1.0)}\ndelta = 1e-6",
        public=_public(named if releases else groups),
        known=key.column.name.replace('"', "").replace("\\", "").replace("\n", " "),
    )
    proposed = [_release("everyone", [], hidden)]
    proposed += [_release(f"by {column.name}", [column], hidden) for column in groups]
    closed = not key.open and not hidden.open and "domain" in stated
    return StarterPlan(
        text="\n".join([text, *(releases or proposed)]), notes=(*key.notes, *hidden.notes), closed=closed
    )


def columns_meant(source: str, *, record: str, secret: str) -> tuple[Column, Column]:
    """The columns of the record and the secret; one that is not given is guessed if names leave no doubt."""
    key, hidden = _columns(_facts(source), record, secret)
    for one in (key, hidden):
        listed = ", ".join(other.name for other in one.candidates) or "none looks like it"
        require_plan(not one.open, f"--{one.field} COLUMN", got="none", fix=f"candidates: {listed}")
    return key.column, hidden.column


@frozen(eq=True)
class _Meant:
    """The column for a field of [data]: given, guessed where names leave no doubt, or open."""

    field: str
    column: Column  # a stand-in while it is open
    candidates: tuple[Candidate, ...] = ()  # if it is not given: the likeliest first
    open: bool = False

    @classmethod
    def of(cls, field: str, given: str, columns: Sequence[Column], guess: ColumnGuess) -> _Meant:
        if given:
            return cls(field=field, column=find_column(columns, given))
        column = find_column(columns, guess.candidates[0].name) if guess.sure else _STAND_INS[field]
        return cls(field=field, column=column, candidates=guess.candidates, open=not guess.sure)

    @property
    def line(self) -> str:
        """The field as it is given, as it is guessed, or open with its candidates."""
        if self.open:
            listed = "".join(f"\n#   {_comment(one)}" for one in self.candidates)
            return f'{self.field} = ""    # {_OPEN[self.field]}.{" Candidates:" if listed else ""}{listed}'
        guessed = [f"GUESSED, check it: {one.reasons}" for one in self.candidates[:1]]
        (meaning,) = guessed or [_MEANINGS[self.field]]
        return f"{self.field} = {quoted_text(self.column.name)}    # {meaning}"

    @property
    def notes(self) -> list[str]:
        """What to say of a field that nobody gave."""
        if not self.open:
            return [f"Guessed the {self.field}: {_comment(one)}. Check it." for one in self.candidates[:1]]
        listed = "; or ".join(map(_comment, self.candidates))
        candidates = f"Candidates: {listed}." if listed else "No column looks like it."
        return [f"Left the {self.field} open. {candidates}"]


def _columns(facts: Sequence[ColumnProfile], record: str, secret: str) -> tuple[_Meant, _Meant]:
    """The columns of the record and the secret, as they are given or guessed."""
    columns, folded = [one.column for one in facts], secret.casefold()
    wide, others = wide_columns(facts), [one for one in facts if one.column.name.casefold() != folded]
    require_plan(
        not wide or not secret or len(others) < len(facts),
        "a secret that is a column",
        got=f"{secret!r}, and {len(wide[0]) if wide else 0:,} columns of numbers that may hold it",
        fix="sightline init, without --record and --secret, writes the [data] sql that makes rows of them",
    )
    key = _Meant.of("record", record, columns, guess_record(others))
    hidden = _Meant.of("secret", secret, columns, guess_secret(facts, record=key.column))
    require_plan(
        hidden.open or hidden.column.kind in _DOMAINS,
        "a secret of numbers, text, or yes and no",
        got=f'"{hidden.column.name}", which holds something else',
        fix="name another column",
    )
    return key, hidden


def _facts(source: str) -> tuple[ColumnProfile, ...]:
    engine = open_source(source, base=Path())
    try:
        return facts_of(engine)
    finally:
        engine.close()


def _wide(names: Sequence[str], columns: Sequence[Column]) -> str:
    """A comment about columns that may hold one secret in wide form: a line, however many they are."""
    listed = ", ".join(map(quoted, names))
    if len(names) > MOST_LISTED:
        others = ", ".join(quoted(one.name) for one in columns if one.name not in names)
        listed = f"COLUMNS(* EXCLUDE ({others}))" if others else "COLUMNS(*)"
    made = f"SELECT * FROM source UNPIVOT INCLUDE NULLS (value FOR name IN ({listed}))"
    return (
        f"\n# {len(names)} columns of numbers may hold one secret: call it value. If each column is a "
        "record's, the record is name. Then:"
        f"\n# sql = {quoted_text(made)}"
    )


def _comment(one: Candidate) -> str:
    return f"{' '.join(one.name.split())}: {one.reasons}"


def _rows(facts: Sequence[ColumnProfile], key: Column) -> str:
    repeated = any(one.column == key and not one.unique for one in facts)
    return _MORE_ROWS.format(record=" ".join(key.name.split())) if repeated else _ONE_ROW


def _public(columns: Sequence[Column]) -> str:
    """The columns that the releases use, to be confirmed."""
    listed = ", ".join(quoted_text(column.name) for column in columns)
    return (
        f"public = [{listed}]    # CONFIRM: everybody may know these of everyone, and no secret decides them"
    )


def _alternatives(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _release(name: str, by: Sequence[Column], secret: _Meant) -> str:
    column, groups = quoted(secret.column.name), [quoted(one.name) for one in by]
    match secret.column.kind:
        case ColumnKind.BOOLEAN:
            what = f"COUNT(*) FILTER (WHERE {column})"
        case ColumnKind.TEXT:
            groups, what = [*groups, column], "COUNT(*)"
        case _:
            what = f"AVG({column})"
    sql = f"SELECT {', '.join([*groups, what])} FROM data"
    if groups:
        sql += f" GROUP BY {', '.join(groups)}"
    named = f"name = {quoted_text(name)}\nsql = {quoted_text(sql)}"
    text = f"[[release]]\n{named}\n# times = 12    # published monthly\n"
    # Without a secret the release is an example: the plan has none until somebody writes it.
    return "".join(f"# {line}\n" for line in text.splitlines()) if secret.open else text


def quoted_text(text: str) -> str:
    """A TOML string: literal if it can be, else by JSON's rules, which are TOML's but for one character."""
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def relative_source(source: str, folder: Path) -> str:
    """A source whose path starts from the folder of a plan."""
    if "://" in source:
        return source
    path, _, table = source.partition("::")
    near = os.path.relpath(path, folder)
    return f"{near}::{table}" if table else near


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


@frozen(eq=True)
class ColumnProfile:
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
            and 1 < self.distinct <= MOST_LISTED
            and not self.unique
            and not self.words & (_SENSITIVE | _PERSON | _KEY)
        )


@frozen(eq=True)
class Candidate:
    """A column that may be meant, and what speaks for it."""

    name: str
    reasons: str


@frozen(eq=True)
class ColumnGuess:
    """The columns that may be meant, the likeliest first; and whether it alone can be."""

    candidates: tuple[Candidate, ...]
    sure: bool


def facts_of(engine: Engine) -> tuple[ColumnProfile, ...]:
    """Look at the first rows of the table: how many values each column has. Values are not kept."""
    columns = engine.columns()
    looked = [c for c in columns if c.kind in (ColumnKind.TEXT, ColumnKind.NUMBER, ColumnKind.BOOLEAN)]
    rows = max(1_000, AT_A_TIME // max(1, len(looked)))
    listed = ", ".join(f"{quoted(column.name)} AS c{place}" for place, column in enumerate(looked))
    answer = engine.fetch(f"SELECT {listed or 1} FROM {quoted(DATA)} LIMIT {rows}")
    values = {
        column: [one for one in answer[f"c{place}"].tolist() if one is not None and one == one]
        for place, column in enumerate(looked)
    }
    number = len(next(iter(answer.values())))
    return tuple(
        ColumnProfile(
            column=column,
            words=_words(column.name),
            distinct=(distinct := len(set(values.get(column, ())))),
            unique=1 < distinct == number,
            whole=column.kind is not ColumnKind.NUMBER or all(one % 1 == 0 for one in values[column]),
        )
        for column in columns
    )


def guess_record(facts: Sequence[ColumnProfile]) -> ColumnGuess:
    """Guess whose row a row is: by the one column that is named after people, and after nothing else."""
    keys = [one for one in facts if one.may_be_key and not one.words & _SENSITIVE]
    named = [one for one in keys if one.words & _PERSON and one.words <= _PERSON | _KEY]
    others = [one for one in keys if one not in named and (one.words & (_PERSON | _KEY) or one.unique)]
    listed = (*named, *others)[:TOP]
    candidates = tuple(Candidate(name=one.column.name, reasons=_key_reasons(one)) for one in listed)
    return ColumnGuess(candidates=candidates, sure=len(named) == 1)


def guess_secret(facts: Sequence[ColumnProfile], *, record: Column) -> ColumnGuess:
    """Guess the column to protect: the one with a sensitive name, or the only one besides the record."""
    running = {name for group in wide_columns(facts) for name in group}
    others = [one for one in facts if one.column != record]
    free = [one for one in others if one.may_be_secret and one.column.name not in running]
    named = [one for one in free if one.words & _SENSITIVE]
    many = [
        one
        for one in free
        if one not in named
        and one.column.kind is ColumnKind.NUMBER
        and one.distinct > FEW_VALUES
        and not one.words & (_PERSON | _KEY)
    ]
    only = free if len(others) == 1 else []
    listed = (named + many or only)[:TOP]
    candidates = tuple(Candidate(name=one.column.name, reasons=_secret_reasons(one)) for one in listed)
    sure = len(named) == 1 or (not named and bool(only))
    return ColumnGuess(candidates=candidates, sure=sure and not running)


def wide_columns(facts: Sequence[ColumnProfile]) -> list[list[str]]:
    """Columns of numbers with one name and a running number, such as h00, h01, …; or all but a time."""
    groups: dict[str, list[str]] = {}
    for one in facts:
        parts = re.fullmatch(r"(.*?\D|)\d+", one.column.name)
        if parts and one.column.kind is ColumnKind.NUMBER:
            groups.setdefault(parts.group(1), []).append(one.column.name)
    numbers = [one.column.name for one in facts if one.column.kind is ColumnKind.NUMBER]
    others = [one.column.kind for one in facts if one.column.kind is not ColumnKind.NUMBER]
    if others == [ColumnKind.TIME]:  # a column of each home, say, beside the time
        groups = {"": numbers}
    return [names for names in groups.values() if len(names) > FEW]


def _words(name: str) -> frozenset[str]:
    """The words of a name, in lower case.

    >>> sorted(_words("CustomerID")), sorted(_words("monthly_kWh")), sorted(_words("patientid"))
    (['customer', 'id'], ['kwh', 'monthly'], ['id', 'patient'])
    """
    spaced = re.sub(r"(?<=[a-z]{2})(?=[A-Z][a-z]|ID\b)", " ", name)
    words = set()
    for word in re.findall(r"[a-z]+", spaced.casefold()):
        if word not in _PERSON | _KEY and word.endswith("id") and word[:-2] in _PERSON:
            words |= {word[:-2], "id"}
        else:
            words.add(word)
    return frozenset(words)


def _key_reasons(one: ColumnProfile) -> str:
    reasons = []
    if one.words & _PERSON:
        reasons.append("its name says whose row it is")
    elif one.words & _KEY:
        reasons.append("its name is that of a key")
    reasons.append("a different value in every row" if one.unique else "its values repeat")
    return "; ".join(reasons)


def _secret_reasons(one: ColumnProfile) -> str:
    kinds = {ColumnKind.NUMBER: "a number", ColumnKind.BOOLEAN: "yes or no", ColumnKind.TEXT: "text"}
    named = ["its name is that of something private"] if one.words & _SENSITIVE else []
    many = " with many values" if one.column.kind is ColumnKind.NUMBER and one.distinct > FEW_VALUES else ""
    return "; ".join([*named, kinds[one.column.kind] + many])
