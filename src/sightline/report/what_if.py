"""The what-if of the page: settings that were audited beforehand, to choose from offline.

The page shows what is stored and computes nothing but the heights of bars. Every number is written as text
here. A combination that was not computed is shown as such.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.auditing.result import AuditResult, Uncertainty, VerdictStatus
from sightline.auditing.result_parts import NoiseStop, Setting, Switch, SwitchKind, WhatIf
from sightline.format import count, number, parameter, percent
from sightline.report.wording import one_line, short

_ASSETS = Path(__file__).parent / "assets"
_VERDICTS: dict[str | None, str] = {
    VerdictStatus.PASSED.value: "The limit holds",
    VerdictStatus.FAILED.value: "Below the limit",
    VerdictStatus.NOT_SHOWN.value: "The limit is not shown to hold",
    None: "No limit was set",
}
_PRIORS = {
    "uniform": "believes that values are spread evenly",
    "cos2": "believes that values are likelier in the middle",
    "two-point": "believes that values are at either end",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One setting as the page words it."""

    verdict: str
    good: bool | None
    below: str
    keeps: str
    worst: str
    noise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfPart:
    """What the page's template, style and script need; all empty without a what-if."""

    css: str = ""
    script: str = ""
    present: bool = False
    why_none: str = ""  # if it was asked for and is not there
    accountants: tuple[str, ...] = ()  # empty where the slider is a factor on the noise
    own_accountant: int = 0
    stops: tuple[str, ...] = ()
    own_stop: int = 0
    releases: tuple[tuple[int, str], ...] = ()  # switches: their numbers and their words
    attackers: tuple[tuple[int, str], ...] = ()
    own: Shown | None = None
    limit: float | None = None
    edges: tuple[float, ...] = ()
    by_noise: tuple[tuple[str, Shown], ...] = ()
    by_switch: tuple[tuple[str, Shown], ...] = ()
    computed: tuple[str, ...] = ()
    data: str = field(default="", repr=False)


def what_if_part(result: object) -> WhatIfPart:
    """The what-if of an audit's page; an empty one for a result without."""
    if not isinstance(result, AuditResult):
        return WhatIfPart()
    if result.what_if is None:
        return WhatIfPart(why_none=result.no_what_if or "")
    found, each = result.what_if, " in each period" if result.budget.periods > 1 else ""
    settings = {(one.noise, one.switches): one for one in found.settings}
    own = settings[found.own_noise, ()]
    accountants = tuple(
        dict.fromkeys(one.accountant for one in found.noises if one.accountant and _computed(found, one))
    )
    mine = found.noises[found.own_noise]
    stops = tuple(_stop(one, each) for one in found.noises if one.accountant == mine.accountant)
    switches = [_words(one) for one in found.switches] if found.single_switches else []
    leave_out = [one.kind is SwitchKind.LEAVE_OUT for one in found.switches]
    return WhatIfPart(
        css=_asset("what_if.css"),
        script=_asset("what_if.js"),
        present=True,
        accountants=accountants,
        own_accountant=accountants.index(mine.accountant) if mine.accountant else 0,
        stops=stops,
        own_stop=stops.index(_stop(mine, each)),
        releases=tuple((n, text) for n, text in enumerate(switches) if leave_out[n]),
        attackers=tuple((n, text) for n, text in enumerate(switches) if not leave_out[n]),
        own=_shown(result, own),
        limit=result.verdict.limit,
        edges=result.distribution.edges,
        by_noise=tuple(
            (_noise(one, each) + _doubt(one, settings[place, ()]), _shown(result, settings[place, ()]))
            for place, one in enumerate(found.noises)
            if (place, ()) in settings
        ),
        by_switch=tuple(
            (text, _shown(result, settings[found.own_noise, (place,)]))
            for place, text in enumerate(switches)
            if (found.own_noise, (place,)) in settings
        ),
        computed=_what_was_computed(found, accountants),
        data=_data(result, accountants, stops, each),
    )


def setting_key(accountant: int, stop: int, switches: tuple[int, ...]) -> str:
    """The name of a setting in the page's data.

    >>> setting_key(0, 3, (1, 4))
    '0/3/1.4'
    """
    return f"{accountant}/{stop}/{'.'.join(map(str, switches))}"


def _computed(found: WhatIf, noise: NoiseStop) -> bool:
    return found.other_accountants or noise.accountant == found.noises[found.own_noise].accountant


def _shown(result: AuditResult, setting: Setting) -> Shown:
    worst, noise = "nobody", "none"
    keeps = "everything: no number depends on an unknown secret"
    if setting.lower is not None and setting.upper is not None:
        keeps = str(Uncertainty(lower=setting.lower, upper=setting.upper))
    if setting.worst is not None and result.what_if is not None:
        worst = short(result.what_if.worst[setting.worst], 80)
    if setting.least_noise_stddev is not None and setting.most_noise_stddev is not None:
        ends = dict.fromkeys(number(end) for end in (setting.least_noise_stddev, setting.most_noise_stddev))
        noise = " to ".join(ends) + _accuracy(result, setting)
    good = None if setting.status is None else setting.status == VerdictStatus.PASSED.value
    below = "" if setting.status is None else f"{setting.below_limit:,} of {count(result.records, 'record')}"
    return Shown(
        verdict=_VERDICTS[setting.status], good=good, below=below, keeps=keeps, worst=worst, noise=noise
    )


def _accuracy(result: AuditResult, setting: Setting) -> str:
    """How large the noise is beside the numbers themselves, where all of it has changed by one factor."""
    found = result.what_if
    errors = [one.accuracy.median_relative_error for one in result.releases if one.accuracy is not None]
    if found is None or not errors or setting.switches:
        return ""
    own = next(one for one in found.settings if one.noise == found.own_noise and not one.switches)
    ends = [
        (own.least_noise_stddev, setting.least_noise_stddev),
        (own.most_noise_stddev, setting.most_noise_stddev),
    ]
    factors = [now / before for before, now in ends if now and before]
    if len(factors) < 2 or not math.isclose(*factors, rel_tol=1e-6):
        return ""
    shares = dict.fromkeys(percent(factors[0] * one) for one in (min(errors), max(errors)))
    return f"; {' to '.join(shares)} of a release's median number"


def _data(result: AuditResult, accountants: tuple[str, ...], stops: tuple[str, ...], each: str) -> str:
    """The settings as JSON that can neither close the HTML element around it nor open another."""
    found = result.what_if
    assert found is not None  # there is a part only for a result with one
    texts: dict[str, int] = {}
    settings = {}
    for one in found.settings:
        noise = found.noises[one.noise]
        place = accountants.index(noise.accountant) if noise.accountant else 0
        key = setting_key(place, stops.index(_stop(noise, each)), one.switches)
        shown = _shown(result, one)
        words = (shown.verdict, shown.below, shown.keeps, shown.worst, shown.noise)
        filled = [[bin_, records] for bin_, records in enumerate(one.records) if records]
        budget = _NOT_PROVEN if _doubt(noise, one) else ""
        settings[key] = [
            *(texts.setdefault(text, len(texts)) for text in (*words, budget)),
            shown.good,
            filled,
        ]
    content: dict[str, Any] = {
        "texts": [*texts],
        "settings": settings,
        "edges": [percent(edge) for edge in result.distribution.edges],
        "stops": stops,
    }
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


_NOT_PROVEN = "It is not proven that this noise keeps to the epsilon."


def _stop(noise: NoiseStop, each: str) -> str:
    if noise.factor is not None:
        return f"{parameter(noise.factor)} × today's noise"
    return f"epsilon = {parameter(noise.epsilon or 0.0)}{each}"


def _noise(noise: NoiseStop, each: str) -> str:
    return _stop(noise, each) if noise.accountant is None else f"{noise.accountant}, {_stop(noise, each)}"


def _doubt(noise: NoiseStop, setting: Setting) -> str:
    """A remark on noise of which it is not proven that it keeps to the epsilon."""
    return "" if noise.accountant is None or setting.proven else " (not proven)"


def _words(switch: Switch) -> str:
    name = short(one_line(switch.name), 80)
    match switch.kind:
        case SwitchKind.LEAVE_OUT:
            return f'without "{name}"'
        case SwitchKind.DOES_NOT_KNOW:
            return f"the attacker does not know {name}"
        case SwitchKind.PRIOR:
            return f"the attacker {_PRIORS[switch.name]}"


def _what_was_computed(found: WhatIf, accountants: tuple[str, ...]) -> tuple[str, ...]:
    """Which combinations are there, in sentences."""
    under = " under every accountant" if len(accountants) > 1 else ""
    lines = [f"every amount of noise{under}, with no switch"]
    own = " under the plan's accountant" if len(accountants) > 1 else ""
    if found.switches_at_every_noise:
        lines.append(f"each switch by itself, with every amount of noise{own}")
    elif found.single_switches:
        lines.append("each switch by itself, with the plan's own noise")
    if found.pairs:
        lines.append("two switches together, with the plan's own noise")
    return tuple(lines)


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
