"""Write the tables of scalar risks that the package ships: ``python tools/risk_tables.py``."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sightline.arrays import ROUNDING, FloatArray
from sightline.bounds import scalar_risk
from sightline.bounds.scalar_risk import LAPLACE_GRID, Grid

_REACH = 9.0  # of an integral over Gaussian noise, in standard deviations
_STEP = 0.5  # between answers, in standard deviations: the error falls as exp(−2π · 2.8 / step)
_POINTS, _MASSES = np.polynomial.legendre.leggauss(64)
_DEEP = 40.0  # exp(−_DEEP) is nothing
_LAPLACE_POINTS, _LAPLACE_MASSES = np.polynomial.legendre.leggauss(48)


def deficits(risk: Callable[[FloatArray], FloatArray], grid: Grid) -> FloatArray:
    """The deficits at the nodes of a grid, of a risk that is lowered by the margin."""
    nodes = grid.nodes()
    # The running maximum changes nothing but rounding.
    return np.maximum.accumulate(1 / (risk(nodes) * (1 - ROUNDING)) - nodes)


def uniform_risk(information: FloatArray) -> FloatArray:
    """The Bayes risk of a uniform number.

    >>> (12 * uniform_risk(np.array([0.35**-2]))).round(6).tolist()
    [0.587216]
    """
    return _density_risk(np.ones_like, information)


def cosine_risk(information: FloatArray) -> FloatArray:
    """The Bayes risk of a number with the cos² density."""
    return _density_risk(lambda x: np.square(np.cos(np.pi * x)), information)


def _density_risk(density: Callable[[FloatArray], FloatArray], information: FloatArray) -> FloatArray:
    """For a density on [−1/2, 1/2], not necessarily normalised."""
    found = np.empty(np.size(information))
    points, masses = _POINTS / 2, density(_POINTS / 2) * _MASSES / 2
    scale = float(np.sum(masses))
    for i, G in enumerate(np.atleast_1d(information)):
        noise = G**-0.5
        answers = np.arange(0.0, 0.5 + _REACH * noise, _STEP * noise)[:, None]
        if noise > 0.25:
            x, weights = points, masses * np.exp(-np.square((answers - points) / noise) / 2)
        else:
            low = np.clip(answers - _REACH * noise, -0.5, 0.5)
            high = np.clip(answers + _REACH * noise, -0.5, 0.5)
            x = (low + high) / 2 + (high - low) / 2 * _POINTS
            weights = density(x) * np.exp(-np.square((answers - x) / noise) / 2) * _MASSES * (high - low) / 2
        evidence = np.sum(weights, axis=1)
        seen = evidence > 0
        mean = np.sum(weights * x, axis=1)[seen] / evidence[seen]
        offsets = np.broadcast_to(x, weights.shape)[seen] - mean[:, None]
        spread = np.sum(weights[seen] * np.square(offsets), axis=1)
        # Even in the answer: all but the first count twice.
        spread[1:] *= 2
        found[i] = _STEP * np.sum(spread) / math.sqrt(2 * math.pi) / scale
    return found


def uniform_laplace_risk(information: FloatArray) -> FloatArray:
    """The Bayes risk of a uniform number that is seen in one Laplace answer.

    >>> (12 * uniform_laplace_risk(np.array([1.0, 100.0]))).round(4).tolist()
    [0.9359, 0.1697]
    """
    return _laplace_density_risk(np.ones_like, information)


def cosine_laplace_risk(information: FloatArray) -> FloatArray:
    """The Bayes risk of a number with the cos² density that is seen in one Laplace answer."""
    return _laplace_density_risk(lambda x: 2 * np.square(np.cos(np.pi * x)), information)


def falling_values(risk: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """A risk at the nodes of the grid, lowered by the margin."""
    # The running minimum changes nothing but rounding.
    return np.minimum.accumulate(risk(LAPLACE_GRID.nodes()) * (1 - ROUNDING))


def _laplace_density_risk(density: Callable[[FloatArray], FloatArray], information: FloatArray) -> FloatArray:
    """For a normalised even density on [−1/2, 1/2]."""
    found = np.empty(np.size(information))
    for i, G in enumerate(np.atleast_1d(information)):
        u = math.sqrt(G)
        layer = min(0.5, _DEEP / u)
        # Answers from the middle of the domain to its end, with a layer of its own at the end.
        y = [0.5 - layer + layer * (1 + _LAPLACE_POINTS) / 2]
        masses = [layer * _LAPLACE_MASSES / 2]
        if layer < 0.5:
            y.append((0.5 - layer) * (1 + _LAPLACE_POINTS) / 2)
            masses.append((0.5 - layer) * _LAPLACE_MASSES / 2)
        inside = np.concatenate(masses) @ (_spread(density, np.concatenate(y), u) * u / 2)
        # Any answer beyond the end leaves the posterior of an answer at the end; together they weigh 1/u.
        beyond = _spread(density, np.array([0.5]), u)[0] / 2
        found[i] = 2 * (inside + beyond)
    return found


def _spread(density: Callable[[FloatArray], FloatArray], y: FloatArray, u: float) -> FloatArray:
    """∫ (x − mean)² p(x) exp(−u|x − y|) dx for every answer y in the domain."""
    below = np.minimum(y + 0.5, _DEEP / u)[:, None]
    above = np.minimum(0.5 - y, _DEEP / u)[:, None]
    x = np.concatenate(
        [y[:, None] - below * (1 + _LAPLACE_POINTS) / 2, y[:, None] + above * (1 + _LAPLACE_POINTS) / 2],
        axis=1,
    )
    lengths = np.concatenate([below * _LAPLACE_MASSES / 2, above * _LAPLACE_MASSES / 2], axis=1)
    weights = density(x) * np.exp(-u * np.abs(x - y[:, None])) * lengths
    mean = np.sum(weights * x, axis=1) / np.sum(weights, axis=1)
    return np.asarray(np.sum(weights * np.square(x - mean[:, None]), axis=1))


def computed() -> dict[str, np.ndarray]:
    """Every table, from its integrals."""
    densities, two_point = scalar_risk.DENSITY_GRID, scalar_risk.TWO_POINT_GRID
    return {
        "uniform": deficits(uniform_risk, densities),
        "cos2": deficits(cosine_risk, densities),
        "two_point": deficits(scalar_risk.two_point_risk, two_point),
        "uniform_laplace": falling_values(uniform_laplace_risk),
        "cos2_laplace": falling_values(cosine_laplace_risk),
    }


if __name__ == "__main__":
    place = Path(scalar_risk.__file__).with_name(scalar_risk.FILE)
    np.savez_compressed(place, allow_pickle=False, **computed())
    print(f"{place}: {place.stat().st_size:,} bytes")
