r"""The attacks of a rehearsal: linear ones, as weights on the rows of the design, and the likeliest values.

With y the rows :math:`A x + w` less what the attacker knows, :math:`\mu` and C the mean and the covariance of
one record's value under the prior, and :math:`\Sigma` that of the noise:

- *best unbiased*: the audit's recipe, :math:`r^\top y` with :math:`r^\top A = e_j^\top`. Its error is
  :math:`r^\top w`, whatever the values are (``eq:mse_optimal_s4``).
- *best linear*: :math:`\mu + c^\top M^{-1}(y - A\mu)` with :math:`M = A C A^\top + \Sigma` and c the
  covariance of the value and y. No linear attack has a smaller mean squared error over prior and noise.

The mean squared error of the weights as they are, rounding included, is a sum of squares over the records:
:math:`w^\top \Sigma w + \sum_k \operatorname{Var}((e_j - A^\top w)_k x_k)`. Nothing cancels in it.

*Constrained likelihood*, for small groups under moments and thresholds. A group is a set of unknown rows that
share published numbers with each other and with no other unknown row. Its values are attacked together: of
all values in the bounds, those whose answers are closest to the published ones
(:class:`sightline.attacks.mle.ConstrainedMLE`). The intervals come from the information at the guess. They
are approximations, so the repetitions measure how often they hold the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, cholesky

from sightline.arrays import FloatArray, IndexArray
from sightline.attacks.estimates import Estimates
from sightline.attacks.mle import ConstrainedMLE
from sightline.attacks.model import Curve, Model, Power, Row, SmoothStep
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import Lowered
from sightline.rehearsing.publication import Truth, feature_values
from sightline.rehearsing.result import CONFIDENCE
from sightline.tables.membership import Feature, Partition, Statistic
from sightline.tables.subject import SecretKind

_BLOCK = 4_000_000  # drawn values that are held at once


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
    told = [linear.told_by_sizes(int(column), own) for column, own in zip(columns, weights, strict=True)]
    return AttackWeights(
        weights=weights,
        constants=-np.array(told),
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
    for begin in range(0, repetitions, step := max(1, _BLOCK // linear.row_count)):
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
    step = max(1, _BLOCK // max(people, linear.row_count))
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
    return prior.number.mean if prior.kind is SecretKind.NUMBER else prior.share


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
    if linear.prior.kind is not SecretKind.CATEGORY:
        return values
    return np.asarray(values == category, dtype=np.float64)


MOST_VALUES = 6  # of a group: the search gives a multiset to its records in all orders up to here
_MOST_GROUPS = 3
_SOFTENED = 0.1  # of the range: the width of the step that the attack has in place of a sharp one
_SINGULAR = 1e-10  # the least eigenvalue of the information over the largest, in units of the range


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmallGroup:
    """Unknown rows that only share numbers with each other, and the model of these numbers."""

    signatures: IndexArray  # of the rows, one for each
    values: FloatArray  # their true values
    model: Model
    cells: IndexArray
    known_part: FloatArray  # of each number: what does not depend on the unknown rows
    noise_stddev: FloatArray  # of the mean of each number's copies
    box: tuple[float, float]

    @property
    def labeled(self) -> bool:
        """Whether the numbers depend on whose value is which; otherwise only the set of values is seen."""
        return not self.model.exchangeable

    @property
    def truth(self) -> FloatArray:
        """The true values, in the order of the guesses."""
        return self.values if self.labeled else np.sort(self.values)

    def attack(self, answers: FloatArray) -> Estimates:
        """Guesses from published numbers, one publication a row."""
        seen = answers[:, self.cells] - self.known_part
        return ConstrainedMLE(box=self.box, confidence=CONFIDENCE).fit(self.model, seen, box=self.box)

    def repeated(
        self, true_answers: FloatArray, repetitions: int, generator: np.random.Generator
    ) -> Estimates:
        """Guesses from repeated publications of the true answers with fresh noise."""
        answers = np.tile(true_answers, (repetitions, 1))
        drawn = generator.standard_normal((repetitions, self.cells.size))
        answers[:, self.cells] += drawn * self.noise_stddev
        return self.attack(answers)


def small_groups(findings: Findings, truth: Truth) -> tuple[SmallGroup, ...]:
    """The groups of up to ``MOST_VALUES`` rows whose values the numbers determine, the smallest first.

    Only for numbers with independent Gaussian noise, and with all rows of a signature known or none.
    """
    membership, pricing = findings.membership, findings.pricing
    mixed = (membership.known > 0) & (membership.known < membership.counts)
    suitable = (
        findings.prior.kind is SecretKind.NUMBER
        and pricing.gaussian
        and not pricing.strategies
        and truth.values is not None
        and not mixed.any()
    )
    if not suitable:
        return ()
    found = sorted(_components(findings), key=lambda signatures: int(membership.counts[signatures].sum()))
    groups = (_group(findings, truth, signatures) for signatures in found)
    determined = (group for group in groups if group is not None)
    return tuple(group for group, _ in zip(determined, range(_MOST_GROUPS), strict=False))


def _components(findings: Findings) -> Iterator[IndexArray]:
    """Sets of signatures with few unknown rows that share a number with each other and no other one."""
    membership = findings.membership
    unknown = np.flatnonzero(membership.counts > membership.known)
    width = len(membership.cells)
    links = sparse.lil_array((unknown.size + width, unknown.size + width))
    for p in range(len(membership.partitions)):
        position = membership.positions(p)[unknown]
        inside = np.flatnonzero(position >= 0)
        links[inside, unknown.size + position[inside]] = 1
    _, label = sparse.csgraph.connected_components(sparse.csr_array(links), directed=False)
    of_signature = label[: unknown.size]
    rows = np.bincount(of_signature, membership.counts[unknown])
    touched = np.any(membership.signatures[unknown] >= 0, axis=1)
    for one in np.unique(of_signature[touched & (rows[of_signature] <= MOST_VALUES)]):
        yield unknown[of_signature == one]


def _group(findings: Findings, truth: Truth, signatures: IndexArray) -> SmallGroup | None:
    """The group of some signatures; none if its numbers do not determine its values near the true ones."""
    membership, pricing, values = findings.membership, findings.pricing, truth.values
    assert values is not None
    mine = np.isin(values.signature, signatures)
    own, secret = values.signature[mine].astype(np.intp), values.secret[mine]
    rows, cells, parts = [], [], []
    for p, partition in enumerate(membership.partitions):
        position = membership.positions(p)
        weights = membership.weights_in(p)[values.signature]
        curve = _curve(partition, findings.plan.data.domain)
        touched = np.unique(position[own])
        for cell in touched[touched >= 0]:
            inside = position[own] == cell
            own_weights = np.where(inside, weights[mine], 0.0)
            if not own_weights.any():  # a mean of rows of weight 0
                continue
            if curve is None:
                return None
            divisor = membership.cells[cell].rows if partition.statistic is Statistic.MEAN else 1
            sign = 1.0 if partition.above else -1.0
            rows.append(Row(curve=curve, weights=own_weights * sign / divisor))
            others = (position[values.signature] == cell) & ~mine
            constant = 0.0 if partition.above else float(own_weights.sum())
            rest = feature_values(partition, values.secret[others]) @ weights[others]
            parts.append((constant + float(rest)) / divisor)
            cells.append(int(cell))
    if not cells:
        return None
    partition_of = np.array([membership.cells[c].partition for c in cells], dtype=np.intp)
    noise = pricing.scale[cells] / np.sqrt(pricing.times[partition_of])
    model = Model(rows=tuple(rows), records=tuple(range(secret.size)), whitening=1 / noise)
    group = SmallGroup(
        signatures=own,
        values=secret,
        model=model,
        cells=np.array(cells, dtype=np.intp),
        known_part=np.array(parts),
        noise_stddev=noise,
        box=findings.plan.data.domain,
    )
    return group if _determined(group) else None


def _curve(partition: Partition, domain: tuple[float, float]) -> Curve | None:
    """The curve that a number adds up; none for a power that is not whole.

    The attack softens a step, so that its search has a slope to follow. The answers come from sharp counts.
    """
    match partition.feature:
        case Feature.VALUE | Feature.INDICATOR:
            return Power(order=1)
        case Feature.POWER:
            assert isinstance(partition.parameter, int | float)
            order = int(partition.parameter)
            return Power(order=order) if order == partition.parameter and order >= 1 else None
        case Feature.THRESHOLD:
            assert isinstance(partition.parameter, int | float)
            width = _SOFTENED * (domain[1] - domain[0])
            return SmoothStep(at=float(partition.parameter), bandwidth=width, kernel="logistic")
        case _:
            return None


def _determined(group: SmallGroup) -> bool:
    """Whether the information at the true values is regular. For values seen as a set, equal ones are not."""
    eigenvalues = np.linalg.eigvalsh(group.model.information(group.values[:, None])[:, :, 0])
    return bool(eigenvalues[0] > _SINGULAR * eigenvalues[-1] > 0)
