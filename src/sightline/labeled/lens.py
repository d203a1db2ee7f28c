r"""How sharply every record is seen: its risks under three Gaussian priors, as forms of its column.

With :math:`A = FQ` (reduced coordinates) and :math:`B = \Sigma^{-1/2}F` the attacker sees :math:`Bz` in unit
noise. For a prior of precision :math:`c` the risk of the best attack on record :math:`j` is

.. math:: [(G + cI)^{-1}]_{jj}
    = \frac1c\bigl(1 - \|\zeta_j\|^2\bigr) + \zeta_j^\top (B^\top B + cI)^{-1} \zeta_j
    = \frac1c\bigl(1 - \tilde a_j^\top (cI + \tilde A \tilde A^\top)^{-1} \tilde a_j\bigr).

After :math:`B^\top B = V\Lambda V^\top` one product with each column gives it for every :math:`c`; records in
few rows read the last form off an inverse instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.linalg import cholesky, eigh, get_lapack_funcs, solve_triangular

from sightline.arrays import FloatArray
from sightline.labeled.forms import Forms, MatrixForms, ProjectedForms
from sightline.labeled.prior import CosineSquaredPrior
from sightline.labeled.root import Root
from sightline.labeled.sharpness import factorise

Whiten = Callable[[FloatArray], FloatArray]

_UNIT = float(np.finfo(np.float64).eps)
# What a Gram matrix costs: some roundings of its largest eigenvalue. Risks over v may be that far off.
_ROUNDINGS, _MILD = 16, 1e-10


class Form(Enum):
    """What a quadratic form of a record's column says; risks are over the prior variance v."""

    INFORMATION = "G_jj"
    VAN_TREES = "risk at precision J"
    LINEAR = "risk at precision 1/v"
    ENTROPIC = "risk at precision 1/N"
    LEVERAGE = "share of the record that the releases see"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lens:
    r"""The forms of every record's column, and :math:`\det(I + NB^\top B)/\det(I + vB^\top B)`.

    The last is what the risk at precision 1/N is multiplied with to be a lower bound. Where it is below
    :math:`1/(Jv)` the van Trees bound is the better one for every record, and the form is left out.
    """

    names: tuple[Form, ...]
    forms: Forms
    entropic_factor: float
    relative_error: float


def lens_of_pairs(
    products: FloatArray, whitening: FloatArray, prior: CosineSquaredPrior, *, linear: FloatArray
) -> Lens | None:
    """For records in few rows, from inverses in observation space; ``None`` if that is not accurate enough.

    ``whitening`` divides the rows: a number for each, or a matrix where the noise is correlated.
    """
    v = prior.variance
    seen = _both_sides(whitening, products)
    error = _gram_error(seen, prior)
    if error > _MILD:
        return None
    factors = {
        name: cholesky(np.eye(len(seen)) + seen / c, lower=True, check_finite=False)
        for name, c in precisions(prior).items()
    }
    logarithms = {name: 2 * float(np.sum(np.log(np.diagonal(C)))) for name, C in factors.items()}
    factor = float(np.exp(logarithms[Form.ENTROPIC] - logarithms[Form.LINEAR]))
    names, matrices, offsets = [Form.INFORMATION], [_both_sides(whitening.T, np.eye(len(seen)))], [0.0]
    for name, c in _worthwhile(prior, factor).items():
        inverse, _ = get_lapack_funcs("potri", (factors[name],))(factors[name], lower=1)
        symmetric = np.tril(inverse) + np.tril(inverse, -1).T
        names.append(name)
        matrices.append(_both_sides(whitening.T, symmetric) / (-c * c * v))
        offsets.append(1 / (c * v))
    forms = MatrixForms(stacked=np.stack(matrices, axis=-1), offsets=np.array(offsets), linear=linear)
    return Lens(names=tuple(names), forms=forms, entropic_factor=factor, relative_error=error)


def lens_of_root(root: Root, whiten: Whiten, prior: CosineSquaredPrior, *, linear: FloatArray) -> Lens:
    """For all records, from reduced coordinates."""
    v = prior.variance
    B = whiten(root.factor)
    coordinates = root.coordinates()
    information = B.T @ B
    error = _gram_error(information, prior)
    if error > _MILD:
        return _graded_lens(B, coordinates, prior, linear=linear, error=root.relative_error)
    values, vectors = eigh(information, check_finite=False)
    spectrum = np.maximum(values, 0.0)
    shrink = np.log1p(prior.entropy_power * spectrum) - np.log1p(v * spectrum)
    factor = float(np.exp(np.sum(shrink)))
    risks = _worthwhile(prior, factor)
    weights = [spectrum, *(-spectrum / (c * (c + spectrum) * v) for c in risks.values()), np.ones(root.rank)]
    forms = ProjectedForms(
        projection=vectors.T @ coordinates,
        weights=np.stack(weights),
        offsets=np.array([0.0, *(1 / (c * v) for c in risks.values()), 0.0]),
        linear=linear,
    )
    names = (Form.INFORMATION, *risks, Form.LEVERAGE)
    error = max(error, root.relative_error)
    return Lens(names=names, forms=forms, entropic_factor=factor, relative_error=error)


def _graded_lens(
    B: FloatArray, coordinates: FloatArray, prior: CosineSquaredPrior, *, linear: FloatArray, error: float
) -> Lens:
    """Noise over many orders of magnitude: one factorisation for each precision, none of a Gram matrix."""
    v, risks = prior.variance, precisions(prior)
    names = (Form.INFORMATION, *risks, Form.LEVERAGE)
    blocks, logarithms = [B @ coordinates], {}
    for name, c in risks.items():
        R, order = factorise(B, c)
        blocks.append(solve_triangular(R, coordinates[order], trans="T", check_finite=False))
        logarithms[name] = float(np.sum(2 * np.log(np.abs(np.diagonal(R))) - np.log(c)))
    blocks.append(coordinates)
    starts = np.cumsum([0, *(len(block) for block in blocks)])
    weights = np.zeros((len(names), starts[-1]))
    for i, name in enumerate(names):
        weights[i, starts[i] : starts[i + 1]] = 1.0
        if name in risks:
            weights[i] /= v
            weights[i, starts[-2] :] = -1 / (risks[name] * v)
    forms = ProjectedForms(
        projection=np.concatenate(blocks),
        weights=weights,
        offsets=np.array([0.0, *(1 / (c * v) for c in risks.values()), 0.0]),
        linear=linear,
    )
    factor = float(np.exp(logarithms[Form.ENTROPIC] - logarithms[Form.LINEAR]))
    return Lens(names=names, forms=forms, entropic_factor=factor, relative_error=error)


def precisions(prior: CosineSquaredPrior) -> dict[Form, float]:
    """The precision of the Gaussian prior behind each risk."""
    return {
        Form.VAN_TREES: prior.fisher_information,
        Form.LINEAR: 1 / prior.variance,
        Form.ENTROPIC: 1 / prior.entropy_power,
    }


def _worthwhile(prior: CosineSquaredPrior, factor: float) -> dict[Form, float]:
    """The precisions whose risk can be part of the answer."""
    risks = precisions(prior)
    if factor <= 1 / (prior.fisher_information * prior.variance):
        del risks[Form.ENTROPIC]
    return risks


def _gram_error(information: FloatArray, prior: CosineSquaredPrior) -> float:
    # The largest absolute row sum bounds the largest eigenvalue.
    largest = float(np.max(np.sum(np.abs(information), axis=1), initial=0.0))
    return _ROUNDINGS * _UNIT * prior.variance * largest


def _both_sides(whitening: FloatArray, matrix: FloatArray) -> FloatArray:
    if whitening.ndim == 1:
        return whitening[:, None] * matrix * whitening
    product: FloatArray = whitening @ matrix @ whitening.T
    return product
