"""The result of a rehearsal: what each attack guesses, the truth, and how often its interval holds it.

Everything here is for the owner of the table only: it holds true values and guesses at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from scipy.stats import binom, chi2

from sightline.auditing.result_parts import Fact
from sightline.display import Displayed
from sightline.tables.occurring import FALSE_ALARMS
from sightline.values import short_repr

CONFIDENCE = 0.95  # of every interval
_ENOUGH = 1_000  # repetitions whose mean squared error is about normal


class AttackKind(StrEnum):
    """The attacks of a rehearsal, and what their repetitions draw anew."""

    UNBIASED = "best unbiased"  # the recipe; the true values stay, the noise is drawn
    LINEAR = "best linear"  # least error on average over the prior; values and noise are drawn
    TOGETHER = "best linear, rows together"  # the same, on the combination of a record's rows seen best


class Coverage(StrEnum):
    """What is known beforehand of how often an interval holds the truth."""

    EXACT = "exactly"  # as often as it says, but for the chance of finitely many repetitions
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """An attack's guess at one value, beside the truth, and what became of it over the repetitions."""

    attack: AttackKind
    record: str
    what: str  # the value, the sum of some values, or whether a category applies
    alike: int  # records that no published number tells from it, itself included
    truth: float
    guess: float
    standard_error: float
    interval: tuple[float, float]
    coverage: Coverage
    repetitions: int
    covered: int  # repetitions whose interval held the truth
    mse: float  # over the repetitions
    mse_error: float  # the standard error of that mean, an estimate
    stated_mse: float  # what theory says that it is
    bracket: tuple[float, float] | None  # of the audit: of the best attack, on average over the prior

    @property
    def holds(self) -> bool:
        """Whether the interval of this publication holds the truth."""
        return self.interval[0] <= self.truth <= self.interval[1]

    @property
    def coverage_chance(self) -> float:
        """At least the chance of a coverage as far from the stated one as this; 1 if none is stated."""
        few = float(binom.cdf(self.covered, self.repetitions, CONFIDENCE))
        match self.coverage:
            case Coverage.EXACT:
                many = float(binom.sf(self.covered - 1, self.repetitions, CONFIDENCE))
                return min(1.0, 2 * min(few, many))
            case Coverage.AT_LEAST:
                return few

    @property
    def mse_chance(self) -> float:
        """The chance of a mean squared error as far from the stated one as this; 1 if none is stated.

        Exact for Gaussian errors: a chi-squared law. For others a normal law is an estimate, from enough
        repetitions on.
        """
        if self.coverage is Coverage.EXACT:
            law = chi2(self.repetitions)
            sum_of_squares = self.repetitions * self.mse / self.stated_mse
            return min(1.0, 2 * min(float(law.cdf(sum_of_squares)), float(law.sf(sum_of_squares))))
        if self.repetitions < _ENOUGH or self.mse_error == 0:
            return 1.0
        return 2 * NormalDist().cdf(-abs(self.mse - self.stated_mse) / self.mse_error)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rehearsal(Displayed):
    """One publication of a plan with simulated noise, and the attacks on it. For the owner only."""

    __repr__ = short_repr

    source: str
    record: str
    secret: str
    kind: str
    bounds: tuple[float, float]
    prior: Fact  # what the best linear attack's repetitions draw the values from
    seed: int
    numbers: int  # published numbers, all copies
    guesses: tuple[Guess, ...]
    notes: tuple[str, ...]
    owner_only: bool = True
    other_secrets: tuple[Rehearsal, ...] = ()  # of a plan about several secrets

    @property
    def checks(self) -> int:
        """How many statements the repetitions check."""
        return 2 * len(self.guesses)

    @property
    def surprises(self) -> tuple[Guess, ...]:
        """The guesses whose repetitions contradict what is stated of them.

        If everything stated is true, there is one in about a share ``FALSE_ALARMS`` of all rehearsals or in
        fewer: the rate is divided by the number of checks.
        """
        each = FALSE_ALARMS / max(1, self.checks)
        return tuple(g for g in self.guesses if min(g.coverage_chance, g.mse_chance) < each)
