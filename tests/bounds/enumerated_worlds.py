"""Exact Bayes risks of rows with few values, by listing all worlds: nothing is taken from the engine."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from sightline.bounds.coin import CoinPrior
from sightline.bounds.priors import TwoPointPrior
from sightline.units.design import Design, MadeOfUnits
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.unit_block import ONE
from sightline.units.units import Units


def _log_likelihoods(answers: np.ndarray, seen: np.ndarray, laplace: np.ndarray) -> np.ndarray:
    """Answers × worlds, up to a constant for every answer: numbers over their noise."""
    fit = answers[:, ~laplace] @ seen[:, ~laplace].T - (seen[:, ~laplace] ** 2).sum(axis=1) / 2
    for column in np.flatnonzero(laplace):
        fit -= np.abs(answers[:, column, None] - seen[:, column])
    return np.asarray(fit)


@dataclass(frozen=True, kw_only=True)
class Few:
    """Rows with k values each: ``counted[number, row, value]``, noise by number; Laplace where it says so."""

    counted: np.ndarray
    scales: np.ndarray
    laplace: np.ndarray
    exact: np.ndarray

    @property
    def values(self) -> int:
        return int(self.counted.shape[2])

    def worlds(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every world the value of each row, and the exact numbers."""
        numbers, rows, k = self.counted.shape
        worlds = np.array(list(itertools.product(range(k), repeat=rows)))
        answers = sum(self.counted[:, row, worlds[:, row]] for row in range(rows))
        return worlds, np.asarray(answers).T.reshape(len(worlds), numbers)

    def shares(self, chances: np.ndarray, worlds: np.ndarray) -> np.ndarray:
        """Answers × rows × values: the posterior variance of every indicator over its prior variance."""
        k = self.values
        held = np.eye(k)[worlds].reshape(len(worlds), -1)
        posterior = chances @ held
        return np.asarray((posterior * (1 - posterior)).reshape(len(chances), -1, k) * k**2 / (k - 1))

    def without_noise(self) -> np.ndarray:
        """Rows × values: what the exact numbers leave."""
        worlds, answers = self.worlds()
        _, group, size = np.unique(answers, axis=0, return_inverse=True, return_counts=True)
        chances = (group.ravel()[None] == np.arange(size.size)[:, None]) / size[:, None]
        return np.tensordot(size / size.sum(), self.shares(chances, worlds), axes=1)

    def simulated(self, draws: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The risk as a mean over drawn answers, and its standard error."""
        worlds, answers = self.worlds()
        noisy, law = ~self.exact, self.laplace[~self.exact]
        seen = answers[:, noisy] / self.scales[noisy]
        total = []
        for _ in range(draws // 250):
            truth = generator.integers(0, len(worlds), 250)
            noise = np.where(
                law, generator.laplace(size=(250, law.size)), generator.standard_normal((250, law.size))
            )
            fit = _log_likelihoods(seen[truth] + noise, seen, law)
            same = np.all(answers[truth][:, None, self.exact] == answers[:, self.exact], axis=2)
            fit = np.where(same, fit, -np.inf)
            chances = np.exp(fit - fit.max(axis=1, keepdims=True))
            total.append(self.shares(chances / chances.sum(axis=1, keepdims=True), worlds))
        every = np.concatenate(total)
        return every.mean(axis=0), every.std(axis=0) / np.sqrt(len(every))

    def sharpest(self, owner: np.ndarray, draws: int, generator: np.random.Generator) -> np.ndarray:
        """Persons × values: what is left of the feature of a person's rows that is seen best, simulated."""
        worlds, answers = self.worlds()
        k, noisy, law = self.values, ~self.exact, self.laplace[~self.exact]
        seen, given = answers[:, noisy] / self.scales[noisy], answers[:, self.exact]
        held, found = np.eye(k)[worlds], []
        truth = generator.integers(0, len(worlds), draws)
        noise = np.where(
            law, generator.laplace(size=(draws, law.size)), generator.standard_normal((draws, law.size))
        )
        second, means = 0.0, []
        for some in np.array_split(np.arange(draws), max(1, draws * answers.size // 10_000_000)):
            fit = _log_likelihoods(seen[truth[some]] + noise[some], seen, law)
            fit = np.where(np.all(given[truth[some], None] == given, axis=2), fit, -np.inf)
            chances = np.exp(fit - fit.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            second += chances.sum(axis=0) / draws
            means.append(np.tensordot(chances, held, axes=1))
        mean = np.concatenate(means)
        for person in range(int(owner.max()) + 1):
            own = np.flatnonzero(owner == person)
            for value in range(k):
                one, guess = held[:, own, value], mean[:, own, value]
                left = (one * np.reshape(second, (-1, 1))).T @ one - guess.T @ guess / draws
                found.append(np.linalg.eigvalsh(left)[0] * k**2 / (k - 1))
        return np.maximum(np.reshape(found, (-1, k)), 0.0)

    def of_persons(self, owner: np.ndarray) -> Design:
        """The same as persons: whose each row is. Equal rows of a person are one column."""
        numbers, k = len(self.counted), self.values
        each, single = k if k > 2 else 1, self.design()
        assert isinstance(single.units, Units)
        columns = single.units.rows.reshape(-1, each, single.units.rows.shape[1])
        weights = single.units.weights
        starts, kinds, times = [0], [], []
        for person in range(int(owner.max()) + 1):
            own, count = np.unique(single.place[owner == person], return_counts=True)
            kinds += own.tolist()
            times += np.repeat(count, each).tolist()
            starts.append(len(times))
        units = Units(
            rows=columns[kinds].reshape(-1, columns.shape[2]),
            weights=weights.reshape(columns.shape)[kinds].reshape(-1, columns.shape[2]),
            numbers=numbers,
            starts=np.array(starts),
            times=np.array(times),
            people=np.ones(len(starts) - 1, dtype=np.intp),
            each=each,
        )
        return replace(single, units=units, place=np.arange(len(units)), made=MadeOfUnits())

    def integrated(self, steps: int = 300) -> np.ndarray:
        """The risk by the trapezoidal rule over one or two answers with noise."""
        worlds, answers = self.worlds()
        noisy = ~self.exact
        assert noisy.sum() in (1, 2)
        seen, law = answers[:, noisy] / self.scales[noisy], self.laplace[noisy]
        axes = [
            np.linspace(
                column.min() - 9 - 25 * flag, column.max() + 9 + 25 * flag, steps * (1 + 6 * int(flag))
            )
            for column, flag in zip(seen.T, law, strict=True)
        ]
        cell = np.prod([axis[1] - axis[0] for axis in axes])
        risk = np.zeros((worlds.shape[1], self.values))
        groups = np.unique(answers[:, self.exact], axis=0, return_inverse=True)[1].ravel()
        for group in range(groups.max() + 1):
            own = groups == group
            for line in axes[0]:
                points = np.stack(np.meshgrid([line], *axes[1:], indexing="ij"), axis=-1).reshape(
                    -1, noisy.sum()
                )
                away = points[:, None, :] - seen[own]
                density = np.where(
                    law, np.exp(-np.abs(away)) / 2, np.exp(-(away**2) / 2) / np.sqrt(2 * np.pi)
                )
                joint = density.prod(axis=2) / len(worlds)
                mass = joint.sum(axis=1, keepdims=True)
                chances = np.where(mass > 0, joint / np.where(mass > 0, mass, 1.0), 0.0)
                risk += cell * np.tensordot(mass[:, 0], self.shares(chances, worlds[own]), axes=1)
        return risk

    def design(self) -> Design:
        """The same as units of one row each; equal rows are one kind."""
        numbers, rows, k = self.counted.shape
        each = k if k > 2 else 1
        columns = self.counted[:, :, -each:].transpose(1, 2, 0)  # of a yes or no that of the yes
        distinct, place = np.unique(columns.reshape(rows, -1), axis=0, return_inverse=True)
        lines = distinct.reshape(-1, numbers)
        width = max(1, int(np.count_nonzero(lines, axis=1).max()))
        order = np.argsort(lines == 0, axis=1, kind="stable")[:, :width]
        values = np.take_along_axis(lines, order, axis=1).astype(np.float64)
        plain = bool(np.all((values == 0) | (values == 1)))
        ones = np.ones(numbers)
        stddevs = self.scales * np.sqrt(1.0 + self.laplace)
        noise = RowNoise.of(
            np.where(self.exact, 1e-8, self.scales),
            np.where(self.exact, 1e-8, stddevs),
            np.where(self.exact, 0.0, self.laplace.astype(float)),
            ones,
            exact=self.exact,
        )
        target = TwoPointPrior(0.0, 1.0) if k == 2 else CoinPrior(share=1 / k)
        return Design(
            units=Units(
                rows=np.where(values != 0, order, numbers).astype(np.int32),
                weights=ONE if plain else values,
                numbers=numbers,
                starts=np.arange(len(distinct) + 1) * each,
                times=np.ones(len(lines), dtype=np.intp),
                people=np.bincount(place.ravel()),
                each=each,
                distinct=True,
            ),
            noise=noise,
            prior=UnitPrior(target=target, categories=1 if k == 2 else k),
            release=np.arange(numbers),
            place=place.ravel(),
        )


def few(
    generator: np.random.Generator,
    *,
    rows: int,
    values: int,
    noise: float,
    law: str = "gaussian",
    exact: bool = False,
    most: int = 3,
) -> Few:
    """Rows in the cells of some columns and pairs of columns, as tables publish them."""
    columns = generator.integers(0, generator.integers(2, 4), (int(generator.integers(1, most + 1)), rows))
    tables = list(columns)
    for first, second in itertools.combinations(range(len(columns)), 2):
        if generator.random() < 0.5:
            tables.append(columns[first] * 3 + columns[second])
    numbers = []
    for table in tables:
        for cell in np.unique(table):
            for value in range(1, values) if values > 2 else (1,):
                held = np.zeros((rows, values))
                held[table == cell, value] = 1.0
                numbers.append(held)
    counted = np.array(numbers)
    if generator.random() < 0.2:
        counted *= generator.integers(1, 4, rows)[:, None]  # rows with weights
    laplace = {
        "gaussian": np.zeros(len(counted), bool),
        "laplace": np.ones(len(counted), bool),
        "mixed": generator.random(len(counted)) < 0.5,
    }[law]
    without = np.zeros(len(counted), bool)
    if exact:
        without[generator.integers(0, len(counted))] = True
    return Few(counted=counted, scales=np.full(len(counted), noise), laplace=laplace, exact=without)
