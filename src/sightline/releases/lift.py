"""The Kronecker lift: one row of weights, applied to each coordinate (``app:block_jacobians``)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float64, np.int64)


def coordinate_rows(weights: NDArray[Number], *, dimension: int) -> NDArray[Number]:
    r"""The rows :math:`a^\top \otimes I_p` of one weighted sum, shape ``(p, len(weights), p)``.

    Output i is the weighted sum of coordinate i, so it depends only on coordinate i of the members.

    >>> coordinate_rows(np.array([1, 2]), dimension=2).reshape(2, 4).tolist()
    [[1, 0, 2, 0], [0, 1, 0, 2]]
    """
    identity = np.eye(dimension, dtype=weights.dtype)
    rows: NDArray[Number] = identity[:, np.newaxis, :] * weights[:, np.newaxis]
    return rows
