r"""What the attacker knows of a secret beforehand, and what the noise alone leaves of it.

A number has the cos² prior on its bounds. A yes or no has even chances. A category is one of k values with
equal chances: it enters a design as indicators, each one with probability :math:`p = 1/k`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.bounds.cosine import CosineSquaredPrior
from sightline.privacy.accountant import NoiseLaw
from sightline.tables.subject import SecretKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPrior:
    """The prior of every record's secret.

    >>> SecretPrior(kind=SecretKind.BOOLEAN).kept(information=4.0, loss=0.0, law=NoiseLaw.GAUSSIAN)
    0.4495...
    """

    kind: SecretKind
    bounds: tuple[float, float] = (0.0, 1.0)
    categories: int = 2

    @classmethod
    def of(cls, plan: Plan) -> SecretPrior:
        """The prior of a plan's secret."""
        count = len(plan.data.categories) if plan.data.categories is not None else 2
        return cls(kind=plan.data.secret_kind, bounds=plan.data.domain, categories=count)

    @property
    def domain(self) -> tuple[float, float] | CoinPrior:
        """The prior of one column of a design: bounds for a number, a coin for an indicator."""
        return self.bounds if self.kind is SecretKind.NUMBER else self.coin

    @property
    def coin(self) -> CoinPrior:
        """The prior of one indicator."""
        return CoinPrior(share=1 / self.categories)

    @property
    def number(self) -> CosineSquaredPrior:
        """The prior of a number."""
        return CosineSquaredPrior(width=self.bounds[1] - self.bounds[0])

    def kept(self, *, information: float, loss: float, law: NoiseLaw) -> float:
        """The least share of uncertainty that remains if the attacker knows all other records.

        ``information`` is the Fisher information about a number, or for indicators the squared distance
        between two values in units of the noise. ``loss`` is the pure privacy loss, used for indicators under
        Laplace noise.
        """
        G = np.array([information])
        if self.kind is not SecretKind.NUMBER:
            if law is NoiseLaw.LAPLACE:
                return float(self.coin.bound_by_loss(np.array([loss]))[0])
            return float(self.coin.group_bound(G)[0])
        prior = self.number
        bound = 1 / (prior.variance * (G + prior.fisher_information))
        if law is NoiseLaw.GAUSSIAN:
            bound = np.maximum(bound, prior.group_bound(G))
        return float(bound[0])

    def kept_whatever_is_published(self, multipliers: FloatArray, law: NoiseLaw) -> float:
        r"""The least share of a number's uncertainty that remains, for releases of any feature of it.

        .. math:: \frac{N}{v} \exp\Bigl(-2 \sum_\ell I_\ell\Bigr)

        with the entropy power N and the variance v of the prior. A release that changes by at most one
        sensitivity carries at most :math:`I = \frac12 \ln(1 + 1/4m^2)` about a record under Gaussian noise of
        m sensitivities, and at most :math:`I = \frac1m \tanh \frac{1}{2m}` under Laplace noise of scale m.
        """
        prior = self.number
        total = float(np.sum(information_at_most(multipliers, law)))
        return prior.entropy_power / prior.variance * math.exp(-2 * total)


def information_at_most(multipliers: FloatArray, law: NoiseLaw) -> FloatArray:
    """The most information (in nats) about a record that a release with each noise multiplier carries."""
    match law:
        case NoiseLaw.GAUSSIAN:
            return np.asarray(np.log1p(0.25 / multipliers**2) / 2)
        case NoiseLaw.LAPLACE:
            return np.asarray(np.tanh(0.5 / multipliers) / multipliers)
