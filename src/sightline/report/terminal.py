"""An audit's result in a terminal: the verdict, who is exposed, the releases, the budget, what to change."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sightline.auditing.numerals import domain
from sightline.auditing.result import AuditResult, BudgetReport, Exposed, Recipe, ReleaseReport
from sightline.auditing.run import Explanation
from sightline.format import count, number, parameter
from sightline.report.wording import NO_RECIPE, noise_range, shown_recipe, spent_by_accountant, who


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
    for place, one in enumerate(result.exposed, start=1):
        table.add_row(
            Text(_who(place, one)),
            "none" if one.rmse is None else number(one.rmse),
            *(_of_range(one) for _ in ranged),
            "" if one.remaining_uncertainty is None else str(one.remaining_uncertainty),
            Text(_how(one)),
        )
    screen.print(table)


def print_releases(releases: tuple[ReleaseReport, ...], screen: Console) -> None:
    """Print what each release does."""
    screen.print("[bold]Releases, in order of publication[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column("name", overflow="fold")
    for name in ("times", "numbers", "noise", "newly exposes", "needed for", "sharpens"):
        table.add_column(name, justify="right")
    table.add_column("", overflow="fold")
    for one in releases:
        note = f'copy of "{one.copy_of}"' if one.copy_of is not None else one.note
        counts = (one.newly_exposes, one.exposes_alone, one.sharpens)
        table.add_row(
            Text(one.name),
            str(one.times),
            str(one.outputs),
            noise_range(one),
            *("" if count is None else f"{count:,}" for count in counts),
            Text(note),
        )
    screen.print(table)


def print_budget(budget: BudgetReport, screen: Console) -> None:
    """Print what the noise costs under each accountant."""
    given = (
        "" if budget.epsilon is None else f": epsilon = {parameter(budget.epsilon)} under {budget.accountant}"
    )
    default = "" if budget.delta_given else " (the default, since the plan gives none)"
    screen.print(
        f"[bold]Budget[/]{given} at delta = {parameter(budget.delta)}{default}; "
        f"the accountant counts {count(budget.releases, 'release')}"
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


def print_explanation(found: Explanation, screen: Console) -> None:
    """Print why one record is exposed, step by step."""
    secret = found.result.secret
    screen.print(
        f"What can be seen of {secret} for {found.result.record} {found.record} (for the owner only)",
        markup=False,
    )
    if not found.exposed and found.result.local is not None:
        screen.print("Sums and means show nothing. Moments and thresholds have no recipe: see the audit.")
    elif not found.exposed:
        screen.print("Nothing: either the attacker knows it already, or nothing published depends on it.")
    for one in found.exposed:
        unit = "record" if one.rows > 1 else found.result.unit
        group = "of this record alone" if one.size == 1 else f"shared by {one.size} {unit}s"
        about = f" ({secret} = {one.category})" if one.category is not None else ""
        left = one.remaining_uncertainty
        kept = "" if left is None else f": {left} of the uncertainty remains"
        what = f"Signature {one.signature}"
        if one.rows > 1:
            what = f"All {one.rows} rows together" + ("" if one.feature is None else f", their {one.feature}")
        screen.print(f"[bold]{what}[/]{about}, {group}{kept}")
        if one.recipe is None:
            screen.print("  No combination of the published numbers gives its value: it is not identifiable.")
            continue
        if one.shortest is not None and len(one.shortest.steps) < len(one.recipe.steps):
            _print_steps("The shortest recipe", one.shortest, one, screen)
        _print_steps("The best unbiased attack", one.recipe, one, screen)


def _print_steps(title: str, recipe: Recipe, one: Exposed, screen: Console) -> None:
    what = "the value" if one.size == 1 else f"the sum of the {one.size} values"
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


def _who(place: int, one: Exposed) -> str:
    return who(place, one) + ("" if one.size == 1 else f" (sum of {one.size:,})")


def _of_range(one: Exposed) -> str:
    return "" if one.rmse_percent_of_range is None else f"{number(one.rmse_percent_of_range, 3)} %"


def _how(one: Exposed) -> str:
    if one.local:
        return "seen near its true value (for the owner only)"
    recipe = shown_recipe(one)
    if recipe is None:
        return NO_RECIPE
    # The error in the table is that of the best attack; a shorter recipe may have a larger one.
    worse = one.rmse is not None and recipe.rmse > 1.005 * one.rmse
    return f"{recipe.text} (error {number(recipe.rmse)})" if worse else recipe.text
