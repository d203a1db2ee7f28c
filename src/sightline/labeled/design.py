"""A membership design: subset means or sums over named records, and the noise on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidNoise, InvalidRelease, require
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.bounds.cosine import CosineSquaredPrior, RecordPrior
from sightline.labeled.incidence.protocol import Pattern, RowsLike, as_pattern
from sightline.noise.laws import (
    CorrelatedNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    as_noise,
    require_noise,
)
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.progress import Progress, silent
from sightline.releases.domain import positive_number

if TYPE_CHECKING:
    from sightline.labeled.combination import Combination
    from sightline.labeled.contributions import Contributions
    from sightline.labeled.exposures import Exposures


# Columns that are checked at a time for combinations of the answers without noise.
_CHUNK = 4096


class Readout(Enum):
    """What a row publishes of its members."""

    MEAN = "mean"
    SUM = "sum"


class Known(Enum):
    """Rungs of attacker knowledge that name no records."""

    ALL_OTHERS = "all others"
    """For every record: all the other records. The adversary of differential privacy."""


@dataclass(frozen=True, slots=True, eq=False)
class MembershipDesign:
    r"""Releases :math:`y = A x + w` over N named records (``eq:lever1_linear_model``).

    ``rows`` is a table of 0s and 1s or of weights (releases × records), a scipy sparse array, or, with
    ``records=N``, lists of members. ``readout`` is "mean" or "sum"; weights are published as sums.
    ``noise`` is an accountant, which also needs ``radius``, the largest change of one record's value; or
    standard deviations, one for each row; or a covariance matrix; or a noise law. ``releases`` gives for
    each row the release that it is part of, for releases with many cells: their members must be disjoint,
    and the accountant counts them once. ``factors`` multiplies each published row, where the factor is
    neither that of a mean nor that of a sum.

    >>> design = MembershipDesign([[0, 1, 2, 3], [1, 2, 3]], records=5, noise=[0.3, 0.4])
    >>> exposures = design.exposures(domain=(0, 10))
    >>> exposures.identifiable.tolist()
    [True, False, False, False, False]
    >>> round(float(exposures.rmse[0]), 6)
    1.697056
    >>> exposures.recipe(0).round(6).tolist()
    [4.0, -3.0]
    """

    rows: InitVar[RowsLike | Pattern]
    noise: InitVar[Accountant | Noise | ArrayLike] = field(kw_only=True)
    readout: Readout = field(default=Readout.MEAN, kw_only=True)
    radius: float | None = field(default=None, kw_only=True)
    records: InitVar[int | None] = field(default=None, kw_only=True)
    releases: IndexArray | None = field(default=None, kw_only=True)
    names: tuple[str, ...] = field(default=(), kw_only=True)
    factors: InitVar[ArrayLike | None] = field(default=None, kw_only=True)
    pattern: Pattern = field(init=False)
    law: Noise = field(init=False)
    scale: FloatArray = field(init=False)

    def __post_init__(
        self,
        rows: RowsLike | Pattern,
        noise: Accountant | Noise | ArrayLike,
        records: int | None,
        factors: ArrayLike | None,
    ) -> None:
        pattern = as_pattern(rows, records=records)
        object.__setattr__(self, "readout", _readout_named(self.readout))
        require(
            self.readout is Readout.SUM or pattern.binary,
            "rows of 0s and 1s for means",
            got="other weights",
            fix='pass readout="sum": weights are published as they are',
            error=InvalidRelease,
        )
        if factors is None and not pattern.whole and (split := pattern.integers()):
            pattern, factors = split  # rows of means, say: integers again, which are decided exactly
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "scale", self._scaled(factors))
        object.__setattr__(self, "releases", _checked_releases(self.releases, pattern.lines))
        names = tuple(self.names) or tuple(f"row {i}" for i in range(pattern.lines))
        require(len(names) == pattern.lines, f"{pattern.lines} names", got=len(names), error=InvalidRelease)
        object.__setattr__(self, "names", names)
        law = self._price(noise) if isinstance(noise, Accountant) else as_noise(noise)
        require(
            law.outputs == pattern.lines,
            f"noise for {pattern.lines} rows",
            got=f"noise for {law.outputs}",
            error=InvalidNoise,
        )
        object.__setattr__(self, "law", law)
        if law.singular:
            for start in range(0, pattern.records, _CHUNK):
                positions = np.arange(start, min(start + _CHUNK, pattern.records))
                require_noise(law, self.scale[:, None] * pattern.columns(positions))

    @property
    def lines(self) -> int:
        """How many numbers are published."""
        return self.pattern.lines

    @property
    def size(self) -> int:
        """N: how many records there are."""
        return self.pattern.records

    @property
    def release_of(self) -> IndexArray:
        """For every row, the release that it is part of: 0, 1, … in order of publication."""
        assert self.releases is not None
        return self.releases

    @property
    def release_count(self) -> int:
        """L: what an accountant counts."""
        return int(self.release_of[-1]) + 1

    def whiten(self, columns: FloatArray) -> FloatArray:
        r""":math:`\Sigma^{-1/2}` times the row scales times columns of the pattern's size."""
        return np.asarray(self.law.whiten(self.scale[:, None] * columns))

    def exposures(
        self,
        *,
        domain: tuple[float, float] | CoinPrior,
        known: Iterable[int] | Known = (),
        progress: Progress | None = None,
    ) -> Exposures:
        """What the releases expose of every record that the attacker does not know.

        ``domain`` is the smallest and the largest value that a record can have; or a coin, for values that
        are yes or no. ``known`` are records whose values the attacker has; ``Known.ALL_OTHERS`` gives for
        each record all the others. ``progress`` is called with a stage and the share of it that is done.
        """
        from sightline.labeled.assess import assess

        if isinstance(domain, CoinPrior):
            prior: RecordPrior = domain
        else:
            prior = CosineSquaredPrior(width=float(domain[1]) - float(domain[0]))
        return assess(self, prior=prior, known=known, progress=progress or silent)

    def combination(self, record: int, *, known: Iterable[int] = ()) -> Combination:
        """A smallest identifiable combination of records that a record is part of: whom it hides among.

        >>> design = MembershipDesign([[0, 1], [1, 2], [3]], records=4, noise=[1.0] * 3, readout="sum")
        >>> combination = design.combination(0)
        >>> combination.records.tolist(), [int(value) for value in combination.coefficients]
        ([0, 2], [1, -1])
        """
        from sightline.labeled.combination import combination_around

        return combination_around(self, record, known=known)

    def contributions(
        self,
        *,
        known: Iterable[int] = (),
        exposures: Exposures | None = None,
        progress: Progress | None = None,
    ) -> Contributions:
        """What each release adds to the exposure of the identifiable records.

        ``exposures`` are this design's for the same ``known``, if they are at hand: who is identifiable is
        then not decided again.
        """
        from sightline.labeled.contributions import contribute

        return contribute(self, known=known, exposures=exposures, progress=progress or silent)

    def take(self, rows: Iterable[int]) -> MembershipDesign:
        """The design with some of its rows only, the noise on them as it is."""
        lines = np.sort(np.asarray(list(rows), dtype=np.intp))
        _, releases = np.unique(self.release_of[lines], return_inverse=True)
        return MembershipDesign(
            self.pattern.take(lines),
            noise=self.noise_on(lines),
            readout=self.readout,
            radius=self.radius,
            releases=releases,
            names=tuple(self.names[i] for i in lines),
            factors=self.scale[lines],
        )

    def noise_on(self, lines: IndexArray) -> Noise:
        """The noise on some of the rows."""
        match self.law:
            case GaussianNoise():
                return GaussianNoise(stddevs=self.law.stddevs[lines])
            case LaplaceNoise():
                return LaplaceNoise(scales=self.law.scales[lines])
            case _:
                return CorrelatedNoise(blocks=(self.law.covariance[np.ix_(lines, lines)],))

    def _scaled(self, factors: ArrayLike | None) -> FloatArray:
        if factors is not None:
            scale = frozen_floats(factors, name="factors", ndim=1, error=InvalidRelease)
            require(
                scale.shape == (self.lines,) and bool(np.all(scale != 0)),
                f"{self.lines} factors, none of them zero",
                got=f"shape {scale.shape}, {np.count_nonzero(scale == 0)} zero",
                error=InvalidRelease,
            )
            return scale
        match self.readout:
            case Readout.MEAN:
                return frozen_floats(1.0 / self.pattern.sizes, name="factors")
            case Readout.SUM:
                return frozen_floats(np.ones(self.lines), name="factors")

    def _price(self, accountant: Accountant) -> Noise:
        require(
            self.radius is not None,
            "radius with an accountant",
            got="none",
            fix="give the largest change of one record's value",
            error=InvalidNoise,
        )
        radius = positive_number(self.radius, name="radius")
        self._require_disjoint_cells()
        scales = (
            np.sqrt(accountant.kappa(self.release_count)) * radius * self.pattern.peaks * np.abs(self.scale)
        )
        match accountant.law:
            case NoiseLaw.GAUSSIAN:
                return GaussianNoise(stddevs=scales)
            case NoiseLaw.LAPLACE:
                return LaplaceNoise(scales=scales)

    def _require_disjoint_cells(self) -> None:
        starts = np.flatnonzero(np.diff(self.release_of, prepend=-1))
        for release, rows in enumerate(np.split(np.arange(self.lines), starts[1:])):
            if rows.size == 1:
                continue
            seen = np.concatenate([self.pattern.members(int(row)) for row in rows])
            twice = np.flatnonzero(np.bincount(seen, minlength=self.size) > 1)
            require(
                twice.size == 0,
                "every record in at most one cell of a release",
                got=f"record {twice[:1].tolist()} in several cells of release {release}",
                fix="publish overlapping rows as releases of their own",
                error=InvalidRelease,
            )


def _readout_named(name: Readout | str) -> Readout:
    try:
        return Readout(name)
    except ValueError:
        raise InvalidRelease(f"expected readout 'mean' or 'sum', got {name!r}") from None


def _checked_releases(releases: Sequence[int] | IndexArray | None, lines: int) -> IndexArray:
    if releases is None:
        index = np.arange(lines, dtype=np.intp)
    else:
        given = np.array(releases)
        whole = given.shape == (lines,) and given.dtype.kind in "iu"
        require(
            whole,
            f"one release number for each of {lines} rows",
            got=f"shape {given.shape}",
            error=InvalidRelease,
        )
        steps = np.diff(given, prepend=-1)
        ordered = given[0] == 0 and bool(np.all((steps[1:] == 0) | (steps[1:] == 1)))
        require(
            ordered,
            "releases numbered 0, 1, … in order of publication, rows of one release together",
            got=f"numbers that start {given[:6].tolist()}",
            error=InvalidRelease,
        )
        index = given.astype(np.intp)
    index.setflags(write=False)
    return index
