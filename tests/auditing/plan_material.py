"""What the plan fuzzer draws from: odd numbers, texts, sources, names, cells, pieces of SQL, and options."""

from __future__ import annotations

import math
from typing import Any

# fmt: off
NUMBERS: list[Any] = [
    0, 1, -1, 2, 0.5, -0.0, 7.25, 1e-9, 1e9, 1e15, 1e154, 1e155, 1e300, 1.7e308, -1.7e308, 5e-324,
    2.3e-308, 1e-160, 2**31, 2**53 + 1, 2**63, 10**30, 10**400, math.nan, math.inf, -math.inf,
]
TEXTS = [
    "", " ", "x", "data", "a\nb", "a\x00b", "\x00", "ü", "日本", "'", '"', "''); DROP TABLE data; --",
    "x" * 5000, "%", "1", "NaN", "\ud800", "\u202e", "a\r", "[red]", "{}", "$x", "\\", "NULL", "50%",
    "-1%", "1e400%",
]
SOURCES = [
    "", ".", "/", "..", "nowhere.csv", "a\x00.csv", "x" * 300, "x" * 5000, "x" * 5000 + ".csv", "t/0.csv/",
    "postgresql://", "postgresql://[::1", "postgresql://h:99999/d", "spark://h:7077", "sc://", "http://x",
    "s3://bucket/x.parquet", "file" + "://x.csv", "*.csv", "tables/*.csv", "t.duckdb", "\ud800.csv",
    "/dev/null", "/proc/self/mem",
    "postgresql://127.0.0.1:1/d?table=t", "postgres://ann:hush@127.0.0.1:1/d?table=a.b&connect_timeout=1",
    "postgresql://127.0.0.1:1/d", "POSTGRESQL://127.0.0.1:1/?table=a.b.c", "host=127.0.0.1 password=hush",
    "plan.toml", "x.csv\n", "~", "con:", "table.parquet::t", "a.db::x",
]
COLUMNS = [
    "who", "g", "n", "b", "x", "c", "d",
]
ODD_NAMES = [
    "", " ", "select", "a b", 'a"b', "ü", "日", "X", "x" * 200, "data", "who ", "1", "a.b", "n\n",
    "count(*)",
]
CELLS: dict[str, list[str]] = {
    "who": ["A", "B", "C", "D", "E", "F", "", "a", "ü", "x" * 50, "0"],
    "g": ["north", "south", "", " north", "NORTH", "ü", "it's", "x" * 300, "(no value)"],
    "n": ["0", "1", "2", "3", "-5", "", "9223372036854775807", "65"],
    "b": ["true", "false", ""],
    "x": ["0", "1", "2.5", "10", "-3", "", "1e308", "-1e308", "5e-324", "1e155", "nan", "inf", "7"],
    "c": ["red", "green", "blue", "", "Red", "it's", "violet"],
    "d": ["2024-01-01", "2024-06-30", "1970-01-01", "9999-12-31", ""],
}
AGGREGATES = [
    "AVG(x)", "SUM(x)", "SUM(x * x)", "AVG(POWER(x, 3))", "COUNT(*)", "COUNT(x)", "COUNT(c)",
    "COUNT_IF(b)", "COUNT(*) FILTER (WHERE x > 3)", "AVG(CASE WHEN x > 2.5 THEN 1 ELSE 0 END)",
    "SUM(b::INT)", "COUNT(*) FILTER (WHERE c = 'red')", "COUNT(*) FILTER (WHERE c <> 'violet')",
    "SUM(x) FILTER (WHERE g = 'north')", "MAX(x)", "COUNT(DISTINCT who)", "AVG(n)", "SUM(POWER(x, 60))",
    "SUM(POWER(x, 1e9))", "AVG(x) + 0", "STDDEV(x)", "COUNT(*) FILTER (WHERE x > 1e308)",
    "COUNT(*) FILTER (WHERE x > 5e-324)", "COUNT(*) FILTER (WHERE x > -1e400)",
]
CONDITIONS = [
    "g = 'north'", "n > 1", "NOT b", "g IN ('north', 'south')", "n BETWEEN 0 AND 2", "x > 3", "c = 'red'",
    "b", "g LIKE 'n%'", "n IS NULL", "1 = 1", "1 = 0", "n / 0 > 1", "who <> 'A'", "d >= DATE '2024-01-01'",
    "g || 'x' = 'y'", "n * 9223372036854775807 > 0", "CAST(g AS INT) > 1", "POWER(n, 1000) > 1",
    "c = 'violet'", "c = 'unlisted'", "g IN (" + ", ".join(f"'{i}'" for i in range(30)) + ")", "n = 1e400",
    "x > 'a'", "b = 1", "x > 1 AND x > 2",
]
KEYS = [
    "g", "n", "b", "c", "who", "d", "FLOOR(n / 2)", "n > 1", "g = 'north' OR b", "x", "1", "LOWER(g)",
    "n % 0", "d + 1",
]
GROUPINGS = [
    "GROUP BY {}", "GROUP BY ROLLUP ({})", "GROUP BY CUBE ({})", "GROUP BY GROUPING SETS (({}), ())",
    "GROUP BY ALL",
]
SNIPPETS = [
    "'", '"', "(", ")", "--", "/*", ";", " OR ", " NOT ", "\x00", "é", " UNION SELECT 1", ",", "NULL",
    "::INT", "*", "e400", ".", "[", "{", "\\", "\n", "\t", " HAVING COUNT(*) > 1", " LIMIT 1",
    " ORDER BY 1", "$1", "?", "`", "0x", "1",
]
ACCEPTED = [
    "dropped", "clipped", "empty", "groups", "published_but_dropped", "undecided", "local", "homogeneous",
    "few_values", "values", "drawn",
]
CELL_KEYS: dict[str, list[str]] = {  # what the groups of tame tables are called
    "g": ["north", "south", "NULL"], "n": ["0", "1", "2"], "b": ["true", "false", "NULL"],
}
LOOKUPS = [
    " JOIN zones USING (g)", " LEFT JOIN zones AS z ON data.g = z.g",
    " LEFT JOIN levels ON data.n = levels.n",
    " JOIN zones ON data.g = zones.g JOIN levels ON zones.zone = levels.n",
]
OPTIONS = [
    ["--json"], ["--names"], ["--publishable"], ["--top", "1"], ["--limit", "50%"], ["--top", "0"],
    ["--limit", "nan"], ["--limit", ""], ["--top", "x"], ["--limit", "1e400"], ["--publishable", "--json"],
    ["--limit", "0.9", "--names"],
]
NESTED = {"a": {"b": [1, {"c": []}]}}
ODD_VALUES: list[Any] = [
    None, True, False, [], {}, [[]], NESTED, b"bytes", 1j, object(), print, range(3), {1: 2}, {"x": None},
]
SECRETS: dict[str, dict[str, Any]] = {
    "number": {"secret": "x", "bounds": [0, 10]},
    "boolean": {"secret": "b", "kind": "boolean"},
    "category": {"secret": "c", "categories": ["red", "green", "blue"]},
}
ABOUT = {
    "number": ["AVG(x)", "SUM(x)", "SUM(x * x)", "COUNT(*) FILTER (WHERE x > 3)", "AVG(POWER(x, 3))"],
    "boolean": ["COUNT_IF(b)", "SUM(b::INT)", "COUNT(*) FILTER (WHERE b)", "AVG(b::INT)"],
    "category": ["COUNT(*) FILTER (WHERE c = 'red')", "COUNT(*) FILTER (WHERE c <> 'blue')"],
}
