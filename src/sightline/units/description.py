"""The description of linear releases over named records: who enters which number, its scale, its noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, frozen_floats, parts
from sightline.checked_numbers import positive_number
from sightline.errors import InvalidNoise, InvalidRelease, require
from sightline.noise.laws import BOUNDED_LAWS, Noise, as_noise, require_noise
from sightline.noise.pricing import price
from sightline.numerics.device import Device
from sightline.privacy.accountant import Accountant
from sightline.units.member_rows import MemberRows, RowsLike
from sightline.units.unit_block import BoolArray


class Known(Enum):
    """Attacker knowledge that is not a list of records."""

    ALL_OTHERS = "all others"
    """For every record: all the other records. The adversary of differential privacy."""


def unknown_records(size: int, known: Iterable[int] | Known) -> BoolArray:
    """Which of ``size`` records the attacker does not know. With ``ALL_OTHERS`` each record is a target."""
    unknown = np.ones(size, dtype=np.bool_)
    if isinstance(known, Known):
        return unknown
    index = np.asarray(list(known))
    if index.size:
        whole = index.dtype.kind in "iu"
        require(
            whole and index.min() >= 0 and index.max() < size,
            f"known records from 0 to {size - 1}",
            got=f"{index.min()} to {index.max()}" if whole else f"dtype {index.dtype}",
        )
        unknown[index] = False
    require(
        bool(unknown.any()),
        "at least one record that the attacker does not know",
        got=f"all {size} known",
        fix="leave the target out of known=",
    )
    return unknown


class Readout(Enum):
    """What a row publishes of its members."""

    MEAN = "mean"
    SUM = "sum"


@dataclass(frozen=True, slots=True, eq=False)
class LinearReleases:
    r"""Releases :math:`y = A x + w` over N named records (``eq:lever1_linear_model``): what is published.

    It holds no algorithm. :class:`~sightline.bounds.membership_design.MembershipDesign` explains its
    arguments.
    """

    rows: InitVar[RowsLike | MemberRows]
    noise: InitVar[Accountant | Noise | ArrayLike] = field(kw_only=True)
    readout: Readout = field(default=Readout.MEAN, kw_only=True)
    radius: float | None = field(default=None, kw_only=True)
    records: InitVar[int | None] = field(default=None, kw_only=True)
    releases: Sequence[int] | IndexArray = field(default=(), kw_only=True)
    names: tuple[str, ...] = field(default=(), kw_only=True)
    factors: InitVar[ArrayLike | None] = field(default=None, kw_only=True)
    incidence: MemberRows = field(init=False)
    law: Noise = field(init=False)
    scale: FloatArray = field(init=False)
    whitening: FloatArray = field(init=False)
    r""":math:`\Sigma^{-1/2}` times the rows' scales: a vector, or a matrix if the noise is correlated."""

    def __post_init__(
        self,
        rows: RowsLike | MemberRows,
        noise: Accountant | Noise | ArrayLike,
        records: int | None,
        factors: ArrayLike | None,
    ) -> None:
        incidence = rows if isinstance(rows, MemberRows) else MemberRows.of(rows, records=records)
        object.__setattr__(self, "readout", _readout_named(self.readout))
        require(
            self.readout is Readout.SUM or incidence.binary,
            "rows of 0s and 1s for means",
            got="other weights",
            fix='pass readout="sum": weights are published as they are',
            error=InvalidRelease,
        )
        if factors is None and not incidence.whole and (split := incidence.integers()):
            incidence, factors = split  # rows of means, say: integers are decided exactly
        object.__setattr__(self, "incidence", incidence)
        object.__setattr__(self, "scale", self._scaled(factors))
        object.__setattr__(self, "releases", _checked_releases(self.releases, incidence.row_count))
        names = tuple(self.names) or tuple(f"row {i}" for i in range(incidence.row_count))
        require(
            len(names) == incidence.row_count,
            f"{incidence.row_count} names",
            got=len(names),
            error=InvalidRelease,
        )
        object.__setattr__(self, "names", names)
        law = self._price(noise) if isinstance(noise, Accountant) else as_noise(noise)
        require(
            law.outputs == incidence.row_count,
            f"noise for {incidence.row_count} rows",
            got=f"noise for {law.outputs}",
            error=InvalidNoise,
        )
        require(
            isinstance(law, BOUNDED_LAWS),
            "Gaussian, correlated Gaussian or Laplace noise",
            got=type(law).__name__,
            fix="no lower end is proved for other laws; use transcript.geometry(...)",
            error=InvalidNoise,
        )
        object.__setattr__(self, "law", law)
        if law.singular:
            for own in parts(incidence.records, each=incidence.row_count):
                require_noise(law, self.scale[:, None] * incidence.columns(np.arange(own.start, own.stop)))
        whitening = np.asarray(
            law.whiten(np.diag(self.scale)) if law.correlated else 1 / law.scales * self.scale
        )
        object.__setattr__(self, "whitening", whitening)
        self._require_members(correlated=whitening.ndim == 2)

    @property
    def row_count(self) -> int:
        """How many numbers are published."""
        return self.incidence.row_count

    @property
    def size(self) -> int:
        """N: how many records there are."""
        return self.incidence.records

    @property
    def release_of(self) -> IndexArray:
        """For every row, the release that it is part of: 0, 1, … in order of publication."""
        return np.asarray(self.releases)

    @property
    def release_count(self) -> int:
        """L: what an accountant counts."""
        return int(self.release_of[-1]) + 1

    def whiten(self, columns: FloatArray) -> FloatArray:
        r""":math:`\Sigma^{-1/2}` times the rows' scales times some columns of the incidence."""
        return np.asarray(self.law.whiten(self.scale[:, None] * columns))

    def take(self, rows: Iterable[int]) -> Self:
        """The description with some of its rows only. The noise on them stays as it is."""
        kept = np.sort(np.asarray(list(rows), dtype=np.intp))
        _, releases = np.unique(self.release_of[kept], return_inverse=True)
        return self._with(
            rows=self.incidence.take(kept),
            noise=self.law.take(kept),
            releases=releases,
            names=tuple(self.names[i] for i in kept),
            factors=self.scale[kept],
        )

    def on(self, device: str | Device) -> Self:
        """The description whose rows lie on a device: what is computed from it is computed there.

        A device is named ``"cuda"``, say, or ``"cupy:cuda"`` for one of several installed libraries.
        """
        place = Device.named(device) if isinstance(device, str) else device
        with place.memory_refused():
            return self._with(rows=self.incidence.on(place))

    def _with(self, **changed: Any) -> Self:
        fields: dict[str, Any] = {"rows": self.incidence, "noise": self.law, "factors": self.scale}
        fields |= {name: getattr(self, name) for name in ("readout", "radius", "releases", "names")}
        return type(self)(**(fields | changed))

    def _require_members(self, *, correlated: bool) -> None:
        """Rows without members are kept only where their noise is part of other rows' noise.

        The attacker subtracts that noise. Under independent noise such a row is useless, and most likely a
        mistake.
        """
        empty = np.flatnonzero(self.incidence.sizes == 0)
        require(
            correlated or empty.size == 0,
            "at least one member in every row with independent noise",
            got=f"none in row {empty[:1].tolist()}",
            fix="drop it: it depends on no record",
            error=InvalidRelease,
        )

    def _scaled(self, factors: ArrayLike | None) -> FloatArray:
        if factors is not None:
            scale = frozen_floats(factors, name="factors", ndim=1, error=InvalidRelease)
            require(
                scale.shape == (self.row_count,) and bool(np.all(scale != 0)),
                f"{self.row_count} factors, none of them zero",
                got=f"shape {scale.shape}, {np.count_nonzero(scale == 0)} zero",
                error=InvalidRelease,
            )
            return scale
        match self.readout:
            case Readout.MEAN:
                return frozen_floats(1.0 / np.maximum(self.incidence.sizes, 1), name="factors")
            case Readout.SUM:
                return frozen_floats(np.ones(self.row_count), name="factors")

    def _price(self, accountant: Accountant) -> Noise:
        require(
            self.radius is not None,
            "radius with an accountant",
            got="none",
            fix="give the largest change of one record's value",
            error=InvalidNoise,
        )
        radius = positive_number(self.radius, name="radius")
        self._require_members(correlated=False)
        self._require_disjoint_cells()
        sensitivities = radius * self.incidence.peaks * np.abs(self.scale)
        return price(accountant, sensitivities, releases=self.release_count)

    def _require_disjoint_cells(self) -> None:
        starts = np.flatnonzero(np.diff(self.release_of, prepend=-1))
        for release, rows in enumerate(np.split(np.arange(self.row_count), starts[1:])):
            if rows.size == 1:
                continue
            seen = np.concatenate([self.incidence.members(int(row)) for row in rows])
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


def _checked_releases(releases: Sequence[int] | IndexArray, row_count: int) -> IndexArray:
    if not len(releases):
        index = np.arange(row_count, dtype=np.intp)
    else:
        given = np.array(releases)
        whole = given.shape == (row_count,) and given.dtype.kind in "iu"
        require(
            whole,
            f"one release number for each of {row_count} rows",
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
