"""What changed since the last audit: the verdict, who newly falls below the limit, the releases, the cost.

The last result is read from a file that anyone may have written. Nothing of it is trusted: it is read as
data, its numbers are checked, and its texts are only ever shown as text.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from typing import Any

from sightline.auditing.result import AuditResult, Exposed, ReleaseReport, SinceLast
from sightline.auditing.result_parts import TOP, Uncertainty
from sightline.errors import require
from sightline.format import count, number, number_bracket
from sightline.privacy.registry import accountant_of_cost
from sightline.report.wording import domain_words

_EXACT = "gaussian-dp"  # the accountant whose cost is compared, if both results have it
_AND = ", "  # between the keys of a group


def with_comparison(result: AuditResult, last: AuditResult) -> AuditResult:
    """The result with what changed since the last one; of several secrets, each with its own last one."""
    before = {one.secret: one for one in (last, *last.other_secrets)}
    others = [
        with_comparison(one, before[one.secret]) if one.secret in before else one
        for one in result.other_secrets
    ]
    since = compared(result, before.get(result.secret, last))
    return result.model_copy(update={"since": since, "other_secrets": tuple(others)})


def compared(result: AuditResult, last: AuditResult) -> SinceLast:
    """What changed from the last result to this one.

    Only what is publishable of both is compared, apart from the records' keys.
    """
    _check(last)
    now, before = result.publishable(), last.publishable()
    newly, no_longer = _named_changes(result, last)
    return SinceLast(
        comparable=not any(_other_question(now, before)),
        newly_below=newly,
        no_longer_below=no_longer,
        lines=tuple(_lines(now, before, other_table=_other_table(result, last))),
    )


def _check(last: AuditResult) -> None:
    """Refuse numbers that no audit writes."""
    least, verdict = last.least_remaining_uncertainty or Uncertainty(lower=1.0, upper=1.0), last.verdict
    sizes = [size for release in last.releases for size in _sizes(release)]
    sizes += [last.sharpest.before] if last.sharpest else []
    good = (
        0 <= least.lower <= least.upper <= 1 + 1e-6
        and min(last.records, verdict.below_limit, last.identifiable_records) >= 0
        and 0 <= (verdict.limit or 0.0) <= 1
        and all(math.isfinite(size) and size >= 0 for size in sizes)
        and all(math.isfinite(bound) for bound in last.bounds)
        and not any(math.isnan(cost) for cost in last.budget.spent.values())
    )
    require(good, "the result of an audit to compare with", got="numbers that no audit writes")


def _other_table(result: AuditResult, last: AuditResult) -> bool:
    """Whether the two results are known to be of different tables."""
    digests = {result.table_digest, last.table_digest}
    return len(digests - {None}) == 2


def _named_changes(result: AuditResult, last: AuditResult) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys of those who newly fall below the limit, and of those who no longer do, as far as listed.

    Of a result that does not list all of them, or without their keys, nothing is known of the others.
    """
    now, before = (_below(one) for one in (result, last))
    newly = _only_in(now, before) if _names_all(last, before) else ()
    no_longer = _only_in(before, now) if _names_all(result, now) else ()
    return newly, no_longer


def _below(result: AuditResult) -> list[Exposed]:
    """Those who are listed below the limit."""
    limit = result.verdict.limit or 0.0  # which everybody keeps
    return [
        one
        for one in result.exposed
        if one.remaining_uncertainty
        and one.remaining_uncertainty.lower < limit
        and not (one.about and result.verdict.known_to)
    ]


def _names_all(result: AuditResult, below: list[Exposed]) -> bool:
    return len(result.exposed) == result.exposed_in_all and all(one.record for one in below)


def _only_in(these: list[Exposed], those: list[Exposed]) -> tuple[str, ...]:
    """The keys of those who are in the first list alone: a group may be told apart otherwise in the other."""
    others = {key for one in those for key in (one.record or "").split(_AND)}
    left = (_AND.join(key for key in (one.record or "").split(_AND) if key not in others) for one in these)
    return tuple(sorted({keys for keys in left if keys}))


def _lines(now: AuditResult, before: AuditResult, *, other_table: bool) -> Iterator[str]:
    yield from _other_question(now, before)
    if other_table:
        yield "the table is another: its file has other bytes"
    if now.verdict.limit != before.verdict.limit:
        yield f"the limit: {before.verdict.limit_text} before, {now.verdict.limit_text} now"
    if now.verdict.status is not before.verdict.status:
        yield f"the verdict: {_status(before)} before, {_status(now)} now"
    if now.records != before.records:
        yield f"records: {before.records:,} before, {now.records:,} now"
    limits = now.verdict.limit and before.verdict.limit
    if limits and now.verdict.below_limit != before.verdict.below_limit:
        more = now.verdict.below_limit - before.verdict.below_limit
        way = f"{abs(more):,} {'more' if more > 0 else 'fewer'}"
        yield f"below the limit: {count(now.verdict.below_limit, 'record')}, {way} than before"
    if now.identifiable_records != before.identifiable_records:
        yield (
            f"can be told apart: {count(now.identifiable_records, 'record')}, before "
            f"{before.identifiable_records:,}"
        )
    yield from _sharpest(now, before)
    yield from _releases(now, before)
    yield from _cost(now, before)


def _other_question(now: AuditResult, before: AuditResult) -> Iterator[str]:
    """Why the two results answer different questions."""
    for what, this, that in (
        ("the secret", now.secret, before.secret),
        ("the record", now.record, before.record),
        ("what the secret can be", domain_words(now), domain_words(before)),
        ("the prior", now.prior, before.prior),
    ):
        if this != that:
            yield f"{what} is another: {that or 'not stated'} before, {this or 'not stated'} now"


def _sharpest(now: AuditResult, before: AuditResult) -> Iterator[str]:
    this, that = now.least_remaining_uncertainty, before.least_remaining_uncertainty
    if this and that and (_differ(this.lower, that.lower) or _differ(this.upper, that.upper)):
        yield f"the most exposed record keeps {_kept(now, this)}; before, {_kept(before, that)}"


def _kept(result: AuditResult, least: Uncertainty) -> str:
    text = f"{least} of the variance ({least.of_stddev} of the standard deviation"
    if result.sharpest and result.secret_kind.measured:
        stddev = result.sharpest.before
        text += f", ± {number_bracket(least.stddev_lower * stddev, least.stddev_upper * stddev)}"
    return text + ")"


def _releases(now: AuditResult, before: AuditResult) -> Iterator[str]:
    this, that = ({one.name: one for one in result.releases} for result in (now, before))
    added = [f'"{name}"' for name in this if name not in that]
    removed = [f'"{name}"' for name in that if name not in this]
    if added:
        yield f"added: {_listed(added)}"
    if removed:
        yield f"removed: {_listed(removed)}"
    sql, old_sql = _sql(now.plan), _sql(before.plan)
    changed = [name for name in this if name in sql and name in old_sql and sql[name] != old_sql[name]]
    if changed:
        yield "other SQL: " + _listed([f'"{name}"' for name in changed])
    noises = [name for name in this if name in that and _other_noise(this[name], that[name])]
    if noises:
        yield "other noise: " + _listed(
            [f'"{name}" ({_noise(that[name])} → {_noise(this[name])})' for name in noises]
        )
    times = [name for name in this if name in that and this[name].times != that[name].times]
    if times:
        yield "published another number of times: " + _listed(
            [f'"{name}" ({that[name].times:,} → {this[name].times:,})' for name in times]
        )


def _sql(plan: str) -> dict[str, str]:
    """The SQL of each release by its name; empty if the text is no plan."""
    try:
        content: dict[str, Any] = tomllib.loads(plan)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    releases = content.get("release", [])
    found = [one for one in releases if isinstance(one, dict)] if isinstance(releases, list) else []
    return {str(one.get("name")): str(one.get("sql")) for one in found}


def _other_noise(this: ReleaseReport, that: ReleaseReport) -> bool:
    return any(_differ(one, two) for one, two in zip(_sizes(this), _sizes(that), strict=True))


def _noise(release: ReleaseReport) -> str:
    if not release.outputs:
        return "none"
    low, high = (number(size, 3) for size in _sizes(release))
    return low if low == high else f"{low}–{high}"


def _sizes(release: ReleaseReport) -> tuple[float, float]:
    """The least and the most noise of its numbers; 0 if it has none."""
    return release.smallest_noise_stddev or 0.0, release.largest_noise_stddev or 0.0


def _cost(now: AuditResult, before: AuditResult) -> Iterator[str]:
    """What the noise costs under one accountant, if both results have it at the same delta."""
    spent = [one.budget.spent[_EXACT] for one in (now, before) if _EXACT in one.budget.spent]
    if now.budget.delta != before.budget.delta or len(spent) < 2 or not _differ(*spent):
        return
    this, that = map(number, spent)
    yield f"epsilon of all noise under {accountant_of_cost(_EXACT)}: {this}, before {that}"


def _status(result: AuditResult) -> str:
    return result.verdict.status.value if result.verdict.status else "none"


def _differ(one: float, two: float) -> bool:
    """Whether two numbers differ as they are told: in three digits."""
    return number(one, 3) != number(two, 3)


def _listed(names: list[str]) -> str:
    more = len(names) - TOP
    return ", ".join(names[:TOP]) + (f" and {more:,} more" if more > 0 else "")
