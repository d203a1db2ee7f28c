"""What a program that asks on somebody's behalf is told of a release: nothing that depends on a value.

Whoever may ask again and again learns from every answer. So *yes* is for releases whose noise alone keeps the
limit, whatever the table holds, *no* for those that leave somebody less by queries, groups and noise, and all
others are for the owner, without a reason. Only where the noise is enough and the table shows something that
speaks against it (values outside the bounds, missing ones) does an answer depend on values: it is the last.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sightline.errors import InvalidInput, require
from sightline.format import count, covered, number, number_at_most
from sightline.ledger.book import Ledger
from sightline.ledger.decision import ReleaseDecision, Standing
from sightline.values import frozen

LONGEST_SQL = 20_000  # characters: a query of a thousand groups is shorter
MOST_COPIES = 1_000  # of a release, that are looked for
_LAWS = {"gaussian": "stddev", "discrete-gaussian": "stddev", "laplace": "scale", "geometric": "scale"}
_LARGEST_FACTOR = 1e6  # of noise that is looked for: beyond it a number tells nothing


class Answer(StrEnum):
    """Whether a release may be published."""

    YES = "yes"
    NO = "no"
    OWNER = "ask the owner"


@frozen(eq=True)
class AgentAnswer:
    """An answer, and what goes with it."""

    answer: Answer
    text: str
    last: bool = False  # it depends on values: no further question is answered

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"answer": self.answer.value, "text": self.text, "last": self.last}


def asked_release(  # many parameters: one for each that a tool has
    *, sql: str, noise: float, law: str = "gaussian", times: int = 1, name: str = ""
) -> dict[str, Any]:
    """A release as an agent states it: text alone, which names no file.

    >>> asked_release(sql="SELECT SUM(x) FROM data", noise=3.0, law="laplace")["noise"]
    {'law': 'laplace', 'scale': 3.0}
    """
    require(law in _LAWS, f"a law of noise, one of {', '.join(_LAWS)}", got=repr(law[:40]))
    require(noise > 0, "noise above 0", got=noise)
    short = len(sql) <= LONGEST_SQL and not sql.strip().casefold().endswith(".sql")
    require(short, f"a query as text, of at most {LONGEST_SQL:,} characters", got="a file, or a longer one")
    require(len(name) <= 80, "a name of at most 80 characters", got=len(name))
    stated = {"law": law, _LAWS[law]: noise}
    return {"name": name or " ".join(sql.split())[:80], "sql": sql, "times": times, "noise": stated}


def may_publish(decision: ReleaseDecision) -> AgentAnswer:
    """Whether a release may follow all others."""
    limit, open_to = decision.result.verdict.limit_text, f"With it: {_standing_text(decision.after)}"
    if decision.passed is None:
        return AgentAnswer(answer=Answer.OWNER, text="No limit is set: only the owner can decide.")
    if decision.findings.has_nonlinear:
        text = (
            "Powers and thresholds of the secret are for the owner to decide. Ask for sums, means or counts."
        )
        return AgentAnswer(answer=Answer.OWNER, text=text)
    if decision.after.below:
        text = f"Somebody may be below the limit of {limit}. {open_to}{_change(decision)}"
        return AgentAnswer(answer=Answer.NO, text=text)
    if not decision.findings.guaranteed:
        text = (
            f"The noise alone does not keep the limit of {limit}; whether it holds on average depends on the "
            f"table. {open_to}{_change(decision)}"
        )
        return AgentAnswer(answer=Answer.OWNER, text=text)
    if not decision.passed:
        text = "The owner has to look at this. Nothing more is answered until they start the server again."
        return AgentAnswer(answer=Answer.OWNER, text=text, last=True)
    text = f"The noise alone keeps the limit of {limit}, whatever anybody knows. {open_to}"
    return AgentAnswer(answer=Answer.YES, text=text)


def reaching(decision: ReleaseDecision) -> str:
    """What would reach the limit: how many more copies the noise covers, or how much more noise it takes."""
    if decision.passed is None or decision.findings.has_nonlinear:
        return "What would reach a limit is for the owner to say."
    if decision.findings.guaranteed:
        more = copies_that_fit(decision)
        least = "At least " if more >= MOST_COPIES else ""
        fits = f"{least}{count(more, 'more release')} like it {'fits' if more == 1 else 'fit'}"
        return f"{fits} with this noise, if the same people are in the same groups."
    factor = least_guaranteed_factor(decision)
    if factor is None:
        return "No noise on this release is enough: what was published before has used up the limit."
    return f"With {number(factor, 3)} times its noise the noise alone keeps the limit."


def _change(decision: ReleaseDecision) -> str:
    """What to change, where audits are quick: it is searched for by many of them."""
    return f" {reaching(decision)}" if decision.findings.linear.repeatable else ""


def copies_that_fit(decision: ReleaseDecision) -> int:
    """How many more copies of a release its noise covers, of up to a thousand."""
    low, high = 0, MOST_COPIES + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if decision.with_copies(1 + middle).guaranteed else (low, middle)
    return low


def least_guaranteed_factor(decision: ReleaseDecision) -> float | None:
    """The factor on a release's noise with which all noise together keeps the limit, to 1 %; none if none."""
    low, high = 1.0, _LARGEST_FACTOR
    if not decision.with_noise(high).guaranteed:
        return None
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if decision.with_noise(middle).guaranteed else (middle, high)
    return float(f"{high * 1.005:.2e}")  # three digits, none of them too small


def spent(ledger: Ledger) -> str:
    """What all releases so far have cost, and what they leave, as a sentence."""
    standing, releases = ledger.standing()
    if not releases:
        return "Nothing has been published."
    return f"{count(releases, 'release')} so far: {_standing_text(standing)}"


def answered(
    ledger: Ledger, tool: str, *, epoch: str = "", may_add: bool = False, **asked: Any
) -> dict[str, Any]:
    """The answer to one call of a tool, as plain values."""
    match tool:
        case "what_has_been_spent":
            return {"text": spent(ledger)}
        case "may_i_publish":
            return may_publish(ledger.check(asked_release(**asked), epoch=epoch)).to_json()
        case "what_would_reach_the_limit":
            return {"text": reaching(ledger.check(asked_release(**asked), epoch=epoch))}
        case "publish" if may_add:
            release = asked_release(**asked)
            answer = may_publish(ledger.check(release, epoch=epoch))
            entry = ledger.add(release, epoch=epoch)[1] if answer.answer is Answer.YES else None
            return {**answer.to_json(), "entry": entry}
        case _:
            raise InvalidInput(f"expected a tool of this server, got {tool[:40]!r}")


def _standing_text(standing: Standing) -> str:
    """What is left of the most exposed person and what was spent; nobody is named."""
    least = (
        f"{standing.least} is left of the uncertainty about the most exposed person"
        if standing.least
        else "nothing is seen of anyone"
    )
    epsilon, whom = standing.least_epsilon, covered(everyone=standing.everyone)
    cost = "" if epsilon is None else f", and the noise costs epsilon = {number_at_most(epsilon)} for {whom}"
    return f"{least}{cost}."
