"""Least squares in a box: a linear attack that uses the domain of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.attacks.blue import Target, identifiable_targets, linear_geometry
from sightline.attacks.estimates import AttackStatus, Estimates, box_of, checked_answers, checked_box
from sightline.attacks.model import Box, Model, Row, columns_of
from sightline.attacks.newton import minimise
from sightline.attacks.transcript_model import model_of
from sightline.errors import require
from sightline.geometry.transcript import Transcript

_TOGETHER = 12  # up to so many unknowns, all trials together are faster than one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxLeastSquares:
    r"""Minimise :math:`(y - Ax)^\top\Sigma^{-1}(y - Ax)` over :math:`x \in [\text{low}, \text{high}]^N`.

    The problem is convex and is solved to convergence, for all trials together if there are few unknowns.
    Records with the same membership signature enter as one unknown, their mean. Only identifiable records are
    reported: the minimum does not determine the others. The estimate is biased towards the inside of the box,
    and its risk may be below the Cramér–Rao bound. If the BLUE of all records lies in the box, it is the
    BLUE.

    >>> from sightline import SubsetMean, Transcript
    >>> whole = SubsetMean(members=range(4), radius=1.0)
    >>> without = SubsetMean(members=range(1, 4), radius=1.0)
    >>> transcript = Transcript([whole, without], noise=[0.03, 0.04])
    >>> BoxLeastSquares(box=(0, 1)).estimate(transcript, [[0.5, 0.25], [0.5, 0.5]]).values.round(6).tolist()
    [[1.0], [0.5]]
    """

    box: Box | None = None
    target: Target = None
    steps: int = 100

    def __post_init__(self) -> None:
        if self.box is not None:
            object.__setattr__(self, "box", checked_box(self.box))
        require(self.steps >= 1, "steps >= 1", got=self.steps)

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """The least-squares records in the box for every trial."""
        checked = checked_answers(transcript, answers)
        box = box_of(transcript, self.box)
        targets = identifiable_targets(linear_geometry(transcript), self.target).coordinates
        model = model_of(transcript.queries, transcript.law.gaussian)
        assert isinstance(model, Model)  # linear releases have weights
        reduced, place = collapsed(model)
        solve = _together if reduced.unknowns <= _TOGETHER else _one_by_one
        values, objective, solved = solve(reduced, checked, box, self.steps)
        chosen = [place[model.records.index(coordinate)] for coordinate in targets]
        return Estimates(
            values=values[:, chosen],
            targets=targets,
            status=np.where(solved, AttackStatus.SOLVED, AttackStatus.STEP_LIMIT),
            objective=objective,
        )


Solution = tuple[FloatArray, FloatArray, NDArray[np.bool_]]


def _together(model: Model, answers: FloatArray, box: Box, steps: int) -> Solution:
    """For few unknowns: all trials together, by Newton's method in the box."""
    middle = np.full(len(answers), 0.5 * (box[0] + box[1]))
    whitened = model.whiten(columns_of(answers))
    state = minimise(model, whitened, [middle] * model.unknowns, box=box, steps=steps)
    return np.stack(state.u, axis=1), state.local.objective, state.done


def _one_by_one(model: Model, answers: FloatArray, box: Box, steps: int) -> Solution:
    """For many unknowns: trial by trial, by SciPy's active-set method on the triangle of one QR."""
    from scipy.optimize import lsq_linear

    rows = np.stack(model.whiten([np.array(row.weights) for row in model.rows]))
    Q, R = np.linalg.qr(rows)
    whitened = np.stack(model.whiten(columns_of(answers)), axis=1)
    inside = whitened @ Q
    outside = np.sum((whitened - inside @ Q.T) ** 2, axis=1)
    trials = [lsq_linear(R, z, bounds=box, method="bvls", max_iter=steps * len(R)) for z in inside]
    return (
        np.clip([trial.x for trial in trials], *box),  # rounding may leave the box
        outside + np.array([2 * trial.cost for trial in trials]),
        np.array([trial.status > 0 for trial in trials]),
    )


def collapsed(model: Model) -> tuple[Model, list[int]]:
    """The linear model with one unknown per signature, and the place of each record's signature."""
    weights = np.array([row.weights for row in model.rows]).T
    signatures, place, sizes = np.unique(weights, axis=0, return_inverse=True, return_counts=True)
    lines = (signatures * sizes[:, None]).T
    rows = tuple(
        Row(curve=row.curve, weights=tuple(line.tolist()))
        for row, line in zip(model.rows, lines, strict=True)
    )
    reduced = Model(rows=rows, records=tuple(range(len(sizes))), whitening=model.whitening)
    return reduced, place.ravel().tolist()
