"""Release counts: the accepted types, and the checked array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import IndexArray
from sightline.errors import require
from sightline.multiset.family import Family

Counts = Sequence[int] | range | NDArray[np.integer]


def checked_counts(releases: Counts, *, family: Family) -> IndexArray:
    """Release counts as a locked array: whole, at least one, increasing, no more than the family has."""
    require(
        isinstance(family, Family) and not isinstance(family, type),
        "a family of releases (Moments, Thresholds, QueryFamily, Mixture)",
        got=type(family).__name__,
    )
    raw = np.atleast_1d(np.asarray(releases))
    whole = raw.ndim == 1 and raw.size > 0 and np.issubdtype(raw.dtype, np.integer)
    require(whole, "release counts as whole numbers", got=f"shape {raw.shape}, dtype {raw.dtype}")
    require(int(raw.min()) >= 1, "release counts >= 1", got=int(raw.min()))
    require(bool(np.all(np.diff(raw) > 0)), "release counts that increase", got="repeated or unsorted counts")
    largest = family.largest
    require(
        largest is None or int(raw[-1]) <= largest,
        f"at most the {largest} releases of the family",
        got=int(raw[-1]),
    )
    counts = raw.astype(np.intp)
    counts.setflags(write=False)
    return counts
