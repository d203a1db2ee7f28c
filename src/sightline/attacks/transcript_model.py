"""The model of a transcript that an attack fits: its releases as weighted sums of curves, and its noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, IndexArray, coordinates
from sightline.attacks.autodiff import AutodiffModel, Block
from sightline.attacks.curves import Curve, Power, SmoothStep
from sightline.attacks.model import Model, Objective, Row
from sightline.errors import InvalidInput, InvalidNoise, require
from sightline.noise.laws import Noise
from sightline.privacy.accountant import NoiseLaw
from sightline.releases.deepset import DeepSet
from sightline.releases.moment import Moment
from sightline.releases.query import Query
from sightline.releases.smooth_threshold import SmoothThreshold


def model_of(queries: Sequence[Query], noise: Noise) -> Objective:
    """The model of releases with Gaussian noise, over every coordinate that some release depends on."""
    cells = tuple(cell for query in queries for cell in query.cells)
    if any(isinstance(cell, DeepSet) for cell in cells):
        return _autodiff(cells, noise)  # type: ignore[arg-type]  # laws are hashed by identity
    unknowns = _all_coordinates(cells)
    rows = [row for cell in cells for row in _rows_of(cell, unknowns)]
    return Model(rows=tuple(rows), records=tuple(unknowns.tolist()), whitening=_whitening(noise))


def _all_coordinates(cells: Sequence[Query]) -> IndexArray:
    return np.unique(np.concatenate([coordinates(cell.members, cell.dimension) for cell in cells]))


@lru_cache(maxsize=8)  # a model holds compiled programs; releases and noise are immutable
def _autodiff(cells: tuple[Query, ...], noise: Noise) -> Objective:
    unknowns = _all_coordinates(cells)
    require(
        cells[0].dimension == 1, "scalar records for a search in a box", got=f"dimension {cells[0].dimension}"
    )
    parts: list[Row | Block] = []
    for cell in cells:
        if isinstance(cell, DeepSet):
            parts.append(Block(query=cell, places=np.searchsorted(unknowns, cell.members)))
        else:
            parts += _rows_of(cell, unknowns)
    _whitening(noise)  # refuses noise for which least squares is not the likelihood
    return AutodiffModel(parts=tuple(parts), records=tuple(unknowns.tolist()), whitening=noise.whitener)


def _rows_of(query: Query, unknowns: IndexArray) -> list[Row]:
    places = np.searchsorted(unknowns, coordinates(query.members, query.dimension))
    if query.linear:
        jacobian = query.jacobian(None).reshape(query.outputs, -1)
        return [Row(curve=Power(order=1), weights=_spread(line, places, unknowns.size)) for line in jacobian]
    match query:
        case Moment():
            curve: Curve = Power(order=query.order)
        case SmoothThreshold():
            curve = SmoothStep(at=query.at, bandwidth=query.bandwidth, kernel=query.kernel)
        case _:
            raise InvalidInput(
                "expected linear releases, moments, smooth thresholds and DeepSets, got "
                f"{type(query).__name__}; write it as a DeepSet"
            )
    share = np.full(len(places), 1.0 / len(query.members))
    return [Row(curve=curve, weights=_spread(share, places, unknowns.size))]


def _spread(line: FloatArray, places: IndexArray, size: int) -> tuple[float, ...]:
    weights = np.zeros(size)
    weights[places] = line
    return tuple(weights.tolist())


def _whitening(noise: Noise) -> tuple[Any, ...]:
    if noise.law is not NoiseLaw.GAUSSIAN:
        raise InvalidNoise(
            "expected Gaussian noise, for which least squares is maximum likelihood, got "
            f"{noise.law.value.title()} noise; use PosteriorMean, whose likelihood is the noise's own"
        )
    if not noise.correlated:
        return tuple((1.0 / noise.scales).tolist())
    return tuple(tuple(row[: i + 1].tolist()) for i, row in enumerate(noise.whitener))
