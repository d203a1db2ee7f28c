r"""Strategies of factored noise: which combinations of the steps get noise of their own.

A mechanism measures :math:`Cs + \sigma z` of some numbers s, the *steps*, with a strategy C of full column
rank and white noise z. What it publishes is computed from that: running sums :math:`A C^+ (Cs + \sigma z)`,
say, with the lower triangular A of ones. Whoever sees all of it knows :math:`C^+(Cs + \sigma z)`, which has
the precision :math:`C^\top C/\sigma^2` about the steps, and nothing else: this is how much is seen, whatever
is computed.

===============  ========================================================================================
*independent*    C = A: every running sum has noise of its own
*noisy-steps*    C = I: every step has noise of its own
*tree*           the nodes of a binary tree over the steps. With least squares all of them count; online, a
                 running sum adds up the nodes of its binary digits, which are one node that ends at every
                 step: the others are never published
*toeplitz-sqrt*  the lower triangular Toeplitz matrix with :math:`C^2 = A`, whose coefficients are
                 :math:`\binom{2k}{k} / 4^k` (Fichtenberger, Henzinger and Upadhyay 2023)
===============  ========================================================================================

A record with :math:`u_t` rows in step t moves Cs by at most :math:`w \|Cu\|`, where w is the range of a
value: its *sensitivity*, if no product of two columns of C is negative; else
:math:`w^2 \sum u_s u_t |c_s^\top c_t|` bounds its square.

:class:`FactoredNoise` is what matrix mechanisms publish, :math:`A s + \sigma B z` with :math:`A = BC`.
The noise is drawn once for every row of the strategy C, :math:`Cs + \sigma z`, and the decoder B computes
from that what is published. If B is injective, whoever sees the answers knows all of :math:`Cs + \sigma z`:
the whitened rows are C itself. Otherwise they are a row basis of B times C. No covariance is factorised: that
of running sums of independent noise has the condition number :math:`T^2`, and its root here is the decoder.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from sightline.arrays import ROUNDING, FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidNoise, require
from sightline.noise.covariance import Factor
from sightline.noise.laws import CorrelatedNoise
from sightline.numerics.positive_inverse import positive_inverse
from sightline.numerics.rank import missing, present
from sightline.values import frozen

# Of a tree, sums add up nodes, or are the best fit to all nodes.
MECHANISMS = ("independent", "noisy-steps", "tree", "tree-least-squares", "toeplitz-sqrt")


def strategy_of(mechanism: str, steps: int) -> FloatArray:
    """The strategy of a mechanism by its name.

    >>> strategy_of("tree", 4).astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]
    >>> strategy_of("toeplitz-sqrt", 3).tolist()
    [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.375, 0.5, 1.0]]
    """
    require(steps >= 1, "at least one step", got=steps, error=InvalidNoise)
    match mechanism:
        case "independent":
            return np.tri(steps)
        case "noisy-steps":
            return np.eye(steps)
        case "tree" | "tree-least-squares":
            ends, sizes = _nodes(steps, online=mechanism == "tree")
            step = np.arange(steps)
            return ((step < ends[:, None]) & (step >= (ends - sizes)[:, None])).astype(np.float64)
        case "toeplitz-sqrt":
            k = np.arange(1, steps)
            first = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
            apart = np.arange(steps)[:, None] - np.arange(steps)
            return np.where(apart >= 0, first[np.abs(apart)], 0.0)
        case _:
            raise InvalidNoise(f"expected one of {', '.join(MECHANISMS)}, got {mechanism!r}")


def _nodes(steps: int, *, online: bool) -> tuple[IndexArray, IndexArray]:
    """The last step, counted from 1, and the size of the nodes: of a tree, those that fit into the steps."""
    if online:
        step = np.arange(1, steps + 1)
        return step, step & -step
    sizes = [2**level for level in range(steps.bit_length())]
    ends = [np.arange(size, steps + 1, size) for size in sizes]
    return np.concatenate(ends), np.repeat(sizes, [one.size for one in ends])


@frozen(slots=False)
class Strategy:
    """A strategy C over steps, and whether running sums of them are published.

    >>> tree = Strategy.named("tree", 1024)
    >>> round(tree.sensitivity(1).value, 3), round(float(tree.published_variances.max()) ** 0.5, 3)
    (3.317, 3.162)
    """

    table: FloatArray  # C: noises × steps
    running: bool = False
    checked: bool = False  # whether it is known to span the steps

    @classmethod
    def named(cls, mechanism: str, steps: int) -> Strategy:
        """Of running sums, by the name of the mechanism."""
        return cls(table=strategy_of(mechanism, steps), running=True, checked=True)

    def __post_init__(self) -> None:
        table = frozen_floats(self.table, name="strategy", ndim=2, error=InvalidNoise)
        object.__setattr__(self, "table", table)
        if self.checked:
            return
        lengths = np.linalg.norm(table, axis=0)
        spans = bool(np.all(lengths > 0)) and len(table) >= table.shape[1] > 0
        if spans:
            scaled = table / lengths
            # Of squared singular values below this rounding hides whether there are any.
            spans = positive_inverse(scaled.T @ scaled - ROUNDING * np.eye(table.shape[1])) is not None
        require(
            spans,
            "a strategy that spans the steps: as many independent columns as there are steps",
            got=f"a table of {len(table)} × {table.shape[1]} numbers that does not",
            error=InvalidNoise,
        )

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return int(self.table.shape[1])

    @cached_property
    def gram(self) -> FloatArray:
        """CᵀC: the precision of what is seen of the steps, for noise of 1."""
        return np.asarray(self.table.T @ self.table)

    @cached_property
    def products(self) -> FloatArray:
        """|CᵀC|: what rows of a record in two steps cost together, in units of the noise."""
        return np.abs(self.gram)

    @cached_property
    def covariance(self) -> FloatArray:
        """Of what the best unbiased combination says of each step, for noise of 1: (CᵀC)⁻¹."""
        scale = 1 / np.sqrt(np.diagonal(self.gram))
        inverse = positive_inverse(self.gram * (scale[:, None] * scale))
        assert inverse is not None  # it has full rank
        return np.asarray(inverse * (scale[:, None] * scale))

    @cached_property
    def published_variances(self) -> FloatArray:
        """Of the noise on each published number, for noise of 1: a running sum, or the step itself."""
        if not self.running:
            return np.diagonal(self.covariance)
        return np.diagonal(np.cumsum(np.cumsum(self.covariance, axis=0), axis=1))

    def sensitivity(self, rows: int, separation: int = 0) -> Sensitivity:
        r"""The most that a record moves Cs, for values that change by 1, wherever its rows are.

        With a ``separation`` its rows are in different steps, at least so many apart. Without one all may be
        in one step. It is :math:`\max \|Cu\|` over such patterns u. The bound: of every step its largest
        products with the other steps of a pattern, and of these the largest sum over a pattern. It is
        attained for one row, and for bands that are no wider than the separation; for decreasing Toeplitz
        coefficients the first steps are the worst pattern (Kalinin and Lampert 2024).
        """
        G = self.products
        lengths = np.sqrt(np.diagonal(G))
        if not separation or rows == 1:
            return Sensitivity(value=rows * float(lengths.max()), exact=True)
        first = np.arange(0, self.steps, separation)[:rows]
        attained = math.sqrt(float(G[np.ix_(first, first)].sum()))
        if self._decreasing_toeplitz:
            return Sensitivity(value=attained, exact=True)
        each = _best_patterns(G, rows, separation)
        together = float(_best_patterns(each[None], rows, separation)[0])
        apart = float(_best_patterns(lengths[None], rows, separation)[0])
        bound = min(math.sqrt(together), apart)
        exact = _orthogonal(G, separation) or math.isclose(bound, attained, rel_tol=1e-12)
        return Sensitivity(value=bound, exact=exact)

    @property
    def _decreasing_toeplitz(self) -> bool:
        first = self.table[:, 0]
        square = len(self.table) == self.steps and bool(np.all(np.diff(first) <= 0) and first[-1] >= 0)
        if not square:
            return False
        apart = np.arange(self.steps)[:, None] - np.arange(self.steps)
        return bool(np.array_equal(self.table, np.where(apart >= 0, first[np.abs(apart)], 0.0)))


@frozen(eq=True)
class Sensitivity:
    """A sensitivity, and whether some record attains it; else it is a bound."""

    value: float
    exact: bool


def _orthogonal(products: FloatArray, separation: int) -> bool:
    """Whether steps that are so far apart have no noise in common."""
    apart = np.abs(np.arange(len(products))[:, None] - np.arange(len(products))) >= separation
    return not products[apart].any()


def _best_patterns(gains: FloatArray, rows: int, separation: int) -> FloatArray:
    """For each line of gains over the steps, the largest sum of at most so many steps, so far apart."""
    lines, steps = gains.shape
    best = np.zeros((lines, steps + 1))  # up to each step, with the rows so far
    for _ in range(min(rows, -(-steps // separation))):
        taken = gains + best[:, np.maximum(np.arange(steps) + 1 - separation, 0)]
        now = np.zeros_like(best)
        now[:, 1:] = np.maximum.accumulate(np.maximum(taken, 0.0), axis=1)
        best = now
    return best[:, -1]


class FactoredNoise(CorrelatedNoise):
    r"""Gaussian noise :math:`\sigma B z` on the answers :math:`BCs`.

    >>> days = FactoredNoise(strategy=np.eye(4), decoder=strategy_of("independent", 4), stddev=2.0)
    >>> days.variances.tolist(), np.abs(days.whiten(days.workload) @ days.whiten(days.workload).T).tolist()[0]
    ([4.0, 8.0, 12.0, 16.0], [0.25, 0.0, 0.0, 0.0])
    """

    __slots__ = ("decoder", "stddev", "strategy")

    strategy: FloatArray  # C: noises × steps
    decoder: FloatArray  # B: answers × noises
    stddev: float

    def __init__(self, *, strategy: ArrayLike, decoder: ArrayLike, stddev: float) -> None:
        C = frozen_floats(strategy, name="strategy", ndim=2, error=InvalidNoise)
        B = frozen_floats(decoder, name="decoder", ndim=2, error=InvalidNoise)
        require(
            B.shape[1] == len(C) and B.size > 0 and C.size > 0,
            "a decoder with a column for each row of the strategy",
            got=f"shapes {B.shape} and {C.shape}",
            error=InvalidNoise,
        )
        require(
            bool(np.isfinite(stddev)) and stddev > 0, "a noise stddev > 0", got=stddev, error=InvalidNoise
        )
        require(
            bool(np.all(np.any(B != 0, axis=1))),
            "noise on every answer",
            got=f"{int(np.sum(~np.any(B != 0, axis=1)))} of {len(B)} without",
            fix="an answer without noise is not a differentially private release",
            error=InvalidNoise,
        )
        for name, value in (("strategy", C), ("decoder", B), ("stddev", float(stddev))):
            object.__setattr__(self, name, value)
        root = stddev * B
        object.__setattr__(self, "blocks", (root @ root.T,))
        object.__setattr__(self, "_factors", (_factor(root),))

    @property
    def workload(self) -> FloatArray:
        """A = BC: what is published of the steps."""
        return np.asarray(self.decoder @ self.strategy)

    def take(self, answers: IndexArray) -> FactoredNoise:
        return FactoredNoise(strategy=self.strategy, decoder=self.decoder[answers], stddev=self.stddev)

    def scaled(self, factors: FloatArray | float) -> FactoredNoise:
        each = np.broadcast_to(np.asarray(factors, dtype=np.float64), (self.outputs,))
        return FactoredNoise(strategy=self.strategy, decoder=self.decoder * each[:, None], stddev=self.stddev)


def _factor(root: FloatArray) -> Factor:
    """The factors of the covariance of root times white noise, from the root itself."""
    size = len(root)
    lengths = np.linalg.norm(root, axis=1)
    _, R, order = scipy.linalg.qr((root / lengths[:, None]).T, mode="economic", pivoting=True)
    pivots = np.abs(np.diagonal(R)) ** 2  # each answer's share of noise that those before it do not have
    rank = int(np.count_nonzero(pivots > missing(size)))
    smallest = float(pivots[rank - 1])
    independent, determined = np.sort(order[:rank]), np.sort(order[rank:])
    # In the order of the answers, so that the factor of running sums is the triangle of their steps.
    lower = np.asarray(np.linalg.qr(root[independent].T, mode="r")).T
    lower = lower * np.where(np.diagonal(lower) < 0, -1.0, 1.0)
    dependence = np.zeros((0, rank))
    if determined.size:
        require(
            smallest > present(size),
            "a decoder that is clearly singular or clearly not",
            got=f"one whose smallest independent share of noise is {smallest:.3g}",
            fix="remove answers that are nearly combinations of others",
            error=InvalidNoise,
        )
        half = np.linalg.lstsq(root[independent].T, root[determined].T, rcond=None)[0]
        dependence = half.T
    return Factor(
        independent=independent, root=lower, determined=determined, dependence=dependence, smallest=smallest
    )


def whitener_of(noise: CorrelatedNoise, answers: IndexArray) -> FloatArray:
    """The inverse of the root of independent answers' noise."""
    (factor,) = noise._factors
    assert answers.size == factor.independent.size
    return np.asarray(scipy.linalg.solve_triangular(factor.root, np.eye(answers.size), lower=True))
