r"""Factored noise: what matrix mechanisms publish, :math:`A s + \sigma B z` with :math:`A = BC`.

The noise is drawn once for every row of the strategy C, :math:`Cs + \sigma z`, and the decoder B computes
from that what is published. If B is injective, whoever sees the answers knows all of :math:`Cs + \sigma z`:
the whitened rows are C itself. Otherwise they are a row basis of B times C. No covariance is factorised: that
of running sums of independent noise has the condition number :math:`T^2`, and its root here is the decoder.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidNoise, require
from sightline.noise.covariance import Factor
from sightline.noise.laws import CorrelatedNoise
from sightline.numerics.rank import missing, present


class FactoredNoise(CorrelatedNoise):
    r"""Gaussian noise :math:`\sigma B z` on the answers :math:`BCs`.

    >>> from sightline.noise.strategies import strategy_of
    >>> days = FactoredNoise(strategy=np.eye(4), decoder=strategy_of("independent", 4), stddev=2.0)
    >>> days.variances.tolist(), np.abs(days.whiten(days.workload) @ days.whiten(days.workload).T).tolist()[0]
    ([4.0, 8.0, 12.0, 16.0], [0.25, 0.0, 0.0, 0.0])
    """

    __slots__ = ("decoder", "stddev", "strategy")

    strategy: FloatArray  # C: noises × steps
    decoder: FloatArray  # B: answers × noises
    stddev: float

    def __init__(self, *, strategy: ArrayLike, decoder: ArrayLike, stddev: float) -> None:
        C = frozen_floats(strategy, name="strategy", ndim=2, error=InvalidNoise)
        B = frozen_floats(decoder, name="decoder", ndim=2, error=InvalidNoise)
        require(
            B.shape[1] == len(C) and B.size > 0 and C.size > 0,
            "a decoder with a column for each row of the strategy",
            got=f"shapes {B.shape} and {C.shape}",
            error=InvalidNoise,
        )
        require(
            bool(np.isfinite(stddev)) and stddev > 0, "a noise stddev > 0", got=stddev, error=InvalidNoise
        )
        require(
            bool(np.all(np.any(B != 0, axis=1))),
            "noise on every answer",
            got=f"{int(np.sum(~np.any(B != 0, axis=1)))} of {len(B)} without",
            fix="an answer without noise is not a differentially private release",
            error=InvalidNoise,
        )
        for name, value in (("strategy", C), ("decoder", B), ("stddev", float(stddev))):
            object.__setattr__(self, name, value)
        root = stddev * B
        object.__setattr__(self, "blocks", (root @ root.T,))
        object.__setattr__(self, "_factors", (_factor(root),))

    @property
    def workload(self) -> FloatArray:
        """A = BC: what is published of the steps."""
        return np.asarray(self.decoder @ self.strategy)

    def take(self, answers: IndexArray) -> FactoredNoise:
        return FactoredNoise(strategy=self.strategy, decoder=self.decoder[answers], stddev=self.stddev)

    def scaled(self, factors: FloatArray | float) -> FactoredNoise:
        each = np.broadcast_to(np.asarray(factors, dtype=np.float64), (self.outputs,))
        return FactoredNoise(strategy=self.strategy, decoder=self.decoder * each[:, None], stddev=self.stddev)


def _factor(root: FloatArray) -> Factor:
    """The factors of the covariance of root times white noise, from the root itself."""
    size = len(root)
    lengths = np.linalg.norm(root, axis=1)
    _, R, order = scipy.linalg.qr((root / lengths[:, None]).T, mode="economic", pivoting=True)
    pivots = np.abs(np.diagonal(R)) ** 2  # each answer's share of noise that those before it do not have
    rank = int(np.count_nonzero(pivots > missing(size)))
    smallest = float(pivots[rank - 1])
    independent, determined = np.sort(order[:rank]), np.sort(order[rank:])
    # In the order of the answers, so that the factor of running sums is the triangle of their steps.
    lower = np.asarray(np.linalg.qr(root[independent].T, mode="r")).T
    lower = lower * np.where(np.diagonal(lower) < 0, -1.0, 1.0)
    dependence = np.zeros((0, rank))
    if determined.size:
        require(
            smallest > present(size),
            "a decoder that is clearly singular or clearly not",
            got=f"one whose smallest independent share of noise is {smallest:.3g}",
            fix="remove answers that are nearly combinations of others",
            error=InvalidNoise,
        )
        half = np.linalg.lstsq(root[independent].T, root[determined].T, rcond=None)[0]
        dependence = half.T
    return Factor(
        independent=independent, root=lower, determined=determined, dependence=dependence, smallest=smallest
    )


def whitener_of(noise: CorrelatedNoise, answers: IndexArray) -> FloatArray:
    """The inverse of the root of independent answers' noise."""
    (factor,) = noise._factors
    assert answers.size == factor.independent.size
    return np.asarray(scipy.linalg.solve_triangular(factor.root, np.eye(answers.size), lower=True))
