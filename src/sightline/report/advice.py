"""What to change and how much noise is needed, in words: the facts of the room ``advising``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sightline.advising.noise_slack import LEAST_FACTOR, Slack
from sightline.advising.remedies import Do, Price, Regrouping, Then
from sightline.auditing.result import Change
from sightline.auditing.result_parts import Fact, NoiseSlack
from sightline.format import count, number, percent_at_most

_AGAIN = "Audit again before you use less: what the true values show was checked at today's noise only."
_DESIGN = '; the plan is too large to look for less here, "sightline design" does'
_NO_SLACK = "There is no slack: with less noise the limit is not shown to hold."


def slack_in_words(slack: NoiseSlack | None) -> NoiseSlack | None:
    """The slack with its text; none where there is none."""
    if slack is None or slack.fact is None:
        return slack
    unverified = "If what was not verified holds: " if slack.if_verified else ""
    return slack.model_copy(update={"text": f"{unverified}{words(slack.fact)}"})


def changes_in_words(changes: Iterable[Change]) -> tuple[Change, ...]:
    """What to change, each with its text: what to do, and then what the audit after it found."""
    return tuple(map(change_in_words, changes))


def change_in_words(change: Change) -> Change:
    """A change with its text."""
    if change.what is None:
        return change
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
    'On average over what values may be, it holds; 4.1 % of the noise would be enough'
    """
    if factor >= 1:
        return _NO_SLACK
    # With less noise the true values may show what it hides today: groups that are alike, or few values.
    up_to = "On average over what values may be, it holds"
    if epsilon is not None:
        up_to += f" up to epsilon = {number(epsilon, 3)}"
    if factor <= LEAST_FACTOR:
        return f"{up_to}, even with a hundred-thousandth of the noise: the groups protect everyone. {_AGAIN}"
    enough = percent_at_most(factor)  # so that the slack holds as it is printed
    return f"{up_to}; {enough} of the noise would be enough. {_AGAIN}" if enough != "100 %" else _NO_SLACK


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


def _variance(times: float, common: float | None = None) -> str:
    rival = "" if common is None else f"; a factor on all noise costs {number(common, 3)} times"
    return f"{number(times, 3)} times the variance on average{rival}"


def _blanks(counts: int, of: int, at_least: int) -> str:
    fewest = "no fewer are enough"
    if counts != at_least:
        fewest = f"no fewer than {at_least:,} are enough, and fewer than these may be"
    return f"{count(counts, 'count')} of {of:,}; {fewest}"


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
    Do.MULTIPLY_NOISE: _multiply,
    Do.GROUP_OTHERWISE: lambda grouping, releases, by: f"publish {releases} {grouping}, GROUP BY {by}",
    Do.DESIGNED_NOISE: _designed,
    Do.WITHHOLD: lambda names: f"Withhold {names}",
    Do.ROUND: _round,
    Regrouping.ONCE: lambda period: f"once a {period}",
    Regrouping.AS_ONE: lambda names, column: f"with {names} of {column} as one group",
    Regrouping.STEPS: lambda column, step: f"by {column} in steps of {step:,}",
    Regrouping.BY: lambda other, column: f"by {other}, which {column} decides",
    Then.NOBODY_BELOW: lambda before: f"then 0 records are below the limit instead of {before:,}",
    Then.EVERYONE_KEEPS: lambda limit: f"then everyone keeps at least {limit}",
    Then.NOBODY_CERTAIN: _nobody_certain,
    Price.FEWER: lambda fewer, of: f"{fewer:,} of {count(of, 'number')} fewer",
    Price.COARSER: lambda now, before: f"{count(now, 'number')} in place of {before:,}, of coarser groups",
    Price.ERRORS: lambda factor: f"the error of every number times {number(factor, 3)}",
    Price.VARIANCE: _variance,
    Price.BLANKS: _blanks,
    Price.WITHIN: lambda within: f"counts are known to within {within}",
}
