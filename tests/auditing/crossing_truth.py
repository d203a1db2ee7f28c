"""The truth about a crossing, from its raw SQL's answers: ranks, linear attacks, exact risks, epsilon."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import fmpq, fmpq_mat
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from tests.auditing.crossings import BOUNDS, NODES, Crossing

MOST_WORLDS = 3_000
_MOST_ENTRIES = 3_000_000  # worlds × answers of a quadrature
_SAMPLES = 500  # of answers, where that would be more


@dataclass(frozen=True, kw_only=True, eq=False)
class Share:
    """What the best attack leaves of a feature, as a share of its variance, and how far that may be off."""

    value: float
    error: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """Numbers that are a sum over coordinates: ``added`` is coordinates × levels × numbers."""

    crossing: Crossing
    start: np.ndarray
    added: np.ndarray
    laws: list[str]  # of each number
    scales: np.ndarray  # the parameter of each number's law
    copies: np.ndarray

    # ------------------------------------------------------------ who is identifiable

    @cached_property
    def linear(self) -> np.ndarray:
        """Which numbers are linear in the secret: for a category each is, in its indicators."""
        if self.crossing.kind != "number":
            return np.ones(self.added.shape[2], dtype=bool)
        low, high = BOUNDS
        shares = (np.array(self.crossing.levels) - low) / (high - low)
        away = self.added - shares[None, :, None] * self.added[:, 1:2]
        return np.asarray(np.abs(away).max(axis=(0, 1), initial=0.0) < 1e-9)

    def columns(self) -> tuple[np.ndarray, int]:
        """Linear numbers × indicators of the values of a coordinate; how many of them a coordinate has."""
        if self.crossing.kind == "category":
            centred = self.added - self.added.mean(axis=1, keepdims=True)
            flat = centred.reshape(-1, self.added.shape[2]).T
            return flat[self.linear], self.added.shape[1]
        return self.added[:, 1].T[self.linear], 1

    def identifiable(self, person: str) -> bool:
        """Whether something of a person's coordinates follows from the numbers without noise.

        That is so if the numbers have a smaller rank without the person's columns.
        """
        table, each = self.columns()
        own = [each * place + c for place in self.crossing.persons[person] for c in range(each)]
        return _rank(table) > _rank(np.delete(table, own, axis=1))

    # ------------------------------------------------------------ the best linear attack

    @cached_property
    def variance(self) -> float:
        """Of one coordinate, or of whether it has one category."""
        if self.crossing.kind == "category":
            count = len(self.crossing.levels)
            return (count - 1) / count**2
        values, chances = self.crossing.nodes
        return float(chances @ values**2 - (chances @ values) ** 2)

    @cached_property
    def noise_variances(self) -> np.ndarray:
        each = [noise_variance(law, float(p)) for law, p in zip(self.laws, self.scales, strict=True)]
        return np.asarray(np.array(each) / self.copies)

    def best_linear(self, person: str) -> float:
        """The least share that a linear attack leaves of a person's value, or of a feature of their rows.

        Of a number or a yes or no; it uses the numbers that are linear in the secret.
        """
        values, _ = self.crossing.nodes
        reach = BOUNDS[1] - BOUNDS[0] if self.crossing.kind == "number" else values[1] - values[0]
        rows = self.columns()[0] / reach
        total = self.variance * rows @ rows.T + np.diag(self.noise_variances[self.linear])
        seen = rows.T @ np.linalg.pinv(total, 1e-13, True) @ rows
        own = np.ix_(self.crossing.persons[person], self.crossing.persons[person])
        return float(np.linalg.eigvalsh(np.eye(len(own[0])) - self.variance * seen[own])[0])

    # ------------------------------------------------------------ exact risks

    def risks(
        self, features: dict[str, np.ndarray], random: np.random.Generator, *, alone: list[int] | None = None
    ) -> dict[str, Share] | None:
        """The Bayes risk of features (coordinates × nodes), each a sum over coordinates, over their variance.

        ``alone`` leaves these coordinates to an attacker who knows all others. None if there are too many
        worlds, or if the noise is finer than the nodes of a number's prior.
        """
        values, chances = self.crossing.nodes
        places = list(range(len(self.added))) if alone is None else alone
        if len(values) ** len(places) > MOST_WORLDS or not self.added.shape[2] or self._too_fine(places):
            return None
        worlds = np.array(list(itertools.product(range(len(values)), repeat=len(places))))
        weights = np.prod(chances[worlds], axis=1)
        added = self.added[:, self.crossing.level_of_node]
        means = sum(added[place][worlds[:, i]] for i, place in enumerate(places))
        assert isinstance(means, np.ndarray)
        told = np.array([sum(f[p][worlds[:, i]] for i, p in enumerate(places)) for f in features.values()]).T
        varies = np.ptp(means, axis=0) > 1e-12
        if not varies.any():
            return {name: Share(value=1.0, error=0.0) for name in features}
        each = np.repeat(np.flatnonzero(varies), self.copies[varies])
        laws, scales = [self.laws[n] for n in each], self.scales[each]
        risk, error = _bayes(weights, means[:, each], laws, scales, told, random)
        before = weights @ told**2 - (weights @ told) ** 2
        shares = {}
        for place, name in enumerate(features):
            shares[name] = Share(
                value=float(risk[place] / before[place]), error=float(error[place] / before[place])
            )
        return shares

    def _too_fine(self, places: list[int]) -> bool:
        """Whether the numbers tell a coordinate, all others known, better than a node from the next."""
        if len(self.crossing.nodes[0]) != NODES:
            return False
        if "none" in self.laws:
            return True
        reach = np.abs(self.added[places, 1])
        gap = (BOUNDS[1] - BOUNDS[0]) / NODES
        if "laplace" in self.laws:
            return bool(np.any(reach * gap / (BOUNDS[1] - BOUNDS[0]) > 0.4 * self.scales))
        sharp = np.sqrt(np.sum((reach / self.scales) ** 2 * self.copies, axis=1)) / (BOUNDS[1] - BOUNDS[0])
        return bool(np.any(sharp * gap > 0.8) or not self.linear.all())

    def features(self, person: str, yes: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """What is asked of a person: each coordinate, and every sum of some; of categories, each of them.

        Of a yes-or-no question, whether it is ``yes``, node by node.
        """
        values, _ = self.crossing.nodes
        own = self.crossing.persons[person]
        kinds = {"": values if yes is None else yes.astype(float)}
        if self.crossing.kind == "category" and yes is None:
            kinds = {name: np.equal(values, i).astype(float) for i, name in enumerate(self.crossing.levels)}
        found: dict[str, np.ndarray] = {}
        for name, kind in kinds.items():
            some = itertools.chain.from_iterable(
                itertools.combinations(own, size + 1) for size in range(len(own))
            )
            for number, places in enumerate(some):
                feature = np.zeros((len(self.added), len(values)))
                feature[list(places)] = kind
                found[f"{name}{number or ''}"] = feature
        return found

    # ------------------------------------------------------------ epsilon

    def epsilon(self, delta: float) -> float:
        """The epsilon at delta that the noise has, at least: exact for Gaussian noise alone.

        The largest over all changes of the secrets of one person whom the attacker does not know.
        """
        most = 0.0
        gaussian = np.array([law in ("gaussian", "discrete-gaussian") for law in self.laws], dtype=bool)
        for change in self._changes():
            ratios = np.abs(change) / self.scales
            mu = math.sqrt(float(np.sum((ratios**2 * self.copies)[gaussian])))
            losses = ratios[~gaussian]
            most = max(most, gaussian_epsilon(mu, delta), *(one + 2 * math.log1p(-delta) for one in losses))
        return most

    def _changes(self) -> list[np.ndarray]:
        """How the numbers change between two secrets of one person."""
        found = []
        for own in self.crossing.persons.values():
            pairs = list(itertools.product(range(self.added.shape[1]), repeat=2))
            if self.crossing.kind == "number":
                pairs = [(0, 1), (1, 0), (0, 0)]
            for moves in itertools.product(pairs, repeat=len(own)):
                found.append(
                    sum(self.added[p, b] - self.added[p, a] for p, (a, b) in zip(own, moves, strict=True))
                )
        return found


def noise_variance(law: str, parameter: float) -> float:
    """The variance of a law with its own parameter."""
    match law:
        case "laplace":
            return 2 * parameter**2
        case "geometric":
            return 0.5 / math.sinh(0.5 / parameter) ** 2
        case "none":
            return 0.0
    return parameter**2


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at delta of Gaussian noise that moves by ``mu`` of its standard deviations."""

    def excess(epsilon: float) -> float:
        second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
        return float(ndtr(-epsilon / mu + mu / 2)) - math.exp(min(second, 700.0)) - delta

    if mu == 0 or excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, mu**2 + 20 * mu + 1, xtol=1e-12))


def _rank(table: np.ndarray) -> int:
    """Over the rationals; entries are small fractions, of which rounding is taken away."""
    if not table.size:
        return 0
    exact = [[Fraction(float(one)).limit_denominator(10_000) for one in row] for row in table]
    return int(fmpq_mat([[fmpq(one.numerator, one.denominator) for one in row] for row in exact]).rank())


def _bayes(
    weights: np.ndarray,
    means: np.ndarray,
    laws: list[str],
    scales: np.ndarray,
    told: np.ndarray,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The mean posterior variance of each feature, and how far it may be off."""
    exact = [place for place, law in enumerate(laws) if law == "none"]
    noisy = [place for place, law in enumerate(laws) if law != "none"]
    risk, error = np.zeros(told.shape[1]), np.zeros(told.shape[1])
    _, group = np.unique(np.round(means[:, exact], 9), axis=0, return_inverse=True)
    for one in range(int(group.max()) + 1 if exact else 1):
        own = group.ravel() == one if exact else np.ones(len(weights), dtype=bool)
        found, off = _noisy(
            weights[own], means[own][:, noisy], [laws[i] for i in noisy], scales[noisy], told[own], random
        )
        risk, error = risk + found, error + off
    return risk, error


def _noisy(
    weights: np.ndarray,
    means: np.ndarray,
    laws: list[str],
    scales: np.ndarray,
    told: np.ndarray,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The same of worlds that exact numbers do not tell apart; not divided by their chance."""
    count = len(laws)
    told = told - weights @ told / weights.sum()  # so that what does not vary has no error
    if count == 0:
        return weights @ told**2, np.full(told.shape[1], 1e-12)
    axes = [_axis(means[:, i], law, scale) for i, (law, scale) in enumerate(zip(laws, scales, strict=True))]
    points_in_all = math.prod(len(places) for places, _ in axes)
    if points_in_all * len(weights) <= _MOST_ENTRIES:
        points = np.stack([one.ravel() for one in np.meshgrid(*(a for a, _ in axes), indexing="ij")], axis=1)
        measure = np.prod(np.meshgrid(*(w for _, w in axes), indexing="ij"), axis=0).ravel()
        evidence = weights * np.exp(_log_density(points, means, laws, scales)) * measure[:, None]
        total = evidence.sum(axis=1)
        mean = (evidence @ told) / np.maximum(total, 1e-300)[:, None]
        risk = weights @ told**2 - (total[:, None] * mean**2).sum(axis=0)
        return risk, weights @ told**2 * (1e-5 + 4 * abs(1 - total.sum() / weights.sum())) + 1e-12
    chance = weights / weights.sum()
    drawn = random.choice(len(weights), size=_SAMPLES, p=chance)
    points = means[drawn] + np.stack(
        [_sampled(law, s, random) for law, s in zip(laws, scales, strict=True)], 1
    )
    log = _log_density(points, means, laws, scales) + np.log(weights)
    posterior = np.exp(log - log.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    variance = posterior @ told**2 - (posterior @ told) ** 2
    # What 8 samples in 1/_SAMPLES of all would miss is not seen in their spread.
    rare = 8 / _SAMPLES * np.ptp(told, axis=0) ** 2 / 4
    off = 5 * variance.std(axis=0) / math.sqrt(_SAMPLES) + rare
    return weights.sum() * variance.mean(axis=0), weights.sum() * off


def _axis(means: np.ndarray, law: str, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Places of one answer and their measure: whole numbers, or Gauss' between the kinks of a density."""
    if law in ("discrete-gaussian", "geometric"):
        reach = math.ceil(scale * (8 if law == "discrete-gaussian" else 32))
        whole = np.arange(math.floor(means.min()) - reach, math.ceil(means.max()) + reach + 1)
        log = _log_density(whole[:, None] - whole.mean(), np.zeros((1, 1)), [law], np.array([scale]))
        return whole.astype(float), np.full(len(whole), 1 / np.exp(log).sum())
    kinks = np.unique(np.round(means, 9)) if law == "laplace" else np.array([means.min(), means.max()])
    tails = np.array([4, 10, 20, 35]) if law == "laplace" else np.array([2, 4, 6, 8.5])
    ends = np.concatenate([kinks[0] - scale * tails[::-1], kinks, kinks[-1] + scale * tails])
    # A posterior changes from one world to another over a scale divided by how many scales they are apart.
    finest = max(0.3 * scale, 2.5 * scale / (1 + np.ptp(means) / (3 * scale)))
    places, measure = [], []
    for low, high in itertools.pairwise(ends):
        pieces = max(1, math.ceil((high - low) / finest))
        for piece in range(pieces):
            half = (high - low) / pieces / 2
            places.append(low + half * (2 * piece + 1 + _GAUSS[0]))
            measure.append(half * _GAUSS[1])
    return np.concatenate(places), np.concatenate(measure)


_GAUSS = np.polynomial.legendre.leggauss(6)


def _log_density(points: np.ndarray, means: np.ndarray, laws: list[str], scales: np.ndarray) -> np.ndarray:
    found = np.zeros((len(points), len(means)))
    for place, (law, scale) in enumerate(zip(laws, scales, strict=True)):
        away = points[:, place, None] - means[:, place]
        if law in ("gaussian", "discrete-gaussian"):
            found -= away**2 / (2 * scale**2) + math.log(scale * math.sqrt(2 * math.pi))
        else:
            found -= np.abs(away) / scale + math.log(2 * scale)
    return found


def _sampled(law: str, scale: float, random: np.random.Generator) -> np.ndarray:
    match law:
        case "gaussian":
            return random.normal(0, scale, _SAMPLES)
        case "laplace":
            return random.laplace(0, scale, _SAMPLES)
    whole = np.arange(-400, 401)
    log = -(whole**2) / (2 * scale**2) if law == "discrete-gaussian" else -np.abs(whole) / scale
    return random.choice(whole, size=_SAMPLES, p=np.exp(log) / np.exp(log).sum()).astype(float)
