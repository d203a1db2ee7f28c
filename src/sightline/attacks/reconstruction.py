"""Reconstruct every exposed record from published answers, with standard error, interval and recipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.arrays import FloatArray
from sightline.attacks.blue import (
    MissingDirection,
    apply_recipes,
    identifiable_targets,
    linear_geometry,
    missing_direction,
)
from sightline.attacks.estimates import AttackStatus, Estimates, checked_answers, checked_confidence
from sightline.attacks.mle import ConstrainedMLE
from sightline.attacks.model import Box, touched
from sightline.errors import require
from sightline.geometry.transcript import Geometry, Transcript


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
    _geometry: Geometry | None = None

    def missing_direction(self, coordinate: int) -> MissingDirection:
        """A change of the records that changes a hidden coordinate and no answer."""
        require(coordinate in self.hidden, "a hidden coordinate", got=coordinate)
        assert self._geometry is not None
        direction = missing_direction(self._geometry, coordinate)
        assert direction is not None
        return direction

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
