r"""Directions for the bound that tells the attacker one line through the records.

Every direction d with :math:`d_j = 1` and :math:`|d_k| \le 1` gives a bound
(:mod:`sightline.labeled.bounds.chord`). A good one changes the releases little and moves few others, since
each of them shortens the chord: the minimum of

.. math:: \tfrac12 d^\top G d + \mu \sum_{k \ne j} |d_k|

for some penalties :math:`\mu`. Each is found as a sequence of weighted least squares, in which the last
:math:`|d_k|` become weights. The best bound counts. How good a minimum is does not matter for its truth.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.bounds.chord import MOST_MOVED, chord_bounds
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.bounds.uniform import UniformPrior
from sightline.labeled.routes.problem import Decisions
from sightline.labeled.unknown_gram import RecordsGram
from sightline.numerics.residuals import gamma

# Designs of up to so many groups, and so many entries of rows × groups. Of each, the groups with the widest
# brackets.
_MOST_GROUPS, _MOST_ENTRIES, _MOST_CHOSEN = 40, 20_000, 32
_WIDE = 1.05  # brackets narrower than that are left alone
# Penalties for a domain of width 1. A small one finds the shortest change that hardly changes a release.
_PENALTIES = np.array([0.1, 1.0, 5.0])
_STEPS, _NOTHING = 12, 0.02
_SHARPEST = 1e7  # columns over the noise


def with_chords(
    gram: RecordsGram, decisions: Decisions, prior: TargetPrior, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """The lower ends of the unknown records, improved where the brackets are wide and the design is small."""
    groups = decisions.sizes.size
    small = groups <= _MOST_GROUPS and gram.design.row_count * groups <= _MOST_ENTRIES
    small &= gram.design.incidence.complete
    if not isinstance(prior, UniformPrior) or not small:
        return lower
    own_lower, own_upper = lower[decisions.first], upper[decisions.first]
    wide = np.flatnonzero(own_upper > _WIDE * own_lower)
    chosen = wide[np.argsort(own_lower[wide] / own_upper[wide], kind="stable")][:_MOST_CHOSEN]
    if chosen.size == 0:
        return lower
    columns = gram.design.incidence.columns(np.flatnonzero(gram.unknown)[decisions.first])
    counts = decisions.sizes.astype(np.float64)
    whitened = gram.design.whiten(columns) * prior.width
    directions_of = _directions(whitened, counts, chosen)
    if directions_of is None:
        return lower
    directions = directions_of.reshape(-1, groups)
    bounds = _bounds(gram, columns, counts, np.repeat(chosen, _PENALTIES.size), directions, prior)
    found = np.zeros(groups)
    found[chosen] = bounds.reshape(chosen.size, -1).max(axis=1)
    improved = np.minimum(found[decisions.group] / prior.variance, upper)
    return np.maximum(lower, improved)


def _directions(whitened: FloatArray, counts: FloatArray, chosen: IndexArray) -> FloatArray | None:
    """For each chosen group some directions: how a record of every group moves with one of its own.

    ``None`` where least squares find none: with hardly any noise.
    """
    size = counts.size
    if not float(np.max(np.abs(whitened))) < _SHARPEST:
        return None
    G = whitened.T @ whitened
    others = np.repeat(counts[None], chosen.size, axis=0)
    others[np.arange(chosen.size), chosen] -= 1
    # Groups without others are held still by a weight that is larger than all information.
    alone = others == 0
    others = np.where(alone, 1.0, others)[:, None, :]
    held = np.where(alone, 1e12 * float(np.trace(G)), 0.0)[:, None, :]
    target = np.repeat(-G[chosen][:, None, :], _PENALTIES.size, axis=1)[..., None]
    d = np.ones((chosen.size, _PENALTIES.size, size))
    for _ in range(_STEPS):
        weights = _PENALTIES[:, None] / (np.abs(d) + _NOTHING) + held
        matrix = np.repeat(G[None, None], chosen.size, axis=0).repeat(_PENALTIES.size, axis=1)
        matrix[..., np.arange(size), np.arange(size)] += weights / others
        try:
            d = np.clip(np.linalg.solve(matrix, target)[..., 0] / others, -1.0, 1.0)
        except np.linalg.LinAlgError:  # singular, to rounding
            return None
    return np.where(alone[:, None, :], 0.0, d)


def _bounds(
    gram: RecordsGram,
    columns: FloatArray,
    counts: FloatArray,
    targets: IndexArray,
    directions: FloatArray,
    prior: UniformPrior,
) -> FloatArray:
    """The bounds for a record of each target group, whose own entry of d is how the others of it move."""
    others = np.repeat(counts[None], targets.size, axis=0)
    others[np.arange(targets.size), targets] -= 1
    order = np.argsort(-np.abs(directions), axis=1, kind="stable")
    few = np.cumsum(np.take_along_axis(others, order, axis=1), axis=1) <= MOST_MOVED
    kept = np.zeros(others.shape, dtype=np.bool_)
    np.put_along_axis(kept, order, few, axis=1)
    moves, others = np.where(kept, directions, 0.0), np.where(kept & (directions != 0), others, 0.0)
    moved = columns[:, targets] + columns @ (others * moves).T
    size = np.abs(columns[:, targets]) + np.abs(columns) @ (others * np.abs(moves)).T
    design, whitening = gram.design, gram.whitening
    # Rounding of the sum, then of whitening: both count as if they added information.
    length = np.linalg.norm(design.whiten(moved), axis=0)
    each = np.abs(whitening) if whitening.ndim == 1 else np.linalg.norm(whitening, axis=0)
    slack = gamma(counts.size + 4 + design.row_count) * np.linalg.norm(each[:, None] * size, axis=0)
    length = (length + slack) * (1 + gram.whitening_error) * prior.width
    gaussian = design.law.excess == 1
    return prior.width**2 * chord_bounds(np.abs(moves), others, length**2, gaussian=gaussian)
