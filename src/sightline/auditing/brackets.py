r"""The exposures of a linear design: who is identifiable, how sharply, and what remains.

Numbers and yes-or-no secrets go to the labeled engine as they are. The indicators of one category depend on
each other, so their brackets are made here:

- *Lower end for category a.* Let the attacker know all other records. If the record is not of category
  :math:`a`, also tell them which other category :math:`b` it has; if it is, tell them one drawn at random.
  That says nothing about whether it is :math:`a`, and leaves a coin with probability :math:`p`. Every
  published number counts one category, so the two sides of the coin are :math:`I_a + I_b` apart, where
  :math:`I_a` is the information of all numbers that count :math:`a`. The risk is at least the mean over
  :math:`b \ne a` of the risk of this coin.
- *Upper end.* A linear attack that uses only the numbers about :math:`a` sees independent coins. One that
  also uses those about the reference category sees indicators with the covariance
  :math:`\frac1k I - \frac{1}{k^2} 11^\top \preceq \frac1k I`; its risk is at most :math:`k/(k-1)` times its
  risk for independent indicators of variance :math:`v = p(1-p)`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.design import LinearDesign
from sightline.labeled.exposures import Exposures
from sightline.labeled.unknown_gram import row_sums
from sightline.progress import Progress
from sightline.tables.subject import SecretKind


def assess(linear: LinearDesign, progress: Progress) -> Exposures:
    """The exposures of all columns of a linear design."""
    domain, known = linear.prior.domain, linear.known_columns
    exposures = linear.design.exposures(domain=domain, known=known, progress=progress)
    if linear.prior.kind is SecretKind.NUMBER:
        return exposures
    upper = exposures.remaining_upper
    reference = linear.reference
    if linear.blocks > 1 and reference.any():
        upper = np.minimum(1.0, upper * (linear.prior.categories / (linear.prior.categories - 1)))
        if not reference.all():
            others = linear.design.take(np.flatnonzero(~reference))
            alone = others.exposures(domain=domain, known=known, progress=progress)
            upper = np.minimum(upper, alone.remaining_upper)
    return replace(exposures, remaining_lower=_coin_bounds(linear, exposures), remaining_upper=upper)


def _coin_bounds(linear: LinearDesign, exposures: Exposures) -> FloatArray:
    """The lower end for every indicator: the mean over the other categories that the record may have."""
    blocks, reference, categories = linear.blocks, linear.reference, linear.prior.categories
    coin, design = linear.prior.coin, linear.design
    sizes = np.append(exposures.groups.sizes, 1)[exposures.group].reshape(blocks, -1).astype(np.float64)
    gaussian = design.law.excess == 1
    bounds = coin.group_bounds if gaussian else coin.loss_bounds
    weights = design.whitening**2 if gaussian else row_losses(linear)
    own = row_sums(design, np.where(reference, 0.0, weights)).reshape(blocks, -1)
    of_reference = row_sums(design, np.where(reference, weights, 0.0)).reshape(blocks, -1)
    unpublished = categories - blocks - 1  # categories that no number counts, besides the reference
    # The mean of each kind of bound is a bound. The mean of the larger of the two would not be.
    means = np.stack(bounds(own + of_reference, sizes)) + unpublished * np.stack(bounds(own, sizes))
    for other in range(blocks):
        apart = np.stack(bounds(own + own[other], sizes))
        apart[:, other] = 0.0
        means += apart
    lower: FloatArray = (means.max(axis=0) / (categories - 1)).ravel()
    lower[exposures.known] = np.nan
    return lower


def row_losses(linear: LinearDesign) -> FloatArray:
    r"""The pure privacy loss that each row of Laplace noise causes its members.

    A row stands for the mean of T copies. Copies of scale b have the noise of one number with scale
    :math:`b/\sqrt T`, but cost :math:`T/b`.
    """
    return np.abs(linear.design.whitening) * np.sqrt(linear.copies)


def most_information(linear: LinearDesign, exposures: Exposures) -> tuple[float, float]:
    """The most information on a record, and the largest privacy loss, as ``SecretPrior.kept`` takes them."""
    sides = 2 if linear.prior.kind is SecretKind.CATEGORY and linear.prior.categories > 2 else 1
    laplace = linear.design.law.excess > 1
    loss = float(np.max(row_sums(linear.design, row_losses(linear)))) if laplace else 0.0
    return sides * float(np.nanmax(exposures.information)), sides * loss
