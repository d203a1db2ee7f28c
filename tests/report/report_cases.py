"""Results to draw: a shipped example, calm ones, small ones, large ones, and one with every name hostile.

``python tests/report/report_cases.py`` writes the snapshot again.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import sightline as sl
from sightline.examples.shipped import EXAMPLES, example_plan
from sightline.report.page import report_html

SNAPSHOT = Path(__file__).parent / "snapshot"

# The shipped examples; those that take seconds are for `make check`.
SHIPPED = [
    pytest.param(name, marks=pytest.mark.thorough) if name in ("health_survey", "readings") else name
    for name in EXAMPLES
]

CHOSEN = {
    "record",
    "secret",
    "source",
    "name",
    "release",
    "releases",
    "cell",
    "text",
    "plan",
    "note",
}

HOSTILE = {
    "a script": "<script>document.title = 'taken'</script>",
    "the end of a script": "</script><img src=x onerror=\"document.title='taken'\"><!--<script>",
    "an attribute": '" onmouseover="document.title=\'taken\'" x="',
    "a template": "{{ 7 * 7 }}{% raw %}",
    "an emoji": "👩‍👩‍👧 home 🏠",
    "right to left": "بيت رقم ٧ \u202egnp.exe",
    "controls": "a\x00b\x1b[31mc\nd\te\u2028f",
    "half a surrogate": "x\ud800y",
    "ten thousand characters": "long " * 2000,
    "an expression": "'] || alert(1) || ['",
}


@cache
def microgrid() -> sl.AuditResult:
    """The shipped example, named."""
    return sl.audit(example_plan("microgrid"), names=True, full=True)


@contextmanager
def table(rows: int) -> Iterator[str]:
    """A table of homes in two feeders and five streets."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "homes.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["home", "feeder", "street", "watts"])
            writer.writerows([f"H{i}", f"F{i % 2}", f"S{i % 5}", 100 + i % 7 + i * 1e-4] for i in range(rows))
        yield str(path)


def plan(source: str, *queries: str, **changes: Any) -> dict[str, Any]:
    return {
        "data": {"source": source, "record": "home", "secret": "watts", "bounds": [0, 1000]},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "release": [{"name": f"release {i}", "sql": query} for i, query in enumerate(queries)],
        **changes,
    }


@cache
def calm() -> sl.AuditResult:
    """Nobody is exposed."""
    with table(40) as source:
        limits = {"remaining_uncertainty": 0.5}
        return sl.audit(
            plan(source, "SELECT feeder, AVG(watts) FROM data GROUP BY feeder", limits=limits), full=True
        )


@cache
def nothing() -> sl.AuditResult:
    """Nothing that is published depends on a secret."""
    with table(10) as source:
        return sl.audit(plan(source, "SELECT feeder, COUNT(*) FROM data GROUP BY feeder"), full=True)


@cache
def one_record() -> sl.AuditResult:
    with table(1) as source:
        return sl.audit(plan(source, "SELECT AVG(watts) FROM data", "SELECT SUM(watts) FROM data"), full=True)


@cache
def one_release() -> sl.AuditResult:
    with table(12) as source:
        return sl.audit(plan(source, "SELECT AVG(watts) FROM data WHERE home = 'H3'"), full=True)


@cache
def budgeted() -> sl.AuditResult:
    """A budget, so that accountants can be compared."""
    with table(30) as source:
        queries = [
            "SELECT AVG(watts) FROM data",
            "SELECT AVG(watts) FROM data WHERE home <> 'H7'",
            "SELECT street, AVG(watts) FROM data GROUP BY street",
        ]
        privacy = {"epsilon": 40.0, "delta": 1e-6}
        return sl.audit(
            plan(source, *queries, privacy=privacy, limits={"remaining_uncertainty": 0.9}), full=True
        )


@cache
def large(records: int = 100_000, releases: int = 12) -> sl.AuditResult:
    """What a result of a large table looks like: as many marks as an audit ever hands over."""
    content = json.loads(budgeted().to_json())
    content["releases"] = [{**content["releases"][0], "name": f"release {i}"} for i in range(releases)]
    content["timeline"] = [{**content["timeline"][0], "release": f"release {i}"} for i in range(60)]
    content["exposed"] = [{**content["exposed"][0], "signature": k} for k in range(200)]
    content.update(records=records, signatures=records, exposed_in_all=5000)
    content["distribution"]["records"] = [records // 20] * 20
    return sl.AuditResult.from_json(json.dumps(content))


def largest(releases: int) -> sl.AuditResult:
    """A large result in which everything that somebody chose is long, with a what-if of many settings."""
    content = json.loads(large(releases=releases).to_json())
    name = "usage by district and tariff, "
    for at, release in enumerate(content["releases"]):
        release["name"] = f"{name * 4}{at}"
    recipe = microgrid().exposed[0].model_dump(mode="json")["recipe"]
    for one in content["exposed"]:
        steps = " − ".join(f'12 × "{name}{one["signature"] + k}"' for k in range(4))
        one.update(label="district 1234, tariff night", recipe={**recipe, "text": steps}, shortest=None)
    content["what_if"] = {
        "settings": [
            {"kind": "leave out", "name": f"{name * 4}{k}", "own": False, "status": "failed", "proven": False,
             "below_limit": k, "least": {"lower": k / 300, "upper": k / 290},
             "worst": f"home {k}, one of several that nothing tells apart",
             "least_noise_stddev": 0.1 + k, "most_noise_stddev": 7.1 + k}
            for k in range(240)
        ]
    }  # fmt: skip
    content.update(plan="x = 1\n# " * 50_000)
    return sl.AuditResult.from_json(json.dumps(content))


def with_names(result: sl.AuditResult, *names: str) -> sl.AuditResult:
    """The result with one of some names, in turn, in every place where somebody chose one."""
    turn = cycle(names)

    def renamed(part: Any, key: str = "") -> Any:
        if isinstance(part, dict):
            fixed = ("name",) if key == "unverified" else ()  # of an assumption: nobody chooses it
            return {k: v if k in fixed else renamed(v, k) for k, v in part.items()}
        if isinstance(part, list):
            return [renamed(entry, key) for entry in part]
        return next(turn) if key in CHOSEN and isinstance(part, str) else part

    content = renamed(result.model_dump(mode="json"))
    return sl.AuditResult.model_validate(content)


RESULTS: dict[str, Callable[[], sl.AuditResult]] = {
    "microgrid": microgrid,
    "calm": calm,
    "nothing": nothing,
    "one record": one_record,
    "one release": one_release,
    "budgeted": budgeted,
    "large": large,
    "hostile": lambda: with_names(microgrid(), *HOSTILE.values()),
}


@cache
def page(name: str) -> str:
    """The report of one of these results."""
    return report_html(RESULTS[name]())


def normalised(page: str) -> str:
    """A page without what depends on the version of Vega: its script, its drawings, their hashes."""
    page = re.sub(r"<script>.*?</script>", "<script></script>", page, flags=re.DOTALL)
    page = re.sub(r'src="data:[^"]*"', 'src="data:"', page)
    page = re.sub(r"sha256-[A-Za-z0-9+/=]+", "sha256-", page)
    page = re.sub(r"(schema/vega-lite/)[^\"]*", r"\1", page)
    return re.sub(r"<style>.*?</style>", "<style></style>", page, flags=re.DOTALL)


def main() -> None:
    SNAPSHOT.mkdir(exist_ok=True)
    (SNAPSHOT / "result.json").write_text(microgrid().to_json() + "\n", encoding="utf-8")
    (SNAPSHOT / "report.html").write_text(normalised(page("microgrid")), encoding="utf-8")


if __name__ == "__main__":
    main()
