"""How wide the bracket of the remaining uncertainty is on a census-like table: the upper over the lower end.

2,000 people in some 270 cells of eight tables of means, with noise as a share of the range, by dense linear
algebra. ``uniform`` and ``cos2``: everybody has that prior. ``uniform among cos2`` and ``two-point among
cos2``: the target has the first prior, the others have the second. ``others told``: the lower end that holds
whatever the others' values are.
"""

from __future__ import annotations

import time

import numpy as np

from sightline.labeled.bounds.cosine import CosineSquaredPrior
from sightline.labeled.bounds.target import Seen, TargetPrior
from sightline.labeled.bounds.two_point import TwoPointPrior
from sightline.labeled.bounds.uniform import UniformPrior

NOISES = (0.5, 0.1, 0.02)
UNIFORM, COSINE, COIN = UniformPrior(0.0, 1.0), CosineSquaredPrior(0.0, 1.0), TwoPointPrior(0.0, 1.0)


def census(people: int = 2000) -> np.ndarray:
    """Rows of means over the cells of eight tables, by one or two of six columns."""
    generator = np.random.default_rng(3)
    columns = [generator.zipf(1.6, people) % size for size in (16, 15, 2, 7, 5)]
    columns.append(generator.integers(17, 80, people))
    rows = []
    for table in ((0,), (1,), (2,), (3,), (4,), (0, 2), (5, 2), (4, 1)):
        keys = np.stack([columns[c] for c in table], axis=1)
        _, cells = np.unique(keys, axis=0, return_inverse=True)
        rows += [np.where(cells.ravel() == cell, 1.0, 0.0) for cell in range(cells.max() + 1)]
    return np.array([row / row.sum() for row in rows])


def hidden(whitened: np.ndarray, precisions: np.ndarray) -> np.ndarray:
    """G_jj less what others with these precisions hide: a_jᵀ (I + Σ_{k≠j} a_k a_kᵀ / c_k)⁻¹ a_j."""
    matrix = np.eye(len(whitened)) + (whitened / precisions) @ whitened.T
    forms = np.einsum("lj,lj->j", whitened, np.linalg.solve(matrix, whitened))
    return forms / (1 - forms / precisions)


def seen_of(whitened: np.ndarray, *, target: TargetPrior, others: TargetPrior) -> Seen:
    information = np.sum(whitened**2, axis=0)
    precisions = others.precision(information)
    dense = bool(np.isfinite(precisions).all())
    _, kinds = np.unique(whitened, axis=1, return_inverse=True)
    kinds = kinds.ravel()
    return Seen(
        information=information,
        linear_information=hidden(whitened, np.full(information.size, 1 / others.variance)),
        hidden_information=hidden(whitened, precisions) if dense else None,
        precision=precisions if dense else None,
        alike=np.bincount(kinds)[kinds].astype(float) if target == others else 1.0,
    )


def main() -> None:
    rows = census()
    people = f"{rows.shape[1]:,} people, {rows.shape[0]} cells"
    print(f"{people}; upper over lower end at the 5th, 50th and 95th percentile")
    cases = {
        "uniform": (UNIFORM, UNIFORM),
        "cos2": (COSINE, COSINE),
        "two-point": (COIN, COIN),
        "uniform among cos2": (UNIFORM, COSINE),
        "two-point among cos2": (COIN, COSINE),
    }
    for prior in (UNIFORM, COSINE, COIN):  # the tables are made on first use
        prior.lower(Seen(information=np.ones(1), linear_information=np.ones(1)))
    for noise in NOISES:
        for name, (target, others) in cases.items():
            seen = seen_of(rows / noise, target=target, others=others)
            start = time.perf_counter()
            lower, upper = target.lower(seen), target.upper(seen)
            elapsed = time.perf_counter() - start
            told = target.lower(
                Seen(information=seen.information, linear_information=seen.linear_information)
            )
            shown = [
                " ".join(f"{q:8.3f}" for q in np.quantile(upper / np.maximum(low, 1e-300), (0.05, 0.5, 0.95)))
                for low in (lower, told)
            ]
            least = f"least lower end {lower.min():.3f}, {1e3 * elapsed:.1f} ms"
            print(f"noise {noise:<5} {name:<21} {shown[0]}   others told {shown[1]}   {least}")


if __name__ == "__main__":
    main()
