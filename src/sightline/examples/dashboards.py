"""The shipped dashboard under four ways to choose its noise, each audited like any other plan.

One budget pays for all releases; a budget is granted anew for each release; the budget is large; or the noise
is chosen by hand.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from sightline.auditing.result import AuditResult
from sightline.examples.shipped import example_plan
from sightline.format import number, parameter
from sightline.jobs.audit import audit
from sightline.privacy.accountant import Budget
from sightline.privacy.registry import accountant_named
from sightline.report.wording import before_after, noise_range, status_words
from sightline.values import frozen

_ACCOUNTANT, _DELTA = "gaussian-dp", 1e-5
_EPSILON, _LARGE_EPSILON = 1.0, 100.0


@frozen(eq=True)
class Dashboard:
    """The dashboard with its noise chosen in one way, audited."""

    noise: str  # how the noise is chosen, in words
    result: AuditResult


def dashboards() -> Iterator[Dashboard]:
    """The dashboard under one budget, a refreshed one, a large one, and with noise chosen by hand."""
    releases = len(_plan(_EPSILON)["release"])
    refreshed = same_noise_epsilon(epsilon=_EPSILON, releases=releases)
    for noise, epsilon in (
        (f"epsilon = {parameter(_EPSILON)} for all {releases} releases", _EPSILON),
        (f"epsilon = {parameter(_EPSILON)} anew for each release", refreshed),
        (f"epsilon = {parameter(_LARGE_EPSILON)} for all of them", _LARGE_EPSILON),
        ("10 W on every number, chosen by hand", None),
    ):
        plan = example_plan("microgrid") if epsilon is None else _plan(epsilon)
        yield Dashboard(noise=noise, result=audit(plan, names=True))


def same_noise_epsilon(*, epsilon: float, releases: int) -> float:
    """The budget for all releases that asks for the noise of one release with a budget of its own.

    Eight releases with a budget of 1 each cost as much as one budget of about 3.19:

    >>> round(same_noise_epsilon(epsilon=1.0, releases=8), 2)
    3.19
    """
    accountant = accountant_named(_ACCOUNTANT, Budget(epsilon=epsilon, delta=_DELTA))
    return accountant.epsilon(releases, noise_multiplier=math.sqrt(accountant.kappa(1)))


def print_dashboards(shown: list[Dashboard], screen: Console) -> None:
    """Print a line for each way to choose the noise."""
    screen.print("[bold]One dashboard, four ways to choose its noise[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("noise", overflow="fold")
    for title in ("of a monthly mean", "epsilon", "before", "after", "below", "verdict"):
        table.add_column(title, justify="right" if title != "verdict" else "left")
    for one in shown:
        table.add_row(
            one.noise,
            noise_range(one.result.releases[0]),
            number(one.result.budget.spent["gaussian-dp"], 3),
            *before_after(one.result).numbers,
            f"{one.result.verdict.below_limit} of {one.result.records}",
            status_words(one.result.verdict.status),
        )
    screen.print(table)
    screen.print("  epsilon: what this noise costs under the exact accountant; before and after: to how many")
    screen.print("  watts an attacker knows the most exposed home; below: homes that may keep less than half")


def _plan(epsilon: float) -> dict[str, Any]:
    """The shipped plan with a budget in place of its noise."""
    path = example_plan("microgrid")
    plan = tomllib.loads(path.read_text(encoding="utf-8"))
    plan["data"]["source"] = str(path.parent / plan["data"]["source"])
    plan["privacy"] = {"epsilon": epsilon, "delta": _DELTA, "accountant": _ACCOUNTANT}
    plan["release"] = [
        {key: value for key, value in release.items() if key != "noise_stddev"} for release in plan["release"]
    ]
    return plan
