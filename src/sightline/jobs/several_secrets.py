"""The results of a plan's secrets as one: that of the worst, with the others' beside it.

Each secret is audited by itself. What a record loses in all is at most the sum of what it loses for each
secret (basic composition, ``eq:basic``): a record whose values all change passes through one mechanism for
each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sightline.advising.noise_slack import slack_of_all
from sightline.advising.remedies import with_factor
from sightline.auditing.plan import Limits
from sightline.auditing.result import AllSecrets, AuditResult, Change, ChangeKind, NoiseSlack, VerdictStatus
from sightline.report.advice import change_in_words, slack_in_words
from sightline.report.several import all_secrets, of_the_worst

_STANDING = (VerdictStatus.FAILED, VerdictStatus.NOT_SHOWN, VerdictStatus.PASSED, None)  # the worst first


def together(results: Sequence[AuditResult]) -> AuditResult:
    """The result of the worst secret, with those of the others and what all of them cost together."""
    if len(results) == 1:
        return results[0]
    worst = min(results, key=_standing)
    epsilon = math.fsum(map(_epsilon, results))
    delta = math.fsum(one.budget.delta for one in results)
    text = all_secrets(results, worst, epsilon=epsilon, delta=delta)
    verdicts = {
        name: of_the_worst(one, worst.secret, secrets=len(results))
        for name in ("verdict", "publishable_verdict")
        if (one := getattr(worst, name)) is not None
    }
    slack = slack_in_words(slack_of_all(worst.verdict, [one.slack for one in results]))
    others = tuple(one for one in results if one is not worst)
    update = {
        **verdicts,
        "slack": slack,
        "other_secrets": others,
        "all_secrets": AllSecrets(epsilon=epsilon, delta=delta, text=text),
    }
    changes = tuple(_of_all(worst.what_to_change, worst, others, slack))
    return worst.model_copy(update={**update, "what_to_change": changes})


def _of_all(
    changes: Sequence[Change], worst: AuditResult, others: Sequence[AuditResult], slack: NoiseSlack | None
) -> Iterator[Change]:
    """What to change about the worst secret, as far as it is known of the others that they keep the limit.

    All noise is multiplied by what all secrets need. Anything else reaches the limit if the others keep it
    already; what leaves a release out does so only if no other secret has less noise then.
    """
    alone = all(one.verdict.status is not VerdictStatus.FAILED for one in others)
    sharing = any(one.budget.sharing for one in others)
    for change in changes:
        if change.kind is not ChangeKind.NOISE:
            reaches = change.reaches_limit and alone and not (sharing and change.kind is ChangeKind.DROP)
            named = {"text": f"for {worst.secret}: {change.text}", "reaches_limit": reaches}
            if change.publishable_text is not None:
                named["publishable_text"] = f"for {worst.secret}: {change.publishable_text}"
            yield change.model_copy(update=named)
        elif slack is not None:
            limit = Limits(remaining_uncertainty=worst.verdict.limit or 0.0).text
            today = {
                one.name: (one.smallest_noise_stddev, one.largest_noise_stddev)
                for result in (worst, *others)
                for one in result.releases
                if one.smallest_noise_stddev is not None and one.largest_noise_stddev is not None
            }
            yield change_in_words(with_factor(slack, limit, today))


def _standing(result: AuditResult) -> tuple[int, bool, int, bool, float]:
    """Smaller is worse: by the verdict, then by what is publishable of it, then by what remains."""
    least = result.least_remaining_uncertainty
    shown = result.publishable_verdict or result.verdict
    return (
        _STANDING.index(result.verdict.status),
        not result.verdict.accepts_groups,
        _STANDING.index(shown.status),
        not shown.accepts_groups,
        math.inf if least is None else least.lower,
    )


def _epsilon(result: AuditResult) -> float:
    """What the noise of one secret's releases costs: an upper bound, by the plan's own rule if it has one."""
    budget = result.budget
    if budget.total_epsilon is not None:
        return budget.total_epsilon
    return budget.spent.get(budget.accountant or "", budget.least_spent or 0.0)
