"""Every fact of a result in every state that its sentence can have, for the page docs/sentences.md.

Figures are made up. A test compares the names with those that the rooms have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from sightline.advising.accuracy import Error
from sightline.advising.noise_slack import LEAST_FACTOR, Slack
from sightline.advising.remedies import Do, Price, Regrouping, Then, WhyUntried
from sightline.advising.what_if import NoWhatIf, Worst
from sightline.auditing.assumptions import Case
from sightline.auditing.budget import Proof
from sightline.auditing.declared_and_found import HowComputed, Odd
from sightline.auditing.homogeneous import Alike
from sightline.auditing.releases import LeftOut, Note
from sightline.auditing.rests_on import Basis
from sightline.auditing.result_parts import Fact, Figure, fact
from sightline.auditing.rules import Broken
from sightline.auditing.secret_prior import Expected
from sightline.auditing.small_counts import Few
from sightline.auditing.verdict import Said, View
from sightline.privacy.law import Law
from sightline.report import advice, basis, beliefs, judgement, told, what_if

States = Iterator[tuple[str, str]]

EVEN = fact(Expected.VALUES, low=0.0, high=40.0, spread="even", source="uniform")
NEEDED = fact(Case.NO_ROW, count=1, assumption="empty")
TIMES = fact(Case.ALIKE, count=3, rows=30, assumption="homogeneous")

EXPECTED = [
    EVEN,
    *(
        fact(Expected.VALUES, low=0.0, high=40.0, spread=spread, source="homes.csv")
        for spread in beliefs.SPREADS
        if spread != "even"
    ),
    fact(Expected.LEVELS, low=0.0, high=4.0, spread="even", source="uniform"),
    fact(Expected.NEAR, within=2.5, spread="even", source="uniform"),
    fact(Expected.YES_OR_NO, yes=0.5),
    fact(Expected.YES_OR_NO, yes=0.03),
    fact(Expected.CATEGORIES),
]

SAID = [
    fact(Said.GUARANTEED, kept=0.537),
    fact(Said.NO_ROW),
    fact(Said.NOTHING_DEPENDS, some_known=False),
    fact(Said.NOTHING_DEPENDS, some_known=True),
    fact(Said.TOLD_APART, records=1, of=90),
    fact(Said.TOLD_APART, records=3, of=90),
    fact(Said.NOBODY_TOLD_APART, of=90),
    *(
        fact(Said.SHARPEST, feature=feature, rows=24, error=1.25, secret="kwh", of_range=3.1)
        for feature in ("", "row", "total", "combination")
    ),
    fact(Said.SHARPEST, feature="", rows=1, error=0.25, secret="ill"),
    fact(Said.GROUPS, groups=1, of_rows=False),
    fact(Said.GROUPS, groups=3, of_rows=True),
    fact(Said.LEFT, EVEN, lower=0.53, upper=0.57, some_known=False),
    fact(Said.LEFT, EVEN, lower=0.53, upper=0.57, some_known=True),
    fact(Said.LEFT_OF_QUESTION, question="kwh > 12", questions=1, lower=0.5, upper=0.6, told_apart=0),
    fact(Said.LEFT_OF_QUESTION, question="kwh > 12", questions=3, lower=0.5, upper=0.6, told_apart=1),
    fact(Said.SEEN_LOCALLY, values=1, of=90, as_a_set=False, error=0.2, secret="kwh"),
    fact(Said.SEEN_LOCALLY, values=3, of=90, as_a_set=True, error=0.2, secret="kwh"),
    fact(Said.NOBODY_LOCALLY),
    fact(Said.LOCAL_WITHHELD),
    fact(Said.LOCAL_NOT_COMPUTED),
    fact(Said.BELOW, records=1, limit="50 %"),
    fact(Said.BELOW, records=7, limit="50 %"),
    *(
        fact(Said.ATTACKED, attacked=attacked, below=below)
        for attacked, below in ((1, 1), (3, 3), (0, 1), (0, 3), (2, 3), (1, 3))
    ),
    fact(Said.ALSO_OPEN, NEEDED, TIMES),
    fact(Said.KEPT_BY_NOISE, limit="50 %"),
    fact(Said.KEPT, limit="50 %"),
    fact(Said.KEPT_ON_AVERAGE, limit="50 %"),
    fact(Said.NOT_SHOWN, NEEDED, TIMES, limit="50 %"),
    fact(Said.NOT_SHOWN, limit="50 %"),
    fact(Said.MAY_ACCEPT, names='"empty", "homogeneous"'),
    fact(Said.ACCEPTED, NEEDED),
    fact(Said.TOLD, reason="2 of 9 people are new to the ledger: is that so?"),
    fact(Said.RULES, broken=1),
    fact(Said.RULES, broken=3),
]

_NUMBER: dict[str, Figure] = {"secret": "kwh", "record": "home", "before": 11.5, "lower": 3.0, "upper": 4.0}
_GUESS: dict[str, Figure] = {"secret": "ill", "record": "person", "before": 0.83, "after": 0.92}
VIEWS = [
    fact(View.NUMBER, EVEN, of_level=False, of_rows=False, **_NUMBER),
    fact(View.NUMBER, EVEN, of_level=True, of_rows=False, **_NUMBER),
    fact(View.NUMBER, EVEN, of_level=False, of_rows=True, **_NUMBER),
    fact(View.GUESS, EXPECTED[-2], question="", yes_or_no=True, **_GUESS),
    fact(View.GUESS, EXPECTED[-1], question="", yes_or_no=False, **_GUESS),
    fact(View.GUESS, EXPECTED[-2], question="kwh > 12", yes_or_no=True, **_GUESS),
    fact(View.ALL_OTHERS_KNOWN, kept=0.31, some_known=False),
    fact(View.ALL_OTHERS_KNOWN, kept=0.31, some_known=True),
]

_AFTER: dict[str, Figure] = {"release": "a", "noise_on": "SUM(kwh)", "steps": "SUM(kwh) / 4"}
RESTS_ON = [
    fact(Basis.EVERYBODY_ELSE_KNOWN),
    fact(Basis.NO_FRAME),
    fact(Basis.BENCHMARK),
    fact(Basis.GROUPS_KNOWN),
    fact(Basis.AVERAGE, EVEN),
    fact(Basis.GROUP_KNOWLEDGE),
    fact(Basis.SEVERAL_ROWS, most=24, belief="apart", by_category=False),
    fact(Basis.SEVERAL_ROWS, most=24, belief="apart", by_category=True),
    fact(Basis.SEVERAL_ROWS, most=24, belief="one value"),
    fact(Basis.SEVERAL_ROWS, most=24, belief="level", beliefs=2),
    fact(Basis.SEVERAL_ROWS, most=24, belief="block", block="month", beliefs=3),
    fact(Basis.SENSITIVITY_DECLARED, rows=24),
    fact(Basis.SENSITIVITY_OF_TABLE),
    fact(Basis.SENSITIVITY_BOUNDED, release="a", declared=True),
    fact(Basis.SENSITIVITY_BOUNDED, release="a", declared=False),
    fact(Basis.UNEVEN_ROWS, least=1, most=24, fewer=1, of=90),
    fact(Basis.UNEVEN_ROWS, least=1, most=24, fewer=3, of=90),
    fact(Basis.REPEATED, times=1, column="hour"),
    fact(Basis.REPEATED, times=3, column="hour"),
    fact(Basis.TAKEN_AS_PUBLIC, columns="feeder, hour", secret="kwh"),
    fact(Basis.TAKEN_AS_PUBLIC, columns="feeder, hour", secret=""),
    fact(Basis.ROWS_MADE),
    fact(Basis.SHARE_OF_BOUNDS),
    fact(Basis.ERROR_LIMIT, EVEN, known_to=2.5, secret="kwh"),
    fact(Basis.KNOWN_SHARE, share=0.2),
    fact(Basis.KNOWN_WITHIN, within=2.5),
    fact(Basis.FEW_VALUES),
    *(fact(Basis.LAW, law=law.value) for law in Law if basis.OF_LAWS[law]),
    fact(Basis.COPIES),
    fact(HowComputed.AFTER_THE_NOISE, enlarges=False, limited=False, **_AFTER),
    fact(HowComputed.AFTER_THE_NOISE, enlarges=True, limited=True, factor=0.25, **_AFTER),
    fact(Basis.WEIGHTS),
    fact(Basis.QUESTIONS, secret="kwh"),
    fact(Basis.MOMENTS),
    fact(LeftOut.STREAMED, signatures=2_000_000),
    fact(
        LeftOut.TOO_MANY_NUMBERS,
        fact(LeftOut.NEWLY_EXPOSED),
        fact(LeftOut.STAGES, shown=1),
        fact(LeftOut.ACCOUNTANTS),
        numbers=12_000,
        kinds=90,
    ),
    fact(
        LeftOut.TOO_MANY_NUMBERS,
        fact(LeftOut.STAGES, shown=3),
        fact(LeftOut.WITHOUT_A_RELEASE),
        fact(LeftOut.COMBINATIONS, records=12),
        numbers=12_000,
        kinds=90,
    ),
]

LOOKS_ODD = [
    fact(Odd.MADE_OF_SECRET, column="copy_of_x: equal in all rows", secret="kwh"),
    fact(Odd.REPEATS, record="home", column="owner"),
    fact(Odd.UNUSED, categories=1),
    fact(Odd.UNUSED, categories=3),
    fact(Odd.BOUNDS_WIDE, filled=0.12),
    fact(Odd.STRANGE_VALUES, rows=1, population="homes.csv"),
    fact(Odd.STRANGE_VALUES, rows=3, population="homes.csv"),
]

_FEW: dict[str, Figure] = {"people": 60, "k": 5, "some_draw": False}
TOLD = [
    fact(Alike.ONE_NUMBER, number="counts: isle"),
    fact(Alike.TWO_NUMBERS, first="counts: isle", second="squares: isle"),
    fact(Alike.DIFFERENCE, first="counts: all", second="counts: isle"),
    fact(Alike.GROUPS_OF_RELEASE, groups=0, release="counts"),
    fact(Alike.GROUPS_OF_RELEASE, groups=3, release="counts"),
    fact(Alike.SEVERAL_NUMBERS, numbers=7, first="counts: isle", second="counts: west"),
    fact(Alike.RECIPE),
    fact(Alike.COUNTS, names='"counts: isle"', combinations=1),
    fact(Alike.COUNTS, names='"counts: isle" and "counts: west"', combinations=2),
    fact(Alike.NEARLY_ALL_ALIKE),
    fact(Alike.NEAR_AN_END),
    fact(Alike.NEARLY_CERTAIN),
    fact(Alike.COUNTED, least=30, most=30),
    fact(Alike.COUNTED, least=28, most=30),
    fact(Alike.LEFT_FOR, least=28, most=30, answers="flu or rash"),
    fact(Few.COUNTED, least=2, most=2, **_FEW),
    fact(Few.COUNTED, least=1, most=3, **(_FEW | {"some_draw": True})),
    fact(Few.NOT_COUNTED, least=1, most=3, **_FEW),
    fact(Few.LEFT_FOR, least=1, most=3, answers="flu or rash", **_FEW),
    fact(Few.NOBODY_COUNTED, **_FEW),
    fact(Few.ALL_COUNTED, **_FEW),
    fact(Broken.FEWER_BEHIND, people=1, k=5),
    fact(Broken.FEWER_BEHIND, people=3, k=5),
    fact(Broken.DOMINANCE, largest=1, share=0.8),
    fact(Broken.DOMINANCE, largest=2, share=0.8),
    fact(Broken.SECOND_KNOWS, share=0.1),
    *(
        fact(Broken.SCOPE, rules="k = 5", numbers=numbers, totals=more, eliminated=more, counts_left_out=out)
        for numbers, more, out in ((1, False, False), (2, True, False), (3, True, True))
    ),
    fact(Note.NO_SECRET),
    fact(Note.NO_ROW),
    fact(Note.QUESTION),
    fact(Note.NOT_LINEAR),
    fact(Note.DERIVED),
    fact(Proof.THEOREM, note="basic composition"),
    fact(Proof.OUTSIDE_THE_BUDGET),
    fact(Proof.NO_BUDGET),
    fact(Proof.NO_SHARE),
    fact(Proof.NO_SHARE_KEPT),
    fact(Proof.NO_SHARE_EXCEEDED),
    fact(Proof.EXACT, releases=1),
    fact(Proof.EXACT, releases=3),
]

REGROUPED = [
    fact(Do.GROUP_OTHERWISE, grouping, releases='"counts"', by="")
    for grouping in (
        fact(Regrouping.ONCE, period="week"),
        fact(Regrouping.AS_ONE, names="isle and west", column="area"),
        fact(Regrouping.SMALLEST, groups=2, column="area"),
        fact(Regrouping.STEPS, column="age", step=10),
        fact(Regrouping.BY, other="region", column="area"),
    )
]
BY_AREA, BY_AGE = (
    fact(Error.OF_RELEASE, release=release, least=250.0, most=most, least_today=200.0, most_today=today)
    for release, most, today in (("by area", 250.0, 200.0), ("by age", 291.0, 233.0))
)
ADVICE = [
    fact(Slack.HOLDS, factor=0.041),
    fact(Slack.HOLDS, factor=0.041, epsilon=49.0),
    fact(Slack.HOLDS, factor=LEAST_FACTOR),
    fact(Slack.HOLDS, factor=1.0),
    fact(Slack.NEEDS, factor=1.25),
    fact(Slack.NEEDS, factor=1.25, epsilon=3.2),
    fact(Slack.BY_NOISE, factor=1.25),
    fact(Slack.NO_FACTOR, limit="50 %"),
    fact(Slack.WITHOUT_NOISE, by_rule=False, limit="50 %"),
    fact(Slack.WITHOUT_NOISE, by_rule=True, limit="50 %"),
    fact(Do.LEAVE_OUT, number="counts: isle"),
    fact(Do.LEAVE_OUT_ANY),
    fact(Do.MULTIPLY_NOISE, factor=1.25),
    fact(Do.MULTIPLY_NOISE, factor=1.25, epsilon=3.2),
    *(one.model_copy(update={"figures": {**one.figures, "by": "…"}}) for one in REGROUPED),
    fact(Do.GROUP_ANY),
    *map(fact, WhyUntried),
    fact(Do.DESIGNED_NOISE, numbers=3, of=40, raised_alone=True),
    fact(Do.DESIGNED_NOISE, numbers=3, of=40, raised_alone=False),
    fact(Do.WITHHOLD, names='"counts: isle", "counts: west"'),
    fact(Do.ROUND, base=5, today=1),
    fact(Do.ROUND, base=10, today=5),
    fact(Then.NOBODY_BELOW, before=7),
    fact(Then.EVERYONE_KEEPS, limit="50 %"),
    fact(Then.NOBODY_CERTAIN, undecided=0, k=1),
    fact(Then.NOBODY_CERTAIN, undecided=0, k=5),
    fact(Then.NOBODY_CERTAIN, undecided=1, k=5),
    fact(Then.NOBODY_CERTAIN, undecided=3, k=5),
    fact(Price.FEWER, fact(Error.AS_TODAY), fewer=1, of=40),
    fact(Price.FEWER, BY_AREA, fewer=3, of=40),
    fact(Price.COARSER, BY_AREA, now=34, before=38),
    fact(Price.COARSER, fact(Error.AS_TODAY), now=40, before=38),
    fact(Price.COARSER, fact(Error.AS_TODAY), now=38, before=38),
    fact(Price.ERRORS, BY_AREA, BY_AGE, fact(Error.OF_OTHERS, releases=3), factor=1.25),
    fact(Price.VARIANCE, times=1.44),
    fact(Price.VARIANCE, BY_AREA, BY_AGE, times=1.44, common=4.0),
    fact(Price.BLANKS, counts=1, of=40, at_least=1),
    fact(Price.BLANKS, counts=3, of=40, at_least=2),
    fact(Price.WITHIN, within=5),
]

WHAT_IF = [
    fact(NoWhatIf.NOTHING_DEPENDS, some_known=False),
    fact(NoWhatIf.NOTHING_DEPENDS, some_known=True),
    fact(NoWhatIf.TOO_LARGE, most=2000),
    fact(NoWhatIf.TOO_MANY_ROWS, most=2000),
    fact(NoWhatIf.SHARED_NOISE),
    fact(NoWhatIf.FIT),
    fact(NoWhatIf.NO_NOISE),
    fact(NoWhatIf.OWN_BUDGETS),
    fact(NoWhatIf.STREAMED),
    fact(Worst.NOBODY),
    fact(Worst.RECORD),
    fact(Worst.RECORD, category="flu"),
    fact(Worst.OF_QUESTION, question="kwh > 12"),
    fact(Worst.NAMED, key="H007", category=""),
    fact(Worst.ALIKE, people=12, category="flu"),
]


def _states(facts: list[Fact], words: Callable[[Fact], str]) -> Callable[[], States]:
    return lambda: ((one.name, words(one)) for one in facts)


def _basis(one: Fact) -> str:
    (line,) = basis.sentences([one])
    return line


SECTIONS: dict[str, Callable[[], States]] = {
    "What an attacker expects beforehand": _states(EXPECTED, beliefs.expected),
    "The verdict in full": _states(SAID, judgement.said),
    "What an attacker knows, in full": _states(VIEWS, judgement.said_of_view),
    "What this rests on": _states(RESTS_ON, _basis),
    "What looks odd": _states(LOOKS_ODD, _basis),
    "Groups, rules, releases and the budget": _states(TOLD, told.words),
    "Advice in full": _states(ADVICE, advice.words),
    "Other settings": _states(WHAT_IF, what_if.words),
}


def every_name(facts: list[Fact]) -> set[str]:
    """The names of facts, and of those that their sentences hold."""
    return {one.name for one in facts} | {name for one in facts for name in every_name(list(one.parts))}


# Which facts a section of the page has to have.
NAMES: dict[str, tuple[list[Fact], tuple[type[StrEnum], ...]]] = {
    "What an attacker expects beforehand": (EXPECTED, (Expected,)),
    "The verdict in full": (SAID, (Said,)),
    "What an attacker knows, in full": (VIEWS, (View,)),
    "What this rests on": (RESTS_ON, (Basis, HowComputed, LeftOut)),
    "What looks odd": (LOOKS_ODD, (Odd,)),
    "Groups, rules, releases and the budget": (TOLD, (Alike, Few, Broken, Note, Proof)),
    "Advice in full": (ADVICE, (Slack, Do, Regrouping, Then, WhyUntried, Price, Error)),
    "Other settings": (WHAT_IF, (NoWhatIf, Worst)),
}
