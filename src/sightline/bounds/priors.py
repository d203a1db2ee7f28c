r"""The priors of a number, by name: how its values are spread over the bounds, and what every attack must
leave of them.

Each class says which bounds it takes the best of. Derivations: the theory page on priors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

import numpy as np

from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.bounds.scalar_risk import (
    FallingTable,
    RiskTable,
    cosine_laplace_table,
    cosine_table,
    two_point_laplace_risk,
    two_point_table,
    uniform_laplace_table,
    uniform_table,
)
from sightline.bounds.sum_keeping import grouped_precision
from sightline.bounds.van_trees import (
    COSINE_INFORMATION,
    COSINE_VARIANCE,
    UNIFORM_VARIANCE,
    cosine_bound,
    cosine_precision,
    cosine_precision_excess,
    cosine_precision_slope,
    uniform_bound,
    uniform_precision,
    uniform_precision_excess,
    uniform_precision_slope,
)
from sightline.errors import require
from sightline.units.target import (
    BoundedPrior,
    NoDensity,
    NumberPrior,
    Seen,
    TargetPrior,
    linear_upper,
)
from sightline.values import frozen

# Steps in units of 1/√G, and the longest one: about the best for a few Laplace answers with little noise.
_STEPS, _LONGEST = (0.4, 0.7, 1.0, 1.3, 1.6, 1.9, 2.3, 2.8), 0.4


@frozen(eq=True)
class PriorAffinity:
    r"""What the Weiss–Weinstein bound needs of a density on a domain of width 1, for steps h from 0 to 1.

    Let :math:`\rho(h)` be the affinity :math:`\int \sqrt{p(y \mid x)\,p(y \mid x + h)}\,dy` of the answers,
    :math:`o(h) = \int \sqrt{p(x)\,p(x + h)}\,dx` that of the prior, and :math:`c(h)` the chance that
    :math:`x - h` is in the domain. Then every guess has the risk

    .. math:: R \ge \frac{h^2\, o(h)^2 \rho(h)^2}{2\,\bigl(c(h) - o(2h)\,\rho(2h)\bigr)} .

    n Laplace answers with the information G together have at least the affinity of n equal ones,
    :math:`\bigl((1 + t)\,e^{-t}\bigr)^n` with :math:`t = \tfrac h2 \sqrt{G/n}`; Gaussian ones have
    :math:`e^{-G h^2/8}`.
    """

    affinity: Callable[[FloatArray], FloatArray]
    stays: Callable[[FloatArray], FloatArray]

    def lower(self, information: FloatArray, laplace: FloatArray, answers: FloatArray) -> FloatArray:
        """At most the risk, for so much information, that part of it from so many Laplace answers."""
        count = np.maximum(answers, 1.0)
        best = np.zeros_like(information)
        for step in _STEPS:
            h = np.minimum(step / np.sqrt(np.maximum(information, 1.0)), _LONGEST)
            near = self.affinity(h) * _affinity(h, information, laplace, count)
            far = self.affinity(2 * h) * _affinity(2 * h, information, laplace, count)
            # The difference is at least the prior's own, c(h) − o(2h), and cancels no more than that.
            apart = 2 * (self.stays(h) - far * (1 - ROUNDING))
            best = np.maximum(best, np.square(h * near) / apart)
        return best * (1 - 1e2 * ROUNDING)


def _affinity(h: FloatArray, information: FloatArray, laplace: FloatArray, count: FloatArray) -> FloatArray:
    """ρ(h), rounded down: very many answers count as Gaussian, since log(1 + t) − t is at least −t²/2."""
    t = h / 2 * np.sqrt(laplace / count)
    many = t < np.cbrt(np.finfo(np.float64).eps)  # below that log(1 + t) − t has fewer than ten digits
    exponent = np.where(many, 1.0, count) * (np.log1p(t) - t)
    exponent = np.where(many, -laplace * np.square(h) / 8, exponent)
    gaussian = np.maximum(information - laplace, 0.0) * np.square(h) / 8
    return np.asarray(np.exp(exponent - gaussian))


class _Table(Protocol):
    def __call__(self) -> RiskTable | FallingTable: ...


@frozen(eq=True)
class DensityBounds:
    """The scalar bounds of one density on a domain of width 1, and its variance."""

    scalar: _Table
    laplace: _Table
    van_trees: Callable[[FloatArray], FloatArray]
    added_precision: Callable[[FloatArray], FloatArray]  # D
    # D of many rows that are seen as a sum; infinite where none is known.
    grouped_precision: Callable[[IndexArray, FloatArray], FloatArray]
    precision_excess: Callable[[FloatArray], FloatArray]  # how far it is rounded up
    precision_change: Callable[[FloatArray], FloatArray]  # its derivative
    affinity: PriorAffinity
    v: float
    entropy_power: float  # N: the variance of the Gaussian with the density's entropy


@dataclass(frozen=True, slots=True)
class DensityPrior(BoundedPrior):
    r"""A prior of a number that is spread over its domain with a density.

    The lower end is the best of three bounds, each over :math:`v`. With :math:`n` records alike, the scalar
    risk :math:`f`, the van Trees bound :math:`w`, and :math:`D(Q) = 1/w(Q) - Q`:

    .. math:: f(G_{jj}), \qquad
        v\Bigl(1 - \frac1n\Bigr) + \frac1n f(n G_{jj}), \qquad
        v\Bigl(1 - \frac1n\Bigr) + \frac{1}{n\,(nQ + D(Q))} .

    The first holds whatever the others' values are. The second needs a group of independent records with the
    target's own prior. The third needs that of every unknown record, or another prior whose precisions the
    engine used. The first two need Gaussian noise. Where there is Laplace noise, :math:`w` stands in for
    :math:`f` in the first, or the Weiss–Weinstein bound if that is larger (:class:`PriorAffinity`); the risk
    of one Laplace answer if there is one.
    """

    bounds: ClassVar[DensityBounds]

    @property
    def has_density(self) -> bool:
        return True

    @property
    def most_variance(self) -> float:
        """A twelfth: the density is log-concave, so a sum is after answers with log-concave noise, too."""
        return UNIFORM_VARIANCE

    @property
    def variance(self) -> float:
        """v: the risk of an attacker who saw nothing."""
        return self.bounds.v * self.width**2

    def precision(self, information: FloatArray) -> FloatArray:
        return self.bounds.added_precision(information * self.width**2) / self.width**2

    def grouped_precision(self, members: IndexArray, weak: FloatArray) -> FloatArray:
        return self.bounds.grouped_precision(members, weak * self.width**2) / self.width**2

    def precision_excess(self, information: FloatArray) -> FloatArray:
        return self.bounds.precision_excess(information * self.width**2)

    def precision_slope(self, information: FloatArray) -> FloatArray:
        return self.bounds.precision_change(information * self.width**2)

    def lower(self, seen: Seen) -> FloatArray:
        """The best of the three bounds, over v."""
        return np.minimum(_lower(self.bounds, seen, self.width), self.upper(seen))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)

    def lower_of_rows(self, information: FloatArray, *, unsigned: FloatArray) -> FloatArray:
        """By van Trees' inequality, with what a row adds to its information."""
        return np.asarray(1 / (self.variance * (information + self.precision(information))))

    def lower_by_nats(self, nats: FloatArray) -> FloatArray:
        r"""After a mutual information of I nats: the better of :math:`(N/v)\, e^{-2I}` and :math:`1 - 2I`.

        The first is Shannon's bound. The second holds because the variance of the density is also its
        sub-Gaussian constant.
        """
        shannon = self.bounds.entropy_power / self.bounds.v * np.exp(-2 * nats)
        return np.asarray(np.maximum(shannon, 1 - 2 * nats))


def _lower(bounds: DensityBounds, seen: Seen, width: float) -> FloatArray:
    G, n, v = seen.information * width**2, np.asarray(seen.alike, dtype=np.float64), bounds.v
    gaussian = seen.gaussian
    alone = bounds.van_trees(G)
    if gaussian.any():
        scalar = bounds.scalar()
        group = v * (1 - 1 / n) + np.maximum(scalar.lower(n * G), bounds.van_trees(n * G)) / n
        alone = np.where(gaussian, np.maximum.reduce([alone, scalar.lower(G), group]), alone)
    if not gaussian.all():
        laplace = np.minimum(seen.laplace_information * width**2, G)
        stepped = bounds.affinity.lower(G, laplace, np.asarray(seen.laplace_answers))
        alone = np.where(gaussian, alone, np.maximum(alone, stepped))
    if (single := seen.one_laplace).any():
        alone = np.where(single, np.maximum(alone, bounds.laplace().lower(G)), alone)
    Q = seen.group_information() * width**2
    hidden = v * (1 - 1 / n) + 1 / (n * (n * Q + bounds.added_precision(Q)))
    return np.where(G == 0, 1.0, np.maximum(alone, hidden) / v)


@dataclass(frozen=True, slots=True)
class UniformPrior(DensityPrior):
    """Every value from ``low`` to ``high`` is as likely: what "knows only the bounds" means.

    >>> from sightline.units.target import Seen
    >>> noise = 0.35
    >>> seen = Seen(information=np.array([noise**-2]), linear_information=np.array([noise**-2]))
    >>> prior = UniformPrior(0.0, 1.0)
    >>> prior.lower(seen).round(3).tolist(), prior.upper(seen).round(3).tolist()
    ([0.587], [0.595])
    >>> UniformPrior(-1.0, 1.0).variance == 1 / 3
    True
    """

    bounds = DensityBounds(
        scalar=uniform_table,
        laplace=uniform_laplace_table,
        van_trees=uniform_bound,
        added_precision=uniform_precision,
        precision_excess=uniform_precision_excess,
        grouped_precision=grouped_precision,
        precision_change=uniform_precision_slope,
        affinity=PriorAffinity(
            affinity=lambda h: np.asarray(np.maximum(1 - h, 0.0)),
            stays=lambda h: np.asarray(1 - h),
        ),
        v=UNIFORM_VARIANCE,
        entropy_power=1 / (2 * math.pi * math.e),
    )

    @property
    def name(self) -> str:
        return "uniform"

    @property
    def spread(self) -> str:
        return "even"

    @property
    def fisher_information(self) -> float:
        """J: infinite, since the density jumps at the bounds."""
        return math.inf

    def density(self, values: FloatArray) -> FloatArray:
        """Constant."""
        return np.full(np.shape(values), 1 / self.width)

    def cdf(self, values: FloatArray) -> FloatArray:
        """A straight line."""
        return (values - self.low) / self.width

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""
        return generator.uniform(self.low, self.high, shape)


@dataclass(frozen=True, slots=True)
class CosineSquaredPrior(DensityPrior):
    r"""The cos² density from ``low`` to ``high``: values near the middle are likelier.

    On a domain of width :math:`r` the density :math:`\tfrac{2}{r}\cos^2(\pi x / r)` has the least Fisher
    information of all densities: :math:`J = 4\pi^2/r^2`. Its variance is :math:`v = r^2(1/12 - 1/(2\pi^2))`
    and its entropy :math:`\ln(2r) - 1`, an entropy power of :math:`N = 2r^2/(\pi e^3)`.

    >>> prior = CosineSquaredPrior(0.0, 1.0)
    >>> round(prior.variance, 6), round(prior.fisher_information * prior.variance, 4)
    (0.032673, 1.2899)
    """

    bounds = DensityBounds(
        scalar=cosine_table,
        laplace=cosine_laplace_table,
        van_trees=cosine_bound,
        added_precision=cosine_precision,
        precision_excess=cosine_precision_excess,
        grouped_precision=lambda members, weak: np.full_like(weak, math.inf),
        precision_change=cosine_precision_slope,
        affinity=PriorAffinity(
            affinity=lambda h: np.asarray((1 - h) * np.cos(np.pi * h) + np.sin(np.pi * h) / math.pi),
            stays=lambda h: np.asarray(1 - h + np.sin(2 * np.pi * h) / (2 * math.pi)),
        ),
        v=COSINE_VARIANCE,
        entropy_power=2 / (math.pi * math.e**3),
    )

    @property
    def name(self) -> str:
        return "cos2"

    @property
    def spread(self) -> str:
        return "cosine"

    @property
    def fisher_information(self) -> float:
        """J."""
        return COSINE_INFORMATION / self.width**2

    def density(self, values: FloatArray) -> FloatArray:
        r""":math:`\tfrac{2}{r}\cos^2(\pi(x - c)/r)`, where c is the middle of the domain."""
        density: FloatArray = 2 / self.width * np.cos(np.pi * (values - self.mean) / self.width) ** 2
        return density

    def cdf(self, values: FloatArray) -> FloatArray:
        r""":math:`t - \sin(2\pi t)/(2\pi)` with :math:`t = (x - \text{low})/r`."""
        t = (values - self.low) / self.width
        cdf: FloatArray = t - np.sin(2 * np.pi * t) / (2 * np.pi)
        return cdf

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws: uniform numbers through the inverse of the cdf, by bisection."""
        wanted = generator.random(shape)
        low, high = np.full(shape, self.low), np.full(shape, self.high)
        for _ in range(53):
            middle = 0.5 * (low + high)
            above = self.cdf(middle) < wanted
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        drawn: FloatArray = 0.5 * (low + high)
        return drawn


@dataclass(frozen=True, slots=True)
class TwoPointPrior(NoDensity, BoundedPrior):
    r"""``low`` or ``high``, each with probability one half: the least favourable prior by what remains.

    The lower end is the best of three bounds over :math:`v = r^2/4`, with the scalar risk :math:`f` and
    :math:`n` records alike:

    .. math:: f(G_{jj}), \qquad v\Bigl(1 - \frac1n\Bigr) + \frac1n f(n G_{jj}), \qquad
        v \cos^2 \Bigl(\frac{r \sqrt{I_j}}{2}\Bigr) \text{ for } r \sqrt{I_j} \le \pi .

    The first holds whatever the others' values are, for Gaussian and Laplace noise alike: Laplace answers
    never tell more of a coin than a Gaussian one with their information. The second needs a group of coins;
    under Laplace noise its last term is left out. The third needs others with a density, whose precisions the
    engine used.

    >>> seen = Seen(information=np.array([0.35**-2]), linear_information=np.array([0.35**-2]))
    >>> TwoPointPrior(0.0, 1.0).lower(seen).round(3).tolist()
    [0.225]
    """

    @property
    def name(self) -> str:
        return "two-point"

    @property
    def spread(self) -> str:
        return "ends"

    @property
    def fair(self) -> bool:
        return True

    @property
    def variance(self) -> float:
        return self.width**2 / 4

    def lower(self, seen: Seen) -> FloatArray:
        G, n = seen.information * self.width**2, np.asarray(seen.alike, dtype=np.float64)
        table = two_point_table()
        alone = 4 * table.lower(G)
        if (single := seen.one_laplace).any():
            exact = 4 * two_point_laplace_risk(G) * (1 - ROUNDING)
            alone = np.where(single, np.maximum(alone, exact), alone)
        group = 1 - 1 / n + np.where(seen.gaussian, 4 * table.lower(n * G), 0.0) / n
        best = np.maximum(alone, group)
        angle = np.minimum(np.sqrt(seen.hidden_information) * self.width / 2, math.pi / 2)
        hidden = np.where(angle < math.pi / 2, np.square(np.cos(angle)) * (1 - ROUNDING), 0.0)
        best = np.maximum(best, hidden)
        return np.where(G == 0, 1.0, np.minimum(best, self.upper(seen)))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)

    def lower_by_nats(self, nats: FloatArray) -> FloatArray:
        r"""After a mutual information of I nats: :math:`(1 - I/\ln 2)^{\ln 4}`, from the entropy left."""
        return np.asarray(np.maximum(1 - nats / math.log(2), 0.0) ** math.log(4))

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""
        return np.asarray(self.low + self.width * generator.integers(2, size=shape))


NUMBER_PRIORS: Mapping[str, Callable[[float, float], NumberPrior]] = MappingProxyType(
    {"uniform": UniformPrior, "cos2": CosineSquaredPrior, "two-point": TwoPointPrior}
)


def number_prior(name: str, low: float, high: float) -> NumberPrior:
    """The prior with this name between two bounds.

    >>> number_prior("cos2", 0.0, 2.0).name
    'cos2'
    """
    require(name in NUMBER_PRIORS, f"a prior among {', '.join(NUMBER_PRIORS)}", got=repr(name))
    return NUMBER_PRIORS[name](float(low), float(high))


def prior_on(domain: tuple[float, float] | None, prior: str | TargetPrior) -> TargetPrior:
    """A named prior between the smallest and the largest value, or a prior as it is, which has its domain."""
    if isinstance(prior, str):
        require(
            domain is not None,
            "domain=(low, high), the smallest and the largest value of a record",
            got="none",
        )
        assert domain is not None
        low, high = domain
        return number_prior(prior, low, high)
    require(domain is None, "either a domain or a prior that has its own", got=f"{domain} and {prior}")
    return prior
