"""From a task to noise that the audit passes: the method proposes, the audit certifies.

With a common factor, and with the least loss. The optimiser need not be trusted. A search for noise of which
none within the ceilings is enough ends with ``NotEnough``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sightline.advising.choice import Chosen, Targets, best_noise, common_guess, targets_of
from sightline.advising.crowd_limits import attack_limits
from sightline.advising.least_noise import NEARLY, TOLERANCE, NotEnough, if_enough
from sightline.advising.noise_slack import MOST_FACTOR, Search, least_factor, log_odds
from sightline.advising.shared_bound import shared_bound
from sightline.advising.task import DesignTask, lowest, rounded_up
from sightline.arrays import NOTICEABLE, ROUNDING, FloatArray
from sightline.auditing.findings import LinearFindings
from sightline.progress import report

_OVERSHOOT = 4.0  # what remains rises more slowly than the noise
_RAISED_ALONE = 2.0
_ROUNDINGS = 6  # that are tried between up and down
# Audits with less noise than all genies at once allow: so many, the nearest steps of its logarithm, and which
# share of what linear attacks allow is tried next.
_TRIES, _FINEST_STEP, _AT = 5, 0.01, 0.4
_WALKED = 250  # kinds of persons for whom walks are tried: for more each audit would take half a minute
# A design for the fit ends this close to its lower bound, when a round gains less than this share of the loss
# (the first where the bound is within the third, and the second where nothing is proved), or after so many.
_CLOSE, _STILL, _UNPROVED, _NEAR_BOUND, _MOST_FITS = 1e-6, 1e-7, 1e-4, 0.1, 60
_STILL_IN_CROWD = 3e-3  # the same where audits with less noise come after it
_PROVED = 1e-2  # a gap above which a bound by shared noise is looked for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certified:
    """Standard deviations of all cells with which the audit finds nobody below the limit."""

    stddevs: FloatArray
    audits: int  # 0 if only estimates say so
    findings: LinearFindings | None = None  # what the audit finds, if it was kept
    walked: bool = False  # whether it takes walks to find it


def certified(task: DesignTask, factors: FloatArray) -> Certified:
    """The least common factor on the chosen noise with which the audit passes.

    ``factors`` are variances over their floors. A factor above 1 closes what rounding and the solver's
    tolerance left open. A factor below 1 is tried where the audit has a better bound than the one that was
    chosen.
    """
    factors = np.where(factors < 1 + NOTICEABLE, 1.0, factors)  # the method ends a little above the floors
    raised, most, paid = factors > 1, task.most_factors, task.paid.cells

    def noise(factor: float) -> FloatArray:
        # The noise of other numbers stays as it is, unless more noise on the raised ones does not help. What
        # the budget pays for stays within the budget.
        mine = (raised | (factor > _RAISED_ALONE)) & ~(paid & (factor < 1))
        return task.stddevs(np.clip(np.where(mine, factors * factor, factors), 1.0, most))

    factor = _by_estimates(task, noise, least=1 / MOST_FACTOR if np.any(raised & ~paid) else 1.0)
    return _audited(task, noise, factor if task.findings.repeatable else factor * (1 + TOLERANCE))


def as_low_as_passes(task: DesignTask, proof: Certified) -> Certified:
    """The noise of a proof over a factor with which the audit still passes: each try is an audit.

    The audit has bounds for few values that are not smooth in the noise, as walks. All noise above its floors
    is lowered alike, as far as the budget and the best linear attack let it, and less of it again and again.
    """
    chosen = task.free & (proof.stddevs > task.floor * (1 + NOTICEABLE))
    if task.crowd is None or not chosen.any():
        return proof
    walked = task.crowd.person.size <= _WALKED
    attacks = attack_limits(task.linear, task.crowd.units, task.limit)

    def lowered(step: float) -> FloatArray:
        less = np.maximum(proof.stddevs * math.exp(-step), task.floor)
        return np.where(chosen, np.array([rounded_up(value) for value in less.tolist()]), proof.stddevs)

    def possible(step: float) -> bool:
        stddevs = lowered(step)
        if task.paid.cost(stddevs) > task.paid.most:
            return False
        seen = attacks.at(1 / (stddevs[task.linear.cells] ** 2 * task.row_unit))
        return float(seen.shares.max(initial=0.0)) <= 1

    low, high = 0.0, math.log(float(np.max((proof.stddevs / task.floor)[chosen])))
    while high - low > _FINEST_STEP and not possible(high):
        low, high = (middle, high) if possible(middle := (low + high) / 2) else (low, middle)
    best, low, high = proof, 0.0, (low + high) / 2
    for attempt in range(_TRIES):
        if high - low < _FINEST_STEP:
            break
        report("auditing with less noise", attempt / _TRIES)
        stddevs = lowered(step := low + (high - low) * _AT)
        findings = task.audited(stddevs, walked=walked)
        if lowest(findings) >= task.limit:
            audits = best.audits + 1
            best, low = Certified(stddevs=stddevs, audits=audits, findings=findings, walked=walked), step
        else:
            high = step
    return best


def certified_common(task: DesignTask, guess: float) -> Certified:
    """The least common factor on all noise with which the audit passes, by the bounds of the estimates.

    The audit has more bounds for a yes or no, and may pass with less noise. ``guess`` is enough against an
    attacker who knows all other records. For plans that are too large to be audited for a rival, quick
    estimates decide where there are some.
    """

    def noise(factor: float) -> FloatArray:
        return task.times_common(guess * factor)

    factor = _by_estimates(task, noise, least=1 / guess, noticeable=ROUNDING) if guess > 1 else 1.0
    if task.findings.repeatable or not task.estimated:
        return _audited(task, noise, factor)
    return Certified(stddevs=noise(factor), audits=0)


def proportional(task: DesignTask) -> tuple[FloatArray, ...]:
    """Noise in proportion to sensitivity, or the floor where that is more: another rival, by estimates.

    With one factor a release, in proportion to its largest sensitivity over its floor. Nothing if no factor
    is enough, or if there are no quick estimates.
    """
    if not task.estimated or not task.findings.repeatable:
        return ()
    free, ratio = task.free, (task.sensitivity / task.floor) ** 2
    largest = np.zeros(task.variables)
    np.maximum.at(largest, task.variable[free], ratio[free])
    each = np.where(free, np.append(largest, 0.0)[task.variable], 0.0)
    each /= each.max()

    def noise(factor: float) -> FloatArray:
        return task.stddevs(np.clip(each * (factor * MOST_FACTOR), 1.0, task.most_factors))

    return tuple(map(noise, if_enough(lambda: _by_estimates(task, noise, least=1 / MOST_FACTOR))))


def audited_or_more(task: DesignTask, stddevs: FloatArray) -> Certified:
    """Noise that the audit passes, from noise that passes by the estimates."""
    for extra in (0.0, ROUNDING, 1e-6):
        more = np.where(task.free, np.minimum(stddevs * (1 + extra), task.most), stddevs)
        findings = task.audited(more)
        if lowest(findings) >= task.limit:
            return Certified(stddevs=more, audits=1, findings=findings)
    raise NotEnough("expected noise that the audit passes, got less")


def in_digits(task: DesignTask, found: Solution, digits: int | None) -> Solution:
    """The same with noise rounded to some digits where it was chosen, if the audit passes with it.

    As many numbers are rounded down as the limit and the budget allow, first those that rounding up would
    change most. More noise may only help; a bound of the audit that says otherwise keeps the noise as it was
    found. The common factor's noise is rounded up, too, and is proposed where rounding makes it the cheaper
    one.
    """
    if digits is None:
        return found
    common = replace(found.common, stddevs=_rounded(task, found.common.stddevs, digits, up_from=0.0))
    stddevs, best, low, high = found.proof.stddevs, 0.0, 0.0, 1.0
    if task.crowd is not None:  # the audit knows better than estimates: to the nearest, or up
        best, low = 0.5, 1.0
    for _ in range(_ROUNDINGS if low < high else 0):
        middle = (low + high) / 2
        tried = _rounded(task, stddevs, digits, up_from=middle)
        if task.paid.cost(tried) <= task.paid.most and task.estimate(tried) >= task.limit:
            best = low = middle
        else:
            high = middle
    each = [_rounded(task, stddevs, digits, up_from=share) for share in dict.fromkeys((best, 0.0))]
    within = bool(np.all((common.stddevs <= task.most) | ~task.free))
    if within and task.total(common.stddevs) < task.total(each[0]):
        each = [common.stddevs]
    for audits, rounded in enumerate(each, start=1):
        walked = found.proof.walked
        findings = task.audited(rounded, walked=walked)
        if lowest(findings) >= task.limit and task.paid.cost(rounded) <= task.paid.most:
            audits += found.proof.audits
            proof = Certified(stddevs=rounded, audits=audits, findings=findings, walked=walked)
            return replace(found, common=common, proof=proof)
    return found


def _rounded(task: DesignTask, stddevs: FloatArray, digits: int, *, up_from: float) -> FloatArray:
    """Noise that was chosen, rounded to some digits: up from a share of the way to the next number on."""
    up = np.array([rounded_up(value, digits) for value in stddevs.tolist()])
    step = 10.0 ** (np.floor(np.log10(stddevs)) + 1 - digits)
    down = np.array([float(f"{value:.{digits}g}") for value in (up - step).tolist()])
    lower = ((stddevs - down) / step < up_from) & (down >= task.floor) & (down > 0)
    chosen = task.free & (stddevs != task.before)
    return np.where(chosen, np.minimum(np.where(lower, down, up), task.most), stddevs)


def by_the_audit_alone(task: DesignTask) -> Certified:
    """Noise up to the ceilings with which the audit passes, although no bound of the design shows it.

    The audit of a small plan has one more bound. The noise lies between floors and ceilings, all numbers as
    far up as each other.
    """
    most = np.minimum(task.most_factors, MOST_FACTOR)

    def audited(share: float) -> Certified:
        stddevs = task.stddevs(most**share)
        findings = task.audited(stddevs)
        if lowest(findings) < task.limit:
            raise NotEnough("expected noise that the audit passes, got less")
        return Certified(stddevs=stddevs, audits=1, findings=findings)

    best, low, high = audited(1.0), 0.0, 1.0
    while high - low > NOTICEABLE:
        middle = 0.5 * (low + high)
        found = if_enough(partial(audited, middle))
        best, low, high = (found[0], low, middle) if found else (best, middle, high)
    return best


def _audited(task: DesignTask, noise: Callable[[float], FloatArray], factor: float) -> Certified:
    """The least noise of a family from a factor on with which the audit passes."""
    limit, audits = task.limit, 0
    least = ROUNDING if task.findings.repeatable else TOLERANCE
    while factor <= MOST_FACTOR:
        audits += 1
        findings = task.audited(noise(factor))
        if (found := lowest(findings)) >= limit:
            return Certified(stddevs=noise(factor), audits=audits, findings=findings)
        short = min(limit / found - 1, 1.0) if found > 0 else 1.0
        factor *= 1 + max(least, _OVERSHOOT * short)
    raise NotEnough("expected noise that the audit passes, got less")


def _by_estimates(
    task: DesignTask,
    noise: Callable[[float], FloatArray],
    *,
    least: float,
    noticeable: float = NOTICEABLE,
) -> float:
    """The least factor on the variances from ``least`` on with which the estimates keep the limit.

    Less noise is tried where there is ``noticeable`` room above the limit.
    """

    def kept(factor: float) -> float:
        return task.estimate(noise(factor**2))

    now, close = kept(1.0), ROUNDING if task.findings.repeatable else NEARLY
    if task.crowd is not None and task.crowd.person.size > _WALKED:
        close = _FINEST_STEP / 10  # each try takes a second, and audits come after it
    room = log_odds(now) - log_odds(task.limit) if now != task.limit else 0.0
    if room >= 0 and (room < noticeable or least >= 1):
        return 1.0
    digits = sys.float_info.dig  # what the factor multiplies is rounded later
    search = Search(least=math.sqrt(least), most=math.sqrt(MOST_FACTOR), digits=digits, close=close)
    found = least_factor(kept, task.limit, now=now, search=search)
    if found is None:
        raise NotEnough("expected a factor on the noise that keeps the limit, got none")
    return found**2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """Noise that the audit passes, and what the solver says about it."""

    common: Certified  # with the least common factor
    chosen: tuple[Chosen, ...]  # the optimum for the chosen bounds; none where only the audit knows enough
    proof: Certified  # the noise to propose
    loss_at_least: float | None  # no noise passes with less by the chosen bounds; none if the audit does


def solve(task: DesignTask) -> Solution:
    """The least noise with which everyone keeps the limit; ``NotEnough`` if none within the ceilings does.

    Where the fit is published, the weights are those of the noisy numbers in the fit.
    """
    raw, targets = replace(task, fitted=None), targets_of(task)
    report("trying a common factor", 0.0)
    common = certified_common(raw, common_guess(raw, targets))
    starts = [_within(raw, one) for one in (common.stddevs, *proportional(raw))]
    chosen = if_enough(lambda: best_noise(raw, targets, starts))
    bound = 0.0
    if task.fitted is not None and chosen:
        raw, best, bound = _for_the_fit(task, targets, starts, chosen[0])
        chosen = (best,)
    report("auditing the proposal", 0.0)
    at_least = math.inf
    proofs = [] if chosen else list(if_enough(lambda: by_the_audit_alone(raw)))
    for best in chosen:
        at_least = best.optimum.lower
        proofs += if_enough(partial(certified, raw, raw.factors(best.optimum.u)))
    for rival in starts:
        within = bool(np.all((rival <= task.most) | ~task.free))
        if within and all(task.total(rival) < task.total(one.stddevs) * (1 - ROUNDING) for one in proofs):
            proofs += if_enough(partial(audited_or_more, raw, rival))
    if not proofs:
        raise NotEnough("expected noise that the audit passes, got less")
    proofs.append(as_low_as_passes(raw, proofs[-1]))
    stddevs = proofs[-1].stddevs
    proven = _proven(raw, at_least, raw.total(stddevs))
    if task.fitted is not None:
        proven = _proven_for_the_fit(task, chosen, stddevs, bound)
    return Solution(common=common, chosen=chosen, proof=proofs[-1], loss_at_least=proven)


def _for_the_fit(
    task: DesignTask, targets: Targets, starts: list[FloatArray], best: Chosen
) -> tuple[DesignTask, Chosen, float]:
    """The task with the weights of the noisy numbers in the fit, its least noise, and a lower bound.

    From the least noise for raw numbers on, the loss after the fit goes down from round to round.
    """
    assert task.fitted is not None
    fitted, raw, last, ahead = task.fitted, replace(task, fitted=None), task.weights, 0.0

    def noise(chosen: Chosen) -> FloatArray:
        return task.stddevs(np.clip(task.factors(chosen.optimum.u), 1.0, task.most_factors))

    loss, bound = task.total(noise(best)), 0.0
    for attempt in range(_MOST_FITS):
        report("fitting", attempt / _MOST_FITS)
        weights = fitted.weights(noise(best))
        further = weights * np.clip(weights / last, 1e-3, 1e3) ** ahead  # as the last step went
        other = replace(raw, weights=further)
        near = starts[:1] if task.crowd is None else [noise(best)]
        found = if_enough(partial(best_noise, other, targets, near))
        now = min((task.total(noise(one)) for one in found), default=math.inf)
        if now >= loss and ahead:
            ahead = 0.0  # too far: one step as it is
            continue
        if now >= loss:
            break
        gained = 1 - now / loss
        loss, raw, best, last, ahead = now, other, found[0], weights, 1.0
        bound = max(bound, fitted.at_least(noise(best), task.floor, task.paid) or 0.0)
        still = _STILL if bound >= loss * (1 - _NEAR_BOUND) else _UNPROVED
        still = still if task.crowd is None else _STILL_IN_CROWD
        if bound >= loss * (1 - _CLOSE) or gained < still:
            break
    return raw, best, bound


def _proven_for_the_fit(
    task: DesignTask, chosen: tuple[Chosen, ...], stddevs: FloatArray, bound: float
) -> float | None:
    """The lower bound on the loss after the fit: by the budget, or by noise that all numbers share."""
    assert task.fitted is not None
    total = task.total(stddevs)
    bound = max(bound, task.fitted.at_least(stddevs, task.floor, task.paid) or 0.0)
    for one in chosen if bound < total * (1 - _PROVED) else ():
        report("looking for a lower bound", 0.0)
        shared = shared_bound(task, one)
        if shared <= total * (1 + ROUNDING):  # else the audit passes with less than the chosen bounds ask for
            bound = max(bound, shared)
    return min(bound, total) if bound > 0 else None


def _proven(task: DesignTask, at_least: float, total: float) -> float | None:
    """The lower bound; none where the audit passes with less, or judges persons by several rows."""
    left_out = task.several_rows and task.several_categories
    if left_out or at_least > total * (1 + ROUNDING):
        return None
    return min(at_least, total)


def _within(task: DesignTask, stddevs: FloatArray) -> FloatArray:
    """Noise to start from: a common factor's, or the ceilings where that is too much."""
    above = bool(np.any((stddevs > task.most) & task.free))
    return np.where(task.free & np.isfinite(task.most), task.most, stddevs) if above else stddevs
