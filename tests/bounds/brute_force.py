"""Exact Bayes risks of small designs by quadrature, and what the engine would read off them, densely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.bounds.priors import CosineSquaredPrior, TwoPointPrior, UniformPrior
from sightline.units.target import Seen, TargetPrior

PRIORS: tuple[TargetPrior, ...] = (
    UniformPrior(0.0, 1.0),
    CosineSquaredPrior(0.0, 1.0),
    TwoPointPrior(0.0, 1.0),
)


@dataclass(frozen=True, kw_only=True)
class Small:
    """A few answers about a few records; ``laplace`` marks the answers with Laplace noise."""

    rows: np.ndarray
    scales: np.ndarray  # standard deviations, or Laplace scales
    laplace: np.ndarray

    @property
    def whitened(self) -> np.ndarray:
        return np.asarray(self.rows / self.scales[:, None])

    @property
    def variances(self) -> np.ndarray:
        return self.scales**2 * np.where(self.laplace, 2.0, 1.0)


def schur(G: np.ndarray, precisions: np.ndarray, j: int) -> float:
    """G_jj less what the others, with these precisions, hide of it."""
    others = np.delete(np.arange(len(G)), j)
    block = G[np.ix_(others, others)] + np.diag(precisions[others])
    return float(G[j, j] - G[j, others] @ np.linalg.solve(block, G[others, j]))


def seen_of(small: Small, *, target: TargetPrior, others: TargetPrior) -> Seen:
    """The engine's numbers; the records are alike only if the others have the target's prior."""
    A = small.whitened
    G = A.T @ A
    records = range(len(G))
    by_variance = small.rows / np.sqrt(small.variances)[:, None]
    linear = by_variance.T @ by_variance
    information = np.diagonal(G).copy()
    precisions = others.precision(information)
    dense = bool(np.all(np.isfinite(precisions)))
    same = np.array([np.sum(np.all(small.rows == small.rows[:, [j]], axis=0)) for j in records])
    touches = small.rows != 0
    return Seen(
        information=information,
        linear_information=np.array(
            [schur(linear, np.full(len(G), 1 / others.variance), j) for j in records]
        ),
        hidden_information=np.array([schur(G, precisions, j) for j in records]) if dense else np.inf,
        precision=precisions if dense else np.inf,
        alike=same.astype(float) if target == others else 1.0,
        laplace_answers=np.sum(touches & small.laplace[:, None], axis=0).astype(float),
        laplace_information=np.sum(A[small.laplace] ** 2, axis=0),
    )


def law(prior: TargetPrior, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and masses of a prior on [−1/2, 1/2]."""
    if prior.name == "two-point":
        return np.array([-0.5, 0.5]), np.array([0.5, 0.5])
    points, masses = np.polynomial.legendre.leggauss(nodes)
    points, masses = points / 2, masses / 2
    if prior.name == "cos2":
        masses = masses * 2 * np.cos(np.pi * points) ** 2
    return points, masses


def exact_share(small: Small, j: int, laws: list[tuple[np.ndarray, np.ndarray]], answers: int) -> float:
    """The Bayes risk of record j over its prior variance, from one or two answers."""
    grid = np.stack(np.meshgrid(*[points for points, _ in laws], indexing="ij")).reshape(len(laws), -1)
    mass = np.prod(np.stack(np.meshgrid(*[masses for _, masses in laws], indexing="ij")), axis=0).ravel()
    signal = small.rows @ grid
    kernels = []
    for line, scale in enumerate(small.scales):
        far = 28 if small.laplace[line] else 8
        reach = np.abs(small.rows[line]).sum() / 2 + far * scale
        at = np.linspace(-reach, reach, answers * (2 if small.laplace[line] else 1))
        offsets = (at[:, None] - signal[line]) / scale
        if small.laplace[line]:
            kernel = np.exp(-np.abs(offsets)) / (2 * scale)
        else:
            kernel = np.exp(-(offsets**2) / 2) / (scale * np.sqrt(2 * np.pi))
        kernels.append(kernel * (at[1] - at[0]))
    second = kernels[1] if len(kernels) == 2 else np.ones((1, grid.shape[1]))
    evidence = (kernels[0] * mass) @ second.T
    moment = (kernels[0] * (mass * grid[j])) @ second.T
    learned = np.divide(moment**2, evidence, out=np.zeros_like(moment), where=evidence > 1e-300).sum()
    return float(1 - learned / (mass @ grid[j] ** 2))
