"""Every family of release, with a second formula for it and the corners of its domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import sightline as sl


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    name: str
    query: Any
    formula: Callable[[Any, Any], Any]  # (array module, members' values (m, p)) -> outputs
    corners: np.ndarray  # (c, p): values of one record, extreme for the sensitivity
    attained: bool = True  # some neighbours reach the stated sensitivity
    symmetric: bool = True  # the members of one cell may be permuted

    def __str__(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        """Enough records, and three more that belong to nothing."""
        return int(self.query.members[-1]) + 4

    def sample(self, rng: np.random.Generator, *, shrink: float = 1.0) -> np.ndarray:
        """Records in the domain, which is the convex hull of the corners."""
        mix = rng.dirichlet(np.full(len(self.corners), 0.4), size=self.size)
        return np.asarray(shrink * mix @ self.corners)


def box(bound: float, *more: float) -> np.ndarray:
    return np.array([[-bound], [bound], [0.0], *([x] for x in more)])


def ball(diameter: float, dimension: int) -> np.ndarray:
    """Points of the ball's surface: the axes, and the diagonals where the L1 norm is largest."""
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * dimension)).reshape(dimension, -1).T
    surface = np.concatenate([np.eye(dimension), -np.eye(dimension), signs / np.sqrt(dimension)])
    return 0.5 * diameter * surface


def power_mean(order: int) -> Callable[[Any, Any], Any]:
    return lambda xp, x: xp.mean(x**order, axis=0)


def logistic(at: float, tau: float) -> Callable[[Any, Any], Any]:
    return lambda xp, x: xp.mean(1.0 / (1.0 + xp.exp(-(x - at) / tau)), axis=0)


def raised_cosine(at: float, tau: float) -> Callable[[Any, Any], Any]:
    def formula(xp: Any, x: Any) -> Any:
        w = xp.clip((x - at) / tau, -1.0, 1.0)
        return xp.mean(0.5 + w / 2 + xp.sin(np.pi * w) / (2 * np.pi), axis=0)

    return formula


KERNELS: tuple[tuple[Any, Callable[[float, float], Any]], ...] = (
    ("logistic", logistic),
    ("compact", raised_cosine),
)
STEPS: tuple[tuple[float, float, Any], ...] = (
    (0.3, 0.4, "tight"),
    (-2.0, 9.0, "tight"),
    (0.3, 0.4, "uniform"),
)


def variance(xp: Any, x: Any) -> Any:
    return xp.mean((x - xp.mean(x)) ** 2, axis=0)


THREE = [5, 0, 2]
WHOLE = np.array([[2.0], [-3.0], [1.0]])
REAL = np.array([[0.5], [-1.25], [np.pi]])

CASES = [
    Case(
        name="mean",
        query=sl.SubsetMean(members=THREE, radius=3.0),
        formula=lambda xp, x: xp.sum(x, axis=0) / 3,
        corners=box(1.5),
    ),
    Case(
        name="mean of one",
        query=sl.SubsetMean(members=[4], radius=0.25),
        formula=lambda xp, x: x[0],
        corners=box(0.125),
    ),
    Case(
        name="mean of vectors",
        query=sl.SubsetMean(members=THREE, radius=2.0, dimension=3),
        formula=lambda xp, x: xp.sum(x, axis=0) / 3,
        corners=ball(2.0, 3),
    ),
    Case(
        name="sum",
        query=sl.SubsetSum(members=range(1, 8, 2), radius=10.0),
        formula=lambda xp, x: x[0] + x[1] + x[2] + x[3],
        corners=box(5.0),
    ),
    Case(
        name="sum of vectors",
        query=sl.SubsetSum(members=THREE, radius=1.0, dimension=2),
        formula=lambda xp, x: x[0] + x[1] + x[2],
        corners=ball(1.0, 2),
    ),
    Case(
        name="whole weights",  # given as 5, 0, 2; the formula sees the members sorted: 0, 2, 5
        query=sl.WeightedSum(members=THREE, weights=[1.0, 2.0, -3.0], radius=2.0),
        formula=lambda xp, x: xp.sum(WHOLE * x, axis=0),
        corners=box(1.0),
        symmetric=False,
    ),
    Case(
        name="real weights on vectors",
        query=sl.WeightedSum(members=THREE, weights=[np.pi, 0.5, -1.25], radius=2.0, dimension=2),
        formula=lambda xp, x: xp.sum(REAL * x, axis=0),
        corners=ball(2.0, 2),
        symmetric=False,
    ),
    *(
        Case(
            name=f"moment {order} {convention}",
            query=sl.Moment(order=order, members=THREE, bound=1.5, convention=convention),
            formula=power_mean(order),
            corners=box(1.5),
            attained=convention == "tight" or order % 2 == 1,
        )
        for order in (1, 2, 3, 8)
        for convention in ("tight", "uniform")
    ),
    *(
        Case(
            name=f"{kernel} at {at}, bandwidth {tau}, {convention}",
            query=sl.SmoothThreshold(
                at=at, members=THREE, bound=2.0, bandwidth=tau, kernel=kernel, convention=convention
            ),
            formula=formula(at, tau),
            corners=box(2.0, at),
            attained=convention == "tight",
        )
        for kernel, formula in KERNELS
        for at, tau, convention in STEPS
    ),
    Case(
        name="cells",
        query=sl.Cells(
            cells=[
                sl.SubsetMean(members=[6, 0], radius=2.0),
                sl.SubsetSum(members=[3], radius=2.0),
                sl.SubsetMean(members=[1, 4, 5], radius=2.0),
            ]
        ),
        # sorted members: 0, 1, 3, 4, 5, 6
        formula=lambda xp, x: xp.concatenate([(x[0] + x[5]) / 2, x[2], (x[1] + x[3] + x[4]) / 3]),
        corners=box(1.0),
    ),
    Case(
        name="cells of vectors",
        query=sl.Cells(
            cells=[
                sl.SubsetMean(members=[2, 0], radius=2.0, dimension=2),
                sl.SubsetSum(members=[1], radius=2.0, dimension=2),
            ]
        ),
        formula=lambda xp, x: xp.concatenate([(x[0] + x[2]) / 2, x[1]]),
        corners=ball(2.0, 2),
    ),
    Case(
        name="nonlinear cells",
        query=sl.Cells(
            cells=[
                sl.Moment(order=2, members=[0, 3], bound=1.0),
                sl.SmoothThreshold(at=0.1, members=[1, 2], bound=1.0, bandwidth=0.5),
            ]
        ),
        formula=lambda xp, x: xp.concatenate(
            [(x[0] ** 2 + x[3] ** 2) / 2, logistic(0.1, 0.5)(xp, x[1:3])],
        ),
        corners=box(1.0),
    ),
    Case(
        name="variance by autodiff",
        query=sl.DeepSet(
            feature=lambda x: jnp.stack([x, x * x]),
            readout=lambda s: s[1] / 3 - (s[0] / 3) ** 2,
            members=THREE,
            sensitivity=8 / 9,
        ),
        formula=variance,
        corners=box(1.0),
    ),
    Case(
        name="vectors by autodiff",  # mean of each coordinate: outputs 2, stated for one number and for each
        query=sl.DeepSet(
            feature=lambda x: jnp.stack([x, x]),
            readout=lambda s: s[1] / 3,
            members=THREE,
            sensitivity=1 / 3,
            sensitivity_l1=[np.sqrt(2) / 3, np.sqrt(2) / 3],
            dimension=2,
            outputs=2,
        ),
        formula=lambda xp, x: xp.mean(x, axis=0),
        corners=ball(1.0, 2),
    ),
]
