"""Copy, check and lock arrays, so that a value that holds one cannot change later.

Tables may also be arrays of CuPy, JAX and PyTorch: :func:`namespace` has the functions of their library.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.errors import InvalidInput, require

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Members = Iterable[int] | ArrayLike


# The square of a sensitivity times κ is a noise variance: it must be a normal double for every κ.
LARGEST = 1e130
EXACT = 2.0**53  # doubles hold every whole number up to this, and sums of whole numbers below it
# The share by which bounds and comparisons give way: more than another order of adding up changes, and ten
# times what the sums of the certified tables are off.
ROUNDING = 1e-9
DIGITS = round(-math.log10(ROUNDING))  # that a sum of doubles has
# Numbers that one step of a loop holds: 16 MB of doubles. Tuned on tables of 1,000 rows, where half and twice
# take longer.
AT_A_TIME = 1 << 21
MOST_SQUARE = 6_000  # lines of a dense square table: 288 MB of doubles; others have no more entries than it
# The share of entries that are not zero from which a table is read as a dense one, whose steps take less time
# than sparse ones and are as many times more: tuned on 300 rows, and on 120 of 2,400 rows a line.
DENSE = 0.1
COARSE = 1e-6  # a relative error that is coarse: beyond it numbers are computed again, or do not fit
NOTICEABLE = 1e-4  # a share that shows: as an error in what is printed, as noise or loss worth a search
MOST_COMPARED = 1_000  # things of which every two are compared: 0.1 s
MOST_LOOKED_AT = 1 << 22  # entries that a search lists, sorts or counts through: about a second


def parts(count: int, each: int = 1, most: int = AT_A_TIME) -> Iterator[slice]:
    """Slices of so many things, each of so many numbers, of which few enough are held at a time.

    >>> [(own.start, own.stop) for own in parts(5, each=AT_A_TIME // 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, most // max(1, each))
    return (slice(first, min(first + step, count)) for first in range(0, count, step))


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


def counted_by(keys: IndexArray, counts: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The different keys, whole numbers from 0, in their order, and for each the sum of its counts.

    They are sorted only if they are neither in order already nor few enough for an array over all of them.

    >>> [found.tolist() for found in counted_by(np.array([4, 2, 4]), np.array([1, 5, 2]))]
    [[2, 4], [5, 3]]
    """
    if bool((keys[1:] > keys[:-1]).all()):
        return keys, counts
    if int(keys.max()) < 4 * keys.size:
        found = np.flatnonzero(np.bincount(keys))
        return found, np.bincount(keys, counts)[found].astype(np.intp)
    found, place = np.unique(keys, return_inverse=True)
    return found, np.bincount(place.ravel(), counts, found.size).astype(np.intp)


def all_one(array: NDArray[Any]) -> bool:
    """Whether all entries are 1. Of one number that stands for all entries, that one is looked at.

    >>> all_one(np.broadcast_to(np.int8(1), (3, 2))), all_one(np.array([1, 2]))
    (True, False)
    """
    one_number = array.size > 0 and not any(array.strides)
    return bool(np.all((array[(slice(1),) * array.ndim] if one_number else array) == 1))


def distinct_lines(lines: NDArray[Any]) -> tuple[IndexArray, IndexArray]:
    """The first of every different line of numbers, in the order of the lines, and which of them each is.

    As ``np.unique(lines, axis=0)``, many times faster: lines are compared as the bytes of numbers without a
    sign, the largest byte first.

    >>> [found.tolist() for found in distinct_lines(np.array([[2, -1], [0, 5], [2, -1]]))]
    [[1, 0], [1, 0, 1]]
    """
    numbers: NDArray[Any]
    if lines.dtype.kind == "f":
        bits = (lines + 0.0).view(np.uint64)  # no negative zero
        numbers = bits ^ np.where(bits >> np.uint64(63), ~np.uint64(0), np.uint64(1) << np.uint64(63))
    else:
        numbers = lines.astype(np.int64) - int(lines.min(initial=0))
    small = lines.dtype.kind != "f" and int(numbers.max(initial=0)) < 1 << 32
    ordered = np.ascontiguousarray(numbers, dtype=">u4" if small else ">u8")
    whole = ordered.view(np.dtype((np.void, ordered.itemsize * lines.shape[1]))).ravel()
    _, first, group = np.unique(whole, return_index=True, return_inverse=True)
    return first, group.ravel()


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


def namespace(array: Any) -> Any:
    """The module of functions for an array: by the array API standard, or the library itself (PyTorch)."""
    own = getattr(array, "__array_namespace__", None)
    if own is not None:
        return own()
    return sys.modules[type(array).__module__.partition(".")[0]]


def is_array(values: Any) -> bool:
    """Whether these are arrays of a supported library, and not a list or a number."""
    library = type(values).__module__.partition(".")[0]
    return hasattr(values, "__array_namespace__") or library in ("torch", "cupy")


def to_numpy(array: Any) -> Any:
    """An array of any library as a NumPy array, on the host."""
    if isinstance(array, np.ndarray):
        return array
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        return array.detach().cpu().numpy()
    return array.get() if library == "cupy" else np.asarray(array)
