"""Both ends of the remaining uncertainty of some records, from the numbers read off their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sightline.arrays import FloatArray, parts_of
from sightline.labeled.bounds.target import Seen, TargetPrior
from sightline.labeled.hidden import HiddenInformation, hidden_by_share
from sightline.labeled.risk_forms import Quantity, Risks
from sightline.labeled.unknown_gram import LaplacePart

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadNumbers:
    """The quantities of some unknown records, what they are, and bounds on their errors."""

    risks: Risks  # what the quantities of the same names are
    quantities: dict[Quantity, FloatArray]
    share_error: FloatArray  # bounds on the absolute errors of the risks over v
    relative_error: FloatArray  # and on relative errors that come on top
    information_error: float  # of the information, relative

    def part(self, own: slice) -> ReadNumbers:
        """The same for some of the records."""
        return replace(
            self,
            quantities={name: values[own] for name, values in self.quantities.items()},
            share_error=self.share_error[own],
            relative_error=self.relative_error[own],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordBrackets:
    """Of every record the lower and the upper end, and a bound on the relative error of the upper ends."""

    lower: FloatArray
    upper: FloatArray
    relative_error: FloatArray


def record_brackets(
    numbers: ReadNumbers,
    prior: TargetPrior,
    *,
    alike: FloatArray,
    by_record: HiddenInformation | None,
    laplace: LaplacePart | None,
) -> RecordBrackets:
    """The brackets of records whose others are unknown; ``alike`` counts those with each one's signature."""
    found = RecordBrackets(
        lower=np.empty(alike.size), upper=np.empty(alike.size), relative_error=np.empty(alike.size)
    )
    for own in parts_of(alike.size):
        part = _brackets(
            numbers.part(own),
            prior,
            alike=alike[own],
            by_record=None if by_record is None else by_record.part(own),
            laplace=None if laplace is None else laplace.part(own),
        )
        found.lower[own], found.upper[own] = part.lower, part.upper
        found.relative_error[own] = part.relative_error
    return found


def _brackets(
    numbers: ReadNumbers,
    prior: TargetPrior,
    *,
    alike: FloatArray,
    by_record: HiddenInformation | None,
    laplace: LaplacePart | None,
) -> RecordBrackets:
    quantities, share_error, relative_error = numbers.quantities, numbers.share_error, numbers.relative_error
    hidden = by_record
    if Quantity.HIDDEN in quantities:
        share = quantities[Quantity.HIDDEN] * (1 - relative_error) - share_error
        hidden = hidden_by_share(share, numbers.risks[Quantity.HIDDEN].precision)
        hidden = hidden if by_record is None else by_record.or_else(hidden)
    linear = np.clip(quantities[Quantity.LINEAR] * (1 + relative_error) + share_error, _TINY, 1.0)
    information = quantities[Quantity.INFORMATION] * (1 + numbers.information_error)
    seen = Seen(
        information=information,
        linear_information=(1 / linear - 1) / prior.variance,
        hidden_information=None if hidden is None else hidden.information,
        precision=None if hidden is None else hidden.precision,
        alike=alike,
        laplace_answers=None if laplace is None else laplace.answers,
        laplace_information=None
        if laplace is None
        else laplace.part_of(information, numbers.information_error),
    )
    upper = prior.upper(seen)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.maximum(upper - 2 * share_error, 0.0)  # the upper end without what rounding added
        share = np.where(share_error > 0, 2 * share_error / least, 0.0)
    return RecordBrackets(lower=prior.lower(seen), upper=upper, relative_error=share + 2 * relative_error)
