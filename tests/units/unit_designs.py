"""Designs over units made from dense tables, for tests against exact arithmetic."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.noise.laws import CorrelatedNoise, GaussianNoise, LaplaceNoise
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import TargetPrior, UnitPrior
from sightline.units.unit_block import ONE
from sightline.units.units import Units

Law = GaussianNoise | LaplaceNoise | CorrelatedNoise


def units_of(table: np.ndarray) -> tuple[Units, IndexArray]:
    """Units of a table rows × records: equal columns are one kind. With the kind of every record."""
    distinct, group = np.unique(table.T, axis=0, return_inverse=True)
    numbers, degree = table.shape[0], max(1, int((distinct != 0).sum(axis=1).max()))
    order = np.argsort(distinct == 0, axis=1, kind="stable")[:, :degree]
    values = np.take_along_axis(distinct, order, axis=1).astype(np.float64)
    binary = bool(np.all((values == 0) | (values == 1)))
    units = Units(
        rows=np.where(values != 0, order, numbers).astype(np.int32),
        weights=ONE if binary else values,
        numbers=numbers,
        starts=np.arange(len(distinct) + 1),
        times=np.ones(len(distinct), dtype=np.intp),
        people=np.bincount(group.ravel()),
        distinct=True,
    )
    return units, group.ravel()


def row_noise(noise: Law) -> RowNoise:
    """The noise of the rows, one answer each."""
    ones = np.ones(noise.outputs)
    if isinstance(noise, LaplaceNoise):
        return RowNoise.of(noise.scales, np.sqrt(noise.variances), ones, ones)
    if isinstance(noise, CorrelatedNoise):
        return RowNoise.correlated(noise.covariance)
    return RowNoise.of(noise.stddevs, noise.stddevs, 0 * ones, ones)


def design_of(table: np.ndarray, noise: Law | FloatArray, prior: TargetPrior) -> Design:
    """A design over the records of a table."""
    units, group = units_of(table)
    law = GaussianNoise(stddevs=noise) if isinstance(noise, np.ndarray) else noise
    return Design(
        units=units,
        noise=row_noise(law),
        prior=UnitPrior(target=prior),
        release=np.arange(len(table)),
        place=group,
    )
