r"""What the attacker knows of the target, as a stated choice, and what the bounds need of the releases.

A *target prior* turns a few numbers for each record into both ends of the remaining uncertainty: the risk of
the best attack over the prior variance. The numbers are in :class:`Seen`; each is one that the engine reads
off a record's column. The conditions of every bound are on the theory page on priors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.errors import require
from sightline.values import frozen

BoolArray = NDArray[np.bool_]


@frozen
class Seen:
    r"""What the releases show of every record, in the data's units: arrays over the records.

    ``information`` is :math:`G_{jj}`, the Fisher information if all others are known. ``linear_information``
    is :math:`1/[(G_\Sigma + I/v)^{-1}]_{jj} - 1/v`, where :math:`G_\Sigma` divides by noise variances and
    :math:`v` is the variance of an unknown record (:func:`information_behind`).

    ``hidden_information`` is :math:`I_j = 1/[(G + \operatorname{diag} c)^{-1}]_{jj} - c_j` for precisions
    :math:`c_k` that are at least those of the unknown records' prior at :math:`G_{kk}`
    (:meth:`TargetPrior.precision`), and ``precision`` is :math:`c_j`. Leave it out if the others' prior has
    no density or if all others are known.

    ``alike`` counts the unknown records with the target's signature *and* the target's prior, the target
    included. ``laplace_answers`` counts the answers with Laplace noise that depend on the record,
    ``laplace_information`` is their part of the information; leave both out if all noise is Gaussian.
    """

    information: FloatArray
    linear_information: FloatArray
    hidden_information: FloatArray | float = math.inf
    precision: FloatArray | float = math.inf
    alike: FloatArray | float = 1.0
    laplace_answers: FloatArray | float = 0.0
    laplace_information: FloatArray | float = 0.0

    def group_information(self) -> FloatArray:
        r"""Q: the information about the sum of the target's group, if the records outside it are hidden.

        From :math:`1/I_j = 1/Q + (n-1)/c`. Rounding can only raise it, up to :math:`G_{jj}`.
        """
        hidden = np.minimum(self.hidden_information, self.information)
        with np.errstate(invalid="ignore"):  # where all is known, nothing is among others
            among = (np.asarray(self.alike) - 1) * hidden / self.precision
        left = 1 - among * (1 + ROUNDING) - ROUNDING * (among > 0)
        raised = hidden / np.where(left > 0, left, 1.0)
        return np.where(left > 0, np.minimum(raised, self.information), self.information)

    @property
    def gaussian(self) -> BoolArray:
        """Which records are seen through Gaussian noise alone."""
        return np.asarray(self.laplace_answers + np.zeros_like(self.information) == 0)

    @property
    def one_laplace(self) -> BoolArray:
        """Which records are seen through one answer only, with Laplace noise."""
        return np.asarray((self.laplace_answers == 1) & (self.laplace_information >= self.information))


@runtime_checkable
class TargetPrior(Protocol):
    """How every unknown record's value is spread before any release. Records are independent."""

    @property
    def name(self) -> str:
        """What a plan calls it."""

    @property
    def width(self) -> float:
        """The length of the interval of possible values."""

    @property
    def variance(self) -> float:
        """v: the risk of an attacker who saw nothing."""

    @property
    def fair(self) -> bool:
        """Whether the value is one of two, with even chances."""

    @property
    def most_variance(self) -> float:
        """The largest variance that a sum of values may have after any answers, over the square of the width
        of the interval that it is in.
        """

    def precision(self, information: FloatArray) -> FloatArray:
        """D(G): what an unknown record with this prior adds to its information, or infinity."""

    def grouped_precision(self, members: IndexArray, weak: FloatArray) -> FloatArray:
        """The same of so many rows that precise numbers see as their sum, and others with an information of
        at most ``weak``; or infinity.
        """

    def precision_excess(self, information: FloatArray) -> FloatArray:
        """How far D may be above the exact one, over it: it is rounded up."""

    def precision_slope(self, information: FloatArray) -> FloatArray:
        """The derivative of D(G) by G; zero where D is infinite."""

    def lower(self, seen: Seen) -> FloatArray:
        """At most the risk of every attack over v."""

    def upper(self, seen: Seen) -> FloatArray:
        """The risk of the best linear attack over v."""

    def lower_of_rows(self, information: FloatArray, *, unsigned: FloatArray) -> FloatArray:
        """At most the risk over v of every attack on a linear feature of several independent rows, behind
        noise of any law, from the information about the unit feature that is seen best: as it is, and at
        least what it were if every weight were positive.
        """


@runtime_checkable
class NumberPrior(TargetPrior, Protocol):
    """A prior of a number between ``low`` and ``high``, which a plan can name."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def has_density(self) -> bool:
        """Whether values are spread over an interval with one peak, and not at a few points."""

    @property
    def mean(self) -> float:
        """What an attacker expects who saw nothing."""

    @property
    def proxy(self) -> float:
        """The variance of a Gaussian that is spread at least as far at all scales (sub-Gaussian), over v."""

    @property
    def spread(self) -> str:
        """How the values are spread, as a name: ``report`` has its words."""

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""

    def lower_by_nats(self, nats: FloatArray) -> FloatArray:
        """At most the risk over v of every attack on answers with this mutual information, in nats."""


def information_behind(risk: FloatArray, precision: FloatArray | float) -> FloatArray:
    r"""The information that leaves a risk R to a Gaussian record of precision c: :math:`1/R - c`.

    With :math:`R = [(G + cI)^{-1}]_{jj}` it is what the releases say about record j if every other record is
    Gaussian with the precision c. For the linear information under Laplace noise alone, take c = 2/v and
    halve the result.
    """
    return np.maximum(1 / risk - precision, 0.0)


def linear_upper(seen: Seen, variance: float) -> FloatArray:
    r"""The best linear attack: :math:`1 / (1 + v\,I_{lin})`, for any prior of the target with variance v."""
    return np.asarray(1 / (1 + variance * seen.linear_information))


@dataclass(frozen=True, slots=True)
class BoundedPrior:
    """What every prior of a number between ``low`` and ``high`` has in common."""

    low: float
    high: float

    def __post_init__(self) -> None:
        require(  # a width such that its square fits a double
            1e-130 <= self.high - self.low <= 1e130,
            "a domain (low, high) of finite width > 0",
            got=f"width {self.high - self.low}",
            fix="give the smallest and the largest value a record can have",
        )

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def mean(self) -> float:
        """The middle."""
        return 0.5 * (self.low + self.high)

    @property
    def fair(self) -> bool:
        return False

    @property
    def proxy(self) -> float:
        """1: of even draws, of cos², and of even chances for both ends."""
        return 1.0


class NoDensity:
    """A prior on points: as a density it would have an infinite precision."""

    __slots__ = ()

    if TYPE_CHECKING:  # a field or a property of the prior

        @property
        def width(self) -> float: ...

        @property
        def variance(self) -> float: ...

    @property
    def has_density(self) -> bool:
        return False

    @property
    def most_variance(self) -> float:
        """A quarter: half at either end."""
        return 0.25

    def precision(self, information: FloatArray) -> FloatArray:
        return np.full_like(information, math.inf)

    def grouped_precision(self, members: IndexArray, weak: FloatArray) -> FloatArray:
        return np.full_like(weak, math.inf)

    def precision_excess(self, information: FloatArray) -> FloatArray:
        return np.zeros_like(information)

    def precision_slope(self, information: FloatArray) -> FloatArray:
        return np.zeros_like(information)

    @property
    def _spacing(self) -> float:
        """h: how far two neighbouring points are apart; by default there are two."""
        return self.width

    @property
    def _reach(self) -> float:
        """K: what the information counts for; of two points the variance."""
        return self.variance

    def lower_of_rows(self, information: FloatArray, *, unsigned: FloatArray) -> FloatArray:
        r""":math:`e^{-\lambda h^2/4} / (1 + \lambda K)` (docs/theory/priors.md, *Several rows on points*)."""
        near = np.exp(-unsigned * (self._spacing**2 / 4))
        return np.asarray(near / (1 + unsigned * self._reach) * (1 - ROUNDING))


@frozen(slots=False)
class UnitPrior:
    r"""How the values of one row of a person are spread: a number, or one of k categories with even chances.

    The columns of a row have the covariance ``scale`` times ``kernel``, a table of whole numbers: 1 for a
    number, :math:`K = kI - 11^\top` for categories, whose indicators have the covariance :math:`K/k^2`. So
    one product of rows, of integers, serves exact decisions and linear attacks; and no category is a
    reference.
    """

    target: TargetPrior  # of a number, or of the indicator of a category
    categories: int = 1

    @property
    def kernel(self) -> FloatArray:
        """K."""
        return np.ones((1, 1)) if self.categories == 1 else self.categories * np.eye(self.categories) - 1

    @property
    def scale(self) -> float:
        """The covariance over K."""
        return self.target.variance if self.categories == 1 else self.categories**-2.0

    @property
    def fair(self) -> bool:
        """Whether a row has one of few values, each with the same chance."""
        return self.categories > 1 or self.target.fair

    @property
    def density(self) -> bool:
        """Whether values are spread over an interval, so that unknown rows hide others as Gaussian ones
        would.
        """
        return self.categories == 1 and bool(np.isfinite(self.target.precision(np.zeros(1))[0]))
