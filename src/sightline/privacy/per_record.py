"""Exact composition of Gaussian releases, where each record pays only for the releases that it is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sightline.privacy.gaussian_dp import GaussianDP


@dataclass(frozen=True)
class PerRecord(GaussianDP):
    r"""Gaussian releases with noise such that the record that is in most of them keeps the budget exactly.

    If who is in which release is public and fixed, a change of record j's secrets moves the answers by at
    most :math:`\Delta_{j\ell}`, which is zero where j takes no part. The two transcripts are a
    Gaussian pair at distance :math:`\mu_j`, :math:`\mu_j^2 = \sum_\ell \Delta_{j\ell}^2/\sigma_\ell^2`, so
    the budget holds exactly if :math:`\mu_j \le \mu_{\rm tot}` for every record. With noise in proportion to
    sensitivity this is :math:`\kappa = L/\mu_{\rm tot}^2`, where the count L is
    :math:`\max_j \sum_\ell \Delta_{j\ell}^2/\Delta_\ell^2`: the most releases that one record is in.

    >>> from sightline import Budget
    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(PerRecord(budget).kappa(3), 9)
    41.752837184
    """

    theorem: ClassVar[str] = (
        "exact for independent Gaussian noise, if it is public and fixed who is in which release"
    )
    counts_own_releases: ClassVar[bool] = True
