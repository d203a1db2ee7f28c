"""Made-up people who live in areas and answer yes or no: the stand-in tables of most deployments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

Table = list[list[str]]  # the first line has the names of the columns


def in_areas(
    name: str,
    *,
    columns: Sequence[str],
    sizes: Mapping[tuple[str, ...], int],
    secret: str,
    share: float = 0.4,
    newcomer: bool = False,
) -> Table:
    """So many people in each area; a share of them answer yes. The seed is the name of the deployment.

    With a newcomer, person 1 joined in the second half of the year, and all others in the first.
    """
    draw = Random(f"sightline gallery {name}")
    rows = [["person", *columns, *(["joined"] if newcomer else []), secret]]
    for area, size in sizes.items():
        for _ in range(size):
            person = len(rows) - 1
            joined = [str(2 if person == 1 else 1)] if newcomer else []
            rows.append([str(person), *area, *joined, str(draw.random() < share).lower()])
    return rows
