"""What is published: rows with noise over units with a prior. Every job is a design made from another one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sightline.arrays import IndexArray
from sightline.units.equal_slices import EqualSlices, can_have_slices, equal_slices, laws_of
from sightline.units.row_integers import RowsOnce
from sightline.units.row_noise import RowNoise
from sightline.units.row_products import ProductSums
from sightline.units.sparse_row_solver import ChosenRoute
from sightline.units.target import UnitPrior
from sightline.units.unit_block import BoolArray
from sightline.units.units import Units, UnitStore
from sightline.values import frozen


@dataclass(kw_only=True, eq=False)
class MadeOfUnits:
    """What follows from units and prior alone, made when first asked for: no noise changes any of it."""

    products: ProductSums | None = None
    route: ChosenRoute | None = None
    table: tuple[UnitStore, UnitStore] | None = None  # units, and the same as passes read them
    slices: list[SummedSlices] = field(default_factory=list)
    rows: RowsOnce = field(default_factory=RowsOnce)


@frozen(slots=False)
class SummedSlices:
    """The equal slices of some units, while equal noise stays equal; none where the units have none."""

    units: Units
    laws: bytes  # which numbers have the same noise
    slices: EqualSlices | None
    made: MadeOfUnits  # of the units of the sums


@frozen(slots=False)
class Design:
    """The only input of everything to the right."""

    units: UnitStore
    noise: RowNoise
    prior: UnitPrior
    release: IndexArray  # of every row
    place: IndexArray  # for every signature, or kind of person, of the table its unit; -1 if it is known
    made: MadeOfUnits = field(default_factory=MadeOfUnits, repr=False)

    def take(self, rows: IndexArray | BoolArray) -> Design:
        """Some of the rows: timelines, contributions, remedies, suppression."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, dtype=np.intp)
        products = self.made.products
        return replace(
            self,
            units=self.units.take(chosen),
            noise=self.noise.take(chosen),
            release=self.release[chosen],
            made=MadeOfUnits(products=None if products is None else products.take(chosen)),
        )

    def with_noise(self, noise: RowNoise) -> Design:
        """The same rows with other noise: accountants, slack, what-if, designs."""
        return replace(self, noise=noise)

    def knowing(self, kinds: BoolArray) -> Design:
        """An attacker who also knows some kinds."""
        number = np.where(kinds, -1, np.cumsum(~kinds) - 1)
        unit_of = np.where(self.place >= 0, number[self.place], -1)
        return replace(
            self, units=self.units.without(np.flatnonzero(kinds)), place=unit_of, made=MadeOfUnits()
        )

    def equal_slices(self) -> SummedSlices | None:
        """Those of many numbers, looked for once."""
        units = self.units
        if not isinstance(units, Units) or not can_have_slices(units, self.noise):
            return None
        laws = laws_of(self.noise)
        for known in self.made.slices:
            if known.units is units and known.laws == laws.tobytes():
                return known if known.slices else None
        slices = equal_slices(units, laws)
        summed = SummedSlices(units=units, laws=laws.tobytes(), slices=slices, made=MadeOfUnits())
        self.made.slices.append(summed)
        return summed if slices else None

    def summed(self, equal: SummedSlices) -> Design:
        """With one slice of each kind, and the sum of its equals."""
        slices = equal.slices
        assert slices is not None
        return replace(
            self,
            units=slices.units,
            noise=slices.noise(self.noise),
            release=self.release[slices.rows],
            place=np.arange(len(slices.units)),
            made=equal.made,
        )
