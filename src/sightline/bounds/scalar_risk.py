r"""The least risk of a guess at one number that is seen in Gaussian noise, as a certified table.

If every other record is known, the releases say as much about :math:`x_j` as :math:`y = x_j + w` does with
noise of variance :math:`1/G_{jj}`. The risk of the best guess is then a function of one number,

.. math:: f(G) = \mathbb E\,\operatorname{Var}(x \mid y), \qquad
    f'(G) = -\mathbb E\,\operatorname{Var}(x \mid y)^2.

By Jensen's inequality :math:`f' \le -f^2`, so that the deficit :math:`D(G) = 1/f(G) - G` never falls as
:math:`G` rises. Between two nodes of a table :math:`f(G) \ge 1/(G + D(\text{next node}))`: a lower bound, and
a sharp one, since the deficit changes slowly. Here the domain has width 1. Derivations: the theory page on
priors.

The least risk of a guess at one number that is seen in Laplace noise.

A record :math:`x_j` in known company is seen through answers :math:`a_\ell x_j + w_\ell` with Laplace noise
of scale :math:`b_\ell`: with the information :math:`G = \sum_\ell a_\ell^2 / b_\ell^2`. Three facts bound its
risk. Domains have width 1. Derivations: the theory page on priors.

*A coin.* For either end of the domain, Laplace answers never tell more than a Gaussian one with the same
information: the risk is at least that of :func:`~sightline.bounds.scalar_risk.two_point_risk`. One
answer has a closed form.

*A density, one answer.* The risk is an integral. It falls as the information rises, because Laplace noise of
a larger scale is Laplace noise of a smaller one plus something independent.

*A density, any answers.* The weighted van Trees bound needs the information alone
(:mod:`~sightline.bounds.van_trees`).

The certified tables of scalar risks, read from a file that ships with the package.

``python tools/risk_tables.py`` writes the file from these functions;
a test computes every entry again.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib.resources import files

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.values import frozen

# The sums below agree with a finer quadrature to 1e-10 at every node, and with ball arithmetic where that is
# affordable. Each node of a table is lowered by ``arrays.ROUNDING``.
REACH = 9.0  # of an integral over Gaussian noise, in standard deviations


@frozen
class RiskTable:
    """A lower bound on a risk for every information, from deficits that do not fall between nodes."""

    nodes: FloatArray
    deficits: FloatArray

    def lower(self, information: FloatArray) -> FloatArray:
        """At most the risk; zero beyond the last node."""
        node = next_node(self.nodes, information)
        inside = node < self.nodes.size
        deficit = self.deficits[np.where(inside, node, -1)]
        return np.where(inside, 1 / (information + deficit), 0.0)


def next_node(nodes: FloatArray, information: FloatArray) -> IndexArray:
    """The place of the first node that is not smaller; as many as there are nodes if none is.

    The nodes are a geometric sequence, so a logarithm finds it. Searching takes several times as long.

    >>> next_node(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 1.5, 4.0, 4.5])).tolist()
    [0, 0, 1, 2, 3]
    """
    steps = np.log(np.maximum(information, nodes[0]) / nodes[0]) / math.log(nodes[1] / nodes[0])
    # Rounding may put a node just above or below its place: begin a little early, and go on if needed.
    place = np.minimum(np.ceil(steps - 1e-6), nodes.size).astype(np.intp)
    short = (nodes[np.minimum(place, nodes.size - 1)] < information) & (place < nodes.size)
    return np.asarray(place + short, dtype=np.intp)


@frozen(eq=True)
class Grid:
    """Informations from ``least`` on, each ``ratio`` times the one before."""

    least: float
    ratio: float
    count: int

    def nodes(self) -> FloatArray:
        """By products one after the other: the same doubles on every machine."""
        steps = np.full(self.count, self.ratio)
        steps[0] = self.least
        nodes = np.multiply.accumulate(steps)
        nodes.setflags(write=False)
        return nodes


DENSITY_GRID = Grid(least=1e-4, ratio=1.006, count=3_081)  # up to 1e4
TWO_POINT_GRID = Grid(least=1e-4, ratio=1.002, count=8_762)  # up to 4e3


def two_point_risk(information: FloatArray) -> FloatArray:
    r"""The Bayes risk of a coin at the ends.

    .. math:: f(G) = \tfrac14 e^{-G/8}\; \mathbb E \operatorname{sech}\tfrac{\sqrt G\,t}{2},
        \qquad t \sim N(0, 1),

    by the trapezoidal rule: the nearest poles are :math:`\pi/\sqrt G` from the line.

    >>> (4 * two_point_risk(np.array([0.35**-2]))).round(4).tolist()
    [0.2251]
    """
    root = np.sqrt(np.atleast_1d(information))
    risks = np.empty(root.size)
    for i, g in enumerate(root):
        step = 0.25 / max(1.0, g / 2)
        t = np.arange(-REACH, REACH + step, step)
        half = np.abs(g * t) / 2
        # sech z = 2 e^{−z} / (1 + e^{−2z}), which does not overflow.
        heights = np.exp(-(t**2) / 2 - half) * 2 / (1 + np.exp(-2 * half))
        risks[i] = step * np.sum(heights) / math.sqrt(2 * math.pi) * math.exp(-(g**2) / 8) / 4
    return risks


LAPLACE_GRID = Grid(least=1e-2, ratio=1.006, count=3_081)  # up to 1e6


@frozen
class FallingTable:
    """A lower bound on a function that falls: its value at the next node; zero beyond the last one."""

    nodes: FloatArray
    values: FloatArray

    def lower(self, information: FloatArray) -> FloatArray:
        node = next_node(self.nodes, information)
        inside = node < self.nodes.size
        return np.where(inside, self.values[np.where(inside, node, -1)], 0.0)


def two_point_laplace_risk(information: FloatArray) -> FloatArray:
    r"""The Bayes risk of a coin at the ends that is seen in one Laplace answer, with :math:`d = \sqrt G`.

    .. math:: \tfrac14 e^{-d/2} \bigl(\operatorname{sech}\tfrac d2 + 2 \arctan\tanh\tfrac d4\bigr)

    >>> (4 * two_point_laplace_risk(np.array([0.0, 1.0, 9.0]))).round(4).tolist()
    [1.0, 0.8292, 0.3474]
    """
    d = np.sqrt(information)
    # e^{−d/2} sech(d/2) = 2/(e^d + 1), which does not overflow in this form.
    first = 2 * np.exp(-d) / (1 + np.exp(-d))
    return np.asarray((first + 2 * np.exp(-d / 2) * np.arctan(np.tanh(d / 4))) / 4)


FILE = "risk_tables.npz"


@lru_cache(maxsize=1)
def uniform_table() -> RiskTable:
    """For a uniform number on an interval of width 1, seen in Gaussian noise."""
    return RiskTable(nodes=DENSITY_GRID.nodes(), deficits=_stored("uniform", DENSITY_GRID))


@lru_cache(maxsize=1)
def cosine_table() -> RiskTable:
    """For a number with the cos² density on an interval of width 1, seen in Gaussian noise."""
    return RiskTable(nodes=DENSITY_GRID.nodes(), deficits=_stored("cos2", DENSITY_GRID))


@lru_cache(maxsize=1)
def two_point_table() -> RiskTable:
    """For a number at either end of an interval of width 1 with probability one half, in Gaussian noise."""
    return RiskTable(nodes=TWO_POINT_GRID.nodes(), deficits=_stored("two_point", TWO_POINT_GRID))


@lru_cache(maxsize=1)
def uniform_laplace_table() -> FallingTable:
    """For a uniform number that is seen in one Laplace answer."""
    return FallingTable(nodes=LAPLACE_GRID.nodes(), values=_stored("uniform_laplace", LAPLACE_GRID))


@lru_cache(maxsize=1)
def cosine_laplace_table() -> FallingTable:
    """For a number with the cos² density that is seen in one Laplace answer."""
    return FallingTable(nodes=LAPLACE_GRID.nodes(), values=_stored("cos2_laplace", LAPLACE_GRID))


def _stored(name: str, grid: Grid) -> FloatArray:
    with (
        files("sightline.bounds").joinpath(FILE).open("rb") as file,
        np.load(file, allow_pickle=False) as found,
    ):
        values: FloatArray = found[name]
    assert values.shape == (grid.count,)  # the file belongs to this version
    values.setflags(write=False)
    return values
