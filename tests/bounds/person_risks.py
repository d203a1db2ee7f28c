"""Persons with a few rows of uniform values, and the risk of an attack that is nearly the best one.

The attack is the mean of a Gibbs sampler. Whatever it is, its risk is at least that of the best attack: a
lower end above it is wrong, and lower ends over it are at most those over the exact risk.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import special

from sightline.bounds.priors import UniformPrior
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.unit_block import ONE
from sightline.units.units import Units


@dataclass(frozen=True, kw_only=True)
class Persons:
    """``table[number, row]`` over the rows of all persons; whose each row is; the noise of every number."""

    table: np.ndarray
    owner: np.ndarray
    scales: np.ndarray
    laplace: np.ndarray

    def design(self) -> Design:
        """Every person as a kind; equal rows of a person are one column."""
        numbers, columns, starts, times = len(self.table), [], [0], []
        for person in range(int(self.owner.max()) + 1):
            own, count = np.unique(self.table[:, self.owner == person].T, axis=0, return_counts=True)
            columns += list(own)
            times += count.tolist()
            starts.append(len(columns))
        lines = np.array(columns)
        width = max(1, int(np.count_nonzero(lines, axis=1).max()))
        order = np.argsort(lines == 0, axis=1, kind="stable")[:, :width]
        values = np.take_along_axis(lines, order, axis=1).astype(np.float64)
        plain = bool(np.all((values == 0) | (values == 1)))
        units = Units(
            rows=np.where(values != 0, order, numbers).astype(np.int32),
            weights=ONE if plain else values,
            numbers=numbers,
            starts=np.array(starts),
            times=np.array(times),
            people=np.ones(len(starts) - 1, dtype=np.intp),
        )
        stddevs = self.scales * np.sqrt(1.0 + self.laplace)
        return Design(
            units=units,
            noise=RowNoise.of(self.scales, stddevs, self.laplace.astype(float), np.ones(numbers)),
            prior=UnitPrior(target=UniformPrior(0.0, 1.0)),
            release=np.arange(numbers),
            place=np.arange(len(units)),
        )

    def guesses(
        self, draws: int, sweeps: int, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """True rows, and what a Gibbs sampler guesses from the answers alone: draws × rows."""
        numbers, rows = self.table.shape
        truth = generator.random((rows, draws))
        noise = np.where(
            self.laplace[:, None],
            generator.laplace(size=(numbers, draws)),
            generator.standard_normal((numbers, draws)),
        )
        answers = self.table @ truth + noise * self.scales[:, None]
        values, total = np.full((rows, draws), 0.5), np.zeros((rows, draws))
        precision = np.repeat(self.scales[:, None] ** -2.0, draws, axis=1)
        cells = [np.flatnonzero(column) for column in self.table.T]
        # Directions along which the answers hardly change: one row after the other would take long.
        spread = np.linalg.cholesky(
            np.linalg.inv(12 * np.eye(rows) + (self.table.T / self.scales**2) @ self.table)
        )
        for sweep in range(sweeps):
            left = answers - self.table @ values
            if self.laplace.any():  # Gaussian noise whose variance is exponential
                away = np.maximum(np.abs(left[self.laplace]), 1e-9)
                scale = self.scales[self.laplace, None]
                precision[self.laplace] = generator.wald(1 / (scale * away), scale**-2.0)
            for row in generator.permutation(rows):
                own, weights = cells[row], self.table[cells[row], row]
                seen = weights**2 @ precision[own]
                rest = left[own] + weights[:, None] * values[row]
                middle = weights @ (precision[own] * rest) / np.maximum(seen, 1e-12)
                middle = np.where(seen > 0, middle, 0.5)
                values[row], mean = _truncated(middle, 1 / np.sqrt(np.maximum(seen, 1e-4)), generator)
                left[own] = rest - weights[:, None] * values[row]
                if sweep >= sweeps // 6:
                    total[row] += mean
            for direction in (spread @ generator.standard_normal((rows, rows // 2))).T[:, :, None]:
                weights = self.table @ direction
                seen = (weights**2 * precision).sum(axis=0)
                middle = (weights * precision * left).sum(axis=0) / np.maximum(seen, 1e-12)
                ends = -values / direction, (1 - values) / direction
                low, high = np.minimum(*ends).max(axis=0), np.maximum(*ends).min(axis=0)
                size = np.maximum(high - low, 1e-12)
                deviation = 1 / (size * np.sqrt(np.maximum(seen, 1e-4 / size**2)))
                step = low + size * _truncated((middle - low) / size, deviation, generator)[0]
                values = np.clip(values + step * direction, 0.0, 1.0)
                left = left - weights * step
        return truth.T, total.T / (sweeps - sweeps // 6)

    def sharpest(self, truth: np.ndarray, guess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of every person the share that is left of the feature that is seen best, and its error."""
        found = []
        for person in range(int(self.owner.max()) + 1):
            off = (truth - guess)[:, self.owner == person]
            feature = np.linalg.eigh(off.T @ off)[1][:, 0]
            left = 12 * (off @ feature) ** 2
            found.append((left.mean(), left.std() / np.sqrt(len(left))))
        return np.array(found).T[0], np.array(found).T[1]


def _truncated(
    middle: np.ndarray, deviation: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian within 0 and 1: a draw, and the mean."""
    low, high = -middle / deviation, (1 - middle) / deviation
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    below, above = special.ndtr(low), special.ndtr(high)
    mass = np.maximum(above - below, 1e-300)
    drawn = special.ndtri(np.clip(below + mass * generator.random(len(middle)), 1e-300, 1 - 1e-16))
    density = np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)
    mean = np.clip(density / (np.sqrt(2 * np.pi) * mass), low, high)
    sign = np.where(flip, -1.0, 1.0)
    return tuple(np.clip(middle + deviation * sign * one, 0.0, 1.0) for one in (drawn, mean))


def persons(
    generator: np.random.Generator, *, noise: float, law: str = "gaussian", rows: int = 3, people: int = 5
) -> Persons:
    """Persons with up to some rows each, in the cells of columns and pairs of columns."""
    owner = np.repeat(np.arange(people), generator.integers(1, rows + 1, people))
    columns = generator.integers(0, 3, (int(generator.integers(1, 4)), owner.size))
    tables = list(columns)
    for first, second in itertools.combinations(range(len(columns)), 2):
        if generator.random() < 0.3:
            tables.append(columns[first] * 3 + columns[second])
    table = np.array([one == cell for one in tables for cell in np.unique(one)], dtype=float)
    if generator.random() < 0.2:
        table *= generator.integers(1, 4, owner.size)
    laplace = {"gaussian": 0.0, "laplace": 1.0, "mixed": 0.5}[law]
    return Persons(
        table=table,
        owner=owner,
        scales=np.full(len(table), noise),
        laplace=generator.random(len(table)) < laplace,
    )
