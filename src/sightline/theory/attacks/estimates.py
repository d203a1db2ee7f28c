"""The interface of attacks: answers to a transcript in, estimates out, one trial per row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import InvalidInput, require
from sightline.noise.laws import Noise
from sightline.numerics.intervals import gaussian_factor, unimodal_factor
from sightline.privacy.law import Law
from sightline.theory.attacks.model import Box
from sightline.theory.geometry.transcript import Transcript


class AttackStatus(IntEnum):
    """The outcome of an attack on one trial's answers."""

    SOLVED = 0
    NO_REAL_SOLUTION = 1
    STEP_LIMIT = 2

    def __str__(self) -> str:
        return _MEANING[self]


_MEANING = {
    AttackStatus.SOLVED: "solved",
    AttackStatus.NO_REAL_SOLUTION: "no real values have these answers: the real parts of the roots are given",
    AttackStatus.STEP_LIMIT: "the search reached its step limit before it converged",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """Estimates of some coordinates, one trial per row.

    ``targets`` are positions of records (for vector records: record · dimension + place in it). If
    ``unlabeled`` is true, the values of a row are a multiset in ascending order, and no value belongs to a
    particular record. ``certified`` says for every trial whether ``objective`` is proven globally optimal.
    Errors and intervals are NaN if the attack gives none.
    """

    values: Any
    targets: tuple[int, ...]
    unlabeled: bool = False
    standard_errors: Any = math.nan
    lower: Any = math.nan
    upper: Any = math.nan
    status: Any
    objective: Any = math.nan
    certified: Any = False

    @property
    def trials(self) -> int:
        return int(self.values.shape[0])


@runtime_checkable
class Attack(Protocol):
    """A rule that turns answers into values. Its settings are its fields, and it can be pickled."""

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """Estimates from answers of shape ``(outputs,)`` or ``(trials, outputs)``."""


def checked_answers(transcript: Transcript, answers: Any) -> FloatArray:
    """Answers as a finite (trials × outputs) array."""
    try:
        array = answers if isinstance(answers, np.ndarray) else np.array(answers, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"expected answers to be an array of numbers, got {type(answers).__name__}"
        ) from None
    require(array.dtype.kind in "iuf", "answers as numbers", got=f"dtype {array.dtype}")
    shape = array.shape
    require(
        len(shape) in (1, 2) and shape[-1] == transcript.outputs,
        f"{transcript.outputs} answers, or rows of that length",
        got=f"shape {shape}",
        fix="give every published number, in the order of the transcript",
    )
    checked = np.atleast_2d(array).astype(np.float64, copy=False)
    require(len(checked) > 0, "at least one trial of answers", got=0)
    require(bool(np.all(np.isfinite(checked))), "finite answers", got="NaN or infinite entries")
    return checked


def checked_box(box: Box) -> Box:
    """The ends of a box as floats, low below high."""
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


def box_of(transcript: Transcript, box: Box | None) -> Box:
    """The given box, or the domain that the releases state."""
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
    """The half-width of the interval of a linear estimate, in standard errors; never too narrow.

    A weighted sum of Laplace variables is symmetric with one mode.
    """
    return {Law.GAUSSIAN: gaussian_factor, Law.LAPLACE: unimodal_factor}[noise.law](confidence)
