r"""Pricing: the noise that a budget prescribes, :math:`\sqrt{\kappa_L}` times the sensitivity.

.. math:: \sigma_\ell = \sqrt{\kappa_L}\,\Delta_\ell

(``eq:kappaL_sigma_def``). Every room that turns a budget into noise calls :func:`price`, which rounds up: the
noise is never below its level. A bound that was computed for noise :math:`\sigma_\ell = \Delta_\ell` is
multiplied by :func:`unit_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import overload

from sightline.arrays import FloatArray
from sightline.noise.laws import GaussianNoise, LaplaceNoise, Noise
from sightline.numerics.residuals import root_times
from sightline.privacy.accountant import Accountant, Counts
from sightline.privacy.law import Law


def price(
    accountant: Accountant, sensitivities: FloatArray, *, releases: int, own_releases: float | None = None
) -> Noise:
    """The noise on published numbers with these sensitivities, when ``releases`` share the budget.

    ``own_releases`` is the most of them that one record is in, for an accountant that counts those; without
    it a record may be in all of them. The sensitivities are in the norm of the accountant's law: L2 for
    Gaussian noise, L1 for Laplace noise.

    >>> import numpy as np
    >>> from sightline import Budget, ZeroConcentrated
    >>> accountant = ZeroConcentrated(Budget(epsilon=1.0, delta=1e-5))
    >>> noise = price(accountant, np.array([0.5, 2.0]), releases=4)
    >>> bool(np.allclose(noise.variances, accountant.kappa(4) * np.array([0.25, 4.0])))
    True
    """
    kappa = shared_unit_noise(accountant, releases=releases, own_releases=own_releases)
    return noise_of_law(accountant.law, root_times(kappa, sensitivities))


def shared_unit_noise(accountant: Accountant, *, releases: int, own_releases: float | None = None) -> float:
    r"""The squared noise scale of an answer with sensitivity 1, by what the accountant counts.

    A record that is in :math:`L` of the releases has the cost of one release with :math:`\sqrt L` times the
    sensitivity; L need not be whole where a record has only some of its rows in a release.

    >>> from sightline import Budget
    >>> from sightline.privacy.gaussian_dp import PerRecord
    >>> accountant = PerRecord(Budget(epsilon=1.0, delta=1e-5))
    >>> round(shared_unit_noise(accountant, releases=20, own_releases=2.5) / accountant.kappa(5), 12)
    0.5
    """
    if own_releases is None or not accountant.counts_own_releases:
        return unit_noise(accountant, releases)
    return math.nextafter(accountant.kappa(1) * own_releases, math.inf)


@overload
def unit_noise(accountant: Accountant, releases: int) -> float: ...
@overload
def unit_noise(accountant: Accountant, releases: Counts) -> FloatArray: ...


def unit_noise(accountant: Accountant, releases: int | Counts) -> float | FloatArray:
    r"""The squared noise scale :math:`\kappa_L` of an answer with sensitivity 1, for each release count.

    The scale is a standard deviation for Gaussian noise and a Laplace scale for Laplace noise.

    >>> from sightline import Budget, ZeroConcentrated
    >>> round(unit_noise(ZeroConcentrated(Budget(epsilon=1.0, delta=1e-5)), 20), 6)
    480.308819
    """
    return accountant.kappa(releases)


def noise_of_law(law: Law, scales: FloatArray) -> Noise:
    """Independent noise of a law that accountants prescribe; ``scales`` are deviations, or Laplace scales."""
    made: dict[Law, Callable[[FloatArray], Noise]] = {
        Law.GAUSSIAN: lambda stddevs: GaussianNoise(stddevs=stddevs),
        Law.LAPLACE: lambda scales: LaplaceNoise(scales=scales),
    }
    return made[law](scales)
