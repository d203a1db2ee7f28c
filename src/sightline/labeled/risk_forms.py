r"""The risks of every record under three Gaussian priors, as quadratic forms of its column.

With :math:`A = FQ` (reduced coordinates) and :math:`B = \Sigma^{-1/2}F` the attacker sees :math:`Bz` in unit
noise. For a prior of precision :math:`c` the risk of the best attack on record :math:`j` is

.. math:: [(G + cI)^{-1}]_{jj}
    = \frac1c\bigl(1 - \|\zeta_j\|^2\bigr) + \zeta_j^\top (B^\top B + cI)^{-1} \zeta_j
    = \frac1c\bigl(1 - \tilde a_j^\top (cI + \tilde A \tilde A^\top)^{-1} \tilde a_j\bigr).

After an eigendecomposition of :math:`B^\top B`, or of :math:`\tilde A \tilde A^\top` where the rows are
independent, one product with each column gives it for every :math:`c`. For records in few rows the last form
is read off an inverse instead.

The matrices may be arrays of an accelerator (:mod:`sightline.numerics.device`); the numbers that come out of
them, and vectors, are NumPy's.

NumPy and SciPy each bring a BLAS whose idle threads spin for a while. What every design needs comes from
NumPy, so that the threads of one do not slow down the other's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from sightline.arrays import FloatArray, like, namespace, to_numpy, with_diagonal_plus
from sightline.labeled.column_forms import ColumnForms, MatrixForms, ProjectedForms
from sightline.labeled.gram_factor import GramFactor
from sightline.labeled.least_squares import inverse_factor
from sightline.numerics.inverse import positive_inverse
from sightline.numerics.residuals import absolute_product, eigenvector_errors, gamma, inverse_error

_UNIT = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# What a Gram matrix is estimated to cost: some roundings of its largest eigenvalue. Beyond that another
# method is chosen.
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
    gram: Any, whitening: FloatArray, risks: Risks, *, linear: FloatArray
) -> RiskForms | None:
    """For records in few rows, from inverses in observation space; ``None`` if that is not accurate enough.

    ``whitening`` divides the rows: a number for each, or a matrix where the noise is correlated.
    """
    if whitening.ndim == 1 and is_diagonal(gram):
        return forms_of_disjoint_rows(np.diagonal(gram), whitening, risks, linear=linear)
    own = like(gram, whitening)
    turned = own if own.ndim == 1 else own.T
    seen = both_sides(own, gram)
    if not is_mild(seen, min(risk.precision for risk in risks.values())):
        return None
    alone = np.square(whitening) if whitening.ndim == 1 else to_numpy(turned @ own)
    names, matrices, offsets = [Quantity.INFORMATION], [alone], [0.0]
    worst = 0.0
    for name, risk in risks.items():
        c = risk.precision
        inverse = positive_inverse(with_diagonal_plus(seen / c, 1.0))
        if inverse is None:
            return None
        error = matrix_forms_error(gram, own, seen, inverse, divisor=c)
        if not math.isfinite(error):
            return None
        worst = max(worst, error)
        inverse *= -risk.unit / c**2
        names.append(name)
        matrices.append(to_numpy(both_sides(turned, inverse, overwrite=True)))
        offsets.append(risk.unit / c)
    forms = MatrixForms(symmetric=tuple(matrices), offsets=np.array(offsets), linear=linear)
    return RiskForms(names=tuple(names), forms=forms, share_error=worst)


def is_diagonal(gram: Any) -> bool:
    """Whether no two rows share a record, for a Gram matrix in this machine's memory."""
    return isinstance(gram, np.ndarray) and np.count_nonzero(gram) == np.count_nonzero(np.diagonal(gram))


def forms_of_disjoint_rows(
    squares: FloatArray, whitening: FloatArray, risks: Risks, *, linear: FloatArray
) -> RiskForms:
    r"""For rows of squared lengths :math:`m_\ell` that share no record: all inverses are diagonal.

    A form is :math:`u/c - \sum_\ell a_\ell^2 w_\ell^2 u / (c (c + m_\ell w_\ell^2))`, where w is the
    whitening and u the unit of the risk. Its parts are at most 1, and each is right to some roundings.
    """
    weights = np.square(whitening)
    seen = squares * weights
    shares = [-risk.unit * weights / (risk.precision * (risk.precision + seen)) for risk in risks.values()]
    offsets = np.array([0.0, *(risk.unit / risk.precision for risk in risks.values())])
    forms = MatrixForms(symmetric=(weights, *shares), offsets=offsets, linear=linear)
    error = gamma(len(squares) + 16)
    return RiskForms(names=(Quantity.INFORMATION, *risks), forms=forms, share_error=error)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spectrum:
    r"""Eigenvalues, from the least, and eigenvectors of :math:`\tilde A \tilde A^\top`."""

    values: FloatArray
    vectors: Any  # where the Gram matrix is
    whitening: FloatArray
    gram: Any  # before whitening

    @classmethod
    def of(cls, gram: Any, whitening: FloatArray) -> Spectrum:
        values, vectors = namespace(gram).linalg.eigh(both_sides(like(gram, whitening), gram))
        return cls(values=to_numpy(values), vectors=vectors, whitening=whitening, gram=gram)

    def errors(self) -> SpectrumErrors:
        """Held against the matrix."""
        whitening = like(self.gram, self.whitening)
        seen = both_sides(whitening, self.gram)
        residual, apart = eigenvector_errors(seen, like(self.gram, self.values), self.vectors)
        largest = _largest_sum(seen)
        return SpectrumErrors(
            size=len(seen),
            reach=_reach(self.gram, whitening, largest),
            residual=residual + _whitened_rounding(self.gram, whitening, largest),
            apart=apart,
        )

    def projection(self) -> Any:
        """What takes a column to its coordinates in the eigenvectors of the whitened matrix."""
        whitening = like(self.gram, self.whitening)
        return self.vectors.T * whitening if whitening.ndim == 1 else self.vectors.T @ whitening


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectrumErrors:
    """Bounds on what eigenvalues and eigenvectors are off."""

    size: int
    reach: float  # at least the length of every whitened column, and of the products that add up to it
    residual: float  # of ‖MV − VΛ‖, with the rounding of the matrix
    apart: float  # of ‖VᵀV − I‖

    def of_forms(self, least: float) -> float:
        r"""A bound on the relative error of forms of :math:`V(cI + \Lambda)^{-1}V^\top` that are at most 1.

        ``least`` is at most the smallest of :math:`c + \Lambda`.
        """
        inverse = self.apart + self.residual * (1 + self.apart) / least
        # The images of a column err by γ √n times its length; their squares over c + Λ add up to 1 at most.
        image = 2 * gamma(self.size) * self.reach * math.sqrt(self.size / least)
        return inverse + image * (2 + image) + gamma(self.size + 4)


def forms_from_eigenvalues(spectrum: Spectrum, risks: Risks, *, linear: FloatArray) -> RiskForms | None:
    """For all records; ``None`` if eigenvalues are not accurate enough.

    With leverages if the eigenvalues prove that the rows are independent.
    """
    values, whitening = spectrum.values, spectrum.whitening
    least = min(risk.precision for risk in risks.values())
    if _ROUNDINGS * _UNIT * max(float(values[-1]), 0.0) > _MILD * least:
        return None
    errors = spectrum.errors()
    if not math.isfinite(errors.residual + errors.apart):  # no eigenvalues were found
        return None
    names = [Quantity.INFORMATION, *risks]
    offsets = [0.0, *(risk.unit / risk.precision for risk in risks.values())]
    levels = np.maximum(values, 0.0)
    weights = [np.ones_like(values)]
    weights += [-risk.unit / (risk.precision * (risk.precision + levels)) for risk in risks.values()]
    if values[0] > _TINY and errors.of_forms(float(values[0])) <= PROOF:
        names.append(Quantity.LEVERAGE)
        offsets.append(0.0)
        weights.append(1 / values)
    forms = ProjectedForms(
        projection=spectrum.projection(),
        weights=np.stack(weights),
        offsets=np.array(offsets),
        linear=linear,
        whitening=whitening,
    )
    return RiskForms(names=tuple(names), forms=forms, share_error=errors.of_forms(least))


def forms_from_factor(
    factor: GramFactor, whitening: FloatArray, risks: Risks, *, linear: FloatArray
) -> RiskForms:
    """For all records, from a factor of the Gram matrix and the reduced coordinates."""
    B = whitening[:, None] * factor.factor if whitening.ndim == 1 else whitening @ factor.factor
    coordinates = factor.coordinates()
    information = B.T @ B
    least = min(risk.precision for risk in risks.values())
    offsets = np.array([0.0, *(risk.unit / risk.precision for risk in risks.values()), 0.0])
    names = (Quantity.INFORMATION, *risks, Quantity.LEVERAGE)
    if is_mild(information, least):
        values, vectors = np.linalg.eigh(information)
        spectrum = np.maximum(values, 0.0)
        shares = [
            -risk.unit * spectrum / (risk.precision * (risk.precision + spectrum)) for risk in risks.values()
        ]
        weights = np.stack([spectrum, *shares, np.ones(factor.rank)])
        projection = vectors.T @ coordinates
        # The squares of the coordinates add up to 1 at most.
        residual, apart = eigenvector_errors(information, values, vectors)
        residual += gamma(len(B)) * float(np.sum(np.square(B)))
        bound = 2 * apart + residual * (1 + apart) / least + 3 * gamma(factor.rank) * math.sqrt(factor.rank)
    else:
        # Noise over many orders of magnitude: one factorisation for each precision, none of a Gram matrix.
        blocks = [B @ coordinates]
        deviation = 0.0
        for risk in risks.values():
            X, error = inverse_factor(B, risk.precision) or (np.zeros((factor.rank, factor.rank)), math.inf)
            deviation = max(deviation, error)
            blocks.append(X.T @ coordinates)
        projection = np.concatenate([*blocks, coordinates])
        starts = np.cumsum([0, *(len(block) for block in blocks), factor.rank])
        weights = np.zeros((len(names), starts[-1]))
        for i, name in enumerate(names):
            weights[i, starts[i] : starts[i + 1]] = 1.0
            if name in risks:
                weights[i] *= risks[name].unit
                weights[i, starts[-2] :] = -risks[name].unit / risks[name].precision
        bound = 2 * deviation if deviation < 1 / 4 else math.inf
        bound += 5 * gamma(2 * factor.rank) * factor.rank
    forms = ProjectedForms(
        projection=projection,
        weights=weights,
        offsets=offsets,
        linear=linear,
        whitening=whitening,
    )
    bound += 4 * factor.coordinate_error + 2 * error_of_factor(factor, whitening, least)
    return RiskForms(names=names, forms=forms, share_error=bound)


def error_of_factor(factor: GramFactor, whitening: FloatArray, least: float) -> float:
    r"""A bound on the relative error of :math:`|(B^\top B + cI)^{1/2} z|` for every z, from that of F.

    The factor is :math:`F + E`, which moves a length by at most :math:`\|\Sigma^{-1/2}E\|/\sqrt c` of it.
    ``least`` is at most the least eigenvalue.
    """
    lengths = np.linalg.norm(factor.factor, axis=1)
    reach = float(np.linalg.norm(whitening * lengths))
    size = len(lengths)
    own = gamma(2) if whitening.ndim == 1 else gamma(size) * math.sqrt(size)  # of the product with F
    eta = reach * (float(np.linalg.norm(factor.column_errors)) + own) / math.sqrt(least)
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


def is_mild(information: Any, precision: float) -> bool:
    """Whether a Gram matrix is estimated to cost few digits: a choice of method, not a bound."""
    return _ROUNDINGS * _UNIT * _largest_sum(information) <= _MILD * precision


def matrix_forms_error(gram: Any, whitening: Any, seen: Any, inverse: Any, *, divisor: float) -> float:
    r"""A bound on the error of forms :math:`\tilde a^\top Y \tilde a / c` of :math:`Y = (I + M/c)^{-1}`.

    It holds for the columns that M is made of, whose forms are at most 1; under independent noise it also
    bounds the relative error. ``inverse`` is Y as computed, and ``seen`` is M. Three parts: the residual of
    the inverse, the rounding of M, and that of the form itself.
    """
    size = len(seen)
    if size == 0:
        return 0.0
    largest = _largest_sum(seen)
    error = inverse_error(seen, inverse, divisor=divisor)
    error += _whitened_rounding(gram, whitening, largest) / divisor + gamma(4)
    # A form is a sum over pairs of a column's rows, or two sums over its rows. With correlated noise its
    # matrix is two more sums.
    terms = gamma((2 * size if whitening.ndim == 1 else 4 * size) + size * size // 250 + 4)
    rows = float(absolute_product(inverse, like(inverse, np.ones((size, 1)))).max())
    return error + terms * rows * (1 + _reach(gram, whitening, largest) ** 2 / divisor)


def _whitened_rounding(gram: Any, whitening: Any, largest: float) -> float:
    """A bound on the norm of what rounding did to W G Wᵀ, and to its multiple plus one.

    ``largest`` is the largest absolute row sum of W G Wᵀ.
    """
    if whitening.ndim == 1:
        return gamma(4) * largest
    size = len(whitening)
    everyone = absolute_product(whitening.T, like(gram, np.ones((size, 1))))
    sums = absolute_product(whitening, absolute_product(gram, everyone))
    return 2 * gamma(size) * (float(sums.max()) if size else 0.0)


def _reach(gram: Any, whitening: Any, largest: float) -> float:
    """At least the length of |W||a| for every column a that the Gram matrix is made of."""
    if whitening.ndim == 1:
        return math.sqrt(largest)
    xp = namespace(gram)
    lengths = absolute_product(whitening, xp.sqrt(xp.diagonal(gram))[:, None])
    return float(xp.linalg.norm(lengths)) * 1.01


def _largest_sum(matrix: Any) -> float:
    """The largest absolute row sum of a symmetric matrix: at least its largest eigenvalue."""
    if len(matrix) == 0:
        return 0.0
    sums = absolute_product(matrix, like(matrix, np.ones((len(matrix), 1))))
    return float(sums.max()) * (1 + gamma(len(matrix)))


def both_sides(whitening: Any, matrix: Any, *, overwrite: bool = False) -> Any:
    """W M Wᵀ for a whitening matrix W, or its diagonal. A diagonal may overwrite M."""
    if whitening.ndim == 1:
        if overwrite:
            matrix *= whitening[:, None]
        else:
            matrix = matrix * whitening[:, None]
        matrix *= whitening
        return matrix
    return whitening @ matrix @ whitening.T
