r"""A batched attack on releases that a user wrote: JAX differentiates them.

The same objective as for moments and thresholds, with gradient and Hessian by automatic differentiation
through :math:`\rho(\sum_k \phi(u_k))`. Answers are NumPy arrays. Batches are padded to a power of two, so
that the search compiles a few programs, not one for each number of trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.attacks.model import Local, Row
from sightline.attacks.namespace import Column
from sightline.releases.deepset import DeepSet, load_jax

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
