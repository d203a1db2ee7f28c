r"""The noise on a transcript's answers, and what it does to geometry: it divides rows.

Every law here has a square root :math:`W` of its Fisher information about the exact answers, and the
whitened rows are :math:`W J` (``eq:whitened_J``). Nothing else of the noise reaches the geometry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, block_diag, cholesky, solve_triangular

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidNoise, require

Rows: TypeAlias = FloatArray | sparse.csr_array


class Noise(Protocol):
    """Additive noise on ``outputs`` answers."""

    @property
    def outputs(self) -> int: ...

    @property
    def covariance(self) -> FloatArray:
        """The covariance matrix of the noise."""

    def whiten(self, rows: Rows) -> Rows:
        """``W @ rows``, where ``W.T @ W`` is the information that the answers carry about their means."""

    @property
    def variances(self) -> FloatArray:
        """The variance of the noise on each answer."""

    @property
    def excess(self) -> float:
        """The noise's variance times its Fisher information: 1 for Gaussian noise, 2 for Laplace noise."""

    def take(self, answers: IndexArray) -> Noise:
        """The noise on some of the answers."""

    def scaled(self, factors: FloatArray | float) -> Noise:
        """The noise times a positive factor: one for all answers, or one for each."""

    def recipe(self, whitened: FloatArray) -> FloatArray:
        """Weights on the raw answers that amount to ``whitened`` weights on the whitened ones."""

    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        """``trials`` independent draws, one a row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianNoise:
    """Independent Gaussian noise with a standard deviation for each answer."""

    stddevs: FloatArray

    if TYPE_CHECKING:  # what goes in is wider than what is kept

        def __init__(self, *, stddevs: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "stddevs", _positive(self.stddevs, "noise stddevs"))

    @property
    def outputs(self) -> int:
        return self.stddevs.size

    @property
    def covariance(self) -> FloatArray:
        return np.diag(self.stddevs**2)

    @property
    def variances(self) -> FloatArray:
        return np.asarray(self.stddevs**2)

    @property
    def excess(self) -> float:
        return 1.0

    def take(self, answers: IndexArray) -> GaussianNoise:
        return GaussianNoise(stddevs=self.stddevs[answers])

    def scaled(self, factors: FloatArray | float) -> GaussianNoise:
        return GaussianNoise(stddevs=self.stddevs * factors)

    def whiten(self, rows: Rows) -> Rows:
        return _divide(rows, self.stddevs)

    def recipe(self, whitened: FloatArray) -> FloatArray:
        return whitened / self.stddevs

    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        return generator.standard_normal((trials, self.outputs)) * self.stddevs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaplaceNoise:
    r"""Independent Laplace noise with scale :math:`b_\ell`: information :math:`b_\ell^{-2}`.

    See ``app:laplace_noise``. The variance is :math:`2b_\ell^2`: a linear attack on Laplace answers is
    noisier than the bound by that factor, which only likelihood-based attacks recover.
    """

    scales: FloatArray

    if TYPE_CHECKING:  # what goes in is wider than what is kept

        def __init__(self, *, scales: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", _positive(self.scales, "Laplace scales"))

    @property
    def outputs(self) -> int:
        return self.scales.size

    @property
    def covariance(self) -> FloatArray:
        return np.diag(2 * self.scales**2)

    @property
    def variances(self) -> FloatArray:
        return np.asarray(2 * self.scales**2)

    @property
    def excess(self) -> float:
        return 2.0

    def take(self, answers: IndexArray) -> LaplaceNoise:
        return LaplaceNoise(scales=self.scales[answers])

    def scaled(self, factors: FloatArray | float) -> LaplaceNoise:
        return LaplaceNoise(scales=self.scales * factors)

    def whiten(self, rows: Rows) -> Rows:
        return _divide(rows, self.scales)

    def recipe(self, whitened: FloatArray) -> FloatArray:
        return whitened / self.scales

    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        return generator.laplace(size=(trials, self.outputs)) * self.scales


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CorrelatedNoise:
    """Gaussian noise with covariance blocks along the diagonal; one block is full correlation.

    Tree aggregation and matrix mechanisms are the practical cases.
    """

    blocks: tuple[FloatArray, ...]
    _factors: tuple[FloatArray, ...] = ()

    if TYPE_CHECKING:  # what goes in is wider than what is kept

        def __init__(self, *, blocks: Iterable[ArrayLike]) -> None: ...

    def __post_init__(self) -> None:
        given: Sequence[ArrayLike] = self.blocks
        require(len(given) > 0, "at least one covariance block", got=0, error=InvalidNoise)
        blocks = tuple(frozen_floats(block, name="covariance", ndim=2, error=InvalidNoise) for block in given)
        factors = tuple(_cholesky(block) for block in blocks)
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "_factors", factors)

    @property
    def outputs(self) -> int:
        return sum(len(block) for block in self.blocks)

    @property
    def covariance(self) -> FloatArray:
        return np.asarray(block_diag(*self.blocks), dtype=np.float64)

    @property
    def variances(self) -> FloatArray:
        return np.concatenate([np.diagonal(block) for block in self.blocks])

    @property
    def excess(self) -> float:
        return 1.0

    def take(self, answers: IndexArray) -> CorrelatedNoise:
        return CorrelatedNoise(blocks=(self.covariance[np.ix_(answers, answers)],))

    def scaled(self, factors: FloatArray | float) -> CorrelatedNoise:
        each = np.broadcast_to(np.asarray(factors, dtype=np.float64), (self.outputs,))
        parts = zip(self.blocks, self._split(each), strict=True)
        return CorrelatedNoise(blocks=tuple(block * np.outer(part, part) for block, part in parts))

    def whiten(self, rows: Rows) -> Rows:
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        parts = zip(self._factors, self._split(dense), strict=True)
        return np.concatenate([solve_triangular(C, part, lower=True) for C, part in parts])

    def recipe(self, whitened: FloatArray) -> FloatArray:
        parts = zip(self._factors, self._split(whitened.T), strict=True)
        return np.concatenate([solve_triangular(C, part, lower=True, trans="T") for C, part in parts]).T

    def sample(self, trials: int, *, generator: np.random.Generator) -> FloatArray:
        white = generator.standard_normal((trials, self.outputs))
        parts = zip(self._factors, self._split(white.T), strict=True)
        return np.concatenate([C @ part for C, part in parts]).T

    def _split(self, rows: FloatArray) -> list[FloatArray]:
        return np.split(rows, np.cumsum([len(block) for block in self.blocks])[:-1])


def as_noise(noise: Noise | ArrayLike) -> Noise:
    """Standard deviations (one dimension) or a covariance matrix (two) as a noise law; laws pass through."""
    if isinstance(noise, GaussianNoise | LaplaceNoise | CorrelatedNoise):
        return noise
    array = frozen_floats(noise, name="noise", error=InvalidNoise)  # type: ignore[arg-type]
    require(
        array.ndim in (1, 2),
        "noise as stddevs (one dimension) or a covariance matrix (two)",
        got=f"shape {array.shape}",
        error=InvalidNoise,
    )
    return GaussianNoise(stddevs=array) if array.ndim == 1 else CorrelatedNoise(blocks=(array,))


def _divide(rows: Rows, scales: FloatArray) -> Rows:
    if isinstance(rows, np.ndarray):
        # Column by column in memory, as factorisations want it.
        return np.divide(rows, scales[:, None], out=np.empty(rows.shape, order="F"))
    return sparse.csr_array(sparse.diags_array(1 / scales) @ rows)


def _positive(values: ArrayLike, name: str) -> FloatArray:
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


def _cholesky(block: FloatArray) -> FloatArray:
    require(
        block.shape[0] == block.shape[1] > 0,
        "a square covariance",
        got=f"shape {block.shape}",
        error=InvalidNoise,
    )
    skew = float(np.max(np.abs(block - block.T)))
    require(
        skew <= 1e-12 * float(np.max(np.abs(block))),
        "a symmetric covariance",
        got=f"asymmetry {skew:.3g}",
        error=InvalidNoise,
    )
    try:
        factor: FloatArray = cholesky(block, lower=True)
    except LinAlgError:
        raise InvalidNoise(
            "expected a positive definite covariance, got one that is not; "
            "remove answers that are exact combinations of others"
        ) from None
    return factor
