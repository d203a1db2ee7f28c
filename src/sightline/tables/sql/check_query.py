"""Write the query that checks a release: its own SQL, with counts in place of its aggregates.

The query keeps FROM, JOIN, WHERE, GROUP BY and HAVING of the unfolded release, with its own names, so that
the engine decides what they mean. It also holds the conditions and keys as the audit reads them.
``tables.verify`` compares the two. An inner SELECT computes both for every row, and an outer one groups and
counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sightline.tables.engines.protocol import ColumnKind
from sightline.tables.sql.check_texts import AggregateTexts, CheckTexts, SelectParts
from sightline.tables.sql.grammar import has, is_inside
from sightline.tables.sql.grouping import aggregates_in, key_text
from sightline.tables.sql.multiplied_rows import OF_LINES
from sightline.tables.sql.nullness import Decides
from sightline.tables.sql.secret_conditions import Secret
from sightline.tables.subject import SecretKind, Subject
from sightline.values import frozen


@frozen(eq=True)
class Tells:
    """How the lines and NULLs of an answer depend on the secrets, and public numbers on who has one."""

    lines: tuple[int, ...]  # for each grouping set, lines that a group needs to tell nothing; 0 for any
    by_value: bool  # whether a NULL depends on the values of secrets
    by_presence: tuple[int, ...]  # the aggregates that are NULL, or not listed, where nobody has a secret
    exact: bool  # whether a public number, or which groups HAVING keeps, depends on who has a secret
    by_weight: tuple[int, ...] = ()  # the aggregates that may be NULL because of a row without a weight

    @property
    def anything(self) -> bool:
        """Whether they depend on the secrets at all."""
        return any((*self.lines, self.by_value, self.by_presence, self.exact, self.by_weight))


@frozen(eq=True)
class CheckQuery:
    """The query, in the source's dialect, and how to read its answer.

    Column ``g3`` is 0 if the group's set contains key 3 (only with several grouping sets), and ``k3`` is 1 if
    the audit's key 3 has one value in the group. For aggregate 2 there are ``n2`` (rows that the audit puts
    into the cell), ``d2`` (rows whose number differs between the engine and the audit), and the counts
    ``unkeyed2``, ``invalid2``, ``missing2`` and ``clipped2`` of ``UnauditedRows``. If lines or NULLs of the
    answer depend on the secrets, ``lines`` is how many lines the group has, ``present`` its audited rows,
    ``few2`` is 1 if at most one person has a row that aggregate 2 adds up, and ``without2`` counts the rows
    of which it adds up NULL or 0, as the secret decides. With HAVING, ``kept`` is 1 if the engine's HAVING
    keeps the group, and ``h1`` and ``i1`` are the least and the largest answer (1 for yes) to the audit's
    condition of grouping set 1 over the audited rows of the group.
    """

    sql: str
    sets: tuple[tuple[bool, ...], ...]  # for each grouping set of the release, which keys it groups by
    repeats: bool  # True if a set that is listed twice is answered twice
    aggregates: tuple[int, ...]  # the checked ones, by position among the release's aggregates
    tells: Tells
    having: bool = False
    quick: QuickCheck | None = None  # shows in less time that all is well, if it is
    differing: tuple[
        str, ...
    ] = ()  # queries for how many rows a rewritten aggregate adds up otherwise: ``n``


def check_query(parts: SelectParts, secret: Secret, subject: Subject) -> CheckQuery | None:
    """Write the check of a SELECT; None if nothing that it publishes depends on the secret."""
    scope, grouping = secret.scope, parts.grouping
    public = [place for place, key in enumerate(grouping.keys) if not scope.mentions_secret(key)]
    histogram = len(public) < len(grouping.keys)
    chosen = [place for place, measure in enumerate(parts.measures) if measure.tests or histogram]
    texts = CheckTexts(parts=parts, secret=secret, subject=subject)
    writer = _CheckWriter(texts=texts, keys=tuple(key_text(grouping.keys[place]) for place in public))
    aggregates = [texts.aggregate(place) for place in chosen]
    tells = writer.tells(aggregates, histogram=histogram)
    if not chosen and not tells.anything:
        return None
    sets = tuple(tuple(place in used for place in public) for used in grouping.places)
    several = len(set(sets)) > 1
    rows: dict[str, str] = {}  # the inner SELECT: what it computes for every row
    listed = [f"GROUPING(y{j}) AS g{j}" for j in range(len(public)) if several]
    for j, place in enumerate(public):
        rows[f"y{j}"] = texts.text(grouping.written[place])
        listed.append(f"{writer.is_constant(grouping.keys[place], f'b{j}', rows)} AS k{j}")
    compared = [(rows[f"y{j}"], rows[f"b{j}"]) for j in range(len(public)) if sets[0][j]]
    for aggregate in aggregates:
        listed += writer.counts(aggregate, rows)
    if tells.anything:
        listed += writer.occurring(tells, aggregates, rows, histogram=histogram)
    listed += writer.kept(rows)
    grouped = grouping.group
    if histogram or not several:
        # List the sets one by one without the secret: in ROLLUP it would count as a level.
        named = [", ".join(f"y{j}" for j, used in enumerate(keys) if used) for keys in dict.fromkeys(sets)]
        listed_sets = f"GROUPING SETS ({', '.join(f'({names})' for names in named)})"
        grouped = f"GROUP BY {listed_sets if several else named[0]}" if any(named) else ""
    inner = ", ".join(f"{text} AS {name}" for name, text in rows.items())
    where = f" WHERE {texts.where}" if texts.where else ""
    hidden = not (any(tells.lines) or tells.by_value or tells.exact)
    plain = hidden and not (several or histogram or parts.having.windows)
    return CheckQuery(
        sql=f"SELECT {', '.join(listed)} FROM (SELECT {inner} {texts.source}{where}) AS checked {grouped}",
        sets=sets,
        repeats=not histogram and several,
        aggregates=tuple(chosen),
        tells=tells,
        having=bool(parts.having.windows),
        quick=quick_check(texts, aggregates, compared, presence=tells.anything) if plain else None,
        differing=tuple(
            dict.fromkeys(texts.differing(one) for measure in parts.measures for one in measure.rewritten)
        ),
    )


@frozen(eq=True, slots=False)
class _CheckWriter:
    """Writes the counts of a check as SQL in the source's dialect."""

    texts: CheckTexts
    keys: tuple[str, ...]  # the identities of the public keys, in the order of their numbers

    def is_constant(self, key: exp.Expr, name: str, rows: dict[str, str]) -> str:
        """1 if a key of the audit has one value in the group, else 0. NULL counts as a value."""
        rows[name] = self.texts.bound_text(key)
        plain = isinstance(key, exp.Column) and self.texts.secret.scope.kind(key) in (
            ColumnKind.NUMBER,
            ColumnKind.TEXT,
            ColumnKind.TIME,
        )
        single = f"MIN({name}) = MAX({name})" if plain else f"COUNT(DISTINCT {name}) = 1"
        return f"CASE WHEN COUNT({name}) = 0 OR (COUNT({name}) = COUNT(*) AND {single}) THEN 1 ELSE 0 END"

    def counts(self, aggregate: AggregateTexts, rows: dict[str, str]) -> list[str]:
        """The columns of one aggregate in the answer; ``rows`` gets what they count."""
        texts, place, inside = self.texts, aggregate.place, aggregate.inside
        counted = [f"{aggregate.counted} <> (CASE WHEN {inside} THEN 1 ELSE 0 END)"]
        differs = list[str]()
        for text, bands in texts.bands:  # the engine's band of a row must be the audit's
            for band in bands:
                null = isinstance(band.name, exp.Null)
                own = f"{text} IS NULL" if null else f"{text} = {texts.text(band.name)}"
                differs.append(f"(CASE WHEN {own} THEN 1 ELSE 0 END) <> {texts.feature(band.test)}")
        if aggregate.feature:
            audited = f"(CASE WHEN {inside} THEN {aggregate.feature} ELSE 0 END)"
            counted = [aggregate.differs_from(audited), *(counted if aggregate.mean else [])]
        differs += counted
        tests = {
            f"n{place}": f"{texts.present} AND {inside}",
            f"d{place}": f"{texts.present} AND ({' OR '.join(f'({test})' for test in differs)})",
            f"unkeyed{place}": f"{inside} AND {texts.unkeyed}",
            f"invalid{place}": f"{inside} AND {texts.invalid}",
            f"missing{place}": f"{inside} AND {texts.missing(aggregate)}",
            f"clipped{place}": f"{inside} AND {texts.clipped(aggregate)}",
        }
        rows |= {name: f"CASE WHEN {test} THEN 1 END" for name, test in tests.items()}
        return [f"COUNT({name}) AS {name}" for name in tests]

    def kept(self, rows: dict[str, str]) -> list[str]:
        """Whether HAVING keeps the group: the engine's answer, and the audit's for each grouping set."""
        having = self.texts.parts.having
        if not having.windows:
            return []
        listed = [f"CASE WHEN {self._grouped_having(having.written, rows)} THEN 1 ELSE 0 END AS kept"]
        for place, window in enumerate(having.windows):
            rows[f"h{place}"] = (
                f"CASE WHEN {self.texts.present} THEN {self.texts.bound_text(window.bound)} END"
            )
            listed += [f"COALESCE(MIN(h{place}), -1) AS h{place}", f"COALESCE(MAX(h{place}), -1) AS i{place}"]
        return listed

    def _grouped_having(self, written: exp.Expr, rows: dict[str, str]) -> str:
        """HAVING as written, over the columns of the inner SELECT."""
        scope = self.texts.secret.scope
        root = exp.Paren(this=written.copy())
        inside = aggregates_in(root)
        for aggregate in inside:
            parts = list(aggregate.find_all(exp.Column, exp.Subquery))
            for part in parts:
                if is_inside(part, exp.Select):
                    continue  # of a subquery, which is a number of the row as a whole
                name = f"c{len(rows)}"
                rows[name] = self.texts.text(part)
                part.replace(exp.column(name))
        waiting = [root.this]
        while waiting:
            node = waiting.pop()
            if any(node is one for one in inside):
                continue
            if has(node, exp.Column) and not has(node, exp.AggFunc):
                text = key_text(scope.bind(node))
                if text in self.keys:
                    node.replace(exp.column(f"y{self.keys.index(text)}"))
                    continue
            waiting += node.iter_expressions()
        return self.texts.text(root.this)

    def tells(self, aggregates: Sequence[AggregateTexts], *, histogram: bool) -> Tells:
        """How lines and NULLs depend on the secrets.

        Rows without a secret are a line of their own in a histogram, unless WHERE leaves them out.
        """
        parts, scope = self.texts.parts, self.texts.secret.scope
        by = {one.place: parts.measures[one.place].tells for one in aggregates}
        public = [one.tells for one in parts.measures if not one.tests]
        having = any(scope.mentions_secret(window.bound) for window in parts.having.windows)
        unasked = not any(map(scope.mentions_secret, parts.conditions))
        return Tells(
            lines=self.lines(),
            by_value=Decides.VALUE in by.values(),
            by_presence=tuple(place for place, tells in by.items() if tells is Decides.PRESENCE),
            exact=having or (unasked if histogram else Decides.PRESENCE in public),
            by_weight=tuple(one.place for one in aggregates if one.unweighted),
        )

    def lines(self) -> tuple[int, ...]:
        """For each grouping set, how many lines a group needs in the answer to tell nothing; 0 for any.

        GROUP BY the secret lists the values that occur: a group with fewer than all tells which ones nobody
        has, and a line of one person tells that they have it, so that lines of few people are not counted. A
        condition on the secret in WHERE lists the groups in which somebody meets it, and every line tells
        that. Without keys there is one line, whatever the secrets are.
        """
        scope, categories = self.texts.secret.scope, self.texts.subject.categories
        values = 2 if self.texts.subject.kind is SecretKind.BOOLEAN else len(categories)
        values = len(self.texts.parts.lines) or values
        plain = not self.texts.parts.having.windows  # then who has a secret is counted for every group
        by_value = [
            one
            for one in self.texts.parts.conditions
            if scope.mentions_secret(one) and not (plain and scope.asks_presence(one))
        ]
        never = 2 if by_value else 0
        return tuple(
            values if any(scope.mentions_secret(key) for key in keys) else never if keys else 0
            for keys in self.texts.parts.grouping.sets
        )

    def occurring(
        self, tells: Tells, aggregates: Sequence[AggregateTexts], rows: dict[str, str], *, histogram: bool
    ) -> list[str]:
        """How many lines the group has, how many audited rows, and whether of several persons."""
        rows["present"] = f"CASE WHEN {self.texts.present} THEN 1 END"
        listed = []
        for one in aggregates:
            if one.unweighted:
                name = f"without{one.place}"
                rows[name] = f"CASE WHEN {self.texts.present} AND {one.unweighted} THEN 1 END"
                listed.append(f"COUNT({name}) AS {name}")
            if one.place in tells.by_presence:
                name = f"p{one.place}"
                rows[name] = f"CASE WHEN {self.texts.present} AND {one.inside} THEN {self.texts.record} END"
                listed.append(f"CASE WHEN COUNT(DISTINCT {name}) > 1 THEN 0 ELSE 1 END AS few{one.place}")
        if histogram:
            value, inside = self.texts.line, self.texts.of_lines
            keys = [text for name, text in rows.items() if name.startswith("y")]
            alike = ", ".join([*keys, f"CASE WHEN {inside} THEN {value} END"])
            person = f"DENSE_RANK() OVER (PARTITION BY {alike} ORDER BY {self.texts.record})"
            rows["v"] = f"CASE WHEN {inside} AND {person} >= {_FEWEST_PEOPLE} THEN {value} END"
        lines = "COUNT(DISTINCT v)" if histogram else "1"
        return [f"{lines} AS lines", "COUNT(present) AS present", *listed]


# A line of GROUP BY the secret tells that somebody has the value. To whoever knows nobody of m or more people
# who have it, and gave each a chance of 1/2, it leaves 1 - 1/(2^m - 1)² of a person's variance: 99.9 %.
_FEWEST_PEOPLE = 5
_KEY = "key_of_sightline_"  # no name of a column


@frozen(eq=True)
class QuickAggregate:
    """The tests of one aggregate, as SQL conditions on a row."""

    place: int  # among the release's aggregates
    inside: str  # the condition that the audit puts the row into a cell
    wrong_inside: str  # such a row is left out by the audit, or its number differs
    wrong_outside: str  # another row changes what the query adds up


@frozen(eq=True)
class QuickCheck:
    """The tests of one SELECT in DuckDB's dialect. It has at most one grouping set, and no HAVING."""

    source: str  # FROM and JOIN, as written
    where: str  # the public part of WHERE, as written
    present: str  # the condition that the audit uses the row
    presence: bool  # whether a NULL would tell that nobody in a group has a secret
    keys: tuple[tuple[str, str], ...]  # of GROUP BY: as written, and as the audit reads it
    aggregates: tuple[QuickAggregate, ...]

    def sizes(self, *, all_rows: bool) -> str:
        """The query for the groups: column ``n2`` has the rows that the audit uses, for aggregate 2.

        ``all_rows`` says that these are all rows. Column ``keys`` counts the audit's keys in a group.
        DuckDB groups once by a column that it is given twice.
        """
        counts = {
            f"n{one.place}": "COUNT(*)"
            if all_rows
            else f"COUNT(CASE WHEN {self.present} AND {one.inside} THEN 1 END)"
            for one in self.aggregates
        }
        names = [f"{_KEY}{place}" for place in range(len(self.keys))]
        listed = [f"{written} AS {name}" for name, (written, _) in zip(names, self.keys, strict=True)]
        listed += [f"{text} AS {name}" for name, text in counts.items()]
        both = ", ".join(text for pair in self.keys for text in pair)
        grouped = f"SELECT {', '.join(listed)} {self.source} WHERE {self.where} GROUP BY {both}"
        sums = ", ".join(f"CAST(SUM({name}) AS BIGINT) AS {name}" for name in counts)
        return f"SELECT COUNT(*) AS keys, {sums} FROM ({grouped}) AS checked GROUP BY {', '.join(names)}"


def quick_check(
    texts: CheckTexts,
    aggregates: Sequence[AggregateTexts],
    keys: Sequence[tuple[str, str]],
    *,
    presence: bool,
) -> QuickCheck | None:
    """Write the tests of a SELECT; none if they would mean something else in a query without its WHERE."""
    written = [texts.where, *(text for pair in keys for text in pair)]
    written += [text for one in aggregates for text in (one.inside, one.met, one.value)]
    if any(re.search(r"\bOVER\b", text, re.IGNORECASE) for text in written):
        return None  # a window function sees the rows that WHERE keeps
    if any(OF_LINES in text for text in written):
        return None  # many numbers of matched lines in one query take DuckDB long
    return QuickCheck(
        source=texts.source,
        where=texts.where or "1 = 1",
        present=texts.present,
        presence=presence,
        keys=tuple(keys),
        aggregates=tuple(_quick(texts, one) for one in aggregates),
    )


def _quick(texts: CheckTexts, aggregate: AggregateTexts) -> QuickAggregate:
    # Without a histogram, only what depends on the secret is checked: it has a feature.
    differs = [aggregate.differs_from(aggregate.feature)]
    changes = [f"ABS({aggregate.added}) > 0", *filter(None, [aggregate.unweighted])]
    if aggregate.mean:
        differs.append(f"{aggregate.counted} = 0")
        changes.append(f"{aggregate.counted} = 1")
    left_out = [texts.unkeyed, texts.invalid, texts.missing(aggregate), texts.clipped(aggregate)]
    wrong = [*left_out, *(f"{texts.present} AND {test}" for test in differs)]
    return QuickAggregate(
        place=aggregate.place,
        inside=aggregate.inside,
        wrong_inside=" OR ".join(f"({test})" for test in wrong),
        wrong_outside=" OR ".join(f"({texts.present} AND {test})" for test in changes),
    )


@frozen(eq=True)
class CountNames:
    """The columns that answer one check: rows of its WHERE, rows that are used, rows that are wrong."""

    rows: str  # empty without keys
    used: tuple[tuple[int, str], ...]  # for each aggregate
    wrong: tuple[str, ...]


@dataclass(slots=True)
class QuickCounts:
    """One query for the counts of several checks of one source. Equal texts are computed once."""

    source: str
    columns: dict[str, str] = field(default_factory=dict)  # of the inner SELECT: text to name
    counts: dict[str, str] = field(default_factory=dict)  # of the outer SELECT: condition to name

    def add(self, check: QuickCheck) -> CountNames:
        """Add the counts of one check."""
        where, present = self._column(check.where), self._column(check.present)
        used, wrong = [], []
        for one in check.aggregates:
            inside = self._column(one.inside)
            used.append((one.place, self._count(f"{where} AND {inside} AND {present}")))
            found = f"CASE WHEN {inside} THEN {self._column(one.wrong_inside)} "
            found += f"ELSE {self._column(one.wrong_outside)} END"
            wrong.append(self._count(f"{where} AND {found}"))
        rows = self._count(where) if check.keys else ""
        return CountNames(rows=rows, used=tuple(used), wrong=tuple(wrong))

    @property
    def sql(self) -> str:
        inner = ", ".join(f"({text}) AS {name}" for text, name in self.columns.items())
        counts = ", ".join(
            f"COUNT(CASE WHEN {test} THEN 1 END) AS {name}" for test, name in self.counts.items()
        )
        return f"SELECT {counts} FROM (SELECT {inner} {self.source}) AS checked"

    def _column(self, text: str) -> str:
        return self.columns.setdefault(text, f"c{len(self.columns)}")

    def _count(self, test: str) -> str:
        return self.counts.setdefault(test, f"n{len(self.counts)}")
