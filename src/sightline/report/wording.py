"""The words of a report: names that fit a line, numbers with their units, sentences, and the first screen."""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import (
    AuditResult,
    BeliefReport,
    BudgetReport,
    Exposed,
    LinearAttack,
    Recipe,
    ReleaseAccuracy,
    ReleaseReport,
    SharpestView,
    TotalView,
    Uncertainty,
    Unverified,
    VerdictStatus,
)
from sightline.auditing.result_parts import NAMED, LeftBySums, RulesReport
from sightline.format import (
    count,
    covered,
    number,
    number_at_most,
    number_ends,
    parameter,
    percent,
    percent_at_least,
    percent_at_most,
    percent_stated,
)
from sightline.privacy.registry import accountant_of_cost
from sightline.tables.subject import SecretKind

# What changes the direction of writing.
_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"


def one_line(text: str) -> str:
    r"""Return a text without line breaks, control characters and direction overrides.

    >>> one_line("a\tb\n\u202ec")
    'a b c'
    """
    spaced = (c for c in " ".join(text.split()) if unicodedata.bidirectional(c) not in _DIRECTIONS)
    return "".join(" " if unicodedata.category(c) in {"Cc", "Cs"} else c for c in spaced)


def short(text: str, limit: int = 60) -> str:
    """Return a text on one line, cut if it is longer than the limit.

    >>> short("abcdef", 4)
    'abc…'
    """
    line = one_line(text[: 4 * limit + 200])
    return line if len(line) <= limit and len(text) <= 4 * limit + 200 else line[: limit - 1] + "…"


def isolated(text: str, limit: int = 40) -> str:
    """Return a short name for a figure; its writing direction does not affect the text around it."""
    name = short(text, limit)
    return name if name.isascii() else f"{_FIRST_STRONG_ISOLATE}{name}{_POP_ISOLATE}"


def unbroken(text: str) -> str:
    """Return a text in which a number or a bracket stays on one line with its sign before it and its unit.

    >>> unbroken("± 5–7 %") == "±\N{NO-BREAK SPACE}5\N{WORD JOINER}–\N{WORD JOINER}7\N{NO-BREAK SPACE}%"
    True
    """
    joined = text.replace("± ", "±\N{NO-BREAK SPACE}").replace(" %", "\N{NO-BREAK SPACE}%")
    return joined.replace("–", "\N{WORD JOINER}–\N{WORD JOINER}")


def wrapped(text: str, width: int, lines: int = 2) -> list[str]:
    r"""Return a name for a figure on several lines, cut at the end of the last one.

    >>> wrapped("by gender, marital status and health", 20)
    ['by gender, marital', 'status and health']
    >>> [len(line.strip("\u2068\u2069")) for line in wrapped("a" * 50, 20)]
    [20, 20]
    """
    parts = textwrap.wrap(short(text, 4 * width * lines), width) or [""]
    if len(parts) > lines:
        last = parts[lines - 1][: width - 1].rstrip()
        parts = [*parts[: lines - 1], f"{last}…"]
    return [isolated(line, width) for line in parts]


LINE_WIDTH = 100  # characters of a line in a comment or a notebook
LONGEST_TEXT = 1_000  # characters of a text that is shown in full beside others
_ALL_OF_THEM = 0.995  # a share that is printed as 100 %: that so many are found at most says nothing
NO_RECIPE = "no recipe of few numbers was found"


def said(before: str, value: object, after: str = "") -> str:
    """A part of a sentence about a value; nothing where there is none.

    >>> said("; ", 3, " are left"), said("; ", None, " are left")
    ('; 3 are left', '')
    """
    return "" if value is None else f"{before}{value}{after}"


def who(place: int, exposed: Exposed) -> str:
    """Name an exposed record or group: by its key if that is given, else by its place in the list."""
    name = exposed.record or exposed.label or f"no. {place}"
    if exposed.rows == 1:
        return name + said(", ", exposed.category)
    what = {None: "with", "row": "one of"}.get(exposed.feature, f"{exposed.feature} of")
    return f"{name}, {what} {exposed.rows:,} rows"


def once_each(exposed: Iterable[Exposed]) -> list[Exposed]:
    """The exposed, those in several categories once: with the one of which least is left."""
    first: dict[object, Exposed] = {}
    for place, one in enumerate(exposed):
        several = one.category is not None and one.rows == 1
        first.setdefault(("kind", one.signature) if several else place, one)
    return list(first.values())


def recipes_of(exposed: Exposed) -> list[Recipe]:
    """The recipes that single somebody out: a shorter one, and the best unbiased attack; or one, or none."""
    recipes = [one for one in (exposed.shortest, exposed.recipe) if one]
    return [one for one in recipes if one is exposed.recipe or len(one.steps) < len(recipes[-1].steps)]


def short_recipes(exposed: Exposed) -> list[Recipe]:
    """The shortest recipe, unless it has so many steps that the folded attack says more."""
    few = [one for one in recipes_of(exposed)[:1] if len(one.steps) <= NAMED]
    return few if exposed.attack else recipes_of(exposed)[:1]


def how(exposed: Exposed, unit: str = "record") -> str:
    """How somebody is seen: by a recipe, or by the best linear attack folded to its heaviest steps."""
    if exposed.local:
        return "seen near its true value (for the owner only)"
    if period := period_alone(exposed):
        return period
    for recipe in short_recipes(exposed):
        # The table has the error of the best attack; a shorter recipe may have a larger error.
        worse = exposed.rmse is not None and recipe.rmse > 1.005 * exposed.rmse
        return f"{recipe.text} (error {number(recipe.rmse)})" if worse else recipe.text
    sums = ""
    if (by_sums := exposed.left_by_sums) is not None:
        sums = sums_behind(by_sums, count(by_sums.people, "record" if exposed.rows > 1 else unit))
    if exposed.attack is None:
        return sums or NO_RECIPE
    seen = f"{seen_with(exposed.attack, unit)}{sums}{'; ' * bool(sums)}"
    return f"{seen}{carried(exposed.attack)}: {exposed.attack.text}"


def sums_behind(found: LeftBySums, people: str) -> str:
    """The difference of two sums of numbers that so few people add to, and to what that is known."""
    first, second = (f"all {many:,} of " if many > 1 else "" for many in found.numbers)
    less = f" minus {second}{found.subtracted}" if found.subtracted else ""
    means = " (each mean times its rows)" if found.means else ""
    known = f"± {number(found.stddev, 3)}"
    whose = f"this one alone ({known})" if found.people == 1 else f"the sum of {people} ({known})"
    return f"{first}{found.added}{less}{means} is {whose}"


def few_numbers(attack: LinearAttack) -> str:
    """The fewest numbers that carry 90 % of an attack, with what they carry, or its heaviest of many."""
    few = attack.few or attack.steps
    names = [f'"{step.release}{": " * bool(step.cell)}{step.cell}"' for step in few[:2]]
    if attack.numbers <= len(names):  # which carry all of it
        return " and ".join(names)
    rest = (attack.few_numbers or attack.numbers) - len(names)
    listed = f"{', '.join(names)} and {rest:,} more" if rest > 0 else " and ".join(names)
    return f"{listed} ({percent_at_least(attack.few_share)} of the attack)" if attack.few else listed


def without_ones(recipe: str) -> str:
    """A recipe in which a number is not said to be taken once.

    >>> without_ones('1 × "a" − 1 × "b" + 21 × "c"')
    '"a" − "b" + 21 × "c"'
    """
    return re.sub(r'(^|[−+] )1 × "', r'\1"', recipe)


def period_alone(exposed: Exposed) -> str:
    """The period of a record that one number, or the difference of two, gives; empty if there is none."""
    recipes = [(one.rows, one.recipe) for one in exposed.named if one.recipe]
    also = f", and so {count(len(recipes) - 1, 'other period')}" if len(recipes) > 1 else ""
    for rows, recipe in recipes:
        steps = "the difference of two numbers" if len(recipe.steps) > 1 else "one number"
        return (
            f"{without_ones(recipe.text)} is the sum of {count(rows, 'row')} of this one alone: {steps} "
            f"(error {number(recipe.rmse)}){also}"
        )
    return ""


def carried(attack: LinearAttack) -> str:
    """How much the steps of a folded attack carry."""
    verb = "carries" if len(attack.steps) == 1 else "carry"
    whole = "" if attack.target == "value" else " on the total of the rows"
    return (
        f"{len(attack.steps)} of {count(attack.numbers, 'number')} {verb} "
        f"{percent_at_least(attack.share)} of the best linear attack{whole}"
    )


def seen_with(attack: LinearAttack, unit: str) -> str:
    """Whom a record is seen with, as the start of a sentence; empty if nobody."""
    together = attack.together
    if together is None:
        return ""
    others = ", ".join(together.records) or count(together.others, f"other {unit}")
    return f"with {others}, their sum is known to ± {number(together.stddev, 3)}; "


def still_known(exposed: Exposed, result: AuditResult) -> str:
    """What the best attack knows of a record's value, as ± in the secret's own units."""
    left, view = exposed.remaining_uncertainty, result.sharpest
    if left is None or view is None or exposed.about is not None:
        return ""
    return after_words(view.before, left.stddev_lower * view.before, left.stddev_upper * view.before)


def remains(left: Uncertainty | None) -> str:
    """How much is left, as the end of a sentence; empty where it is not known."""
    return "" if left is None else f": {left} of the variance ({left.of_stddev} of ±) remains"


def still_unknown(exposed: Exposed, result: AuditResult) -> str:
    """How often a guess at a record's value is right, and how much is left, as the end of a sentence."""
    left, guess = remains(exposed.remaining_uncertainty), guessed(exposed, result)
    if not guess:
        return left
    often = "is not bounded" if guess == NOT_BOUNDED else f"is right {guess} of the time"
    before = percent(exposed.right_before or 0.0)
    return f": a guess {often}, {before} before{left.replace(': ', '; ', 1)}"


NOT_BOUNDED = "not bounded"  # in place of a bracket that leaves everything open


def says_nothing(lower: float, upper: float) -> bool:
    """Whether a bracket on shares of what was before leaves everything open.

    >>> says_nothing(0.0, 1.0), says_nothing(0.0, 0.01), says_nothing(0.9, 1.0)
    (True, False, False)
    """
    return lower < 1 - _ALL_OF_THEM and upper > _ALL_OF_THEM


def known_to(exposed: Exposed, result: AuditResult) -> str:
    """What is known of a record, in its own units: its value, the total of its rows, or how often a guess is
    right.
    """
    left = exposed.remaining_uncertainty
    if guess := guessed(exposed, result):
        return one_line(guess if exposed.about is None else f"whether {exposed.about}: right {guess}")
    if left is not None and says_nothing(left.lower, left.upper):
        return NOT_BOUNDED
    if (total := exposed.total) is not None:
        return f"total {after_words(total.before, total.after_lower, total.after_upper)}"
    if result.secret_kind.measured and exposed.about is None:
        return still_known(exposed, result)
    return one_line(said("", left, f" is left{said(' of whether ', exposed.about)}"))


def known_head(result: AuditResult) -> str:
    """Above what is known of the most exposed; of few values how often a guess is right."""
    before = next((one.right_before for one in result.exposed if one.right_before is not None), None)
    if result.secret_kind.measured:
        return "known to"
    return "what is left" if before is None else f"guessed right ({percent(before)} before)"


def guessed(exposed: Exposed, result: AuditResult) -> str:
    """How often a guess at a value that is one of few is right; nothing of a number, nor where it is not
    known.
    """
    before, after = exposed.right_before, exposed.right_after
    if before is None or after is None:
        return ""
    two_values = result.secret_kind.two_values or exposed.about is not None
    return guess_words(before, after, exposed.remaining_uncertainty if two_values else None)


def guess_words(before: float, after: float, left: Uncertainty | None) -> str:
    r"""How often a guess is right after the releases: at most, or from what an attack reaches.

    Where the bound is 100 %, so much is found by an attack that leaves the share ρ of the variance of a yes
    or no: whoever believes a yes with the chance q is wrong with min(q, 1 − q) ≤ 2 q (1 − q), on average
    2 ρ p (1 − p).

    >>> guess_words(0.5, 0.914, None), guess_words(0.5, 1.0, Uncertainty(lower=0.0, upper=0.02))
    ('at most 92 %', '99–100 %')
    """
    if percent_at_most(after) != "100 %":
        return f"at most {percent_at_most(after)}"
    reached = 0.0 if left is None else 1 - 2 * left.upper * before * (1 - before)
    ends = dict.fromkeys([percent_at_least(reached).removesuffix(" %"), "100"])
    return f"{'–'.join(ends)} %" if reached > before else NOT_BOUNDED


def after_words(before: float, lower: float, upper: float) -> str:
    """A bracket as ± in the secret's units, rounded outwards, but never wider than ``before`` is written.

    >>> after_words(577.35, 122.4, 146.1), after_words(577.35, 576.1, 577.32), after_words(1.154, 1.0, 1.154)
    ('± 122–147', '± 576–577', '± 1–1.15')
    """
    whole = float(f"{before:.2e}")
    low, high = number_ends(min(lower, whole), min(upper, whole))
    return f"± {low}" if low == high else f"± {low}–{high}"


def view_line(result: AuditResult) -> str:
    """What is known of the most exposed record before and after the releases, as a sentence."""
    view, shown = result.sharpest, before_after(result)
    if view is None:
        return ""
    secret, (before, after) = one_line(result.secret), shown.numbers
    record = records(1, result).removeprefix("1 ")
    whom = f"of the most exposed {record}"
    if shown.guess:
        asked = f"{secret} {whom}"
        if result.least_about is not None:
            asked = f"Whether {one_line(result.least_about)} holds {whom.replace('of', 'for', 1)}"
        others = _other_guesses(result, view)
        if after == NOT_BOUNDED:
            asked = asked[0].lower() + asked[1:] if result.least_about is not None else asked
            return f"How often a guess at {asked} is right has no bound; before {before}.{others}"
        return f"{asked} is guessed {after} of the time; before {before}.{others}"
    if (total := view.total) is None:
        if after == NOT_BOUNDED:
            return f"{secret} {whom} is known to an error without a lower bound; before {before}."
        of = "" if view.of == "value" else " (the best seen combination of its rows, in units of one row)"
        return f"{secret} {whom}{of} is known to {after}; before {before}."
    if after == NOT_BOUNDED:
        return _total_line(result, total, f"known to an error without a lower bound; before {before}")
    return _total_line(result, total, f"known to {after}; before {before}")


def _total_line(result: AuditResult, total: TotalView, known: str) -> str:
    """The total of the most exposed record's rows: which rows, how much it is, and to what it is known."""
    secret, record = one_line(result.secret), records(1, result).removeprefix("1 ")
    first, true = (result.exposed[0] if result.exposed else None), result.true_totals
    shown = first.total if first is not None else None
    rows = f"{total.rows:,} rows"
    if shown is not None and shown.span is not None:
        column, begin, end = (short(part, 24) for part in shown.span)
        rows += f" ({column} {begin} to {end})"
    whose = f"the most exposed {record}"
    amount = "is"
    if true is not None and true.record is not None and true.total is not None:
        whose, amount = f"{record} {short(true.record, 24)}", f"is {number(true.total, 5)} and is"
    spread = ""
    if true is not None:
        least, most = number(true.least, 4), number(true.most, 4)
        spread = (
            f" Totals of all {records(result.records, result)} range from {least} to {most}, with a standard "
            f"deviation of {number(true.spread, 3)} (for the owner only)."
        )
    lies = _where_a_level_may_lie(result, record)
    return f"The total {secret} of {whose} over {rows} {amount} {known}{lies}.{spread}"


def _other_guesses(result: AuditResult, view: SharpestView) -> str:
    """How many of all are guessed right, and how many by a guess that is rarely wrong; as sentences."""
    sentences = []
    if view.people_right_before is not None and view.people_beyond_chance is not None and result.records > 1:
        first, more = number(view.people_right_before, 3), number_at_most(view.people_beyond_chance)
        everyone = records(result.records, result)
        sentences.append(
            f" Of all {everyone}, {first} on average are guessed right before, and at most {more} more after."
        )
    if view.sure_after is not None and view.sure_after < _ALL_OF_THEM:
        sentences.append(
            " An attacker who speaks only when nearly sure (one false alarm in a thousand) finds at most "
            f"{percent_at_most(view.sure_after)} of those who have it."
        )
    return "".join(sentences)


def _where_a_level_may_lie(result: AuditResult, record: str) -> str:
    for low, high in (one.level for one in result.beliefs if one.level):
        return f" (a {record}'s mean row may be anything from {number(low, 6)} to {number(high, 6)})"
    return ""


def belief_line(result: AuditResult) -> str:
    """Under which belief about the rows of a record the limit fails, as a sentence; else nothing."""
    if not result.beliefs or all(one.holds is not False for one in result.beliefs):
        return ""
    rows = f"the rows of a {records(1, result).removeprefix('1 ')}"
    failing = [f"{_words_of(one)}{_left_under(one)}" for one in result.beliefs if one.holds is False]
    holding = [f"they {_words_of(one)}" for one in result.beliefs if one.holds]
    fails = " and if they ".join([f"{rows} {failing[0]}", *failing[1:]])
    return f"Fails if {fails}{'; holds if ' * bool(holding)}{' and if '.join(holding)}."


def _words_of(belief: BeliefReport) -> str:
    """What a belief says of the rows of a record, as a predicate."""
    words = {
        "level": "are alike",
        "apart": "have nothing in common",
        "block": f"are alike within each {one_line(belief.block or '')}",
    }
    return words[belief.name]


def _left_under(belief: BeliefReport) -> str:
    """What is left under a belief: of a total as ± of what it was before, or as a share."""
    if (total := belief.total) is not None:
        after = after_words(total.before, total.after_lower, total.after_upper)
        return f" (their total is then known to {after}, before to ± {number(total.before, 3)})"
    left = belief.least_remaining_uncertainty
    if left is not None and says_nothing(left.lower, left.upper):
        return f" (what is left is {NOT_BOUNDED})"
    return said(" (", left, " is left)")


def accuracy_words(release: ReleaseReport) -> str:
    """The noise of a release over the range of its numbers: at the median number, and at the worst."""
    noise = release.noise_of_range
    return "" if noise is None else _median_to_worst(noise.median, noise.worst)


def relative_error_words(accuracy: ReleaseAccuracy | None) -> str:
    """The relative errors of a release at the true values: at the median number, and at the worst."""
    if accuracy is None:
        return ""
    return _median_to_worst(accuracy.median_relative_error, accuracy.worst_relative_error)


def _median_to_worst(median: float, worst: float) -> str:
    """Two shares in percent; a relative error has no bound where the number is 0.

    >>> _median_to_worst(0.0036, 1.05), _median_to_worst(0.1, 0.1), _median_to_worst(0.02, math.inf)
    ('0.36–105 %', '10 %', '2–∞ %')
    """
    low, high = (percent(one) if math.isfinite(one) else "∞ %" for one in (median, worst))
    return low if low == high else f"{low.removesuffix(' %')}–{high}"


def noise_range(release: ReleaseReport) -> str:
    """Write the standard deviation of a release's noise, or a range if its numbers have different noise.

    Where the fit is published, that of the fit comes after it.
    """
    noise = ends_words(release.smallest_noise_stddev, release.largest_noise_stddev, digits=3)
    if release.largest_fit_stddev is None:
        return noise
    return f"{noise}; fit {ends_words(release.smallest_fit_stddev, release.largest_fit_stddev, digits=3)}"


def ends_words(*ends: float | None, digits: int = 4, between: str = "–") -> str:
    """A number, or a range if its ends are written differently; "none" without any.

    >>> ends_words(2.0, 2.0), ends_words(2.0, 3.5, between=" to "), ends_words(None)
    ('2', '2 to 3.5', 'none')
    """
    texts = [number(end, digits) for end in ends if end is not None]
    return between.join(dict.fromkeys(texts)) or "none"


def budget_words(budget: BudgetReport) -> str:
    """The budget in a few words: the epsilon of everything, where the plan's own is that of a part.

    Empty if the plan has no budget.
    """
    at_delta = f"at delta = {parameter(budget.delta)}"
    if budget.epsilon is None:
        return ""
    stated, whom = f"epsilon = {parameter(budget.epsilon)}", f"for {covered(everyone=budget.everyone)}"
    if budget.total_epsilon is None:
        return f"{stated} under {budget.accountant} {at_delta}, {whom}"
    outside = f"{count(budget.releases - budget.sharing, 'release')} outside it"
    finite = math.isfinite(budget.total_epsilon)
    epsilon = f"epsilon = {number_at_most(budget.total_epsilon, 4)}" if finite else "epsilon is infinite"
    total = f"{epsilon} in all under {budget.total_accountant}"
    return f"{total} {at_delta} (a budget of {stated}, and {outside}), {whom}"


def spent_by_accountant(budget: BudgetReport) -> dict[str, float]:
    """The epsilon of the noise by accountant, with the names that a plan uses."""
    return {accountant_of_cost(name): value for name, value in budget.spent.items()}


def unverified_line(one: Unverified) -> str:
    """An assumption that was not verified, whether the plan accepts it, and who may read that."""
    notes = [
        *(["accepted by the plan"] if one.accepted else []),
        *(["for the owner only"] if one.owner_only else []),
    ]
    return f"{one.name.value}: {one.reason}" + (f" ({'; '.join(notes)})" if notes else "")


def domain_words(result: AuditResult) -> str:
    """What the secret can be."""
    match result.secret_kind:
        case SecretKind.NUMBER:
            low, high = result.bounds
            return f"a number from {number(low, 6)} to {number(high, 6)}"
        case SecretKind.BOOLEAN:
            return "yes or no"
        case SecretKind.CATEGORY:
            return f"one of {result.category_count or 'several'} categories"


def independent_words(result: AuditResult) -> str:
    """How many of the published numbers are independent, after their number; nothing if nobody asked."""
    return "" if result.rank is None else f", {result.rank:,} of them linearly independent"


def status_words(status: VerdictStatus | None) -> str:
    """The verdict in a few words."""
    match status:
        case VerdictStatus.PASSED:
            return "The limit holds"
        case VerdictStatus.FAILED:
            return "Below the limit"
        case VerdictStatus.NOT_SHOWN:
            return "The limit is not shown to hold"
        case None:
            return "No limit was set"


def verdict_words(result: AuditResult) -> str:
    """The verdict of a result in a few words."""
    if _fails_by_counts(result):
        return "Values are certain" if result.certain else "Presence is told"
    if result.verdict.accepts_groups:
        return "Accepted, and not shown to be safe"
    return "A rule is broken" if _only_a_rule(result) else status_words(result.verdict.status)


def rules_of(result: AuditResult) -> RulesReport:
    """What was found of the rules; a plan without rules breaks none."""
    return result.rules or RulesReport(broken=(), in_all=0, checked="")


def _fails_by_counts(result: AuditResult) -> bool:
    """Whether a plan fails because counts tell a value, or who is there, and nobody is below the limit."""
    failing = {one.name for one in result.unverified} & {AssumptionName.CERTAIN, AssumptionName.PRESENCE}
    failed = result.verdict.status is VerdictStatus.FAILED and not result.verdict.below_limit
    return failed and bool(failing)


def _by_counts(result: AuditResult) -> str:
    """What published counts tell."""
    certain = result.certain
    if certain is None:
        return (
            "Whoever knows everyone else can tell from exact, rounded or blank counts that somebody is in "
            "the table."
        )
    whom, secret = records(certain.people, result), one_line(result.secret)
    if not certain.people:
        of = f"{certain.draws[0]} of {certain.draws[1]}"
        return f"In {of} simulated draws of the rounding, {secret} of somebody follows from the counts."
    ruled_out = (
        f" Of {records(certain.ruled_out, result)} more, a value is ruled out." if certain.ruled_out else ""
    )
    return f"{secret} of {whom} follows from the published counts: no other value fits them.{ruled_out}"


def _only_a_rule(result: AuditResult) -> bool:
    """Whether a rule of the plan is broken, and nobody is found below the limit."""
    return rules_of(result).in_all > 0 and not result.verdict.below_limit


def status_word(result: AuditResult) -> str:
    """The verdict as the terminal prints it."""
    if result.verdict.status is VerdictStatus.FAILED:
        return verdict_words(result).upper()
    if result.verdict.accepts_groups:
        return "ACCEPTED, NOT SHOWN"
    words = {None: "VERDICT", VerdictStatus.PASSED: "PASSED", VerdictStatus.NOT_SHOWN: "NOT SHOWN TO HOLD"}
    return words[result.verdict.status]


def secret_line(result: AuditResult) -> str:
    """One of several secrets, its verdict and what remains of it."""
    least, end = result.least_remaining_uncertainty, " remains of the most exposed record's uncertainty"
    remains = said("; ", least, end)
    return f"{one_line(result.secret)}: {verdict_words(result)}{remains}."


def limit_line(result: AuditResult) -> str:
    """Whether to publish, as a sentence: whether the limit holds, for how many, and what the limit is."""
    several = len(result.other_secrets) + 1
    return f"Of {several} secrets, {one_line(result.secret)} fares worst. " * (several > 1) + _line(result)


def _line(result: AuditResult) -> str:
    verdict, everyone = result.verdict, records(result.records, result)
    if 0 < verdict.judged < result.records:
        everyone = (
            f"{records(verdict.judged, result)} whose {one_line(result.secret)} is not known beforehand"
        )
    if _fails_by_counts(result):
        return f"Do not publish this yet. {_by_counts(result)}"
    if _only_a_rule(result):
        rules = rules_of(result)
        broken = count(rules.in_all, "combination of numbers breaks", "combinations of numbers break")
        limit = "" if verdict.limit is None else " Nobody is found below the limit."
        return f"Do not publish this yet. {broken} a rule ({one_line(rules.checked)}).{limit}"
    if verdict.limit is None:
        singled_out = f"{result.identifiable_records:,} of {everyone} can be told apart from everything else"
        short_of = sum(result.distribution.records[: len(result.distribution.records) // 2])
        return (
            f"No limit was set, so that nothing is judged. {singled_out}. With a limit of 50 %, "
            f"{records(short_of, result)} would be below it: --limit 50% judges that."
        )
    of_stddev = 100 * math.sqrt(verdict.limit)
    variance = f"variance ({number_ends(of_stddev, of_stddev)[0]} % of the ±)"
    share = (
        f"{percent_stated(verdict.limit)} of the {variance if result.secret_kind.measured else 'uncertainty'}"
    )
    asked = said(", or of whether ", result.least_about)
    if verdict.known_to is not None:
        return _closeness_line(result, everyone)
    if verdict.guessed_right is not None:
        return _guesses_line(result, everyone)
    share = one_line(f"{share} of {result.secret}{asked}")
    match verdict.status:
        case VerdictStatus.PASSED if not result.cells:
            return _passes(result, f"No number in it is made of {one_line(result.secret)}.")
        case VerdictStatus.PASSED if not verdict.judged and result.known_rows:
            return _passes(result, f"{one_line(result.secret)} of {everyone} is known beforehand.")
        case VerdictStatus.PASSED if verdict.guaranteed:
            return _passes(
                result,
                f"The noise alone guarantees that {_all_keep(everyone)} at least {share}, even from someone "
                "who knows everyone else.",
            )
        case VerdictStatus.PASSED:
            average = f", on average over {result.prior}" if result.prior else ""
            keep, rows = _all_keep(everyone), ""
            if result.beliefs:
                record = records(1, result).removeprefix("1 ")
                blocks = [f"one for each {one_line(one.block)}" for one in result.beliefs if one.block]
                levels = ", ".join(["one level", *sorted(blocks)]) + "," * bool(blocks)
                rows = f", whatever the rows of a {record} have in common: {levels} or nothing"
            return _passes(result, f"{keep[0].upper()}{keep[1:]} at least {share}{average}{rows}.")
        case VerdictStatus.FAILED:
            return (
                f"Do not publish this yet. {verdict.below_limit:,} of {everyone} may keep less than {share}."
            )
        case VerdictStatus.NOT_SHOWN | None:
            return f"Not yet. Nobody is found below {share}, but {_lacks(result)}."


def _passes(result: AuditResult, why: str) -> str:
    """What a plan that passes may do, and why; of one that accepts what is told of groups, who decides."""
    if not result.verdict.accepts_groups:
        return f"You can publish this. {why}"
    accepted = "the plan accepts what a number, or a missing line, tells of all its rows together"
    by = one_line(result.verdict.set_by)
    decides = f"Decided by {by}" if by else "A person has to decide this, and say so in [limits] set_by"
    return f"{decides}: {accepted}. Apart from that: {why}"


def _closeness_line(result: AuditResult, everyone: str) -> str:
    """Whether a limit on how closely a number is known holds."""
    verdict, secret = result.verdict, one_line(result.secret)
    closely = f"known more closely than to ± {number(verdict.known_to or 0.0, 6)}"
    match verdict.status:
        case VerdictStatus.PASSED:
            average = f", on average over {result.prior}" if result.prior else ""
            return _passes(result, f"Of {everyone}, the {secret} of none is {closely}{average}.")
        case VerdictStatus.FAILED:
            below = f"{verdict.below_limit:,} of {everyone}"
            return f"Do not publish this yet. {secret} of {below} may be {closely}."
        case VerdictStatus.NOT_SHOWN | None:
            return f"Not yet. Nobody is found whose {secret} is {closely}, but {_lacks(result)}."


def _guesses_line(result: AuditResult, everyone: str) -> str:
    """Whether a limit on how often a guess is right holds."""
    verdict, secret = result.verdict, one_line(result.secret)
    most = percent_stated(verdict.guessed_right or 1.0)
    match verdict.status:
        case VerdictStatus.PASSED:
            average = f", on average over {result.prior}" if result.prior else ""
            often = f"is right more than {most} of the time{average}"
            return _passes(result, f"No guess at {secret} of {everyone} {often}.")
        case VerdictStatus.FAILED:
            return (
                f"Do not publish this yet. For {verdict.below_limit:,} of {everyone} a guess at {secret} may "
                f"be right more than {most} of the time."
            )
        case VerdictStatus.NOT_SHOWN | None:
            often = f"for whom a guess at {secret} is right more than {most} of the time"
            return f"Not yet. Nobody is found {often}, but {_lacks(result)}."


def _lacks(result: AuditResult) -> str:
    """Why a plan that fails for nobody is no pass."""
    lacks = sum(not one.accepted for one in result.unverified)
    why = f"{count(lacks, 'thing was', 'things were')} not verified"
    return f"a pass is a proof, and {why if lacks else 'the reason is for the owner only'}"


def _all_keep(everyone: str) -> str:
    """All of so many records, with the verb.

    >>> _all_keep("1 home whose kwh is not known beforehand"), _all_keep("11 homes")
    ('the only home whose kwh is not known beforehand keeps', 'all 11 homes keep')
    """
    one = everyone.removeprefix("1 ")
    return f"all {everyone} keep" if one == everyone else f"the only {one} keeps"


# Columns that are named after those whose keys they hold, and their plurals.
_USUAL = """
account applicant author building car citizen client customer device donor driver dwelling employee employer
enterprise establishment farm firm guest home hospital house household meter member merchant owner parent
participant partner patient pupil resident respondent school shop site store student subscriber supplier
taxpayer teacher tenant traveller user vehicle vendor visitor voter worker
"""
_NOUNS = {
    **{name: f"{name}s" for name in _USUAL.split()},
    "branch": "branches",
    "business": "businesses",
    "child": "children",
    "company": "companies",
    "family": "families",
    "person": "people",
}


def records(how_many: int, result: AuditResult) -> str:
    """So many records, called by the name of their column where that is a usual noun."""
    name = noun(result.record)
    return count(how_many, name, _NOUNS.get(name, "records"))


def noun(record: str) -> str:
    """What one record is called: a key such as ``customer_id`` names what it is the key of.

    >>> noun("customer_id"), noun("id")
    ('customer', 'record')
    """
    name = record.lower().removesuffix("_id")
    return name if name in _NOUNS else "record"


def records_with_key(how_many: int, result: AuditResult) -> str:
    """The same; records are said to be those of their column."""
    words = records(how_many, result)
    return (
        f"{words} ({one_line(result.record)})" if "record" in words and result.record != "record" else words
    )


Span = tuple[float, float]


class BeforeAfter(NamedTuple):
    """What is known of the most exposed record before and after the releases: as texts, and as a picture.

    For a number the spans are intervals of one error on either side of the middle of the range, which stands
    for whatever the guess is. For a yes or no they are how often a guess is right.
    """

    numbers: tuple[str, str] = ("", "")  # before and after; of a record with several rows, of their total
    spans: tuple[Span, Span, Span] = ((0.0, 0.0),) * 3  # shares of the scale: before, after at most, at least
    ends: Span = (0.0, 1.0)  # of the scale: the secret's bounds; of a total, twice ± around the guess
    scale: tuple[str, str] = ("", "")  # its ends as texts
    guess: bool = False  # whether it is how often a guess is right


def _guessed(result: AuditResult, view: SharpestView) -> str:
    """How often a guess at the most exposed record's value is right after the releases."""
    before, after = view.right_before, view.right_after
    if before is None or after is None:
        return ""
    two_values = result.secret_kind.two_values or result.least_about is not None
    words = guess_words(before, after, result.least_remaining_uncertainty if two_values else None)
    return words if words == NOT_BOUNDED else f"right {words}"


def before_after(result: AuditResult) -> BeforeAfter:
    """What is known of the most exposed record; its texts are empty if nothing is."""
    view = result.sharpest
    if view is None:
        return BeforeAfter()
    before, after, guessed = view.right_before, view.right_after, _guessed(result, view)
    # Of a yes or no about a number nothing may be shown: the number itself is known to so much.
    silent = guessed == NOT_BOUNDED and result.secret_kind.measured and view.after_lower > 0
    if before is not None and after is not None and not silent:
        return BeforeAfter(
            numbers=(f"right {percent(before)}", guessed),
            spans=((0.0, before), (0.0, after), (0.0, before)),
            ends=(0.0, 1.0),
            scale=("0 %", "100 %"),
            guess=True,
        )
    known, ends = view.total or view, result.bounds
    scale = number(ends[0], 6), number(ends[1], 6)
    if view.total:
        ends, most = (-2 * known.before, 2 * known.before), number(2 * known.before, 3)
        scale = f"−{most}", f"+{most}"
    errors = known.before, min(known.after_upper, known.before), known.after_lower
    shares = [error / (ends[1] - ends[0]) for error in errors]
    first, second, third = ((max(0.0, 0.5 - one), min(1.0, 0.5 + one)) for one in shares)
    words = after_words(known.before, known.after_lower, known.after_upper)
    if says_nothing((known.after_lower / known.before) ** 2, (known.after_upper / known.before) ** 2):
        words = NOT_BOUNDED
    return BeforeAfter(
        numbers=(f"± {number(known.before, 3)}", words),
        spans=(first, second, third),
        ends=ends,
        scale=scale,
        guess=False,
    )
