"""Copy, check and lock arrays, so that a value that holds one cannot change later."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.errors import InvalidInput, require

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Members = Iterable[int] | ArrayLike


def frozen_floats(
    values: ArrayLike, *, name: str, ndim: int | None = None, error: type[InvalidInput] = InvalidInput
) -> FloatArray:
    """Return a locked float64 copy of ``values``; refuse other than finite numbers in ``ndim`` dimensions."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(f"expected {name} to be an array of numbers, got {type(values).__name__}") from None
    if ndim is not None:
        require(array.ndim == ndim, f"{name} of {ndim} dimension(s)", got=f"shape {array.shape}", error=error)
    bad = np.flatnonzero(~np.isfinite(array))
    require(
        bad.size == 0,
        f"finite {name}",
        got=f"{bad.size} NaN or infinite entries, the first at position {bad[:1].tolist()}",
        fix="drop or impute them first",
        error=error,
    )
    array.setflags(write=False)
    return array


def coordinates(records: IndexArray, dimension: int) -> IndexArray:
    """Positions (record · dimension + place in it) of all coordinates of some records.

    >>> coordinates(np.array([0, 2]), 2).tolist()
    [0, 1, 4, 5]
    """
    return (records[:, None] * dimension + np.arange(dimension)).ravel()


def frozen_index(
    members: Members, *, name: str = "members", error: type[InvalidInput] = InvalidInput
) -> IndexArray:
    """Return ``members`` as a locked, sorted array: one or more distinct positions of records, from 0."""
    raw = np.asarray(members if isinstance(members, np.ndarray) else list(members))  # type: ignore[arg-type]
    require(raw.ndim == 1 and raw.size > 0, f"at least one of {name}", got=f"shape {raw.shape}", error=error)
    whole = np.issubdtype(raw.dtype, np.integer)
    require(whole, f"{name} as whole numbers", got=f"dtype {raw.dtype}", error=error)
    index = np.sort(raw).astype(np.intp)
    require(int(index[0]) >= 0, f"{name} >= 0", got=int(index[0]), error=error)
    repeated = index[1:][index[1:] == index[:-1]]
    require(repeated.size == 0, f"distinct {name}", got=f"{repeated[:1].tolist()} twice", error=error)
    index.setflags(write=False)
    return index
