"""Release records with random changes: each is refused with one line, or read and made into a plan.

What makes a plan is also priced on a table, as ``init --from-records`` does. Meanwhile no program may be
started, no address connected to, and no file opened for writing outside of the folder. ``python -m
tools.fuzz --entry tests.records.fuzz_records --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import copy
import json
import math
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from sightline.auditing.query_files import GivenPlan
from sightline.auditing.reading import plan_file_text, plan_of_text
from sightline.errors import InvalidPlan
from sightline.records.plan_from_records import records_plan
from sightline.records.release_record import plan_of, record_of_text, records_of, registry_entry
from tests.numbered_cases import check_cases

RECORD: dict[str, Any] = {
    "record": "sightline.release/1",
    "release": {
        "name": "by feeder",
        "sql": "SELECT feeder, SUM(watts) AS total, COUNT(*) AS n FROM data GROUP BY feeder",
        "noise": [
            {"law": "discrete-gaussian", "stddev": 15588.457, "label": "total"},
            {"label": "n", "stddev": 2.0},
        ],
        "withhold": [["d"]],
        "hidden_by_noise": True,
        "times": 2,
        "published": True,
    },
    "data": {
        "record": "home",
        "secret": "watts",
        "bounds": [0, 9000],
        "public": ["feeder"],
    },
    "about": {
        "published_at": "2026-03-01",
        "privacy_unit": "home",
        "neighbours": "add-remove",
        "privacy_parameters": {"rho": 0.1667, "delta": 1e-6},
        "engine": "opendp 0.16.0",
        "facts": {"stddev": "read", "sql": "derived", "secret": "stated"},
    },
}
_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 10**400, 1e308, -1e-308, math.nan, math.inf, "", "x", "scale",
    "\x00\x1b[2J\u202e", "\ud800", "../../etc/passwd", "__import__('os').system('x')",
    "'; DROP TABLE data; --", "é" * 5000, [], [[]], {}, {"a": {"b": []}}, {"file": "C.npy"}, ["a", 1.0],
    [["a", 2.0]], {"law": "none"}, {"scale": 3.0}, "2026-02-30", "sightline.release/2", "geometric",
    "laplace", {"yes": 1}, "data.csv", "!!python/object:os.system",
)  # fmt: skip
# SQL that would read or write a file, read the environment or never end, if it were run as it is.
_SQL = (
    "SELECT SUM(watts) FROM read_csv('/etc/passwd')", "SELECT SUM(watts) FROM '/etc/passwd'",
    "COPY data TO '{folder}/written.csv'", "SELECT SUM(watts) FROM data; ATTACH '{folder}/written.db'",
    "SELECT SUM(watts) FROM data WHERE getenv('HOME') <> ''", "INSTALL httpfs", "PRAGMA database_list",
    "SELECT SUM(watts) FROM data WHERE feeder IN (SELECT content FROM read_text('/etc/passwd'))",
    "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT SUM(watts) FROM data, r",
    "SELECT feeder, SUM(watts) FROM data GROUP BY feeder", "SELECT AVG(watts) FROM data WHERE feeder = 'a'",
)  # fmt: skip
_STARTED = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect")
_SEEN: list[list[str]] = []  # what the code under watch did, while it is watched
_NAMES = (
    "file", "scale", "source", "tables", "by_cell", "mechanism", "running", "epsilon", "rho",
    "sql", "law", "kind", "categories", "secret", "public", "noise_stddev", "noise_within", "$ref",
)  # fmt: skip


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One to four changes; every fifth time also of the text."""
    content = copy.deepcopy(RECORD)
    for _ in range(int(generator.integers(1, 5))):
        _change(content, generator)
    with tempfile.TemporaryDirectory() as folder:
        _check_changed(content, generator, trial, count, Path(folder))


def _check_changed(
    content: Any, generator: np.random.Generator, trial: int, count: Counter[str], folder: Path
) -> None:
    if trial % 3 == 0 and isinstance(content.get("release"), dict):
        sql = _SQL[int(generator.integers(len(_SQL)))]
        content["release"] |= {"sql": sql.replace("{folder}", str(folder)), "noise": {"stddev": 3e4}}
        content["release"].pop("withhold", None)
    text = json.dumps(content)
    if trial % 5 == 0:
        place = int(generator.integers(len(text)))
        text = (
            text[:place]
            + str(generator.choice(["", '"', "{", "\\", "1e999", "\x00", "NaN", "[" * 3000]))
            + text[place + 1 :]
        )
    count[read_or_refused(text, folder)] += 1


def read_or_refused(text: str, folder: Path) -> str:
    """Read a record and make a plan of it, and a record and a draft of that again."""
    try:
        record = record_of_text(text, "r.json")
    except InvalidPlan as error:
        _one_line(error)
        return "refused"
    assert record_of_text(record.text(), "again") == record
    json.dumps(registry_entry(record)).encode()
    try:
        plan = plan_of({"r.json": record}, source="homes.csv")
    except InvalidPlan as error:
        _one_line(error)
        return "no plan"
    assert plan_of_text(plan_file_text(plan), "plan") == plan
    assert records_of(plan, [record.about]) == (record,)
    return _priced(text, folder)


def _priced(text: str, folder: Path) -> str:
    """What ``init --from-records`` does with a record, under watch."""
    (folder / "r.json").write_text(text)
    (folder / "homes.csv").write_text("home,feeder,watts\n1,a,5\n2,a,7\n3,b,9000\n4,d,17\n")
    given = GivenPlan(table=str(folder / "homes.csv"))
    seen: list[str] = []
    _SEEN.append(seen)
    try:
        made = records_plan([folder / "r.json"], out=folder / "plan.toml", given=given)
    finally:
        _SEEN.clear()
    assert not seen
    assert sorted(path.name for path in folder.iterdir()) == ["homes.csv", "r.json"]
    assert all(line.isprintable() for line in made.notes)
    return "priced" if "the audit counts epsilon" in "".join(made.notes) else "plan"


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    for seen in _SEEN:
        writes = (
            event == "open" and isinstance(arguments[0], str) and set(str(arguments[1] or "")) & set("wax+")
        )
        runs = event == "compile" and "__import__" in str(arguments[0])
        if writes or runs or event in _STARTED:
            seen.append(f"{event} {arguments}")


sys.addaudithook(_watch)


def _one_line(error: InvalidPlan) -> None:
    text = str(error)
    assert "\n" not in text
    assert len(text) < 700
    assert text.isprintable()


def _change(content: Any, generator: np.random.Generator) -> None:
    """Change, remove or add something at a random place."""
    places = list(_places(content))
    holder, key = places[int(generator.integers(len(places)))]
    match int(generator.integers(4)):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[_NAMES[int(generator.integers(len(_NAMES)))]] = _odd(generator)
        case 2:
            other, name = places[int(generator.integers(len(places)))]
            holder[key] = copy.deepcopy(other[name])
        case _:
            holder[key] = _odd(generator)
    if not content:
        content["record"] = "sightline.release/1"


def _odd(generator: np.random.Generator) -> Any:
    return copy.deepcopy(_ODD[int(generator.integers(len(_ODD)))])


def _places(content: Any) -> Any:
    keys = list(content) if isinstance(content, dict) else range(len(content))
    for key in keys:
        yield content, key
        if isinstance(content[key], dict | list) and content[key]:
            yield from _places(content[key])
