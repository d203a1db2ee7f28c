r"""What the secret is, and what remains of it: a number between bounds, a yes or no, or one of k categories.

A number has the cos² prior of its bounds, a yes or no is a fair coin. A category is uniform over its k values
and enters as indicators, each with probability :math:`p = 1/k`. Those of one record depend on each other:

- *Lower end.* Tell the attacker, besides all other records, which category :math:`b` it is if it is not
  :math:`a`; drawn at random if it is. That says nothing about whether it is :math:`a`, and leaves a coin with
  probability :math:`p`. A published number counts one category, so that the coin's sides are
  :math:`I_a + I_b` apart, the information of all numbers that count :math:`a` or :math:`b`. The risk is at
  least the mean over :math:`b \ne a` of the risk of this coin.
- *Upper end.* A linear attack that uses the numbers about :math:`a` alone sees independent coins. One that
  uses those about the category left out, too, sees indicators with the covariance
  :math:`\frac1k I - \frac{1}{k^2} 11^\top \preceq \frac1k I`, and is worse by :math:`k/(k-1)` at most than
  it would be for independent ones of variance :math:`v = p(1-p)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan, SecretKind
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.bounds.cosine import CosineSquaredPrior
from sightline.labeled.company import excess, row_sums, whitening
from sightline.labeled.design import MembershipDesign
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.privacy.accountant import NoiseLaw
from sightline.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What an attacker knows of every record's secret before any release.

    >>> Secret(kind=SecretKind.BOOLEAN).kept(information=4.0, loss=0.0, law=NoiseLaw.GAUSSIAN)
    0.4495...
    """

    kind: SecretKind
    bounds: tuple[float, float] = (0.0, 1.0)
    categories: int = 2

    @classmethod
    def of(cls, plan: Plan) -> Secret:
        """The secret of a plan."""
        count = len(plan.data.categories) if plan.data.categories is not None else 2
        return cls(kind=plan.data.secret_kind, bounds=plan.data.domain, categories=count)

    @property
    def domain(self) -> tuple[float, float] | CoinPrior:
        """What an assessment needs to know."""
        return self.bounds if self.kind is SecretKind.NUMBER else self._coin

    def exposures(
        self,
        design: MembershipDesign,
        *,
        indicators: int,
        rest: BoolArray,
        copies: FloatArray,
        known: Iterable[int],
        progress: Progress,
    ) -> Exposures:
        """What a design exposes, whose columns are ``indicators`` of every record below each other.

        ``rest`` are the rows that count the category left out, ``copies`` how often each is published: its
        noise is that of their mean.
        """
        known = list(known)
        found = design.exposures(domain=self.domain, known=known, progress=progress)
        if self.kind is SecretKind.NUMBER:
            return found
        upper = found.remaining_upper
        if indicators > 1 and rest.any():
            upper = np.minimum(1.0, upper * (self.categories / (self.categories - 1)))
            if not rest.all():
                others = design.take(np.flatnonzero(~rest))
                alone = others.exposures(domain=self.domain, known=known, progress=progress)
                upper = np.minimum(upper, alone.remaining_upper)
        lower = self._coins_kept(design, found, indicators, rest, copies)
        return replace(found, remaining_lower=lower, remaining_upper=upper)

    def kept(self, *, information: float, loss: float, law: NoiseLaw) -> float:
        """What remains of a record even if all others are known: the least, whatever its secret.

        ``information`` is that on its secret, or the squared distance between two of its values; ``loss`` is
        its pure privacy loss, which counts where Laplace noise hides one of few values.
        """
        G = np.array([information])
        if self.kind is not SecretKind.NUMBER:
            if law is NoiseLaw.LAPLACE:
                return float(self._coin.bound_by_loss(np.array([loss]))[0])
            return float(self._coin.company_bound(G)[0])
        prior = CosineSquaredPrior(width=self.bounds[1] - self.bounds[0])
        bound = 1 / (prior.variance * (G + prior.fisher_information))
        if law is NoiseLaw.GAUSSIAN:
            bound = np.maximum(bound, prior.company_bound(G))
        return float(bound[0])

    def kept_whatever_is_published(self, multipliers: FloatArray, law: NoiseLaw) -> float:
        r"""What remains of a number through releases that need not be linear in it: moments, thresholds.

        A release that changes by one sensitivity at most, under Gaussian noise of m sensitivities, tells
        :math:`\frac12 \ln(1 + 1/4m^2)` of a record at most, one under Laplace noise of m
        :math:`\frac1m \tanh \frac{1}{2m}`; and releases tell no more than the sum. Then the entropy bounds
        the risk.
        """
        prior = CosineSquaredPrior(width=self.bounds[1] - self.bounds[0])
        told = (
            np.log1p(0.25 / multipliers**2) / 2
            if law is NoiseLaw.GAUSSIAN
            else np.tanh(0.5 / multipliers) / multipliers
        )
        return prior.entropy_power / prior.variance * math.exp(-2 * float(np.sum(told)))

    @property
    def _coin(self) -> CoinPrior:
        return CoinPrior(share=1 / self.categories)

    def _coins_kept(
        self,
        design: MembershipDesign,
        found: Exposures,
        indicators: int,
        rest: BoolArray,
        copies: FloatArray,
    ) -> FloatArray:
        """The lower end for every indicator: the mean over what else the record may be."""
        company = np.append(found.groups.sizes, 1)[found.group].reshape(indicators, -1).astype(np.float64)
        gaussian = excess(design) == 1
        bounds = self._coin.company_bounds if gaussian else self._coin.loss_bounds
        weights = whitening(design) ** 2 if gaussian else row_losses(design, copies)
        own = row_sums(design, np.where(rest, 0.0, weights)).reshape(indicators, -1)
        left_out = row_sums(design, np.where(rest, weights, 0.0)).reshape(indicators, -1)
        unseen = self.categories - indicators - 1  # those that nothing is published about
        # The mean of each kind of bound is one; their larger ones for each alternative would not be.
        means = np.stack(bounds(own + left_out, company)) + unseen * np.stack(bounds(own, company))
        for other in range(indicators):
            apart = np.stack(bounds(own + own[other], company))
            apart[:, other] = 0.0
            means += apart
        lower: FloatArray = (means.max(axis=0) / (self.categories - 1)).ravel()
        lower[found.known] = np.nan
        return lower


def row_losses(design: MembershipDesign, copies: FloatArray) -> FloatArray:
    r"""What a row of Laplace noise costs each of its members, if its noise is that of a mean of copies.

    T copies with the scale b say as much as one with :math:`b/\sqrt T`, but cost :math:`T/b`.
    """
    return np.abs(whitening(design)) * np.sqrt(copies)


def spread(
    secret: Secret, design: MembershipDesign, exposures: Exposures, copies: FloatArray
) -> tuple[float, float]:
    """The most information on a record, and the largest privacy loss, as :meth:`Secret.kept` takes them."""
    sides = 2 if secret.kind is SecretKind.CATEGORY and secret.categories > 2 else 1
    loss = float(np.max(row_sums(design, row_losses(design, copies)))) if excess(design) > 1 else 0.0
    return sides * float(np.nanmax(exposures.information)), sides * loss
