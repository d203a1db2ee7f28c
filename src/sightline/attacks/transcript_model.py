r"""The model of a transcript that an attack fits: its releases as weighted sums of curves, and its noise.

JAX differentiates the releases that a user wrote: gradient and Hessian of :math:`\rho(\sum_k \phi(u_k))`.
Batches are padded to a power of two, so that the search compiles a few programs, not one for each number of
trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, IndexArray, coordinates
from sightline.attacks.model import Column, Curve, Local, Model, Objective, Power, Row, SmoothStep, columns_of
from sightline.errors import InvalidInput, InvalidNoise, require
from sightline.geometry.transcript import Transcript
from sightline.noise.laws import GaussianNoise, Noise
from sightline.privacy.accountant import NoiseLaw
from sightline.releases.deepset import DeepSet, load_jax
from sightline.releases.feature_mean import Moment, SmoothThreshold
from sightline.releases.query import Query


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
