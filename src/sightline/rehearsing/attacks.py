r"""The attacks of a rehearsal: weights on the rows of the design.

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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray
from sightline.auditing.findings import LinearFindings
from sightline.auditing.lowering import Lowered
from sightline.tables.subject import SecretKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowTarget:
    """What is guessed: of each of some units ``times`` rows, each with one weight; or one of a category."""

    units: IndexArray
    times: IndexArray
    weights: FloatArray
    category: int = 0

    @classmethod
    def of_column(cls, found: LinearFindings, column: int) -> RowTarget:
        """The value of one record of a column."""
        unit, category = divmod(column, found.linear.columns_of_unit)
        one = np.ones(1, dtype=np.intp)
        return cls(units=unit * one, times=one, weights=np.ones(1), category=category)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackWeights:
    """Weights for some targets: guess = weights · rows + constant; rows are less what the attacker knows."""

    weights: FloatArray  # (targets, rows)
    constants: FloatArray
    mse: FloatArray  # of these weights

    def guesses(self, rows: FloatArray) -> FloatArray:
        """One guess for each target, from the rows of one or more publications."""
        return np.asarray(rows @ self.weights.T + self.constants)


def best_unbiased(found: LinearFindings, columns: IndexArray) -> AttackWeights:
    """The recipes for the sums of some columns, all of them identifiable."""
    linear = found.linear
    pairs = [divmod(int(column), linear.columns_of_unit) for column in columns]
    weights = np.stack([found.exposure.recipe(*pair) for pair in pairs])
    constants = [linear.told_by_sizes(int(column), own) for column, own in zip(columns, weights, strict=True)]
    return AttackWeights(
        weights=weights,
        constants=-np.array(constants),
        mse=np.array([linear.design.noise.variance_of(own) for own in weights]),
    )


def best_linear(found: LinearFindings, targets: Sequence[RowTarget]) -> AttackWeights:
    """The best linear attacks on some targets.

    One row's columns have the covariance s K: of a number its variance, of a category's indicators
    :math:`I/k - 11^\top/k^2`.
    """
    linear, prior = found.linear, found.linear.design.prior
    K, s, k = prior.kernel, prior.scale, prior.categories
    with_target = np.zeros((len(targets), found.people.size, k))
    for own, target in zip(with_target, targets, strict=True):
        own[target.units] = (target.times * target.weights)[:, None] * (s * K[target.category])
    across = linear.table @ with_target.reshape(len(targets), -1).T
    weights = cho_solve(_covariance_of_rows(found), across).T
    mean, hidden, whole = _mean(linear), np.empty(len(targets)), np.empty(len(targets))
    shares = _shares(linear, weights)
    for place, (own, target) in enumerate(zip(shares, targets, strict=True)):
        missed = own[target.units] - target.weights[:, None] * np.eye(k)[target.category]
        each, left = (s * np.einsum("uc,cd,ud->u", one, K, one) for one in (own, missed))
        hidden[place] = found.people @ each + target.times @ (left - each[target.units])
        whole[place] = target.times @ target.weights
    noise = np.array([linear.design.noise.variance_of(own) for own in weights])
    return AttackWeights(
        weights=weights,
        constants=mean * (whole - shares.sum(axis=2) @ found.people),
        mse=noise + hidden,
    )


def _covariance_of_rows(found: LinearFindings) -> tuple[FloatArray, bool]:
    """That of the answers over prior and noise, factorised."""
    s, noise = found.linear.design.prior.scale, found.linear.design.noise.matrix
    factor: tuple[FloatArray, bool] = cho_factor(np.asarray(s * found.exposure.products.dense + noise))
    return factor


def _shares(linear: Lowered, weights: FloatArray) -> FloatArray:
    """What each attack has of each unit's columns: targets × units × categories."""
    each = [np.asarray(linear.table.T @ line) for line in weights]
    return np.stack(each).reshape(len(weights), -1, linear.columns_of_unit)


def sharpest_targets(
    found: LinearFindings, persons: Sequence[tuple[IndexArray, IndexArray]]
) -> list[RowTarget]:
    r"""For persons with several rows, the combination of these of which a linear attack leaves least.

    Each is given by the units of its rows and how many there are of each. With columns :math:`B` of the
    person's rows, each scaled by the root of how many there are, and answers of covariance :math:`A`, it is
    the first eigenvector of :math:`s B^\top A^{-1} B`. The largest weight is 1.
    """
    factor, s, targets = _covariance_of_rows(found), found.linear.design.prior.scale, []
    for units, times in persons:
        roots = np.sqrt(times.astype(np.float64))
        columns = found.linear.table[:, units].toarray() * roots
        _, vectors = np.linalg.eigh(s * columns.T @ cho_solve(factor, columns))
        first = vectors[:, -1] / roots
        targets.append(RowTarget(units=units, times=times, weights=first / first[np.argmax(np.abs(first))]))
    return targets


def errors_with_fresh_noise(
    linear: Lowered, attack: AttackWeights, repetitions: int, generator: np.random.Generator
) -> FloatArray:
    """Guess less truth of unbiased attacks, publication by publication: whatever the values are."""
    errors = np.empty((repetitions, len(attack.weights)))
    for begin in range(0, repetitions, step := max(1, AT_A_TIME // linear.row_count)):
        size = min(step, repetitions - begin)
        errors[begin : begin + size] = sample_rows(linear, size, generator) @ attack.weights.T
    return errors


def errors_of(
    found: LinearFindings,
    attack: AttackWeights,
    targets: Sequence[RowTarget],
    repetitions: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Guess less truth, publication by publication, with fresh noise and values drawn from the prior."""
    linear, k = found.linear, found.linear.columns_of_unit
    starts = np.cumsum(found.people) - found.people
    people = int(found.people.sum())
    shares = _shares(linear, attack.weights)
    errors = np.empty((repetitions, len(targets)))
    step = max(1, AT_A_TIME // max(people, linear.row_count))
    for begin in range(0, repetitions, step):
        size = min(step, repetitions - begin)
        values = _drawn(linear, (size, people), generator)
        guess = attack.constants + sample_rows(linear, size, generator) @ attack.weights.T
        for c in range(k):
            guess += np.add.reduceat(_of_category(linear, values, c), starts, axis=1) @ shares[:, :, c].T
        for own, target in zip(guess.T, targets, strict=True):
            for unit, times, weight in zip(target.units, target.times, target.weights, strict=True):
                rows = values[:, starts[unit] : starts[unit] + times]
                own -= weight * _of_category(linear, rows, target.category).sum(axis=1)
        errors[begin : begin + size] = guess
    return errors


def sample_rows(linear: Lowered, trials: int, generator: np.random.Generator) -> FloatArray:
    """Noise on the rows, the mean of each number's copies, publication by publication."""
    noise = linear.design.noise
    drawn = generator.standard_normal((trials, linear.row_count))
    if noise.shared:
        return np.asarray(drawn @ cholesky(noise.covariance))
    rows = np.flatnonzero(noise.laplace > 0)
    if rows.size:
        # A Laplace variable is the difference of two exponential ones, a sum of T that of two gamma ones.
        copies = linear.copies[rows]
        shape = np.broadcast_to(copies, (trials, rows.size))
        difference = generator.standard_gamma(shape) - generator.standard_gamma(shape)
        drawn[:, rows] = difference / np.sqrt(copies)
    return np.asarray(drawn / np.sqrt(noise.information))


def _mean(linear: Lowered) -> float:
    """The mean of one record's value, or of an indicator."""
    prior = linear.prior
    return prior.number.mean if prior.kind.measured else prior.share


def _drawn(linear: Lowered, shape: tuple[int, int], generator: np.random.Generator) -> FloatArray:
    """Values of records: numbers, or positions of categories."""
    prior = linear.prior
    match prior.kind:
        case SecretKind.CATEGORY:
            return generator.integers(prior.categories, size=shape).astype(np.float64)
        case SecretKind.NUMBER:
            return prior.number.sample(shape, generator=generator)
        case SecretKind.BOOLEAN:
            return (generator.random(shape) < prior.yes).astype(np.float64)


def _of_category(linear: Lowered, values: FloatArray, category: int) -> FloatArray:
    """The values themselves, or the indicators of a category."""
    if linear.prior.kind.summed:
        return values
    return np.asarray(values == category, dtype=np.float64)
