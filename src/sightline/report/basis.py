"""What the numbers of an audit rest on, how they are computed, what looks odd and what was left out, in
sentences: each fact of :mod:`sightline.auditing.rests_on`, ``declared_and_found`` and ``releases`` in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sightline.auditing.declared_and_found import HowComputed, Odd
from sightline.auditing.releases import LeftOut
from sightline.auditing.rests_on import Basis
from sightline.auditing.result_parts import Fact
from sightline.bounds.chance_of_error import OF_AN_AUDIT
from sightline.format import count, number, percent
from sightline.privacy.law import Law
from sightline.report.beliefs import expected


def sentences(facts: Iterable[Fact]) -> tuple[str, ...]:
    """Each fact as a sentence, those that say nothing left out."""
    said = (SENTENCES[one.name](*one.parts, **one.figures) for one in facts)
    return tuple(text for text in said if text)


def _average(prior: Fact) -> str:
    return (
        "rmse is that of the best unbiased linear attack. Remaining uncertainty is an average over the "
        "records' possible values and the noise; its lower end holds for every attack, also biased and "
        f"constrained ones, if all unknown records have independent {expected(prior)}. It says nothing "
        "about one person's actual value, nor about attackers who know more than that."
    )


def _several_rows(
    most: int, belief: str, by_category: bool = False, beliefs: int = 1, block: str = ""
) -> str:
    return f"A record has up to {most:,} rows, and {_in_common(belief, by_category, beliefs, block)}."


def _in_common(belief: str, by_category: bool, beliefs: int, block: str) -> str:
    """What the rows of a record have in common."""
    match belief:
        case "one value":
            return "all of its rows hold one value: the record's"
        case "level":
            return (
                "its rows share a level; how each differs from it is known to the attacker. That is the "
                f"worse of {beliefs} beliefs, each about all records: the other is that their rows have "
                "nothing in common"
            )
        case "block":
            return (
                f"its rows with the same {block} share a level; how each differs from it is known to the "
                f"attacker. That is the worst of {beliefs} beliefs, each about all records: the others are "
                "that all rows share one level, and that they have nothing in common"
            )
        case _:
            category = ", category by category" if by_category else ""
            return (
                "its rows hold independent values; it is as exposed as the sharpest linear feature of its "
                f"rows: a row, their total, their mean or any other combination{category}"
            )


def _sensitivity_declared(rows: int) -> str:
    return f"Sensitivities are declared: they hold for any record of {rows:,} rows, wherever these are."


def _sensitivity_bounded(release: str, declared: bool) -> str:
    over = "places" if declared else "changes"
    return (
        f'The largest change of a record in "{release}" is bounded from above, over all {over} of its rows: '
        "it costs no more than is stated, and may cost less."
    )


def _uneven_rows(least: int, most: int, fewer: int, of: int) -> str:
    have = "has" if fewer == 1 else "have"
    return (
        f"Records have {least:,} to {most:,} rows: {fewer:,} of {of:,} {have} fewer than {most:,}. The "
        "attacker knows which rows are missing."
    )


def _repeated(times: int, column: str) -> str:
    return (
        f"{count(times, 'time')} a record has several rows with the same {column!r}: an hour that the clocks "
        "repeat, or a reading that came twice. Each counts as a row with a value of its own."
    )


def _taken_as_public(columns: str, secret: str) -> str:
    hidden = (
        f" If one of them is made of {secret} and was not found to be, it is not protected." if secret else ""
    )
    return f"Taken as public, since the plan does not say ([data] public): {columns}.{hidden}"


def _error_limit(prior: Fact, known_to: float, secret: str) -> str:
    return (
        f"The limit of ± {number(known_to, 6)} hardly depends on the bounds: it is compared with the error "
        f"in {secret} that is left, which wider bounds raise only up to that of the best unbiased attack. It "
        f"is for attackers who expect {expected(prior)}: whoever knows a value more closely beforehand knows "
        "it so afterwards, whatever the noise."
    )


def _known_share(share: float) -> str:
    return (
        f"Attackers know {100 * share:g} % of the records, drawn by a hash of their keys; the other records "
        "are judged."
    )


def _known_within(within: float) -> str:
    return (
        f"Attackers know every value to ± {within:g} beforehand. Remaining uncertainty is a share of what "
        "that leaves open. The bounds of the secret are taken not to cut it."
    )


# Of each law what its answers count as; nothing of one that counts as itself.
OF_LAWS = {
    Law.GAUSSIAN: "",
    Law.LAPLACE: (
        "Laplace noise: the lower end is what the answers' Fisher information leaves, and can be half of"
        " what remains; the upper end is a linear attack's risk."
    ),
    Law.DISCRETE_GAUSSIAN: (
        "Discrete Gaussian noise of parameter sigma counts as Gaussian noise of variance sigma² − 1 in "
        "lower ends: it tells no more, but for a probability of about one in a hundred million a number."
    ),
    Law.GEOMETRIC: (
        "Geometric noise: of two values an answer tells no more than the Gaussian one that it counts as "
        "in lower ends; that has up to 1.6 times the information of Laplace noise, where noise is large."
        " Of whole numbers it counts as Laplace noise of its scale."
    ),
    Law.NONE: (
        "Some numbers are exact. The lower end of a record in them is what others in the same numbers hide: "
        "of n records that nothing tells apart each keeps 1 − 1/n. Errors and upper ends are at most those "
        "printed."
    ),
    Law.ROUNDING: "",
    Law.WITHIN: "",
    Law.CELL_KEY: "",
}


def _questions(secret: str) -> str:
    return (
        f"Whether {secret} lies above a level or in a band is also audited as a yes or no with even chances. "
        "A record that keeps less of it than the limit is below the limit."
    )


def _after_the_noise(  # many parameters: the figures of the fact
    release: str,
    noise_on: str,
    steps: str,
    factor: float | None = None,
    enlarges: bool = False,
    limited: bool = False,
) -> str:
    line = f'"{release}": the noise is on {noise_on}; after it: {steps}.'
    if factor is not None:
        line += f" A stddev is that of {number(factor)} times that: of the published number."
    if enlarges:
        line += " Noise that is added to the published number instead must be multiplied likewise."
    if limited:
        line += " It is audited as if all lines were published."
    return line


def _made_of_secret(column: str, secret: str) -> str:
    return f"{column}. The rows are too few to tell that from chance: is it made of {secret}?"


def _repeats(record: str, column: str) -> str:
    return (
        f'No {record} has two rows, but "{column}" repeats: is that whose row it is? Then it is the record.'
    )


def _unused(categories: int) -> str:
    never = count(categories, "declared category occurs", "declared categories occur")
    return f"{never} in no row. The attacker is taken to expect all declared ones with even chances."


def _bounds_wide(filled: float) -> str:
    return (
        f"The values fill {percent(filled)} of the bounds. What remains is a share of the bounds: with "
        "narrower ones it may be less."
    )


def _strange_values(rows: int, population: str) -> str:
    hold = count(rows, "row holds a value", "rows hold values")
    return (
        f"{hold} that {population} gives no weight. What remains is an average over that population: is it "
        "that of these records?"
    )


def _streamed(signatures: int) -> str:
    return (
        f"The table has {signatures:,} signatures and is streamed: minima and counts are over all records. "
        "Left out, since it would take more passes: the timeline; what each release adds; other accountants; "
        "changes and slack of the noise; accuracy; with whom a record is seen; short recipes; pairs of "
        "records that hide a yes or no or a category."
    )


def _too_many_numbers(*parts: Fact, numbers: int, kinds: int) -> str:
    return (
        f"The plan publishes {numbers:,} numbers about {kinds:,} kinds of rows, too many to be assessed "
        f"again and again. Left out: {'; '.join(sentences(parts))}."
    )


def _stages(shown: int) -> str:
    which = "the last one" if shown == 1 else f"{shown} of them"
    return f"the exposure after each release but {which}"


def _combinations(records: int) -> str:
    return f"whether more combinations of the rows of {records:,} records with several rows are identifiable"


SENTENCES: dict[str, Callable[..., str]] = {
    Basis.EVERYBODY_ELSE_KNOWN: lambda: (
        "The attacker knows everybody else who is in the table, what anybody who might be in it would be "
        "counted in, and the noise, and sees every number. Such a person may be in every release."
    ),
    Basis.NO_FRAME: lambda: (
        "Without a frame nothing but the noise is known to hide anybody: only what it leaves counts."
    ),
    Basis.BENCHMARK: lambda: (
        "This is a benchmark of what is seen, not a differential-privacy guarantee; the budget is that."
    ),
    Basis.GROUPS_KNOWN: lambda: (
        "The attacker knows who is in which group, the noise levels and the bounds, and sees every number."
    ),
    Basis.AVERAGE: _average,
    Basis.GROUP_KNOWLEDGE: lambda: (
        "What a group has in common is knowledge about the group. Even to somebody who has that knowledge "
        "the noise leaves what the limit asks for, so that it is not asked whether a group is all alike."
    ),
    Basis.SEVERAL_ROWS: _several_rows,
    Basis.SENSITIVITY_DECLARED: _sensitivity_declared,
    Basis.SENSITIVITY_OF_TABLE: lambda: (
        "Sensitivities are computed from the public memberships: they are those of this table's records, by "
        "how many rows each has in which group."
    ),
    Basis.SENSITIVITY_BOUNDED: _sensitivity_bounded,
    Basis.UNEVEN_ROWS: _uneven_rows,
    Basis.REPEATED: _repeated,
    Basis.TAKEN_AS_PUBLIC: _taken_as_public,
    Basis.ROWS_MADE: lambda: (
        "The rows that are audited are those that [data] sql makes of the table, and its releases read them. "
        "Nothing is said of a pipeline that makes other rows, or of rows that it leaves out."
    ),
    Basis.SHARE_OF_BOUNDS: lambda: (
        "A limit that is a share depends on the bounds: it is a share of what they leave open, and the same "
        "noise leaves less of wider ones."
    ),
    Basis.ERROR_LIMIT: _error_limit,
    Basis.KNOWN_SHARE: _known_share,
    Basis.KNOWN_WITHIN: _known_within,
    Basis.FEW_VALUES: lambda: (
        "There are few values, so attackers can round; the lower end allows for that. It counts on records "
        "that hide each other: where the attacker knows the others, state them in [attacker] knows. Where "
        "few records share numbers, both ends may come from simulated answers over all their values, and "
        "where the limit is between both ends, the lower one from a walk through simulated worlds; the "
        f"chance that anything simulated is wrong, in all of the audit, is below {OF_AN_AUDIT:g}. Other "
        "upper ends are those of the best linear attack, or of its guess rounded softly, by a proved bound."
    ),
    Basis.LAW: lambda law: OF_LAWS[Law(law)],
    Basis.COPIES: lambda: (
        "Copies of a release have fresh noise and the same rows; a recipe takes their mean."
    ),
    Basis.WEIGHTS: lambda: (
        "Weights of rows are public: a record moves a weighted sum by its weight times its change."
    ),
    Basis.QUESTIONS: _questions,
    Basis.MOMENTS: lambda: "Moments are linearised at the true values: local and owner-only.",
    HowComputed.AFTER_THE_NOISE: _after_the_noise,
    Odd.MADE_OF_SECRET: _made_of_secret,
    Odd.REPEATS: _repeats,
    Odd.UNUSED: _unused,
    Odd.BOUNDS_WIDE: _bounds_wide,
    Odd.STRANGE_VALUES: _strange_values,
    LeftOut.STREAMED: _streamed,
    LeftOut.TOO_MANY_NUMBERS: _too_many_numbers,
    LeftOut.NEWLY_EXPOSED: lambda: "what each release adds to the exposure of identifiable records",
    LeftOut.STAGES: _stages,
    LeftOut.ACCOUNTANTS: lambda: "other accountants",
    LeftOut.WITHOUT_A_RELEASE: lambda: "what it would help to leave a release out",
    LeftOut.COMBINATIONS: _combinations,
}
