"""The section on what to change: which release to drop or merge, and how much noise meets the limit."""

from __future__ import annotations

import math
from collections.abc import Callable

from sightline.auditing.brackets import assess, most_information
from sightline.auditing.design import LinearDesign, cell_name
from sightline.auditing.exposed import ExposedSection
from sightline.auditing.findings import Findings, LinearFindings, linear_findings
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result import Change, ChangeKind, ReleaseReport
from sightline.privacy.budget import Budget
from sightline.privacy.registry import accountants
from sightline.progress import silent

# Up to this much work for one assessment (numbers³ + numbers × columns) a search over a dozen takes seconds.
_SEARCHABLE = 2e9
_CLOSE = 1.01  # the factor is found up to 1 %, from above
_MOST = 1e12  # a factor beyond which more noise changes nothing
_MOST_TRIED, _MOST_SHOWN = 10, 5  # numbers that are audited again, and that are proposed


def remedies(
    findings: Findings, releases: tuple[ReleaseReport, ...], section: ExposedSection
) -> tuple[Change, ...]:
    """The changes worth making, the mildest first; each was audited again and does what it says.

    None is proposed to hide anyone better than the limit asks.
    """
    found, pricing = findings.linear, findings.pricing
    changes = [
        _publish_once(report, shared=pricing.releases > 0)
        for report in releases
        if report.copy_of is not None
    ]
    if found is None or (found.limit is not None and not (found.below_limit or findings.not_shown)):
        return tuple(changes)
    if found.repeatable:
        changes += _separate(findings, found, section)
    helpful = [r for r in releases if r.exposes_alone and len(releases) > 1]
    changes += [_drop(r) for r in sorted(helpful, key=lambda r: -(r.exposes_alone or 0))[:3]]
    if found.limit is not None:
        changes.append(_more_noise(findings, found, found.limit))
    return tuple(changes)


def _publish_once(report: ReleaseReport, *, shared: bool) -> Change:
    cost = "sharpens what is seen" if report.noise_given or not shared else "takes a share of the budget"
    text = f'do not publish "{report.name}": it repeats "{report.copy_of}", opens nothing new and {cost}'
    return Change(kind=ChangeKind.MERGE, release=report.name, noise_factor=None, epsilon=None, text=text)


def _separate(findings: Findings, found: LinearFindings, section: ExposedSection) -> list[Change]:
    """Numbers that single out a record by themselves or in twos, if nothing does so without them."""
    writer = RecipeWriter(findings=findings, found=found)
    linear, changes = found.linear, []
    seen: set[tuple[int, ...]] = set()
    for column in section.columns.tolist():
        rows = writer.shortest_rows(column) if found.visible[column] else ()
        if not rows or rows in seen or len(seen) >= _MOST_TRIED:
            continue
        seen.add(rows)
        needed = next((row for row in reversed(rows) if not _still_visible(linear, column, row)), None)
        if needed is None:
            continue
        size = int(found.counts[column])
        whom = "one record" if size == 1 else f"{size} records that nothing else tells apart"
        release = findings.plan.releases[linear.query_of_row[needed]].name
        beside = next((row for row in rows if row != needed), None)
        text, publishable = (
            _separation(findings, linear, (needed, beside), whom, owner) for owner in (True, False)
        )
        changes.append(
            Change(
                kind=ChangeKind.COARSEN if beside is None else ChangeKind.MERGE,
                release=release,
                noise_factor=None,
                epsilon=None,
                text=text,
                publishable_text=publishable if publishable != text else None,
            )
        )
    return changes[:_MOST_SHOWN]


def _still_visible(linear: LinearDesign, column: int, row: int) -> bool:
    """Whether a column's value or sum is identifiable without one number."""
    fewer = linear.without(row)
    if fewer is None:
        return False
    exposures = assess(fewer, silent)
    return bool(exposures.groups.identifiable[exposures.group[column]])


def _separation(
    findings: Findings, linear: LinearDesign, rows: tuple[int, int | None], whom: str, owner: bool
) -> str:
    needed, beside = (None if row is None else _row_name(findings, linear, row, owner) for row in rows)
    if beside is None:
        return f'merge "{needed}" with another group: it holds {whom}'
    return f'do not publish "{needed}" beside "{beside}": they differ by {whom}'


def _row_name(findings: Findings, linear: LinearDesign, row: int, owner: bool) -> str:
    cell = int(linear.cells[row])
    withheld = findings.key_columns[findings.membership.cells[cell].partition]
    return cell_name(findings.membership, cell, withheld=frozenset() if owner else withheld)


def _drop(report: ReleaseReport) -> Change:
    count = report.exposes_alone or 0
    are = "s are" if count > 1 else " is"
    text = f'drop "{report.name}": without it {count} record{are} no longer identifiable'
    return Change(kind=ChangeKind.DROP, release=report.name, noise_factor=None, epsilon=None, text=text)


def _more_noise(findings: Findings, found: LinearFindings, limit: float) -> Change:
    factor = noise_factor(findings, found, limit)
    share = f"{100 * limit:.4g} %"
    if factor is None:
        text = f"no amount of this noise is shown to keep {share}: lower the limit"
        return Change(kind=ChangeKind.NOISE, release=None, noise_factor=None, epsilon=None, text=text)
    epsilon = epsilon_for(findings, factor)
    budget = "" if epsilon is None else f", which is a budget of epsilon = {_rounded(epsilon, up=False):.3g}"
    times = f"{_rounded(factor, up=True):.3g}"
    text = f"multiply all noise by {times}{budget}: then everyone keeps at least {share}"
    return Change(kind=ChangeKind.NOISE, release=None, noise_factor=factor, epsilon=epsilon, text=text)


def _rounded(value: float, *, up: bool) -> float:
    """A value to three digits, on the safe side, so that the advice holds as it is printed.

    >>> _rounded(5.1301, up=True), _rounded(0.12399, up=False)
    (5.14, 0.123)
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    steps = math.ceil(value / step) if up else math.floor(value / step)
    return float(f"{steps * step:.3g}")


def noise_factor(findings: Findings, found: LinearFindings, limit: float) -> float | None:
    """A factor on all noise with which every record keeps the limit; the least up to 1 % if affordable.

    Enough noise against an attacker who knows all other records is enough; that is a closed form. From
    there a bisection goes down and ends on the safe side.
    """
    enough = _enough(findings, found, limit)
    design = found.linear.design
    if found.persons is not None:  # the closed form is for one value: audit it
        while enough is not None and lowest(findings, enough) < limit:
            enough = 2 * enough if 2 * enough <= _MOST else None
    if enough is None or design.row_count**3 + design.row_count * design.size > _SEARCHABLE:
        return enough
    return least_factor(lambda factor: lowest(findings, factor) >= limit, enough)


def least_factor(safe: Callable[[float], bool], enough: float, *, close: float = _CLOSE) -> float:
    """The least safe factor between 1 and one that is enough, from above.

    >>> 2.0 <= least_factor(lambda factor: factor >= 2.0, 1000.0) <= 2.02
    True
    """
    low, high = 1.0, enough
    while high > close * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if safe(middle) else (middle, high)
    return high


def lowest(findings: Findings, factor: float) -> float:
    """The least lower end of remaining uncertainty with all noise multiplied by a factor."""
    found = linear_findings(findings.plan, findings.membership, findings.pricing.scaled(factor))
    assert found is not None  # the plan has a linear part
    least = found.least
    assert least is not None  # the attacker does not know everyone
    return least.lower


def _enough(findings: Findings, found: LinearFindings, limit: float) -> float | None:
    rows = 1 if found.persons is None else int(found.persons.seen.kinds.rows_of_person.max())
    # Of any feature of a person at most this many times as much as of a row.
    information = rows * most_information(found.linear, found.exposures)
    pricing, prior = findings.pricing, findings.prior

    def safe(factor: float) -> bool:
        if findings.has_nonlinear:
            return prior.kept_whatever_is_published(pricing.multipliers * factor, pricing.law) >= limit
        kept = prior.kept(information=information / factor**2, law=pricing.law)
        return kept >= limit

    if not safe(_MOST):
        return None
    # Room for the roundings of the bound itself.
    return least_factor(safe, _MOST, close=1 + 1e-9) * (1 + 1e-9)


def epsilon_for(findings: Findings, factor: float) -> float | None:
    """The largest epsilon, up to 0.1 %, with which the plan's accountant asks for that much more noise."""
    plan, pricing = findings.plan, findings.pricing
    epsilon, delta = plan.privacy.epsilon, plan.privacy.delta or 1e-6
    if epsilon is None or pricing.releases == 0 or pricing.releases < pricing.multipliers.size:
        return None
    name, count = plan.privacy.accountant, pricing.releases

    def kappa(value: float) -> float:
        return accountants(Budget(epsilon=value, delta=delta))[name].kappa(count)

    wanted = kappa(epsilon) * factor**2
    low, high = epsilon, epsilon
    while kappa(low) < wanted:
        low /= 2
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kappa(middle) >= wanted else (low, middle)
    return low
