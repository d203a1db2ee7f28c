"""Unfold a query's text: WITH becomes subqueries in FROM, and UNION ALL a list of SELECTs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.grammar import check_clauses, refuse, shown
from sightline.tables.sql.scope import conjuncts

MOST_SELECTS = 200  # of one release, with every use of a WITH counted
Named = Mapping[str, exp.Query]  # the queries of WITH, by their names in lower case


def unfolded(query: exp.Query, *, tables: Collection[str]) -> list[exp.Select]:
    """The SELECTs of a release, in order, without WITH. ``tables`` are the names that WITH must not hide.

    >>> from sqlglot import parse_one
    >>> text = "WITH p AS (SELECT a FROM data) SELECT SUM(a) FROM p UNION ALL SELECT 2 FROM p AS q"
    >>> for select in unfolded(parse_one(text), tables=["data"]):
    ...     print(select.sql())
    SELECT SUM(a) FROM (SELECT a FROM data) AS p
    SELECT 2 FROM (SELECT a FROM data) AS q
    """
    taken = {DATA, *(name.casefold() for name in tables)}
    unfolding = _Unfolding(taken)
    selects = _selects(unfolding, query, {})
    if unfolding.unused:
        refuse("a WITH that is used", got=f'"{min(unfolding.unused)}", which is not', fix="leave it out")
    _check_union_order(query, selects)
    return selects


class _Unfolding:
    """Counts the SELECTs: a WITH that is used twice in each of many doubles them every time."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.number = 0
        self.unused: set[str] = set()

    def count(self, selects: int = 1) -> None:
        self.number += selects
        if self.number > MOST_SELECTS:
            refuse(f"at most {MOST_SELECTS} SELECTs in a release", got="more", fix="split the release")


def _selects(unfolding: _Unfolding, query: exp.Expr, outer: Named) -> list[exp.Select]:
    if isinstance(query, exp.Subquery) and not query.alias:
        _check_plain(query)
        return _selects(unfolding, query.this, outer)
    if isinstance(query, exp.Union) and not query.args.get("distinct"):
        named = _with_names(unfolding, query, outer)
        extra = [
            part for part in ("limit", "offset", "by_name", "side", "kind", "on") if query.args.get(part)
        ]
        if extra:
            refuse("UNION ALL by itself", got=f"{extra[0].upper()} with it", fix="publish every group, noisy")
        return [*_selects(unfolding, query.this, named), *_selects(unfolding, query.expression, named)]
    if isinstance(query, exp.SetOperation):
        refuse(
            "one SELECT, or several joined by UNION ALL",
            got=f"a {query.key.upper()}",
            fix="which lines it drops would depend on the data: write UNION ALL",
        )
    if not isinstance(query, exp.Select):
        refuse("a SELECT statement", got=query.key.upper(), fix="a plan can only read")
    unfolding.count()
    named = _with_names(unfolding, query, outer)
    select = query.copy()
    select.set("with_", None)
    check_clauses(select)
    source = select.args.get("from_")
    if source is not None:
        source.set("this", _relation(unfolding, source.this, named))
    for join in select.args.get("joins") or []:
        join.set("this", _relation(unfolding, join.this, named))
    _use_join_conditions(select)
    return [select]


def _with_names(unfolding: _Unfolding, query: exp.Expr, outer: Named) -> Named:
    """The queries that can be named inside ``query``, each without WITH."""
    clause = query.args.get("with_")
    named = dict(outer)
    if clause is None:
        return named
    if clause.args.get("recursive"):
        refuse("WITH that is not recursive", got="WITH RECURSIVE", fix="join a declared table instead")
    own: set[str] = set()
    for part in clause.expressions:
        name = part.alias.casefold()
        if name in unfolding.taken or name in own:
            refuse(
                "a name in WITH that is not used otherwise",
                got=f'"{part.alias}"',
                fix="give the query in WITH another name",
            )
        if part.args["alias"].args.get("columns"):
            refuse(
                "names of columns inside the query of WITH",
                got=f"a list of them after {part.alias}",
                fix="write AS behind each item of its SELECT",
            )
        own.add(name)
        unfolding.unused.add(name)
        named[name] = _one(unfolding, part.this, named)
    return named


def _one(unfolding: _Unfolding, query: exp.Expr, named: Named) -> exp.Select:
    selects = _selects(unfolding, query, named)
    if len(selects) > 1:
        refuse("one SELECT in a subquery", got="UNION ALL", fix="join the outer SELECTs by UNION ALL instead")
    limit = selects[0].args.get("limit")
    if limit is not None:
        refuse(
            "no LIMIT in a subquery: which rows are published would depend on their order",
            got=shown(limit),
            fix="name the rows by a condition",
        )
    return selects[0]


def _relation(unfolding: _Unfolding, node: exp.Expr, named: Named) -> exp.Expr:
    """A relation of FROM: a name of WITH becomes the subquery that it stands for."""
    if isinstance(node, exp.Subquery):
        _check_plain(node)
        if not node.alias:
            node = node.copy()
            node.set("alias", exp.TableAlias(this=exp.to_identifier("subquery")))
        inner = _one(unfolding, node.this, named)
        return exp.Subquery(this=inner, alias=node.args["alias"].copy())
    plain = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("db")
    if not plain or node.name.casefold() not in named:
        return node
    extra = [part for part, value in node.args.items() if value and part not in ("this", "alias")]
    alias = node.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        refuse("a table's plain name", got=shown(node), fix="leave out what follows its name")
    meant = named[node.name.casefold()]
    unfolding.count(len(list(meant.find_all(exp.Select))))
    unfolding.unused.discard(node.name.casefold())
    called = node.this.copy() if alias is None else alias.this.copy()
    return exp.Subquery(this=meant.copy(), alias=exp.TableAlias(this=called))


def _check_plain(node: exp.Subquery) -> None:
    alias = node.args.get("alias")
    extra = [part for part, value in node.args.items() if value and part not in ("this", "alias")]
    if extra or (alias is not None and alias.args.get("columns")):
        refuse("a plain subquery", got=shown(node), fix="leave out what follows its closing bracket")


def _use_join_conditions(select: exp.Select) -> None:
    """Write ``FROM data, areas WHERE data.k = areas.k`` as JOIN … ON: move the equations of each table."""
    bare = [join for join in select.args.get("joins") or [] if _is_bare(join)]
    where = select.args.get("where")
    if not bare or where is None:
        return
    parts = conjuncts(where.this)
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
    order = query.args.get("order")
    for ordered in order.expressions if order is not None else []:
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
