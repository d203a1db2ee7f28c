"""An audit's result in a terminal: the verdict, then who, through what, on which budget, what to change."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sightline.auditing.numerals import counted, domain, readable, remains
from sightline.auditing.result import AuditResult, BudgetReport, Exposed, Recipe, ReleaseReport
from sightline.auditing.run import Explanation
from sightline.privacy.registry import accountant_of_cost

_WIDTH = 118  # where nobody's window says how wide it is


def console() -> Console:
    """Standard output: colours and its own width in a terminal, plain text elsewhere."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=_WIDTH, no_color=True)


def print_result(result: AuditResult, screen: Console) -> None:
    """The whole result."""
    screen.print(
        f"{result.source}: {result.secret}, {domain(result)}; one {result.record} a record", markup=False
    )
    screen.print(
        f"{counted(result.records, 'record')} in {counted(result.signatures, 'signature')}; "
        f"{counted(len(result.releases), 'release')} with {counted(result.cells, 'number')}, "
        f"which see {counted(result.rank, 'direction')}"
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
        for number, change in enumerate(result.what_to_change, start=1):
            screen.print(f"  {number}. ", change.text, sep="", markup=False, soft_wrap=True)
    screen.print("\n[bold]What this rests on[/]")
    for line in result.assumptions:
        screen.print("  ", line, sep="", markup=False, soft_wrap=True)


def print_verdict(result: AuditResult, screen: Console) -> None:
    """Passed or not, and why."""
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
    """The most exposed, worst first."""
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
    for number, one in enumerate(result.exposed, start=1):
        table.add_row(
            Text(_who(number, one)),
            "none" if one.rmse is None else readable(one.rmse),
            *(_of_range(one) for _ in ranged),
            "" if one.remaining_uncertainty is None else remains(one.remaining_uncertainty),
            Text(_how(one)),
        )
    screen.print(table)


def print_releases(releases: tuple[ReleaseReport, ...], screen: Console) -> None:
    """What each release does."""
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
            _noise(one),
            *("" if count is None else f"{count:,}" for count in counts),
            Text(note),
        )
    screen.print(table)


def print_budget(budget: BudgetReport, screen: Console) -> None:
    """What the noise costs, accountant by accountant."""
    given = "" if budget.epsilon is None else f": epsilon = {budget.epsilon:g} under {budget.accountant}"
    usual = "" if budget.delta_given else ", the usual one, as the plan names none"
    screen.print(
        f"[bold]Budget[/]{given} at delta = {budget.delta:g}{usual}; "
        f"{counted(budget.releases, 'release')} count{'s' if budget.releases == 1 else ''}"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column("accountant")
    table.add_column("epsilon of this noise", justify="right")
    table.add_column("noise it would ask for, over sensitivity" if budget.would_need else "", justify="right")
    spent = {accountant_of_cost(name): value for name, value in budget.spent.items()}
    for name in dict.fromkeys([*spent, *budget.would_need]):
        cost, needed = spent.get(name), budget.would_need.get(name)
        table.add_row(name, *("" if value is None else readable(value) for value in (cost, needed)))
    screen.print(table)
    if not budget.proven:
        screen.print("  ", budget.note, sep="", markup=False, soft_wrap=True)


def print_explanation(found: Explanation, screen: Console) -> None:
    """Why one record is exposed, step by step."""
    secret = found.result.secret
    screen.print(
        f"What is seen of {secret} for {found.result.record} {found.record} (owner-only)", markup=False
    )
    if not found.exposed and found.result.local is not None:
        screen.print("Through sums and means nothing. Moments and thresholds have no recipe: see the audit.")
    elif not found.exposed:
        screen.print("Nothing: the attacker knows it already, or nothing published depends on it.")
    for one in found.exposed:
        group = "its own" if one.size == 1 else f"shared by {one.size} {found.result.unit}s"
        about = f" ({secret} = {one.category})" if one.category is not None else ""
        left = one.remaining_uncertainty
        kept = "" if left is None else f": {remains(left)} of the uncertainty remains"
        screen.print(f"[bold]Signature {one.signature}[/]{about}, {group}{kept}")
        if one.recipe is None:
            screen.print("  No weights on the published numbers give its value: it is not identifiable.")
            continue
        if one.shortest is not None and len(one.shortest.steps) < len(one.recipe.steps):
            _print_steps("The shortest way", one.shortest, one, screen)
        _print_steps("The best unbiased attack", one.recipe, one, screen)


def _print_steps(title: str, recipe: Recipe, one: Exposed, screen: Console) -> None:
    what = "the value" if one.size == 1 else f"the sum of the {one.size} values"
    screen.print(f"  {title}:")
    for number, step in enumerate(recipe.steps, start=1):
        verb = "add" if step.weight > 0 else "subtract"
        name = f'"{step.release}"' + (f", group {step.cell}" if step.cell else "")
        copies = f", the mean of its {step.times} copies" if step.times > 1 else ""
        screen.print(
            f"    {number}. {verb} {readable(abs(step.weight), 6)} × {name}{copies}",
            markup=False,
            soft_wrap=True,
        )
    if recipe.constant:
        screen.print(f"    then add {readable(recipe.constant, 6)}")
    if recipe.less_known:
        screen.print("    then subtract what the records add to it that the attacker knows")
    screen.print(f"    = {what}, with an error of {readable(recipe.rmse)} (root mean square)")


def _remarks(result: AuditResult) -> list[str]:
    remarks = []
    if result.known_rows:
        remarks.append(f"{counted(result.known_rows, 'row is', 'rows are')} known to the attacker")
    if result.dropped:
        remarks.append(f"{counted(result.dropped, 'row')} without a secret or a key left out (owner-only)")
    if result.clipped:
        where = "bounds count as clipped" if result.kind == "number" else "categories"
        remarks.append(f"{counted(result.clipped, 'value')} outside the {where} (owner-only)")
    return remarks


def _who(number: int, one: Exposed) -> str:
    who = one.record if one.record is not None else f"no. {number}"
    if one.category is not None:
        who += f", {one.category}"
    return who if one.size == 1 else f"{who} (sum of {one.size})"


def _of_range(one: Exposed) -> str:
    return "" if one.rmse_percent_of_range is None else f"{readable(one.rmse_percent_of_range, 3)} %"


def _how(one: Exposed) -> str:
    if one.local:
        return "seen near its true value (owner-only)"
    if one.recipe is None:
        return "not identifiable, but below the limit"
    recipe = one.recipe
    if one.shortest is not None and len(one.shortest.steps) < len(recipe.steps):
        recipe = one.shortest
    # The error in the table is the best attack's; a shorter way may err by more.
    worse = one.rmse is not None and recipe.rmse > 1.005 * one.rmse
    return f"{recipe.text} (errs by {readable(recipe.rmse)})" if worse else recipe.text


def _noise(one: ReleaseReport) -> str:
    if one.smallest_noise_stddev is None or one.largest_noise_stddev is None:
        return "none"
    low, high = readable(one.smallest_noise_stddev, 3), readable(one.largest_noise_stddev, 3)
    return low if low == high else f"{low}–{high}"
