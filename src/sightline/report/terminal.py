"""Print an audit's result: the verdict, who is exposed, the releases, the budget, and what to change."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sightline.auditing.result import (
    AuditResult,
    BudgetReport,
    Explanation,
    Exposed,
    LinearAttack,
    Recipe,
    Step,
)
from sightline.auditing.result_parts import FEW, TOP, CertainReport
from sightline.format import count, number, number_at_most, parameter
from sightline.report.first_screen import alike_in_all, print_first_screen
from sightline.report.wording import (
    accuracy_words,
    budget_words,
    carried,
    domain_words,
    ends_words,
    guessed,
    how,
    independent_words,
    noise_range,
    one_line,
    recipes_of,
    relative_error_words,
    remains,
    said,
    secret_line,
    seen_with,
    spent_by_accountant,
    still_known,
    still_unknown,
    unverified_line,
    who,
)

_NOT_COMPUTED = (
    "Not computed: whom each release newly exposes, for whom it is needed, and its noise over the true "
    "numbers. The full result has them: --full, or audit(plan, full=True)."
)
_OTHER_ATTACKS = {  # whose risk an upper end is, where it is not the linear one's
    "rounded": "The upper end is proved for the best linear attack's guess, rounded softly.",
    "posterior": "The upper end is that of the best attack, simulated with all who share its numbers.",
}
_PROOFS = {  # that may give a lower end, by their names in a result
    "": "",
    "hidden": "by itself: behind the values of others, or with all others known",
    "lines": "along changes of several values that no number shows well",
    "alike": "among people whom no number tells apart",
    "worlds": "by all tables that are possible, listed",
    "genies": "by everybody but one at a time being told, for all together",
    "moves": "by changes of several rows that hardly change a number",
    "told last": "with the numbers that tell next to nothing counted last",
    "noise": "by the noise alone, whatever is known of all others",
    "walk": "by simulated tables and answers, with a stated chance of error",
    "intervals": "by the chance that a rounded or blank count stays what it is",
    "information": "by what all numbers tell at most, where releases are not linear",
}


def print_result(result: AuditResult, screen: Console, *, full: bool = False) -> None:
    """Print the first screen; with ``full`` also every section, of several secrets the worst first."""
    print_first_screen(result, screen, full=full)
    print_since(result, screen)
    if full:
        _print_sections(result, screen)


def _print_sections(result: AuditResult, screen: Console) -> None:
    """Print what the first screen leaves out."""
    if result.all_secrets is not None:
        screen.print()
        screen.print(Text(result.all_secrets.text))
        for one in (result, *result.other_secrets):
            screen.print(Text(f"  {secret_line(one)}"))
    screen.print("\n[bold]In full[/]")
    screen.print(
        f"{one_line(result.source)}: secret {one_line(result.secret)}, {domain_words(result)}; "
        f"each {one_line(result.record)} is a record",
        markup=False,
    )
    screen.print(
        f"{count(result.records, 'record')} in {count(result.signatures, 'signature')}; "
        f"{count(result.cells, 'published number')}{independent_words(result)} "
        f"in {one_line(result.secret)}",
        markup=False,
    )
    for note in _remarks(result):
        screen.print(note, markup=False)
    for text in (result.verdict.text, *([result.sharpest.text] if result.sharpest else [])):
        screen.print(Text(text))
    if result.slack is not None:
        title = "Slack" if result.slack.holds else "Shortfall"
        screen.print(Text.assemble((title, "bold"), "  ", result.slack.text))
    _print_changes(result, screen)
    if result.exposed:
        screen.print()
        print_exposed(result, screen)
    screen.print()
    print_releases(result, screen)
    screen.print()
    print_budget(result.budget, screen)
    print_unverified(result, screen)
    if result.rules is not None:
        screen.print(f"\n[bold]Rules[/]  {result.rules.checked}")
        for broken in result.rules.broken or ():
            screen.print("  ", one_line(broken.text), sep="", markup=False, soft_wrap=True)
    screen.print("\n[bold]What this rests on[/]")
    for line in result.assumptions:
        screen.print("  ", line, sep="", markup=False, soft_wrap=True)
    for other in result.other_secrets:
        screen.print()
        print_result(other, screen, full=True)


def _print_changes(result: AuditResult, screen: Console) -> None:
    """Print every change that reaches the limit, with its audited effect and its cost."""
    reaching = [change for change in result.what_to_change if change.reaches_limit]
    if reaching or result.more_to_change:
        screen.print("\n[bold]Every change that reaches the limit[/]")
    for place, change in enumerate(reaching, start=1):
        cost = f" (cost: {change.cost})" if change.cost else ""
        screen.print(f"  {place}. ", change.text, cost, sep="", markup=False, soft_wrap=True)
    if result.more_to_change:
        screen.print("  ", result.more_to_change, sep="", markup=False, soft_wrap=True)


def print_since(result: AuditResult, screen: Console) -> None:
    """Print what changed since the last audit, if this one is compared with it."""
    since = result.since
    if since is None:
        return
    screen.print("\n[bold]Since the last audit[/]")
    if not since.comparable:
        screen.print("  The two audits ask different questions; read the numbers below with that in mind.")
    for line in since.lines or ("nothing changed",):
        screen.print("  ", one_line(line), sep="", markup=False, soft_wrap=True)
    for title, keys in (("newly below", since.newly_below), ("no longer below", since.no_longer_below)):
        if keys:
            listed = one_line(", ".join(keys))
            screen.print(f"  {title} (for the owner only): {listed}", markup=False, soft_wrap=True)


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
    ranged = ["of range"] if result.secret_kind.measured else []
    guesses = any(one.right_after is not None for one in result.exposed)
    known = ["known to"] if result.secret_kind.measured else ["guessed right"] * guesses
    for name in ("who", "error", *ranged, "remains", "of ±", *known):
        first = name == "who"
        table.add_column(name, justify="left" if first else "right", no_wrap=not first, overflow="fold")
    table.add_column("how", overflow="fold")
    for place, exposed in enumerate(result.exposed, start=1):
        left = exposed.remaining_uncertainty
        table.add_row(
            Text(_who(place, exposed)),
            ends_words(exposed.rmse),
            *(_of_range(exposed) for _ in ranged),
            said("", left),
            said("", left and left.of_stddev),
            *(_known(exposed, result) for _ in known),
            Text(how(exposed, result.unit)),
        )
    screen.print(table)
    screen.print(
        "  [dim]error: of the best unbiased attack; remains: the share of the variance that the best attack "
        "leaves; of ±: the same of the standard deviation[/]"
    )
    if not result.secret_kind.measured and guesses:
        which = ", whichever category it is" if not result.secret_kind.summed else ""
        screen.print(f"  [dim]guessed right: how often the best guess at the value is right{which}[/]")


def print_releases(result: AuditResult, screen: Console) -> None:
    """Print the noise of each release, how accurate that leaves it, and whom it exposes."""
    screen.print("[bold]Releases, in order of publication[/]")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", overflow="fold")
    owner = any(release.accuracy for release in result.releases)
    compared = not any(name.startswith("releases: ") for name in result.not_computed)
    names = ["times", "numbers", "noise", "noise/range", *(["noise/true"] if owner else [])]
    for name in (*names, *(["newly exposes", "needed for"] if compared else [])):
        table.add_column(name, justify="right", no_wrap=name.startswith("noise"))
    table.add_column("", overflow="fold", min_width=17)
    for release in result.releases:
        counts = (release.newly_exposes, release.exposes_alone) if compared else ()
        table.add_row(
            Text(release.name),
            str(release.times),
            str(release.outputs),
            noise_range(release),
            accuracy_words(release),
            *([relative_error_words(release.accuracy)] if owner else []),
            *(said("", count and f"{count:,}") for count in counts),
            Text(release.note),
        )
    screen.print(table)
    screen.print("  [dim]noise/range: over the range of the number, at the median number and the worst[/]")
    if owner:
        screen.print("  [dim]noise/true: the same over the true number (for the owner only)[/]")
    if not compared:
        screen.print(f"  [dim]{_NOT_COMPUTED}[/]")


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
        both = [each.get(name) for each in (spent, budget.would_need)]
        costs = ["" if one is None else number_at_most(one, 4) for one in both]
        table.add_row(name, *costs)
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
    for cell in (result.homogeneous or ())[:TOP]:
        screen.print("  ", cell.text, sep="", markup=False, soft_wrap=True)
    more = alike_in_all(result) - TOP
    if more > 0:
        screen.print(f"  and {more:,} more")


def named_lines(exposed: Exposed) -> list[str]:
    """What is left of a record's features that have names: one row, all of them, each release's sharpest."""
    listed, releases = [], set()
    for one in exposed.named:
        release = one.name.split(":")[0]
        if one.kind == "period" and release in releases:
            continue
        releases.add(release)
        what = {"row": "the row seen best", "total": f"all {one.rows:,} rows"}.get(one.kind)
        rows = "" if what else f", {count(one.rows, 'row')} of theirs"
        listed.append(f"{what or one.name}{rows}{remains(one.remaining_uncertainty)}")
    return listed


def print_explanation(
    explanation: Explanation, screen: Console, *, full: bool = False, from_python: bool = False
) -> None:
    """Print why one record is exposed, step by step: its rows together and the sharpest of them, or all.

    ``from_python`` says where the rest is without the options of the command.
    """
    secret, record = explanation.result.secret, explanation.result.record
    screen.print(
        f"What can be seen of {secret} for {record} {explanation.record} (for the owner only)",
        markup=False,
    )
    if not explanation.exposed and explanation.result.local is not None:
        screen.print("Sums and means show nothing. Moments and thresholds have no recipe: see the audit.")
    elif not explanation.exposed:
        screen.print("Nothing: either the attacker knows it already, or nothing published depends on it.")
    certain = explanation.certain or CertainReport()
    for line in certain_lines(certain, secret):
        screen.print(line, markup=False, soft_wrap=True)
    shown = explanation.exposed if full else sorted(explanation.exposed, key=_left)[:FEW]
    for exposed in shown:
        unit = "record" if exposed.rows > 1 else explanation.result.unit
        group = "of this record alone" if exposed.size == 1 else f"shared by {exposed.size} {unit}s"
        about = said(f" ({secret} = ", exposed.category, ")")
        what = f"Signature {exposed.signature}"
        if exposed.rows > 1:
            what = f"All {exposed.rows:,} rows together{said(', their ', exposed.feature)}"
        head = Text(one_line(f"{what}{about}, {group}{still_unknown(exposed, explanation.result)}"))
        head.stylize("bold", 0, len(what))
        screen.print(head)
        if exposed.upper_by in _OTHER_ATTACKS:
            screen.print(f"  {_OTHER_ATTACKS[exposed.upper_by]}", soft_wrap=True)
        if proof := _PROOFS[exposed.lower_by]:
            screen.print(f"  The lower end is proved {proof}.", soft_wrap=True)
        for line in named_lines(exposed):
            screen.print("  ", one_line(line), sep="", markup=False, soft_wrap=True)
        if exposed.attack is not None:
            _print_attack(exposed.attack, unit, screen)
        recipes = recipes_of(exposed)
        if not (recipes or certain.people or certain.undecided or certain.by_draw):
            screen.print("  No combination of the published numbers gives its value: it is not identifiable.")
        titles = ("The shortest recipe", "The best unbiased attack")[-len(recipes) :]
        for title, recipe in zip(titles, recipes, strict=False):
            _print_steps(title, recipe, exposed, screen, rest="exposed" if from_python else "--json")
    if more := len(explanation.exposed) - len(shown):
        rest = "exposed lists them" if from_python else "--full"
        screen.print(
            f"{count(more, 'more part')} of {explanation.record}, less exposed: {rest}", markup=False
        )
    for other in explanation.other_secrets:
        screen.print()
        print_explanation(other, screen, full=full, from_python=from_python)


def certain_lines(told: CertainReport, secret: str) -> list[str]:
    """Whether a record's value follows from the published counts, and from which."""
    lines = [
        f"Certain: {one_line(of.about or secret)} is {of.value}. No other value fits {one_line(of.recipe)}."
        for of in told.groups
    ]
    if told.undecided:
        lines.append("Whether its value follows from the published counts is not decided.")
    if told.by_draw:
        lines.append("After some draws of the rounding its value may follow from the published counts.")
    return lines


def _left(exposed: Exposed) -> float:
    """What is left of it, for an order of the sharpest first; all rows together come before each."""
    left = exposed.remaining_uncertainty
    return (1.0 if left is None else left.lower) - (exposed.rows > 1)


def _print_attack(attack: LinearAttack, unit: str, screen: Console) -> None:
    """Print the best linear attack, folded to the steps that carry it."""
    screen.print(
        f"  Under the prior, {seen_with(attack, unit)}{carried(attack)}:", markup=False, soft_wrap=True
    )
    for place, step in enumerate(attack.steps, start=1):
        screen.print(f"    {place}. {_step_words(step)}", markup=False, soft_wrap=True)


def _print_steps(title: str, recipe: Recipe, exposed: Exposed, screen: Console, *, rest: str) -> None:
    value = "the value" if exposed.size == 1 else f"the sum of the {exposed.size} values"
    what = {None: value, "row": "one row", "total": "the total of the rows"}.get(
        exposed.feature, "a combination of the rows"
    )
    steps = sorted(recipe.steps, key=lambda step: -abs(step.weight))
    few = len(steps) <= TOP
    numbers = len(steps) + recipe.more_steps
    heaviest = "" if few else f", the heaviest {TOP} of {numbers:,} numbers"
    screen.print(f"  {title}{heaviest}:")
    for place, step in enumerate(recipe.steps if few else steps[:TOP], start=1):
        screen.print(f"    {place}. {_step_words(step)}", markup=False, soft_wrap=True)
    if not few:
        listed = (
            f"which {rest} lists" if not recipe.more_steps else f"of which {rest} lists what carries 99.9 %"
        )
        screen.print(f"    and {numbers - TOP:,} more, {listed}")
    if recipe.constant:
        screen.print(f"    then add {number(recipe.constant, 6)}")
    if recipe.less_known:
        screen.print("    then subtract the share of the records that the attacker knows")
    screen.print(f"    = {what}, with an error of {number(recipe.rmse)} (root mean square)")


def _step_words(step: Step) -> str:
    verb = "add" if step.weight > 0 else "subtract"
    name = f'"{step.release}"' + (f", group {step.cell}" if step.cell else "")
    copies = f", the mean of its {step.times} copies" if step.times > 1 else ""
    before = f", before {step.before}" if step.before else ""
    return f"{verb} {number(abs(step.weight), 6)} × {name}{before}{copies}"


def _remarks(result: AuditResult) -> list[str]:
    remarks = []
    if result.known_rows:
        remarks.append(f"{count(result.known_rows, 'row is', 'rows are')} known to the attacker")
    if result.dropped:
        without = count(result.dropped, "row is", "rows are")
        remarks.append(f"{without} left out, without a secret or a key (for the owner only)")
    if result.clipped:
        where = "bounds: clipped to them" if result.secret_kind.measured else "categories"
        outside = count(result.clipped, "value is", "values are")
        remarks.append(f"{outside} outside the {where} (for the owner only)")
    remarks += [f"{one_line(line)} (for the owner only)" for line in result.looks_odd or ()]
    return remarks


def _who(place: int, exposed: Exposed) -> str:
    about = said(", whether ", exposed.about)
    if about or exposed.size == 1:
        return f"{who(place, exposed)}{one_line(about)}"
    # Persons with the same rows are alike, and each is seen by itself; of other groups only the sum is seen.
    many = f"each of {exposed.size:,} alike" if exposed.rows > 1 else f"sum of {exposed.size:,}"
    return f"{who(place, exposed)} ({many})"


def _known(exposed: Exposed, result: AuditResult) -> str:
    """How closely a value is known, or how often a guess at it is right."""
    return still_known(exposed, result) if result.secret_kind.measured else guessed(exposed, result)


def _of_range(exposed: Exposed) -> str:
    return "" if exposed.rmse_percent_of_range is None else f"{number(exposed.rmse_percent_of_range, 3)} %"
