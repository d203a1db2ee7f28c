"""Independent noise of several laws on one list of answers, as bounds and linear attacks see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidNoise, require
from sightline.noise.laws import GaussianNoise, LaplaceNoise, Noise, positive_scales
from sightline.privacy.accountant import NoiseLaw


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixedNoise(Noise):
    r"""For each answer one over the root of its information, its standard deviation, and its kind.

    ``laplace_answers`` is 0 for an answer that tells no more than a Gaussian one with its information, 1 for
    one with Laplace noise, and 2 for another one, for which bounds on several Laplace answers hold.
    ``scales`` are :math:`\sigma` or b, ``stddevs`` are :math:`\sigma` or :math:`\sqrt2\, b`.

    >>> noise = MixedNoise(scales=[2.0, 1.0], stddevs=[2.0, 2**0.5], laplace_answers=[0, 1])
    >>> round(noise.excess, 12), noise.variances.round(12).tolist()
    (2.0, [4.0, 2.0])
    """

    scales: FloatArray
    stddevs: FloatArray
    laplace_answers: FloatArray

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, scales: ArrayLike, stddevs: ArrayLike, laplace_answers: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", positive_scales(self.scales, "noise scales"))
        object.__setattr__(self, "stddevs", positive_scales(self.stddevs, "noise stddevs"))
        answers = frozen_floats(
            self.laplace_answers, name="counts of Laplace answers", ndim=1, error=InvalidNoise
        )
        object.__setattr__(self, "laplace_answers", answers)
        require(
            self.scales.size == self.stddevs.size == answers.size,
            "a scale, a stddev and a kind for each answer",
            got=f"{self.scales.size}, {self.stddevs.size} and {answers.size}",
            error=InvalidNoise,
        )
        require(
            bool(np.all(np.isin(answers, (0.0, 1.0, 2.0)))),
            "0, 1 or 2 Laplace answers",
            got="another number",
            error=InvalidNoise,
        )

    @classmethod
    def of(cls, parts: list[GaussianNoise | LaplaceNoise]) -> MixedNoise:
        """Gaussian and Laplace noise on answers that follow each other.

        >>> MixedNoise.of([GaussianNoise(stddevs=[3.0]), LaplaceNoise(scales=[2.0])]).scales.tolist()
        [3.0, 2.0]
        """
        kinds = [np.full(part.outputs, float(part.law is NoiseLaw.LAPLACE)) for part in parts]
        return cls(
            scales=np.concatenate([part.scales for part in parts]),
            stddevs=np.concatenate([np.sqrt(part.variances) for part in parts]),
            laplace_answers=np.concatenate(kinds),
        )

    @property
    def law(self) -> NoiseLaw:  # type: ignore[override]
        raise InvalidNoise("expected noise of one law, got several; an accountant counts each by itself")

    @property
    def excess(self) -> float:  # type: ignore[override]  # of the laws of one kind it is a constant
        """The largest variance over the inverse of the information, and at least 1."""
        return max(1.0, float(np.max((self.stddevs / self.scales) ** 2)))

    @property
    def variances(self) -> FloatArray:
        return np.asarray(self.stddevs**2)

    @property
    def gaussian(self) -> GaussianNoise:
        return GaussianNoise(stddevs=self.stddevs)

    def append(self, stddevs: FloatArray) -> Noise:
        extra = GaussianNoise(stddevs=stddevs)
        return MixedNoise(
            scales=np.concatenate([self.scales, extra.stddevs]),
            stddevs=np.concatenate([self.stddevs, extra.stddevs]),
            laplace_answers=np.concatenate([self.laplace_answers, np.zeros(extra.outputs)]),
        )

    def take(self, answers: IndexArray) -> MixedNoise:
        return MixedNoise(
            scales=self.scales[answers],
            stddevs=self.stddevs[answers],
            laplace_answers=self.laplace_answers[answers],
        )

    def scaled(self, factors: FloatArray | float) -> MixedNoise:
        return MixedNoise(
            scales=self.scales * factors,
            stddevs=self.stddevs * factors,
            laplace_answers=self.laplace_answers,
        )

    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        laplace = self.laplace_answers == 1
        drawable = np.isclose(self.stddevs, self.scales * np.where(laplace, np.sqrt(2), 1.0))
        require(
            bool(np.all(drawable & (self.laplace_answers < 2))),
            "Gaussian and Laplace noise to draw",
            got="answers whose noise is another",
            error=InvalidNoise,
        )
        white = generator.standard_normal((trials, self.outputs))
        return np.where(laplace, generator.laplace(size=white.shape), white) * self.scales


def laplace_rows(noise: Noise) -> FloatArray:
    """For each answer how many Laplace answers it counts as: see :class:`MixedNoise`."""
    if isinstance(noise, MixedNoise):
        return noise.laplace_answers
    return np.full(noise.outputs, float(isinstance(noise, LaplaceNoise)))
