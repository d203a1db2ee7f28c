"""What if: audit the plan with other noise, without a release, or against another attacker.

Each setting is a plan of its own and goes through the same functions as an audit: prices, brackets, what was
not verified, verdict. Only the table is not read again, unless the attacker knows other rows. How many
settings are computed depends on the size of the design alone, so that equal plans give equal results:

1. every amount of noise under the plan's accountant, with no switch;
2. each switch at the plan's own noise;
3. every amount of noise under the other accountants, with no switch;
4. each switch at every amount of noise under the plan's accountant;
5. pairs of switches at the plan's own noise.

A step for which there is too much work is left out; the first is always there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.assumptions import unverified
from sightline.auditing.budget import proof_of_budget
from sightline.auditing.exposed import ExposedSection, distribution
from sightline.auditing.findings import Findings, LinearFindings, find
from sightline.auditing.homogeneous import Totals, homogeneous_cells
from sightline.auditing.plan import Plan, Release
from sightline.auditing.questions import question_text
from sightline.auditing.result_parts import NoiseStop, Setting, Switch, SwitchKind, WhatIf
from sightline.auditing.session import Session
from sightline.auditing.verdict import verdict
from sightline.errors import InvalidInput
from sightline.labeled.bounds.priors import NUMBER_PRIORS
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.registry import ACCOUNTANTS
from sightline.progress import Progress, silent
from sightline.tables.membership import Membership, Partition
from sightline.tables.published import without_queries
from sightline.tables.subject import SecretKind

_STOPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # of epsilon, or of the factor on the noise
# Operations for one setting besides those of its factorisations, and for all: some seconds.
_EACH, _PER_COLUMN, _MOST = 2e7, 2.3e4, 5e9
_PERSONS = 4  # times as much work for persons with several rows
_MOST_NUMBERS, _MOST_ENTRIES = 1_000, 3e7  # and kinds of people × numbers: some seconds for each setting
_MOST_ROWS = 1_000  # of a table with moments or thresholds, whose rows are factorised one by one

Answer = TypeVar("Answer")
_Key = tuple[int, tuple[int, ...]]  # a noise stop and the switches that are on


@dataclass(frozen=True, slots=True, kw_only=True)
class _Who:
    """The most exposed record of a setting, or records that nothing tells apart."""

    places: tuple[int, ...]  # of their signatures, or of their kind in the table of persons
    kind: bool
    count: int
    category: str
    knows: tuple[str, ...]  # the attacker's conditions: whom they know is not among them


def what_if(
    session: Session,
    findings: Findings,
    *,
    also: tuple[float, ...] = (),
    names: bool = False,
    progress: Progress = silent,
) -> WhatIf | None:
    """The settings of a plan that fit the work; none if ``why_no_what_if`` gives a reason.

    ``also`` are more stops for the slider, such as the noise that keeps the limit. ``names`` names records.
    """
    if why_no_what_if(findings) is not None:
        return None
    work = _work(findings)
    variants = _Variants(session=session, plan=findings.plan, membership=findings.membership)
    noises, own = _noises(findings, also)
    switches = _switches(findings.plan)
    chosen: list[_Key] = []
    done: set[_Step] = set()
    for name, step in _steps(noises, own, switches).items():
        if not chosen or (len(chosen) + len(step)) * work <= _MOST:
            chosen += step
            done.add(name)
    settings: list[Setting] = []
    worst: dict[_Who | str, int] = {}
    for place, (noise, on) in enumerate(chosen):
        progress("trying other settings", place / len(chosen))
        try:
            there = variants.findings(noises[noise], [switches[s] for s in on])
        except InvalidInput:  # an accountant that cannot price it, or noise that is no number
            continue
        totals = partial(variants.totals, [switches[s] for s in on])
        settings.append(_setting(there, totals, (noise, on), worst))
    return WhatIf(
        noises=noises,
        switches=switches,
        own_noise=own,
        settings=tuple(settings),
        worst=tuple(_words(who, variants if names else None) for who in worst),
        other_accountants=_Step.ACCOUNTANTS in done,
        single_switches=_Step.SWITCHES in done,
        switches_at_every_noise=_Step.EVERYWHERE in done,
        pairs=_Step.PAIRS in done,
    )


def why_no_what_if(findings: Findings) -> str | None:
    """Why a plan has no what-if; none if it has one."""
    plan, sharing = findings.plan, findings.pricing.releases
    parts = [one.linear for one in (findings, *findings.questions) if one.linear is not None]
    if not parts and not findings.has_nonlinear:
        return "nothing that is published depends on the secret"
    sizes = [(part.linear.row_count, len(part.people), part.others is None) for part in parts]
    if not all(n <= _MOST_NUMBERS and n * kinds <= _MOST_ENTRIES and whole for n, kinds, whole in sizes):
        return f"it has more than {_MOST_NUMBERS:,} numbers, or too many people for so many of them"
    if findings.has_nonlinear and findings.membership.rows > _MOST_ROWS:
        return f"it has moments or thresholds of more than {_MOST_ROWS:,} rows"
    if findings.pricing.strategies:
        return "its numbers share their noise"
    stated = [noise for release in plan.releases for noise in release.noise]
    if not sharing and any(one.epsilon for one in stated):
        return "its releases have budgets of their own"
    return None


def _work(findings: Findings) -> float:
    """About how many operations one setting takes."""
    work = _EACH
    for part in (findings, *findings.questions):
        if part.linear is not None:
            rows, several = part.linear.linear.row_count, part.linear.linear.rows_of_unit.max(initial=1) > 1
            alone = float(rows) ** 3 + _PER_COLUMN * len(part.linear.people)
            work += _PERSONS * (_EACH + alone) if several else alone
    if findings.has_nonlinear:
        work += len(findings.membership.cells) * float(findings.membership.rows) ** 2
    return work


class _Step(Enum):
    """The steps of the list at the top of this file."""

    NOISE = 1
    SWITCHES = 2
    ACCOUNTANTS = 3
    EVERYWHERE = 4
    PAIRS = 5


def _steps(noises: tuple[NoiseStop, ...], own: int, switches: tuple[Switch, ...]) -> dict[_Step, list[_Key]]:
    """The settings of every step."""
    mine = [n for n, one in enumerate(noises) if one.accountant == noises[own].accountant]
    pairs = [pair for pair in combinations(range(len(switches)), 2) if not _contradict(switches, pair)]
    return {
        _Step.NOISE: [(noise, ()) for noise in mine],
        _Step.SWITCHES: [(own, (switch,)) for switch in range(len(switches))],
        _Step.ACCOUNTANTS: [(noise, ()) for noise in range(len(noises)) if noise not in mine],
        _Step.EVERYWHERE: [(n, (switch,)) for n in mine if n != own for switch in range(len(switches))],
        _Step.PAIRS: [(own, pair) for pair in pairs],
    }


def _contradict(switches: tuple[Switch, ...], pair: tuple[int, ...]) -> bool:
    """Whether two switches cannot both be on: two priors, or no release left."""
    kinds = [switches[s].kind for s in pair]
    releases = sum(one.kind is SwitchKind.LEAVE_OUT for one in switches)
    return kinds == [SwitchKind.PRIOR] * 2 or (kinds == [SwitchKind.LEAVE_OUT] * 2 and releases == 2)


def _switches(plan: Plan) -> tuple[Switch, ...]:
    """Every release that can be left out, every condition, and every other prior of a number."""
    releases = [Switch(kind=SwitchKind.LEAVE_OUT, name=one.name) for one in plan.releases]
    known = [Switch(kind=SwitchKind.DOES_NOT_KNOW, name=text) for text in plan.attacker.conditions]
    priors = [
        Switch(kind=SwitchKind.PRIOR, name=name) for name in NUMBER_PRIORS if name != plan.attacker.prior
    ]
    number = plan.data.secret_kind is SecretKind.NUMBER
    return (*(releases if len(releases) > 1 else ()), *known, *(priors if number else ()))


def _noises(findings: Findings, also: tuple[float, ...]) -> tuple[tuple[NoiseStop, ...], int]:
    """The stops of the slider, under each accountant, and the plan's own."""
    plan, sharing = findings.plan, findings.pricing.releases
    if sharing == 0:
        factors = sorted({*_STOPS, *also})
        return tuple(NoiseStop(accountant=None, epsilon=None, factor=f) for f in factors), factors.index(1.0)
    own = plan.privacy.epsilon
    assert own is not None  # releases share it
    all_priced = not any(release.noise_given for release in plan.releases)
    names = [
        name
        for name, entry in ACCOUNTANTS.items()
        if (entry.law is NoiseLaw.GAUSSIAN or all_priced)
        and (plan.privacy.delta is not None or not entry.uses_delta)
    ]
    epsilons = sorted({*_STOPS, *also, own})
    stops = [NoiseStop(accountant=name, epsilon=one, factor=None) for name in names for one in epsilons]
    mine = (plan.privacy.accountant, own)
    return tuple(stops), [(one.accountant, one.epsilon) for one in stops].index(mine)


def _with_budget(plan: Plan, accountant: str, epsilon: float) -> Plan:
    privacy = plan.privacy.model_copy(update={"accountant": accountant, "epsilon": epsilon})
    return plan.model_copy(update={"privacy": privacy})


def _scaled(release: Release, factor: float) -> Release:
    """The release with its own noise times a factor."""
    if release.noise_stddev is not None:
        return release.model_copy(update={"noise_stddev": release.noise_stddev * factor})
    return release.model_copy(update={"noise": tuple(one.times(factor) for one in release.noise)})


def changed_plan(plan: Plan, noise: NoiseStop, switches: list[Switch]) -> Plan:
    """The plan of a setting: an audit of it says what the setting says."""
    if noise.factor is not None:
        releases = tuple(_scaled(release, noise.factor) for release in plan.releases)
        plan = plan.model_copy(update={"releases": releases})
    elif noise.accountant is not None and noise.epsilon is not None:
        plan = _with_budget(plan, noise.accountant, noise.epsilon)
    for switch in switches:
        match switch.kind:
            case SwitchKind.LEAVE_OUT:
                kept = tuple(one for one in plan.releases if one.name != switch.name)
                plan = plan.model_copy(update={"releases": kept})
            case SwitchKind.DOES_NOT_KNOW | SwitchKind.PRIOR:
                plan = plan.model_copy(update={"attacker": _attacker(plan, switch)})
    return plan


def _attacker(plan: Plan, switch: Switch) -> object:
    attacker = plan.attacker
    knows = tuple(text for text in attacker.knows if text != switch.name)
    changed = {"prior": switch.name} if switch.kind is SwitchKind.PRIOR else {"knows": knows}
    return attacker.model_copy(update=changed)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Variants:
    """The memberships, sums and values for every attacker, each fetched once."""

    session: Session
    plan: Plan
    membership: Membership  # against the plan's own attacker
    fetched: dict[tuple[str, tuple[str, ...], Partition | None], Any] = field(default_factory=dict)

    def findings(self, noise: NoiseStop, switches: list[Switch]) -> Findings:
        """The findings of one setting, as an audit has them."""
        plan = changed_plan(self.plan, noise, switches)
        kept = {release.name for release in plan.releases}
        gone = {place for place, release in enumerate(self.plan.releases) if release.name not in kept}
        membership = without_queries(self._against(plan), gone)
        return find(plan, membership, values=lambda: self._once("values", plan, Session.values))

    def totals(self, switches: list[Switch], question: Partition | None) -> FloatArray:
        """The sums of the secrets that the attacker of a setting does not know, or of the answers."""
        plan = changed_plan(self.plan, _NO_NOISE, switches)
        return self._once("sums", plan, lambda session: session.totals(question), question)

    def name(self, who: _Who) -> str:
        """The keys of the most exposed."""
        attacker = self.plan.attacker.model_copy(update={"knows": who.knows})
        plan = self.plan.model_copy(update={"attacker": attacker})
        keys = replace(self.session, plan=plan).keys(self._against(plan))
        found = (keys.of_kinds if who.kind else keys.of_signatures)(who.places)
        text = ", ".join(sorted({key for own in found.values() for key in own}))
        return f"{text}, {who.category}" if who.category else text

    def _against(self, plan: Plan) -> Membership:
        if plan.attacker.knows == self.plan.attacker.knows:
            return self.membership
        return self._once("membership", plan, Session.membership)

    def _once(
        self, what: str, plan: Plan, ask: Callable[[Session], Answer], question: Partition | None = None
    ) -> Answer:
        """What the table says against the attacker of a plan, with all releases."""
        if (key := (what, plan.attacker.knows, question)) not in self.fetched:
            everything = plan.model_copy(update={"releases": self.plan.releases})
            self.fetched[key] = ask(replace(self.session, plan=everything))
        found: Answer = self.fetched[key]
        return found


_NO_NOISE = NoiseStop(accountant=None, epsilon=None, factor=None)


def _setting(findings: Findings, totals: Totals, key: _Key, worst: dict[_Who | str, int]) -> Setting:
    """What the audit says of one setting."""
    found = findings.linear
    section = ExposedSection(
        exposed=(),
        columns=np.zeros(0, dtype=np.intp),
        exposed_in_all=0,
        identifiable_records=0 if found is None else found.identifiable_records,
    )
    judged = verdict(
        findings,
        section,
        unverified(findings, homogeneous_cells(findings, totals)),
        publishable=False,
    )
    (least, question), noise = findings.least_about, findings.pricing.noise_stddev
    who: _Who | str | None = None
    if question is not None:
        who = f"one record, about {question_text(question, findings.plan.data.secret)}"
    elif least is not None:
        who = "one record" if found is None else _worst(found, findings.plan.attacker.knows)
    return Setting(
        noise=key[0],
        switches=key[1],
        status=None if judged.status is None else judged.status.value,
        proven=proof_of_budget(findings.plan, findings.membership, findings.pricing)[0],
        below_limit=judged.below_limit,
        lower=None if least is None else least.lower,
        upper=None if least is None else least.upper,
        worst=None if who is None else worst.setdefault(who, len(worst)),
        records=distribution(findings).records,
        least_noise_stddev=float(noise.min()) if noise.size else None,
        most_noise_stddev=float(noise.max()) if noise.size else None,
    )


def _worst(found: LinearFindings, knows: tuple[str, ...]) -> _Who:
    """The most exposed: the one whose bracket the audit states; of several, in the order of its list."""
    alike = np.flatnonzero(found.lower == found.lower.min())
    column = int(alike[np.lexsort((found.group_rmse(alike), found.upper[alike]))[0]])
    return _Who(
        places=tuple(found.linear.records_of(column).tolist()),
        kind=found.linear.by_kind,
        count=int(found.counts[column]),
        category=found.linear.category(column) or "",
        knows=knows,
    )


def _words(who: _Who | str, named_by: _Variants | None) -> str:
    """Who it is: by key if that was asked for, else how many are alike.

    Of persons, where a release is left out, more may be alike than are of one kind.
    """
    if isinstance(who, str):
        return who
    if named_by is not None:
        return named_by.name(who)
    alone = who.count == 1 or who.kind
    text = "one record" if alone else f"one of {who.count:,} records that nothing tells apart"
    return f"{text}, {who.category}" if who.category else text
