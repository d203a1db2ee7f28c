r"""What the rows say together. It is made from products of rows and noise alone: the records are not needed.

``products`` are :math:`M = \sum_u B_u K B_u^\top` over all unknown units, with the prior's integer kernel
K: exact. A functional f of a unit is identifiable iff :math:`f^\top K f = b^\top M^- b` for :math:`b =
BKf`, and then :math:`M^- b` are weights on the answers that give it.

**Rows that depend on others** are taken out first, the noisiest ones. They are :math:`A_D = T A_P` with
rational T, so that all answers say as much as the rows P in noise of the covariance :math:`R =
(\Sigma_P^{-1} + T^\top \Sigma_D^{-1} T)^{-1}`. What is left to invert, :math:`R + sM_{PP}`, is as well
conditioned as the integers :math:`M_{PP}` are, whatever the noise: uneven noise needs no method of its own.

**Digits.** Every inverse is held against its matrix. Where that bound is too large, the same numbers are
computed in balls, from all rows as they are (:class:`BallForm`), and weights on answers over the rationals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.unit_design import RowNoise, UnitPrior
from sightline.labeled.units import BoolArray, UnitBlock, WholeArray
from sightline.numerics import exact_library as flint
from sightline.numerics import integers as exact
from sightline.numerics import residues
from sightline.numerics.inverse import positive_inverse
from sightline.numerics.residuals import absolute_product, gamma, inverse_error

COARSE = 1e-6  # beyond this error numbers are computed again in balls
_PROOF = 1e-3  # the error of an inverse that proves its rows independent: below 1 would do
_BALL_ROWS = 400  # rows up to which weights are solved for over the rationals: 2 s
_BITS = (192, 384, 768, 1536, 3072)  # working precisions of balls, one after the other
_LARGEST_DENOMINATOR, _LARGEST_NUMERATOR = 24, 1 << 24  # of fractions that residues are read as


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedUnits:
    """Some kinds with as many columns each, as exact arithmetic sees them: whole numbers."""

    kinds: IndexArray  # the position of each among all
    images: Any  # BK of one kind after the other, over all people of the kind: a sparse array
    counts: IndexArray  # kinds × columns: rows of all its people
    kernel: FloatArray  # K, of one row
    one_row: bool

    @classmethod
    def of(cls, block: UnitBlock, kinds: IndexArray, kernel: FloatArray, numbers: int) -> AskedUnits:
        counts = block.people[:, None] * block.times
        kernels = sparse.kron(sparse.eye_array(counts.size // len(kernel)), kernel)
        images = block.table(numbers).T @ sparse.diags_array(counts.ravel().astype(np.float64)) @ kernels
        one_row = block.times.shape[1] == len(kernel) and block.single
        columns = sparse.csc_array(images)[:numbers]
        return cls(kinds=kinds, images=columns, counts=counts, kernel=kernel, one_row=one_row)

    def squares(self, unit: int) -> FloatArray:
        """The kernel of one kind: fᵀ squares f is the variance of a functional f before any answer."""
        kernels = np.kron(np.eye(self.counts.shape[1] // len(self.kernel)), self.kernel)
        return np.asarray(kernels * self.counts[unit])

    def functional(self, unit: IndexArray, column: IndexArray) -> Any:
        """Of each of some kinds one of its columns a row, over all rows: sums."""
        size, k = self.counts.shape[1], len(self.kernel)
        rows = (unit[:, None] * size + column[:, None] + k * np.arange(size // k)).ravel()
        places = rows, np.repeat(np.arange(unit.size), size // k)
        return sparse.csc_array((np.ones(rows.size), places), shape=(self.counts.size, unit.size))


@dataclass(frozen=True, kw_only=True, eq=False)
class Decided:
    """Of some units: how many directions are identifiable, which of the sums are, and what is undecided."""

    directions: IndexArray
    identifiable: BoolArray  # units × columns of a row
    undecided: BoolArray


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerWeights:
    """Weights on answers that give functionals, one a column; their errors, with relative bounds."""

    weights: Any
    rmse: FloatArray
    relative_error: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class RowForm:
    """A positive definite matrix Y over pairs of rows, with a last row of zeros for none."""

    matrix: FloatArray
    error: float  # of every quadratic form, relatively

    @classmethod
    def inverse(cls, matrix: FloatArray, rows: IndexArray, numbers: int, error: float = 0.0) -> RowForm:
        """Of a matrix over some rows. The error is infinite if it is singular, to rounding."""
        scale = 1 / np.sqrt(np.diagonal(matrix))
        scaled = matrix * (scale[:, None] * scale)
        inverse = positive_inverse(scaled.copy())
        full = np.zeros((numbers + 1, numbers + 1))
        if inverse is None:
            return cls(matrix=full, error=math.inf)
        spread = absolute_product(scaled, absolute_product(inverse, np.ones((scale.size, 1)))).max(
            initial=0.0
        )
        full[np.ix_(rows, rows)] = inverse * (scale[:, None] * scale)
        return cls(matrix=full, error=error + inverse_error(scaled, inverse) + gamma(12) * float(spread))

    @cached_property
    def root(self) -> FloatArray:
        """The roots of the diagonal, with a zero for no row."""
        return np.sqrt(np.diagonal(self.matrix))

    def forms(self, block: UnitBlock) -> FloatArray:
        """BᵀYB of every kind."""
        return block.forms(self.matrix)

    def read(self, block: UnitBlock) -> tuple[FloatArray, FloatArray]:
        """BᵀYB of every kind, and a bound on the error in any unit direction."""
        forms = self.forms(block)
        # |Y_ab| is at most the root of Y_aa Y_bb: so large are the terms of the sums that were rounded.
        size = np.sum(np.sum(np.abs(block.scaled) * self.root[block.rows], axis=2) ** 2, axis=1)
        if not self.error < 1:
            return forms, np.full(len(block), np.inf)
        error = self.error / (1 - self.error) * np.trace(forms, axis1=1, axis2=2)
        return forms, error + gamma(4 * block.rows[0].size + 8) * size

    def left(self, block: UnitBlock, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """C − C BᵀYB C: what is left of a prior covariance C, and a bound on its error in any unit
        direction.
        """
        seen, error = self.read(block)
        largest = np.abs(C).sum(axis=-1).max(axis=-1)
        return C - C @ seen @ C, error * largest**2


@dataclass(frozen=True, kw_only=True, eq=False)
class BallForm:
    """``scale`` (D + P)⁻¹ for whole-number products P, in balls: for the few units of one column that need
    it.
    """

    diagonal: FloatArray  # D
    products: FloatArray
    scale: float

    def left(self, block: UnitBlock, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As :meth:`RowForm.left`."""
        columns = block.dense(self.diagonal.size)[:-1]
        prior = np.broadcast_to(C, (len(block), 1, 1)).ravel()
        whole = np.rint(prior * self.scale).astype(int).tolist()  # 1, or the levels of the weights
        for bits in _BITS:
            with flint.ctx.workprec(bits):
                matrix = [[flint.arb(entry) for entry in line] for line in self.products.tolist()]
                for row, entry in enumerate(self.diagonal.tolist()):
                    matrix[row][row] += flint.arb(entry)
                A = flint.arb_mat([[flint.arb(entry) for entry in line] for line in columns.tolist()])
                solved = flint.arb_mat(matrix).solve(A).transpose().tolist()
                forms = [_dot(a, x) for a, x in zip(A.transpose().tolist(), solved, strict=True)]
                shares = [1 - level * form for level, form in zip(whole, forms, strict=True)]
            if all(share.rel_accuracy_bits() >= 40 for share in shares):
                break
        values = np.array([float(share.mid()) for share in shares])
        radius = np.array([float(share.rad()) for share in shares]) + 16 * np.finfo(float).eps * np.abs(
            values
        )
        return (prior * values)[:, None, None], prior * radius


def _dot(left: list[Any], right: list[Any]) -> Any:
    return sum((a * b for a, b in zip(left, right, strict=True)), flint.arb(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class IndependentRows:
    """Rows P that are independent, T of the others (rows × P, zero on P), and the inverse of P's products."""

    rows: IndexArray
    others: FloatArray
    inverse: RowForm


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseSolver:
    """Dense matrices over the rows."""

    products: FloatArray  # M
    noise: RowNoise
    prior: UnitPrior
    # Σ aaᵀ unit/c over the rows of all persons, and the unit.
    weighted: tuple[FloatArray, float] | None = None
    made: dict[str, Any] = field(default_factory=dict, repr=False)  # from products alone

    @property
    def numbers(self) -> int:
        """How many rows there are."""
        return len(self.products)

    @property
    def independent(self) -> IndependentRows:
        """Made once for rows whose noise has the same order."""
        order = np.argsort(-self.noise.information, kind="stable").tobytes()
        if self.made.get("order") != order and ("rows" not in self.made or self.made["rows"].others.any()):
            self.made.update(order=order, rows=self._independent())
        rows: IndependentRows = self.made["rows"]
        return rows

    def _independent(self) -> IndependentRows:
        """The sharpest rows that are independent."""
        M, live = self.products, np.flatnonzero(np.diagonal(self.products) > 0)
        inverse = RowForm.inverse(M[np.ix_(live, live)], live, self.numbers)
        if inverse.error < _PROOF:
            return IndependentRows(rows=live, others=np.zeros((self.numbers, 0)), inverse=inverse)
        order = live[np.argsort(-self.noise.information[live], kind="stable")]
        prime = exact.prime_of(M[np.ix_(order, order)].astype(np.int64))
        reduced, pivots = exact.reduce_rows(_modular(M[np.ix_(order, order)], prime))
        kept, others = order[pivots], np.setdiff1d(np.arange(order.size), pivots)
        lines = [[int(reduced[line, column]) for line in range(kept.size)] for column in others.tolist()]
        T = _fractions(np.array(lines, dtype=np.int64).reshape(others.size, kept.size), prime)
        own, right = M[np.ix_(kept, kept)], M[np.ix_(order[others], kept)]
        if T is None or not np.allclose(T @ own, right, rtol=1e-9, atol=1e-9 * right.max(initial=1.0)):
            T = _solved(own, right.T).T
        full = np.zeros((self.numbers, kept.size))
        full[order[others]] = T
        inverse = RowForm.inverse(M[np.ix_(kept, kept)], kept, self.numbers)
        return IndependentRows(rows=kept, others=full, inverse=inverse)

    @property
    def rank(self) -> int:
        """Directions that the answers see."""
        return self.independent.rows.size

    @property
    def leverage(self) -> RowForm:
        """M⁻."""
        return self.independent.inverse

    @cached_property
    def linear(self) -> RowForm | BallForm:
        """(R + s M)⁻¹ of linear attacks, by the variances of the noise."""
        return self._posterior(self._by_variance, self.products * self.prior.scale)

    @cached_property
    def hidden(self) -> RowForm | BallForm | None:
        """(R + Σ aaᵀ/c)⁻¹ by the information of the noise, for priors with a density."""
        if self.weighted is None:
            return None
        return self._posterior(self._by_information, self.weighted[0] / self.weighted[1])

    @property
    def in_balls(self) -> DenseSolver:
        """The same with every digit."""
        solver, s = replace(self), self.prior.scale
        forms = {"linear": BallForm(diagonal=self.noise.variance / s, products=self.products, scale=1 / s)}
        if self.weighted is not None:
            products, unit = self.weighted
            forms["hidden"] = BallForm(diagonal=unit / self.noise.information, products=products, scale=unit)
        solver.__dict__.update(forms)
        return solver

    def reduced(self, variance: FloatArray) -> tuple[FloatArray, float]:
        """R over the independent rows, and a bound on the error of its forms."""
        kept, T = self.independent.rows, self.independent.others
        if not T.any():
            return np.diag(variance[kept]), gamma(4)
        J = T.T @ (T / variance[:, None])
        J[np.diag_indices(kept.size)] += 1 / variance[kept]
        inverse = RowForm.inverse(J, kept, self.numbers)
        return self._own(inverse), inverse.error

    @cached_property
    def _by_variance(self) -> tuple[FloatArray, float]:
        return self.reduced(self.noise.variance)

    @cached_property
    def _by_information(self) -> tuple[FloatArray, float]:
        excess = self.noise.variance * self.noise.information
        if np.ptp(excess) > 1e-14 * excess[0]:
            return self.reduced(1 / self.noise.information)
        return self._by_variance[0] / excess[0], self._by_variance[1]  # noise of one law

    def _own(self, form: RowForm) -> FloatArray:
        """Over the independent rows."""
        return form.matrix[np.ix_(self.independent.rows, self.independent.rows)]

    def _posterior(self, noise: tuple[FloatArray, float], products: FloatArray) -> RowForm:
        kept = self.independent.rows
        return RowForm.inverse(noise[0] + products[np.ix_(kept, kept)], kept, self.numbers, noise[1])

    def decide(self, asked: AskedUnits) -> Decided:
        """Nothing is undecided.

        Exact, modulo a prime that nobody can choose: fᵀKf − bᵀM⁻b is zero on what is identifiable, and only
        there.
        """
        kept, k = self.independent.rows, len(asked.kernel)
        M = self.products[np.ix_(kept, kept)].astype(np.int64)
        prime, size, count = exact.prime_of(M), asked.counts.shape[1], len(asked.kinds)
        b = _modular(asked.images.toarray()[kept], prime)
        seen = b.transpose() * _modular(M, prime).solve(b)
        directions, yes = np.zeros(count, dtype=np.intp), np.zeros((count, k), dtype=np.bool_)
        for unit in range(count):
            own, square = range(unit * size, (unit + 1) * size), asked.squares(unit).astype(int).tolist()
            left = [
                [(entry - int(seen[i, j])) % prime for entry, j in zip(line, own, strict=True)]
                for line, i in zip(square, own, strict=True)
            ]
            rank = flint.nmod_mat(size, size, [entry for line in left for entry in line], prime).rank()
            directions[unit] = size - (size // k if k > 1 else 0) - int(rank)
            yes[unit] = [sum(sum(line[c::k]) for line in left[c::k]) % prime == 0 for c in range(k)]
        return Decided(directions=directions, identifiable=yes, undecided=np.zeros(count, dtype=np.bool_))

    def weights(self, asked: AskedUnits, functionals: Any) -> AnswerWeights:
        """Weights on the independent rows, the least ones on all rows being these spread over the dependent
        ones.
        """
        kept, X, (R, error) = self.independent.rows, self._own(self.leverage), self._by_information
        used = np.flatnonzero(np.diff(functionals.tocsr().indptr))
        M, b = self.products[np.ix_(kept, kept)], asked.images[:, used].toarray()[kept]
        f = functionals.tocsr()[used].toarray()
        solved = X @ b
        solved += X @ (b - M @ solved)
        off = np.abs(b - M @ solved) + gamma(len(b) + 2) * (np.abs(b) + np.abs(M) @ np.abs(solved))
        reach = np.sqrt(np.einsum("ij,jk,ki->i", X, R, X, optimize=True))
        weights, bound = solved @ f, 2 * reach @ (off @ np.abs(f))
        rmse = np.sqrt(np.einsum("im,im->m", weights, R @ weights))
        bound = np.where(rmse > 0, bound / np.where(rmse > 0, rmse, 1.0), np.inf) + error
        coarse = np.flatnonzero(~(bound < COARSE) | (self.leverage.error > 0.1))
        if coarse.size and kept.size <= _BALL_ROWS:
            weights[:, coarse], rmse[coarse] = self._weights_in_balls(M, b, f[:, coarse])
            bound[coarse] = 0.0
        return AnswerWeights(weights=weights, rmse=rmse, relative_error=bound + gamma(len(b) + 8))

    def _weights_in_balls(
        self, M: FloatArray, images: FloatArray, functionals: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Weights over the rationals, and their errors in balls."""
        kept, T = self.independent.rows, self.independent.others
        others, width = np.flatnonzero(T.any(axis=1)), images.shape[1]
        both = np.hstack([images, self.products[np.ix_(kept, others)]])
        solved = _whole(M).solve(_whole(both)).tolist()
        zero = flint.arb(0)
        for bits in (256, 1024, 4096):
            with flint.ctx.workprec(bits):
                noise = [flint.arb(entry) for entry in self.noise.information.tolist()]
                tail = [[flint.arb(entry) for entry in line[width:]] for line in solved]
                J = flint.arb_mat(
                    [[noise[row] if i == j else zero for j in range(kept.size)] for i, row in enumerate(kept)]
                )
                if others.size:
                    spread = [
                        [entry * noise[row] for entry, row in zip(line, others, strict=True)] for line in tail
                    ]
                    J = J + flint.arb_mat(spread) * flint.arb_mat(tail).transpose()
                c = flint.arb_mat([[flint.arb(entry) for entry in line[:width]] for line in solved])
                c = c * flint.arb_mat([[flint.arb(entry) for entry in line] for line in functionals.tolist()])
                pairs = zip(c.transpose().tolist(), J.solve(c).transpose().tolist(), strict=True)
                squares = [_dot(left, right) for left, right in pairs]
            if all(square.rel_accuracy_bits() >= 50 for square in squares):
                break
        weights = np.array([[float(entry.mid()) for entry in line] for line in c.tolist()])
        return weights, np.sqrt([float(square.mid()) for square in squares])

    def sharpest(self, asked: AskedUnits, unit: IndexArray, directions: IndexArray) -> Any:
        """Of the identifiable directions of units with several rows, the unit features that are seen best."""
        kept, X, (R, _) = self.independent.rows, self._own(self.leverage), self._by_information
        size, features = asked.counts.shape[1], sparse.lil_array((asked.counts.size, unit.size))
        for column, chosen in enumerate(unit.tolist()):
            own, root = slice(chosen * size, (chosen + 1) * size), asked.counts[chosen] ** -0.5
            images = asked.images[:, own].toarray()[kept] * root
            identifiable = np.linalg.eigh(images.T @ X @ images)[1][:, size - directions[chosen] :]
            # Singular values, not eigenvalues of a square: errors of one person's features are often far
            # apart.
            noise = np.linalg.cholesky(R).T @ (X @ images @ identifiable)
            features[own, [column]] = root * (identifiable @ np.linalg.svd(noise, full_matrices=False)[2][-1])
        return features.tocsc()


def _modular(table: FloatArray | WholeArray, prime: int) -> Any:
    return flint.nmod_mat(*table.shape, np.mod(table.astype(np.int64), prime).ravel().tolist(), prime)


def _whole(table: FloatArray) -> Any:
    return flint.fmpz_mat(table.astype(np.int64).tolist())


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Over the rationals, rounded once."""
    solved = _whole(matrix).solve(_whole(right)).tolist()
    return np.array([[float(flint.arb(entry).mid()) for entry in line] for line in solved])


def _fractions(table: WholeArray, prime: int) -> FloatArray | None:
    """Residues as fractions of small whole numbers; ``None`` where there are none."""
    values = np.full(table.shape, np.nan)
    for denominator in range(1, _LARGEST_DENOMINATOR + 1):
        times = residues.times(table, np.full_like(table, denominator), prime=prime)
        signed = np.where(times > prime // 2, times - prime, times)
        near = np.isnan(values) & (np.abs(signed) < _LARGEST_NUMERATOR)
        values[near] = signed[near] / denominator
    return None if np.isnan(values).any() else values
