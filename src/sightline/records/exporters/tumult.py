"""Write release records of what was published with Tumult Analytics: one JSON file for each query.

    from export_tumult import write
    write("releases", session, by_feeder=(query, RhoZCDPBudget(0.1)), record="home")

The noise is read by ``session._noise_info`` before the query is evaluated, and the SQL is derived from
``query._query_expr``. Private names are read, so other versions are refused. This file needs Tumult
Analytics and nothing else.
"""

from __future__ import annotations

import json
import math
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

TESTED = ("0.21",)
_MOST_KEYS = 10_000
# What is left of a filter without its texts, and what Spark reads in another way than other engines do.
_TEXT, _PLAIN = re.compile(r"'[^'\\]*'"), re.compile(r"[\w\s.,()<>=!?-]*")
_OTHERWISE = re.compile(r"\?\s*\?|--|<=>|\b(?!(?:and|in|not|or)\b)[a-z_]\w*\s*\(", re.IGNORECASE)


class CannotExport(ValueError):
    """The query cannot be read back."""


def write(
    folder: str | Path,
    session: Any,
    *,
    record: str | None = None,
    published_at: str | None = None,
    **queries: tuple[Any, Any],
) -> list[Path]:
    """Write a record of every query and its budget, called by its name.

    ``record`` is the column that says whose row it is.
    """
    installed = version("tmlt.analytics")
    if ".".join(installed.split(".")[:2]) not in TESTED:
        raise CannotExport(
            f"expected Tumult Analytics {' or '.join(TESTED)}, got {installed}; it was not tested"
        )
    texts = {}
    for name, (query, budget) in queries.items():
        try:
            content = _record(name, query, budget, session, record)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, CannotExport) else "a query that cannot be read back"
            raise CannotExport(f"{name}: {reason}") from error
        content["about"] |= {"engine": f"tmlt.analytics {installed}"}
        content["about"] |= {"published_at": published_at} if published_at else {}
        texts[name] = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / f"{name}.json" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        with path.open("x", encoding="utf-8") as file:  # a record is never written over
            file.write(text)
    return paths


def _record(name: str, query: Any, budget: Any, session: Any, record: str | None) -> dict[str, Any]:
    node = query._query_expr
    if type(node).__name__ == "SuppressAggregates":
        node = (
            node.child
        )  # without counts that are small with their noise, an answer tells no more than with them
    rows = _Rows(node.child, getattr(node, "measure_column", None))
    keys = _keys(node.groupby_keys, rows.conditions)
    numbers, bounds = _numbers(node, rows)
    noise = session._noise_info(query, budget)
    if len(noise) != len(numbers):
        raise CannotExport(f"expected {len(numbers)} noisy numbers, got {len(noise)}")
    listed = ", ".join([*keys, *(f"{sql} AS {_quoted(label)}" for label, sql in numbers)])
    where = f" WHERE {' AND '.join(rows.conditions)}" if rows.conditions else ""
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    facts = {"law": "read", "stddev": "read", "sql": "derived"}
    data: dict[str, Any] = {}
    if bounds is not None:
        data |= {"secret": node.measure_column, "bounds": bounds}
        facts |= {"secret": "derived", "bounds": "read"}
    about: dict[str, Any] = {"facts": facts, "neighbours": "add-remove", "privacy_parameters": _loss(budget)}
    if record is not None:
        data["record"], facts["record"], about["privacy_unit"] = record, "stated", record
    if (most := _most_rows(session)) > 1:
        data |= {"max_rows_per_record": most}
        facts |= {"max_rows_per_record": "read"}
    release = {
        "name": name.replace("_", " "),
        "sql": f"SELECT {listed} FROM data{where}{grouped}",
        "noise": [_noise(one, label) for one, (label, _) in zip(noise, numbers, strict=True)],
        "published": True,
    }
    return {"record": "sightline.release/1", "release": release, "data": data, "about": about}


def _most_rows(session: Any) -> int:
    """How many rows may come or go at once."""
    metrics, sizes = session._accountant.input_metric.key_to_metric, session._accountant.d_in
    if [type(one).__name__ for one in metrics.values()] != ["SymmetricDifference"]:
        raise CannotExport("expected one private table, protected by AddOneRow or AddMaxRows")
    return int(str(next(iter(sizes.values()))))


class _Rows:
    """Filters, and then replaced NULLs of what is added up."""

    def __init__(self, node: Any, column: str | None) -> None:
        self.conditions: list[str] = []
        self.replaced: dict[str, Any] = {}
        while (kind := type(node).__name__) != "PrivateSource":  # from the last step to the first
            if kind == "Filter":
                self.conditions.insert(0, _condition(node.condition))
            elif kind != "ReplaceNullAndNan" or set(node.replace_with) != {column} or self.conditions:
                raise CannotExport(
                    "expected filters, then replace_null_and_nan of the column that is added up, before the "
                    f"aggregate, got {kind}"
                )
            else:
                self.replaced |= dict(node.replace_with)  # the first one leaves nothing to replace
            node = node.child

    def value(self, column: str) -> str:
        quoted = _quoted(column)
        return f"COALESCE({quoted}, {_literal(self.replaced[column])})" if column in self.replaced else quoted


def _condition(text: str) -> str:
    plain = _TEXT.sub("?", text)
    if not _PLAIN.fullmatch(plain) or _OTHERWISE.search(plain):
        raise CannotExport("expected a filter of comparisons with numbers and 'texts', without functions")
    return f"({text})"


def _numbers(node: Any, rows: _Rows) -> tuple[list[tuple[str, str]], list[float] | None]:
    """The noisy numbers, by label and SQL, and the bounds of what they add up.

    Of a mean Tumult adds up the distances from the middle, so that its noise is less. How many rows there are
    is public here, so that it is the same as noise on the sum.
    """
    kind, label = type(node).__name__, node.output_column
    if kind == "GroupByCount":
        return [(label, "COUNT(*)")], None
    if kind not in ("GroupByBoundedSum", "GroupByBoundedAverage"):
        raise CannotExport(f"expected sums, averages and counts, got {kind}")
    column, low, high = node.measure_column, node.low, node.high
    total = f"SUM(LEAST(GREATEST({rows.value(column)}, {_literal(low)}), {_literal(high)}))"
    if kind == "GroupByBoundedSum":
        return [(label, total)], [low, high]
    count = "COUNT(*)" if column in rows.replaced else f"COUNT({_quoted(column)})"
    return [(f"{label}_sum", total), (f"{label}_count", count)], [low, high]


def _keys(keyset: Any, conditions: list[str]) -> list[str]:
    """The columns of GROUP BY; rows with keys that are not published are left out."""
    if isinstance(keyset, tuple):
        if keyset:
            raise CannotExport("expected a KeySet, got the names of columns, whose groups depend on the data")
        return []
    frame = keyset.dataframe()
    if not frame.columns:
        return []
    listed = sorted((list(row) for row in frame.limit(_MOST_KEYS + 1).collect()), key=repr)
    if len(listed) > _MOST_KEYS or any(value is None for row in listed for value in row):
        raise CannotExport(f"expected at most {_MOST_KEYS:,} keys, without NULL")
    columns = [_quoted(name) for name in frame.columns]
    if len(columns) == 1:
        conditions.append(f"{columns[0]} IN ({', '.join(_literal(row[0]) for row in listed)})")
    else:
        each = [zip(columns, map(_literal, row), strict=True) for row in listed]
        tests = [" AND ".join(f"{column} = {value}" for column, value in row) for row in each]
        conditions.append(f"({' OR '.join(f'({one})' for one in tests)})")
    return columns


def _noise(info: dict[str, Any], label: str) -> dict[str, Any]:
    """Tumult's parameter is σ² of Gaussian noise, and b of Laplace and geometric noise."""
    name, size = info["noise_mechanism"].name, float(info["noise_parameter"])
    if not size > 0 or name not in ("GAUSSIAN", "DISCRETE_GAUSSIAN", "LAPLACE", "GEOMETRIC"):
        raise CannotExport(f"expected Gaussian, Laplace or geometric noise, got {name}")
    if name.endswith("GAUSSIAN"):
        return {"law": name.lower().replace("_", "-"), "stddev": math.sqrt(size), "label": label}
    stddev = math.sqrt(2) * size if name == "LAPLACE" else 1 / (math.sqrt(2) * math.sinh(0.5 / size))
    return {"law": name.lower(), "stddev": stddev, "label": label}


def _loss(budget: Any) -> dict[str, float]:
    kind = type(budget).__name__
    sizes = {
        name: float(getattr(budget, name)) for name in ("epsilon", "delta", "rho") if hasattr(budget, name)
    }
    if not sizes:
        raise CannotExport(f"expected a budget of epsilon, delta or rho, got {kind}")
    return {name: size for name, size in sizes.items() if size > 0}


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise CannotExport(f"expected text, numbers, TRUE or FALSE as constants, got {type(value).__name__}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
