r"""What the attacker knows of a secret beforehand, and what the noise alone leaves of it.

A number is spread over its bounds as the plan's ``[attacker] prior`` says, by name or by the file of a
population, or over :math:`[c - t, c + t]` if the attacker knows of every value that it is within t of some c
(``values_within``). A yes or no has even chances, or the share of yes that the plan states. Behind sums with
discrete noise a number is whole. A category is one of k values with equal chances: it enters a design as
indicators, each one with probability :math:`p = 1/k`.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.beliefs import LEVEL
from sightline.auditing.plan import Plan
from sightline.auditing.plan_fields import Population
from sightline.auditing.plan_sections import Limits, YesShare
from sightline.auditing.result_parts import Fact, fact
from sightline.auditing.stated_noise import sums_are_whole
from sightline.bounds.by_pairs import WholePrior
from sightline.bounds.coin import CoinPrior
from sightline.bounds.guesses import must_remain
from sightline.bounds.priors import TwoPointPrior, number_prior
from sightline.privacy.law import Law
from sightline.tables.membership import Membership
from sightline.tables.subject import SecretKind
from sightline.units.target import NumberPrior, Seen, TargetPrior
from sightline.values import frozen


class Expected(StrEnum):
    """What an attacker expects of a secret beforehand."""

    VALUES = "values"
    LEVELS = "levels"  # that all rows of a record share
    NEAR = "near"  # what they know of each value
    YES_OR_NO = "yes or no"
    CATEGORIES = "categories"


@frozen(eq=True)
class SecretPrior:
    """The prior of every record's secret.

    >>> SecretPrior(kind=SecretKind.BOOLEAN).kept(information=4.0, law=Law.GAUSSIAN)
    0.449...
    >>> SecretPrior(kind=SecretKind.NUMBER, bounds=(0.0, 9000.0)).fact.figures["high"]
    9000.0
    """

    kind: SecretKind
    bounds: tuple[float, float] = (0.0, 1.0)  # of the secret, which sensitivities are for
    categories: int = 2
    name: str = "uniform"  # of a number's prior
    within: float | None = None  # t, if the attacker knows every value to ± t
    yes: float = 0.5  # the chance of a yes, of a yes or no
    whole: bool = False  # whether a number is known to be whole: discrete noise is on its sums
    population: Population | None = None  # that a number is drawn from, in place of a named prior
    level: tuple[float, float] | None = None  # of a level that all rows of a record share: where it may lie

    @classmethod
    def of(cls, plan: Plan, membership: Membership) -> SecretPrior:
        """The prior of a plan's secret."""
        stated = plan.attacker.prior
        named = {"name": stated} if isinstance(stated, str) else {}
        population = stated if isinstance(stated, Population) else None
        return cls(
            kind=plan.data.secret_kind,
            bounds=plan.data.domain,
            categories=max(2, len(plan.data.categories)),
            within=plan.attacker.values_within,
            yes=stated.yes if isinstance(stated, YesShare) else 0.5,
            whole=sums_are_whole(plan, membership),
            population=population,
            level=_level(plan, membership),
            **named,
        )

    @property
    def range(self) -> float:
        """The width of the secret's bounds."""
        return self.bounds[1] - self.bounds[0]

    @property
    def of_column(self) -> TargetPrior:
        """The prior of one column of a design: of a number, or of an indicator."""
        return self.number if self.kind.measured else self.indicator

    @property
    def indicator(self) -> TargetPrior:
        """The prior of a yes or no, or of one category's indicator."""
        return TwoPointPrior(0.0, 1.0) if self.share == 0.5 else CoinPrior(share=self.share)

    @property
    def share(self) -> float:
        """p: the chance of an indicator."""
        return self.yes if self.kind.two_values else 1 / self.categories

    @property
    def number(self) -> NumberPrior:
        """The prior of a number, or of its distance from what the attacker knows of it.

        What they know can be subtracted from every sum, so it does not matter which number that is.
        """
        if self.population is not None:
            return self.population.prior(self.bounds)
        if self.within is not None:
            return number_prior(self.name, -self.within, self.within)
        if self.level not in (None, self.bounds):
            return number_prior(self.name, *self.level)
        if self.whole and self.name == WholePrior(0.0, 1.0).name:
            return WholePrior(*map(float, self.bounds))
        return number_prior(self.name, *self.bounds)

    @property
    def fact(self) -> Fact:
        """What remaining uncertainty is an average over."""
        match self.kind:
            case SecretKind.NUMBER:
                number = self.number
                spread = {"spread": number.spread, "source": number.name}
                if self.within is not None:
                    return fact(Expected.NEAR, within=self.within, **spread)
                name = Expected.VALUES if self.level is None else Expected.LEVELS
                low, high = map(float, self.level or self.bounds)
                return fact(name, low=low, high=high, **spread)
            case SecretKind.BOOLEAN:
                return fact(Expected.YES_OR_NO, yes=self.yes)
            case SecretKind.CATEGORY:
                return fact(Expected.CATEGORIES)

    def limit(self, limits: Limits) -> float:
        r"""The share of a secret's variance that must remain; 0, which everyone keeps, without a limit.

        It is the stated one; or :math:`t^2/v`, so that the standard deviation is t or more; or so much that
        no guess is right more often than stated. The largest counts.
        """
        by_guess = must_remain(self.chances, limits.guessed_right) if limits.guessed_right else 0.0
        by_error = limits.known_to**2 / float(self.of_column.variance)
        return max(by_error, by_guess, limits.remaining_uncertainty)

    @property
    def chances(self) -> FloatArray:
        """Of the values of a yes or no, or of a category."""
        match self.kind:
            case SecretKind.BOOLEAN:
                return np.array([1 - self.yes, self.yes])
            case SecretKind.CATEGORY:
                return np.full(self.categories, 1 / self.categories)
            case SecretKind.NUMBER:
                raise ValueError("a number has a density, no chances")

    def kept(self, *, information: float, law: Law, answers: float = np.inf) -> float:
        """The least share of uncertainty that remains if the attacker knows all other records.

        ``information`` is the Fisher information about a number, or for indicators the squared distance
        between two values in units of the noise. Under Laplace noise so many ``answers`` carry it.
        """
        G = np.array([information])
        laplace = law is Law.LAPLACE
        seen = Seen(
            information=G,
            linear_information=np.zeros(1),  # no linear attack needs to be named
            laplace_answers=answers if laplace else 0.0,
            laplace_information=G,
        )
        return float(self.of_column.lower(seen)[0])

    def kept_whatever_is_published(self, nats: float) -> float:
        """The least share of a number's uncertainty that remains, if releases tell so many nats about it."""
        return float(self.number.lower_by_nats(np.array([nats]))[0])


def _level(plan: Plan, membership: Membership) -> tuple[float, float] | None:
    """Where the level that all rows of a record share may lie; none if they are not taken to share one."""
    return plan.data.level or plan.data.domain if membership.by_person and plan.belief == LEVEL else None
