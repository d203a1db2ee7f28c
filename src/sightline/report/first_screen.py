"""The first screen: whether to publish, whom it concerns, what to change, what was not verified.

About twenty lines. The terminal prints them, and the page begins with the same ones; ``--full`` has the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from sightline.auditing.assumption_facts import NOT_ACCEPTED
from sightline.auditing.plan import AssumptionName
from sightline.auditing.reading import file_name
from sightline.auditing.result import AuditResult, Change, Exposed, LinearAttack, Unverified, VerdictStatus
from sightline.auditing.result_parts import FEW, FIRST, NAMED, BrokenRule, CertainGroup, LikelyGroup
from sightline.format import count, covered, number, number_at_most, parameter, percent
from sightline.report.advice import untried_or_not_enough
from sightline.report.told import told_in_short, words
from sightline.report.wording import (
    NO_RECIPE,
    Span,
    before_after,
    belief_line,
    few_numbers,
    known_head,
    known_to,
    limit_line,
    once_each,
    one_line,
    period_alone,
    records,
    records_with_key,
    rules_of,
    said,
    secret_line,
    short,
    short_recipes,
    status_word,
    sums_behind,
    unbroken,
    view_line,
    who,
    without_ones,
)

MOST_LINES = 28  # of a screen: so many fit a terminal with the command above them
_WORTH_SAYING = 0.05  # of the variance that public columns explain: less moves no limit that people state
_GUARANTEES_NOTHING = 100.0  # epsilon: Gaussian noise that costs it moves by 9 deviations at delta = 1e-6
_LONGEST_NAME = 26  # letters of who is exposed
_WIDTH = 50  # characters of a picture in the terminal; no line is cut or broken to be shorter

# What to do about an assumption that was not verified; others are said with how to accept them alone.
_SETTLED_BY = {
    AssumptionName.DROPPED: "Leave these rows out by a public column, or fill them in",
    AssumptionName.CLIPPED: "Clip the values in the queries, or widen the bounds",
    AssumptionName.PUBLISHED_BUT_DROPPED: "Leave them out of the queries, as by WHERE {secret} IS NOT NULL",
    AssumptionName.EMPTY: "Check the conditions",
    AssumptionName.GROUPS: "Publish every value in every group",
    AssumptionName.SECRETS: "Judge whether one column tells the other",
    AssumptionName.UNDECIDED: "Add noise to numbers that have next to none",
    AssumptionName.CERTAIN: "Publish coarser groups, a coarser base, or more blanks there",
    AssumptionName.PRESENCE: "Add noise until it alone keeps the limit, or give a frame",
    AssumptionName.COUNT_RULES: "Publish coarser groups, or add noise whose law is known",
    AssumptionName.LOCAL: "Add noise until it alone keeps the limit, or publish means instead",
    AssumptionName.HOMOGENEOUS: (
        "State a realistic prior ({prior} in [attacker]), publish coarser groups there, add noise"
    ),
    AssumptionName.FEW_VALUES: 'Write prior = "two-point" in [attacker]',
    AssumptionName.VALUES: 'Write values = "constant" in [data] if it is so by rule',
    AssumptionName.ROWS_APART: 'Leave out values = "independent"',
    AssumptionName.NOISE_FIRST: "Add the noise first, then multiply or sort",
    AssumptionName.HIDDEN_BY_NOISE: "Look up which count decided",
    AssumptionName.DRAWN: "Name who is known with [attacker] knows",
}


_RULE, _CERTAIN = ("rule", "why", "which numbers"), ("who", "value", "by which counts")


# How to state what people believe beforehand, by the kind of the secret.
_PRIORS = {"number": 'prior = "population.csv"', "boolean": "prior = { yes = … }"}


def print_first_screen(result: AuditResult, screen: Console, *, full: bool = False) -> None:
    """Print the first screen; with ``full``, without saying where more is."""
    for line in first_screen(result, screen.width, full=full):
        screen.print(line, no_wrap=True, crop=False)


def first_screen(result: AuditResult, width: int, *, full: bool = False) -> list[Text]:
    """The lines, with as many of the most exposed as fit a screen."""
    status = status_word(result)
    head = _wrapped(f"{status}  {limit_line(result)}", width)
    colour = {True: "bold green", False: "bold red", None: "bold"}[result.verdict.passed]
    head[0].stylize("bold yellow" if result.verdict.accepts_groups else colour, 0, len(status))
    for other in result.other_secrets:
        head += _wrapped(secret_line(other), width)
    if told := belief_line(result):
        head += _wrapped(told, width)
    head += _wrapped(about_line(result), width, "dim")
    if result.sharpest is not None and not _someone_is_certain(result):  # how closely others may be known
        line = f"{view_line(result)} {result.sharpest.all_others_known}".strip()
        head += [Text(), *_wrapped(line, width)]
        head += [Text(f"  {line}") for line in picture(result)]
    closing = [line for line in (result.cut_short or slack_line(result), public_line(result)) if line]
    last = [Text()] * bool(closing) + [part for line in closing for part in _wrapped(line, width)]
    if not full:
        last += _wrapped(more_line(result), width, "dim")
    # Fewer broken rules, then fewer exposed, then less on blanks and on what settles the rest, then no empty
    # lines, where the screen would be too long.
    for rules, fewest, settled in (
        (FEW, FEW, True),
        (2, FEW, True),
        (1, FEW, True),
        (1, 1, True),
        (1, 1, False),
    ):
        lists = first_lists(result, rules=rules, settled=settled)
        exposed, *others = (_printed(one, width) for one in lists)
        end = [*(line for one in others for line in one), *last]
        room = max(MOST_LINES - len(head) - len(end), fewest + 2)
        if len(head) + len(end) + min(len(exposed), room) <= MOST_LINES:
            break
    shown = [*head, *exposed[:room], *end]
    for place in [place for place, line in enumerate(shown) if not line.plain][::-1]:  # the last first
        if len(shown) > MOST_LINES:
            del shown[place]
    return shown


def picture(result: AuditResult) -> list[str]:
    """The picture in characters, for the terminal: a line each for before and after, and the scale."""
    shown = before_after(result)
    (before, after, inner), (low, high) = shown.spans, shown.scale
    return [
        f"before {_bar(before, before)} {shown.numbers[0]}",
        f"after  {_bar(after, inner)} {shown.numbers[1]}",
        f"       {low}{high:>{max(1, _WIDTH - len(low))}}",
    ]


def _bar(outer: Span, inner: Span) -> str:
    """A line with a block: dark where nothing is closer, lighter up to the outer end."""
    cells = []
    for place in range(_WIDTH):
        middle = (place + 0.5) / _WIDTH
        near = 0.5 / _WIDTH
        dark = inner[0] - near < middle < inner[1] + near and inner[1] > inner[0]
        light = outer[0] - near < middle < outer[1] + near
        cells.append("█" if dark else "▒" if light else "─")
    return "".join(cells)


def _printed(shown: FirstList, width: int) -> list[Text]:
    """A list with its title and an empty line before it; a line that is one of a table is cut."""
    if not shown.lines:
        return []
    texts: list[str] = []
    for place, line in enumerate(shown.lines, start=1):
        text = f"{place}. {line}" if shown.ordered else line
        if shown.cells and place == 1 and len(text) > max(width, _WIDTH) - 3:  # the first is told in full
            texts += _fitted(text, width)[:2]
        else:
            texts += [_cut(text, width - 3)] if shown.table else _fitted(text, width)
    if shown.note:
        texts += _fitted(shown.note, width)
    return [Text(), Text(shown.title, style="bold"), *(Text(f"  {text}") for text in texts)]


def _wrapped(text: str, width: int, style: str = "") -> list[Text]:
    return [Text(line, style=style) for line in _lines(text, max(width, _WIDTH))]


def _fitted(line: str, width: int) -> list[str]:
    """A line of a list, on as many lines of a terminal as it needs, up to four. What to do is at its end."""
    lines = _lines(line, max(width, _WIDTH) - 6)
    shown = lines if len(lines) <= 4 else [*lines[:2], f"… {lines[-2]}", lines[-1]]
    return [shown[0], *(f"   {one}" for one in shown[1:])]


def _lines(text: str, width: int) -> list[str]:
    """The lines of a text, in which a number stays with its sign and its unit."""
    shown = {ord("\N{NO-BREAK SPACE}"): " ", ord("\N{WORD JOINER}"): None}
    return [line.translate(shown) for line in wrap(unbroken(text), width)]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= max(width, _WIDTH) else line[: max(width, _WIDTH) - 1] + "…"


class FirstList(NamedTuple):
    """A list of the first screen; it may be empty."""

    title: str
    lines: list[str]
    table: bool = False  # a line is who, what is known and how
    ordered: bool = False
    cells: Sequence[tuple[str, ...]] = ()  # the parts of the lines of a table that has columns
    heads: tuple[str, ...] = ()  # of these
    note: str = ""  # after the lines


def first_lists(
    result: AuditResult,
    *,
    rules: int = FEW,
    longest: int = _LONGEST_NAME,
    more: str = ": --full",
    settled: bool = True,
) -> list[FirstList]:
    """Whom it concerns, at most so many broken rules, what to change, and what was not verified.

    Names have at most ``longest`` letters; ``more`` says where the rest is, and ``settled`` whether what
    settles the unverified is said.
    """
    checked = rules_of(result)
    rest = "; the rules were not tried" if checked.in_all else ""
    audited = f" (audited: each reaches the limit{rest})" if result.reaching else ""
    in_all = f" ({checked.in_all:,} in all{more})" if checked.in_all > 1 else ""
    broken = broken_rules(result)[:rules]
    exposed = [] if _someone_is_certain(result) else exposed_cells(result, longest)
    return [
        FirstList(
            exposed_title(result),
            _padded(exposed),
            True,
            cells=exposed,
            heads=("who", known_head(result), "how"),
        ),
        FirstList(
            f"Broken rules{in_all}", [": ".join(one) for one in broken], True, cells=broken, heads=_RULE
        ),
        certain_list(result, more, longest),
        FirstList("So that counts tell nobody's value", certain_changes(result, 2 if settled else 1)),
        FirstList(
            f"What to change{audited}",
            change_lines(result),
            ordered=bool(result.reaching),
            note=tried_line(result),
        ),
        FirstList("Not verified, and needed for a pass", open_lines(result, more, settled=settled)),
        FirstList("Accepted by the plan, and not verified", accepted_lines(result)),
        FirstList("Looks odd (for the owner only)", odd_lines(result)),
    ]


def _someone_is_certain(result: AuditResult) -> bool:
    return result.certain is not None and result.certain.people > 0


def certain_list(result: AuditResult, more: str = "", longest: int = _LONGEST_NAME) -> FirstList:
    """Whose value follows from the published counts, and by which of them: the smallest groups first."""
    certain = result.certain
    if certain is not None and certain.likely is not None:
        return FirstList(
            "Nobody is certain; a simulated attack on these counts (an estimate, for the owner only)",
            [_likely_line(certain.likely, result)],
        )
    if certain is None or not certain.groups:
        return FirstList("", [])
    where = f" ({more.removeprefix(': ')})" if more else ""
    rest = f" in {len(certain.groups):,} groups{where}" if len(certain.groups) > FEW else ""
    title = f"Certain: {records(certain.people, result)}{rest}, and the counts that leave no other value"
    cells = [_certain_cells(one, longest) for one in certain.groups[:FEW]]
    return FirstList(title, ["  ".join(one) for one in cells], True, cells=cells, heads=_CERTAIN)


def _likely_line(likely: LikelyGroup, result: AuditResult) -> str:
    whom = f"{likely.label}, " if likely.label else ""
    who_believed = f"{whom}{records(likely.people, result)}: {likely.value}"
    left = f"which leaves {percent(likely.left)} of the variance"
    return one_line(f"{who_believed} with a chance of {percent(likely.chance)}, {left}")


def certain_changes(result: AuditResult, names: int = 2) -> list[str]:
    """The blanks, the first of them by name, or the base, after which nobody is certain, and their cost."""
    return [
        one_line(f"{_with_few_names(one.action, names)} (cost: {one.cost})")
        for one in result.so_nobody_is_certain or ()
    ]


def _with_few_names(action: str, few: int) -> str:
    """An action with its first names; the result lists all of them."""
    names = action.split('", "')
    more = f'" and {len(names) - few:,} more' if len(names) > few else ""
    return '", "'.join(names[:few]) + more


def _certain_cells(group: CertainGroup, longest: int) -> tuple[str, ...]:
    keys = ", ".join(group.records[:NAMED])
    whom = keys or (group.label if group.people == 1 else f"{group.people:,} alike: {group.label}")
    about = f" ({group.about})" if group.about else ""
    return short(whom, longest), one_line(f"{group.value}{about}"), one_line(group.recipe)


def broken_rules(result: AuditResult) -> list[tuple[str, ...]]:
    """The broken rules that are listed: which rule, why, and by which numbers."""
    return [_broken_rule(one) for one in rules_of(result).broken]


def _broken_rule(one: BrokenRule) -> tuple[str, ...]:
    """A broken rule, the reason, and the combination, which may be long."""
    reason = "" if one.why is None else words(one.why)
    return one_line(one.rule), one_line(reason), one_line(without_ones(one.combination))


def about_line(result: AuditResult) -> str:
    """What was audited and what its noise costs, in one line."""
    budget, every = result.budget, result.all_secrets
    spent, delta = budget.least_spent, budget.delta
    if every is not None:
        spent, delta = every.epsilon, every.delta
    at = f" at delta = {parameter(delta)}"
    nothing = ", which by itself guarantees nothing" * (spent is not None and spent > _GUARANTEES_NOTHING)
    whom = "" if budget.everyone else f" for {covered(everyone=False)}"
    cost = "" if spent is None else f"; the noise costs epsilon = {number_at_most(spent)}{at}{whom}{nothing}"
    if spent is not None and math.isinf(spent):
        cost = "; numbers without noise have no finite epsilon, so that noise guarantees nothing"
        if result.guaranteed_by_noise:
            cost = "; counts that chance rounds or changes have no finite epsilon"
    known = f", {count(result.known_rows, 'row')} known to the attacker" * (result.known_rows > 0)
    if result.dropped:
        known += f", {count(result.dropped, 'row')} left out (no secret or no key)"
    numbers = sum(one.cells for one in (result, *result.other_secrets))
    table, might = short(file_name(result.source), 40), ""
    if result.frame:  # people are those of the frame, and who of them is in the table is asked
        table, might = short(file_name(result.frame), 40), f" who might be in {table}"
    return (
        f"{table}: {records_with_key(result.records, result)}{might}{known}, "
        f"{count(numbers, 'number')}{cost}; who is in it is {'the secret' if result.presence else 'public'}"
    )


def exposed_title(result: AuditResult) -> str:
    """Above the most exposed: how many there are."""
    several = result.exposed_in_all > 1 and result.secret_kind.summed  # which lists a record in each category
    return f"Most exposed{f' of {result.exposed_in_all:,}' * several}, {known_head(result)}, and how"


def exposed_lines(result: AuditResult, longest: int = _LONGEST_NAME) -> list[str]:
    """The most exposed, a line each with its parts below each other."""
    return _padded(exposed_cells(result, longest))


def _padded(cells: list[tuple[str, ...]]) -> list[str]:
    """Lines with their parts below each other; the last is as long as it is."""
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([*(f"{part:{width}}" for part, width in zip(line[:-1], wide, strict=False)), line[-1]])
        for line in cells
    ]


def exposed_cells(result: AuditResult, longest: int = _LONGEST_NAME) -> list[tuple[str, ...]]:
    """The most exposed: who, how closely their value is known, and by which combination.

    A record in several categories is listed once, with the one of which least is left.
    """
    shown = once_each(result.exposed)[:FIRST]
    names = [_short_name(place, one, longest) for place, one in enumerate(shown, start=1)]
    return [
        (name, known_to(one, result), combination(one, result))
        for name, one in zip(names, shown, strict=True)
    ]


def _short_name(place: int, exposed: Exposed, longest: int) -> str:
    """A name in few letters; of a group, long names of columns are cut before its values."""
    name = _name(place, exposed)
    if exposed.record is None and len(name) > longest:
        words = [word if len(word) <= 10 else f"{word[:7]}…" for word in name.split(" ")]
        name = " ".join(words)
    return short(name, longest)


def combination(exposed: Exposed, result: AuditResult) -> str:
    """By which numbers somebody is seen, in one line: the recipe, or the heaviest of many numbers."""
    if exposed.local:
        return "through moments and thresholds, near the true value"
    if period := period_alone(exposed):
        return one_line(period)
    if (sums := exposed.left_by_sums) is not None:
        several = exposed.rows > 1 or result.unit == "record"
        people = records(sums.people, result) if several else count(sums.people, "row")
        return one_line(sums_behind(sums, people))
    for recipe in short_recipes(exposed):
        changed = "if it is known how the others changed: " if exposed.knows_changes else ""
        return one_line(f"{changed}{without_ones(recipe.text)}")
    if exposed.attack is None:
        return NO_RECIPE
    return one_line(f"{_beside(exposed.attack)}{few_numbers(exposed.attack)}")


def _beside(attack: LinearAttack) -> str:
    together = attack.together
    if together is None:
        return ""
    few = len(together.records) in range(1, 4)
    others = ", ".join(together.records) if few else count(together.others, "other")
    return f"in a sum with {others} (± {number(together.stddev, 3)}): "


def change_lines(result: AuditResult) -> list[str]:
    """The changes that reach the limit, or what is missing for one; of a plan that passes, its slack."""
    changes: tuple[Change, ...] = result.reaching[:FEW]
    if changes:  # without their effect, which the title says
        costs = [f" (cost: {one.cost})" if one.cost else "" for one in changes]
        return [one_line(f"{one.action}{cost}") for one, cost in zip(changes, costs, strict=True)]
    if result.verdict.status is VerdictStatus.FAILED and not (result.cut_short or certain_changes(result)):
        reason = said(" ", result.slack and result.slack.text)
        return [one_line(f"No change was found that is enough alone.{reason}")]
    return []


def tried_line(result: AuditResult) -> str:
    """What was audited of a plan that does not pass and is not enough, and what was not tried, and why."""
    return "" if result.verdict.passed is not False else one_line(untried_or_not_enough(result))


def open_lines(result: AuditResult, where: str = ": --full", *, settled: bool = True) -> list[str]:
    """What was not verified and the plan does not accept, in words, with what settles it."""
    lines = [
        f"{_sentence(one, result)} {_settled(one, result)}" if settled else _sentence(one, result)
        for one in result.unverified
        if not one.accepted and not (one.name is AssumptionName.CERTAIN and certain_list(result).lines)
    ]
    # A plan that fails for somebody has to change anyway: the first of them is enough.
    most = 1 if result.verdict.status is VerdictStatus.FAILED else NAMED
    more = len(lines) - most
    return [*lines[:most], f"and {more} more{where}"] if more > 0 else lines


def accepted_lines(result: AuditResult) -> list[str]:
    """What a plan that passes accepts without proof, in words with its figures.

    To readers the names of the rest: whether a pass needs them depends on what is for the owner.
    """
    if result.verdict.status is not VerdictStatus.PASSED:
        return []
    said = [f"{one.name.value}: {_sentence(one, result)}" for one in result.unverified if one.accepted]
    listed = {one.name for one in result.unverified}
    others = [name.value for name in result.accepts if name not in listed and not result.owner_only]
    if others:
        said.append(f"also {' and '.join(others)}; whether the pass needs this, and where, is for the owner.")
    return said


def odd_lines(result: AuditResult) -> list[str]:
    """What a plan that passes declares and looks unlike its table."""
    passed = result.verdict.status is VerdictStatus.PASSED
    return [one_line(line) for line in (result.looks_odd or ())[:FEW] if passed]


def public_line(result: AuditResult) -> str:
    """The columns that a pass takes as public, declared by the plan or not, and what they explain."""
    if result.verdict.status is not VerdictStatus.PASSED:
        return ""
    names, known, lines = result.taken_as_public, result.explained, []
    if names:
        lines.append(f"Taken as public, since the plan does not say ([data] public): {_some(names)}.")
    elif result.declared_public:
        lines.append(f"Public, as the plan says: {_some(result.declared_public)}.")
    if known is not None and known.share >= _WORTH_SAYING:
        lines.append(
            f"In the table, {_some(known.columns)} {'explain' if len(known.columns) > 1 else 'explains'} "
            f"{percent(known.share)} of the variance of {short(one_line(result.secret), _LONGEST_NAME)} "
            "(for the owner only)."
        )
    return " ".join(lines)


def _some(names: tuple[str, ...]) -> str:
    """The first few names of columns, and how many more there are."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    shown = [short(one_line(name), _LONGEST_NAME) for name in names[:NAMED]]
    return (
        f"{', '.join(shown)}{more}" if more or len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    )


def alike_in_all(result: AuditResult) -> int:
    """How many numbers are about rows that are nearly all alike: a result lists the worst of them."""
    open_ones = [
        one for one in result.unverified if one.name is AssumptionName.HOMOGENEOUS and one.owner_only
    ]
    return max([len(result.homogeneous or ()), *(one.count for one in open_ones)])


def _sentence(one: Unverified, result: AuditResult) -> str:
    alike = result.homogeneous or ()
    if one.name is AssumptionName.HOMOGENEOUS and one.owner_only and alike:
        # The worst of them says more than their number.
        others = alike_in_all(result) - 1
        more = f" {others:,} other{'s tell' if others > 1 else ' tells'} theirs, too." * (others > 0)
        return f"{one_line(told_in_short(alike[0]))}.{more}"
    reason = one_line(one.reason.partition("; ")[0])
    return f"{reason[0].upper()}{reason[1:]}."


def _settled(one: Unverified, result: AuditResult) -> str:
    accept = f'accept = ["{one.name.value}"]'
    by = _SETTLED_BY.get(one.name, "").replace("{secret}", one_line(result.secret))
    if one.name is AssumptionName.CLIPPED and not result.secret_kind.summed:
        by = "Declare them as categories"
    if one.name is AssumptionName.HOMOGENEOUS and not result.secret_kind.summed:
        by = "Publish coarser groups there, add noise"  # categories have even chances
    if one.name is AssumptionName.FEW_VALUES and not result.secret_kind.summed:
        by = "Leave categories out that nobody can have"
    by = by.replace("{prior}", _PRIORS.get(result.kind, "prior"))
    if one.name in NOT_ACCEPTED:
        return f"{by}."
    return f"Write {accept} in [limits] if that is right." if not by else f"{by}, or {accept}."


def more_line(result: AuditResult) -> str:
    """Where more is."""
    named = "" if any(one.record for one in result.exposed) or not result.exposed else "--names (who), "
    return f"More: {named}--full (budget, releases, what this rests on), --html FILE (pictures)"


def slack_line(result: AuditResult) -> str:
    """How much less noise would do, if the plan passes; else nothing."""
    passed = result.verdict.status is VerdictStatus.PASSED and not result.verdict.accepts_groups
    if result.slack is None or not passed:
        return ""
    text, more, _ = result.slack.text.partition(". ")
    again = " Audit again first." if more else ""
    return f"{text.rstrip('.')}.{again}".replace("it holds", "the limit holds", 1)


def _name(place: int, exposed: Exposed) -> str:
    if exposed.total is not None:
        name = exposed.record or exposed.label or f"no. {place}"
        return f"{name}" if exposed.size == 1 else f"{exposed.size:,} alike: {name}"
    if exposed.right_after is not None:  # a guess is one among all categories: none stands beside it
        exposed = exposed.model_copy(update={"category": None})
    if exposed.size == 1:
        return who(place, exposed)
    return f"each of {exposed.size:,}: {exposed.label or who(place, exposed)}"
