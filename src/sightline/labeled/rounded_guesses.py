r"""Upper ends by the best linear attack, rounded softly: of a yes or no, and of a category.

The bound is that of :func:`~sightline.labeled.bounds.coin.logistic_upper`, from the share that the linear
attack leaves of one row, whoever the other rows belong to. A person with several rows keeps no more of the
sharpest feature than of any single row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.coin import logistic_upper
from sightline.labeled.bounds.priors import TwoPointPrior
from sightline.labeled.dense_units import TableUnits
from sightline.labeled.unit_design import Design
from sightline.labeled.units import Units

_MOST_ROWS = 8  # different rows of a person
_LARGEST = 0.3  # rounding lowers no linear share above that


def rounded_guesses(design: Design, linear: Any, upper: FloatArray, error: FloatArray) -> FloatArray:
    """No larger than the upper ends of the linear attack. Its form is read for persons with several rows."""
    noise, units, k = design.noise, design.units, design.prior.categories
    if (k == 1 and not isinstance(design.prior.target, TwoPointPrior)) or noise.share < 1:
        return upper
    law = noise.information * noise.variance  # 1 of Gaussian noise alone, 2 of Laplace noise
    if np.any(np.abs(law - np.where(noise.laplace > 0, 2.0, 1.0)) > 1e-9):
        return upper
    gaussian, share = not noise.laplace.any(), upper * (1 + np.minimum(error, 1e9))
    if isinstance(units, Units):
        share[~units.single] = 1.0
        several = np.flatnonzero(~units.single & np.any(upper < _LARGEST, axis=1))
        read = linear is not None and several.size > 0
        for block in units.choose(several).blocks(_MOST_ROWS * k) if read else ():
            share[several[block.kinds]] = _of_single_rows(design, linear, block)
    elif not isinstance(units, TableUnits):
        return upper
    return np.minimum(upper, logistic_upper(share, gaussian=gaussian, values=max(k, 2)))


def _of_single_rows(design: Design, linear: Any, block: Any) -> FloatArray:
    """Kinds × what is asked: what the linear attack leaves of the single row that it sees best."""
    k, C = design.prior.categories, design.prior.scale * design.prior.kernel
    left, off = linear.left(block.rows_apart(k), C)
    own = (np.diagonal(left, axis1=1, axis2=2) + off[:, None]) / C[0, 0]
    # Of n rows alike it sees their sum over √n, and of each an n-th.
    times = block.times[:, ::k].reshape(-1, 1)
    each = np.where(times > 0, 1 - (1 - own) / np.maximum(times, 1), 1.0)
    return np.asarray(each.reshape(len(block), -1, k).min(axis=1))
