"""Random plans over random tables: every one gives a result or a `SightlineError`, never anything else.

A case is a valid plan with mistakes put into its fields, its SQL or its text, over a small table with NULLs,
odd names and extreme values. It goes through `sightline.audit`, or as a file through the command line.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

import sightline as sl
from sightline.cli import main
from sightline.errors import SightlineError
from sightline.report.streams import console
from sightline.report.terminal import print_result
from tests.auditing.plan_material import (
    ABOUT,
    ACCEPTED,
    AGGREGATES,
    CELL_KEYS,
    CELLS,
    COLUMNS,
    CONDITIONS,
    GROUPINGS,
    KEYS,
    LOOKUPS,
    NUMBERS,
    ODD_NAMES,
    ODD_VALUES,
    OPTIONS,
    SECRETS,
    SNIPPETS,
    SOURCES,
    TEXTS,
)


class ForeignException(AssertionError):
    """A plan raised something that is not a `SightlineError`, or the command line broke its word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A plan as a mapping, or as the text of a TOML file; and the command's options, if it is a command."""

    plan: dict[str, Any]
    text: str | None = None
    command: tuple[str, ...] | None = None


def write_tables(draw: random.Random, folder: Path, number: int = 12) -> list[str]:
    """Small tables: CSV and Parquet, some with odd names of columns or no rows."""
    names = []
    (folder / "zones.csv").write_text("g,zone\nnorth,1\nsouth,2\n", encoding="utf-8")
    (folder / "levels.csv").write_text("n,level\n0,low\n1,high\n2,\n", encoding="utf-8")
    for place in range(number):
        columns = list(COLUMNS)
        if draw.random() < 0.1:
            columns[draw.randrange(len(columns))] = draw.choice(ODD_NAMES)
        if draw.random() < 0.05:
            columns.append(draw.choice(columns))
        tame = draw.random() < 0.6
        rows: list[list[str]] = []
        # In a panel a person has several rows, and in some panels one value in all of them.
        each, constant = draw.choice([(1, False), (1, False), (1, False), (3, False), (3, True)])
        for row in range(draw.choice([0, 1, 2, 5, 5, *[9] * 12, 14, 30])):
            several = not tame and draw.random() < 0.1
            cells = [draw.choice(CELLS[one][: 3 if tame else None]) for one in COLUMNS]
            cells[0] = cells[0] if several else f"P{row // each}"
            if constant and row % each:
                for place in (COLUMNS.index(one) for one in ("x", "b", "c")):
                    cells[place] = rows[-1][place]
            rows.append([*cells, *["0"] * (len(columns) - len(cells))])
        path = folder / f"{place}.csv"
        lines = [
            ",".join('"' + cell.replace('"', '""') + '"' if cell else "" for cell in row) for row in rows
        ]
        header = ",".join('"' + name.replace('"', '""') + '"' for name in columns)
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        names.append(f"tables/{path.name}")
        if draw.random() < 0.4:
            with duckdb.connect() as connection, contextlib.suppress(duckdb.Error):
                target = path.with_suffix(".parquet")
                connection.execute(f"COPY (FROM read_csv('{path}')) TO '{target}' (FORMAT parquet)")
                names.append(f"tables/{target.name}")
    return names


def draw_sql(draw: random.Random, kind: str) -> str:
    """A query that is often good; sometimes with mistakes in its text."""
    wild = draw.random() < 0.15
    pool = AGGREGATES + ABOUT[kind] if wild else ABOUT[kind]
    aggregates = [draw.choice(pool) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
    keys = draw.sample(
        KEYS if wild else KEYS[:3], draw.choice([0, 0, 1, 1, 2, 3]) if not wild else draw.randrange(5)
    )
    text = f"SELECT {', '.join([*keys, *aggregates])} FROM data"
    text += draw.choice([""] * 40 + LOOKUPS)
    if draw.random() < 0.3:
        text += f" WHERE {draw.choice(CONDITIONS if wild else CONDITIONS[:5])}"
    if keys:
        text += " " + draw.choice(GROUPINGS).format(", ".join(keys))
    for _ in range(draw.choice([0] * 40 + [1, 2, 5])):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice([*SNIPPETS, ""]) + text[at + draw.randrange(3) :]
    return (
        text
        if draw.random() < 0.997
        else draw.choice(["(" * 500, "SELECT " + "NOT " * 400 + "b", "x" * 100_000, ""])
    )


def draw_noise(draw: random.Random, release: dict[str, Any]) -> None:
    """The noise of a release: none of its own, one for all, one by cell, or of a law; fields for a design."""
    stddevs = [0.1, 1.0, 40, 1e-9, 1e9]
    kind = draw.random()
    if kind < 0.5:
        release["noise_stddev"] = draw.choice(stddevs)
    elif kind < 0.65:
        key = draw.choice([None, *CELL_KEYS])
        cells: list[list[Any]] = [[name] for name in CELL_KEYS.get(key or "", [])] or [[]]
        if draw.random() < 0.05:
            cells.append(copy.deepcopy(draw.choice(cells)))
        aggregate = release["sql"].removeprefix("SELECT ").partition(" FROM")[0].rpartition(", ")[2]
        if key is not None and draw.random() < 0.7:
            release["sql"] = f"SELECT {key}, {aggregate} FROM data GROUP BY {key}"
        elif draw.random() < 0.7:
            release["sql"] = f"SELECT {aggregate} FROM data"
        release["noise"] = {"by_cell": [[*cell, draw.choice(stddevs)] for cell in cells]}
    elif kind < 0.85:
        law = draw.choice(
            ["gaussian", "laplace", "laplace", "none", "none", "discrete-gaussian", "geometric"]
        )
        size = draw.choice(["stddev", "noise_multiplier", "epsilon"])
        release["noise"] = {"law": law} if law == "none" else {"law": law, size: draw.choice(stddevs)}
        if draw.random() < 0.1:
            release["noise"] = [release["noise"], {**release["noise"], "label": draw.choice(["AVG(x)", "x"])}]
    if draw.random() < (0.15 if kind < 0.65 else 0.01):
        release["published"] = True
    if draw.random() < 0.1:
        release["weight"] = draw.choice([0.5, 1e9])
        release["noise_within"] = draw.choice([[0.1, 1.0]] * 4 + [[2.0, 1.0]])


def draw_plan(draw: random.Random, sources: list[str]) -> dict[str, Any]:
    """A valid plan, as far as the table and the SQL allow."""
    kind = draw.choice(list(SECRETS))
    releases: list[dict[str, Any]] = [
        {"name": f"r{place}", "sql": draw_sql(draw, kind)} for place in range(draw.choice([1, 1, 1, 2, 2, 3]))
    ]
    for release in releases:
        if draw.random() < 0.3:
            release["times"] = draw.choice([1, 2, 7, 1000, 100_000])
        draw_noise(draw, release)
    plan: dict[str, Any] = {
        "data": {"source": draw.choice(sources), "record": "who", **copy.deepcopy(SECRETS[kind])},
        "privacy": {"epsilon": draw.choice([0.1, 1.0, 10.0]), "delta": 1e-5},
        "release": releases,
        "limits": {"accept": draw.sample(ACCEPTED, draw.choice([0, 1, 3, len(ACCEPTED)]))},
    }
    if draw.random() < 0.5:
        plan["limits"]["accept"] = ["empty", "dropped", "clipped"]
    if draw.random() < 0.5:
        plan["limits"]["remaining_uncertainty"] = draw.choice([0.5, "50%", 0.95])
    if draw.random() < 0.2:
        plan["attacker"] = {"knows": [draw.choice(CONDITIONS[:5])]}
    if draw.random() < 0.2:
        plan.setdefault("attacker", {})["prior"] = draw.choice(["uniform", "cos2", "two-point"])
    if draw.random() < 0.8:
        plan["data"]["max_rows_per_record"] = draw.choice([1, 3, 3, 3, 3, 100])
    if draw.random() < 0.1:
        plan["data"]["values"] = draw.choice(["constant", "independent"])
    if draw.random() < 0.2:
        accountants = ["zcdp", "gaussian-dp", "renyi", "basic", "advanced", "laplace"]
        plan["privacy"]["accountant"] = draw.choice(accountants)
    if draw.random() < 0.25:
        draw_new_forms(draw, plan)
    joined = any("zones" in release["sql"] or "levels" in release["sql"] for release in releases)
    if draw.random() < (0.8 if joined else 0.1):
        zones = draw.choice(["tables/zones.csv"] * 60 + sources)
        plan["data"]["tables"] = {"zones": zones, "levels": "tables/levels.csv"}
    return plan


def draw_new_forms(draw: random.Random, plan: dict[str, Any]) -> None:
    """Contribution bounding, budgets over time, suppression, and what else the attacker knows."""
    release, attacker = draw.choice(plan["release"]), plan.setdefault("attacker", {})
    match draw.randrange(6):
        case 0:
            order = draw.choice(["d", "n DESC", "n, d, g", "x"])
            number = f"ROW_NUMBER() OVER (PARTITION BY {plan['data']['record']} ORDER BY {order})"
            plan["data"]["sql"] = f"SELECT * FROM source QUALIFY {number} <= {draw.choice([1, 2])}"
        case 1:
            keys = ", ".join([plan["data"]["record"], *draw.choice([[], ["g"], ["g", "n"], ["x"]])])
            total = f"LEAST(SUM({plan['data']['secret']}), 9) AS {plan['data']['secret']}"
            plan["data"]["sql"] = f"SELECT {keys}, {total} FROM source GROUP BY {keys}"
        case 2:
            release["times"] = draw.choice([2, 3, 7])
        case 3:
            suppressed = draw.choice(
                [
                    "COUNT(*) < 2",
                    "COUNT(DISTINCT who) <= 1",
                    "MIN(n) > 1",
                    "SUM(x) < 3",
                    "COUNT(*) > 1 OR g = 'a'",
                ]
            )
            release["sql"] += f" HAVING NOT ({suppressed})"
        case 4:
            attacker["values_within"] = draw.choice([0.01, 1, 5, 100])
        case 5:
            attacker["knows"] = [draw.choice(["10%", "50%", "99.9 %"])]
    if draw.random() < 0.3:
        plan["privacy"]["sensitivity"] = draw.choice(["memberships", "declared"])


def odd_value(draw: random.Random) -> Any:
    """Something that a field may not expect."""
    pool = draw.choice([NUMBERS, NUMBERS, TEXTS, SOURCES, ODD_VALUES, ["x", "who", "c", "b", "n"]])
    return draw.choice(pool)


def stretch(draw: random.Random, plan: dict[str, Any]) -> None:
    """Put an extreme number where a plan allows one."""
    finite = [one for one in NUMBERS if abs(one) <= 1e50] + [1e50, -1e50, 1e49, 1e-49, 1e-50]
    positive = [one for one in finite if one > 0]
    release = draw.choice(plan["release"])
    match draw.randrange(7):
        case 0 if "bounds" in plan["data"]:
            plan["data"]["bounds"] = sorted(draw.sample(finite, 2))
        case 1:
            plan["privacy"]["epsilon"] = draw.choice(positive)
        case 2:
            plan["privacy"]["delta"] = draw.choice([one for one in positive if one < 1])
        case 3:
            plan["limits"]["remaining_uncertainty"] = draw.choice(positive)
        case 4:
            release["times"] = draw.choice([1, 99, 100_000])
        case 5:
            plan["limits"]["remaining_uncertainty"] = draw.choice([1e-300, 1e-9, 0.95, "0.0001%"])
        case _:
            release["noise_stddev"] = draw.choice(positive)


def spoil(draw: random.Random, plan: dict[str, Any]) -> None:
    """Put one mistake into a plan."""
    data: Any = plan.get("data")
    target: Any = draw.choice(
        [data, data, plan.get("release"), plan.get("privacy"), plan.get("limits"), plan]
    )
    change = draw.randrange(8)
    if isinstance(target, list) and target:
        if change == 0:
            target.append(copy.deepcopy(draw.choice(target)))
        elif change == 1:
            twin = draw.choice(target)
            target.extend({**twin, "name": f"twin {place}"} for place in range(30) if isinstance(twin, dict))
        target = draw.choice(target)
    if not isinstance(target, dict):
        return
    known = ["source", "record", "secret", "bounds", "categories", "kind", "tables", "times"]
    known += [
        "noise_stddev",
        "name",
        "sql",
        "epsilon",
        "delta",
        "accountant",
        "remaining_uncertainty",
        "accept",
        "knows",
    ]
    field = draw.choice([*target, *target, draw.choice(known), draw.choice(TEXTS)])
    if change == 2:
        target.pop(field, None)
    elif change == 3:
        target[field] = [odd_value(draw) for _ in range(draw.randrange(4))]
    elif change == 4 and target is data:
        target["bounds"] = draw.choice([draw.sample(NUMBERS, 2), sorted(draw.sample(NUMBERS[:-3], 2))])
    elif change == 5 and target is data:
        target["source"] = draw.choice(SOURCES)
    elif change == 6 and target is data:
        target["categories"] = draw.sample(["red", "green", "blue", "violet", *TEXTS], draw.randrange(6))
    elif change == 7 and "noise_stddev" in target:
        target["noise_stddev"] = draw.choice(NUMBERS)
    else:
        target[field] = odd_value(draw)


def as_toml(plan: dict[str, Any]) -> str:
    """The plan as TOML where TOML can say it; the rest as text that is no TOML."""

    def value(one: Any, depth: int = 0) -> str:
        if depth > 200:  # deeper than this only our own recursion would fail
            return "[]"
        if isinstance(one, float):
            return repr(one)
        if isinstance(one, dict):
            pairs = (f"{json.dumps(str(key))} = {value(held, depth + 1)}" for key, held in one.items())
            return "{" + ", ".join(pairs) + "}"
        if isinstance(one, list):
            return "[" + ", ".join(value(held, depth + 1) for held in one) + "]"
        return json.dumps(one, default=str)

    lines: list[str] = []
    for section, content in plan.items():
        for part in content if isinstance(content, list) else [content]:
            header = "[[{}]]" if isinstance(content, list) else "[{}]"
            if isinstance(part, dict):
                lines.append(header.format(section if section.isidentifier() else json.dumps(section)))
                lines += [f"{json.dumps(str(name))} = {value(held)}" for name, held in part.items()]
            else:
                lines.append(f"{json.dumps(section)} = {value(part)}")
    return "\n".join(lines)


def draw_case(draw: random.Random, sources: list[str], *, commands: float = 0.05) -> Case:
    """One plan: with several mistakes, with extreme numbers, or as it should be."""
    plan = draw_plan(draw, sources)
    kind = draw.random()
    if kind < 0.6:
        for _ in range(draw.randrange(1, 5)):
            spoil(draw, plan)
    elif kind < 0.8:
        for _ in range(draw.randrange(1, 4)):
            stretch(draw, plan)
    by_command = draw.random() < commands
    if not by_command and draw.random() < 0.8:
        return Case(plan=plan)
    text = as_toml(plan)
    if draw.random() < 0.3:
        for _ in range(draw.choice([1, 3, 20])):
            at = draw.randrange(len(text) + 1)
            text = (
                text[:at]
                + draw.choice([*SNIPPETS, "\ufeff", "\r", "=", "#", ""])
                + text[at + draw.randrange(3) :]
            )
    if not by_command:
        return Case(plan=plan, text=text)
    command = draw.choice(["audit", "audit", "audit", "check", "explain"])
    options = ["--record", draw.choice(["P0", "A", *TEXTS])] if command == "explain" else []
    if command == "audit":
        options = draw.choice([[], *OPTIONS])
    return Case(plan=plan, text=text, command=(command, "plan.toml", *options))


def try_case(case: Case) -> str:
    """Run a case in the current folder: how it ended. Anything that is not allowed raises."""
    if case.text is not None:
        Path("plan.toml").write_bytes(case.text.encode("utf-8", "surrogatepass"))
    if case.command is not None:
        return _try_command(list(case.command))
    try:
        result = sl.audit(case.plan if case.text is None else "plan.toml", names=True, full=True)
    except SightlineError as error:
        _one_line(f"{type(error).__name__}: {error}\n")
        return "refused"
    text = result.to_json()
    json.loads(text, parse_constant=_no_constant)
    if sl.AuditResult.from_json(text) != result:
        raise ForeignException("the result is not what its JSON says")
    with contextlib.redirect_stdout(io.StringIO()):
        print_result(result.publishable(), console(), full=True)
    return "no limit" if result.verdict.status is None else result.verdict.status.value


def _try_command(arguments: list[str]) -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    if status not in (0, 1, 2) or "Traceback" in out.getvalue() + err.getvalue():
        raise ForeignException(f"exit status {status}, {err.getvalue()[-300:]!r}")
    if status == 1 and "Usage:" not in err.getvalue():
        _one_line(err.getvalue())
    if status == 0 and "--json" in arguments:
        json.loads(out.getvalue(), parse_constant=_no_constant)
    return f"command, status {status}"


def _one_line(text: str) -> None:
    lines = text.splitlines()
    if len(lines) != 1 or len(text) > 2_000:
        raise ForeignException(
            f"expected one line, got {len(lines)} with {len(text)} characters: {text[:300]!r}"
        )


def _no_constant(name: str) -> None:
    raise ForeignException(f"{name} in JSON")


@contextlib.contextmanager
def playground(draw: random.Random) -> Iterator[list[str]]:
    """A new folder with tables, made the current one."""
    folder = Path(tempfile.mkdtemp(prefix="sightline-fuzz-"))
    (folder / "tables").mkdir()
    try:
        with contextlib.chdir(folder):
            yield write_tables(draw, folder / "tables")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_cases(
    seed: int,
    *,
    go_on: Callable[[int], bool],
    on_failure: Callable[[Case, BaseException], None] | None = None,
) -> Counter[str]:
    """Cases of a seed for as long as ``go_on`` says of their number; how often each ending occurred."""
    draw = random.Random(seed)
    ended: Counter[str] = Counter()
    while go_on(ended.total()):
        with playground(draw) as sources:
            for _ in range(100):
                if not go_on(ended.total()):
                    break
                case = draw_case(draw, sources)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("error")
                        ended[try_case(case)] += 1
                except Exception as error:
                    if on_failure is None:
                        raise ForeignException(f"case {ended.total()} of seed {seed}: {case}") from error
                    on_failure(case, error)
                    ended["FAILED"] += 1
    return ended


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Draw plans until the seconds are over; how many there were, and how they ended."""
    until = time.monotonic() + seconds
    ended = run_cases(seed, go_on=lambda _: time.monotonic() < until)
    return {"plans": ended.total(), **dict(sorted(ended.items()))}
