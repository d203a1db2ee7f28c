"""A plan from a dbt project: the compiled SQL of its manifest, and the ``meta.sightline`` blocks in it.

One model, seed or source has a block with ``data``: it is the table to protect. Each model with a block
``release`` is published. The manifest is not trusted: nothing in it is run, and its SQL is read like that of
any other plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlglot import exp

from sightline.auditing.plan import Plan
from sightline.auditing.reading import plan_file_text, read_plan
from sightline.auditing.starter import relative_source
from sightline.errors import InvalidPlan, require_plan
from sightline.tables.engines.address import LARGEST_FILE, dialect_of, file_bytes
from sightline.tables.engines.protocol import DATA, SOURCE
from sightline.tables.sql.grammar import parse_query

_ADAPTERS = ("duckdb", "postgres", "spark")  # dialects that a plan can have
_WHOLE = ("table", "view", "materialized_view")  # models whose compiled SQL is all that they hold
_HEAD = """\
# From a dbt project. The order of the releases is the order of publication.
# The models read {relation}: the source must be the same table.
"""
_DATA_BLOCK = """\
    meta:
      sightline:
        data: {record: customer_id, secret: revenue, bounds: [0, 1000]}
        privacy: {epsilon: 1.0, delta: 1.0e-6}"""
_RELEASE_BLOCK = """\
    meta:
      sightline:
        release: {name: revenue by month}"""
_SECTIONS = ("data", "secret", "privacy", "limits", "attacker")

_Node = Mapping[str, Any]


def dbt_plan_text(manifest: Path, source: str, *, out: Path) -> str:
    """The plan of a dbt project in TOML, from its ``target/manifest.json``, to be written to ``out``.

    ``source`` must be the table that the models read. Releases are in the order of their models' ids.
    """
    project = _read(manifest)
    plan = _plan(project, relative_source(source, out.parent))
    table = _table(_blocks(_nodes(project)))
    relation = _shown(_nodes(project)[table]["relation_name"])  # on one line
    return f"{_HEAD.format(relation=relation)}\n{plan_file_text(plan)}"


def _read(path: Path) -> _Node:
    text = file_bytes(path, "dbt's manifest.json", most=LARGEST_FILE)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidPlan(f"expected dbt's manifest in JSON, got something else in {path.name!r}") from None
    require_plan(
        isinstance(content, dict) and isinstance(content.get("nodes"), dict),
        "dbt's manifest with its nodes",
        got="other JSON",
        fix="run dbt compile, and name target/manifest.json",
    )
    return dict(content)


def _nodes(project: _Node) -> dict[str, _Node]:
    """The models, seeds and sources of a project, in the order of their ids."""
    return {
        key: node
        for group in ("nodes", "sources")
        for key, node in sorted(_mapping(project.get(group)).items())
        if isinstance(node, Mapping)
    }


def _blocks(nodes: Mapping[str, _Node]) -> dict[str, _Node]:
    return {key: block for key, node in nodes.items() if (block := _block(key, node))}


def _table(blocks: Mapping[str, _Node]) -> str:
    """The id of the table to protect."""
    tables = [key for key, block in blocks.items() if "data" in block]
    require_plan(
        len(tables) == 1,
        "one model, seed or source with meta.sightline.data",
        got=", ".join(map(_shown, tables[:3])) or "none",
        fix=f"write in the YAML of the table to protect:\n{_DATA_BLOCK}",
    )
    return tables[0]


def _plan(project: _Node, source: str) -> Plan:
    adapter = _mapping(project.get("metadata")).get("adapter_type")
    require_plan(
        adapter in _ADAPTERS,
        f"a dbt adapter whose SQL can be read: {', '.join(_ADAPTERS)}",
        got=_shown(adapter),
    )
    nodes = _nodes(project)
    blocks = _blocks(nodes)
    table = _table(blocks)
    sections = {name: part for name, part in blocks[table].items() if name in _SECTIONS}
    data = dict(_mapping(sections["data"]))
    require_plan(
        "source" not in data,
        "meta.sightline.data without source, which is given beside the manifest",
        got="one",
    )
    names = _relations(table, data, nodes, str(adapter))
    releases = [
        _release(key, nodes[key], block["release"], names, str(adapter))
        for key, block in blocks.items()
        if "release" in block
    ]
    require_plan(
        bool(releases),
        "a model with meta.sightline.release",
        got="none",
        fix=f"write in the YAML of each model that is published:\n{_RELEASE_BLOCK}",
    )
    plan, _ = read_plan({**sections, "data": {**data, "source": source}, "release": releases})
    require_plan(
        dialect_of(plan.data.source) == adapter,
        f"a source on {adapter}, for which the models are compiled",
        got=dialect_of(plan.data.source),
        fix="audit them where their SQL runs: the same text could publish other numbers",
    )
    return plan


def _block(key: str, node: _Node) -> _Node:
    """The ``meta.sightline`` of a node; newer versions of dbt have it below ``config``."""
    for place in (_mapping(node.get("config")), node):
        block = _mapping(place.get("meta")).get("sightline")
        if block is not None:
            strange = set(_mapping(block)) - {*_SECTIONS, "release"}
            require_plan(
                isinstance(block, Mapping) and not strange,
                f"{_shown(key)}: meta.sightline with {', '.join(_SECTIONS)}, or release",
                got=", ".join(map(_shown, sorted(map(str, strange))[:3])) or type(block).__name__,
            )
            return dict(block)
    return {}


def _relations(table: str, data: _Node, nodes: Mapping[str, _Node], dialect: str) -> dict[str, str]:
    """What the plan calls each relation that a release may read: the table, and its public tables."""
    relations = {_relation(table, nodes[table], dialect): SOURCE if data.get("sql") else DATA}
    for name in _mapping(data.get("tables")):
        homes = [key for key, node in nodes.items() if node.get("name") == name and node.get("relation_name")]
        require_plan(
            len(homes) == 1,
            f"one model, seed or source of the name {_shown(name)}, as in meta.sightline.data.tables",
            got=f"{len(homes)}",
        )
        relations[_relation(homes[0], nodes[homes[0]], dialect)] = str(name)
    return relations


def _relation(key: str, node: _Node, dialect: str) -> str:
    name = node.get("relation_name")
    query = parse_query(f"SELECT * FROM {name}", dialect) if isinstance(name, str) else None
    tables = [] if query is None else list(query.find_all(exp.Table))
    require_plan(
        len(tables) == 1,
        f"{_shown(key)}: a relation_name with the name of one table or view",
        got=_shown(name),
    )
    return _identity(tables[0])


def _identity(table: exp.Table) -> str:
    """The parts of a table's name with their quotes, as dbt writes them in all places alike."""
    return ".".join(part.sql() for part in table.parts)


def _release(key: str, node: _Node, block: Any, names: Mapping[str, str], dialect: str) -> dict[str, Any]:
    fields = {} if block is True else block
    require_plan(
        isinstance(fields, Mapping) and "sql" not in fields,
        f"{_shown(key)}: meta.sightline.release with fields of a release other than sql, or true",
        got=type(block).__name__ if not isinstance(fields, Mapping) else "sql",
    )
    config = _mapping(node.get("config"))
    require_plan(
        config.get("materialized") in _WHOLE,
        f"{_shown(key)}: a release that is a {', '.join(_WHOLE)}",
        got=_shown(config.get("materialized")),
        fix="what other models hold does not follow from their SQL alone",
    )
    require_plan(
        not any(config.get(hook) for hook in ("post-hook", "post_hook")),
        f"{_shown(key)}: a release without a post-hook",
        got="one",
        fix="what it changes is not read",
    )
    sql = node.get("compiled_code") or node.get("compiled_sql")
    require_plan(
        isinstance(sql, str),
        f"{_shown(key)}: compiled SQL",
        got=_shown(sql),
        fix="run dbt compile",
    )
    try:
        text = _renamed(str(sql).strip(), names, dialect)
    except InvalidPlan as error:
        raise InvalidPlan(f"{_shown(key)}: {error}") from None
    return {"name": node.get("name"), **fields, "sql": text}


def _renamed(sql: str, names: Mapping[str, str], dialect: str) -> str:
    """The query with the plan's names of the tables that it reads, and otherwise unchanged.

    A table keeps its own name as an alias where columns are written with it.
    """
    tree = parse_query(sql, dialect)
    defined = {query.alias_or_name for query in tree.find_all(exp.CTE)}
    hiding = {name.casefold() for name in defined} & {name.casefold() for name in names.values()}
    require_plan(
        not hiding,
        "a WITH that does not define a name which the plan gives to a table",
        got=_shown(sorted(hiding)[:1]),
        fix="choose another name in WITH",
    )
    qualifiers = {column.table for column in tree.find_all(exp.Column)}
    changes = []
    for table in list(tree.find_all(exp.Table)):
        if len(table.parts) == 1 and table.name in defined:
            continue
        name = names.get(_identity(table))
        if name is None:
            raise InvalidPlan(
                f"expected only the table and its public tables, got {_shown(_identity(table))}; "
                "name it in meta.sightline.data.tables, or put the block on the model that is read here"
            )
        start, end = table.parts[0].meta.get("start", 0), table.parts[-1].meta.get("end", 0)
        own = table.this.copy()
        table.set("this", exp.to_identifier(name))
        table.set("db", None)
        table.set("catalog", None)
        text = table.this.sql(dialect)
        if not table.alias and own.name in qualifiers:
            table.set("alias", exp.TableAlias(this=own))
            text += f" AS {own.sql(dialect)}"
        changes.append((start, end, text))
    for start, end, text in sorted(changes, reverse=True):
        sql = f"{sql[:start]}{text}{sql[end + 1 :]}"
    require_plan(
        parse_query(sql, dialect).sql(dialect) == tree.sql(dialect),
        "a query in which the names of tables can be replaced",
        got="another",
        fix="write it without comments inside of names",
    )
    return sql


def _mapping(value: Any) -> _Node:
    return value if isinstance(value, Mapping) else {}


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}…"
