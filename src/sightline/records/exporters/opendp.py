"""Write release records of what was published with OpenDP's Context and Polars: one JSON file for each query.

    from export_opendp import write
    write("releases", context, by_feeder=query, total=other, record="home")

The noise is read by ``query.summarize()``, the SQL is derived from ``query.polars_plan``, which has no rows.
What cannot be read back is refused. This file needs OpenDP with Polars and nothing else.
"""

from __future__ import annotations

import io
import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

TESTED = ("0.14", "0.16")
_SYMBOLS = {
    "Eq": "=",
    "NotEq": "<>",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
    "And": "AND",
    "Or": "OR",
}
_NEIGHBOURS = {
    "SymmetricDistance": "add-remove",
    "SymmetricIdDistance": "add-remove",
    "ChangeOneDistance": "replace-one",
}


class CannotExport(ValueError):
    """The query cannot be read back."""


def write(  # many parameters: what OpenDP does not know
    folder: str | Path,
    context: Any,
    *,
    record: str | None = None,
    secret: str | None = None,
    published_at: str | None = None,
    hidden: dict[str, list[list[str]]] | None = None,
    **queries: Any,
) -> list[Path]:
    """Write a record of every query, called by its name.

    ``record`` is the column that says whose row it is. ``secret`` is needed where no sum or mean names one
    column. ``hidden`` lists by query the groups that were not published because a noisy count was too small.
    """
    installed = version("opendp")
    if ".".join(installed.split(".")[:2]) not in TESTED:
        raise CannotExport(
            f"expected OpenDP {' or '.join(TESTED)}, got {installed}; this exporter was not tested with it"
        )
    texts = {}
    for name, query in queries.items():
        try:
            content = _record(name, query, context, record, secret, (hidden or {}).get(name))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, CannotExport) else "a query that cannot be read back"
            raise CannotExport(f"{name}: {reason}") from error
        content["about"] |= {"engine": f"opendp {installed}"} | (
            {"published_at": published_at} if published_at else {}
        )
        texts[name] = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / f"{name}.json" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        with path.open("x", encoding="utf-8") as file:  # a record is never written over
            file.write(text)
    return paths


def _record(
    name: str, query: Any, context: Any, record: str | None, secret: str | None, hidden: Any
) -> dict[str, Any]:
    plan = _Plan(json.loads(query.polars_plan.serialize(format="json")))
    summary = query.summarize().to_dicts()
    if len(summary) != len(plan.aggregates):
        raise CannotExport(
            f"expected {len(plan.aggregates)} noisy numbers in summarize(), got {len(summary)}"
        )
    threshold = any(row.get("threshold") is not None for row in summary)
    if threshold and hidden is None:
        raise CannotExport(
            "groups are hidden where a noisy count is small; say hidden={name: [[group], …]}, or []"
        )
    noise = [_noise(row, label, kind) for row, (label, _, kind) in zip(summary, plan.aggregates, strict=True)]
    release: dict[str, Any] = {
        "name": name.replace("_", " "),
        "sql": plan.sql(),
        "noise": noise,
        "published": True,
    }
    facts = {"law": "read", "stddev": "read", "sql": "derived"}
    if threshold:
        release |= {"withhold": hidden, "hidden_by_noise": True}
        facts |= {"withhold": "stated", "hidden_by_noise": "read"}
    data: dict[str, Any] = {}
    asked_about = secret or (next(iter(plan.bounds)) if len(plan.bounds) == 1 else None)
    if asked_about is not None:
        data["secret"], facts["secret"] = asked_about, "stated" if secret else "derived"
    if asked_about in plan.bounds:
        data["bounds"], facts["bounds"] = plan.bounds[asked_about], "read"
    if record is not None:
        data["record"], facts["record"] = record, "stated"
    rows = context.d_in
    if isinstance(rows, int) and rows > 1:
        data |= {"max_rows_per_record": rows}
        facts |= {"max_rows_per_record": "read"}
    about: dict[str, Any] = {"facts": facts}
    metric = type_name(context.accountant.input_metric)
    if metric in _NEIGHBOURS:
        about["neighbours"] = _NEIGHBOURS[metric]
    if record is not None:
        about["privacy_unit"] = record
    parameters = _loss(context)
    if parameters:
        about["privacy_parameters"] = parameters
    return {"record": "sightline.release/1", "release": release, "data": data, "about": about}


def type_name(value: Any) -> str:
    """The name of a metric or measure: ``SymmetricDistance()`` is SymmetricDistance."""
    return str(value).partition("(")[0]


def _loss(context: Any) -> dict[str, float]:
    """What one query costs, if all of the context's queries cost the same."""
    shares = [*(context.d_mids or []), *(context.d_mids_consumed or [])]
    if not shares or any(share != shares[0] for share in shares):
        return {}
    share, measure = shares[0], str(context.accountant.output_measure)
    names = ["rho"] if "ZeroConcentrated" in measure else ["epsilon"]
    if "Approximate" in measure:
        sizes, names = list(share), [*names, "delta"]
    else:
        sizes = [share]
    return {one: float(size) for one, size in zip(names, sizes, strict=True) if float(size) > 0}


def _noise(row: dict[str, Any], label: str, kind: str) -> dict[str, Any]:
    """OpenDP's scale is σ for Gaussian noise, and b for Laplace noise."""
    if row["aggregate"] not in kind.split("|"):
        raise CannotExport(f"expected noise on a {kind} in summarize(), got {row['aggregate']!r}")
    b = sigma = float(row["scale"])
    laws = {
        "Integer Laplace": ("geometric", 1 / (math.sqrt(2) * math.sinh(0.5 / b)) if b > 1e-3 else 0.0),
        "Integer Gaussian": ("discrete-gaussian", sigma),
        "Float Laplace": ("laplace", math.sqrt(2) * b),
        "Float Gaussian": ("gaussian", sigma),
    }
    law, stddev = laws.get(row["distribution"], ("", 0.0))
    if not stddev > 0:
        raise CannotExport(
            f"expected Laplace or Gaussian noise, got {row['distribution']!r} of scale {row['scale']!r}"
        )
    return {"law": law, "stddev": stddev, "label": label}


class _Plan:
    """A Polars plan as SQL: a SELECT, or a GROUP BY, over rows that are filtered and computed one by one."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.columns: dict[str, str] = {}
        self.conditions: list[str] = []
        self.keys: list[str] = []
        self.bounds: dict[str, list[float]] = {}
        self.aggregates: list[tuple[str, str, str]] = []  # label, SQL, and what summarize() calls it
        kind, node = _only(plan)
        if kind == "Join":
            kind, node = self._with_keys(node)
        if kind == "Select":
            listed = node["expr"]
        elif kind == "GroupBy":
            if node.get("predicates") or node.get("apply") or any(node["options"].values()):
                raise CannotExport("expected a plain GROUP BY")
            listed = node["aggs"]
        else:
            raise CannotExport(f"expected select or group_by(…).agg(…), got {kind}")
        self._rows(node["input"])
        self.keys = [self._column(key) for key in node.get("keys", [])]
        for expression in listed:
            self._aggregate(expression)

    def sql(self) -> str:
        keys = ", ".join(self.keys)
        numbers = ", ".join(f"{sql} AS {_quoted(label)}" for label, sql, _ in self.aggregates)
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return f"SELECT {keys}{', ' * bool(keys)}{numbers} FROM data{where}" + (
            f" GROUP BY {keys}" if keys else ""
        )

    def _with_keys(self, node: dict[str, Any]) -> tuple[str, Any]:
        """Public keys are joined to the groups: rows with other keys are not published."""
        import polars

        keys, (kind, inner) = node["input_left"], _only(node["input_right"])
        scan = keys.get("IR", {}).get("dsl", keys)["DataFrameScan"]
        frame = polars.read_ipc_stream(io.BytesIO(bytes(scan["df"])))
        names = [one["Column"] for one in node["left_on"]]
        if (
            node["options"]["args"]["how"] != "Left"
            or frame.columns != names
            or node["left_on"] != node["right_on"]
        ):
            raise CannotExport("expected with_keys(…) as the only join")
        if len(names) != 1:
            raise CannotExport("expected with_keys(…) of one column")
        values = ", ".join(_literal(value) for value in frame.to_series().to_list())
        self.conditions.append(f"{_quoted(names[0])} IN ({values})")
        return kind, inner

    def _rows(self, node: dict[str, Any]) -> None:
        """Follow filters and computed columns down to the table."""
        import polars

        kind, inner = _only(node)
        if kind == "Filter":
            if _has(inner["predicate"], "Random"):
                raise CannotExport("rows are sampled where somebody has too many; truncate the data before")
            self._rows(inner["input"])
            self.conditions.append(self._value(inner["predicate"]))
        elif kind == "HStack":
            self._rows(inner["input"])
            made = {
                _name(one): self._value(one["Alias"][0] if "Alias" in one else one) for one in inner["exprs"]
            }
            self.columns |= made
        elif kind == "DataFrameScan":
            if polars.read_ipc_stream(io.BytesIO(bytes(inner["df"]))).height:
                raise CannotExport("the query's plan holds rows of the table; nothing was written")
        elif kind != "Scan":
            raise CannotExport(f"expected filters and with_columns before the aggregates, got {kind}")

    def _aggregate(self, node: Any) -> None:
        label = _name(node)
        inner = node["Alias"][0] if isinstance(node, dict) and "Alias" in node else node
        symbol = inner["Function"]["function"]["FfiPlugin"]["symbol"]
        inputs = inner["Function"]["input"]
        if symbol in ("dp_sum", "dp_mean"):
            low, high = (_number(one) for one in inputs[1:3])
            column, value = _root(inputs[0]), self._value(inputs[0])
            self.bounds[column] = [low, high]
            total = f"SUM(LEAST(GREATEST({value}, {low!r}), {high!r}))"
            if symbol == "dp_sum":
                self.aggregates.append((label, total, "Sum"))
                return
            self.aggregates += [
                (f"{label}_sum", total, "Sum"),
                (f"{label}_count", "COUNT(*)", "Length|Frame Length"),
            ]
        elif symbol in ("dp_frame_len", "dp_len"):
            self.aggregates.append((label, "COUNT(*)", "Length|Frame Length"))
        elif symbol == "dp_count":
            self.aggregates.append((label, f"COUNT({self._value(inputs[0])})", "Count"))
        elif symbol == "noise" and inputs[0] == "Len":
            self.aggregates.append((label, "COUNT(*)", "Length|Frame Length"))
        elif symbol == "noise" and set(inputs[0].get("Agg", {})) == {"Sum"}:
            self._sum(label, inputs[0]["Agg"]["Sum"])
        else:
            raise CannotExport(f"expected sums, means and counts, got {symbol}")

    def _sum(self, label: str, node: Any) -> None:
        function = node["Function"]["function"] if "Function" in node else None
        if not (isinstance(function, dict) and function.get("Clip") == {"has_min": True, "has_max": True}):
            raise CannotExport("expected clip(low, high) inside of sum()")
        self.bounds[_root(node)] = [_number(one) for one in node["Function"]["input"][1:3]]
        self.aggregates.append((label, f"SUM({self._value(node)})", "Sum"))

    def _column(self, node: Any) -> str:
        if set(node) != {"Column"}:
            raise CannotExport("expected columns in group_by")
        return self.columns.get(node["Column"], _quoted(node["Column"]))

    def _value(self, node: Any) -> str:
        """A number or a condition of one row."""
        kind, inner = _only(node)
        if kind == "Column":
            return self._column(node)
        if kind == "Literal":
            return _literal(_constant(inner))
        if kind == "BinaryExpr" and inner["op"] in _SYMBOLS:
            return f"({self._value(inner['left'])} {_SYMBOLS[inner['op']]} {self._value(inner['right'])})"
        if kind == "Ternary" and _fills_nan(inner):
            return self._value(inner["truthy"])  # an audit finds NaN by itself
        if kind == "Function" and inner["function"] == "FillNull":
            return f"COALESCE({', '.join(map(self._value, inner['input']))})"
        if kind == "Function" and inner["function"] == {"Clip": {"has_min": True, "has_max": True}}:
            value, low, high = map(self._value, inner["input"])
            return f"LEAST(GREATEST({value}, {low}), {high})"
        raise CannotExport(f"expected columns, constants, comparisons, fill_null and clip, got {kind}")


def _only(node: Any) -> tuple[str, Any]:
    if not isinstance(node, dict) or len(node) != 1:
        raise CannotExport("expected one step of a plan at a time")
    return next(iter(node.items()))


def _has(node: Any, name: str) -> bool:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return (isinstance(node, dict) and name in node) or any(_has(one, name) for one in inner)


def _fills_nan(node: dict[str, Any]) -> bool:
    """Whether it is ``fill_nan``: the value itself where it is a number or NULL."""
    tests = node["predicate"].get("BinaryExpr", {})
    sides = [tests.get(side, {}).get("Function", {}) for side in ("left", "right")]
    right = [one.get("function") for one in sides] == [{"Boolean": "IsNotNan"}, {"Boolean": "IsNull"}]
    return right and tests["op"] == "Or" and all(one["input"] == [node["truthy"]] for one in sides)


def _root(node: Any) -> str:
    """The one column that an expression computes with."""
    if isinstance(node, dict) and set(node) == {"Column"}:
        return str(node["Column"])
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    columns = {name for one in inner for name in [_root(one)] if name}
    if len(columns) > 1:
        raise CannotExport("expected sums of one column")
    return columns.pop() if columns else ""


def _name(node: Any) -> str:
    """What Polars calls an expression: its alias, or its column."""
    if isinstance(node, dict) and "Alias" in node:
        return str(node["Alias"][1])
    return _root(node) or "len"


def _constant(node: Any) -> Any:
    kind, inner = _only(node)
    if kind not in ("Dyn", "Scalar"):
        raise CannotExport("expected plain constants")
    return _only(inner)[1]


def _number(node: Any) -> float:
    value = _constant(node["Literal"])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CannotExport("expected numbers as bounds")
    return value


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
