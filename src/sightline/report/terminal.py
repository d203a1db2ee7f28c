"""Print an audit's result: the verdict, who is exposed, the releases, the budget, and what to change."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sightline.auditing.numerals import domain
from sightline.auditing.result import AuditResult, BudgetReport, Exposed, Recipe, ReleaseReport
from sightline.format import count, number, parameter
from sightline.jobs import Explanation
from sightline.report.wording import (
    MOST_ALIKE,
    NO_RECIPE,
    budget_words,
    noise_range,
    shown_recipe,
    spent_by_accountant,
    unverified_line,
    who,
)


def print_result(result: AuditResult, screen: Console) -> None:
    """Print the whole result."""
    screen.print(
        f"{result.source}: secret {result.secret}, {domain(result)}; each {result.record} is a record",
        markup=False,
    )
    screen.print(
        f"{count(result.records, 'record')} in {count(result.signatures, 'signature')}; "
        f"{count(len(result.releases), 'release')} with {count(result.cells, 'number')}, "
        f"{result.rank:,} of them linearly independent"
    )
    for note in _remarks(result):
        screen.print(note)
    screen.print()
    print_verdict(result, screen)
    if result.exposed:
        screen.print()
        print_exposed(result, screen)
    screen.print()
    print_releases(result.releases, screen)
    screen.print()
    print_budget(result.budget, screen)
    print_unverified(result, screen)
    if result.what_to_change:
        screen.print("\n[bold]What to change[/]")
        for place, change in enumerate(result.what_to_change, start=1):
            screen.print(f"  {place}. ", change.text, sep="", markup=False, soft_wrap=True)
    screen.print("\n[bold]What this rests on[/]")
    for line in result.assumptions:
        screen.print("  ", line, sep="", markup=False, soft_wrap=True)


def print_verdict(result: AuditResult, screen: Console) -> None:
    """Print whether the limit holds, and why."""
    match result.verdict.passed:
        case True:
            word = Text("PASSED", style="bold green")
        case False:
            below = result.verdict.below_limit > 0
            word = Text("BELOW THE LIMIT" if below else "NOT SHOWN TO HOLD", style="bold red")
        case None:
            word = Text("VERDICT", style="bold")
    screen.print(Text.assemble(word, "  ", result.verdict.text))


def print_exposed(result: AuditResult, screen: Console) -> None:
    """Print the most exposed records, worst first."""
    shown = len(result.exposed)
    title = (
        "Most exposed"
        if shown == result.exposed_in_all
        else f"The {shown} most exposed of {result.exposed_in_all:,}"
    )
    screen.print(f"[bold]{title}[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    ranged = ["of range"] if result.kind == "number" else []
    for name in ("who", "error", *ranged, "remains"):
        table.add_column(name, justify="left" if name == "who" else "right", no_wrap=True)
    table.add_column("how", overflow="fold")
    for place, exposed in enumerate(result.exposed, start=1):
        table.add_row(
            Text(_who(place, exposed)),
            "none" if exposed.rmse is None else number(exposed.rmse),
            *(_of_range(exposed) for _ in ranged),
            "" if exposed.remaining_uncertainty is None else str(exposed.remaining_uncertainty),
            Text(_how(exposed)),
        )
    screen.print(table)


def print_releases(releases: tuple[ReleaseReport, ...], screen: Console) -> None:
    """Print the noise of each release and whom it exposes."""
    screen.print("[bold]Releases, in order of publication[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column("name", overflow="fold")
    for name in ("times", "numbers", "noise", "newly exposes", "needed for", "sharpens"):
        table.add_column(name, justify="right")
    table.add_column("", overflow="fold")
    for release in releases:
        note = f'copy of "{release.copy_of}"' if release.copy_of is not None else release.note
        counts = (release.newly_exposes, release.exposes_alone, release.sharpens)
        table.add_row(
            Text(release.name),
            str(release.times),
            str(release.outputs),
            noise_range(release),
            *("" if count is None else f"{count:,}" for count in counts),
            Text(note),
        )
    screen.print(table)


def print_budget(budget: BudgetReport, screen: Console) -> None:
    """Print what the noise costs under each accountant."""
    words = budget_words(budget)
    given = f": {words}" if words else f" at delta = {parameter(budget.delta)}"
    default = "" if budget.delta_given else " (the default, since the plan gives none)"
    screen.print(
        f"[bold]Budget[/]{given}{default}; the accountant counts {count(budget.releases, 'release')}"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column("accountant")
    table.add_column("epsilon of this noise", justify="right")
    table.add_column("noise it asks for, over sensitivity" if budget.would_need else "", justify="right")
    spent = spent_by_accountant(budget)
    for name in dict.fromkeys([*spent, *budget.would_need]):
        cost, needed = spent.get(name), budget.would_need.get(name)
        table.add_row(name, *("" if value is None else number(value) for value in (cost, needed)))
    screen.print(table)
    if not budget.proven:
        screen.print("  ", budget.note, sep="", markup=False, soft_wrap=True)


def print_unverified(result: AuditResult, screen: Console) -> None:
    """Print what a pass needs and was not verified, and the groups whose rows are nearly all alike."""
    if result.unverified:
        screen.print("\n[bold]Not verified, and needed for a pass[/]")
    for one in result.unverified:
        screen.print("  ", unverified_line(one), sep="", markup=False, soft_wrap=True)
    if result.homogeneous:
        screen.print("\n[bold]Groups that are nearly all alike[/] (for the owner only)")
    for cell in (result.homogeneous or ())[:MOST_ALIKE]:
        screen.print("  ", cell.text, sep="", markup=False, soft_wrap=True)
    more = len(result.homogeneous or ()) - MOST_ALIKE
    if more > 0:
        screen.print(f"  and {more:,} more")


def print_explanation(explanation: Explanation, screen: Console) -> None:
    """Print why one record is exposed, step by step."""
    secret, record = explanation.result.secret, explanation.result.record
    screen.print(
        f"What can be seen of {secret} for {record} {explanation.record} (for the owner only)",
        markup=False,
    )
    if not explanation.exposed and explanation.result.local is not None:
        screen.print("Sums and means show nothing. Moments and thresholds have no recipe: see the audit.")
    elif not explanation.exposed:
        screen.print("Nothing: either the attacker knows it already, or nothing published depends on it.")
    for exposed in explanation.exposed:
        unit = "record" if exposed.rows > 1 else explanation.result.unit
        group = "of this record alone" if exposed.size == 1 else f"shared by {exposed.size} {unit}s"
        about = f" ({secret} = {exposed.category})" if exposed.category is not None else ""
        left = exposed.remaining_uncertainty
        remains = "" if left is None else f": {left} of the uncertainty remains"
        what = f"Signature {exposed.signature}"
        if exposed.rows > 1:
            feature = "" if exposed.feature is None else f", their {exposed.feature}"
            what = f"All {exposed.rows} rows together{feature}"
        screen.print(f"[bold]{what}[/]{about}, {group}{remains}")
        if exposed.recipe is None:
            screen.print("  No combination of the published numbers gives its value: it is not identifiable.")
            continue
        if exposed.shortest is not None and len(exposed.shortest.steps) < len(exposed.recipe.steps):
            _print_steps("The shortest recipe", exposed.shortest, exposed, screen)
        _print_steps("The best unbiased attack", exposed.recipe, exposed, screen)


def _print_steps(title: str, recipe: Recipe, exposed: Exposed, screen: Console) -> None:
    what = "the value" if exposed.size == 1 else f"the sum of the {exposed.size} values"
    screen.print(f"  {title}:")
    for place, step in enumerate(recipe.steps, start=1):
        verb = "add" if step.weight > 0 else "subtract"
        name = f'"{step.release}"' + (f", group {step.cell}" if step.cell else "")
        copies = f", the mean of its {step.times} copies" if step.times > 1 else ""
        screen.print(
            f"    {place}. {verb} {number(abs(step.weight), 6)} × {name}{copies}",
            markup=False,
            soft_wrap=True,
        )
    if recipe.constant:
        screen.print(f"    then add {number(recipe.constant, 6)}")
    if recipe.less_known:
        screen.print("    then subtract the share of the records that the attacker knows")
    screen.print(f"    = {what}, with an error of {number(recipe.rmse)} (root mean square)")


def _remarks(result: AuditResult) -> list[str]:
    remarks = []
    if result.known_rows:
        remarks.append(f"{count(result.known_rows, 'row is', 'rows are')} known to the attacker")
    if result.dropped:
        without = count(result.dropped, "row is", "rows are")
        remarks.append(f"{without} left out, without a secret or a key (for the owner only)")
    if result.clipped:
        where = "bounds: clipped to them" if result.kind == "number" else "categories"
        outside = count(result.clipped, "value is", "values are")
        remarks.append(f"{outside} outside the {where} (for the owner only)")
    return remarks


def _who(place: int, exposed: Exposed) -> str:
    return who(place, exposed) + ("" if exposed.size == 1 else f" (sum of {exposed.size:,})")


def _of_range(exposed: Exposed) -> str:
    return "" if exposed.rmse_percent_of_range is None else f"{number(exposed.rmse_percent_of_range, 3)} %"


def _how(exposed: Exposed) -> str:
    if exposed.local:
        return "seen near its true value (for the owner only)"
    recipe = shown_recipe(exposed)
    if recipe is None:
        return NO_RECIPE
    # The table has the error of the best attack; a shorter recipe may have a larger error.
    worse = exposed.rmse is not None and recipe.rmse > 1.005 * exposed.rmse
    return f"{recipe.text} (error {number(recipe.rmse)})" if worse else recipe.text
