r"""What somebody who sees rounded or blank counts would believe of each class: simulated, at the true table.

The posterior of a table x is that of independent yeses and noes, kept to the tables within the intervals:

.. math:: P(x) \propto \prod_u \binom{n_u}{x_u} p^{x_u} (1-p)^{n_u - x_u} \quad\text{if}\quad l \le Ax \le h.

A walk (Metropolis) from the true table changes one answer, or two of one number in opposite ways, and stays
within the intervals. The mean of :math:`x_u / n_u` along it is the chance that such an attacker gives
somebody of class u. An estimate: a walk may miss tables that no such steps reach, and no verdict relies on
it. The same table and seed give the same bytes.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.bounds.certain import CountIntervals

_FIRST = 0.2  # of the steps, before which nothing is counted


def posterior_means(intervals: CountIntervals, *, share: float, steps: int, seed: int) -> FloatArray:
    """Of each class, the estimated chance that one of its people says yes.

    Two people, of whom one or two say yes: one of the three tables has both.

    >>> from scipy import sparse
    >>> both = CountIntervals(weights=sparse.csr_array(np.ones((1, 2))), low=np.array([1.0]),
    ...     high=np.array([2.0]), sizes=np.ones(2), truth=np.array([1.0, 0.0]))
    >>> posterior_means(both, share=0.5, steps=20_000, seed=0).round(1).tolist()
    [0.7, 0.7]
    """
    rows, columns = intervals.weights.tocsr(), intervals.columns
    members = [rows.indices[rows.indptr[i] : rows.indptr[i + 1]].tolist() for i in range(rows.shape[0])]
    seen = [
        list(
            zip(
                columns.indices[columns.indptr[u] : columns.indptr[u + 1]].tolist(),
                columns.data[columns.indptr[u] : columns.indptr[u + 1]].tolist(),
                strict=True,
            )
        )
        for u in range(columns.shape[1])
    ]
    low, high = (intervals.low - 1e-9).tolist(), (intervals.high + 1e-9).tolist()
    table, sizes = intervals.truth.tolist(), intervals.sizes.tolist()
    numbers = np.asarray(intervals.weights @ intervals.truth).tolist()
    odds, classes = share / (1 - share), len(sizes)
    total, since, counted = np.zeros(classes), np.zeros(classes), 0
    rng = np.random.default_rng(seed)
    draws = rng.random((steps, 5))
    burned = int(_FIRST * steps)

    def ratio(u: int, step: int) -> float:
        x, n = table[u], sizes[u]
        if step > 0:
            return odds * (n - x) / (x + 1) if x < n else 0.0
        return x / (n - x + 1) / odds if x > 0 else 0.0

    for time, (which, other, number, member, accept) in enumerate(draws.tolist()):
        u = int(which * classes)
        moves = {u: 1 if other < 0.5 else -1}
        chance = ratio(u, moves[u])
        if seen[u] and number >= 0.5:  # somebody in one of its numbers answers in the opposite way
            line = members[seen[u][int((number - 0.5) * 2 * len(seen[u]))][0]]
            v = line[int(member * len(line))]
            if v == u:
                chance = 0.0
            else:
                moves[v] = -moves[u]  # and the way back is drawn as often: u the other way, and v with it
                chance *= ratio(v, moves[v])
        if accept < chance:
            changed: dict[int, float] = {}
            for one, step in moves.items():
                for i, weight in seen[one]:
                    changed[i] = changed.get(i, 0.0) + step * weight
            if all(low[i] <= numbers[i] + change <= high[i] for i, change in changed.items()):
                for i, change in changed.items():
                    numbers[i] += change
                for one, step in moves.items():
                    # What it was until now counts as often as it was so.
                    total[one] += table[one] * max(0, time - max(burned, since[one]))
                    since[one], table[one] = time, table[one] + step
        counted += time >= burned
    total += np.array(table) * np.maximum(0, steps - np.maximum(burned, since))
    return np.asarray(total / counted / intervals.sizes)
