"""The first screen of a report, in words and as a picture: the same in the terminal and on the page."""

from __future__ import annotations

import math

from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.format import count, number, number_bracket, percent, percent_at_most
from sightline.report.wording import one_line

_WIDTH = 50  # characters of a picture in the terminal


def status_words(result: AuditResult) -> str:
    """The verdict in a few words."""
    match result.verdict.status:
        case VerdictStatus.PASSED:
            return "The limit holds"
        case VerdictStatus.FAILED:
            return "Below the limit"
        case VerdictStatus.NOT_SHOWN:
            return "The limit is not shown to hold"
        case None:
            return "No limit was set"


def status_word(result: AuditResult) -> str:
    """The verdict as the terminal prints it."""
    match result.verdict.status:
        case VerdictStatus.PASSED:
            return "PASSED"
        case VerdictStatus.FAILED:
            return "BELOW THE LIMIT"
        case VerdictStatus.NOT_SHOWN:
            return "NOT SHOWN TO HOLD"
        case None:
            return "VERDICT"


def secret_line(result: AuditResult) -> str:
    """One of several secrets, its verdict and what remains of it."""
    least = result.least_remaining_uncertainty
    remains = "" if least is None else f"; {least} remains of the most exposed record's uncertainty"
    return f"{one_line(result.secret)}: {status_words(result)}{remains}."


def limit_line(result: AuditResult) -> str:
    """Whether the limit holds, with the limit as a share of the variance and of the standard deviation."""
    several = len(result.other_secrets) + 1
    return f"Of {several} secrets, {one_line(result.secret)} fares worst. " * (several > 1) + _line(result)


def _line(result: AuditResult) -> str:
    verdict = result.verdict
    if verdict.limit is None:
        told = count(result.identifiable_records, "record")
        return f"{told} of {result.records:,} can be told apart from everything else."
    stddev = percent(math.sqrt(verdict.limit))
    share = f"{_limit(verdict.limit)} of the variance ({stddev} of the standard deviation)"
    everyone = count(result.records, "record")
    match verdict.status:
        case VerdictStatus.PASSED:
            return f"On average over {result.prior}, all {everyone} keep at least {share}."
        case VerdictStatus.FAILED:
            below = count(verdict.below_limit, "record")
            return f"{below} of {result.records:,} may keep less than the limit of {share}."
        case _:
            open_ones = [one.name.value for one in result.unverified if not one.accepted]
            lacks = ", ".join(open_ones) or "the reason is for the owner only"
            return f"Nobody is found below {share}, but that everyone keeps it is not shown: {lacks}."


def _limit(share: float) -> str:
    return f"{100 * share:.4g} %"


def sharpest_numbers(result: AuditResult) -> tuple[str, str] | None:
    """What is known of the most exposed record before and after, as short texts; none if nothing is."""
    view = result.sharpest
    if view is None:
        return None
    if view.right_before is not None and view.right_after is not None:
        before, after = percent(view.right_before), percent_at_most(view.right_after)
        return f"right {before}", f"right at most {after}"
    return f"± {number(view.before, 3)}", f"± {number_bracket(view.after_lower, view.after_upper)}"


def spans(result: AuditResult) -> tuple[tuple[float, float], ...] | None:
    """What the picture shows, as shares of the range: before, after at most, after at least.

    For a number these are intervals of one error on either side of the middle of the range, which stands for
    whatever the guess is. For a yes or no they are how often a guess is right.
    """
    view = result.sharpest
    if view is None:
        return None
    if view.right_before is not None and view.right_after is not None:
        return (0.0, view.right_before), (0.0, view.right_after), (0.0, view.right_before)
    low, high = result.bounds
    width = high - low
    ends = (view.before / width, view.after_upper / width, view.after_lower / width)
    first, second, third = ((max(0.0, 0.5 - end), min(1.0, 0.5 + end)) for end in ends)
    return first, second, third


def picture(result: AuditResult) -> list[str]:
    """The picture in characters, for the terminal: a line each for before and after, and the scale."""
    shown, numbers = spans(result), sharpest_numbers(result)
    if shown is None or numbers is None:
        return []
    before, after, inner = shown
    low, high = ("0 %", "100 %") if result.kind != "number" else (number(one, 6) for one in result.bounds)
    return [
        f"before {_bar(before, before)} {numbers[0]}",
        f"after  {_bar(after, inner)} {numbers[1]}",
        f"       {low}{high:>{max(1, _WIDTH - len(low))}}",
    ]


def _bar(outer: tuple[float, float], inner: tuple[float, float]) -> str:
    """A line with a block: dark where nothing is closer, lighter up to the outer end."""
    cells = []
    for place in range(_WIDTH):
        middle = (place + 0.5) / _WIDTH
        near = 0.5 / _WIDTH
        dark = inner[0] - near < middle < inner[1] + near and inner[1] > inner[0]
        light = outer[0] - near < middle < outer[1] + near
        cells.append("█" if dark else "▒" if light else "─")
    return "".join(cells)
