"""The geometry of a transcript at an operating point: ranks, directions and the exposure of a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, coordinates, frozen_floats, frozen_index
from sightline.errors import require
from sightline.geometry.exposure import Direction, Exposure
from sightline.geometry.frame import Frame, WhitenedRows, dense, kinds
from sightline.geometry.profile import Question, profile
from sightline.numerics import integers as exact
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.rank import balance, numerical_rank


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry(WhitenedRows):
    """What the rows of a transcript reveal (``subsec:fim_crb``).

    Build it with :meth:`Transcript.geometry`, or directly from rows:

    >>> from sightline import GaussianNoise
    >>> rows = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    >>> geometry = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[3.0, 4.0]))
    >>> exposure = geometry.profile(target=0)
    >>> bool(exposure.identifiable), round(exposure.rmse, 12)
    (True, 5.0)
    >>> exposure.recipe.round(12).tolist()
    [[1.0, -1.0]]
    >>> geometry.profile(target=1).crb
    inf
    """

    @cached_property
    def rank(self) -> Rank:
        """How many directions of the records the transcript reveals at all."""
        return self._rank_of(slice(None))

    @property
    def static(self) -> bool:
        """Whether later releases only repeat the first (``eq:J_column_static``).

        Then they reveal the same directions more precisely, and no other.
        """
        if self.first_outputs == self.jacobian.shape[0] or not self.rank.decided:
            return False
        return self._rank_of(slice(0, self.first_outputs)).rank == self.rank.rank

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Independent combinations of the records that span everything the transcript reveals."""
        return self.profile(target=range(self.records)).directions

    def profile(
        self,
        target: int | Sequence[int] | None = None,
        *,
        functional: ArrayLike | None = None,
        known: Sequence[int] = (),
    ) -> Exposure:
        """The exposure of some records, or of linear functionals of them, with all other records as nuisance.

        ``target`` names records by position; ``functional`` gives rows of coefficients over all coordinates.
        The attacker knows the ``known`` records, so they are not nuisance.
        """
        require(
            (target is None) != (functional is None),
            "either a target or a functional",
            got="both" if target is not None else "neither",
        )
        known_columns = self._columns_of(known, name="known") if len(known) else np.zeros(0, dtype=np.intp)
        if functional is None:
            chosen = [target] if isinstance(target, int | np.integer) else list(target or ())
            support = self._columns_of(chosen, name="target")
            coefficients: FloatArray | None = None
            labels = tuple(self.label(column) for column in support)
        else:
            support, coefficients = self._functional(functional)
            labels = tuple(f"f{row}" for row in range(len(coefficients))) if len(coefficients) > 1 else ("f",)
        overlap = np.intersect1d(support, known_columns)
        require(
            overlap.size == 0,
            "a target that the attacker does not know already",
            got=f"known record {int(overlap[0]) // self.dimension if overlap.size else None} in the target",
            fix="take it out of the known records",
        )
        frame = self._frame(support, coefficients, known_columns)
        profiled = profile(Question(frame=frame, rows=self))
        return Exposure(geometry=self, frame=frame, labels=labels, profile=profiled)

    def _rank_of(self, lines: slice) -> Rank:
        distinct, _ = kinds(self.pattern, np.arange(self.jacobian.shape[1], dtype=np.intp))
        if self.integer_rows is not None:
            return Rank(
                rank=exact.rank(dense(self.integer_rows[lines][:, distinct])), evidence=Evidence.MODULAR
            )
        decision, _ = numerical_rank(balance(dense(self.jacobian[lines][:, distinct]))[0])
        return decision

    def _frame(self, support: IndexArray, coefficients: FloatArray | None, known: IndexArray) -> Frame:
        excluded = np.zeros(self.jacobian.shape[1], dtype=bool)
        excluded[support] = True
        excluded[known] = True
        others = np.flatnonzero(~excluded)
        representatives, place = kinds(self.pattern, others)
        return Frame(
            support=support,
            others=others,
            representatives=representatives,
            place=place,
            coefficients=coefficients,
        )

    def _columns_of(self, records: Sequence[int], *, name: str) -> IndexArray:
        chosen = frozen_index(records, name=name)
        require(
            int(chosen[-1]) < self.records,
            f"{name} among records 0 to {self.records - 1}",
            got=int(chosen[-1]),
        )
        return coordinates(chosen, self.dimension)

    def _functional(self, functional: ArrayLike) -> tuple[IndexArray, FloatArray]:
        rows = np.atleast_2d(frozen_floats(functional, name="functional"))
        columns = self.jacobian.shape[1]
        require(
            rows.shape[1] == columns, f"a functional of {columns} coefficients", got=f"shape {rows.shape}"
        )
        support = np.flatnonzero(np.any(rows != 0, axis=0))
        independent = support.size and numerical_rank(balance(rows[:, support].T)[0])[0].rank == len(rows)
        require(bool(independent), "independent, non-zero functionals", got="dependent ones")
        return support, rows[:, support]
