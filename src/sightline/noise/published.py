r"""The laws that published noise can have, and what each says of an answer: its information and its variance.

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
"""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np

from sightline.arrays import FloatArray

# With this probability at most, a discrete Gaussian answer tells more than its Gaussian stand-in: 2 ε, with
# ε = 2 Σ exp(−2π²k²) = 5.352e-9.
LATTICE_SHARE = 1.08e-8
LEAST_DISCRETE_STDDEV = 1.5  # of discrete Gaussian noise: the stand-in has the variance σ² − 1


class PublishedLaw(StrEnum):
    """The noise on a published number, as a plan names it."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    DISCRETE_GAUSSIAN = "discrete-gaussian"
    GEOMETRIC = "geometric"
    NONE = "none"

    @property
    def pure(self) -> bool:
        """Whether it has a pure epsilon: sensitivity (in L1) over its scale."""
        return self in (PublishedLaw.LAPLACE, PublishedLaw.GEOMETRIC)

    @property
    def on_lattice(self) -> bool:
        """Whether it adds whole numbers to whole numbers."""
        return self in (PublishedLaw.DISCRETE_GAUSSIAN, PublishedLaw.GEOMETRIC)

    @property
    def laplace_answers(self) -> float:
        """How many Laplace answers an answer counts as, in bounds that count them.

        A geometric answer counts as two: the bounds for a single Laplace answer are not for it.
        """
        return {PublishedLaw.LAPLACE: 1.0, PublishedLaw.GEOMETRIC: 2.0}.get(self, 0.0)


def information_scale(law: PublishedLaw, parameter: FloatArray) -> FloatArray:
    r"""One over the root of the information that bounds on attacks may use; 0 for an exact number.

    >>> information_scale(PublishedLaw.DISCRETE_GAUSSIAN, np.array([2.0])).round(6).tolist()
    [1.732051]
    >>> information_scale(PublishedLaw.GEOMETRIC, np.array([1.0, 100.0])).round(3).tolist()
    [0.812, 79.789]
    """
    match law:
        case PublishedLaw.GAUSSIAN | PublishedLaw.LAPLACE:
            return parameter
        case PublishedLaw.DISCRETE_GAUSSIAN:
            return np.asarray(np.sqrt(parameter**2 - 1) * (1 - 1e-15))
        case PublishedLaw.GEOMETRIC:
            from scipy.special import expit, ndtri  # few plans need them, and they take long to import

            # At least the information of a Laplace answer, too: a person's privacy loss is read off it.
            told = np.maximum(-2 * ndtri(expit(-1 / parameter)), 1 / parameter)
            return np.asarray((1 - 1e-12) / told)
        case PublishedLaw.NONE:
            return np.zeros_like(parameter)


def noise_stddev(law: PublishedLaw, parameter: FloatArray) -> FloatArray:
    """The standard deviation of the noise; of discrete Gaussian noise at least that.

    >>> noise_stddev(PublishedLaw.GEOMETRIC, np.array([1.0])).round(6).tolist()
    [1.356962]
    """
    match law:
        case PublishedLaw.GAUSSIAN | PublishedLaw.DISCRETE_GAUSSIAN:
            return parameter
        case PublishedLaw.LAPLACE:
            return np.asarray(parameter * math.sqrt(2))
        case PublishedLaw.GEOMETRIC:
            with np.errstate(over="ignore"):  # hardly any noise: none
                return np.asarray(1 / (math.sqrt(2) * np.sinh(0.5 / parameter)))
        case PublishedLaw.NONE:
            return np.zeros_like(parameter)


def parameter_of_stddev(law: PublishedLaw, stddev: FloatArray) -> FloatArray:
    """The parameter of noise with a standard deviation: the inverse of :func:`noise_stddev`.

    >>> parameter_of_stddev(PublishedLaw.GEOMETRIC, np.array([1.356962])).round(6).tolist()
    [1.0]
    """
    match law:
        case PublishedLaw.GAUSSIAN | PublishedLaw.DISCRETE_GAUSSIAN:
            return stddev
        case PublishedLaw.LAPLACE:
            return np.asarray(stddev / math.sqrt(2))
        case PublishedLaw.GEOMETRIC:
            return np.asarray(0.5 / np.arcsinh(1 / (math.sqrt(2) * stddev)))
        case PublishedLaw.NONE:
            return np.zeros_like(stddev)


def information_at_most(multipliers: FloatArray, law: PublishedLaw) -> FloatArray:
    r"""The most information (in nats) about a record that a release with each noise multiplier carries.

    A release that changes by at most one sensitivity carries at most :math:`I = \frac12 \ln(1 + 1/4m^2)`
    about a record under Gaussian noise of m sensitivities, and at most :math:`I = \frac1m \tanh
    \frac{1}{2m}` under Laplace noise of scale m, as under any noise whose pure epsilon is 1/m. An exact
    number may tell everything.
    """
    match law:
        case PublishedLaw.GAUSSIAN | PublishedLaw.DISCRETE_GAUSSIAN:
            return np.asarray(np.log1p(0.25 / multipliers**2) / 2)
        case PublishedLaw.LAPLACE | PublishedLaw.GEOMETRIC:
            return np.asarray(np.tanh(0.5 / multipliers) / multipliers)
        case PublishedLaw.NONE:
            return np.full_like(multipliers, np.inf)
