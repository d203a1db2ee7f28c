r"""Eigenvalues of the signal :math:`A_L`: the least determined combination of values, and its growth.

.. math:: \mathrm{CRB}(L) = \kappa_L \sum_k \lambda_k(A_L)^{-1}

(``rem:lever2_mixed_regime``). One direction whose eigenvalue does not grow faster than :math:`\kappa_L` is
enough to make the curve rise for large L. Eigenvalues are squared singular values of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.multiset.family import Family, rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bottleneck:
    """The least determined unit combination of sorted values; NaN if no digit is reliable."""

    releases: int
    direction: FloatArray  # coefficients of the sorted values; the largest is positive
    eigenvalue: float
    share: float  # of the whole bound

    def __str__(self) -> str:
        parts = [f"{c:+.3f}·z{k + 1}" for k, c in enumerate(self.direction) if abs(c) >= 5e-4]
        return f"{' '.join(parts)} carries {100 * self.share:.1f} % of the bound at {self.releases} releases"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Growth:
    r"""The smallest eigenvalue against the noise: the bound falls where the ratio's exponent is positive.

    ``exponent`` is the slope of :math:`\ln(\lambda_{\min}(A_L)/\kappa_L)` over :math:`\ln L` from one count
    to the next (``cor:lever2_spectral_consequences``).
    """

    releases: IndexArray
    smallest_eigenvalue: FloatArray
    kappa: FloatArray

    @property
    def ratio(self) -> FloatArray:
        r""":math:`\lambda_{\min}(A_L)/\kappa_L`."""
        return self.smallest_eigenvalue / self.kappa

    @property
    def exponent(self) -> FloatArray:
        """The slopes between neighbouring counts; NaN where an eigenvalue is zero or unreliable."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps: FloatArray = np.diff(np.log(self.ratio)) / np.diff(np.log(self.releases))
        return steps


def eigenvalues(values: FloatArray, *, family: Family, counts: IndexArray) -> FloatArray:
    """Eigenvalues of the signal of one sorted group, descending, ``(counts, m)``.

    Counts below m leave m - L eigenvalues exactly zero; NaN where rounding is as large as the singular value.
    """
    m = len(values)
    table = np.zeros((len(counts), m))
    nested = family.rows(values[None], int(counts[-1]))[0] if family.nested else None
    triangle = np.zeros((0, m))
    before = 0
    for i, count in enumerate(counts):
        if nested is None:
            rows = family.rows(values[None], int(count))[0]
        else:
            # The triangle replaces all earlier rows: the singular values are the same, with at most 2m rows.
            rows = np.concatenate([triangle, nested[before:count]])
            triangle = np.asarray(np.linalg.qr(rows, mode="r"))
            before = int(count)
        singular = np.linalg.svd(rows, compute_uv=False)
        resolved = singular > _resolution(family, int(count)) * singular[0]
        table[i, : len(singular)] = np.where(resolved, singular**2, np.nan)
    table.setflags(write=False)
    return table


def _resolution(family: Family, count: int) -> float:
    """The relative singular value below which the error of an eigenvalue may exceed one per cent."""
    return 200 * rounding(family, count)


def bottleneck(values: FloatArray, *, family: Family, count: int) -> Bottleneck:
    """The right singular vector of the smallest singular value of the rows."""
    require(
        count >= len(values),
        f"at least as many releases as values ({len(values)})",
        got=count,
        fix="with fewer, the releases do not determine some combination",
    )
    _, singular, right = np.linalg.svd(family.rows(values[None], count)[0], full_matrices=False)
    direction = right[-1] * np.sign(right[-1][np.argmax(np.abs(right[-1]))])
    if 0 < singular[-1] <= _resolution(family, count) * singular[0]:
        direction, singular = np.full(len(values), np.nan), np.full(len(values), np.nan)
    direction.setflags(write=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = (singular[-1] / singular) ** 2
    return Bottleneck(
        releases=count,
        direction=direction,
        eigenvalue=float(singular[-1] ** 2),
        share=1.0 if singular[-1] == 0 else float(1.0 / np.sum(weights)),
    )
