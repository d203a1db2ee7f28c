"""Rectangles of rows that change no number, and rows that are equal but for some cells.

Two rows that differ from a third in the cells X and Y, and one that differs in both: if the first two move
one way and the others the other way, no number changes, whatever the noise (:mod:`sightline.bounds.pairs`).
A row is a line of keys, one for each slot; rows of a kind have equal keys.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy import sparse

from sightline.arrays import MOST_LOOKED_AT, FloatArray, IndexArray, distinct_lines
from sightline.units.unit_block import WholeArray

MOST_RECTANGLES = 12  # that are looked for of one kind of row


def rectangles(keys: WholeArray, counts: FloatArray, targets: IndexArray) -> FloatArray:
    """How many disjoint rectangles a row of each kind is in: three other rows that change no number."""
    kinds, width = keys.shape
    found, mixed = np.zeros(targets.size), mixed_keys(keys)
    # Two of the rows differ from the target in one slot alone: slots in which no two rows do are left out.
    every = groups_without(keys, mixed, frozenset()).max()
    free = [slot for slot in range(width) if groups_without(keys, mixed, frozenset((slot,))).max() < every]
    pairs = itertools.combinations(free, 2)
    # Of few pairs of kinds × pairs of slots none is missed; in larger designs those that are met first count.
    if (kinds * width) ** 2 <= MOST_LOOKED_AT:
        flows = [_disjoint_rectangles(keys, counts, targets, pair) for pair in pairs]
        return np.asarray(np.max([found, *flows], axis=0))
    whole = mixed.sum(axis=0)
    order = np.argsort(whole, kind="stable")
    for x, y in pairs:
        first, second = (_partners(keys, counts, targets, slot) for slot in (x, y))
        used: list[IndexArray] = []  # corners, -1 for none
        for p, q in zip(first.T, second.T, strict=True):
            corner = keys[targets].copy()
            both = (p >= 0) & (q >= 0)
            corner[both, x], corner[both, y] = keys[p[both], x], keys[q[both], y]
            place = np.minimum(np.searchsorted(whole[order], mixed_keys(corner).sum(axis=0)), kinds - 1)
            opposite = order[place]
            there = both & np.all(keys[opposite] == corner, axis=1)
            # A corner kind may serve as often as it has rows.
            there &= sum(earlier == opposite for earlier in used) < counts[opposite]
            used.append(np.where(there, opposite, -1))
        found = np.maximum(found, np.sum(np.array(used) >= 0, axis=0))
    return found


def mixed_keys(keys: WholeArray) -> WholeArray:
    """Slots × lines: a number for every entry; the sums of lines that are equal are equal."""
    factors = np.random.default_rng(1).integers(1, 1 << 62, size=(keys.shape[1], 1)) | 1
    mixed = (keys.T.astype(np.int64, order="C") + 1) * np.int64(0x9E3779B97F4A7C1)
    return np.asarray((mixed ^ (mixed >> np.int64(31))) * factors)


def groups_without(keys: WholeArray, mixed: WholeArray, without: frozenset[int]) -> IndexArray:
    """For every line a number that lines share which are equal but for some slots."""
    kept = [slot for slot in range(keys.shape[1]) if slot not in without]
    hashed = mixed[kept].sum(axis=0)
    order = np.argsort(hashed)
    ordered = hashed[order]
    new = ordered[1:] != ordered[:-1]
    same = np.flatnonzero(~new)
    if np.any(keys[order[same + 1]][:, kept] != keys[order[same]][:, kept]):  # two lines with one hash
        return distinct_lines(keys[:, kept])[1]
    group = np.empty(len(keys), dtype=np.intp)
    group[order] = np.concatenate([[0], np.cumsum(new)])
    return group


def _disjoint_rectangles(
    keys: WholeArray, counts: FloatArray, targets: IndexArray, slots: tuple[int, int]
) -> FloatArray:
    """How many disjoint rectangles every target is in, up to a limit: the most there are.

    A flow from the cells X' of rows (X', Y) to the cells Y' of rows (X, Y') through the corners (X', Y'), as
    much as there are rows of each. Cells that are merged, as those that no number is told from, lower no
    flow but that of rows which become the target's own kind.
    """
    x, y = slots
    group = groups_without(keys, mixed_keys(keys), frozenset(slots))
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(int(group.max()) + 2))
    own = group[targets]
    sizes = starts[own + 1] - starts[own]
    target = np.repeat(np.arange(targets.size), sizes)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    other = order[starts[own][target] + within]
    same_x, same_y = (keys[other, slot] == keys[targets[target], slot] for slot in (x, y))
    size = int(keys.max()) + 1
    # Nodes: a source, the targets, their cells X', their cells Y', a sink.
    left = 1 + targets.size + target * size + keys[other, x]
    right = 1 + targets.size + (targets.size + target) * size + keys[other, y]
    used, sink = counts[other], 1 + targets.size * (1 + 2 * size)
    first, second, corner = same_y & ~same_x, same_x & ~same_y, ~same_x & ~same_y
    every = np.arange(targets.size)
    ends = [
        (0 * every, 1 + every, np.full(targets.size, float(MOST_RECTANGLES))),
        (1 + target[first], left[first], used[first]),
        (left[corner], right[corner], used[corner]),
        (right[second], np.full(int(second.sum()), sink), used[second]),
    ]
    start, end, most = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    _, place = np.unique(np.concatenate([[0, sink], start, end]), return_inverse=True)
    start, end = place[2 : 2 + start.size], place[2 + start.size :]
    capacity = np.minimum(most, MOST_RECTANGLES).astype(np.int32)
    nodes = int(place.max()) + 1
    graph = sparse.csr_array((capacity, (start, end)), shape=(nodes, nodes))
    flow = sparse.csgraph.maximum_flow(graph, int(place[0]), int(place[1])).flow
    return np.asarray(flow[[int(place[0])]].toarray()[0, end[: targets.size]], dtype=np.float64)


def _partners(keys: WholeArray, counts: FloatArray, targets: IndexArray, slot: int) -> IndexArray:
    """Targets × some: kinds that differ in one slot alone, each as often as it has rows; -1 for none."""
    group = groups_without(keys, mixed_keys(keys), frozenset((slot,)))
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(int(group.max()) + 2))
    listed = np.repeat(order, np.minimum(counts[order], MOST_RECTANGLES).astype(np.intp))
    ends = np.concatenate([[0], np.cumsum(np.minimum(counts[order], MOST_RECTANGLES).astype(np.intp))])
    first, last = ends[starts[group[targets]]], ends[starts[group[targets] + 1]]
    # Every member in turn, without those of the target's own kind.
    found = np.full((targets.size, MOST_RECTANGLES), -1, dtype=np.intp)
    filled = np.zeros(targets.size, dtype=np.intp)
    for step in range(int(min(4 * MOST_RECTANGLES, (last - first).max(initial=0)))):
        place = first + step
        inside = place < last
        member = listed[np.where(inside, place, 0)]
        use = inside & (member != targets) & (filled < MOST_RECTANGLES)
        found[np.flatnonzero(use), filled[use]] = member[use]
        filled[use] += 1
    return found
