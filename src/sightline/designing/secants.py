"""Curvature that a Hessian leaves out, learned from the steps that were taken with it.

After a step d with the curvature B the optimality conditions are off by :math:`(B^* - B)\\,d`, where
:math:`B^*` is the true curvature. From a few steps D and what they were off by, R, the missing part is about
:math:`R\\,(D^\\top R)^{-1} R^\\top`. Only its positive part is used: too little curvature makes steps that
go too far, and too much makes them short.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sightline.arrays import FloatArray, IndexArray

_MOST = 5  # steps that are remembered
_INDEPENDENT = 1e-6  # an eigenvalue over the largest below which steps say nothing new


@dataclass(slots=True, kw_only=True, eq=False)
class Secants:
    """The last steps, and by how much the Hessian missed their effect: over all variables."""

    steps: list[FloatArray] = field(default_factory=list)
    missed: list[FloatArray] = field(default_factory=list)

    def copy(self) -> Secants:
        """The same steps, to go on from."""
        return Secants(steps=list(self.steps), missed=list(self.missed))

    def learn(self, step: FloatArray, missed: FloatArray) -> None:
        """One step, and what the Hessian without a correction missed of it."""
        size = float(np.linalg.norm(step))
        if size > 0:
            self.steps, self.missed = (
                [*self.steps, step / size][-_MOST:],
                [*self.missed, missed / size][-_MOST:],
            )

    def missing(self, active: IndexArray) -> FloatArray:
        """A matrix F over some variables: :math:`F F^\\top` is the curvature that is missing."""
        if not self.steps:
            return np.zeros((active.size, 0))
        D, R = (np.stack([one[active] for one in kept], axis=1) for kept in (self.steps, self.missed))
        product = D.T @ R
        values, directions = np.linalg.eigh((product + product.T) / 2)
        kept = values > _INDEPENDENT * max(float(values[-1]), 0.0)
        return np.asarray(R @ (directions[:, kept] / np.sqrt(values[kept])))
