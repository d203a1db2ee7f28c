r"""The laws that noise can have: what each tells of an answer, how large it is, and how accountants count it.

Bounds on attacks take an answer as one with a Fisher information; linear attacks need its variance. For a
parameter :math:`p`, the law's own scale, and in the unit of the answer:

- *gaussian*, :math:`\sigma`: one over the information, and the variance, are :math:`\sigma^2`.
- *laplace*, the scale :math:`b`: they are :math:`b^2` and :math:`2b^2`.
- *discrete-gaussian*, :math:`\sigma`: they are :math:`\sigma^2 - 1`, and :math:`\sigma^2` at most.
- *geometric*, the scale :math:`b`: :math:`1/(4\,\Phi^{-1}(q)^2)` with :math:`q = 1/(1 + e^{-1/b})`, and
  :math:`1/(2 \sinh^2 \frac{1}{2b})`.

The last two add whole numbers to whole numbers. An answer with a lattice has no Fisher information, but one
with the discrete Gaussian law tells no more than a Gaussian answer of variance :math:`\sigma^2 - 1`, except
with a probability of :data:`LATTICE_SHARE` at most; and of a yes or no a geometric answer tells no more than
a Gaussian one with the information above. The theory page on priors proves both.

A law is one row of :data:`LAWS`: whatever prices, bounds, draws, reads or stores noise asks its row, so that
a new law cannot be taken for Gaussian noise somewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, StrEnum

import numpy as np

from sightline.arrays import FloatArray
from sightline.values import frozen

# With this probability at most, a discrete Gaussian answer tells more than its Gaussian stand-in: 2 ε, with
# ε = 2 Σ exp(−2π²k²) = 5.352e-9.
LATTICE_SHARE = 1.08e-8
LEAST_DISCRETE_STDDEV = 1.5  # of discrete Gaussian noise: the stand-in has the variance σ² − 1


class Law(StrEnum):
    """The law of the noise on a published number, as a plan names it."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    DISCRETE_GAUSSIAN = "discrete-gaussian"
    GEOMETRIC = "geometric"
    NONE = "none"
    # Functions of the exact count, by rule or by chance: see sightline.noise.count_rules.
    ROUNDING = "rounding"
    WITHIN = "within"
    CELL_KEY = "cell-key"

    @property
    def facts(self) -> LawFacts:
        """What is known of it."""
        return LAWS[self]

    @property
    def by_count_rule(self) -> bool:
        """Whether a rule for counts makes the published number, and no noise that a budget could pay for."""
        return self.facts.by_count_rule

    @property
    def pure(self) -> bool:
        """Whether it has a pure epsilon: sensitivity (in L1) over its scale."""
        return self.facts.cost in (Cost.PURE, Cost.LAPLACE)

    @property
    def exact(self) -> bool:
        """Whether it is no noise: what is published follows from the number, and no budget covers it."""
        return self.facts.cost is Cost.INFINITE

    @property
    def on_lattice(self) -> bool:
        """Whether it adds whole numbers to whole numbers."""
        return self.facts.on_lattice

    @property
    def laplace_answers(self) -> float:
        """How many Laplace answers an answer counts as, in bounds that count them."""
        return self.facts.laplace_answers


class Cost(Enum):
    """How accountants count an answer."""

    GAUSSIAN = "by its noise multiplier"
    DISCRETE_GAUSSIAN = "as Gaussian noise, by the accountants that are proved for whole numbers"
    LAPLACE = "by its pure epsilon, composed by the loss of Laplace noise"
    PURE = "by its pure epsilon"
    INFINITE = "no budget covers it"


Parameters = Callable[[FloatArray], FloatArray]
Draws = Callable[[np.random.Generator, int], FloatArray]


@frozen
class LawFacts:
    r"""What bounds, attacks, accountants and plans need to know of a law; functions are of its parameter.

    An exact number has the scale and the deviation 0, and may tell everything. A release that changes by at
    most one sensitivity carries at most :math:`I = \frac12 \ln(1 + 1/4m^2)` about a record under Gaussian
    noise of m sensitivities, and at most :math:`I = \frac1m \tanh \frac{1}{2m}` under Laplace noise of scale
    m, as under any noise whose pure epsilon is 1/m.

    >>> discrete, geometric = Law.DISCRETE_GAUSSIAN.facts, Law.GEOMETRIC.facts
    >>> discrete.information_scale(np.array([2.0])).round(6).tolist()
    [1.732051]
    >>> geometric.information_scale(np.array([1.0, 100.0])).round(3).tolist()
    [0.812, 79.789]
    >>> geometric.stddev(np.array([1.0])).round(6).tolist()
    [1.356962]
    >>> geometric.parameter_of_stddev(np.array([1.356962])).round(6).tolist()
    [1.0]
    """

    cost: Cost
    on_lattice: bool  # whether it adds whole numbers to whole numbers: then it is refused on others
    # In bounds that count Laplace answers. A geometric answer counts as two: the bounds for a single Laplace
    # answer are not for it.
    laplace_answers: float
    information_scale: Parameters  # one over the root of the information that bounds on attacks may use
    # A scale p with which the affinity of answers that are Δ apart is at least exp(−Δ²/8p²).
    affinity_scale: Parameters
    stddev: Parameters
    parameter_of_stddev: Parameters
    information_at_most: Parameters  # in nats about a record, from noise over sensitivity
    by_count_rule: bool = False  # whether it is a rule for counts: lower ends are those of exact numbers
    least_parameter: float = 0.0  # smaller noise is refused: what counts as its information is not proved
    stand_in_fails: float = (
        0.0  # with this probability at most an answer tells more than its information says
    )
    draws: Draws | None = None  # with the parameter 1; none of noise that is not drawn here
    size: str = "stddev"  # the field of a plan's noise that says how much it hides; none: nothing does


def _same(parameter: FloatArray) -> FloatArray:
    return parameter


def _geometric_information_scale(parameter: FloatArray) -> FloatArray:
    from scipy.special import expit, ndtri  # few plans need them, and they take long to import

    # At least the information of a Laplace answer, too: a person's privacy loss is read off it.
    most = np.maximum(-2 * ndtri(expit(-1 / parameter)), 1 / parameter)
    return np.asarray((1 - 1e-12) / most)


def _geometric_stddev(parameter: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):  # hardly any noise: none
        return np.asarray(1 / (math.sqrt(2) * np.sinh(0.5 / parameter)))


def _gaussian_information(multipliers: FloatArray) -> FloatArray:
    return np.asarray(np.log1p(0.25 / multipliers**2) / 2)


def _pure_information(multipliers: FloatArray) -> FloatArray:
    return np.asarray(np.tanh(0.5 / multipliers) / multipliers)


_EXACT = LawFacts(
    cost=Cost.INFINITE,
    on_lattice=False,
    laplace_answers=0.0,
    information_scale=np.zeros_like,
    affinity_scale=np.zeros_like,
    stddev=np.zeros_like,
    parameter_of_stddev=np.zeros_like,
    information_at_most=lambda multipliers: np.full_like(multipliers, np.inf),
    size="",
)
# A rounded count is a function of the exact one: whatever bounds attacks on that bounds attacks on this.
_BY_RULE = replace(_EXACT, by_count_rule=True)

LAWS = {
    Law.GAUSSIAN: LawFacts(
        cost=Cost.GAUSSIAN,
        on_lattice=False,
        laplace_answers=0.0,
        information_scale=_same,
        affinity_scale=_same,
        stddev=_same,
        parameter_of_stddev=_same,
        information_at_most=_gaussian_information,
        draws=lambda generator, size: generator.standard_normal(size),
    ),
    Law.LAPLACE: LawFacts(
        cost=Cost.LAPLACE,
        on_lattice=False,
        laplace_answers=1.0,
        information_scale=_same,
        affinity_scale=_same,  # (1 + t) exp(−t) is at least exp(−t²/2), with t = Δ/2b
        stddev=lambda b: np.asarray(b * math.sqrt(2)),
        parameter_of_stddev=lambda stddev: np.asarray(stddev / math.sqrt(2)),
        information_at_most=_pure_information,
        draws=lambda generator, size: generator.laplace(size=size),
    ),
    Law.DISCRETE_GAUSSIAN: LawFacts(
        cost=Cost.DISCRETE_GAUSSIAN,
        on_lattice=True,
        laplace_answers=0.0,
        information_scale=lambda sigma: np.asarray(np.sqrt(sigma**2 - 1) * (1 - 1e-15)),
        affinity_scale=_same,
        stddev=_same,  # at most that
        parameter_of_stddev=_same,
        information_at_most=_gaussian_information,
        least_parameter=LEAST_DISCRETE_STDDEV,
        stand_in_fails=LATTICE_SHARE,
    ),
    Law.GEOMETRIC: LawFacts(
        cost=Cost.PURE,
        on_lattice=True,
        laplace_answers=2.0,
        information_scale=_geometric_information_scale,
        affinity_scale=_same,
        stddev=_geometric_stddev,
        parameter_of_stddev=lambda stddev: np.asarray(0.5 / np.arcsinh(1 / (math.sqrt(2) * stddev))),
        information_at_most=_pure_information,
    ),
    Law.NONE: _EXACT,
    Law.ROUNDING: replace(_BY_RULE, size="to"),
    Law.WITHIN: replace(_BY_RULE, size="of"),
    Law.CELL_KEY: replace(_BY_RULE, size="ptable"),
}
