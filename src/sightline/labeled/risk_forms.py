r"""The risks of every record under three Gaussian priors, as quadratic forms of its column.

With :math:`A = FQ` (reduced coordinates) and :math:`B = \Sigma^{-1/2}F` the attacker sees :math:`Bz` in unit
noise. For a prior of precision :math:`c` the risk of the best attack on record :math:`j` is

.. math:: [(G + cI)^{-1}]_{jj}
    = \frac1c\bigl(1 - \|\zeta_j\|^2\bigr) + \zeta_j^\top (B^\top B + cI)^{-1} \zeta_j
    = \frac1c\bigl(1 - \tilde a_j^\top (cI + \tilde A \tilde A^\top)^{-1} \tilde a_j\bigr).

After an eigendecomposition of :math:`B^\top B`, or of :math:`\tilde A \tilde A^\top` where the rows are
independent, one product with each column gives it for every :math:`c`. For records in few rows the last form
is read off an inverse instead.

NumPy and SciPy each bring a BLAS whose idle threads spin for a while. What every design needs comes from
NumPy, so that the threads of one do not slow down the other's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
from scipy.linalg import solve_triangular

from sightline.arrays import FloatArray
from sightline.labeled.column_forms import ColumnForms, MatrixForms, ProjectedForms
from sightline.labeled.gram_factor import GramFactor
from sightline.labeled.least_squares import factorisation_error, factorise
from sightline.numerics.inverse import positive_inverse

_UNIT = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# What a Gram matrix costs: some roundings of its largest eigenvalue. Risks over v may be that far off.
_ROUNDINGS, _MILD = 16, 1e-10
# A factorisation whose smallest singular value is this far above its error proves full rank, and leverages
# from it are good to that much.
PROOF = 1e-3


class Quantity(Enum):
    """What a quadratic form of a record's column says; risks are shares of those without releases."""

    INFORMATION = "G_jj"
    LINEAR = "risk at precision 1/v, of the best linear attack"
    HIDDEN = "risk at a precision that no record exceeds"
    LEVERAGE = "share of the record that the releases see"


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    r"""The number :math:`unit \cdot [(G + cI)^{-1}]_{jj}` for a ``precision`` c."""

    precision: float
    unit: float


Risks: TypeAlias = dict[Quantity, Risk]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RiskForms:
    """The quadratic forms of every record's column, by name."""

    names: tuple[Quantity, ...]
    forms: ColumnForms
    share_error: float  # a bound on the error of every risk over v, before cancellation is repaired


def forms_from_inverses(
    gram: FloatArray, whitening: FloatArray, risks: Risks, *, linear: FloatArray
) -> RiskForms | None:
    """For records in few rows, from inverses in observation space; ``None`` if that is not accurate enough.

    ``whitening`` divides the rows: a number for each, or a matrix where the noise is correlated.
    """
    seen = both_sides(whitening, gram)
    error = _gram_error(seen, risks)
    if error > _MILD:
        return None
    alone = np.square(whitening) if whitening.ndim == 1 else both_sides(whitening.T, np.eye(len(seen)))
    names, matrices, offsets = [Quantity.INFORMATION], [alone], [0.0]
    work = np.empty_like(seen)
    for name, risk in risks.items():
        c = risk.precision
        np.divide(seen, c, out=work)
        work[np.diag_indices_from(work)] += 1.0
        inverse = positive_inverse(work)
        if inverse is None:
            return None
        inverse *= -risk.unit / c**2
        names.append(name)
        matrices.append(both_sides(whitening.T, inverse, out=inverse))
        offsets.append(risk.unit / c)
    forms = MatrixForms(symmetric=tuple(matrices), offsets=np.array(offsets), linear=linear)
    return RiskForms(names=tuple(names), forms=forms, share_error=_bound(error, len(seen)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spectrum:
    r"""Eigenvalues, from the least, and eigenvectors of :math:`\tilde A \tilde A^\top`."""

    values: FloatArray
    vectors: FloatArray
    whitening: FloatArray

    @classmethod
    def of(cls, gram: FloatArray, whitening: FloatArray) -> Spectrum:
        values, vectors = np.linalg.eigh(both_sides(whitening, gram))
        return cls(values=values, vectors=vectors, whitening=whitening)


def forms_from_eigenvalues(spectrum: Spectrum, risks: Risks, *, linear: FloatArray) -> RiskForms | None:
    """For all records; ``None`` if eigenvalues are not accurate enough.

    With leverages if the eigenvalues prove that the rows are independent.
    """
    values, whitening = spectrum.values, spectrum.whitening
    relative = _ROUNDINGS * _UNIT * max(float(values[-1]), 0.0)
    error = relative / min(risk.precision for risk in risks.values())
    if error > _MILD:
        return None
    names = [Quantity.INFORMATION, *risks]
    offsets = [0.0, *(risk.unit / risk.precision for risk in risks.values())]
    levels = np.maximum(values, 0.0)
    weights = [np.ones_like(values)]
    weights += [-risk.unit / (risk.precision * (risk.precision + levels)) for risk in risks.values()]
    if values[0] > _TINY and len(values) * relative / values[0] <= PROOF:
        names.append(Quantity.LEVERAGE)
        offsets.append(0.0)
        weights.append(1 / values)
    vectors = spectrum.vectors.T
    forms = ProjectedForms(
        projection=vectors * whitening if whitening.ndim == 1 else vectors @ whitening,
        weights=np.stack(weights),
        offsets=np.array(offsets),
        linear=linear,
        whitening=whitening,
    )
    return RiskForms(names=tuple(names), forms=forms, share_error=_bound(error, len(values)))


def forms_from_factor(
    factor: GramFactor, whitening: FloatArray, risks: Risks, *, linear: FloatArray
) -> RiskForms:
    """For all records, from a factor of the Gram matrix and the reduced coordinates."""
    B = whitening[:, None] * factor.factor if whitening.ndim == 1 else whitening @ factor.factor
    coordinates = factor.coordinates()
    information = B.T @ B
    error = _gram_error(information, risks)
    offsets = np.array([0.0, *(risk.unit / risk.precision for risk in risks.values()), 0.0])
    names = (Quantity.INFORMATION, *risks, Quantity.LEVERAGE)
    if error <= _MILD:
        values, vectors = np.linalg.eigh(information)
        spectrum = np.maximum(values, 0.0)
        shares = [
            -risk.unit * spectrum / (risk.precision * (risk.precision + spectrum)) for risk in risks.values()
        ]
        weights = np.stack([spectrum, *shares, np.ones(factor.rank)])
        projection = vectors.T @ coordinates
        bound = _bound(error, len(B))
    else:
        # Noise over many orders of magnitude: one factorisation for each precision, none of a Gram matrix.
        blocks = [B @ coordinates]
        factorisation = 0.0
        for risk in risks.values():
            R, order = factorise(B, risk.precision)
            factorisation = max(factorisation, factorisation_error(R, len(B)))
            blocks.append(solve_triangular(R, coordinates[order], trans="T", check_finite=False))
        projection = np.concatenate([*blocks, coordinates])
        starts = np.cumsum([0, *(len(block) for block in blocks), factor.rank])
        weights = np.zeros((len(names), starts[-1]))
        for i, name in enumerate(names):
            weights[i, starts[i] : starts[i + 1]] = 1.0
            if name in risks:
                weights[i] *= risks[name].unit
                weights[i, starts[-2] :] = -risks[name].unit / risks[name].precision
        bound = 2 * factorisation
    forms = ProjectedForms(
        projection=projection,
        weights=weights,
        offsets=offsets,
        linear=linear,
        whitening=whitening,
    )
    bound += 4 * factor.coordinate_error + 2 * _error_of_factor(factor, whitening, risks)
    return RiskForms(names=names, forms=forms, share_error=bound)


def _error_of_factor(factor: GramFactor, whitening: FloatArray, risks: Risks) -> float:
    r"""A bound on the relative error of :math:`|(B^\top B + cI)^{1/2} z|` for every z, from that of F.

    The factor is :math:`F + E`, which moves a length by at most :math:`\|\Sigma^{-1/2}E\|/\sqrt c` of it.
    """
    lengths = np.linalg.norm(factor.factor, axis=1)
    reach = float(np.linalg.norm(whitening * lengths))
    least = min(risk.precision for risk in risks.values())
    eta = reach * float(np.linalg.norm(factor.column_errors)) / math.sqrt(least)
    return eta / (1 - 2 * eta) if eta < 1 / 4 else math.inf


def risks_over_v(variance: float, *, excess: float, precision: float | None) -> Risks:
    """The risks that the bracket needs, each as a share of what it is without releases.

    ``excess`` is the noise's variance times its information: one for Gaussian noise. ``precision`` is at
    least that of every record's prior, or ``None`` if it has none.
    """
    risks = {Quantity.LINEAR: Risk(precision=excess / variance, unit=excess / variance)}
    if precision is not None:
        risks[Quantity.HIDDEN] = Risk(precision=precision, unit=precision)
    return risks


def forms_error(information: FloatArray) -> float | None:
    """A bound on the relative error of forms of :math:`(I + M)^{-1}`; ``None`` if it is not small."""
    error = _gram_error(information, {Quantity.HIDDEN: Risk(precision=1.0, unit=1.0)})
    return None if error > _MILD else _bound(error, len(information))


def _bound(error: float, row_count: int) -> float:
    """A bound from the estimate: every rounding of the factorisation counts in full."""
    return row_count * (error + _ROUNDINGS * _UNIT)


def _gram_error(information: FloatArray, risks: Risks) -> float:
    # The largest absolute row sum bounds the largest eigenvalue.
    largest = float(np.max(np.sum(np.abs(information), axis=1), initial=0.0))
    return _ROUNDINGS * _UNIT * largest / min(risk.precision for risk in risks.values())


def both_sides(whitening: FloatArray, matrix: FloatArray, *, out: FloatArray | None = None) -> FloatArray:
    """W M Wᵀ for a whitening matrix W, or its diagonal."""
    if whitening.ndim == 1:
        product = np.multiply(matrix, whitening[:, None], out=out)
        product *= whitening
        return product
    return np.matmul(whitening @ matrix, whitening.T, out=out)
