"""Unfold a query into SELECTs over ``data`` and its lookups: sqlglot merges WITH and subqueries into them.

What a text must not contain is refused as it is written; then names are resolved and subqueries merged.
The merging is not trusted: the engine later answers the release as it is written, and the merged one.
"""

from __future__ import annotations

import re
from collections import Counter

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.merge_subqueries import merge_subqueries
from sqlglot.optimizer.qualify import qualify

from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.grammar import (
    check_clauses,
    clause_of,
    clauses_of,
    has,
    is_plain,
    refuse,
    refuse_statement,
    shown,
    sources_of,
    text_of,
)
from sightline.tables.sql.multiplied_rows import LABEL, without_multiplied_rows
from sightline.tables.sql.noisy_answers import answers_in
from sightline.tables.sql.normal_form import inlined, tables_of, types_of
from sightline.tables.sql.one_select import in_one_select
from sightline.tables.sql.scope import from_of, refuse_table, suggestion, where_of
from sightline.tables.subject import Schema
from sightline.values import frozen

MOST_NODES = 20_000  # of the expressions of one SELECT, written out over the columns of data


@frozen
class Unfolded:
    """A release as SELECTs over ``data`` and its lookups."""

    selects: tuple[exp.Select, ...]
    # Texts for the engine, without ORDER BY and LIMIT: what was merged, as written and as one SELECT.
    merged: tuple[tuple[str, str], ...] = ()
    after: str = ""  # what is computed with the answers of the SELECTs, if they are not all there is


def unfolded(query: exp.Query, *, schema: Schema, secret: str = "") -> Unfolded:
    """The SELECTs of a release in order, without WITH and subqueries.

    >>> from sqlglot import parse_one
    >>> from sightline.tables.engines.protocol import Column, ColumnKind
    >>> schema = Schema(columns=[Column("a", ColumnKind.NUMBER)])
    >>> text = "WITH p AS (SELECT a AS x FROM data) SELECT SUM(x) FROM p UNION ALL SELECT 2 FROM data"
    >>> for select in unfolded(parse_one(text), schema=schema).selects:
    ...     print(select.sql())
    SELECT SUM("data"."a") AS "_col_0" FROM "data" AS "data"
    SELECT 2 FROM data
    """
    whole, multiplied = without_multiplied_rows(
        inlined(query, taken={DATA, *tables_of(schema)}), schema, secret
    )
    whole, changed = in_one_select(whole, schema)
    selects = _selects(whole)
    _check_union_order(query, selects)
    plain = tuple(_merged(select, schema) for select in selects)
    if not (changed or multiplied) and all(one is other for one, other in zip(plain, selects, strict=True)):
        return Unfolded(selects=plain)
    texts = [_unordered(query, schema.dialect)]
    texts.append(" UNION ALL ".join(_unordered(select, schema.dialect) for select in plain))
    names = ", ".join(f"c{place}" for place in range(len(plain[0].expressions)))
    as_written, as_one = (f"SELECT * FROM ({text}) AS answer({names})" for text in texts)
    return Unfolded(selects=plain, merged=((as_written, as_one),))


def as_answers(query: exp.Query, *, schema: Schema, record: str, secret: str = "") -> Unfolded:
    """The same release as the publication of every answer that it computes with, each once.

    >>> from sqlglot import parse_one
    >>> text = "SELECT MAX(s) FROM (SELECT g, SUM(x) AS s FROM data GROUP BY g) AS t"
    >>> for select in as_answers(parse_one(text), schema=Schema(columns=[]), record="id").selects:
    ...     print(select.sql())
    SELECT SUM(x) FROM data GROUP BY g
    """
    found: dict[str, exp.Select] = {}
    merged: list[tuple[str, str]] = []
    for answer in answers_in(inlined(query, taken={DATA, *tables_of(schema)}), schema, record):
        own = unfolded(answer, schema=schema, secret=secret)
        merged += own.merged
        for select in own.selects:
            found.setdefault(text_of(select, schema.dialect), select)
    if not found:
        refuse("answers of grouped queries of data", got=shown(query))
    return Unfolded(selects=tuple(found.values()), merged=tuple(dict.fromkeys(merged)), after=shown(query))


def label_of(item: exp.Expr) -> str:
    """What people call an item of the SELECT list: its alias, or its text as it was written."""
    node = item.unalias()
    return str(node.meta_get(LABEL) or item.alias or shown(node))


def _merged(select: exp.Select, schema: Schema) -> exp.Select:
    """A SELECT over ``data`` and lookups alone, with the same answer."""
    source = clause_of(select, "from_").this
    if not isinstance(source, exp.Subquery):
        return select
    _check_rows(source)
    for table in select.find_all(exp.Table):
        declared = {name.casefold() for name in schema.tables}
        if isinstance(table.parent, exp.From) and table.name.casefold() != DATA:
            refuse_table(table.name, schema)
        if isinstance(table.parent, exp.Join) and table.name.casefold() not in declared:
            refuse(
                "a declared public table",
                got=f'"{table.name}"',
                fix=suggestion(table.name, list(schema.tables), what="declared tables"),
            )
    whole = select.copy()
    for item, own in zip(whole.expressions, select.expressions, strict=True):
        item.unalias().meta[LABEL] = label_of(own)
    try:
        flat = merge_subqueries(qualify(whole, schema=types_of(schema, DATA), dialect=schema.dialect))
    except SqlglotError as error:
        names = [one or other for one, other in re.findall(r"'([^']*)'|: (\w+)", str(error))]
        unknown = names[0] if names else "another"
        listed = [column.name for column in schema.columns]
        refuse(
            "a column of the table or of its subquery",
            got=f'"{unknown[:60]}"',
            fix=suggestion(unknown, listed),
        )
    assert isinstance(flat, exp.Select)
    if has(flat, exp.Subquery):
        refuse("subqueries that can be written as one SELECT", got=shown(select), fix="write one SELECT")
    return flat


def _check_rows(node: exp.Subquery) -> dict[str, int]:
    """Refuse a subquery whose lines are not rows of ``data``, by name; the sizes of its expressions."""
    select: exp.Select = node.this
    computed = any(item.find(exp.AggFunc, exp.Window) for item in select.expressions)
    if computed or select.args.get("group") or select.args.get("having"):
        refuse(
            "a subquery whose lines are rows of data",
            got=shown(select),
            fix="publish its groups, and compute with their noisy numbers; if its lines are records, make "
            'them in [data]: sql = "SELECT … FROM source …", with this subquery over source',
        )
    source = from_of(select)
    inner = _check_rows(source) if isinstance(source, exp.Subquery) else {}
    names: Counter[str] = Counter()
    sizes = dict(inner) if any(item.is_star for item in select.expressions) else {}
    for item in select.expressions:
        if item.is_star:
            changed = any(value for star in item.find_all(exp.Star) for value in star.args.values())
            if select.args.get("joins") or changed:
                refuse(
                    "the names of columns", got=shown(item), fix="list the columns of a subquery with a join"
                )
            names.update(inner)
            continue
        if not isinstance(item, exp.Alias | exp.Column):
            refuse("names for the columns of a subquery", got=shown(item), fix="write AS behind it")
        name = item.alias_or_name.casefold()
        names[name] += 1
        sizes[name] = sum(inner.get(one.name.casefold(), 1) for one in item.find_all(exp.Column))
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        refuse("different names for the columns of a subquery", got=f'"{twice[0]}" twice', fix="rename one")
    if sum(sizes.values()) > MOST_NODES:
        refuse(
            "subqueries of a moderate size", got="one that repeats itself", fix="make the rows in [data] sql"
        )
    return sizes


def _unordered(query: exp.Query, dialect: str) -> str:
    """A query without ORDER BY and LIMIT, which a subquery has none of."""
    whole = query.copy()
    for part in whole.find_all(exp.Select, exp.SetOperation):
        part.set("order", None)
        part.set("limit", None)
    return text_of(whole, dialect)


def _selects(query: exp.Expr) -> list[exp.Select]:
    """The SELECTs that UNION ALL joins, each with plain subqueries of rows in FROM."""
    if isinstance(query, exp.Subquery) and not query.alias:
        _check_plain(query)
        return _selects(query.this)
    if isinstance(query, exp.Union) and not query.args.get("distinct"):
        extra = [
            part for part in ("limit", "offset", "by_name", "side", "kind", "on") if query.args.get(part)
        ]
        if extra:
            refuse("UNION ALL by itself", got=f"{extra[0].upper()} with it", fix="publish every group, noisy")
        return [*_selects(query.this), *_selects(query.expression)]
    if isinstance(query, exp.SetOperation):
        refuse(
            "one SELECT, or several joined by UNION ALL",
            got=f"a {query.key.upper()}",
            fix="which lines it drops would depend on the data: write UNION ALL",
        )
    if not isinstance(query, exp.Select):
        refuse_statement(query.key)
    check_clauses(query)
    for source in sources_of(query):
        if isinstance(source, exp.Subquery):
            _use_one_select(source)
    _use_join_conditions(query)
    return [query]


def _use_one_select(node: exp.Subquery) -> None:
    _check_plain(node)
    selects = _selects(node.this)
    if len(selects) > 1:
        refuse("one SELECT in a subquery", got="UNION ALL", fix="join the outer SELECTs by UNION ALL instead")
    if "limit" in clauses_of(selects[0]):
        refuse(
            "no LIMIT in a subquery: which rows are published would depend on their order",
            got=shown(selects[0].args["limit"]),
            fix="name the rows by a condition",
        )
    node.set("this", selects[0])
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier("subquery")))


def _check_plain(node: exp.Subquery) -> None:
    if not is_plain(node):
        refuse("a plain subquery", got=shown(node), fix="leave out what follows its closing bracket")


def _use_join_conditions(select: exp.Select) -> None:
    """Write ``FROM data, areas WHERE data.k = areas.k`` as JOIN … ON: move the equations of each table."""
    bare = [join for join in select.args.get("joins") or [] if _is_bare(join)]
    if not bare:
        return  # WHERE stays as it is written
    parts = where_of(select)
    for join in reversed(bare):  # an equation of two joined tables belongs to the later one
        called = join.this.alias_or_name.casefold()
        own = [part for part in parts if isinstance(part, exp.EQ) and _names(part, called) == 1]
        if not own:
            continue
        parts = [part for part in parts if part not in own]
        join.set("on", exp.and_(*(part.copy() for part in own)))
        join.set("kind", None)
    select.set("where", exp.Where(this=exp.and_(*(exp.paren(p.copy()) for p in parts))) if parts else None)


def _is_bare(join: exp.Join) -> bool:
    """Whether it is a comma or CROSS JOIN."""
    used = {part for part, value in join.args.items() if value} - {"this"}
    return not used or (used == {"kind"} and join.args["kind"].upper() == "CROSS")


def _names(part: exp.EQ, called: str) -> int:
    """How many sides of an equation are a column of the relation that the query calls ``called``."""
    sides = (part.this.unnest(), part.expression.unnest())
    return sum(isinstance(side, exp.Column) and side.table.casefold() == called for side in sides)


def _check_union_order(query: exp.Expr, selects: list[exp.Select]) -> None:
    """Refuse ORDER BY after UNION ALL unless it names a column that is public in every SELECT."""
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Union):
        return
    names = [item.alias_or_name.casefold() for item in selects[0].expressions]
    for ordered in clause_of(query, "order").expressions:
        named = ordered.this.unnest() if isinstance(ordered, exp.Ordered) else ordered
        place = int(named.name) - 1 if named.name.isdigit() else -1
        if isinstance(named, exp.Column) and not named.table and names.count(named.name.casefold()) == 1:
            place = names.index(named.name.casefold())
        items = [select.expressions[place] for select in selects if 0 <= place < len(select.expressions)]
        if len(items) < len(selects) or any(item.find(exp.AggFunc, exp.Window) for item in items):
            refuse(
                "ORDER BY on public columns",
                got=shown(ordered),
                fix="it would publish the order of the exact numbers: sort the noisy numbers",
            )
