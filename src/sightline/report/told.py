"""What numbers tell of groups and of few people, and what releases and the budget are, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sightline.auditing.budget import Proof
from sightline.auditing.homogeneous import Alike
from sightline.auditing.releases import Note
from sightline.auditing.result import BudgetReport, HomogeneousCell, ReleaseReport
from sightline.auditing.result_parts import BrokenRule, Fact, RulesReport
from sightline.auditing.rules import Broken
from sightline.auditing.small_counts import Few
from sightline.format import count, number, percent_stated


def words(fact: Fact) -> str:
    """A fact in words."""
    return WORDS[fact.name](**fact.figures)


def cells_in_words(cells: Iterable[HomogeneousCell]) -> tuple[HomogeneousCell, ...]:
    """Numbers that tell the values of their rows, each with its text."""
    return tuple(cell.model_copy(update={"text": _told(cell)}) for cell in cells)


def _told(cell: HomogeneousCell) -> str:
    left = f"at most {number(100 * cell.remaining, 2)} % of their uncertainty is left"
    return f"{told_in_short(cell)}; {left}"


def told_in_short(cell: HomogeneousCell) -> str:
    """Which numbers tell the values of how many rows, and why; an older result has the text alone."""
    if cell.which is None or cell.why is None:
        return cell.text
    several = cell.which.figures.get("combinations", 2 if cell.which.name in _SEVERAL else 1)
    tells = "tell" if several != 1 else "tells"
    return f"{words(cell.which)} {tells} the values of {count(cell.rows, 'row')}: {words(cell.why)}"


_SEVERAL = {Alike.TWO_NUMBERS, Alike.GROUPS_OF_RELEASE, Alike.SEVERAL_NUMBERS}


def rules_in_words(rules: RulesReport) -> RulesReport:
    """The rules with what was looked at, and every broken one with its text."""
    broken = tuple(_broken(one) for one in rules.broken)
    checked = "" if rules.scope is None else words(rules.scope)
    return rules.model_copy(update={"broken": broken, "checked": checked})


def _broken(one: BrokenRule) -> BrokenRule:
    why = "" if one.why is None else words(one.why)
    public = one.publishable_combination
    return one.model_copy(
        update={
            "text": f"{one.rule}: {one.combination}: {why}",
            "publishable_text": None if public is None else f"{one.rule}: {public}: {why}",
        }
    )


def budget_in_words(budget: BudgetReport) -> BudgetReport:
    """The budget with why the noise is proven to keep to it, or not."""
    return budget.model_copy(update={"note": "; ".join(map(words, budget.facts))})


def releases_in_words(reports: Iterable[ReleaseReport]) -> tuple[ReleaseReport, ...]:
    """The releases, each with why nobody is counted for it."""
    return tuple(
        one if one.fact is None else one.model_copy(update={"note": words(one.fact)}) for one in reports
    )


def _groups(groups: int, release: str) -> str:
    return f'{f"{groups:,}" if groups else "all"} groups of "{release}" together'


def _several(numbers: int, first: str, second: str) -> str:
    return f'{numbers:,} numbers together, such as "{first}" and "{second}",'


def _counts(names: str, combinations: int) -> str:
    return f"{names} together" if combinations == 2 else names


def _ends(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _fewer(how: str) -> Callable[..., str]:
    """How many of how many people are told of, fewer than k."""

    def reason(  # many parameters: the figures of the fact
        least: int, most: int, people: int, k: int, some_draw: bool, answers: str = ""
    ) -> str:
        left = f" {answers}" if answers else ""
        draw = ", after some draw" if some_draw else ""
        return f"{_ends(least, most)} of {people:,} people are {how}{left}, fewer than {k}{draw}"

    return reason


def _all_told(whom: str) -> Callable[..., str]:
    """That nobody, or everybody, is counted."""

    def reason(people: int, k: int, some_draw: bool) -> str:
        del k  # whatever it is
        of, draw = count(people, "person", "people"), ", after some draw" if some_draw else ""
        return f"{whom} of {of} is counted, which tells the value of each{draw}"

    return reason


def _fewer_behind(people: int, k: int) -> str:
    return f"{count(people, 'person is', 'people are')} behind it, fewer than {k}"


def _dominance(largest: int, share: float) -> str:
    who = "the largest is" if largest == 1 else f"the {largest} largest are"
    return f"{who} more than {percent_stated(share)} of it"


_TOGETHER = (
    "every number (too many for differences)",
    "every number, differences of two numbers",
    "every number, differences of up to three numbers",
)


def _scope(rules: str, numbers: int, totals: bool, eliminated: bool, counts_left_out: bool) -> str:
    """Which combinations the rules were tried on."""
    # What is left where several may be 0 is looked at with totals.
    of_totals = ", counts of a total less all others of a release" if totals else ""
    more = ", and what elimination singles out" if eliminated else "; too many for elimination"
    not_counted = (
        "; how many people counts of the secret count is not looked at: that needs one row a record, or one "
        "in each number and values = 'independent', nobody whom the attacker knows, and a table in memory"
    )
    left_out = not_counted if counts_left_out else ""
    return f"{rules}: for {_TOGETHER[numbers - 1]}{of_totals}{more}{left_out}"


def _exact(releases: int) -> str:
    are = "release is" if releases == 1 else "releases are"
    return f"{releases} {are} published exactly: no budget covers that, epsilon is infinite"


_NO_SHARE = "no release takes a share of the budget"

WORDS: dict[str, Callable[..., str]] = {
    Alike.ONE_NUMBER: lambda number: f'"{number}"',
    Alike.TWO_NUMBERS: lambda first, second: f'"{first}" and "{second}" together',
    Alike.DIFFERENCE: lambda first, second: f'"{first}" less "{second}"',
    Alike.GROUPS_OF_RELEASE: _groups,
    Alike.SEVERAL_NUMBERS: _several,
    Alike.RECIPE: lambda: "the best recipe for rows that nothing tells apart",
    Alike.COUNTS: _counts,
    Alike.NEARLY_ALL_ALIKE: lambda: "they are nearly all alike",
    Alike.NEAR_AN_END: lambda: "each is near one end of the bounds",
    Alike.NEARLY_CERTAIN: lambda: "each is nearly certain",
    Alike.COUNTED: lambda least, most: f"{_ends(least, most)} of them are counted",
    Alike.LEFT_FOR: lambda answers, least, most: f"{_ends(least, most)} of them are left for {answers}",
    Few.COUNTED: _fewer("counted"),
    Few.NOT_COUNTED: _fewer("not counted"),
    Few.LEFT_FOR: _fewer("left for"),
    Few.NOBODY_COUNTED: _all_told("nobody"),
    Few.ALL_COUNTED: _all_told("everybody"),
    Broken.FEWER_BEHIND: _fewer_behind,
    Broken.DOMINANCE: _dominance,
    Broken.SECOND_KNOWS: lambda share: (
        f"the second largest knows the largest to within {percent_stated(share)}"
    ),
    Broken.SCOPE: _scope,
    Note.NO_SECRET: lambda: "depends on no secret: costs nothing and reveals nothing",
    Note.NO_ROW: lambda: "no row meets its condition",
    Note.QUESTION: lambda: "a yes or no about the secret: audited as a secret of its own",
    Note.NOT_LINEAR: lambda: "not linear in the secret: seen locally, at the operating point",
    Note.DERIVED: lambda: (
        "computed from the fit to the other releases: costs nothing and reveals no more than they do"
    ),
    Proof.THEOREM: lambda note: note,
    Proof.OUTSIDE_THE_BUDGET: lambda: "releases with a noise of their own are outside the budget",
    Proof.NO_BUDGET: lambda: "no budget was given: the noise was chosen elsewhere",
    Proof.NO_SHARE: lambda: _NO_SHARE,
    Proof.NO_SHARE_KEPT: lambda: f"{_NO_SHARE}: the noise was chosen elsewhere, and keeps to the budget",
    Proof.NO_SHARE_EXCEEDED: lambda: (
        f"{_NO_SHARE}: the noise was chosen elsewhere, and costs more than the budget"
    ),
    Proof.EXACT: _exact,
}
