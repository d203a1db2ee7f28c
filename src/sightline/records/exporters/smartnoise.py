"""Write release records of what was published with SmartNoise SQL: one JSON file for each query.

    from export_smartnoise import write
    write("releases", reader, by_feeder="SELECT feeder, SUM(watts) FROM homes GROUP BY feeder")

The noise and the query that it is on are read off the reader's own rewriting, by private names, so other
versions are refused. Rows that SmartNoise samples where somebody has more than ``max_ids`` are not guessed:
the record says ``max_rows_per_record``, which an audit checks in the data. This file needs SmartNoise SQL and
nothing else.
"""

from __future__ import annotations

import json
import math
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

TESTED = ("1.0",)
_AGGREGATE = re.compile(r"(SUM|COUNT)\((DISTINCT )?(\*|[\w.]+)\)")
_RANDOM = re.compile(r"ROW_NUMBER \( \) OVER \( PARTITION BY [\w.]+ ORDER BY RANDOM \( \) \)")


class CannotExport(ValueError):
    """The query cannot be read back."""


def write(
    folder: str | Path,
    reader: Any,
    *,
    published_at: str | None = None,
    hidden: dict[str, list[list[str]]] | None = None,
    **queries: str,
) -> list[Path]:
    """Write a record of every query, called by its name.

    ``hidden`` lists by query the groups that were not published because a noisy count was too small
    (``censor_dims``).
    """
    installed = version("smartnoise-sql")
    if ".".join(installed.split(".")[:2]) not in TESTED:
        raise CannotExport(
            f"expected SmartNoise SQL {' or '.join(TESTED)}, got {installed}; it was not tested"
        )
    texts = {}
    for name, sql in queries.items():
        try:
            content = _record(name, sql, reader, (hidden or {}).get(name))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, CannotExport) else "a query that cannot be read back"
            raise CannotExport(f"{name}: {reason}") from error
        content["about"] |= {"engine": f"smartnoise-sql {installed}", "neighbours": "add-remove"}
        content["about"] |= {"published_at": published_at} if published_at else {}
        texts[name] = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / f"{name}.json" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        with path.open("x", encoding="utf-8") as file:  # a record is never written over
            file.write(text)
    return paths


def _record(name: str, sql: str, reader: Any, hidden: Any) -> dict[str, Any]:
    inner, outer = reader._rewrite(sql)
    try:
        mechanisms = reader._get_mechanisms(inner)
    except ValueError as error:  # as for Gaussian noise on a sum of wide bounds
        reason = str(error).partition("\n")[0][:200]
        raise CannotExport(f"expected a query that SmartNoise has noise for, got: {reason}") from error
    if outer.having is not None or outer.limit is not None:
        raise CannotExport("expected a query without HAVING and LIMIT")
    rows = _rows(inner)
    made = {str(one.name): str(one.expression) for one in rows.select.namedExpressions}
    keys, numbers, noise, summed = [], [], [], []
    for one, mechanism in zip(inner.select.namedExpressions, mechanisms, strict=True):
        label, text = str(one.name), str(one.expression)
        if mechanism is None:
            keys.append(made.get(text, text))
            continue
        aggregate = _AGGREGATE.fullmatch(text)
        if aggregate is None:
            raise CannotExport(f"expected sums, means and counts, got {text[:60]!r}")
        function, distinct, column = aggregate.groups()
        value = column  # a count of the clipped values is one of the values
        if function == "SUM":
            summed.append(column)
            value = " ".join(made[column].split())
        numbers.append(f"{function}({distinct or ''}{value}) AS {label}")
        noise.append(_noise(mechanism, label))
    release: dict[str, Any] = {
        "name": name.replace("_", " "),
        "sql": _sql(keys, numbers, rows),
        "noise": noise,
    }
    release["published"] = True
    facts = {"law": "read", "stddev": "read", "sql": "derived"}
    about: dict[str, Any] = {"facts": facts}
    if inner.censor_dims and keys:
        if hidden is None:
            raise CannotExport(
                "groups are hidden where a noisy count is small; say hidden={name: [[group], …]}, or []"
            )
        release |= {"withhold": hidden, "hidden_by_noise": True}
        facts |= {"withhold": "stated", "hidden_by_noise": "read"}
    epsilon, delta = map(float, reader.get_privacy_cost(sql))
    about["privacy_parameters"] = {"epsilon": epsilon} | ({"delta": delta} if delta > 0 else {})
    data = _data(inner, rows, reader.metadata.m_tables.values(), set(summed), about)
    return {"record": "sightline.release/1", "release": release, "data": data, "about": about}


def _sql(keys: list[str], numbers: list[str], rows: Any) -> str:
    where = f" {rows.where}" if rows.where is not None else ""
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, *numbers])} FROM data{where}{grouped}"


def _rows(query: Any) -> Any:
    """The innermost query, which clips the rows of the table; between it and the sums rows may be sampled."""
    if len(query.source.relations) != 1 or (query.where is not None and "row_num" not in str(query.where)):
        raise CannotExport("expected one table")
    inner = query.source.relations[0].primary.query
    relation = inner.source.relations[0].primary
    if hasattr(relation, "query"):
        names = [str(one.expression) for one in inner.select.namedExpressions]
        if not any(_RANDOM.fullmatch(one) for one in names):
            raise CannotExport("expected a query without subqueries")
        inner = relation.query
    if len(inner.source.relations) != 1 or hasattr(inner.source.relations[0].primary, "query"):
        raise CannotExport("expected a query over one table, without subqueries")
    return inner


def _data(inner: Any, rows: Any, tables: Any, summed: set[str], about: dict[str, Any]) -> dict[str, Any]:
    """What the reader's metadata say of the table."""
    facts = about["facts"]
    name = str(rows.source.relations[0].primary.name).rpartition(".")[2].casefold()
    (table,) = [one for one in tables if one.name.casefold() == name]
    columns = {column.name: column for column in table.m_columns.values()}
    data: dict[str, Any] = {}
    people = [name for name, column in columns.items() if column.is_key]
    if len(people) == 1 and not inner.row_privacy:
        data["record"], facts["record"], about["privacy_unit"] = people[0], "read", people[0]
    if len(summed) == 1:
        secret = columns[next(iter(summed))]
        data["secret"], facts["secret"] = secret.name, "derived"
        data["bounds"], facts["bounds"] = [secret.lower, secret.upper], "read"
    if inner.max_ids > 1:
        data |= {"max_rows_per_record": inner.max_ids}
        facts |= {"max_rows_per_record": "read"}
    return data


def _noise(mechanism: Any, label: str) -> dict[str, Any]:
    """SmartNoise's scale is b of Laplace and σ of Gaussian noise, on real numbers that may be rounded."""
    laws = {"laplace": ("laplace", math.sqrt(2)), "gaussian": ("gaussian", 1.0)}
    law, factor = laws.get(mechanism.mechanism.name, ("", 0.0))
    stddev = factor * float(mechanism.scale)
    if not stddev > 0:
        raise CannotExport(f"expected Laplace or Gaussian noise, got {mechanism.mechanism.name!r}")
    return {"law": law, "stddev": stddev, "label": label}
