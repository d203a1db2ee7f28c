"""Which records the attacker knows before any release."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import numpy as np

from sightline.errors import require
from sightline.labeled.units import BoolArray


class Known(Enum):
    """Attacker knowledge that is not a list of records."""

    ALL_OTHERS = "all others"
    """For every record: all the other records. The adversary of differential privacy."""


def unknown_records(size: int, known: Iterable[int] | Known) -> BoolArray:
    """Which of ``size`` records the attacker does not know. With ``ALL_OTHERS`` each record is a target."""
    unknown = np.ones(size, dtype=np.bool_)
    if isinstance(known, Known):
        return unknown
    index = np.asarray(list(known))
    if index.size:
        whole = index.dtype.kind in "iu"
        require(
            whole and index.min() >= 0 and index.max() < size,
            f"known records from 0 to {size - 1}",
            got=f"{index.min()} to {index.max()}" if whole else f"dtype {index.dtype}",
        )
        unknown[index] = False
    require(
        bool(unknown.any()),
        "at least one record that the attacker does not know",
        got=f"all {size} known",
        fix="leave the target out of known=",
    )
    return unknown
