"""What to change and how much noise is needed, in words: the facts of the room ``advising``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from sightline.advising.accuracy import Error
from sightline.advising.noise_slack import LEAST_FACTOR, Slack
from sightline.advising.remedies import Do, Price, Regrouping, Then, WhyUntried
from sightline.auditing.result import AuditResult, Change
from sightline.auditing.result_parts import NAMED, Fact, NoiseSlack
from sightline.format import count, number, number_at_most, percent_at_most

_AGAIN = "Audit again before you use less: what the true values show was checked at today's noise only."
_DESIGN = '; the plan is too large to look for less here, "sightline design" does'
_AS_TODAY = "errors as today"
_NO_SLACK = "There is no slack: with less noise the limit is not shown to hold."


def slack_in_words(slack: NoiseSlack | None) -> NoiseSlack | None:
    """The slack with its text; none where there is none."""
    if slack is None or slack.fact is None:
        return slack
    text = words(slack.fact)
    if slack.if_verified:
        text = f"If what was not verified holds: {text[0].lower()}{text[1:]}"
    return slack.model_copy(update={"text": text})


def changes_in_words(changes: Iterable[Change]) -> tuple[Change, ...]:
    """What to change, each with its text: what to do, and then what the audit after it found."""
    return tuple(map(change_in_words, changes))


def change_in_words(change: Change) -> Change:
    """A change with its text."""
    if change.what is None:
        return change
    if change.why_untried is not None:
        untried = f"{words(change.what)} ({words(change.why_untried)})"
        return change.model_copy(update={"text": untried})
    then = "" if change.then is None else words(change.then)
    public = change.publishable_what
    return change.model_copy(
        update={
            "text": _with_effect(change.what, then) + _DESIGN * change.design_finds_less,
            "effect": then,
            "cost": "" if change.price is None else words(change.price),
            "publishable_text": None if public is None else _with_effect(public, then),
        }
    )


def _with_effect(what: Fact, then: str) -> str:
    text = words(what)
    if what.name in list(Slack):  # a whole sentence, that no noise is enough
        text = text[0].lower() + text[1:].rstrip(".")
    return f"{text}: {then}" if then else text


def words(fact: Fact) -> str:
    """A fact of the advice in words."""
    return WORDS[fact.name](*map(words, fact.parts), **fact.figures)


def holds(factor: float, epsilon: float | None = None) -> str:
    """How much less noise would do.

    >>> holds(0.041).partition(". ")[0]
    'On average over the possible values, it holds; 4.1 % of this noise would be enough'
    """
    if factor >= 1:
        return _NO_SLACK
    # With less noise the true values may show what it hides today: groups that are alike, or few values.
    up_to = "On average over the possible values, it holds"
    if epsilon is not None:
        up_to += f" up to epsilon = {number(epsilon, 3)}"
    if factor <= LEAST_FACTOR:
        return f"{up_to}, even with a hundred-thousandth of this noise: records hide each other. {_AGAIN}"
    enough = percent_at_most(factor)  # so that the slack holds as it is printed
    return f"{up_to}; {enough} of this noise would be enough. {_AGAIN}" if enough != "100 %" else _NO_SLACK


def needs(factor: float, epsilon: float | None = None) -> str:
    """How much more noise is needed."""
    return f"It needs {number(factor, 3)} times the noise on every number{_budget(epsilon)}."


def _budget(epsilon: float | None) -> str:
    return "" if epsilon is None else f", which is a budget of epsilon = {number(epsilon, 3)}"


def _without_noise(by_rule: bool, limit: str) -> str:
    how = "by a rule for counts" if by_rule else "exactly"
    return f"Some numbers are published {how}: give them noise before asking how much noise keeps {limit}."


def _multiply(factor: float, epsilon: float | None = None) -> str:
    return f"multiply all noise by {number(factor, 3)}{_budget(epsilon)}"


def _designed(numbers: int, of: int, raised_alone: bool) -> str:
    verb = "raise" if raised_alone else "change"
    return f'{verb} the noise of {numbers:,} of {of:,} numbers, as "sightline design" writes it'


def _round(base: int, today: int) -> str:
    how = f"in place of {today}" if today > 1 else "where counts are exact"
    return f"Round all counts to {base}, {how}"


def _nobody_certain(undecided: int, k: int) -> str:
    also = f", and k = {k} holds" if k > 1 else ""
    if not undecided:
        return f"then nobody is certain{also}"
    left = count(undecided, "person is", "people are")
    return f"then nobody is found to be certain{also}; {left} not decided"


def _designed_errors(*errors: str, times: float, common: float | None = None) -> str:
    rival = "" if common is None else f" ({number(math.sqrt(common), 3)} times by one factor on all noise)"
    on_average = f"errors {number(math.sqrt(times), 3)} times today's on average{rival}"
    return f"{on_average}: {_listed(errors)}" if errors else on_average


def _of_releases(errors: Sequence[str]) -> str:
    """The errors after a change, release by release."""
    return _AS_TODAY if list(errors) == [_AS_TODAY] else f"errors: {_listed(errors)}"


def _listed(errors: Sequence[str]) -> str:
    *first, last = errors
    return f"{', '.join(first)} and {last}" if first else last


def _error(  # many parameters: the figures of the fact
    release: str, least: float, most: float, least_today: float, most_today: float
) -> str:
    return f'"{release}" ± {_range(least, most)} (± {_range(least_today, most_today)} today)'


def _range(least: float, most: float) -> str:
    """Errors from the least to the most, each rounded up.

    >>> _range(0.2, 0.25), _range(3.0, 3.0)
    ('0.2–0.25', '3')
    """
    return "–".join(dict.fromkeys(number_at_most(one) for one in (least, most)))


def _errors(*errors: str, factor: float) -> str:
    return f"every error times {number(factor, 3)}: {errors[0]}"  # of all others the same factor says it


def _fewer(*errors: str, fewer: int, of: int) -> str:
    are = "is" if fewer == 1 else "are"
    return f"{fewer:,} of {count(of, 'number')} {are} not published; {_of_releases(errors)}"


def _coarser(*errors: str, now: int, before: int) -> str:
    if now < before:
        numbers = f"{count(before, 'number')} become {now:,}, which tell fewer groups apart"
    elif now == before:
        numbers = f"{count(now, 'number')} as today, of coarser groups"
    else:
        numbers = f"coarser groups, of which {count(now, 'number')} are published ({before:,} today)"
    return f"{numbers}; {_of_releases(errors)}"


def untried_or_not_enough(result: AuditResult) -> str:
    """What was audited and does not reach the limit, and what was not tried, as sentences; else nothing."""
    tried = [one.action for one in result.tried if one.why_untried is None]
    others = [one.text for one in result.tried if one.why_untried is not None]
    more = f"; and {len(tried) - NAMED} more" if len(tried) > NAMED else ""
    sentences = [f"Tried, and not enough: {'; '.join(tried[:NAMED])}{more}."] if tried else []
    return " ".join([*sentences, *([f"Not tried: {'; '.join(others)}."] if others else [])])


def _blanks(counts: int, of: int, at_least: int) -> str:
    fewest = "no fewer are enough"
    if counts != at_least:
        fewest = f"no fewer than {at_least:,} are enough, and fewer than these may be"
    are = "is" if counts == 1 else "are"
    return f"{counts:,} of {count(of, 'count')} {are} not published; {fewest}"


WORDS: dict[str, Callable[..., str]] = {
    Slack.HOLDS: holds,
    Slack.NEEDS: needs,
    Slack.BY_NOISE: lambda factor: (
        f"With {number(factor, 3)} times the noise on every number, the noise alone keeps it."
    ),
    Slack.NO_FACTOR: lambda limit: f"No amount of this noise is shown to keep {limit}: lower the limit.",
    Slack.WITHOUT_NOISE: _without_noise,
    Do.LEAVE_OUT: lambda number: f'do not publish "{number}"',
    Do.LEAVE_OUT_ANY: lambda: "leave out any one number or release",
    Do.GROUP_ANY: lambda: "publish larger groups, or less often",
    Do.MULTIPLY_NOISE: _multiply,
    Do.GROUP_OTHERWISE: lambda grouping, releases, by: (
        f"publish {releases} {grouping}{f', GROUP BY {by}' if by else ''}"
    ),
    Do.DESIGNED_NOISE: _designed,
    Do.WITHHOLD: lambda names: f"Withhold {names}",
    Do.ROUND: _round,
    Regrouping.ONCE: lambda period: f"once a {period}",
    Regrouping.AS_ONE: lambda names, column: f"with {names} of {column} as one group",
    Regrouping.SMALLEST: lambda groups, column: f"with the {groups} smallest groups of {column} as one",
    Regrouping.STEPS: lambda column, step: f"by {column} in steps of {step:,}",
    Regrouping.BY: lambda other, column: f"by {other}, which {column} decides",
    Then.NOBODY_BELOW: lambda before: f"then nobody is below the limit ({before:,} now)",
    Then.EVERYONE_KEEPS: lambda limit: f"then everyone keeps the limit of {limit}",
    Then.NOBODY_CERTAIN: _nobody_certain,
    WhyUntried.TOO_LARGE: lambda: "the plan is too large to be audited again and again",
    WhyUntried.TABLE_CLOSED: lambda: "an open audit has closed its table; audit(plan) tries them",
    WhyUntried.RULES: lambda: "the plan has rules",
    WhyUntried.NO_COARSER_KEY: lambda: (
        "nothing coarser to group by was found; [data] public may name columns"
    ),
    WhyUntried.REFUSED: lambda: "the plan with other groups could not be audited",
    WhyUntried.CATEGORIES: lambda: "tried only where the secret is a number, or a yes or no",
    WhyUntried.QUESTIONS: lambda: "the plan also publishes answers to yes-or-no questions",
    WhyUntried.EXACT: lambda: "some numbers have no noise",
    WhyUntried.ONLY_NOISE: lambda: "without a frame only the noise counts",
    Price.FEWER: _fewer,
    Price.COARSER: _coarser,
    Price.ERRORS: _errors,
    Price.VARIANCE: _designed_errors,
    Price.BLANKS: _blanks,
    Price.WITHIN: lambda within: f"every count is off by at most {within}",
    Error.OF_RELEASE: _error,
    Error.OF_OTHERS: lambda releases: f"{count(releases, 'more release')} likewise",
    Error.AS_TODAY: lambda: _AS_TODAY,
}
