"""The results of the version before, as a file; and the same cases through this version.

``python -m tests.golden.stored write`` writes the file with the version on the path, and
``python -m tests.golden.stored`` compares all cases with it and prints what differs.
"""

from __future__ import annotations

import gzip
import json
import sys
import tomllib
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import sightline as sl
from sightline.privacy import concentrated, registry
from tests.golden import comparison
from tests.golden.comparison import Differences
from tests.golden.drawn_designs import drawn_design, drawn_noise_design
from tests.golden.drawn_plans import KINDS, DrawnPlan, drawn_plan
from tests.golden.summaries import Summary, audit_summary, exposures_summary, noise_summary

STORED = Path(__file__).parent / "results.json.gz"
EXAMPLES = ("microgrid", "census", "meters", "orders", "stays", "salaries", "health_survey")
PLANS = 301  # 7 of each kind
DESIGNS = 500
NOISE_DESIGNS = 40
EVERYONE = 0.999  # a limit with which everybody is listed


def example(case: str) -> Summary:
    """A shipped example, with the accountant, sensitivities and belief that were the defaults before."""
    folder = Path(str(files("sightline"))) / "examples" / case
    plan = tomllib.loads((folder / "plan.toml").read_text(encoding="utf-8"))
    plan["data"]["source"] = str(folder / plan["data"]["source"])
    if plan["data"].get("max_rows_per_record", 1) > 1:
        plan["data"]["values"] = "independent"
        plan["limits"]["accept"] = [*plan["limits"].get("accept", ()), "rows_apart"]
    plan["privacy"] = {"accountant": "zcdp", "sensitivity": "memberships", **plan.get("privacy", {})}
    return audit_summary(sl.audit(plan, names=True, full=True))


def plan(case: str) -> Summary:
    """A random plan, called by its kind and its seed; every other one with a limit that lists everybody."""
    kind, _, seed = case.rpartition(" ")
    drawn = drawn_plan(kind, int(seed))
    limit = EVERYONE if int(seed) % 2 == 0 else None
    result = sl.audit(priced_as_before(drawn), names=True, top=1000, limit=limit, full=True)
    return {"drawn": fingerprint(drawn), "law": KINDS[kind].noise, **audit_summary(result)}


def priced_as_before(drawn: DrawnPlan) -> dict[str, Any]:
    """A plan with the sensitivities that were the default of the version before."""
    complete = drawn.complete()
    return {**complete, "privacy": {"sensitivity": "memberships", **complete.get("privacy", {})}}


def design(case: str) -> Summary:
    """A random membership design."""
    drawn = drawn_design(int(case))
    return {"law": type(drawn.noise).__name__, **exposures_summary(drawn.exposures())}


def noise_design(case: str) -> Summary:
    """A random design of noise."""
    drawn, options = drawn_noise_design(int(case))
    return {"drawn": fingerprint(drawn), **noise_summary(sl.design(priced_as_before(drawn), **options))}


Compared = Callable[[Summary, Summary], Differences]
PARTS: dict[str, tuple[Callable[[str], Summary], Compared]] = {
    "examples": (example, comparison.audits),
    "plans": (plan, comparison.audits),
    "designs": (design, comparison.exposures),
    "noise designs": (noise_design, comparison.noise_designs),
}


def fingerprint(drawn: DrawnPlan) -> int:
    """A number that changes when a seed draws another plan."""
    return zlib.crc32(json.dumps([drawn.plan, drawn.columns]).encode())


def stored() -> dict[str, dict[str, Summary]]:
    """What the version before said, by part and case."""
    read: dict[str, dict[str, Summary]] = json.loads(gzip.decompress(STORED.read_bytes()))
    return read


def compared(part: str, cases: Iterable[str]) -> Differences:
    """The differences of some cases of a part from what is stored."""
    found = Differences()
    with ExitStack() as stack:
        for name in (concentrated, registry):  # as the version before converted zCDP
            patch = mock.patch.object(name, "tight_epsilon_of_rho", concentrated.epsilon_of_rho)
            stack.enter_context(patch)
        classical = mock.patch.object(concentrated, "tight_rho_of_budget", concentrated.rho_of_budget)
        stack.enter_context(classical)
        _compare(part, cases, found)
    return found


def _compare(part: str, cases: Iterable[str], found: Differences) -> None:
    compute, compare = PARTS[part]
    before = stored()[part]
    for case in cases:
        now = json.loads(json.dumps(compute(case)))  # as the file holds it: lists, and names as text
        if now.get("drawn") != before[case].get("drawn"):
            found.wrong.append(f"{case}: the seed draws another plan than it did")
            continue
        found.add(case, compare(before[case], now))


def write() -> None:
    """Write the results of the version on the path; seeds whose plan it refuses are left out."""
    results: dict[str, dict[str, Summary]] = {
        "examples": {name: example(name) for name in EXAMPLES},
        "plans": {},
        "designs": {str(seed): design(str(seed)) for seed in range(DESIGNS)},
        "noise designs": dict(islice(accepted(noise_design, range(1000)), NOISE_DESIGNS)),
    }
    for kind in KINDS:
        cases = (f"{kind} {seed}" for seed in range(100))
        results["plans"] |= dict(islice(accepted(plan, cases), PLANS // len(KINDS)))
    text = json.dumps(results, separators=(",", ":"), allow_nan=False).encode()
    STORED.write_bytes(gzip.compress(text, 9, mtime=0))


def accepted(compute: Callable[[str], Summary], cases: Iterable[Any]) -> Iterable[tuple[str, Summary]]:
    """The cases that are not refused, with what is said of them."""
    for case in cases:
        try:
            yield str(case), compute(str(case))
        except (sl.SightlineError, ArithmeticError) as error:
            print(f"left out: {case}: {error!r:.100}")


def main(arguments: list[str]) -> int:
    """Write, or compare everything; the exit status says whether something is wrong."""
    if arguments == ["write"]:
        write()
        return 0
    wrong = 0
    for part, cases in stored().items():
        found = compared(part, cases)
        print(f"== {part}: {len(cases)} cases")
        print("\n".join(comparison.lines(found)))
        wrong += len(found.wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
