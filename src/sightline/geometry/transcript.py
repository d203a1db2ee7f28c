"""A transcript: what was released, and the noise on it. Here geometry and accountant meet, and only here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, frozen_floats
from sightline.errors import InvalidNoise, InvalidRelease, require
from sightline.geometry.fisher import Geometry
from sightline.geometry.placement import place, place_integers, stack
from sightline.noise.laws import GaussianNoise, LaplaceNoise, Noise, as_noise
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.releases.query import Query


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    r"""Releases in the order of their publication, with the noise on their answers.

    ``noise`` is an accountant, which pays for all releases together and gives every answer the variance
    :math:`\kappa_L \Delta_\ell^2` (``eq:Sigma_explicit``); or the noise that somebody else chose: standard
    deviations (one for each published number), a covariance matrix, or a noise law.

    >>> from sightline.releases.subset_mean import SubsetMean
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

    if TYPE_CHECKING:  # what goes in is wider than what is kept

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
        """L: what an accountant counts. A release with many cells counts once."""
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
        """The published numbers at these records: exact without a seed, noise drawn from it otherwise."""
        values = frozen_floats(records, name="records")
        exact = np.concatenate([query.value(values) for query in self.queries])
        if seed is None:
            return exact
        noisy: FloatArray = exact + self.law.sample(1, generator=np.random.default_rng(seed))[0]
        return noisy

    def geometry(self, at: ArrayLike | None = None, *, records: int | None = None) -> Geometry:
        """The whitened rows at an operating point.

        Linear releases need none: give the number of ``records``, or let it end with the last member.
        """
        operating = None if at is None else frozen_floats(at, name="records")
        if operating is None:
            curved = [name for name, query in zip(self.names, self.queries, strict=True) if not query.linear]
            require(
                not curved,
                "an operating point (at=...) for releases that are not linear",
                got=f"none for {curved[0] if curved else ''!r}",
                fix="pass the records, or values that stand in for them",
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
        """The transcript with one more release, the noise on the others as it is."""
        require(
            isinstance(self.law, GaussianNoise),
            "independent Gaussian noise to append to",
            got=type(self.law).__name__,
            error=InvalidNoise,
        )
        levels = np.broadcast_to(np.asarray(noise_stddev, dtype=np.float64), (query.outputs,))
        stddevs = np.concatenate([self.law.stddevs, levels])  # type: ignore[attr-defined]
        names = (*self.names, name or f"release {self.releases + 1}")
        return Transcript((*self.queries, query), noise=GaussianNoise(stddevs=stddevs), names=names)

    def _resolve(self, noise: Accountant | Noise | ArrayLike) -> Noise:
        if not isinstance(noise, Accountant):
            return as_noise(noise)
        scale = np.sqrt(noise.kappa(self.releases))
        match noise.law:
            case NoiseLaw.GAUSSIAN:
                sensitivities = np.concatenate([query.sensitivity for query in self.queries])
                return GaussianNoise(stddevs=scale * sensitivities)
            case NoiseLaw.LAPLACE:
                sensitivities = np.concatenate([query.sensitivity_l1 for query in self.queries])
                return LaplaceNoise(scales=scale * sensitivities)


def noise_multipliers(transcript: Transcript) -> FloatArray:
    """Noise over sensitivity of each release, at its least noisy output: what an accountant reads."""
    law = transcript.law
    match law:
        case GaussianNoise():
            levels, sensitivities = law.stddevs, [query.sensitivity for query in transcript.queries]
        case LaplaceNoise():
            levels, sensitivities = law.scales, [query.sensitivity_l1 for query in transcript.queries]
        case _:
            raise InvalidNoise(
                "expected independent noise, got correlated noise; account for the mechanism as one release"
            )
    ends = np.cumsum([query.outputs for query in transcript.queries])[:-1]
    ratios = np.split(levels / np.concatenate(sensitivities), ends)
    return np.array([part.min() for part in ratios])
