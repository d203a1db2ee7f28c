r"""Lower ends of records in numbers that are published exactly.

An exact number is known to the attacker. Two bounds need no noise on it:

- *A record in an exact number.* With n unknown records that nothing tells apart, itself among them, the best
  guess is the same for all of them, so that at least :math:`1 - 1/n` of its uncertainty remains whatever is
  published about them (bound 2 of the theory page on priors, without its last term). Records that only
  numbers with noise tell apart from it hide it, too (:mod:`sightline.auditing.swapped_values`).
- *A record in none.* Tell the attacker every record that is in one. Then the exact numbers say nothing more,
  and the bounds for the numbers with noise hold.

The attacks are those on the same numbers with very little noise in place of none: an attacker can add that by
themselves, so that errors and upper ends are at most what is printed. What exact numbers give away by
themselves has no error at all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.design import LinearDesign
from sightline.auditing.swapped_values import swap_bounds
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.unknown_gram import row_counts


def in_exact_numbers(linear: LinearDesign) -> BoolArray:
    """The columns of records that an exact number depends on: all columns of such a record."""
    main = linear.main
    touched = row_counts(main.design, linear.exact.astype(np.float64)) > 0
    by_record = np.any(touched.reshape(main.blocks, -1), axis=0)
    return np.asarray(np.tile(by_record, linear.blocks), dtype=np.bool_)


def with_exact_numbers(
    linear: LinearDesign, found: Exposures, *, alone: Exposures, others: Exposures | None
) -> Exposures:
    """The exposures with lower ends that need no noise on exact numbers.

    ``found`` are those with very little noise on them, ``alone`` those of the exact numbers, ``others`` those
    of the numbers with noise for an attacker who knows the records in exact ones.
    """
    inside = in_exact_numbers(linear)
    outside = np.ones(len(found)) if others is None else others.remaining_lower
    among = np.maximum(1 - 1 / _alike(linear), swap_bounds(linear))
    lower = np.where(inside, among, outside)
    lower[found.known] = np.nan
    given_away = np.append(alone.groups.identifiable, False)[alone.group]  # a value, or the sum of a column
    upper = np.where(alone.identifiable, 0.0, found.remaining_upper)
    groups = replace(found.groups, rmse=found.groups.rmse.copy())
    mine = given_away & (found.group >= 0) & _same_records(found, alone)
    groups.rmse[found.group[mine]] = 0.0
    return replace(
        found,
        rmse=np.where(alone.identifiable, 0.0, found.rmse),
        remaining_lower=np.minimum(lower, upper),
        remaining_upper=upper,
        groups=groups,
    )


def _alike(linear: LinearDesign) -> FloatArray:
    """How many unknown records have the signature of each column, also where these are several columns."""
    alike = np.maximum(linear.counts, 1).astype(np.float64)
    incidence, unknown = linear.design.incidence, ~linear.known
    if linear.blocks == 1 and incidence.counts is not None:
        signature = incidence.signatures(unknown)[unknown]
        alike[unknown] = np.bincount(signature, alike[unknown])[signature]
    return alike


def _same_records(found: Exposures, alone: Exposures) -> BoolArray:
    """Columns whose group is as large by the exact numbers alone as by all numbers."""
    sizes = np.append(found.groups.sizes, -1)[found.group]
    same: BoolArray = sizes == np.append(alone.groups.sizes, -2)[alone.group]
    return same
