"""How much slack a plan has: by how much all noise could be smaller, or must be larger, to keep the limit."""

from __future__ import annotations

from sightline.auditing.findings import Findings, linear_findings
from sightline.auditing.noise_factor import epsilon_for, noise_factor, rounded
from sightline.auditing.pricing import price
from sightline.auditing.result import NoiseSlack, Verdict, VerdictStatus
from sightline.format import number

_AGAIN = "Audit again before you use less: what the true values show was checked at today's noise only."
_NO_NOISE = 1e-5  # a factor so small that the noise does not matter


def noise_slack(findings: Findings) -> NoiseSlack | None:
    """The slack of a plan; none without a limit, or if noise does not decide.

    Noise does not decide if nothing linear is published, and what is published already keeps the noise that
    it has. A plan that holds with exact numbers has no slack either: less noise on the others was not looked
    at. Nor has one whose table is streamed: it is assessed once, with the noise as it is.
    """
    found, limit = findings.linear, findings.plan.limits.remaining_uncertainty
    if found is None or limit is None or found.least is None or findings.streamed:
        return None
    if any(release.published for release in findings.plan.releases):
        return None
    holds, share = not findings.not_shown, f"{100 * limit:.4g} %"
    if findings.pricing.exact.any():
        if holds:
            return None
        return _none_is_enough(
            f"Some numbers are published exactly: give them noise before asking how much noise keeps {share}."
        )
    factor = noise_factor(findings, found, limit)
    epsilon = None if factor is None else _audited_epsilon(findings, factor, limit)
    if factor is None:
        return _none_is_enough(f"No amount of this noise is shown to keep {share}: lower the limit.")
    text = _words(factor, epsilon) if holds else _need(factor, epsilon)
    return NoiseSlack(holds=holds, noise_factor=factor, epsilon=epsilon, text=text)


def slack_under(verdict: Verdict, slack: NoiseSlack | None) -> NoiseSlack | None:
    """The slack as it may be stated beside a verdict.

    Slack speaks of the average over the prior. Beside a verdict that fails for another reason there is none,
    and beside one that is not shown it depends on what was not verified.
    """
    if slack is None or not slack.holds or verdict.passed is not False:
        return slack
    if verdict.status is VerdictStatus.FAILED:
        return None
    return slack.model_copy(update={"text": f"If what was not verified holds: {slack.text}"})


def _none_is_enough(text: str) -> NoiseSlack:
    return NoiseSlack(holds=False, noise_factor=None, epsilon=None, text=text)


def _audited_epsilon(findings: Findings, factor: float, limit: float) -> float | None:
    """The epsilon that asks for so much noise, to three digits, if an audit at it finds the limit kept."""
    epsilon = epsilon_for(findings, factor)
    if epsilon is None:
        return None
    epsilon = rounded(epsilon, up=False)
    privacy = findings.plan.privacy.model_copy(update={"epsilon": epsilon})
    plan = findings.plan.model_copy(update={"privacy": privacy})
    found = linear_findings(plan, findings.membership, price(plan, findings.membership), attacks=False)
    least = None if found is None else found.least
    return epsilon if least is not None and least.lower >= limit else None


def _words(factor: float, epsilon: float | None) -> str:
    if factor >= 1:
        return "There is no slack: with less noise the limit is not shown to hold."
    up_to = "It holds" if epsilon is None else f"It holds up to epsilon = {number(epsilon, 3)}"
    if factor <= _NO_NOISE:
        groups = "on average over what values may be, the groups protect everyone"
        return f"{up_to}, even with a hundred-thousandth of the noise: {groups}. {_AGAIN}"
    return f"{up_to}; the noise could be {number(_down(1 / factor), 3)} times smaller. {_AGAIN}"


def _need(factor: float, epsilon: float | None) -> str:
    budget = "" if epsilon is None else f", which is a budget of epsilon = {number(epsilon, 3)}"
    return f"It needs {number(factor, 3)} times the noise on every number{budget}."


def _down(value: float) -> float:
    """Rounded down to three digits, so that the slack holds as it is printed."""
    return rounded(value, up=False)
