"""The constrained maximum-likelihood attack on small groups, with moments and thresholds.

A *group* here is a set of unknown rows that share published numbers with each other and with no other unknown
row. Its values are attacked together: of all values in the bounds, those whose answers are closest to the
published ones (:class:`sightline.attacks.mle.ConstrainedMLE`). The intervals come from the information at
the guess. They are approximations, so the repetitions measure how often they hold the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.attacks.estimates import Estimates
from sightline.attacks.mle import ConstrainedMLE
from sightline.attacks.model import Curve, Model, Power, Row, SmoothStep
from sightline.auditing.findings import Findings
from sightline.auditing.pricing import bandwidth_of
from sightline.rehearsing.result import CONFIDENCE
from sightline.rehearsing.truth import Truth, feature_values
from sightline.tables.membership import Feature, Partition, Statistic
from sightline.tables.subject import SecretKind

MOST_VALUES = 6  # of a group: the search gives a multiset to its records in all orders up to here
_MOST_GROUPS = 3
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
        and pricing.correlation is None
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
        curve = _curve(partition, findings.plan.data.bandwidth)
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
            rows.append(Row(curve=curve, weights=tuple((own_weights * sign / divisor).tolist())))
            others = (position[values.signature] == cell) & ~mine
            constant = 0.0 if partition.above else float(own_weights.sum())
            rest = feature_values(partition, values.secret[others]) @ weights[others]
            parts.append((constant + float(rest)) / divisor)
            cells.append(int(cell))
    if not cells:
        return None
    partition_of = np.array([membership.cells[c].partition for c in cells], dtype=np.intp)
    noise = pricing.scale[cells] / np.sqrt(pricing.times[partition_of])
    model = Model(rows=tuple(rows), records=tuple(range(secret.size)), whitening=tuple((1 / noise).tolist()))
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


def _curve(partition: Partition, bandwidth: float | None) -> Curve | None:
    """The curve that a number adds up; none for a power that is not whole."""
    match partition.feature:
        case Feature.VALUE | Feature.INDICATOR:
            return Power(order=1)
        case Feature.POWER:
            assert isinstance(partition.parameter, int | float)
            order = int(partition.parameter)
            return Power(order=order) if order == partition.parameter and order >= 1 else None
        case Feature.THRESHOLD:
            assert isinstance(partition.parameter, int | float)
            width = bandwidth_of(partition, bandwidth)
            return SmoothStep(at=float(partition.parameter), bandwidth=width, kernel="logistic")
        case _:
            return None


def _determined(group: SmallGroup) -> bool:
    """Whether the information at the true values is regular. For values seen as a set, equal ones are not."""
    size = group.values.size
    lines = group.model.information([np.array([value]) for value in group.values])
    information = np.zeros((size, size))
    for k, line in enumerate(lines):
        information[k, : k + 1] = [float(np.asarray(entry).ravel()[0]) for entry in line]
    information += np.tril(information, -1).T
    eigenvalues = np.linalg.eigvalsh(information)
    return bool(eigenvalues[0] > _SINGULAR * eigenvalues[-1] > 0)
