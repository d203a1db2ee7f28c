r"""The model that a batched attack fits: answers are weighted sums of curves of the records' values.

.. math:: y_\ell = \sum_k a_{\ell k}\,\phi_\ell(u_k) + w_\ell, \qquad
          f(u) = (y - p(u))^\top \Sigma^{-1} (y - p(u))

Subset means and sums, weighted sums, moments and smooth thresholds are all of this form, over the same or
over different members. Every summand depends on one record, so the second derivatives of :math:`p_\ell` are
diagonal, and Newton's method costs little more than Gauss–Newton.

The model of a transcript that an attack fits: its releases as weighted sums of curves, and its noise.

JAX differentiates the releases that a user wrote: gradient and Hessian of :math:`\rho(\sum_k \phi(u_k))`.
Batches are padded to a power of two, so that the search compiles a few programs, not one for each number of
trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import add
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from sightline.arrays import FloatArray, IndexArray, coordinates, namespace
from sightline.errors import InvalidInput, InvalidNoise, require
from sightline.geometry.transcript import Transcript
from sightline.noise.laws import GaussianNoise, Noise
from sightline.privacy.accountant import NoiseLaw
from sightline.releases.deepset import DeepSet, load_jax
from sightline.releases.feature_mean import Moment, SmoothThreshold
from sightline.releases.features import Kernel, Powers, smooth_step_derivatives
from sightline.releases.query import Query


class Local(NamedTuple):
    """The objective at a point, with its gradient and Hessian (lower triangle), all as columns."""

    objective: Column
    gradient: tuple[Column, ...]
    hessian: tuple[tuple[Column, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published number: a curve, and its weight for every unknown (0 for a record outside)."""

    curve: Curve
    weights: tuple[float, ...]

    def answer(self, u: Sequence[Column]) -> Column:
        """The exact answer at the unknowns."""
        terms = [a * self.curve.derivatives(u[k], Powers(u[k]))[0] for k, a in enumerate(self.weights) if a]
        return total(terms)


class Objective(Protocol):
    """A least-squares objective on columns of unknowns, with its derivatives."""

    @property
    def records(self) -> tuple[int, ...]:
        """The coordinate (record · dimension + place in it) of every unknown."""

    @property
    def unknowns(self) -> int: ...

    @property
    def exchangeable(self) -> bool:
        """Whether no answer depends on the order of the unknowns: only their multiset is identifiable."""

    @property
    def linear(self) -> bool: ...

    def __hash__(self) -> int: ...

    def whiten(self, columns: Sequence[Column]) -> list[Column]:
        """Answers divided by their noise."""

    def expected(self, u: Sequence[Column]) -> list[Column]:
        """The exact answers."""

    def local(self, u: Sequence[Column], whitened: Sequence[Column]) -> Local:
        """The objective, its gradient and its Hessian."""

    def information(self, u: Sequence[Column]) -> tuple[tuple[Column, ...], ...]:
        """The Fisher information, lower triangle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Rows over ``unknowns`` coordinates, whitened. ``whitening`` is lower triangular, or a diagonal."""

    rows: tuple[Row, ...]
    records: tuple[int, ...]  # the coordinate (record · dimension + place in it) of every unknown
    whitening: tuple[tuple[float, ...], ...] | tuple[float, ...]

    @property
    def unknowns(self) -> int:
        return len(self.records)

    @property
    def outputs(self) -> int:
        return len(self.rows)

    @property
    def exchangeable(self) -> bool:
        """Whether no answer depends on the order of the unknowns: only their multiset is identifiable."""
        return self.unknowns > 1 and all(len(set(row.weights)) == 1 for row in self.rows)

    @property
    def linear(self) -> bool:
        return all(isinstance(row.curve, Power) and row.curve.order == 1 for row in self.rows)

    def whiten(self, columns: Sequence[Column]) -> list[Column]:
        """Columns, one for each answer, divided by the noise."""
        if not isinstance(self.whitening[0], tuple):
            return [c * s for c, s in zip(columns, self.whitening, strict=True)]
        return [_combine(columns, line) for line in self.whitening]

    def _whiten_transposed(self, columns: Sequence[Column]) -> list[Column]:
        """The transpose of ``whiten``: Wᵀ times the columns."""
        if not isinstance(self.whitening[0], tuple):
            return [c * s for c, s in zip(columns, self.whitening, strict=True)]
        size = len(self.whitening)
        lines = [[self.whitening[i][k] if k <= i else 0.0 for i in range(size)] for k in range(size)]
        return [_combine(columns, line) for line in lines]

    def expected(self, u: Sequence[Column]) -> list[Column]:
        """The exact answers at the unknowns."""
        powers = [Powers(column) for column in u]
        answers = []
        for row in self.rows:
            terms = [row.curve.derivatives(u[k], powers[k])[0] for k in range(len(u)) if row.weights[k]]
            answers.append(_combine(terms, [a for a in row.weights if a]))
        return answers

    def local(self, u: Sequence[Column], whitened: Sequence[Column]) -> Local:
        r"""f, :math:`\nabla f` and :math:`\nabla^2 f` at columns of unknowns, for whitened answers."""
        m, zero = len(u), 0.0 * u[0]
        powers = [Powers(column) for column in u]
        answers: list[Column] = []
        slopes: list[list[Column]] = []
        curvatures: list[list[Column | None]] = []
        for row in self.rows:
            answer, slope, curvature = zero, [zero] * m, [None] * m
            for k, a in enumerate(row.weights):
                if a:
                    value, first, second = row.curve.derivatives(u[k], powers[k])
                    answer = answer + a * value
                    slope[k] = zero + a if first is None else a * first
                    curvature[k] = None if second is None else a * second
            answers.append(answer)
            slopes.append(slope)
            curvatures.append(curvature)
        residuals = [z - p for z, p in zip(whitened, self.whiten(answers), strict=True)]
        J = [self.whiten([slope[k] for slope in slopes]) for k in range(m)]
        weighted = self._whiten_transposed(residuals)
        gradient = tuple(-2.0 * _dot(residuals, J[k]) for k in range(m))
        hessian = []
        for k in range(m):
            line = [2.0 * _dot(J[k], J[j]) for j in range(k)]
            own = _dot(J[k], J[k])
            for v, curvature in zip(weighted, curvatures, strict=True):
                if curvature[k] is not None:
                    own = own - v * curvature[k]
            hessian.append((*line, 2.0 * own))
        return Local(_dot(residuals, residuals), gradient, tuple(hessian))

    def information(self, u: Sequence[Column]) -> tuple[tuple[Column, ...], ...]:
        r"""The Fisher information :math:`J^\top\Sigma^{-1}J` at columns of unknowns, lower triangle."""
        zero = 0.0 * u[0]
        powers = [Powers(column) for column in u]
        J = []
        for k, column in enumerate(u):
            slopes = []
            for row in self.rows:
                first = row.curve.derivatives(column, powers[k])[1]
                slopes.append(row.weights[k] * (1.0 if first is None else first) + zero)
            J.append(self.whiten(slopes))
        return tuple(tuple(_dot(J[k], J[j]) for j in range(k + 1)) for k in range(len(u)))


def columns_of(array: Any) -> list[Column]:
    """The columns of a (trials × numbers) array."""
    return [array[:, i] for i in range(array.shape[1])]


def stacked(columns: Sequence[Column]) -> Any:
    """Columns as one (trials × numbers) array."""
    return np.stack(columns, axis=1)


def _combine(columns: Sequence[Column], weights: Sequence[float]) -> Column:
    return total([c * a for c, a in zip(columns, weights, strict=False)])


def _dot(a: Sequence[Column], b: Sequence[Column]) -> Column:
    return total([x * y for x, y in zip(a, b, strict=True)])


def total(columns: Sequence[Column]) -> Column:
    """The sum of one or more columns."""
    return reduce(add, columns)


Column: TypeAlias = Any  # an array of trials; of JAX inside a program that JAX compiles
Box: TypeAlias = tuple[float, float]  # the smallest and the largest value that a record can have


Derivatives = tuple[Column, Column | None, Column | None]
"""Value, first and second derivative; ``None`` stands for a derivative that is 1 or 0 everywhere."""


class Curve(Protocol):
    """A function of one record's value."""

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        """The curve and its first two derivatives at a column of values; ``powers`` are its powers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    r"""The feature :math:`\phi(u) = u^\ell` (``eq:poly_query_new``)."""

    order: int

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        return powers.derivatives(self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothStep:
    r"""The smooth step :math:`h_\tau(u - t)` (``eq:threshold_query``)."""

    at: float
    bandwidth: float
    kernel: Kernel

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        return smooth_step_derivatives(
            u - self.at, bandwidth=self.bandwidth, kernel=self.kernel, xp=namespace(u)
        )


def model_of(queries: Sequence[Query], noise: Noise) -> Objective:
    """The model of releases with Gaussian noise, over every coordinate that some release depends on."""
    cells = tuple(cell for query in queries for cell in query.cells)
    if any(isinstance(cell, DeepSet) for cell in cells):
        return _autodiff(cells, noise)  # type: ignore[arg-type]  # laws are hashed by identity
    unknowns = _all_coordinates(cells)
    rows = [row for cell in cells for row in _rows_of(cell, unknowns)]
    return Model(rows=tuple(rows), records=tuple(unknowns.tolist()), whitening=_whitening(noise))


def _all_coordinates(cells: Sequence[Query]) -> IndexArray:
    return np.unique(np.concatenate([coordinates(cell.members, cell.dimension) for cell in cells]))


@lru_cache(maxsize=8)  # a model holds compiled programs; releases and noise are immutable
def _autodiff(cells: tuple[Query, ...], noise: Noise) -> Objective:
    unknowns = _all_coordinates(cells)
    require(
        cells[0].dimension == 1, "scalar records for a search in a box", got=f"dimension {cells[0].dimension}"
    )
    parts: list[Row | Block] = []
    for cell in cells:
        if isinstance(cell, DeepSet):
            parts.append(Block(query=cell, places=np.searchsorted(unknowns, cell.members)))
        else:
            parts += _rows_of(cell, unknowns)
    _whitening(noise)  # refuses noise for which least squares is not the likelihood
    return AutodiffModel(parts=tuple(parts), records=tuple(unknowns.tolist()), whitening=noise.whitener)


def _rows_of(query: Query, unknowns: IndexArray) -> list[Row]:
    places = np.searchsorted(unknowns, coordinates(query.members, query.dimension))
    if query.linear:
        jacobian = query.jacobian(None).reshape(query.outputs, -1)
        return [Row(curve=Power(order=1), weights=_spread(line, places, unknowns.size)) for line in jacobian]
    match query:
        case Moment():
            curve: Curve = Power(order=query.order)
        case SmoothThreshold():
            curve = SmoothStep(at=query.at, bandwidth=query.bandwidth, kernel=query.kernel)
        case _:
            raise InvalidInput(
                "expected linear releases, moments, smooth thresholds and DeepSets, got "
                f"{type(query).__name__}; write it as a DeepSet"
            )
    share = np.full(len(places), 1.0 / len(query.members))
    return [Row(curve=curve, weights=_spread(share, places, unknowns.size))]


def _spread(line: FloatArray, places: IndexArray, size: int) -> tuple[float, ...]:
    weights = np.zeros(size)
    weights[places] = line
    return tuple(weights.tolist())


def _whitening(noise: Noise) -> tuple[Any, ...]:
    if noise.law is not NoiseLaw.GAUSSIAN:
        raise InvalidNoise(
            "expected Gaussian noise, for which least squares is maximum likelihood, got "
            f"{noise.law.value.title()} noise; use PosteriorMean, whose likelihood is the noise's own"
        )
    if not noise.correlated:
        return tuple((1.0 / noise.scales).tolist())
    return tuple(tuple(row[: i + 1].tolist()) for i, row in enumerate(noise.whitener))


def touched(transcript: Transcript) -> tuple[int, ...]:
    """Positions (record · dimension + place in it) of all coordinates that some release depends on."""
    members = np.unique(np.concatenate([query.members for query in transcript.queries]))
    return tuple(coordinates(members, transcript.dimension).tolist())


def separable(transcript: Transcript) -> Objective | None:
    """The transcript's answers as sums of curves, without noise; ``None`` for queries of another form."""
    try:
        return model_of(transcript.queries, GaussianNoise(stddevs=np.ones(transcript.outputs)))
    except InvalidInput:
        return None


def one_group(transcript: Transcript) -> bool:
    """Whether no answer depends on the order of the values, so that only their multiset is identifiable."""
    model = separable(transcript)
    return model is not None and model.exchangeable and not model.linear


def exact_answers(transcript: Transcript, records: FloatArray) -> FloatArray:
    """The exact answers (draws × outputs) at many sets of records (draws × records · dimension)."""
    model = separable(transcript)
    if model is None:
        p = transcript.dimension
        return np.stack([transcript.answers(draw.reshape(-1, p)) for draw in records])
    columns = model.expected(columns_of(records[:, list(model.records)]))
    return np.stack(columns, axis=1)


_SMALLEST_BATCH = 1024  # compiling for a smaller batch takes longer than running this one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """A user's release, and the places of its members among the unknowns."""

    query: DeepSet
    places: IndexArray


@dataclass(frozen=True, kw_only=True, eq=False)
class AutodiffModel:
    """Rows and users' releases over scalar unknowns, whitened by a matrix."""

    parts: tuple[Row | Block, ...]
    records: tuple[int, ...]
    whitening: FloatArray

    @property
    def unknowns(self) -> int:
        return len(self.records)

    @property
    def exchangeable(self) -> bool:
        """Whether all parts have the same members: no such release depends on their order."""
        symmetric = [
            len(part.places) == self.unknowns if isinstance(part, Block) else len(set(part.weights)) == 1
            for part in self.parts
        ]
        return self.unknowns > 1 and all(symmetric)

    @property
    def linear(self) -> bool:
        """False: a program cannot tell whether a function is linear."""
        return False

    def whiten(self, columns: Sequence[Column]) -> list[Column]:
        """Answers divided by their noise."""
        return list(self.whitening @ np.stack(columns))

    def expected(self, u: Sequence[Column]) -> list[Column]:
        """The exact answers at the unknowns."""
        return list(self._batched(self._programs["answers"], u)[0].T)

    def local(self, u: Sequence[Column], whitened: Sequence[Column]) -> Local:
        """The objective with its gradient and Hessian."""
        f, g, H = self._batched(self._programs["local"], u, whitened)
        m = self.unknowns
        return Local(f, tuple(g.T), tuple(tuple(H[:, k, j] for j in range(k + 1)) for k in range(m)))

    def information(self, u: Sequence[Column]) -> tuple[tuple[Column, ...], ...]:
        """The Fisher information, lower triangle."""
        (J,) = self._batched(self._programs["slopes"], u)
        W = np.einsum("il,blk->bik", self.whitening, J)
        G = np.einsum("bik,bij->bkj", W, W)
        return tuple(tuple(G[:, k, j] for j in range(k + 1)) for k in range(self.unknowns))

    def _answers(self, jax: Any, u: Any) -> Any:
        answers = []
        columns = [u[k] for k in range(self.unknowns)]
        for part in self.parts:
            if isinstance(part, Block):
                features = jax.vmap(part.query.feature)(u[part.places])
                answers.append(part.query.readout(features.sum(axis=0)).reshape(part.query.outputs))
            else:
                answers.append(part.answer(columns).reshape(1))
        return jax.numpy.concatenate(answers)

    @cached_property
    def _programs(self) -> dict[str, Any]:
        jax = load_jax()

        def answers(u: Any) -> Any:
            return self._answers(jax, u)

        def objective(u: Any, z: Any) -> Any:
            residual = z - self.whitening @ answers(u)
            return residual @ residual

        def local(u: Any, z: Any) -> Any:
            return objective(u, z), jax.grad(objective)(u, z), jax.hessian(objective)(u, z)

        return {
            "answers": jax.jit(jax.vmap(lambda u: (answers(u),))),
            "local": jax.jit(jax.vmap(local)),
            "slopes": jax.jit(jax.vmap(lambda u: (jax.jacfwd(answers)(u),))),
        }

    def _batched(self, program: Any, *columns: Sequence[Column]) -> list[FloatArray]:
        tables = [np.stack(part, axis=1) for part in columns]
        count = len(tables[0])
        size = max(_SMALLEST_BATCH, 1 << (count - 1).bit_length())
        padded = [np.concatenate([t, np.repeat(t[:1], size - count, axis=0)]) for t in tables]
        with load_jax().enable_x64(True):
            return [np.asarray(result)[:count] for result in program(*padded)]
