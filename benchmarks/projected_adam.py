"""The paper's own search for the constrained maximum likelihood: projected Adam, for comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.attacks import starts
from sightline.attacks.estimates import AttackStatus, Estimates, box_of, checked_answers, checked_box
from sightline.attacks.mle import sort_together
from sightline.attacks.model import columns_of, model_of, stacked
from sightline.errors import require

if TYPE_CHECKING:
    from sightline.geometry.transcript import Transcript

_FADE_FIRST, _FADE_SECOND, _EPSILON = 0.9, 0.999, 1e-8  # Adam's usual settings; the paper names no others


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedAdam:
    r"""Projected Adam from the algebraic inverse and a coarse grid (``app:logistic_smoothing``).

    60 iterations of stepsize 0.035, projected onto the box after each; the best iterate is the answer.
    The paper does not give its grid: here it is ``grid`` fixed starts. The search ends near the optimum.
    """

    box: tuple[float, float] | None = None
    steps: int = 60
    stepsize: float = 0.035
    grid: int = 6

    def __post_init__(self) -> None:
        if self.box is not None:
            object.__setattr__(self, "box", checked_box(self.box))
        require(self.steps >= 1, "steps >= 1", got=self.steps)
        require(
            math.isfinite(self.stepsize) and self.stepsize > 0, "a finite stepsize > 0", got=self.stepsize
        )
        require(self.grid >= 1, "grid >= 1", got=self.grid)

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """The best iterate for every trial."""
        checked = checked_answers(transcript, answers)
        model = model_of(transcript.queries, transcript.law)
        box = box_of(transcript, self.box)
        m, trials = model.unknowns, int(checked.shape[0])
        columns = columns_of(checked)
        zero = 0.0 * columns[0]
        points = starts.grid_points(m, box=box, exchangeable=model.exchangeable)
        spread = starts.spread_out(points, self.grid)
        begun = [[zero + value for value in point] for point in points[spread].tolist()]
        inverse = starts.algebraic(model, columns)
        if inverse is not None:
            begun.append(inverse)
        whitened = [np.concatenate([z] * len(begun)) for z in model.whiten(columns)]
        u = [np.clip(np.concatenate([start[k] for start in begun]), *box) for k in range(m)]
        first = [0.0 * u[0]] * m
        second = [0.0 * u[0]] * m
        local = model.local(u, whitened)
        best, objective = list(u), local.objective
        for step in range(1, self.steps + 1):
            g = local.gradient
            first = [_FADE_FIRST * first[k] + (1 - _FADE_FIRST) * g[k] for k in range(m)]
            second = [_FADE_SECOND * second[k] + (1 - _FADE_SECOND) * g[k] * g[k] for k in range(m)]
            rise, scale = 1 / (1 - _FADE_FIRST**step), 1 / (1 - _FADE_SECOND**step)
            u = [
                np.clip(
                    u[k] - self.stepsize * rise * first[k] / (np.sqrt(scale * second[k]) + _EPSILON), *box
                )
                for k in range(m)
            ]
            local = model.local(u, whitened)
            better = local.objective < objective
            objective = np.where(better, local.objective, objective)
            best = [np.where(better, new, old) for new, old in zip(u, best, strict=True)]
        found = [*best, objective]
        kept = [column[:trials] for column in found]
        for i in range(1, len(begun)):
            other = [column[i * trials : (i + 1) * trials] for column in found]
            better = other[m] < kept[m]
            kept = [np.where(better, new, old) for new, old in zip(other, kept, strict=True)]
        values = kept[:m]
        if model.exchangeable:
            sort_together(values)
        return Estimates(
            values=stacked(values),
            targets=model.records,
            unlabeled=model.exchangeable,
            status=0 * (kept[m] == kept[m]) + int(AttackStatus.SOLVED),
            objective=kept[m],
        )
