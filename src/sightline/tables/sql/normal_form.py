"""A query with every name resolved by sqlglot: the same text for queries that differ in spelling only."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from sightline.tables.engines.protocol import DATA, SOURCE, Column, ColumnKind
from sightline.tables.sql.fragments import PER_QUERY
from sightline.tables.sql.grammar import clause_of, clauses_of, is_plain, refuse, shown, sources_of
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Schema

UNPIVOT = "UNPIVOT INCLUDE NULLS (value FOR name IN (a, b))"
_TYPES = {
    ColumnKind.NUMBER: "DOUBLE",
    ColumnKind.BOOLEAN: "BOOLEAN",
    ColumnKind.TEXT: "VARCHAR",
    ColumnKind.TIME: "TIMESTAMP",
    ColumnKind.OTHER: "VARCHAR",
}


def with_data(query: exp.Query, schema: Schema) -> exp.Query:
    """A release whose own WITH or subquery is ``[data] sql`` reads ``data`` in its place.

    ``schema`` is that of the release; its ``source`` that of the table under it.
    """
    _call_by_own_name(query, schema)
    if not schema.made_by:
        return query
    if any(part.alias.casefold() == SOURCE for part in query.find_all(exp.CTE)):
        refuse("a name in WITH that is not used otherwise", got=f'"{SOURCE}"', fix="rename the query in WITH")
    parts = list(clause_of(query, "with_").expressions)
    for place, part in enumerate(parts):
        alone = part.this.copy()
        if place:
            alone.set("with_", exp.With(expressions=[one.copy() for one in parts[:place]]))
        if _means(alone, schema):
            _rename(query, part.alias)
            part.pop()
    for subquery in list(query.find_all(exp.Subquery)):
        if isinstance(subquery.parent, exp.From | exp.Join) and _means(subquery.this, schema):
            alias = subquery.args.get("alias") or exp.TableAlias(this=exp.to_identifier(DATA))
            subquery.replace(exp.Table(this=exp.to_identifier(DATA), alias=alias))
    _drop_unused(query)
    return query


def _call_by_own_name(query: exp.Query, schema: Schema) -> None:
    """Let a query that calls the table by its own name read ``data``, or ``source`` where that is made of it.

    A name that WITH defines, or a declared table, is not the table's own.
    """
    taken = {DATA, SOURCE, *tables_of(schema), *(part.alias.casefold() for part in query.find_all(exp.CTE))}
    for table in list(query.find_all(exp.Table)):
        name = table.name.casefold()
        full = f"{table.db}.{table.name}".casefold() if table.db else name
        if full not in schema.own_names or table.catalog or (not table.db and name in taken):
            continue
        called = exp.to_identifier(table.name.partition(".")[0])
        table.set("alias", table.args.get("alias") or exp.TableAlias(this=called))
        table.set("db", None)
        table.set("this", exp.to_identifier(SOURCE if schema.made_by else DATA))


def _rename(query: exp.Query, name: str) -> None:
    """Let every use of a name of WITH read ``data``."""
    for table in list(query.find_all(exp.Table)):
        if table.name.casefold() == name.casefold() and not table.args.get("db"):
            table.set("alias", table.args.get("alias") or exp.TableAlias(this=table.this.copy()))
            table.set("this", exp.to_identifier(DATA))


def _drop_unused(query: exp.Query) -> None:
    """Leave out the parts of WITH that read ``source`` and that nothing uses any more."""
    for part in reversed(list(clause_of(query, "with_").expressions)):
        names = [table.name.casefold() for table in query.find_all(exp.Table)]
        inner = {table.name.casefold() for table in part.find_all(exp.Table)}
        if SOURCE in inner and part.alias.casefold() not in names:
            part.pop()
    if not clause_of(query, "with_").expressions:
        query.set("with_", None)


def _means(query: exp.Expr, schema: Schema) -> bool:
    """Whether a query is ``[data] sql`` in other words."""
    tables = query.find_all(exp.Table)
    if not isinstance(query, exp.Query) or all(table.name.casefold() != SOURCE for table in tables):
        return False
    try:
        texts = (normal_text(qualified_query(query.copy(), one), one) for one in schema.source)
        return schema.made_by in texts
    except Exception:  # sqlglot refuses it: the reader of releases says why
        return False


def qualified_query(tree: exp.Query, schema: Schema) -> exp.Query:
    """The query with every name resolved, without WITH and UNPIVOT: what its columns derive from."""
    whole = inlined(tree, taken={SOURCE, DATA, *tables_of(schema)})
    list_columns(whole, schema)
    for table in list(whole.find_all(exp.Table)):
        if table.args.get("pivots"):
            table.replace(_as_union(table, schema))
    _check_aliases(whole, schema)
    try:
        return qualify(whole, schema=types_of(schema), dialect=schema.dialect, sql=tree.sql(schema.dialect))
    except SqlglotError as error:
        first = " ".join(str(error).split()).partition(" Line:")[0].replace("'", '"')
        listed = ", ".join(column.name for column in schema.columns[:30])
        refuse("names of columns of source and of the tables", got=first[:120], fix=f"source has {listed}")


def _check_aliases(query: exp.Expr, schema: Schema) -> set[str]:
    """Refuse a name that is a column and also the alias of another item: engines choose differently.

    Return the names of the query's columns.
    """
    if isinstance(query, exp.Subquery):
        return _check_aliases(query.this, schema)
    if isinstance(query, exp.Union):
        _check_aliases(query.expression, schema)
        return _check_aliases(query.this, schema)
    if not isinstance(query, exp.Select):
        return set()
    inside: set[str] = set()
    for node in sources_of(query):
        listed = {SOURCE: schema.columns, **tables_of(schema)}.get(node.name.casefold(), ())
        inside |= _check_aliases(node, schema) or {column.name.casefold() for column in listed}
    names: set[str] = set()
    for item in query.expressions:
        name = item.alias_or_name.casefold()
        names |= inside if item.is_star else {name}
        if not isinstance(item, exp.Alias) or name not in inside or item.this.name.casefold() == name:
            continue
        for column in query.find_all(exp.Column):
            own = column.find_ancestor(exp.Select) is query and column.find_ancestor(exp.Alias) is not item
            if own and not column.table and column.name.casefold() == name:
                refuse(
                    "a name that is a column or an alias",
                    got=f'"{item.alias}" as both',
                    fix="give the item another name, or write the table's name before the column",
                )
    return names


def inlined(query: exp.Query, *, taken: Collection[str]) -> exp.Query:
    """A copy of a query with a subquery in the place of every name of WITH. ``taken`` are names of tables."""
    whole = query.copy()
    for clause in reversed(list(whole.find_all(exp.With))):  # the inner ones first: their names hide others
        if clause.args.get("recursive"):
            refuse("WITH that is not recursive", got="WITH RECURSIVE", fix="join a declared table instead")
        around: exp.Expr = clause.parent or whole
        clause.pop()
        parts = list(clause.expressions)
        for place, part in enumerate(parts):
            name = part.alias.casefold()
            if name in taken or name in {other.alias.casefold() for other in parts[:place]}:
                refuse(
                    "a name in WITH that is not used otherwise",
                    got=f'"{part.alias}"',
                    fix="give the query in WITH another name",
                )
            if part.args["alias"].args.get("columns") and not _values_of(part):
                refuse(
                    "names of columns inside the query of WITH",
                    got=f"a list of them after {part.alias}",
                    fix="write AS behind each item of its SELECT",
                )
            later = [*(other.this for other in parts[place + 1 :]), around]
            if not sum(_replaced(tree, part) for tree in later):
                refuse("a WITH that is used", got=f'"{part.alias}", which is not', fix="leave it out")
    check_size(whole)
    return whole


def _replaced(tree: exp.Expr, part: exp.CTE) -> int:
    """Put a query of WITH in the place of its name; return how often."""
    tables = [
        table
        for table in tree.find_all(exp.Table)
        if table.name.casefold() == part.alias.casefold() and not table.args.get("db")
    ]
    for table in tables:
        if not is_plain(table):
            refuse("a table's plain name", got=shown(table), fix="leave out what follows its name")
        called = (table.args.get("alias") or exp.TableAlias(this=table.this.copy())).copy()
        lines = [line.copy() for line in _values_of(part)]
        if lines:
            called.set("columns", [one.copy() for one in part.args["alias"].args.get("columns") or ()])
            table.replace(exp.Values(expressions=lines, alias=called))
        else:
            table.replace(exp.Subquery(this=part.this.copy(), alias=called))
    check_size(tree)
    return len(tables)


def _values_of(part: exp.CTE) -> list[exp.Expr]:
    """The lines of ``WITH names(key, name) AS (VALUES …)``, which sqlglot reads as SELECT * of them."""
    values = clause_of(part.this, "from_").this
    listed = isinstance(values, exp.Values) and clauses_of(part.this) == {"expressions", "from_"}
    return values.expressions if listed and part.this.is_star else []


def check_size(tree: exp.Expr) -> None:
    """Refuse a query that grows without end: a WITH that is used twice in each of many doubles every time."""
    if sum(1 for _ in tree.find_all(exp.Select)) > PER_QUERY:
        refuse(f"at most {PER_QUERY} SELECTs in a release", got="more", fix="split the release")


def _as_union(table: exp.Table, schema: Schema) -> exp.Subquery:
    """UNPIVOT of the table as a UNION ALL with one SELECT for each of its columns."""
    pivot = table.args["pivots"][0]
    fields = pivot.args.get("fields") or []
    if (
        len(table.args["pivots"]) > 1
        or not pivot.args.get("unpivot")
        or len(fields) != 1
        or table.name.casefold() != SOURCE
        or not pivot.args.get("include_nulls")
    ):
        refuse(
            f"FROM source {UNPIVOT}",
            got=shown_part(table),
            fix="a missing value is a row, too: the audit counts rows without a secret",
        )
    lists = [_several(one.this if isinstance(one, exp.PivotAlias) else one) for one in fields[0].expressions]
    values = _several(pivot.expressions[0])
    if any(len(each) != len(values) for each in lists):
        refuse("as many columns as values in UNPIVOT", got=shown_part(table))
    gone = [find_column(schema.columns, one.name).name for each in lists for one in each]
    if len(set(gone)) < len(gone):
        refuse("each column once in UNPIVOT", got="one twice", fix="a value would enter several rows")
    others = [column.name for column in schema.columns if column.name not in gone]
    selects = [
        exp.Select(
            expressions=[
                *(_quoted(name) for name in others),
                exp.alias_(exp.Literal.string(""), fields[0].this.copy()),
                *(
                    exp.alias_(_quoted(find_column(schema.columns, one.name).name), value.copy())
                    for one, value in zip(each, values, strict=True)
                ),
            ],
            from_=exp.From(this=exp.to_table(SOURCE)),
        )
        for each in lists
    ]
    alias = (
        pivot.args.get("alias") or table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(SOURCE))
    )
    return exp.Subquery(this=_union_of(selects), alias=alias.copy())


def _union_of(selects: Sequence[exp.Query]) -> exp.Query:
    """UNION ALL of two halves, and so on: a thousand SELECTs one in the other would be too deep."""
    if len(selects) == 1:
        return selects[0]
    half = len(selects) // 2
    halves = _union_of(selects[:half]), _union_of(selects[half:])
    return exp.Union(this=halves[0], expression=halves[1], distinct=False)


def list_columns(query: exp.Query, schema: Schema) -> None:
    """Write the names of the columns into UNPIVOT in the place of COLUMNS(* EXCLUDE (…))."""
    for field in [field for pivot in query.find_all(exp.Pivot) for field in pivot.args.get("fields") or []]:
        field.set("expressions", [one for item in field.expressions for one in _listed(item, schema)])


def _listed(item: exp.Expr, schema: Schema) -> list[exp.Expr]:
    star = item.this if isinstance(item, exp.Columns) else None
    if not isinstance(star, exp.Star) or any(value for key, value in star.args.items() if key != "except_"):
        return [item]
    left_out = {find_column(schema.columns, one.name).name for one in star.args.get("except_") or []}
    return [exp.to_identifier(one.name, quoted=True) for one in schema.columns if one.name not in left_out]


def _several(node: exp.Expr) -> list[exp.Identifier]:
    plain = node.unnest()
    parts = plain.expressions if isinstance(plain, exp.Tuple) else [plain]
    names = [one.this if isinstance(one, exp.Column) else one for one in parts]
    found = [one for one in names if isinstance(one, exp.Identifier)]
    if len(found) < len(names):
        refuse("names of columns in UNPIVOT", got=shown_part(node))
    return found


def normal_text(qualified: exp.Query, schema: Schema) -> str:
    """A text that two queries share if only aliases, WITH, spelling and the order of columns differ."""
    again = qualify(
        qualified.copy(), schema=types_of(schema), dialect=schema.dialect, canonicalize_table_aliases=True
    )
    if isinstance(again, exp.Select):
        again.set("expressions", sorted(again.expressions, key=lambda item: item.alias_or_name))
    return again.sql(schema.dialect, comments=False)


def types_of(schema: Schema, called: str = SOURCE) -> dict[str, object]:
    mark = "`" if schema.dialect == "spark" else '"'
    return {
        name: {f"{mark}{column.name}{mark}": _TYPES[column.kind] for column in columns}
        for name, columns in {called: schema.columns, **tables_of(schema)}.items()
    }


def tables_of(schema: Schema) -> dict[str, Sequence[Column]]:
    return {name.casefold(): columns for name, columns in schema.tables.items()}


def folded_name(name: str, schema: Schema) -> str:
    """A column's name as sqlglot writes it: only Postgres tells cases apart."""
    return name if schema.dialect == "postgres" else name.lower()


def _quoted(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def shown_part(node: exp.Expr) -> str:
    return shown(node).replace(f'"{SOURCE}".', "")
