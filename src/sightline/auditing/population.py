"""A population that a plan states: the histogram in a CSV file with the columns low, high and weight.

It is what an attacker knows beforehand, from public statistics, and never made from the table. A line is a
bin of values, or one value if its ends are equal; weights are counts or shares.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from sightline.errors import InvalidPlan, require
from sightline.labeled.bounds.population import LEAST_SPREAD, MOST_BINS, Bin, PopulationPrior
from sightline.tables.engines.address import csv_lines, named_file

_LARGEST_FILE = 64_000_000  # bytes
_COLUMNS = ("low", "high", "weight")


class Population(NamedTuple):
    """The file of a population, and its bins once it is read."""

    file: str
    bins: tuple[Bin, ...] = ()

    @property
    def name(self) -> str:
        """What results call it: the file without its folder."""
        return Path(self.file).name

    def prior(self, bounds: tuple[float, float]) -> PopulationPrior:
        """As a prior between the bounds of a secret."""
        low, high = map(float, bounds)
        return PopulationPrior(low, high, bins=self.bins, source=self.name)

    def covers(self, least: float, greatest: float) -> bool:
        """Whether some value between two others has a weight."""
        return any(low <= greatest and least <= high for low, high, _ in self.bins)

    def over(self, divisor: float) -> Population:
        """The population of a secret in a unit so many times as large; bins stay within its bounds."""
        return self._replace(
            bins=tuple((low / divisor, high / divisor, weight) for low, high, weight in self.bins)
        )


def read_population(stated: Population, base: Path, bounds: tuple[float, float]) -> Population:
    """The population with its bins; relative paths start from ``base``. Bins without weight are left out."""
    where = f"[attacker] prior: {stated.name[:60]!r}"
    what = f"{where}: a CSV file"
    lines = csv_lines(named_file(stated.file, base, what), what, most=_LARGEST_FILE)
    header = [name.strip() for name in lines[0]] if lines else []
    missing = [name for name in _COLUMNS if header.count(name) != 1]
    require(
        not missing,
        f"{where}: the columns low, high and weight, once each",
        got=f"a header without {' and '.join(missing)}" if header else "an empty file",
        error=InvalidPlan,
    )
    places = [header.index(name) for name in _COLUMNS]
    found = [
        (number, *_bin(line, places, f"{where}: line {number}", bounds))
        for number, line in enumerate(lines[1:], start=2)
        if line
    ]
    bins = sorted((low, high, weight, number) for number, low, high, weight in found)
    for (low, high, _, first), (after, end, _, second) in pairwise(bins):
        require(
            high <= after and (low, high) != (after, end),
            f"{where}: bins that do not overlap",
            got=f"those of lines {min(first, second)} and {max(first, second)}",
            error=InvalidPlan,
        )
    kept = tuple((low, high, weight) for low, high, weight, _ in bins if weight > 0)
    require(
        1 < len(kept) <= MOST_BINS,
        f"{where}: 2 to {MOST_BINS:,} bins of a weight above 0",
        got=f"{len(kept):,}",
        error=InvalidPlan,
    )
    read = stated._replace(bins=kept)
    require(
        math.sqrt(read.prior(bounds).variance) >= LEAST_SPREAD * (bounds[1] - bounds[0]),
        f"{where}: values that differ by a millionth of the bounds or more",
        got="values that are all alike",
        fix="state narrower bounds",
        error=InvalidPlan,
    )
    return read


def _bin(line: list[str], places: list[int], where: str, bounds: tuple[float, float]) -> Bin:
    """The bin of one line."""
    require(max(places) < len(line), f"{where}: a low, a high and a weight", got="fewer", error=InvalidPlan)
    low, high, weight = (_number(line[place], where) for place in places)
    require(low <= high, f"{where}: low <= high", got=f"{low:g} and {high:g}", error=InvalidPlan)
    require(
        bounds[0] <= low and high <= bounds[1],
        f"{where}: a bin within the bounds of the secret, {bounds[0]:g} to {bounds[1]:g}",
        got=f"{low:g} to {high:g}",
        fix="cut the bin, or state wider bounds",
        error=InvalidPlan,
    )
    require(weight >= 0, f"{where}: a weight >= 0", got=f"{weight:g}", error=InvalidPlan)
    return low, high, weight


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    require(math.isfinite(value), f"{where}: finite numbers", got=f"{text[:20]!r}", error=InvalidPlan)
    return value
