"""A decision with its evidence: yes, no, or an explicit *undecided* that counts as neither."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sightline.errors import Undecided


class Decision(Enum):
    """Is it identifiable? ``bool`` works for yes and no, and raises for undecided.

    >>> bool(Decision.YES), bool(Decision.NO)
    (True, False)
    >>> bool(Decision.UNDECIDED)
    Traceback (most recent call last):
        ...
    sightline.errors.Undecided: the rows do not decide this; compare with Decision.UNDECIDED first
    """

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"

    def __bool__(self) -> bool:
        if self is Decision.UNDECIDED:
            raise Undecided("the rows do not decide this; compare with Decision.UNDECIDED first")
        return self is Decision.YES


class Evidence(Enum):
    """The evidence for a decision."""

    FULL_RANK = "full rank, proved from a factorisation and its rounding bound"
    MODULAR = "integer elimination modulo a large prime drawn from the rows themselves"
    VERIFIED = (
        "guessed in floating point, proved over the integers and by the rounding bound of a sparse factor"
    )
    GAP = "a gap in the singular values"
    NONE = "no gap in the singular values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """The rank of a set of rows, and the evidence for it.

    For real-valued rows ``smallest_kept`` is a lower bound on the smallest singular value that counts, and
    ``largest_dropped`` an upper bound on the largest that does not. Both are relative to the largest.
    """

    rank: int
    evidence: Evidence
    smallest_kept: float = 1.0
    largest_dropped: float = 0.0

    @property
    def decided(self) -> bool:
        return self.evidence is not Evidence.NONE
