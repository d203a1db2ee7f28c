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
from sightline.auditing.findings import LinearFindings
from sightline.auditing.lowering import Lowered
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
    """The recipes for the sums of some columns, all of them identifiable."""
    linear = found.linear
    pairs = [divmod(int(column), linear.columns_of_unit) for column in columns]
    weights = np.stack([found.exposure.recipe(*pair) for pair in pairs])
    told = [linear.told_by_sizes(int(column), own) for column, own in zip(columns, weights, strict=True)]
    return AttackWeights(
        columns=columns,
        weights=weights,
        constants=-np.array(told),
        mse=np.array([linear.design.noise.variance_of(own) for own in weights]),
    )


def best_linear(found: LinearFindings, columns: IndexArray) -> AttackWeights:
    """The best linear attacks on one record of each of some columns.

    One row's columns have the covariance s K: of a number its variance, of a category's indicators
    :math:`I/k - 11^\top/k^2`.
    """
    linear, prior = found.linear, found.linear.design.prior
    K, s, k = prior.kernel, prior.scale, prior.categories
    answers = np.asarray(s * found.exposure.solver.sums.dense + linear.design.noise.matrix)
    unit, category = np.divmod(columns, k)
    with_target = np.stack(
        [linear.table[:, u * k : (u + 1) * k] @ (s * K[c]) for u, c in zip(unit, category, strict=True)]
    )
    weights = cho_solve(cho_factor(answers), with_target.T).T
    mean, hidden = _mean(linear), np.empty(columns.size)
    shares = np.stack([np.asarray(linear.table.T @ line).reshape(-1, k) for line in weights])
    for place, own in enumerate(shares):
        each = s * np.einsum("uc,cd,ud->u", own, K, own)
        target = own[unit[place]] - np.eye(k)[category[place]]
        hidden[place] = found.people @ each - each[unit[place]] + s * target @ K @ target
    noise = np.array([linear.design.noise.variance_of(own) for own in weights])
    return AttackWeights(
        columns=columns,
        weights=weights,
        constants=mean - mean * (shares.sum(axis=2) @ found.people),
        mse=noise + hidden,
    )


def prior_errors(
    found: LinearFindings, attack: AttackWeights, repetitions: int, generator: np.random.Generator
) -> FloatArray:
    """Guess less truth, publication by publication, with values drawn from the prior and fresh noise."""
    linear, k = found.linear, found.linear.columns_of_unit
    starts = np.cumsum(found.people) - found.people
    people = int(found.people.sum())
    unit, category = np.divmod(attack.columns, k)
    shares = np.stack([np.asarray(linear.table.T @ line).reshape(-1, k) for line in attack.weights])
    errors = np.empty((repetitions, attack.columns.size))
    step = max(1, _BLOCK // max(people, linear.row_count))
    for begin in range(0, repetitions, step):
        size = min(step, repetitions - begin)
        values = _drawn(linear, (size, people), generator)
        guess = attack.constants + sample_rows(linear, size, generator) @ attack.weights.T
        for c in range(k):
            guess += np.add.reduceat(_of_category(linear, values, c), starts, axis=1) @ shares[:, :, c].T
        truth = [
            _of_category(linear, values[:, starts[u]], int(c)) for u, c in zip(unit, category, strict=True)
        ]
        errors[begin : begin + size] = guess - np.stack(truth, axis=1)
    return errors


def sample_rows(linear: Lowered, trials: int, generator: np.random.Generator) -> FloatArray:
    """Noise on the rows, the mean of each number's copies, publication by publication."""
    noise = linear.design.noise
    drawn = generator.standard_normal((trials, linear.row_count))
    rows = np.flatnonzero(noise.laplace > 0)
    if rows.size:
        # A Laplace variable is the difference of two exponential ones, a sum of T that of two gamma ones.
        copies = linear.copies[rows]
        shape = np.broadcast_to(copies, (trials, rows.size))
        difference = generator.standard_gamma(shape) - generator.standard_gamma(shape)
        drawn[:, rows] = difference / np.sqrt(copies)
    return np.asarray(drawn / np.sqrt(noise.information))


def _mean(linear: Lowered) -> float:
    """The mean of one record's value, or of an indicator. Every prior of a number is symmetric."""
    prior = linear.prior
    return prior.share if prior.kind is SecretKind.CATEGORY else sum(prior.bounds) / 2


def _drawn(linear: Lowered, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
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


def _of_category(linear: Lowered, values: FloatArray, category: int) -> FloatArray:
    """The values themselves, or the indicators of a category."""
    if linear.prior.kind is not SecretKind.CATEGORY:
        return values
    return np.asarray(values == category, dtype=np.float64)
