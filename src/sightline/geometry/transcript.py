"""A transcript: releases, and the noise on their answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sightline.arrays import FloatArray, frozen_floats
from sightline.errors import InvalidNoise, InvalidRelease, require
from sightline.geometry.fisher import Geometry
from sightline.geometry.frame import place, place_integers, stack
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.description import Known, Readout
from sightline.labeled.design import Exposures, MembershipDesign
from sightline.noise.laws import Noise, as_noise
from sightline.noise.pricing import price
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.releases.query import Query


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    r"""Releases in the order of their publication, with the noise on their answers.

    ``noise`` is an accountant, which gives every answer the variance :math:`\kappa_L \Delta_\ell^2`
    (``eq:Sigma_explicit``); or it is the noise itself: standard deviations (one for each published number), a
    covariance matrix, or a noise law.

    >>> from sightline import SubsetMean
    >>> whole = SubsetMean(members=range(4), radius=1.0)
    >>> without = SubsetMean(members=range(1, 4), radius=1.0)
    >>> transcript = Transcript([whole, without], noise=[0.3, 0.4])
    >>> exposure = transcript.geometry().profile(target=0)
    >>> exposure.recipe.round(9).tolist(), round(exposure.crb, 9)
    ([[4.0, -3.0]], 2.88)
    """

    queries: tuple[Query, ...]
    noise: Accountant | Noise | ArrayLike
    names: tuple[str, ...] = ()

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(
            self, queries: Iterable[Query], noise: Accountant | Noise | ArrayLike, names: Sequence[str] = ()
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        require(len(self.queries) > 0, "at least one release", got=0, error=InvalidRelease)
        dimensions = sorted({query.dimension for query in self.queries})
        require(
            len(dimensions) == 1,
            "records of one dimension in every release",
            got=f"dimensions {dimensions}",
            error=InvalidRelease,
        )
        names = tuple(self.names) or tuple(f"release {i + 1}" for i in range(len(self.queries)))
        require(
            len(names) == len(self.queries),
            f"{len(self.queries)} names",
            got=len(names),
            error=InvalidRelease,
        )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "noise", self._resolve(self.noise))
        require(
            self.law.outputs == self.outputs,
            f"noise for {self.outputs} published numbers",
            got=f"noise for {self.law.outputs}",
            error=InvalidNoise,
        )

    @property
    def releases(self) -> int:
        """L, the number of releases for an accountant. A release with many cells counts once."""
        return len(self.queries)

    @property
    def outputs(self) -> int:
        """How many numbers are published in all."""
        return sum(query.outputs for query in self.queries)

    @property
    def dimension(self) -> int:
        """The length p of one record's value."""
        return self.queries[0].dimension

    @property
    def law(self) -> Noise:
        """The noise on the answers."""
        return self.noise  # type: ignore[return-value]  # resolved in __post_init__

    def answers(self, records: ArrayLike, *, seed: int | np.random.Generator | None = None) -> FloatArray:
        """The published numbers at these records: exact without a seed, else with noise drawn from it."""
        values = frozen_floats(records, name="records")
        exact = np.concatenate([query.value(values) for query in self.queries])
        if seed is None:
            return exact
        noisy: FloatArray = exact + self.law.sample(1, generator=np.random.default_rng(seed))[0]
        return noisy

    def geometry(self, at: ArrayLike | None = None, *, records: int | None = None) -> Geometry:
        """The whitened rows at an operating point.

        Linear releases need no point. Give the number of ``records``, or the last member is the last record.
        """
        operating = None if at is None else frozen_floats(at, name="records")
        if operating is None:
            curved = [name for name, query in zip(self.names, self.queries, strict=True) if not query.linear]
            require(
                not curved,
                "an operating point (at=...) for releases that are not linear",
                got=f"none for {curved[0] if curved else ''!r}",
                fix="pass the records, or made-up values in their place",
            )
        reach = 1 + max(int(query.members[-1]) for query in self.queries)
        count = records if records is not None else (reach if operating is None else len(operating))
        require(
            count >= reach,
            f"at least {reach} records",
            got=count,
            fix="a release has members beyond the records",
        )
        rows = [place(query, records=count, at=operating) for query in self.queries]
        integers = [place_integers(query, records=count) for query in self.queries]
        whole = [block for block in integers if block is not None]
        return Geometry(
            jacobian=stack(rows),
            noise=self.law,
            dimension=self.dimension,
            integer_rows=stack(whole) if len(whole) == len(rows) else None,
            at=operating,
            first_outputs=self.queries[0].outputs,
        )

    def append(self, query: Query, *, noise_stddev: ArrayLike, name: str = "") -> Transcript:
        """The transcript with one more release; the noise on the others stays the same.

        The new noise is Gaussian and independent of the noise on the others, which must be Gaussian too.
        """
        levels = np.broadcast_to(np.asarray(noise_stddev, dtype=np.float64), (query.outputs,))
        names = (*self.names, name or f"release {self.releases + 1}")
        return Transcript((*self.queries, query), noise=self.law.append(levels), names=names)

    def membership_design(self, *, records: int | None = None) -> MembershipDesign:
        """The membership design of linear releases over scalar records, with the same noise.

        >>> from sightline import SubsetMean, SubsetSum
        >>> releases = [SubsetMean(members=range(4), radius=1.0), SubsetSum(members=[1, 2, 3], radius=1.0)]
        >>> design = Transcript(releases, noise=[0.1, 0.3]).membership_design()
        >>> design.exposures(domain=(0, 1)).recipe(0).round(6).tolist()
        [4.0, -1.0]
        """
        linear = all(query.linear for query in self.queries)
        require(
            linear and self.dimension == 1,
            "linear releases over scalar records",
            got="nonlinear releases" if not linear else f"records of dimension {self.dimension}",
            fix="use transcript.geometry(...)",
            error=InvalidRelease,
        )
        geometry = self.geometry(records=records)
        jacobian = sparse.csr_array(geometry.jacobian)
        rows = jacobian if geometry.integer_rows is None else sparse.csr_array(geometry.integer_rows)
        peaks = abs(rows).max(axis=1).toarray().ravel()
        factors = abs(jacobian).max(axis=1).toarray().ravel() / peaks
        outputs = [query.outputs for query in self.queries]
        names = [
            name if count == 1 else f"{name}, cell {cell + 1}"
            for name, count in zip(self.names, outputs, strict=True)
            for cell in range(count)
        ]
        return MembershipDesign(
            rows,
            noise=self.law,
            readout=Readout.SUM,
            releases=np.repeat(np.arange(len(outputs)), outputs),
            names=tuple(names),
            factors=factors,
        )

    def exposures(
        self,
        *,
        domain: tuple[float, float] | None = None,
        prior: str | TargetPrior = "uniform",
        known: Iterable[int] | Known = (),
    ) -> Exposures:
        """What the releases expose of every record, for linear releases over scalar records.

        ``domain`` is the smallest and the largest value of a record, and ``prior`` the distribution of the
        values over it; ``known`` are records whose values the attacker knows. See
        :meth:`MembershipDesign.exposures`.

        >>> from sightline import SubsetMean
        >>> means = [SubsetMean(members=range(4), radius=1.0), SubsetMean(members=[1, 2, 3], radius=1.0)]
        >>> Transcript(means, noise=[0.3, 0.4]).exposures(domain=(0, 10)).identifiable.tolist()
        [True, False, False, False]
        """
        return self.membership_design().exposures(domain=domain, prior=prior, known=known)

    def sensitivities(self, law: NoiseLaw) -> FloatArray:
        """The sensitivities of all published numbers, in the norm that noise of this law needs."""
        match law:
            case NoiseLaw.GAUSSIAN:
                return np.concatenate([query.sensitivity for query in self.queries])
            case NoiseLaw.LAPLACE:
                return np.concatenate([query.sensitivity_l1 for query in self.queries])

    def _resolve(self, noise: Accountant | Noise | ArrayLike) -> Noise:
        if isinstance(noise, Accountant):
            return price(noise, self.sensitivities(noise.law), releases=self.releases)
        return as_noise(noise)


def noise_multipliers(transcript: Transcript) -> FloatArray:
    """Noise over sensitivity of each release, at its least noisy output: the input of ``account``."""
    noise = transcript.law
    ends = np.cumsum([query.outputs for query in transcript.queries])[:-1]
    ratios = np.split(noise.scales / transcript.sensitivities(noise.law), ends)
    return np.array([part.min() for part in ratios])
