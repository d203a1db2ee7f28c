"""The interface of every release: its answer, its Jacobian and its sensitivity.

A query describes what is published and contains no algorithm; geometry, bounds and attacks read it.

Checks of the stated domain of one record's value, and of the records, name a record by its position, never
by its value.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput, InvalidRelease, require

# How a family with a bounded domain states its sensitivity. ``tight``: the largest change over all
# neighbours, which some attain. ``uniform``: the paper's table, one formula for the whole family, never
# smaller. Both are safe; tight gives the same guarantee with less noise.
Convention = Literal["tight", "uniform"]


class Query(Protocol):
    r"""One release :math:`q(x) = \rho\bigl(\sum_{k \in C} \phi(x_k)\bigr)`, eq. ``deepsets_general``.

    Neighbours, which sensitivities are taken over: one record's value changes anywhere in its domain, and
    memberships are fixed. That is the paper's record-level radius, and its swap at fixed cardinality
    (``tab:adjacency``).

    The attributes and the zero pattern of the Jacobian are public: they depend on the query only. The
    results of :meth:`value` and, unless the query is linear, of :meth:`jacobian` depend on the records.
    """

    @property
    def members(self) -> IndexArray:
        """Sorted distinct positions of the records that the answer depends on."""

    @property
    def dimension(self) -> int:
        """Length p of one record's value; 1 is a scalar record."""

    @property
    def outputs(self) -> int:
        """How many numbers the release publishes."""

    @property
    def sensitivity(self) -> FloatArray:
        r"""Per output :math:`\Delta_i` with :math:`\sum_i (q_i(x) - q_i(x'))^2 / \Delta_i^2 \le 1` for all
        neighbours: Gaussian noise of stddev :math:`\sqrt{\kappa}\,\Delta_i` costs one release in all."""

    @property
    def sensitivity_l1(self) -> FloatArray:
        r"""Per output :math:`\Delta_i` with :math:`\sum_i |q_i(x) - q_i(x')| / \Delta_i \le 1` for all
        neighbours: the scale that Laplace noise needs."""

    @property
    def cells(self) -> tuple[Query, ...]:
        """The parts with disjoint members: the query alone, except for a many-cell release."""

    @property
    def linear(self) -> bool:
        """Whether the Jacobian is the same at all records."""

    def value(self, records: FloatArray) -> FloatArray:
        """The exact answer, shape ``(outputs,)``, at records of shape ``(N,)`` or ``(N, dimension)``."""

    def jacobian(self, records: FloatArray | None) -> FloatArray:
        """Derivatives by the members' values, shape ``(outputs, len(members), dimension)``.

        A linear query accepts ``None``.
        """

    def integer_rows(self) -> NDArray[np.int64] | None:
        """Integers proportional, row by row, to the Jacobian of a linear query, or ``None``.

        Same shape as the Jacobian. Rank decisions over these rows are exact.
        """


class OneCell:
    """What releases that are not divided into cells have in common. By default they are not linear."""

    __slots__ = ()

    @property
    def cells(self) -> tuple[Self]:
        """Itself."""
        return (self,)

    @property
    def linear(self) -> bool:
        """False, unless a subclass says otherwise."""
        return False

    def integer_rows(self) -> NDArray[np.int64] | None:
        """``None``: the rows depend on the records."""
        return None


def one_of(value: object, choices: tuple[str, ...], *, name: str) -> None:
    """Raise :class:`InvalidRelease` unless ``value`` is one of ``choices``."""
    require(value in choices, f"{name} to be one of {', '.join(choices)}", got=value, error=InvalidRelease)


def record_array(records: ArrayLike | None, *, dimension: int) -> FloatArray:
    """``records`` as a float array of shape ``(N, dimension)``, without a copy if possible."""
    if records is None:
        raise InvalidInput(
            "expected records, got None; the Jacobian of a nonlinear query depends on the records"
        )
    try:
        raw = np.asarray(records)
    except ValueError:
        raise InvalidInput("expected records of one length each, got rows of different lengths") from None
    require(raw.dtype.kind in "iuf", "records as an array of numbers", got=f"dtype {raw.dtype}")
    shape = f"(N, {dimension})" if dimension > 1 else "(N,) or (N, 1)"
    flat = raw.ndim == 1 and dimension == 1
    require(
        flat or (raw.ndim == 2 and raw.shape[1] == dimension),
        f"records of shape {shape}",
        got=f"shape {raw.shape}",
        fix="the query's dimension is the length of one record's value",
    )
    return raw.reshape(-1, dimension).astype(np.float64, copy=False)


def member_values(
    records: ArrayLike | None, *, members: IndexArray, dimension: int, bound: float = math.inf
) -> FloatArray:
    """The members' values, shape ``(len(members), dimension)``, each finite and within ``±bound``.

    Only members are checked: the answer depends on no other record.

    >>> member_values([0.5, 3.0, -0.5], members=np.array([0, 2]), dimension=1, bound=1.0).tolist()
    [[0.5], [-0.5]]
    >>> member_values([0.5, 3.0, -0.5], members=np.array([0, 1]), dimension=1, bound=1.0)
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidInput: expected records within ±1.0, got record [1] outside; clip to the bound
    """
    array = record_array(records, dimension=dimension)
    last = int(members[-1])
    require(
        last < len(array),
        f"at least {last + 1} records (the largest member is {last})",
        got=f"{len(array)} records",
    )
    values = array[members]
    bad = members[~np.isfinite(values).all(axis=1)]
    require(
        bad.size == 0,
        "finite records",
        got=f"NaN or infinity in record {bad[:1].tolist()}",
        fix="drop or impute it first",
    )
    far = members[(np.abs(values) > bound).any(axis=1)]
    require(
        far.size == 0,
        f"records within ±{bound}",
        got=f"record {far[:1].tolist()} outside",
        fix="clip to the bound",
    )
    return values
