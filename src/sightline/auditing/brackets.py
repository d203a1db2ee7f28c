r"""The exposures of a linear design: who is identifiable, how sharply, and what remains.

Numbers, yes-or-no secrets and categories of two values go to the labeled engine as they are. The indicators
of one of three categories or more depend on each other, so their brackets are made here:

- *Lower end for category a.* Let the attacker know all other records. If the record is not of category
  :math:`a`, also tell them which other category :math:`b` it has; if it is, tell them one drawn at random.
  That says nothing about whether it is :math:`a`, and leaves a coin with probability :math:`p`. A number
  that counts :math:`a` or :math:`b`, alone or among others, tells the two apart unless it counts both. So the
  two sides of the coin are at most :math:`I_a + I_b` apart, where :math:`I_a` is the information of all
  numbers that count :math:`a`. The risk is at least the mean over :math:`b \ne a` of the risk of this coin.
- *Upper end.* A linear attack that uses only the numbers about :math:`a` alone sees independent coins. One
  that also uses those about the reference or about several categories sees indicators with the covariance
  :math:`\frac1k I - \frac{1}{k^2} 11^\top \preceq \frac1k I`; its risk is at most :math:`k/(k-1)` times its
  risk for independent indicators of variance :math:`v = p(1-p)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import CategoryDesign, LinearDesign
from sightline.auditing.exact_numbers import in_exact_numbers, with_exact_numbers
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.contributions import Contributions, contributions
from sightline.labeled.exposures import Exposures, Groups
from sightline.labeled.exposures import exposures as labeled_exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.scaled_noise import ScaledNoise
from sightline.labeled.sharp_records import RecipeTable
from sightline.labeled.unknown_gram import row_squares
from sightline.progress import Progress
from sightline.tables.subject import SecretKind

# The audit asks of contributions who is identifiable, and whose error rises by 1 %.
_ENOUGH = 1e-6


def assess(linear: LinearDesign, progress: Progress, *, attacks: bool = True) -> Exposures:
    """The exposures of all columns of a linear design.

    Without ``attacks`` there are decisions and brackets, but no errors and no recipes.
    """
    found = _with_noise(linear, progress, attacks=attacks)
    exact = linear.exact_part()
    if exact is not None:
        others = linear.others_told(in_exact_numbers(linear))
        found = with_exact_numbers(
            linear,
            found,
            alone=_with_noise(exact, progress, attacks=False),
            others=None
            if others is None or others.known.all()
            else _with_noise(others, progress, attacks=False),
        )
    if linear.lattice_share == 1:
        return found
    return replace(found, remaining_lower=found.remaining_lower * linear.lattice_share)


def _with_noise(linear: LinearDesign, progress: Progress, *, attacks: bool) -> Exposures:
    """The exposures of all columns, with noise on every number."""
    main = _assess(linear, linear.main, progress, attacks=attacks)
    if linear.other is None:
        return main
    return _joined(linear, main, _assess(linear, linear.other, progress, attacks=attacks))


def _assess(linear: LinearDesign, part: CategoryDesign, progress: Progress, *, attacks: bool) -> Exposures:
    """The exposures of the columns of one design."""
    rows = np.arange(part.design.row_count)
    exposures = _exposures(linear, part, rows, progress, attacks=attacks)
    if not _of_several(linear):
        return exposures
    upper = exposures.remaining_upper
    dependent = part.reference | part.mixed
    if part.blocks > 1 and dependent.any():
        upper = np.minimum(1.0, upper * (linear.prior.categories / (linear.prior.categories - 1)))
        if not dependent.all():
            others = np.flatnonzero(~dependent)
            alone = _exposures(linear, part, others, progress, attacks=attacks)
            upper = np.minimum(upper, alone.remaining_upper)
    lower = _coin_bounds(linear, part, exposures.known)
    return replace(exposures, remaining_lower=lower, remaining_upper=upper)


def _exposures(
    linear: LinearDesign, part: CategoryDesign, rows: IndexArray, progress: Progress, *, attacks: bool
) -> Exposures:
    """What some rows of a design expose of its columns."""
    return labeled_exposures(
        part.design if rows.size == part.design.row_count else part.design.take(rows),
        prior=linear.prior.of_column,
        known=np.flatnonzero(linear.known[: part.design.size]),
        copies=linear.copies[rows],
        attacks=attacks,
        progress=progress,
    )


def _of_several(linear: LinearDesign) -> bool:
    """Whether the columns are indicators of one of three categories or more."""
    return linear.prior.kind is SecretKind.CATEGORY and linear.prior.categories > 2


def scaled_noise(linear: LinearDesign, exposures: Exposures) -> ScaledNoise | None:
    """The design with all noise multiplied by a factor; none for categories, whose bounds are closed forms.

    ``exposures`` are those at factor 1.
    """
    return None if _of_several(linear) else ScaledNoise.of(linear.design, exposures, copies=linear.copies)


def least_category_bound(linear: LinearDesign, factor: float) -> float:
    """The least lower end of a category's indicators with all noise multiplied by a factor."""
    parts = [(linear.main, slice(None))]
    if linear.other is not None:
        parts.append((linear.other, linear.other_columns))
    found = [
        _coin_bounds(linear, part, linear.known[: part.design.size], factor=factor)[own]
        for part, own in parts
    ]
    return float(np.nanmin(np.concatenate(found)))


def _coin_bounds(
    linear: LinearDesign, part: CategoryDesign, known: BoolArray, *, factor: float = 1.0
) -> FloatArray:
    """The lower end for every indicator: the mean over the other categories that the record may have.

    ``factor`` multiplies all noise.
    """
    blocks, reference, categories = part.blocks, part.reference, linear.prior.categories
    coin, design = CoinPrior(share=linear.prior.share), part.design
    # Records with the same signature in all numbers, not only in those about this category.
    counts = linear.counts[: design.size]
    sizes = np.where(known, 1, counts).reshape(blocks, -1).astype(np.float64)
    gaussian, weights = design.law.excess == 1, (design.whitening / factor) ** 2

    def bounds(information: FloatArray) -> FloatArray:
        return np.stack(coin.lower_bounds(information, sizes, gaussian))

    own = row_squares(design, np.where(reference, 0.0, weights)).reshape(blocks, -1)
    of_reference = row_squares(design, np.where(reference, weights, 0.0)).reshape(blocks, -1)
    unpublished = categories - blocks - 1  # categories that have no indicator, besides the reference
    # The mean of each kind of bound is a bound. The mean of the larger of the two would not be.
    means = bounds(own + of_reference) + unpublished * bounds(own)
    for other in range(blocks):
        apart = bounds(own + own[other])
        apart[:, other] = 0.0
        means += apart
    lower: FloatArray = (means.max(axis=0) / (categories - 1)).ravel()
    lower[known] = np.nan
    return lower


def _joined(linear: LinearDesign, main: Exposures, other: Exposures) -> Exposures:
    """The exposures of the main design, and after them those of the reference category in the other one."""
    assert linear.other is not None
    first, second = _Sums.of(main, linear.main), _Sums.of(other, linear.other)
    chosen = linear.other_columns
    group = other.group[chosen]
    unknown = np.flatnonzero(group >= 0)
    groups, index = np.unique(group[unknown], return_index=True)
    place = np.full(len(other.groups) + 1, -1, dtype=np.intp)  # the last entry is for known records
    place[groups] = len(main.groups) + np.arange(groups.size)
    # The same weights on the published numbers: the rows of the two designs differ by a sign at most.
    signs = linear.other.factors / linear.main.factors

    def both(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(main, name), getattr(other, name)[chosen]])

    return replace(
        main,
        identifiable=both("identifiable"),
        undecided=both("undecided"),
        rmse=both("rmse"),
        remaining_lower=both("remaining_lower"),
        remaining_upper=both("remaining_upper"),
        information=both("information"),
        touched=both("touched"),
        known=both("known"),
        group=np.concatenate([main.group, place[group]]),
        groups=Groups(
            sizes=np.concatenate([main.groups.sizes, other.groups.sizes[groups]]),
            identifiable=np.concatenate([first.identifiable, second.identifiable[groups]]),
            rmse=np.concatenate([main.groups.rmse, other.groups.rmse[groups]]),
            first=np.concatenate([main.groups.first, len(main) + unknown[index]]),
        ),
        relative_error=max(main.relative_error, other.relative_error),
        recipes=JoinedRecipes(
            tables=(main.recipes, other.recipes),
            rows=(first.rows, second.rows_of(groups)),
            factors=(np.ones(signs.size), signs),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sums:
    """The groups whose sum is one of values of a single category, and their recipes.

    Equal columns of two categories are a group, too: the sum of two indicators of one record. It is the
    complement of the other categories, which have exposures of their own.
    """

    identifiable: BoolArray
    rows: IndexArray  # of the exposures' recipes, one for each of them in order

    @classmethod
    def of(cls, exposures: Exposures, part: CategoryDesign) -> _Sums:
        """The groups within one block of a design."""
        block = np.repeat(np.arange(part.blocks), part.width)[~exposures.known]
        group = exposures.group[~exposures.known]
        lowest, highest = np.full(len(exposures.groups), part.blocks), np.full(len(exposures.groups), -1)
        np.minimum.at(lowest, group, block)
        np.maximum.at(highest, group, block)
        shown = exposures.groups.identifiable
        one_category = lowest == highest
        rows = np.zeros(0, dtype=np.intp)
        if len(exposures.recipes):  # else nobody asked for them, or there is nothing to ask for
            rows = np.flatnonzero(one_category[shown])
        return cls(identifiable=shown & one_category, rows=rows)

    def rows_of(self, groups: IndexArray) -> IndexArray:
        """The rows of those of some groups that are identifiable."""
        if not self.rows.size:
            return self.rows
        place = np.cumsum(self.identifiable) - 1
        chosen: IndexArray = self.rows[place[groups[self.identifiable[groups]]]]
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedRecipes:
    """Some recipes of one table and after them some of another, computed when they are asked for."""

    tables: tuple[RecipeTable, RecipeTable]
    rows: tuple[IndexArray, IndexArray]
    factors: tuple[FloatArray, FloatArray]  # of the weights of each

    def __len__(self) -> int:
        return int(self.rows[0].size + self.rows[1].size)

    def __getitem__(self, which: Any) -> FloatArray:
        """Some rows: a number for one, an array of numbers or of booleans for several."""
        places: IndexArray = np.arange(len(self))[which]
        chosen = np.atleast_1d(places)
        weights = np.zeros((chosen.size, self.factors[0].size))
        second = chosen >= self.rows[0].size
        for mine, table, rows, factor, shift in zip(
            (~second, second), self.tables, self.rows, self.factors, (0, self.rows[0].size), strict=True
        ):
            if mine.any():
                weights[mine] = table[rows[chosen[mine] - shift]] * factor
        return weights[0] if np.ndim(places) == 0 else weights


def contributions_of(linear: LinearDesign, exposures: Exposures, progress: Progress) -> Contributions:
    """What each release adds to the exposure of the identifiable columns."""
    known = np.flatnonzero(linear.known[: linear.design.size])
    if linear.other is None:
        return contributions(linear.design, known=known, found=exposures, enough=_ENOUGH, progress=progress)
    main = contributions(linear.design, known=known, enough=_ENOUGH, progress=progress)
    other = contributions(linear.other.design, known=known, enough=_ENOUGH, progress=progress)
    shift, chosen = linear.design.size - linear.other_columns.start, linear.other_columns
    mine = (other.records >= chosen.start) & (other.records < chosen.stop)
    pairs = [pair for pair in other.pairs if chosen.start <= pair.record < chosen.stop]
    return Contributions(
        records=np.concatenate([main.records, other.records[mine] + shift]),
        rmse=np.concatenate([main.rmse, other.rmse[mine]]),
        rmse_in_order=np.hstack([main.rmse_in_order, other.rmse_in_order[:, mine]]),
        rmse_without=np.hstack([main.rmse_without, other.rmse_without[:, mine]]),
        relative_error=max(main.relative_error, other.relative_error),
        pairs=(*main.pairs, *(replace(pair, record=pair.record + shift) for pair in pairs)),
    )


def most_information(linear: LinearDesign, exposures: Exposures) -> float:
    """The most information on a record, as ``SecretPrior.kept`` takes it."""
    sides = 2 if _of_several(linear) else 1
    return sides * float(np.nanmax(exposures.information))
