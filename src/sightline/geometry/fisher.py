"""The geometry of a transcript at an operating point: whitened rows, and what one can ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray, frozen_floats, frozen_index
from sightline.errors import require
from sightline.geometry.exposure import Direction, Exposure
from sightline.geometry.frame import Frame, dense, kinds, whole_numbers
from sightline.geometry.placement import place, place_integers
from sightline.geometry.profile import Question, profile
from sightline.noise.laws import Noise, Rows
from sightline.numerics import integers as exact
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.rank import balance, numerical_rank
from sightline.releases.query import Query


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry:
    r"""Rows of derivatives, one per published number, and the noise that divides them.

    ``jacobian`` is :math:`J` with a column per coordinate of a record (``eq:J_def``), dense or sparse;
    ``integer_rows`` are whole numbers proportional to it row by row, where there are any: they make every
    yes or no exact. Build it with :meth:`Transcript.geometry`, or directly from rows:

    >>> from sightline.noise.laws import GaussianNoise
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

    jacobian: Rows
    noise: Noise
    dimension: int = 1
    integer_rows: NDArray[np.int64] | sparse.csr_array | None = None
    labels: tuple[str, ...] | None = None
    at: FloatArray | None = None  # the operating point: record values, owner-only
    first_outputs: int = 1  # how many of the rows belong to the first release

    def __post_init__(self) -> None:
        if isinstance(self.jacobian, np.ndarray | list | tuple):
            object.__setattr__(self, "jacobian", frozen_floats(self.jacobian, name="jacobian", ndim=2))
        else:
            object.__setattr__(self, "jacobian", sparse.csr_array(self.jacobian, dtype=np.float64))
            require(
                bool(np.all(np.isfinite(self.jacobian.data))),
                "finite jacobian",
                got="NaN or infinite entries",
            )
        lines, columns = self.jacobian.shape
        require(lines > 0, "at least one row", got=lines, fix="give at least one release")
        require(
            self.noise.outputs == lines,
            f"noise for {lines} answers",
            got=f"noise for {self.noise.outputs}",
            fix="give one noise level for each published number",
        )
        require(
            self.dimension >= 1 and columns % self.dimension == 0,
            f"columns in records of {self.dimension} coordinates",
            got=f"{columns} columns",
        )
        if self.integer_rows is None and isinstance(self.jacobian, np.ndarray):
            object.__setattr__(self, "integer_rows", whole_numbers(self.jacobian))
        if self.integer_rows is not None:
            shape = self.integer_rows.shape
            require(
                shape == (lines, columns), f"integer rows of shape {(lines, columns)}", got=f"shape {shape}"
            )
        if self.labels is not None:
            require(len(self.labels) == columns, f"{columns} labels", got=len(self.labels))

    @property
    def records(self) -> int:
        """How many records the rows speak of."""
        return int(self.jacobian.shape[1]) // self.dimension

    @cached_property
    def whitened(self) -> Rows:
        r"""The whitened Jacobian :math:`\Sigma^{-1/2} J` (``eq:whitened_J``)."""
        return self.noise.whiten(self.jacobian)

    @property
    def information(self) -> FloatArray:
        r"""The Fisher information of all records, :math:`J^\top \Sigma^{-1} J` (``eq:FIM``)."""
        W = self.whitened
        gram = W.T @ W
        return np.asarray(dense(gram))

    @cached_property
    def rank(self) -> Rank:
        """How many directions of the records the transcript reveals at all."""
        return self._rank_of(slice(None))

    @property
    def static(self) -> bool:
        """Whether later releases only repeat the first (``eq:J_column_static``).

        Then they sharpen the directions that the first release reveals, and reveal no other.
        """
        if self.first_outputs == self.jacobian.shape[0] or not self.rank.decided:
            return False
        return self._rank_of(slice(0, self.first_outputs)).rank == self.rank.rank

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Everything the transcript reveals: independent combinations of the records that span it all."""
        return self.profile(target=range(self.records)).directions

    def profile(
        self,
        target: int | Sequence[int] | None = None,
        *,
        functional: ArrayLike | None = None,
        known: Sequence[int] = (),
    ) -> Exposure:
        """The exposure of some records, or of linear functionals of them, with all else as nuisance.

        ``target`` names records by position; ``functional`` gives rows of coefficients over all coordinates.
        ``known`` records are given to the attacker: they are no nuisance.
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
            labels = tuple(self._label(column) for column in support)
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
        question = Question(
            frame=frame, jacobian=self.jacobian, whitened=self.whitened, integer_rows=self.integer_rows
        )
        return Exposure(geometry=self, frame=frame, labels=labels, profile=profile(question))

    def rows_of(self, query: Query) -> tuple[FloatArray, NDArray[np.int64] | None]:
        """The rows that one more release would add here, and the same as whole numbers where it has them."""
        require(
            query.linear or self.at is not None,
            "a linear release, or a geometry with an operating point",
            got="neither",
            fix="build the geometry with at=records",
        )
        reach = int(query.members[-1]) + 1
        require(
            reach <= self.records and query.dimension == self.dimension,
            f"a release over these {self.records} records of dimension {self.dimension}",
            got=f"members up to {reach - 1} and dimension {query.dimension}",
        )
        rows = place(query, records=self.records, at=self.at)
        integers = place_integers(query, records=self.records)
        return dense(rows), None if integers is None else dense(integers)

    def _rank_of(self, lines: slice) -> Rank:
        kept, _ = kinds(self._pattern, np.arange(self.jacobian.shape[1], dtype=np.intp))
        if self.integer_rows is not None:
            return Rank(rank=exact.rank(dense(self.integer_rows[lines][:, kept])), evidence=Evidence.MODULAR)
        decision, _ = numerical_rank(balance(dense(self.jacobian[lines][:, kept]))[0])
        return decision

    @property
    def _pattern(self) -> Any:
        return self.jacobian if self.integer_rows is None else self.integer_rows

    def _frame(self, support: IndexArray, coefficients: FloatArray | None, known: IndexArray) -> Frame:
        aside = np.zeros(self.jacobian.shape[1], dtype=bool)
        aside[support] = True
        aside[known] = True
        others = np.flatnonzero(~aside)
        kept, place = kinds(self._pattern, others)
        return Frame(support=support, others=others, kept=kept, place=place, coefficients=coefficients)

    def _columns_of(self, records: Sequence[int], *, name: str) -> IndexArray:
        chosen = frozen_index(records, name=name)
        require(
            int(chosen[-1]) < self.records,
            f"{name} among records 0 to {self.records - 1}",
            got=int(chosen[-1]),
        )
        return (chosen[:, None] * self.dimension + np.arange(self.dimension)).ravel()

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

    def _label(self, column: int) -> str:
        if self.labels is not None:
            return self.labels[column]
        record, coordinate = divmod(int(column), self.dimension)
        return f"x{record}" if self.dimension == 1 else f"x{record}[{coordinate}]"
