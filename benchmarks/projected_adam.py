"""The paper's own search for the constrained maximum likelihood: projected Adam, for comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.errors import require
from sightline.theory.attacks import mle as search
from sightline.theory.attacks.estimates import AttackStatus, Estimates, box_of, checked_answers, checked_box
from sightline.theory.attacks.model import model_of

if TYPE_CHECKING:
    from sightline.theory.geometry.transcript import Transcript

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
        points = search.grid_points(m, box=box, exchangeable=model.exchangeable)
        begun = [np.tile(point[:, None], trials) for point in points[search.spread_out(points, self.grid)]]
        begun += search.algebraic(model, checked.T)
        whitened = np.tile(model.whiten(checked.T), len(begun))
        u = np.clip(np.concatenate(begun, axis=1), *box)
        first, second = np.zeros((2, *u.shape))
        local = model.local(u, whitened)
        best, objective = u, local.objective
        for step in range(1, self.steps + 1):
            first = _FADE_FIRST * first + (1 - _FADE_FIRST) * local.gradient
            second = _FADE_SECOND * second + (1 - _FADE_SECOND) * local.gradient**2
            rise, scale = 1 / (1 - _FADE_FIRST**step), 1 / (1 - _FADE_SECOND**step)
            u = np.clip(u - self.stepsize * rise * first / (np.sqrt(scale * second) + _EPSILON), *box)
            local = model.local(u, whitened)
            better = local.objective < objective
            objective, best = np.where(better, local.objective, objective), np.where(better, u, best)
        kept = np.argmin(objective.reshape(-1, trials), axis=0) * trials + np.arange(trials)
        values = best[:, kept]
        return Estimates(
            values=(np.sort(values, axis=0) if model.exchangeable else values).T,
            targets=model.records,
            unlabeled=model.exchangeable,
            status=np.full(trials, AttackStatus.SOLVED),
            objective=objective[kept],
        )
