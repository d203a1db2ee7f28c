"""The section on what to change: which release to drop or merge, and how much noise meets the limit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sightline.auditing.brackets import assess, most_information
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.result import Change, ChangeKind, Exposed, ReleaseReport
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.budget import Budget
from sightline.privacy.registry import accountants
from sightline.progress import silent

# Up to this much work for one assessment (numbers³ + numbers × columns) a search over a dozen takes seconds.
_SEARCHABLE = 2e9
_CLOSE = 1.01  # the factor is found up to 1 %, from above
_MOST = 1e12  # a factor beyond which more noise changes nothing


def remedies(
    findings: Findings, releases: tuple[ReleaseReport, ...], exposed: tuple[Exposed, ...]
) -> tuple[Change, ...]:
    """The changes worth making, the mildest first; none of them hides anyone better than the limit asks."""
    found, pricing = findings.linear, findings.pricing
    changes = [
        _publish_once(report, shared=pricing.releases > 0)
        for report in releases
        if report.copy_of is not None
    ]
    if found is None or (found.limit is not None and not found.below_limit):
        return tuple(changes)
    changes += _separate(exposed)
    helpful = [r for r in releases if r.exposes_alone and len(releases) > 1]
    changes += [_drop(r) for r in sorted(helpful, key=lambda r: -(r.exposes_alone or 0))[:3]]
    if found.limit is not None:
        changes.append(_more_noise(findings, found, found.limit))
    return tuple(changes)


def _publish_once(report: ReleaseReport, *, shared: bool) -> Change:
    cost = "sharpens what is seen" if report.noise_given or not shared else "takes a share of the budget"
    text = f'do not publish "{report.name}": it repeats "{report.copy_of}", opens nothing new and {cost}'
    return Change(kind=ChangeKind.MERGE, release=report.name, noise_factor=None, epsilon=None, text=text)


def _separate(exposed: tuple[Exposed, ...]) -> list[Change]:
    """Numbers that single out one record by themselves, or in twos."""
    changes, seen = [], set()
    for one in exposed:
        steps = one.shortest.steps if one.shortest is not None else ()
        named = sorted(
            (_name(s.release, s.cell), _name(s.release, s.publishable_cell or s.cell)) for s in steps
        )
        if not named or tuple(named) in seen:
            continue
        seen.add(tuple(named))
        whom = "one record" if one.size == 1 else f"{one.size} records that nothing else tells apart"
        text, publishable = (_separation(names, whom) for names in zip(*named, strict=True))
        changes.append(
            Change(
                kind=ChangeKind.COARSEN if len(named) == 1 else ChangeKind.MERGE,
                release=steps[0].release,
                noise_factor=None,
                epsilon=None,
                text=text,
                publishable_text=publishable if publishable != text else None,
            )
        )
    return changes[:5]


def _name(release: str, cell: str) -> str:
    return f"{release}: {cell}" if cell else release


def _separation(names: tuple[str, ...], whom: str) -> str:
    if len(names) == 1:
        return f'merge "{names[0]}" with another group: it holds {whom}'
    return f'publish only one of "{names[0]}" and "{names[1]}": they differ by {whom}'


def _drop(report: ReleaseReport) -> Change:
    count = report.exposes_alone or 0
    are = "s are" if count > 1 else " is"
    text = f'drop "{report.name}": without it {count} record{are} no longer identifiable'
    return Change(kind=ChangeKind.DROP, release=report.name, noise_factor=None, epsilon=None, text=text)


def _more_noise(findings: Findings, found: LinearFindings, limit: float) -> Change:
    factor = noise_factor(found, limit)
    share = f"{100 * limit:.4g} %"
    if factor is None:
        text = f"no amount of this noise is proven to keep {share}: lower the limit or use Gaussian noise"
        return Change(kind=ChangeKind.NOISE, release=None, noise_factor=None, epsilon=None, text=text)
    epsilon = epsilon_for(findings, factor)
    budget = "" if epsilon is None else f", which is a budget of epsilon = {epsilon:.3g}"
    text = f"multiply all noise by {factor:.3g}{budget}: then everyone keeps at least {share}"
    return Change(kind=ChangeKind.NOISE, release=None, noise_factor=factor, epsilon=epsilon, text=text)


def noise_factor(found: LinearFindings, limit: float) -> float | None:
    """A factor on all noise with which no record is below the limit; the least up to 1 % if affordable.

    Enough noise against an attacker who knows all other records is enough; that is a closed form. From
    there a bisection goes down and ends on the safe side.
    """
    enough = _enough(found, limit)
    design = found.linear.design
    if enough is None or design.row_count**3 + design.row_count * design.size > _SEARCHABLE:
        return enough
    return least_factor(lambda factor: lowest(found, factor) >= limit, enough)


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


def lowest(found: LinearFindings, factor: float) -> float:
    """The least lower end of remaining uncertainty with all noise multiplied by a factor."""
    linear = found.linear.with_noise(found.linear.design.law.scaled(factor))
    return float(np.nanmin(assess(linear, silent).remaining_lower))


def _enough(found: LinearFindings, limit: float) -> float | None:
    information, loss = most_information(found.linear, found.exposures)
    law = NoiseLaw.LAPLACE if found.linear.design.law.excess > 1 else NoiseLaw.GAUSSIAN
    prior = found.linear.prior

    def safe(factor: float) -> bool:
        return prior.kept(information=information / factor**2, loss=loss / factor, law=law) >= limit

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
