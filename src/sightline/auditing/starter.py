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

from sightline.errors import InvalidPlan, require_plan
from sightline.privacy.registry import ACCOUNTANTS
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import DATA, Column, ColumnKind, Engine
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.scope import find_column
from sightline.values import frozen

_MOST_RELEASES = 3
_MOST_LISTED = 48  # columns of a wide table: two days of hours

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
STARTER_BUDGET = "epsilon = 1.0    # the budget of everything below together"
_ONE_ROW = "# max_rows_per_record = 1    # the most rows that one record may have"
_MORE_ROWS = """\
# Several rows have the same {record}. SAY how many at most, and remove the # of the next lines.
# max_rows_per_record = 10    # the data are checked; or keep some rows of each, by sql
# values = "independent"    # or "constant", if all rows of a record hold one value"""

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
_RECORD = "the column that says whose row it is: the unit of privacy"
_SECRET = "the column to protect"
_OPEN = {"record": "SAY WHOSE ROW IT IS", "secret": "SAY WHICH COLUMN TO PROTECT"}


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
    record: str | None = None,
    secret: str | None = None,
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
    key, hidden, guess = _columns(facts, record, secret)
    if key is not None and key == hidden:
        raise InvalidPlan(f'expected a record and a secret in two columns, got "{key.name}" as both')
    running = wide_columns(facts)
    groups = [one.column for one in facts if one.may_group and one.column not in (key, hidden)]
    named = [one for one in columns if one.name.casefold() in used and one not in (key, hidden)]
    text = _HEAD.format(
        name=out.name,
        accountants=_alternatives(tuple(ACCOUNTANTS)),
        source=quoted_text(relative_source(source, out.parent)),
        record=_field("record", _RECORD, key, guess["record"] if record is None else None),
        secret=_field("secret", _SECRET, hidden, guess["secret"] if secret is None else None)
        + ("" if hidden is not None else "".join(_wide(own, columns) for own in running)),
        domain=stated.get("domain") or (_ANY_DOMAIN if hidden is None else _DOMAINS[hidden.kind]),
        rows=stated.get("rows") or _rows(facts, key),
        privacy=stated.get("privacy") or f"{STARTER_BUDGET}\ndelta = 1e-6",
        public=_public(named if releases else groups[:_MOST_RELEASES]),
        known="home" if key is None else key.name.replace('"', "").replace("\\", "").replace("\n", " "),
    )
    proposed = [_release("everyone", None, hidden)]
    proposed += [_release(f"by {column.name}", column, hidden) for column in groups[:_MOST_RELEASES]]
    notes = [
        *([] if record is not None else [_note("record", key, guess["record"])]),
        *([] if secret is not None else [_note("secret", hidden, guess["secret"])]),
    ]
    closed = key is not None and hidden is not None and "domain" in stated
    return StarterPlan(text="\n".join([text, *(releases or proposed)]), notes=tuple(notes), closed=closed)


def columns_meant(source: str, *, record: str | None, secret: str | None) -> tuple[Column, Column]:
    """The columns of the record and the secret; one that is not given is guessed if names leave no doubt."""
    key, hidden, guess = _columns(_facts(source), record, secret)
    for field, column, own in (("record", key, guess["record"]), ("secret", hidden, guess["secret"])):
        listed = ", ".join(one.name for one in own.candidates) or "none looks like it"
        if column is None:
            raise InvalidPlan(f"expected --{field} COLUMN, got none; candidates: {listed}")
    assert key is not None
    assert hidden is not None
    return key, hidden


def _columns(
    facts: Sequence[ColumnFacts], record: str | None, secret: str | None
) -> tuple[Column | None, Column | None, dict[str, ColumnGuess]]:
    """The columns that are given, or that names leave no doubt of; and what was guessed."""
    columns = [one.column for one in facts]
    wide, names = wide_columns(facts), {one.name.casefold() for one in columns}
    require_plan(
        not wide or secret is None or secret.casefold() in names,
        "a secret that is a column",
        got=f"{secret!r}, and {len(wide[0]) if wide else 0:,} columns of numbers that may hold it",
        fix="sightline init, without --record and --secret, writes the [data] sql that makes rows of them",
    )
    hidden = None if secret is None else _suitable(find_column(columns, secret))
    key = None if record is None else find_column(columns, record)
    own = guess_record([one for one in facts if one.column != hidden])
    if key is None and own.sure is not None:
        key = find_column(columns, own.sure.name)
    others = guess_secret(facts, record=None if key is None else key.name)
    if hidden is None and others.sure is not None:
        hidden = find_column(columns, others.sure.name)
    return key, hidden, {"record": own, "secret": others}


def _facts(source: str) -> tuple[ColumnFacts, ...]:
    engine = open_source(source, base=Path())
    try:
        return facts_of(engine)
    finally:
        engine.close()


def _suitable(column: Column) -> Column:
    require_plan(
        column.kind in _DOMAINS,
        "a secret of numbers, text, or yes and no",
        got=f'"{column.name}", which holds something else',
        fix="name another column",
    )
    return column


def _field(field: str, meaning: str, column: Column | None, guess: ColumnGuess | None) -> str:
    """A field of [data]: as it was given, as it is guessed, or open with its candidates."""
    if column is not None and (guess is None or guess.sure is None):
        return f"{field} = {quoted_text(column.name)}    # {meaning}"
    if column is not None and guess is not None and guess.sure is not None:
        return f"{field} = {quoted_text(column.name)}    # GUESSED, check it: {guess.sure.reasons}"
    candidates = () if guess is None else guess.candidates
    listed = "".join(f"\n#   {_comment(one)}" for one in candidates)
    return f'{field} = ""    # {_OPEN[field]}.{" Candidates:" if listed else ""}{listed}'


def _wide(names: Sequence[str], columns: Sequence[Column]) -> str:
    """A comment about columns that may hold one secret in wide form: a line, however many they are."""
    listed = ", ".join(map(_identifier, names))
    if len(names) > _MOST_LISTED:
        others = ", ".join(_identifier(one.name) for one in columns if one.name not in names)
        listed = f"COLUMNS(* EXCLUDE ({others}))" if others else "COLUMNS(*)"
    made = f"SELECT * FROM source UNPIVOT INCLUDE NULLS (value FOR name IN ({listed}))"
    return (
        f"\n# {len(names)} columns of numbers may hold one secret: call it value. If each column is a "
        "record's, the record is name. Then:"
        f"\n# sql = {quoted_text(made)}"
    )


def _comment(one: Candidate) -> str:
    return f"{' '.join(one.name.split())}: {one.reasons}"


def _note(field: str, column: Column | None, guess: ColumnGuess) -> str:
    if column is not None and guess.sure is not None:
        return f"Guessed the {field}: {_comment(guess.sure)}. Check it."
    listed = "; or ".join(_comment(one) for one in guess.candidates)
    return f"Left the {field} open. " + (f"Candidates: {listed}." if listed else "No column looks like it.")


def _rows(facts: Sequence[ColumnFacts], key: Column | None) -> str:
    repeated = any(one.column == key and not one.unique for one in facts)
    if key is None or not repeated:
        return _ONE_ROW
    return _MORE_ROWS.format(record=" ".join(key.name.split()))


def _public(columns: Sequence[Column]) -> str:
    """The columns that the releases use, to be confirmed."""
    listed = ", ".join(quoted_text(column.name) for column in columns)
    return (
        f"public = [{listed}]    # CONFIRM: everybody may know these of everyone, and no secret decides them"
    )


def _alternatives(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _release(name: str, by: Column | None, secret: Column | None) -> str:
    column = "SECRET" if secret is None else _identifier(secret.name)
    groups = [] if by is None else [_identifier(by.name)]
    match None if secret is None else secret.kind:
        case ColumnKind.NUMBER | None:
            what = f"AVG({column})"
        case ColumnKind.BOOLEAN:
            what = f"COUNT(*) FILTER (WHERE {column})"
        case _:
            groups, what = [*groups, column], "COUNT(*)"
    sql = f"SELECT {', '.join([*groups, what])} FROM data"
    if groups:
        sql += f" GROUP BY {', '.join(groups)}"
    named = f"name = {quoted_text(name)}\nsql = {quoted_text(sql)}"
    text = f"[[release]]\n{named}\n# times = 12    # published monthly\n"
    # Without a secret the release is an example: the plan has none until somebody writes it.
    return text if secret is not None else "".join(f"# {line}\n" for line in text.splitlines())


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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


@frozen(eq=True)
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


@frozen(eq=True)
class Candidate:
    """A column that may be meant, and what speaks for it."""

    name: str
    reasons: str


@frozen(eq=True)
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
