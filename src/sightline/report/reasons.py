"""Why assumptions are not verified, in words: each case of :mod:`sightline.auditing.assumptions`.

A reason is what is the case, then after "; " what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable

from sightline.auditing.assumptions import Case
from sightline.auditing.result import Unverified
from sightline.auditing.result_parts import Fact
from sightline.format import count as counted
from sightline.format import percent

Reason = Callable[..., tuple[str, str]]  # of the figures of a case: after the number one, and after others


def reason_of(fact: Fact) -> str:
    """A case of an assumption in words.

    >>> from sightline.auditing.result_parts import fact
    >>> reason_of(fact(Case.NO_ROW, count=2))
    '2 releases aggregate no row; check their conditions'
    """
    figures = dict(fact.figures)
    how_many = int(figures.pop("count"))
    return counted(how_many, *REASONS[Case(fact.name)](**figures))


def with_reason(one: Unverified) -> Unverified:
    """What was not verified, with its reason; what has one keeps it."""
    if one.reason or one.fact is None:
        return one
    return one.model_copy(update={"reason": reason_of(one.fact)})


def _both(one: str, many: str, rest: str = "") -> Reason:
    """The same words for one thing and for several, apart from their beginning."""
    return lambda: (f"{one}{rest}", f"{many}{rest}")


def _outside(bounded: bool) -> tuple[str, str]:
    domain = "bounds" if bounded else "categories"
    return (
        f"value is outside the {domain}, and nothing is shown of it",
        f"values are outside the {domain}, and nothing is shown of them",
    )


def _like_the_secret(columns: str) -> tuple[str, str]:
    rest = (
        f"like the secret under another name ({columns}); leave it out, aggregate the secret itself with "
        "noise, or audit it as a secret, [[secret]]"
    )
    return (
        f"column or expression that releases take as public looks {rest}",
        f"columns or expressions that releases take as public look {rest}",
    )


def _explains(share: float, secret: str, columns: str) -> tuple[str, str]:
    rest = (
        f"{percent(share)} of the variance of {secret} in the table ({columns}), and what remains is a share "
        "of what that leaves; make coarser groups, or accept it if everybody may know so much"
    )
    return (
        f"column or expression that releases take as public explains {rest}",
        f"columns or expressions that releases take as public together explain {rest}",
    )


def _in_some_draw(draws: int) -> tuple[str, str]:
    rest = (
        f"certain in some of {draws} simulated draws of the rounding, in which no other value fits the counts"
    )
    return f"record is {rest}", f"records are {rest}"


def _rule_k() -> tuple[str, str]:
    rest = (
        "is not decided: that needs one row a record, or one in each number and values = 'independent', "
        "nobody whom the attacker knows, and a table in memory"
    )
    return (
        f"count has no noise, and whether the rule k holds for it {rest}",
        f"counts have no noise, and whether the rule k holds for them {rest}",
    )


def _alike(rows: int) -> tuple[str, str]:
    about = counted(rows, "row")
    return (
        f"number is about rows that are nearly all alike, and tells the values of {about}",
        f"numbers are about rows that are nearly all alike, and tell the values of up to {about} each",
    )


def _few(values: str) -> tuple[str, str]:
    return f"value is {values}", f'values are {values}; prior = "two-point" in [attacker] allows for that'


def _within(within: float) -> tuple[str, str]:
    return _few(f"all that fit into ± {within:g}, by the least gap in the table: attackers can round to them")


def _taken(secret: str, of_level: bool) -> tuple[str, str]:
    taking = f"the mean {secret} of a record's rows" if of_level else secret
    return _few(f"all or nearly all that {taking} takes in the table: attackers can round to them")


def _multiples(step: float, secret: str, of_level: bool) -> tuple[str, str]:
    of = f" for the mean {secret} of a record's rows" if of_level else ""
    return _few(
        f"possible{of}, the multiples of {step:g} in the bounds, and the noise does not hide which one it is"
    )


def _clusters(secret: str, of_level: bool) -> tuple[str, str]:
    taking = f"the mean {secret} of a record's rows" if of_level else secret
    rest = (
        f" all that {taking} takes in the table: an attacker who expects values there alone may learn more "
        "of somebody than the limit allows"
    )
    return f"cluster holds{rest}", f"clusters hold{rest}"


def _same_in_all_rows(constant: bool) -> tuple[str, str]:
    advice = 'say values = "constant" in [data] if they always do' if constant else "are rows repeated?"
    return (
        f"record has several rows and the same value in all of them; {advice}",
        f"records have several rows and each has the same value in all of them; {advice}",
    )


def _noise_after(aggregates: str) -> tuple[str, str]:
    rest = (
        "safe only if the noise is added first, before the numbers are multiplied, rounded, made NULL, text "
        "or yes or no, or the lines sorted: the noise is taken to be on "
        f"{aggregates or 'the aggregates'}, and the order of lines to be that of the noisy numbers"
    )
    return f"release is {rest}", f"releases are {rest}"


REASONS: dict[Case, Reason] = {
    Case.NO_SECRET_OR_KEY: _both(
        "row without a secret or a record key is",
        "rows without a secret or a record key are",
        " not audited",
    ),
    Case.TELLS_WHO_HAS_ONE: _both(
        "group tells",
        "groups tell",
        " who has a value of the secret: some rows have none, and no noise hides a NULL, a missing line or "
        "an exact count of the rows with one; count all rows, or accept it if everybody may know who has one",
    ),
    Case.OUTSIDE: _outside,
    Case.LEFT_OUT_BUT_PUBLISHED: _both(
        "row is", "rows are", " left out of the audit but not of what is published"
    ),
    Case.NO_ROW: _both(
        "release aggregates no row; check its condition", "releases aggregate no row; check their conditions"
    ),
    Case.LISTS_WHAT_OCCURS: _both(
        "group shows whether anybody in it has",
        "groups show whether anybody in them has",
        " a certain value of the secret, because an answer lists only what occurs, or is NULL where nothing "
        "does, and no noise hides that; write COUNT(*) FILTER (WHERE "
        "…) or COALESCE(SUM(…), 0), count all rows, or publish every value in every group",
    ),
    Case.LISTS_WHO_IS_THERE: _both(
        "release with GROUP BY has",
        "releases with GROUP BY have",
        " no line for a group that nobody of the table is in, and neither noise nor rounding hides that; "
        "publish a number for every group that there might be, also of nobody",
    ),
    Case.LIKE_THE_SECRET: _like_the_secret,
    Case.EXPLAINS_THE_SECRET: _explains,
    Case.JUDGED_ALONE: _both(
        "other secret column is published about, too, and may tell something about this one",
        "other secret columns are published about, too, and may tell something about this one",
        ": each is judged alone",
    ),
    Case.NOT_DECIDED: _both(
        "record is", "records are", " neither shown to be identifiable nor shown not to be"
    ),
    Case.CERTAIN: _both("record is", "records are", " certain: no other value fits the published counts"),
    Case.CERTAIN_IN_SOME_DRAW: _in_some_draw,
    Case.NOTHING_GUARANTEED: _both(
        "table whose counts are exact, rounded or blank tells whoever knows everyone else that somebody is "
        "in it",
        "",
    ),
    Case.NO_FRAME: _both(
        "table without a frame: the noise alone does not keep the limit for who is in it, and nothing else "
        "is known to protect that",
        "",
    ),
    Case.CERTAIN_IN_NO_DRAW: _both(
        "record may be certain after some draw of the rounding; no simulated one made it so",
        "records may be certain after some draw of the rounding; no simulated one made them so",
    ),
    Case.AS_IF_EXACT: _both(
        "record is",
        "records are",
        " not shown to keep the limit: rounded, blank and perturbed counts are bounded as if they were "
        "exact, and no attack is known that leaves less",
    ),
    Case.RULE_K: _rule_k,
    Case.COMMON_KEYS: _both(
        "count is",
        "counts are",
        " changed by cell keys in several tables under the rule k, of which it is not decided what the keys "
        "tell together: the key of a total is the sum of the keys of its parts",
    ),
    Case.NEAR_TRUE_VALUES: _both(
        "record is",
        "records are",
        " not shown to keep the limit against moments and thresholds of the secret, which are only bounded "
        "near the true values",
    ),
    Case.ALIKE: _alike,
    Case.NOT_COMPARED: _both(
        "number was",
        "numbers were",
        " not checked for groups whose values are nearly all alike: what the attacker knows of each value or "
        "level differs, and such numbers cannot be compared with it",
    ),
    Case.UNUSED: _both(
        "declared category occurs",
        "declared categories occur",
        " in no row; with even chances for the others alone, somebody may keep less than the limit",
    ),
    Case.VALUES_WITHIN: _within,
    Case.VALUES_TAKEN: _taken,
    Case.MULTIPLES: _multiples,
    Case.CLUSTERS: _clusters,
    Case.SAME_IN_ALL_ROWS: _same_in_all_rows,
    Case.NOTHING_IN_COMMON: _both(
        "record has",
        "records have",
        " several rows that are taken to have nothing in common: knowing all others would tell nothing about "
        'one; leave out values = "independent" to audit rows that share a level, too',
    ),
    Case.UNEQUAL_SUMS: _both(
        "record may",
        "records may",
        " keep less than the limit, because a value adds up rows, and how many is public: a sum of few rows "
        "varies less than the bounds say, and so hides others less; publish the rows themselves, or bound "
        "them to as many for everyone",
    ),
    Case.NOISE_AFTER: _noise_after,
    Case.HIDDEN: _both(
        "release",
        "releases",
        " hid groups whose noisy count was small: which groups are hidden tells nothing of a secret only if "
        "that count is of all rows, whatever their secrets, and if no such count was ever published",
    ),
    Case.DRAWN: _both(
        "of 100 records is",
        "of 100 records are",
        " known to the attacker, drawn by their keys; nothing is shown of those, nor for another draw",
    ),
    Case.CARRIED: _both(
        "assumption of the releases when they were made is not verified, which this table cannot show",
        "assumptions of the releases when they were made are not verified, which this table cannot show",
    ),
}
