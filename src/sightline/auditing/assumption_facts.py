"""Of every assumption that a pass may need: what decides it, and what can take its place.

An assumption is one row of :data:`ASSUMPTIONS`. Audits, ledgers, streamed tables and designs ask the rows, so
that no door can forget a new one.
"""

from __future__ import annotations

from enum import Enum

from sightline.auditing.plan import AssumptionName
from sightline.values import frozen


class DecidedBy(Enum):
    """What must be at hand to decide whether an assumption holds."""

    PLAN = "the plan and the memberships, at any time"
    TABLE = "the table and the SQL of a release, when it is made: a ledger that lost its file leaves it open"


@frozen
class AssumptionFacts:
    """What is known of one assumption, whatever the audit."""

    by: DecidedBy
    # Whether a guarantee by the noise alone does without it: that holds for every prior and table, against
    # attackers who know all that a group has in common.
    covered_by_noise: bool = False
    # Whether it is about what a number, or a line that is missing, tells of all its rows together. A plan may
    # accept that: then it is somebody's decision to publish, and no report says that it can be published.
    of_a_group: bool = False
    # Whether a plan may accept it. What is seen near the true values proves nothing; a value that is certain
    # is told, and what lies between the bounds of a rounded count is not known.
    may_be_accepted: bool = True


_PLAN, _TABLE = AssumptionFacts(by=DecidedBy.PLAN), AssumptionFacts(by=DecidedBy.TABLE)
_COVERED = AssumptionFacts(by=DecidedBy.TABLE, covered_by_noise=True)

ASSUMPTIONS = {
    AssumptionName.DROPPED: _TABLE,
    AssumptionName.CLIPPED: _TABLE,
    AssumptionName.EMPTY: _PLAN,
    AssumptionName.GROUPS: AssumptionFacts(by=DecidedBy.TABLE, of_a_group=True),
    AssumptionName.DERIVED: _TABLE,
    AssumptionName.EXPLAINED: _TABLE,
    AssumptionName.PUBLISHED_BUT_DROPPED: _TABLE,
    AssumptionName.UNDECIDED: AssumptionFacts(by=DecidedBy.PLAN, covered_by_noise=True),
    AssumptionName.LOCAL: AssumptionFacts(by=DecidedBy.PLAN, covered_by_noise=True, may_be_accepted=False),
    AssumptionName.HOMOGENEOUS: AssumptionFacts(by=DecidedBy.TABLE, covered_by_noise=True, of_a_group=True),
    AssumptionName.FEW_VALUES: _COVERED,
    AssumptionName.VALUES: _COVERED,
    AssumptionName.ROWS_APART: _COVERED,
    AssumptionName.UNEQUAL: _COVERED,
    AssumptionName.NOISE_FIRST: _TABLE,
    AssumptionName.DRAWN: _COVERED,
    AssumptionName.SECRETS: _PLAN,
    AssumptionName.HIDDEN_BY_NOISE: _PLAN,
    AssumptionName.TURNOVER: _PLAN,
    AssumptionName.COUNT_RULES: AssumptionFacts(by=DecidedBy.PLAN, may_be_accepted=False),
    # Of a lost file it is not known: COUNT_RULES says so where counts are exact, rounded or blank.
    AssumptionName.CERTAIN: AssumptionFacts(by=DecidedBy.PLAN, may_be_accepted=False),
    AssumptionName.PRESENCE: AssumptionFacts(by=DecidedBy.TABLE, may_be_accepted=False),
}

COVERED_BY_NOISE = frozenset(name for name, facts in ASSUMPTIONS.items() if facts.covered_by_noise)
OF_A_GROUP = frozenset(name for name, facts in ASSUMPTIONS.items() if facts.of_a_group)
NOT_ACCEPTED = frozenset(name for name, facts in ASSUMPTIONS.items() if not facts.may_be_accepted)
OPEN_WITHOUT_THE_TABLE = frozenset(name for name, facts in ASSUMPTIONS.items() if facts.by is DecidedBy.TABLE)
