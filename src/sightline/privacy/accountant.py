r"""The interface of every accountant: it turns a budget and a number of releases into noise.

The paper's interface between privacy and geometry is one scalar, :math:`\kappa_L` (``eq:kappaL_sigma_def``):
release :math:`\ell` of :math:`L` gets noise of variance :math:`\kappa_L \Delta_\ell^2`. An accountant is a
rule that computes that scalar. It uses neither records nor queries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, frozen_floats
from sightline.errors import InvalidBudget, InvalidNoise, require
from sightline.numerics.residuals import root_times
from sightline.privacy.law import Law


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    r"""The total :math:`(\epsilon_{\rm tot}, \delta_{\rm tot})` that all releases together may spend.

    A transcript :math:`M` meets the budget if
    :math:`\Pr[M(x) \in S] \le e^{\epsilon}\Pr[M(x') \in S] + \delta` for every event :math:`S` and every two
    neighbouring datasets :math:`x, x'`.

    >>> Budget(epsilon=1.0, delta=1e-5)
    Budget(epsilon=1.0, delta=1e-05)
    >>> Budget(epsilon=0.0, delta=1e-5)
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidBudget: expected a finite epsilon > 0, got 0.0
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = _number(self.epsilon, "epsilon")
        delta = _number(self.delta, "delta")
        require(
            math.isfinite(epsilon) and epsilon > 0, "a finite epsilon > 0", got=epsilon, error=InvalidBudget
        )
        require(
            0 < delta < 1,
            "delta strictly between 0 and 1",
            got=delta,
            fix="a common choice is far below one over the number of records",
            error=InvalidBudget,
        )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)


def _number(value: object, name: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidBudget(f"expected {name} to be a number, got {type(value).__name__}") from None


Counts = Sequence[int] | range | NDArray[np.integer] | FloatArray

# Covers the roundings (2^-53 each) between one release's kappa and a noise standard deviation.
OUTWARD = 1 + 2**-50


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Whether the noise is proven to meet the budget, and by which theorem, or why not."""

    ok: bool
    note: str


class Accountant(ABC):
    r"""A rule that turns a budget and a number of releases into noise.

    A subclass is a frozen dataclass with a ``budget`` and gives the formulas. This class checks their inputs
    and passes them on as whole counts and normalised shares.
    """

    budget: Budget
    law: ClassVar[Law] = Law.GAUSSIAN
    theorem: ClassVar[str] = ""  # why the noise always meets the budget; one that may not overrides _validity
    # Whether a share of the budget has the noise kappa(1)/share: then noise meets the budget exactly when the
    # sum over the releases of sensitivity^2/variance is at most 1/kappa(1).
    linear: ClassVar[bool] = False
    # Whether a record pays only for the releases that it is in: then the count is the most of any record.
    counts_own_releases: ClassVar[bool] = False

    @overload
    def kappa(self, releases: int) -> float: ...
    @overload
    def kappa(self, releases: Counts) -> FloatArray: ...

    def kappa(self, releases: int | Counts) -> float | FloatArray:
        r""":math:`\kappa_L`: one over the Fisher information that a release carries about its exact answer.

        For a release of unit sensitivity when ``releases`` of them share the budget equally. Gaussian noise:
        the variance per squared :math:`\ell_2` sensitivity,
        :math:`\sigma_\ell^2 = \kappa_L \Delta_{2,\ell}^2`. Laplace noise:
        :math:`b_\ell^2 = \kappa_L \Delta_{1,\ell}^2` (its variance is twice that). A count gives a number, an
        array of counts an array.
        """
        counts = _whole_counts(releases)
        with np.errstate(over="ignore", divide="ignore"):
            kappa = _finite(self._kappa_of_counts(counts.ravel()).reshape(counts.shape))
        return float(kappa) if kappa.ndim == 0 else kappa

    def kappa_of_shares(self, shares: ArrayLike) -> FloatArray:
        r"""One :math:`\kappa_\ell` per release when the releases share the budget unequally.

        ``shares`` are positive and sum to 1; each is a share of what this accountant adds up over the
        releases (see its class). Equal shares give ``kappa``.
        """
        with np.errstate(over="ignore", divide="ignore"):
            return _finite(self._kappa_of_shares(_checked_shares(shares)))

    @overload
    def noise_stddev(self, releases: int, *, sensitivity: float) -> float: ...
    @overload
    def noise_stddev(
        self, releases: int | Counts, *, sensitivity: float | Sequence[float] | FloatArray
    ) -> float | FloatArray: ...

    def noise_stddev(
        self, releases: int | Counts, *, sensitivity: float | Sequence[float] | FloatArray
    ) -> float | FloatArray:
        r"""Standard deviation of a release's noise: :math:`\sqrt{\kappa_L}\,\Delta`, and
        :math:`\sqrt{2\kappa_L}\,\Delta` for Laplace.

        ``sensitivity`` is the release's :math:`\ell_2` sensitivity for Gaussian and its :math:`\ell_1`
        sensitivity for Laplace noise; arrays of counts and of sensitivities broadcast.
        """
        delta = frozen_floats(sensitivity, name="sensitivity")
        require(
            bool(np.all(delta > 0)),
            "sensitivity > 0",
            got=float(delta.min()) if delta.size else "none",
            fix="a release that no record can change needs no noise",
        )
        kappa = np.asarray(self.kappa(releases))
        stddev = root_times(2 * kappa if self.law.pure else kappa, delta)  # the variance of scale b is 2 b²
        return float(stddev) if stddev.ndim == 0 else stddev

    def epsilon(self, releases: int, *, noise_multiplier: float) -> float:
        r"""Upper bound on the total :math:`\epsilon`, at the budget's :math:`\delta`, of noise that is given.

        ``noise_multiplier`` is scale over sensitivity, the same for each of ``releases`` releases:
        :math:`\sigma/\Delta_2` for Gaussian and :math:`b/\Delta_1` for Laplace noise. The budget's own
        epsilon is not used.
        """
        counts = _whole_counts(releases)
        require(counts.ndim == 0, "one number of releases", got=f"shape {counts.shape}")
        with np.errstate(over="ignore"):
            return self._epsilon(int(counts), checked_multiplier(noise_multiplier))

    def validity(self, releases: int | Counts) -> Validity:
        """Whether ``kappa(releases)`` is proven to meet the budget, for all counts if several."""
        return self._validity(1 / float(_whole_counts(releases).min()))

    def validity_of_shares(self, shares: ArrayLike) -> Validity:
        """Whether ``kappa_of_shares(shares)`` is proven to meet the budget."""
        return self._validity(float(_checked_shares(shares).max()))

    @abstractmethod
    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _epsilon(self, releases: int, noise_multiplier: float) -> float: ...

    def _validity(self, largest_share: float) -> Validity:
        return Validity(ok=bool(self.theorem), note=self.theorem)


def checked_multiplier(noise_multiplier: float) -> float:
    """``noise_multiplier`` as a finite number above zero."""
    multiplier = frozen_floats(noise_multiplier, name="noise multiplier", ndim=0, error=InvalidNoise)
    require(
        bool(multiplier > 0),
        "noise multiplier > 0",
        got=float(multiplier),
        fix="give the noise scale divided by the sensitivity",
        error=InvalidNoise,
    )
    return float(multiplier)


def _whole_counts(releases: int | Counts) -> FloatArray:
    counts = frozen_floats(releases, name="releases")
    require(counts.size > 0, "at least one number of releases", got=f"shape {counts.shape}")
    bad = counts[(counts < 1) | (counts != np.floor(counts))]
    require(bad.size == 0, "releases as whole numbers >= 1", got=float(bad[0]) if bad.size else None)
    return counts


def _checked_shares(shares: ArrayLike) -> FloatArray:
    given = frozen_floats(shares, name="shares", ndim=1)
    require(given.size > 0, "at least one share", got="none")
    require(bool(np.all(given > 0)), "shares > 0", got=float(given.min()))
    total = math.fsum(given)
    require(
        abs(total - 1) <= 1e-9,
        "shares that sum to 1",
        got=f"a sum of {total!r}",
        fix="divide them by their sum",
    )
    return given / total


def _finite(kappa: FloatArray) -> FloatArray:
    require(
        bool(np.all(np.isfinite(kappa))),
        "a budget with finite noise",
        got="a noise variance beyond the largest double",
        fix="raise epsilon or publish fewer releases",
        error=InvalidBudget,
    )
    return kappa
