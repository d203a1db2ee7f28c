r"""The linear attacks of a rehearsal, as weights on the rows of a plan's linear design.

With y the rows :math:`A x + w` less what the attacker knows, :math:`\mu` and C the mean and the covariance of
one record's value under the prior, and :math:`\Sigma` that of the noise:

- *best unbiased*: the audit's recipe, :math:`r^\top y` with :math:`r^\top A = e_j^\top`. Its error is
  :math:`r^\top w`, whatever the values are (``eq:mse_optimal_s4``).
- *best linear*: :math:`\mu + c^\top M^{-1}(y - A\mu)` with :math:`M = A C A^\top + \Sigma` and c the
  covariance of the value and y. No linear attack has a smaller mean squared error over prior and noise.

The mean squared error of the weights as they are, rounding included, is a sum of squares over the records:
:math:`w^\top \Sigma w + \sum_k \operatorname{Var}((e_j - A^\top w)_k x_k)`. Nothing cancels in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import LinearDesign
from sightline.auditing.findings import LinearFindings
from sightline.labeled.unknown_gram import combined
from sightline.noise.mixed import laplace_rows
from sightline.progress import silent
from sightline.tables.subject import SecretKind

_BLOCK = 4_000_000  # drawn values that are held at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackWeights:
    """Weights for some columns: guess = weights · rows + constant; rows are less what the attacker knows."""

    columns: IndexArray
    weights: FloatArray  # (columns, rows)
    constants: FloatArray
    mse: FloatArray  # of these weights

    def guesses(self, rows: FloatArray) -> FloatArray:
        """One guess for each column, from the rows of one or more publications."""
        return np.asarray(rows @ self.weights.T + self.constants)


def best_unbiased(found: LinearFindings, columns: IndexArray) -> AttackWeights:
    """The recipes for the sums of some columns of the main design, all of them identifiable."""
    exposures, law = found.exposures, found.linear.design.law
    weights = np.stack([exposures.group_recipe(int(exposures.group[j])) for j in columns])
    return AttackWeights(
        columns=columns,
        weights=weights,
        constants=np.zeros(columns.size),
        mse=_noise(law.covariance, weights),
    )


def best_linear(linear: LinearDesign, columns: IndexArray) -> AttackWeights:
    """The best linear attacks on one record of each of some columns."""
    design, prior = linear.design, linear.prior
    blocks, width = linear.main.blocks, linear.main.width
    unknown = np.where(linear.known[: design.size], 0.0, 1.0)
    covariance = design.law.covariance
    own = _own_covariance(linear)
    answers = _of_values(linear, unknown)
    with_target = np.zeros((columns.size, design.row_count))
    for place, column in enumerate(columns):
        block, position = divmod(int(column), width)
        each = own[block] if block < blocks else np.full(blocks, -(prior.share**2))
        parts = design.incidence.columns(position + width * np.arange(blocks))
        with_target[place] = parts @ each
    weights = cho_solve(cho_factor(answers + covariance), with_target.T).T
    mean = _mean(linear)
    shares = np.stack([combined(design, line) for line in weights])
    counts = np.asarray(linear.counts[: design.size] * unknown, dtype=np.float64)
    return AttackWeights(
        columns=columns,
        weights=weights,
        constants=mean - mean * (shares @ counts),
        mse=_noise(covariance, weights) + _hidden(linear, columns, shares, counts),
    )


def _of_values(linear: LinearDesign, unknown: FloatArray) -> FloatArray:
    r"""The covariance of the exact answers under the prior: :math:`A C A^\top`.

    The indicators of a record's category have the covariance :math:`I/k - 11^\top/k^2`.
    """
    design, blocks, width = linear.design, linear.main.blocks, linear.main.width
    if linear.prior.kind is not SecretKind.CATEGORY:
        return design.incidence.weighted_gram(unknown * linear.prior.of_column.variance, silent)
    share = linear.prior.share
    found = design.incidence.weighted_gram(unknown * share, silent)
    counts = linear.counts[:width] * unknown[:width]
    step = max(1, _BLOCK // design.row_count)
    for start in range(0, width, step):
        places = np.arange(start, min(start + step, width))
        parts = [design.incidence.columns(places + width * block) for block in range(blocks)]
        together = np.sum(parts, axis=0)
        found = found - share**2 * (together * counts[places]) @ together.T
    return np.asarray(found)


def prior_errors(
    linear: LinearDesign, attack: AttackWeights, repetitions: int, generator: np.random.Generator
) -> FloatArray:
    """Guess less truth, publication by publication, with values drawn from the prior and fresh noise."""
    blocks, width = linear.main.blocks, linear.main.width
    known = linear.known[:width]
    counts = np.where(known, 0, linear.counts[:width])
    filled = np.flatnonzero(counts)
    starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
    people = int(counts.sum())
    first = starts[np.searchsorted(filled, attack.columns % width)]  # a record of each target's column
    shares = np.stack([combined(linear.design, line) for line in attack.weights])
    shares = shares.reshape(len(shares), blocks, width)[:, :, filled]
    errors = np.empty((repetitions, attack.columns.size))
    step = max(1, _BLOCK // max(people, linear.design.row_count))
    for begin in range(0, repetitions, step):
        size = min(step, repetitions - begin)
        values = _drawn(linear, (size, people), generator)
        guess = attack.constants + sample_rows(linear, size, generator) @ attack.weights.T
        for block in range(blocks):
            own = _of_block(linear, values, block)
            guess += np.add.reduceat(own, starts, axis=1) @ shares[:, block].T
        truth = np.stack(
            [
                _of_block(linear, values[:, [place]], int(column) // width)[:, 0]
                for place, column in zip(first, attack.columns, strict=True)
            ],
            axis=1,
        )
        errors[begin : begin + size] = guess - truth
    return errors


def sample_rows(linear: LinearDesign, trials: int, generator: np.random.Generator) -> FloatArray:
    """Noise on the rows of the main design, the mean of each number's copies, publication by publication."""
    law = linear.design.law
    if law.correlated or not laplace_rows(law).any():
        return law.sample(trials, generator=generator)
    drawn = generator.standard_normal((trials, law.outputs))
    rows = np.flatnonzero(laplace_rows(law))
    # A Laplace variable is the difference of two exponential ones, so a sum of T is that of two gamma ones.
    copies = linear.copies[rows]
    shape = np.broadcast_to(copies, (trials, rows.size))
    difference = generator.standard_gamma(shape) - generator.standard_gamma(shape)
    drawn[:, rows] = difference / np.sqrt(copies)
    return np.asarray(drawn * law.scales)


def _own_covariance(linear: LinearDesign) -> FloatArray:
    """The covariance of one record's value, or of its indicators."""
    prior, blocks = linear.prior, linear.main.blocks
    if prior.kind is not SecretKind.CATEGORY:
        return np.array([[prior.of_column.variance]])
    return np.eye(blocks) * prior.share - prior.share**2


def _mean(linear: LinearDesign) -> float:
    """The mean of one record's value, or of an indicator. Every prior of a number is symmetric."""
    prior = linear.prior
    return prior.share if prior.kind is SecretKind.CATEGORY else sum(prior.bounds) / 2


def _noise(covariance: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,jk,ik->i", weights, covariance, weights, optimize=True))


def _hidden(linear: LinearDesign, columns: IndexArray, shares: FloatArray, counts: FloatArray) -> FloatArray:
    """The part of the mean squared error that the records' values make."""
    blocks, width = linear.main.blocks, linear.main.width
    found = np.empty(columns.size)
    for place, (column, line) in enumerate(zip(columns, shares, strict=True)):
        block, position = divmod(int(column), width)
        each, others = line.reshape(blocks, width), counts[:width].copy()
        others[position] -= 1  # the target itself, whose value is not noise
        own, elsewhere = each[:, [position]].copy(), 0.0
        if block < blocks:
            own[block] -= 1.0
        else:
            elsewhere = -1.0
        found[place] = _variance(linear, each, 0.0) @ others + _variance(linear, own, elsewhere)[0]
    return found


def _variance(linear: LinearDesign, weights: FloatArray, elsewhere: float) -> FloatArray:
    """The variance of a record's indicators, weighted; ``elsewhere`` is the weight of another category's."""
    prior = linear.prior
    if prior.kind is not SecretKind.CATEGORY:
        return np.asarray(prior.of_column.variance * weights[0] ** 2)
    squares = np.sum(weights**2, axis=0) + elsewhere**2
    return np.asarray(squares * prior.share - (np.sum(weights, axis=0) + elsewhere) ** 2 * prior.share**2)


def _drawn(linear: LinearDesign, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
    """Values of records: numbers, or positions of categories."""
    prior = linear.prior
    match prior.kind:
        case SecretKind.CATEGORY:
            return generator.integers(prior.categories, size=shape).astype(np.float64)
        case SecretKind.NUMBER if prior.number.has_density:
            return np.asarray(prior.number.sample(shape, generator=generator))  # type: ignore[attr-defined]
        case _:
            low, high = prior.bounds
            return np.asarray(low + (high - low) * generator.integers(2, size=shape), dtype=np.float64)


def _of_block(linear: LinearDesign, values: FloatArray, block: int) -> FloatArray:
    """The values themselves, or the indicators of a block's category; the last block is the reference's."""
    if linear.prior.kind is not SecretKind.CATEGORY:
        return values
    return np.asarray(values == block, dtype=np.float64)
