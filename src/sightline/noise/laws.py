r"""The noise on a transcript's answers: independent Gaussian, independent Laplace, correlated Gaussian.

Every law has a square root :math:`W` of its Fisher information about the exact answers, and the whitened
rows are :math:`W J` (``eq:whitened_J``). The geometry needs nothing else from the noise.

Correlated noise may have a singular covariance. Every consistent publication has one: a total together with
the cells that add up to it, or prefix sums together with their nodes. Then the noise on some answers is an
exact combination of the noise on others, :math:`w_D = T w_P`, and :math:`y_D - T y_P` has no noise. If that
difference does not depend on the records, the answers :math:`D` add nothing and :math:`W` is zero on them. If
it does, it is a noise-free answer: :func:`require_noise` refuses it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias, cast

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidNoise, require
from sightline.noise.covariance import Factor, factorise
from sightline.numerics.residuals import UNIT
from sightline.privacy.law import Law

Rows: TypeAlias = FloatArray | sparse.csr_array


class Noise(ABC):
    """Additive noise on answers: independent, and given by its ``scales``, unless a law says otherwise."""

    __slots__ = ()
    correlated: ClassVar[bool] = False  # whether the noise on one answer may depend on that on another
    excess: ClassVar[float]  # the noise's variance times its Fisher information: Gaussian 1, Laplace 2
    law: ClassVar[Law]  # the distribution: what an accountant prescribes

    if TYPE_CHECKING:  # a field or a property of the law

        @property
        def scales(self) -> FloatArray:
            """The scale of independent noise on each answer: a standard deviation, or a Laplace scale."""

        @property
        def laplace_answers(self) -> FloatArray:
            """For each answer how many Laplace answers it counts as: see :class:`MixedNoise`."""

    @property
    def outputs(self) -> int:
        """How many answers."""
        return self.scales.size

    @property
    def singular(self) -> bool:
        """Whether the noise on some answers is a combination of the noise on others."""
        return False

    @property
    def covariance(self) -> FloatArray:
        """The covariance matrix of the noise."""
        return np.diag(self.variances)

    @property
    def variances(self) -> FloatArray:
        """The variance of the noise on each answer."""
        return np.asarray(self.excess * self.scales**2)

    @property
    def gaussian(self) -> Noise:
        """Gaussian noise with the same covariance."""
        return GaussianNoise(stddevs=np.sqrt(self.excess) * self.scales)

    @property
    def whitener(self) -> FloatArray:
        """The matrix W, lower triangular; zero rows for answers whose noise others determine."""
        return np.diag(1 / self.scales)

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of the whitened rows from rounding."""
        return UNIT

    def whiten(self, rows: Rows) -> Rows:
        """``W @ rows``, where ``W.T @ W`` is the information that the answers carry about their means."""
        return _divide(rows, self.scales)

    def recipe(self, whitened: FloatArray) -> FloatArray:
        """Weights on the answers that are equivalent to ``whitened`` weights on the whitened answers."""
        return whitened / self.scales

    def noise_free(self, rows: Rows) -> FloatArray:
        """Lines of weights: combinations of the answers that have no noise but depend on the records."""
        return np.zeros((0, self.outputs))

    @abstractmethod
    def append(self, stddevs: FloatArray) -> Noise:
        """The noise extended by independent Gaussian noise on further answers."""

    def take(self, answers: IndexArray) -> Self:
        """The noise on some of the answers."""
        return self._with({one.name: getattr(self, one.name)[answers] for one in fields(self)})  # type: ignore[arg-type]

    def scaled(self, factors: FloatArray | float) -> Self:
        """The noise times a positive factor: one for all answers, or one for each."""
        sizes = {"scales", "stddevs"} & {one.name for one in fields(self)}  # type: ignore[arg-type]
        return self._with({name: getattr(self, name) * factors for name in sizes})

    def _with(self, values: dict[str, FloatArray]) -> Self:
        return replace(self, **values)  # type: ignore[type-var]

    @abstractmethod
    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        """``trials`` independent draws, one per row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianNoise(Noise):
    """Independent Gaussian noise with a standard deviation for each answer."""

    stddevs: FloatArray
    law: ClassVar[Law] = Law.GAUSSIAN
    excess: ClassVar[float] = 1.0

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, stddevs: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "stddevs", positive_scales(self.stddevs, "noise stddevs"))

    @property
    def scales(self) -> FloatArray:
        return self.stddevs

    @property
    def laplace_answers(self) -> FloatArray:
        return np.zeros(self.outputs)

    def append(self, stddevs: FloatArray) -> GaussianNoise:
        return GaussianNoise(stddevs=np.concatenate([self.stddevs, stddevs]))

    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        return generator.standard_normal((trials, self.outputs)) * self.stddevs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaplaceNoise(Noise):
    r"""Independent Laplace noise with scale :math:`b_\ell`: information :math:`b_\ell^{-2}`.

    See ``app:laplace_noise``. The variance is :math:`2b_\ell^2`: the variance of a linear attack is twice the
    bound. Only attacks that use the likelihood come closer.
    """

    scales: FloatArray
    law: ClassVar[Law] = Law.LAPLACE
    excess: ClassVar[float] = 2.0

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, scales: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", positive_scales(self.scales, "Laplace scales"))

    @property
    def laplace_answers(self) -> FloatArray:
        return np.ones(self.outputs)

    def append(self, stddevs: FloatArray) -> Noise:
        raise InvalidNoise("expected Gaussian noise to append Gaussian noise to, got Laplace noise")

    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        return generator.laplace(size=(trials, self.outputs)) * self.scales


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
        return cls(
            scales=np.concatenate([part.scales for part in parts]),
            stddevs=np.concatenate([np.sqrt(part.variances) for part in parts]),
            laplace_answers=np.concatenate([part.laplace_answers for part in parts]),
        )

    @property
    def law(self) -> Law:  # type: ignore[override]
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
        names = ("scales", "stddevs", "laplace_answers")
        both = {name: np.concatenate([getattr(self, name), getattr(extra, name)]) for name in names}
        return MixedNoise(**both)

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CorrelatedNoise(Noise):
    r"""Gaussian noise with covariance blocks along the diagonal; one block is full correlation.

    Tree aggregation and matrix mechanisms are the practical cases. A block may be singular: see the top of
    this file. Keep answers that depend on no record: they tell an attacker the noise on the others.

    >>> cells_and_total = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> noise = CorrelatedNoise(blocks=[cells_and_total @ cells_and_total.T])
    >>> noise.independent.tolist(), noise.noise_free(cells_and_total).tolist()
    ([0, 1], [])
    >>> noise.noise_free(np.array([[1.0], [1.0], [3.0]])).tolist()
    [[-1.0, -1.0, 1.0]]
    """

    blocks: tuple[FloatArray, ...]
    _factors: tuple[Factor, ...] = ()
    law: ClassVar[Law] = Law.GAUSSIAN
    excess: ClassVar[float] = 1.0
    correlated: ClassVar[bool] = True

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, blocks: Iterable[ArrayLike]) -> None: ...

    def __post_init__(self) -> None:
        given = tuple(self.blocks)
        require(len(given) > 0, "at least one covariance block", got=0, error=InvalidNoise)
        blocks = tuple(frozen_floats(block, name="covariance", ndim=2, error=InvalidNoise) for block in given)
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "_factors", tuple(factorise(block) for block in blocks))

    @property
    def outputs(self) -> int:
        return sum(len(block) for block in self.blocks)

    @property
    def covariance(self) -> FloatArray:
        return np.asarray(scipy.linalg.block_diag(*self.blocks), dtype=np.float64)

    @property
    def variances(self) -> FloatArray:
        return np.concatenate([np.diagonal(block) for block in self.blocks])

    @property
    def scales(self) -> FloatArray:
        raise InvalidNoise("expected independent noise, got correlated noise; account for it as one release")

    @property
    def whitener(self) -> FloatArray:
        return np.asarray(self.whiten(np.eye(self.outputs)))

    @property
    def relative_error(self) -> float:
        return max(factor.relative_error for factor in self._factors)

    @property
    def singular(self) -> bool:
        return self.independent.size < self.outputs

    @property
    def independent(self) -> IndexArray:
        """Answers with independent noise; the noise on all others is a combination of theirs."""
        starts = np.cumsum([0, *(len(block) for block in self.blocks)])
        return np.concatenate(
            [start + f.independent for start, f in zip(starts, self._factors, strict=False)]
        )

    def append(self, stddevs: FloatArray) -> CorrelatedNoise:
        return CorrelatedNoise(blocks=(*self.blocks, np.diag(positive_scales(stddevs, "noise stddevs") ** 2)))

    def noise_free(self, rows: Rows) -> FloatArray:
        parts = zip(self._factors, self._split(_dense(rows)), strict=True)
        return np.asarray(scipy.linalg.block_diag(*(factor.noise_free(part) for factor, part in parts)))

    @property
    def gaussian(self) -> CorrelatedNoise:
        return self

    def take(self, answers: IndexArray) -> CorrelatedNoise:
        return CorrelatedNoise(blocks=(self.covariance[np.ix_(answers, answers)],))

    def scaled(self, factors: FloatArray | float) -> CorrelatedNoise:
        each = np.broadcast_to(np.asarray(factors, dtype=np.float64), (self.outputs,))
        parts = zip(self.blocks, self._split(each), strict=True)
        return CorrelatedNoise(blocks=tuple(block * np.outer(part, part) for block, part in parts))

    def whiten(self, rows: Rows) -> Rows:
        parts = zip(self._factors, self._split(_dense(rows)), strict=True)
        return np.concatenate([factor.whiten(part) for factor, part in parts])

    def recipe(self, whitened: FloatArray) -> FloatArray:
        parts = zip(self._factors, self._split(whitened.T), strict=True)
        return np.concatenate([factor.recipe(part) for factor, part in parts]).T

    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        white = generator.standard_normal((trials, self.outputs))
        parts = zip(self._factors, self._split(white.T), strict=True)
        return np.concatenate([factor.color(part) for factor, part in parts]).T

    def _split(self, rows: FloatArray) -> list[FloatArray]:
        return np.split(rows, np.cumsum([len(block) for block in self.blocks])[:-1])


# The laws for which both ends of remaining uncertainty are proved (bounds/unit_brackets.py).
BOUNDED_LAWS = (GaussianNoise, LaplaceNoise, MixedNoise, CorrelatedNoise)


def as_noise(noise: Noise | ArrayLike) -> Noise:
    """Standard deviations (one dimension) or a covariance matrix (two) as a noise law; laws pass through."""
    if not isinstance(noise, np.ndarray) and hasattr(noise, "whiten"):
        return cast(Noise, noise)
    array = frozen_floats(cast(ArrayLike, noise), name="noise", error=InvalidNoise)
    require(
        array.ndim in (1, 2),
        "noise as stddevs (one dimension) or a covariance matrix (two)",
        got=f"shape {array.shape}",
        error=InvalidNoise,
    )
    return GaussianNoise(stddevs=array) if array.ndim == 1 else CorrelatedNoise(blocks=(array,))


def require_noise(noise: Noise, rows: Rows) -> None:
    """Refuse answers with a combination that has no noise and depends on the records."""
    for weights in noise.noise_free(rows)[:1]:
        shown = " ".join(f"{weights[i]:+.4g}·answer {i}" for i in np.flatnonzero(weights)[:6])
        raise InvalidNoise(
            "expected noise on all that depends on the records, got a noise-free answer: noise cancels in "
            f"{shown}; such a combination is published exactly and is not differentially private"
        )


def _divide(rows: Rows, scales: FloatArray) -> Rows:
    if isinstance(rows, np.ndarray):
        # In column order, which factorisations read fastest.
        return np.divide(rows, scales[:, None], out=np.empty(rows.shape, order="F"))
    return sparse.csr_array(sparse.diags_array(1 / scales) @ rows)


def positive_scales(values: ArrayLike, name: str) -> FloatArray:
    """Scales of noise, all above zero."""
    array = frozen_floats(values, name=name, ndim=1, error=InvalidNoise)
    bad: NDArray[np.intp] = np.flatnonzero(array <= 0)
    require(
        array.size > 0 and bad.size == 0,
        f"{name} > 0, one for each answer",
        got=f"{bad.size} of {array.size} not positive",
        fix="an answer without noise is not a differentially private release",
        error=InvalidNoise,
    )
    return array


def _dense(rows: Rows) -> FloatArray:
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())
