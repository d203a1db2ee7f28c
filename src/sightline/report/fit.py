"""What a fit to noisy numbers did, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sightline.format import count


class Fitted(NamedTuple):
    """What is said of a fit."""

    numbers: int
    following: int | None  # from the others; none where it is not known
    derived: int  # more numbers, computed from the fit
    typical: tuple[float, float] | None  # the error of a number, before and after
    refitted: bool  # without sums below 0
    moved: float | None  # by rounding to whole numbers
    misfit: float | None  # where it is more than the noise explains


def fit_lines(fitted: Fitted) -> Iterator[str]:
    """What was done, in a few sentences."""
    follow = "" if fitted.following is None else f" of which {fitted.following:,} follow from the others,"
    yield f"{fitted.numbers:,} numbers,{follow} fitted."
    if fitted.derived:
        yield f"{count(fitted.derived, 'more number')}, computed from the fit."
    if fitted.typical is not None:
        before, after = fitted.typical
        yield f"Error of a typical number: from ± {before:.3g} to ± {after:.3g} by the fit."
    if fitted.refitted:
        yield "Sums below 0 were fitted again without: ± is that of the fit before, and the fit is biased."
    if fitted.moved is not None:
        yield f"Whole numbers that add up moved a number by {fitted.moved:.3g} (root mean square)."
    if fitted.misfit is not None:
        yield (
            "The noisy numbers contradict each other by more than the plan's noise explains (chi-square "
            f"{fitted.misfit:.4g} for {fitted.following or 0:,}): check that the file has the noise of this "
            "plan."
        )
