"""One call on published answers: every exposed record, with a standard error, an interval and the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sightline.arrays import FloatArray
from sightline.attacks.blue import weigh
from sightline.attacks.estimates import AttackStatus, checked_confidence, host_answers
from sightline.attacks.group import touched
from sightline.attacks.mle import ConstrainedMLE
from sightline.attacks.target import MissingDirection, linear_geometry, missing_direction, reach
from sightline.errors import require
from sightline.geometry.fisher import Geometry
from sightline.geometry.transcript import Transcript


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReconstructedValue:
    """One value as the attack has it. ``recipe`` are weights over the answers, where the attack is linear."""

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
    """What the answers say of every exposed record, and of the hidden ones what they do not.

    Values are estimates from noisy answers about real records: for the records' owner only.
    """

    attack: str
    exposed: tuple[ReconstructedValue, ...]
    hidden: tuple[int, ...]  # coordinates that no combination of the answers reveals
    unlabeled: bool
    status: AttackStatus
    confidence: float
    _geometry: Geometry | None = None

    def missing_direction(self, coordinate: int) -> MissingDirection:
        """For a hidden coordinate, a change of the records that alters it and no answer."""
        require(coordinate in self.hidden, "a hidden coordinate", got=coordinate)
        assert self._geometry is not None
        direction = missing_direction(self._geometry, coordinate)
        assert direction is not None
        return direction

    def __str__(self) -> str:
        lines = [f"{self.attack}: {len(self.exposed)} exposed, {len(self.hidden)} hidden"]
        return "\n".join([*lines, *(f"  {value}" for value in self.exposed)])


def reconstruct(
    transcript: Transcript,
    answers: Any,
    *,
    box: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> Reconstruction:
    """Reconstruct every exposed record from one set of published answers.

    Linear releases: the best linear unbiased attack on each record that is identifiable, with its recipe; the
    others are ``hidden``, and ``missing_direction`` shows what cannot be seen. Moments and thresholds of one
    group: the constrained maximum likelihood multiset in ``box`` (default: the domain that the releases
    state), whose standard errors are local.

    >>> from sightline.releases.subset_mean import SubsetMean
    >>> whole = SubsetMean(members=range(4), radius=1.0)
    >>> without = SubsetMean(members=range(1, 4), radius=1.0)
    >>> found = reconstruct(Transcript([whole, without], noise=[0.03, 0.04]), [0.5, 0.25])
    >>> print(found)
    Blue: 1 exposed, 3 hidden
      x0 = 1.25 ± 0.17 [0.917383, 1.58262]
    >>> found.exposed[0].recipe.round(9).tolist(), str(found.missing_direction(2))
    ([4.0, -3.0], '− x1 + x2')
    """
    checked_confidence(confidence)
    checked = host_answers(transcript, answers)
    require(
        len(checked) == 1,
        "one set of answers",
        got=f"{len(checked)}",
        fix="for many trials use an attack's estimate",
    )
    if all(query.linear for query in transcript.queries):
        return _linear(transcript, checked, confidence)
    found = ConstrainedMLE(box=box, confidence=confidence).estimate(transcript, checked)
    exposed = tuple(
        ReconstructedValue(
            coordinate=k if found.unlabeled else found.targets[k],
            label=f"x({k + 1})" if found.unlabeled else f"x{found.targets[k]}",
            value=float(found.values[0, k]),
            standard_error=float(found.standard_errors[0, k]),  # type: ignore[index]
            interval=(float(found.lower[0, k]), float(found.upper[0, k])),  # type: ignore[index]
            recipe=None,
        )
        for k in range(len(found.targets))
    )
    return Reconstruction(
        attack="ConstrainedMLE",
        exposed=exposed,
        hidden=(),
        unlabeled=found.unlabeled,
        status=AttackStatus(int(found.status[0])),
        confidence=confidence,
    )


def _linear(transcript: Transcript, answers: FloatArray, confidence: float) -> Reconstruction:
    geometry = linear_geometry(transcript)
    seen = reach(geometry, None)
    found = weigh(seen, answers, noise=transcript.law, confidence=confidence)
    exposed = tuple(
        ReconstructedValue(
            coordinate=coordinate,
            label=_label(coordinate, transcript.dimension),
            value=float(found.values[0, i]),
            standard_error=float(found.standard_errors[0, i]),  # type: ignore[index]
            interval=(float(found.lower[0, i]), float(found.upper[0, i])),  # type: ignore[index]
            recipe=seen.recipes[i],
        )
        for i, coordinate in enumerate(found.targets)
    )
    return Reconstruction(
        attack="Blue",
        exposed=exposed,
        hidden=tuple(c for c in touched(transcript) if c not in found.targets),
        unlabeled=False,
        status=AttackStatus.SOLVED,
        confidence=confidence,
        _geometry=geometry,
    )


def _label(coordinate: int, dimension: int) -> str:
    record, place = divmod(coordinate, dimension)
    return f"x{record}" if dimension == 1 else f"x{record}[{place}]"
