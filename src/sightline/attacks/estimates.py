"""What every attack returns, and what it is asked with: answers to a transcript, one trial a row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Protocol, assert_never, runtime_checkable

import numpy as np

from sightline.attacks.namespace import is_array, namespace, to_numpy
from sightline.errors import InvalidInput, require
from sightline.noise.laws import Noise
from sightline.privacy.accountant import NoiseLaw

if TYPE_CHECKING:
    from sightline.geometry.transcript import Transcript


class AttackStatus(IntEnum):
    """How an attack fared on one trial's answers."""

    SOLVED = 0
    NO_REAL_SOLUTION = 1
    STEP_LIMIT = 2
    FEW_POINTS = 3

    def __str__(self) -> str:
        return _MEANING[self]


_MEANING = {
    AttackStatus.SOLVED: "solved",
    AttackStatus.NO_REAL_SOLUTION: "no real values have these answers: real parts of the roots",
    AttackStatus.STEP_LIMIT: "the search was still moving when its steps ran out",
    AttackStatus.FEW_POINTS: "the posterior is narrower than the points resolve",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """Estimates of some coordinates, one trial a row: arrays of the library that the answers came in.

    ``targets`` are positions of records (for vector records: record · dimension + place in it). Where
    ``unlabeled`` is true the values of a row are a multiset, in ascending order, and belong to no record by
    name. ``certified`` says of every trial whether ``objective`` is proved to be the global optimum.
    """

    values: Any
    targets: tuple[int, ...]
    unlabeled: bool = False
    standard_errors: Any | None = None
    lower: Any | None = None
    upper: Any | None = None
    status: Any
    objective: Any | None = None
    certified: Any | None = None

    @property
    def trials(self) -> int:
        return int(self.values.shape[0])

    def on_host(self) -> Estimates:
        """The same in NumPy arrays."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return Estimates(
            **{name: to_numpy(value) if is_array(value) else value for name, value in named.items()}
        )


@runtime_checkable
class Attack(Protocol):
    """A rule that turns answers into values; its settings are its fields, and it can be pickled."""

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """Estimates from answers of shape ``(outputs,)`` or ``(trials, outputs)``."""


def checked_answers(transcript: Transcript, answers: Any) -> Any:
    """Answers as a finite (trials × outputs) array of their own library; lists become NumPy's."""
    if not is_array(answers):
        try:
            answers = np.array(answers, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(
                f"expected answers to be an array of numbers, got {type(answers).__name__}"
            ) from None
    if isinstance(answers, np.ndarray):
        require(answers.dtype.kind in "iuf", "answers as numbers", got=f"dtype {answers.dtype}")
        answers = answers.astype(np.float64, copy=False)
    shape = tuple(answers.shape)
    if len(shape) == 1:
        answers = answers[None, :]
    require(
        len(shape) in (1, 2) and shape[-1] == transcript.outputs,
        f"{transcript.outputs} answers, or rows of so many",
        got=f"shape {shape}",
        fix="give every published number, in the order of the transcript",
    )
    require(answers.shape[0] > 0, "at least one trial of answers", got=0)
    xp = namespace(answers)
    require(bool(xp.all(xp.isfinite(answers))), "finite answers", got="NaN or infinite entries")
    return answers


def host_answers(transcript: Transcript, answers: Any) -> Any:
    """Checked answers as NumPy's."""
    return to_numpy(checked_answers(transcript, answers))


def checked_box(box: tuple[float, float]) -> tuple[float, float]:
    """A box with an inside, as floats."""
    try:
        low, high = (float(end) for end in box)
    except (TypeError, ValueError):
        raise InvalidInput(f"expected a box (low, high), got {type(box).__name__}") from None
    require(
        math.isfinite(low) and math.isfinite(high) and low < high,
        "a box (low, high) with low < high",
        got=f"({low:g}, {high:g})",
        fix="give the smallest and the largest value that a record can have",
    )
    return low, high


def box_of(transcript: Transcript, box: tuple[float, float] | None) -> tuple[float, float]:
    """The box that was given, or the domain that the releases themselves state."""
    if box is not None:
        return checked_box(box)
    cells = [cell for query in transcript.queries for cell in query.cells]
    bounds = [cell.bound for cell in cells if hasattr(cell, "bound")]
    require(
        len(bounds) > 0,
        "a box (low, high)",
        got="none, and releases that state no bound",
        fix="give the smallest and the largest value that a record can have",
    )
    return -min(bounds), min(bounds)


def checked_confidence(confidence: float) -> float:
    """A confidence level strictly between 0 and 1."""
    require(0 < confidence < 1, "confidence between 0 and 1", got=confidence)
    return float(confidence)


def width_factor(noise: Noise, confidence: float) -> float:
    r"""How many standard errors an interval of a linear estimate reaches to each side.

    Normal quantiles for Gaussian noise. A weighted sum of Laplace variables is symmetric with one mode, for
    which Gauss's inequality :math:`P(|X| \ge k\sigma) \le 4/(9k^2)` holds: wide, and never too narrow.

    >>> from sightline.noise.laws import GaussianNoise, LaplaceNoise
    >>> round(width_factor(GaussianNoise(stddevs=[1.0]), 0.95), 3)
    1.96
    >>> round(width_factor(LaplaceNoise(scales=[1.0]), 0.95), 3)
    2.981
    """
    match noise.law:
        case NoiseLaw.GAUSSIAN:
            return NormalDist().inv_cdf(0.5 + confidence / 2)
        case NoiseLaw.LAPLACE:
            return max(math.sqrt(4 / (9 * (1 - confidence))), math.sqrt(4 / 3))
    assert_never(noise.law)
