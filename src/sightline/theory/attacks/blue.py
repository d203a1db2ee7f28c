"""Linear attacks: the best unbiased one, with why it cannot estimate some targets.

Reconstruct every exposed record from published answers, with standard error, interval and recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import InvalidInput, Undecided, require
from sightline.noise.laws import Noise
from sightline.numerics.integers import ExactRecipe, certificate
from sightline.numerics.rank import Decision, balance
from sightline.theory.attacks.estimates import (
    AttackStatus,
    Estimates,
    checked_answers,
    checked_confidence,
    width_factor,
)
from sightline.theory.attacks.mle import ConstrainedMLE
from sightline.theory.attacks.model import Box, touched
from sightline.theory.geometry.frame import dense
from sightline.theory.geometry.transcript import Geometry, Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Blue:
    r"""Generalised least squares on linear releases (``app:linear_blue_identity``).

    .. math:: \hat\theta = R\,y, \qquad \operatorname{Cov}(\hat\theta) = R\,\Sigma R^\top,

    with the recipe R of the geometry: the weights of least variance among those that cancel every other
    record. For Gaussian noise the variance is the Cramér–Rao bound and the intervals are exact; on repeated
    IN/OUT releases the attack is the difference of block means. ``target`` names records; without it every
    identifiable record is attacked. If a target is not identifiable, the error names a change of the records
    that changes the target and no answer.

    >>> from sightline import SubsetMean, Transcript
    >>> whole = SubsetMean(members=range(4), radius=1.0)
    >>> without = SubsetMean(members=range(1, 4), radius=1.0)
    >>> transcript = Transcript([whole, without], noise=[0.03, 0.04])
    >>> estimates = Blue().estimate(transcript, [0.5, 0.25])
    >>> estimates.targets, estimates.values.round(6).tolist(), estimates.standard_errors.round(6).tolist()
    ((0,), [[1.25]], [[0.169706]])
    >>> try:
    ...     Blue(target=2).estimate(transcript, [0.5, 0.25])
    ... except ValueError as error:
    ...     print(str(error).partition(";")[0])
    expected identifiable targets, got record 2: moving the records along − x1 + x2 changes it and no answer
    """

    target: Target = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        checked_confidence(self.confidence)

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """Weighted answers for every trial."""
        checked = checked_answers(transcript, answers)
        targets = identifiable_targets(linear_geometry(transcript), self.target)
        return apply_recipes(targets, checked, noise=transcript.law, confidence=self.confidence)


def apply_recipes(
    targets: IdentifiableTargets, answers: FloatArray, *, noise: Noise, confidence: float
) -> Estimates:
    """Estimates of the targets: their recipes applied to checked answers."""
    R = targets.recipes
    values = answers @ R.T
    # Σ itself, not the inverse information: for Laplace noise the two differ by a factor of two.
    variances = np.einsum("ij,ij->i", R @ noise.covariance, R)
    errors = np.broadcast_to(np.sqrt(variances), values.shape)
    half = width_factor(noise, confidence) * errors
    return Estimates(
        values=values,
        targets=targets.coordinates,
        standard_errors=errors,
        lower=values - half,
        upper=values + half,
        status=np.full(len(values), AttackStatus.SOLVED),
    )


Target = int | Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdentifiableTargets:
    """Identifiable coordinates, and for each a row of weights over the answers that estimates it."""

    coordinates: tuple[int, ...]
    recipes: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingDirection:
    """A change of the records that changes a target and no answer, so no attack can estimate the target."""

    labels: tuple[str, ...]
    moves: tuple[Fraction | float, ...]

    def __str__(self) -> str:
        parts = []
        for label, move in zip(self.labels, self.moves, strict=True):
            size = abs(move)
            if move:
                written = str(size) if isinstance(size, Fraction) else f"{size:.3g}"
                short = written if len(written) <= 9 else f"{abs(float(move)):.3g}"
                factor = "" if size == 1 else f"{short}·"
                parts.append(f"{'−' if move < 0 else '+'} {factor}{label}")
        shown = " ".join(parts[:6]) + (" …" if len(parts) > 6 else "")
        return shown[2:] if shown.startswith("+") else shown


def linear_geometry(transcript: Transcript) -> Geometry:
    """The geometry of linear releases, which needs no operating point."""
    curved = [name for name, q in zip(transcript.names, transcript.queries, strict=True) if not q.linear]
    require(
        not curved,
        "linear releases for a linear attack",
        got=f"{curved[0] if curved else ''!r}, which is not",
        fix="use ConstrainedMLE",
    )
    return transcript.geometry()


def identifiable_targets(geometry: Geometry, target: Target) -> IdentifiableTargets:
    """Recipes for the target, or for every identifiable coordinate if none is named."""
    if target is None:
        return _all_identifiable(geometry)
    chosen = [int(target)] if isinstance(target, int | np.integer) else [int(j) for j in target]
    exposure = geometry.profile(target=chosen)
    if exposure.identifiable is Decision.UNDECIDED:
        raise Undecided(f"the rows do not decide whether records {chosen} are identifiable")
    if exposure.identifiable is Decision.NO:
        bad = next(j for j in sorted(chosen) if geometry.profile(target=j).identifiable is Decision.NO)
        direction = next(
            missing
            for c in range(bad * geometry.dimension, (bad + 1) * geometry.dimension)
            for missing in missing_directions(geometry, c)
        )
        raise InvalidInput(
            f"expected identifiable targets, got record {bad}: moving the records along {direction} changes "
            "it and no answer; ask for the others, or give the attack a prior"
        )
    p = geometry.dimension
    coordinates = tuple(j * p + c for j in sorted(set(chosen)) for c in range(p))
    return IdentifiableTargets(coordinates=coordinates, recipes=exposure.recipe)


def _all_identifiable(geometry: Geometry) -> IdentifiableTargets:
    # The revealed combinations of all records are in reduced echelon form. So a coordinate is identifiable
    # exactly if some combination consists of it alone.
    exposure = geometry.profile(target=range(geometry.records))
    if exposure.identifiable is Decision.UNDECIDED:
        raise Undecided("the rows do not decide which records are identifiable; name a target")
    identifiable = []
    for direction in exposure.directions:
        support = [i for i, coefficient in enumerate(direction.coefficients) if coefficient]
        if len(support) == 1:
            coordinate = support[0]
            identifiable.append((coordinate, direction.recipe / float(direction.coefficients[coordinate])))
    outputs = geometry.noise.outputs
    return IdentifiableTargets(
        coordinates=tuple(coordinate for coordinate, _ in identifiable),
        recipes=np.array([recipe for _, recipe in identifiable]).reshape(-1, outputs),
    )


def missing_directions(geometry: Geometry, coordinate: int) -> list[MissingDirection]:
    """A change of the records that changes the coordinate and no answer, if there is one.

    In exact fractions if the rows are whole numbers; else the least change of the other records that
    compensates for it.
    """
    columns = int(geometry.jacobian.shape[1])
    labels = tuple(geometry.label(column) for column in range(columns))
    if geometry.integer_rows is not None:
        wanted = [int(c == coordinate) for c in range(columns)]
        proof = certificate(np.asarray(dense(geometry.integer_rows), dtype=np.int64), wanted)
        if isinstance(proof, ExactRecipe):
            return []
        sign = 1 if proof.direction[coordinate] > 0 else -1
        return [MissingDirection(labels=labels, moves=tuple(sign * move for move in proof.direction))]
    rows, factors = balance(dense(geometry.jacobian))
    column = rows[:, coordinate]
    others = np.delete(np.arange(columns), coordinate)
    compensation, _, _, _ = np.linalg.lstsq(rows[:, others], -column, rcond=1e-10)
    if np.linalg.norm(column + rows[:, others] @ compensation) > 1e-8 * np.linalg.norm(column):
        return []
    moves = np.zeros(columns)
    moves[coordinate] = 1.0
    moves[others] = compensation * factors[others] / factors[coordinate]
    moves[np.abs(moves) < 1e-9] = 0.0
    return [MissingDirection(labels=labels, moves=tuple(float(move) for move in moves))]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReconstructedValue:
    """One reconstructed value. ``recipe`` are the weights over the answers if the attack is linear."""

    coordinate: int  # the record (for vector records: record · dimension + place in it); a rank if unlabeled
    label: str
    value: float
    standard_error: float
    interval: tuple[float, float]
    recipe: FloatArray | None

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.label} = {self.value:.6g} ± {self.standard_error:.3g} [{low:.6g}, {high:.6g}]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reconstruction:
    """The values of all exposed records, and the records that the answers hide.

    The values are estimates for real records: for the owner of the records only.
    """

    attack: str
    exposed: tuple[ReconstructedValue, ...]
    hidden: tuple[int, ...]  # coordinates that no combination of the answers reveals
    unlabeled: bool
    status: AttackStatus
    confidence: float
    _geometry: Any = None  # of linear releases: of others no coordinate is hidden

    def missing_direction(self, coordinate: int) -> MissingDirection:
        """A change of the records that changes a hidden coordinate and no answer."""
        require(coordinate in self.hidden, "a hidden coordinate", got=coordinate)
        return missing_directions(self._geometry, coordinate)[0]

    def __str__(self) -> str:
        lines = [f"{self.attack}: {len(self.exposed)} exposed, {len(self.hidden)} hidden"]
        return "\n".join([*lines, *(f"  {value}" for value in self.exposed)])


def reconstruct(
    transcript: Transcript, answers: Any, *, box: Box | None = None, confidence: float = 0.95
) -> Reconstruction:
    """Reconstruct every exposed record from one set of published answers.

    Linear releases: the best linear unbiased attack on each record that is identifiable, with its recipe; the
    others are ``hidden``, and ``missing_direction`` shows why. Moments and thresholds of one
    group: the constrained maximum likelihood multiset in ``box`` (default: the domain that the releases
    state), whose standard errors are local.

    >>> from sightline import SubsetMean
    >>> whole = SubsetMean(members=range(4), radius=1.0)
    >>> without = SubsetMean(members=range(1, 4), radius=1.0)
    >>> reconstruction = reconstruct(Transcript([whole, without], noise=[0.03, 0.04]), [0.5, 0.25])
    >>> print(reconstruction)
    Blue: 1 exposed, 3 hidden
      x0 = 1.25 ± 0.17 [0.917383, 1.58262]
    >>> reconstruction.exposed[0].recipe.round(9).tolist(), str(reconstruction.missing_direction(2))
    ([4.0, -3.0], '− x1 + x2')
    """
    checked_confidence(confidence)
    checked = checked_answers(transcript, answers)
    require(
        len(checked) == 1,
        "one set of answers",
        got=f"{len(checked)}",
        fix="for many trials use an attack's estimate",
    )
    if all(query.linear for query in transcript.queries):
        return _linear(transcript, checked, confidence)
    estimates = ConstrainedMLE(box=box, confidence=confidence).estimate(transcript, checked)
    count = len(estimates.targets)
    ranks = estimates.unlabeled
    coordinates = tuple(range(count)) if ranks else estimates.targets
    labels = [f"x({k + 1})" if ranks else f"x{coordinate}" for k, coordinate in enumerate(coordinates)]
    return Reconstruction(
        attack="ConstrainedMLE",
        exposed=_values(estimates, coordinates, labels, (None,) * count),
        hidden=(),
        unlabeled=estimates.unlabeled,
        status=AttackStatus(int(estimates.status[0])),
        confidence=confidence,
    )


def _linear(transcript: Transcript, answers: FloatArray, confidence: float) -> Reconstruction:
    geometry = linear_geometry(transcript)
    targets = identifiable_targets(geometry, None)
    estimates = apply_recipes(targets, answers, noise=transcript.law, confidence=confidence)
    labels = [geometry.label(coordinate) for coordinate in estimates.targets]
    return Reconstruction(
        attack="Blue",
        exposed=_values(estimates, estimates.targets, labels, targets.recipes),
        hidden=tuple(c for c in touched(transcript) if c not in estimates.targets),
        unlabeled=False,
        status=AttackStatus.SOLVED,
        confidence=confidence,
        _geometry=geometry,
    )


def _values(
    estimates: Estimates,
    coordinates: Sequence[int],
    labels: Sequence[str],
    recipes: Iterable[FloatArray | None],
) -> tuple[ReconstructedValue, ...]:
    """The estimates of the one trial, value by value."""
    columns = (estimates.values, estimates.standard_errors, estimates.lower, estimates.upper)
    numbers = zip(*(column[0].tolist() for column in columns), strict=True)
    return tuple(
        ReconstructedValue(
            coordinate=coordinate,
            label=label,
            value=value,
            standard_error=error,
            interval=(lower, upper),
            recipe=recipe,
        )
        for coordinate, label, recipe, (value, error, lower, upper) in zip(
            coordinates, labels, recipes, numbers, strict=True
        )
    )
