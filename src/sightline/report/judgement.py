"""The verdict and the sharpest view in sentences: each fact of :mod:`sightline.auditing.verdict` in words."""

from __future__ import annotations

from collections.abc import Callable

from sightline.auditing.result import Verdict
from sightline.auditing.result_parts import Fact, SharpestView, Uncertainty
from sightline.auditing.verdict import Said, View
from sightline.format import count, number, number_ends, percent, percent_at_least, percent_at_most
from sightline.report.beliefs import expected
from sightline.report.reasons import reason_of
from sightline.report.wording import noun


def in_words(verdict: Verdict) -> Verdict:
    """The verdict with its text."""
    return verdict.model_copy(update={"text": " ".join(map(said, verdict.facts))})


def view_in_words(view: SharpestView | None) -> SharpestView | None:
    """The view with its text; none where nothing shows a value."""
    if view is None:
        return None
    texts = list(map(said_of_view, view.facts))
    return view.model_copy(update={"text": " ".join(texts), "all_others_known": " ".join(texts[1:])})


def said_of_view(fact: Fact) -> str:
    """A fact of a sharpest view as sentences."""
    return VIEWS[View(fact.name)](*fact.parts, **fact.figures)


def said(fact: Fact) -> str:
    """A fact of a verdict as a sentence."""
    sentence = SENTENCES.get(fact.name)
    return f"{reason_of(fact)}." if sentence is None else sentence(*fact.parts, **fact.figures)


def _guaranteed(kept: float) -> str:
    return (
        f"To an attacker who knows everyone else, the noise alone leaves at least {percent_at_least(kept)} "
        "of their uncertainty about a record, whatever they believe beforehand and whatever values the table "
        "holds. No noise hides whether an answer is NULL."
    )


def _nothing_depends(some_known: bool) -> str:
    secret = "a secret that the attacker does not know" if some_known else "the secret"
    return f"Nothing that is published depends on {secret}."


def _told_apart(records: int, of: int) -> str:
    return f"{count(records, 'record')} of {of:,} can be told apart from everything else."


def _sharpest(feature: str, rows: int, error: float, secret: str, of_range: float | None = None) -> str:
    share = "" if of_range is None else f" ({number(of_range, 3)} % of its range)"
    seen = seen_feature(feature, rows)
    return f"The best view of {seen} has an error of {number(error)} in {secret}{share}."


def seen_feature(feature: str, rows: int) -> str:
    """What is seen of an exposed record, after "the best view of"."""
    whose = f"their {rows:,} rows, and"
    match feature:
        case "row":
            return f"one is of one of {whose}"
        case "total":
            return f"one is of the total of {whose}"
        case "combination":
            return f"one is of a combination of {whose}"
        case _:
            return "one"


def _groups(groups: int, of_rows: bool) -> str:
    several = "rows" if of_rows else "records"
    return f"The sum of {count(groups, 'group')} of several {several} can be told apart."


def _left(prior: Fact, lower: float, upper: float, some_known: bool) -> str:
    """What remains of the most exposed record, with what it is an average over."""
    left = Uncertainty(lower=lower, upper=upper)
    (least, most), stddevs = (
        left.ends,
        Uncertainty(lower=left.stddev_lower, upper=left.stddev_upper).ends,
    )
    others = ", the noise and the values of some records" if some_known else " and the noise"
    return (
        f"On average over {expected(prior)}, at least {least} of the most exposed record's uncertainty "
        f"(variance; {stddevs[0]} of the standard deviation) remains to an attacker who knows the "
        f"groups{others}, whatever the attack; the best attack leaves at most {most} ({stddevs[1]}). Who is "
        "in which group is public, and epsilon covers the values."
    )


def _left_of_question(question: str, questions: int, lower: float, upper: float, told_apart: int) -> str:
    least, most = Uncertainty(lower=lower, upper=upper).ends
    others = f", the worst of {questions} yes-or-no questions" if questions > 1 else ""
    answer = (
        f"; the answer of {count(told_apart, 'record')} can be told apart from everything else"
        if told_apart
        else ""
    )
    return (
        f"Of whether {question}{others}, asked as a secret of its own with even chances, at least {least} of "
        "the most exposed record's uncertainty remains, whatever the attack, and the best attack leaves at "
        f"most {most}{answer}."
    )


def _seen_locally(values: int, of: int, as_a_set: bool, error: float, secret: str) -> str:
    whose = " as one of a set, not whose it is" if as_a_set else ""
    return (
        f"Near their true values {count(values, 'value')} of {of:,} can be seen{whose}, the best seen with "
        f"an error of {number(error)} in {secret} (for the owner only)."
    )


def _below(records: int, limit: str) -> str:
    return f"{count(records, 'record')} may be below the limit of {limit}."


def attacked(attacked: int, below: int) -> str:
    """Of how many records some attack leaves less than the limit; of the others nothing is shown."""
    if attacked == below:
        return f"Some attack leaves {'it' if below == 1 else 'each of them'} less."
    if not attacked:
        whom, whose = ("it", "it keeps it") if below == 1 else ("one of them", "they keep it")
        return f"No attack is known that leaves {whom} less, but it is not shown that {whose}."
    others = "the other one keeps" if below - attacked == 1 else f"the other {below - attacked:,} keep"
    return f"Some attack leaves {attacked:,} of them less; whether {others} it is not shown."


def _listed(cases: tuple[Fact, ...]) -> str:
    """The reasons, each with the name of its assumption."""
    return "; ".join(_with_name(one) for one in cases)


def _with_name(case: Fact) -> str:
    figures = {name: figure for name, figure in case.figures.items() if name != "assumption"}
    told = said(case.model_copy(update={"figures": figures})).removesuffix(".")
    return f"{told} ({case.figures['assumption']})"


def _not_shown(*cases: Fact, limit: str) -> str:
    reasons = _listed(cases) or "the reason is for the owner only"
    return f"That everyone keeps the limit of {limit} is not shown: {reasons}."


def _rules(broken: int) -> str:
    breaks = count(broken, "combination of numbers breaks", "combinations of numbers break")
    return f"{breaks} a rule of [rules]."


SENTENCES: dict[str, Callable[..., str]] = {
    Said.GUARANTEED: _guaranteed,
    Said.NO_ROW: lambda: "The table has no row with a secret: nothing can be exposed.",
    Said.NOTHING_DEPENDS: _nothing_depends,
    Said.TOLD_APART: _told_apart,
    Said.NOBODY_TOLD_APART: lambda of: f"No single record of {of:,} can be told apart from all others.",
    Said.SHARPEST: _sharpest,
    Said.GROUPS: _groups,
    Said.LEFT: _left,
    Said.LEFT_OF_QUESTION: _left_of_question,
    Said.SEEN_LOCALLY: _seen_locally,
    Said.NOBODY_LOCALLY: lambda: (
        "Near their true values no row is identifiable from the moments or thresholds."
    ),
    Said.LOCAL_WITHHELD: lambda: "What moments show near the true values is for the owner only.",
    Said.LOCAL_NOT_COMPUTED: lambda: "What moments show near the true values was not computed.",
    Said.BELOW: _below,
    Said.ATTACKED: attacked,
    Said.ALSO_OPEN: lambda *cases: f"Also, {_listed(cases)}.",
    Said.KEPT_BY_NOISE: lambda limit: f"So everyone keeps the limit of {limit}, guaranteed by the noise.",
    Said.KEPT: lambda limit: f"So everyone keeps the limit of {limit}.",
    Said.KEPT_ON_AVERAGE: lambda limit: f"On that average everyone keeps at least the limit of {limit}.",
    Said.NOT_SHOWN: _not_shown,
    Said.MAY_ACCEPT: lambda names: f"Correct this, or write accept = [{names}] in [limits].",
    Said.ACCEPTED: lambda *cases: f"The plan accepts: {_listed(cases)}.",
    Said.TOLD: lambda reason: reason if reason.endswith(("?", ".")) else f"{reason}.",
    Said.RULES: _rules,
}


def _knows(prior: Fact) -> str:
    return (
        f"An attacker who knows who is in which group, which no noise hides, and expects {expected(prior)},"
    )


def _guess(  # many parameters: the figures of the fact
    prior: Fact, secret: str, record: str, question: str, yes_or_no: bool, before: float, after: float
) -> str:
    what = f"whether {question}" if question else "yes or no" if yes_or_no else f"the category of {secret}"
    whom = f"for the most exposed {noun(record)}"
    return (
        f"{_knows(prior)} guesses {what} right {percent(before)} of the time before the releases. With them, "
        f"{whom}, at most {percent_at_most(after)} of the time, whatever the attack."
    )


def _number(  # many parameters: the figures of the fact
    prior: Fact,
    secret: str,
    record: str,
    of_level: bool,
    of_rows: bool,
    before: float,
    lower: float,
    upper: float,
) -> str:
    record = noun(record)
    what, whose = f"each {secret}", f"{secret} of the most exposed {record}"
    if of_level:
        what = f"the mean {secret} of each {record}'s rows"
        whose = f"the mean {secret} of the most exposed {record}'s rows"
    if of_rows:
        whose = f"any combination of the rows of one {record}, in units of one row,"
    least, most = number_ends(lower, upper)
    return (
        f"{_knows(prior)} knows {what} to ± {number(before, 3)} before the releases. With them, no attack "
        f"knows {whose} more closely than to ± {least}; one knows it to ± {most}."
    )


def _all_others_known(kept: float, some_known: bool) -> str:
    known = "no more than the plan says" if some_known else "nobody"
    return (
        f"That attacker knows {known}; to one who knows everyone else, the noise leaves at least "
        f"{percent_at_least(kept)} of the variance."
    )


VIEWS: dict[View, Callable[..., str]] = {
    View.NUMBER: _number,
    View.GUESS: _guess,
    View.ALL_OTHERS_KNOWN: _all_others_known,
}
