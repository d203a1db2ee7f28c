r"""A release whose neighbours differ in one record that is there or not, in place of one value.

The caption of ``tab:adjacency`` compares the two: a mean has the same sensitivity, and a sum another by a
factor that depends on where its values lie (:mod:`sightline.privacy.adjacency`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidRelease, require
from sightline.privacy.adjacency import Adjacency, sum_sensitivity
from sightline.theory.releases.features import FeatureMean
from sightline.theory.releases.linear import LinearQuery, SubsetMean
from sightline.theory.releases.query import OneCell


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AddRemove(OneCell):
    """A mean, a moment, a threshold or a sum, priced for a record that comes or goes.

    A sum needs the ``domain`` of its values: how far they lie from zero is what one record adds.

    >>> from sightline.theory.releases.linear import SubsetSum
    >>> total = SubsetSum(members=range(4), radius=2.0)
    >>> AddRemove(query=total, domain=(-1.0, 1.0)).sensitivity.tolist(), total.sensitivity.tolist()
    ([1.0], [2.0])
    """

    query: LinearQuery | FeatureMean
    domain: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        query = self.query
        require(
            isinstance(query, LinearQuery | FeatureMean),
            "a mean, a moment, a threshold or a sum",
            got=type(query).__name__,
            fix="give each cell its own; a stated sensitivity is for the neighbours that it was stated for",
            error=InvalidRelease,
        )
        if self._mean:
            require(len(query.members) >= 2, "a mean of two records or more", got=1, error=InvalidRelease)
            return
        assert isinstance(query, LinearQuery)
        require(
            self.domain is not None and query.dimension == 1,
            "the domain of the values of a sum, which are numbers",
            got="none" if self.domain is None else f"records of dimension {query.dimension}",
            error=InvalidRelease,
        )
        assert self.domain is not None
        low, high = self.domain
        require(
            low < high <= low + query.radius * (1 + 1e-12),
            "a domain no wider than the radius",
            got=f"{self.domain} and {query.radius:g}",
            error=InvalidRelease,
        )

    @property
    def _mean(self) -> bool:
        return isinstance(self.query, FeatureMean | SubsetMean)

    @property
    def members(self) -> IndexArray:
        """Those of the query."""
        return self.query.members

    @property
    def dimension(self) -> int:
        """That of the query's records."""
        return self.query.dimension

    @property
    def outputs(self) -> int:
        """As many as the query has."""
        return self.query.outputs

    @property
    def linear(self) -> bool:
        """Whether the query is."""
        return self.query.linear

    @property
    def sensitivity(self) -> FloatArray:
        """Of a mean that of a value that changes; of a sum the largest that one record adds."""
        if self._mean:
            return self.query.sensitivity
        assert isinstance(self.query, LinearQuery)
        assert self.domain is not None
        largest = float(np.abs(self.query.coefficients()).max())
        return frozen_floats(
            [largest * sum_sensitivity(*self.domain, Adjacency.ADD_REMOVE)], name="sensitivity"
        )

    @property
    def sensitivity_l1(self) -> FloatArray:
        """The same for sums, which have one output; of a mean that of the query."""
        return self.query.sensitivity_l1 if self._mean else self.sensitivity

    def value(self, records: FloatArray) -> FloatArray:
        """The query's answer."""
        return self.query.value(records)

    def jacobian(self, records: FloatArray | None = None) -> FloatArray:
        """The query's Jacobian: what is published is the same."""
        return self.query.jacobian(records)

    def integer_rows(self) -> NDArray[np.int64] | None:
        """Those of the query."""
        return self.query.integer_rows()
