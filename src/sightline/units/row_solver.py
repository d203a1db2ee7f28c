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
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import flint
import numpy as np
from scipy import sparse

from sightline.arrays import COARSE, NOTICEABLE, ROUNDING, FloatArray, IndexArray
from sightline.numerics.balls import BALL_ROWS, BITS
from sightline.numerics.device import HOST, Device
from sightline.numerics.residuals import gamma
from sightline.units.dense_units import TableUnits
from sightline.units.row_decisions import (
    AnswerWeights,
    AskedUnits,
    Decided,
    decided,
    seen_at_most,
)
from sightline.units.row_forms import BallForm, RowForm, dot, over_rows
from sightline.units.row_integers import PROOF, IndependentRows, RowIntegers, RowsOnce, eliminated, guessed
from sightline.units.row_noise import RowNoise
from sightline.units.row_products import ProductSums
from sightline.units.target import UnitPrior
from sightline.units.unit_block import BoolArray, WholeArray
from sightline.units.units import MANY_ROWS, UnitStore
from sightline.values import frozen

# Numbers are computed again in balls where an error is noticeable. Of small designs all digits are asked for:
# an inverse of so many rows in balls takes 0.01 s.
_FINE_ROWS, _FINE_UNITS = 64, 200
# Units for each row from which eigenvectors on an accelerator take less than two more products with all
# columns: those of 2,048 rows take as long as products with 500,000 columns, of 20,000 rows with a million.
_EIGENVECTORS_FROM = 100
_FEW = 16  # rows for each dependent one, from which a change of so low a rank takes less than an inverse


@frozen(slots=False)
class ReducedNoise:
    """R: noise of the independent rows with which they say as much as all rows do."""

    stored: FloatArray  # the matrix, or its diagonal where it has nothing else
    error: float  # of its forms, relatively

    @property
    def diagonal(self) -> bool:
        """Whether no two of its rows have noise in common: of 20,000 rows the matrix would take 3 GB."""
        return self.stored.ndim == 1

    @cached_property
    def matrix(self) -> FloatArray:
        """R in full."""
        return np.diag(self.stored) if self.diagonal else self.stored

    def times(self, vectors: FloatArray) -> FloatArray:
        """R x for every column x."""
        return self.stored[:, None] * vectors if self.diagonal else self.stored @ vectors

    def added_to(self, matrix: Any, device: Device) -> Any:
        """The sum with a matrix that lies on the device and is written over."""
        if self.diagonal:
            return device.add_to_diagonal(matrix, self.stored)
        matrix += device.put(self.stored)
        return matrix


@frozen(slots=False)
class DenseSolver:
    """Dense matrices over the rows."""

    units: UnitStore
    sums: ProductSums  # M
    noise: RowNoise
    prior: UnitPrior
    # Σ aaᵀ unit/c over the rows of all persons, and the unit.
    weighted: tuple[ProductSums, float] | None = None
    once: RowsOnce = field(default_factory=RowsOnce, repr=False)

    @property
    def numbers(self) -> int:
        """How many rows there are."""
        return len(self.sums.matrix)

    @property
    def integers(self) -> RowIntegers | None:
        """M in whole numbers, made once."""
        return self.once.whole(self.sums, self.units, self.prior)

    @property
    def independent(self) -> IndependentRows:
        """Made once for rows whose noise has the same order."""
        return self.once.first_of(self._order, self._independent)

    @cached_property
    def _order(self) -> IndexArray:
        """The rows, the sharpest first. Noise that only rounding tells apart is equal, so that the order is
        the same when all noise is multiplied.
        """
        information = self.noise.information
        order = np.argsort(-information, kind="stable")
        steps = np.diff(information[order], prepend=np.inf) < -ROUNDING * information[order]
        return np.asarray(order[np.lexsort((order, np.cumsum(steps)))])

    def _independent(self) -> IndependentRows:
        """The sharpest rows that are independent."""
        live = np.flatnonzero(np.diagonal(self.sums.matrix) > 0)
        order, nothing = self._order[np.isin(self._order, live)], np.zeros((self.numbers, 0))
        if not self.device.host:  # an inverse there takes less than a guess here
            inverse = self._inverse(live)
            if inverse.error < 1:
                return IndependentRows(rows=live, others=nothing, inverse=inverse)
        if self.sums.exact and (guess := guessed(self.sums.matrix, order, self._inverse)) is not None:
            return guess
        inverse = self._inverse(live)
        integers = None if inverse.error < 1 else self.integers
        if integers is None:  # independent, or nothing is said about it
            return IndependentRows(rows=live, others=nothing, inverse=inverse)
        kept, others = eliminated(self.sums, integers, order)
        if kept.size == order.size:
            return IndependentRows(rows=live, others=nothing, inverse=inverse)
        return IndependentRows(rows=kept, others=others, inverse=self._inverse(kept))

    @property
    def device(self) -> Device:
        """Where dense matrices are factorised."""
        return self.units.device if isinstance(self.units, TableUnits) else HOST

    def _inverse(self, rows: IndexArray) -> RowForm:
        return RowForm.inverse(self._placed(rows), rows, self.numbers, entries=self.sums.entries)

    @property
    def rank(self) -> int:
        """Directions that the answers see."""
        return self.kept.size

    @property
    def kept(self) -> IndexArray:
        """Rows that are independent; the others follow from them."""
        return self.independent.rows

    @property
    def leverage(self) -> RowForm:
        """M⁻."""
        shared = self._shared
        return self.independent.inverse if shared is None else shared["leverage"]

    @cached_property
    def _shared(self) -> dict[str, RowForm] | None:
        r"""All forms from one product with the columns of a dense table, where M and R have common
        eigenvectors.

        :math:`V^\top M V = I` and :math:`V^\top R V = \Lambda` give :math:`(R + sM)^{-1} = V (\Lambda +
        s)^{-1} V^\top`.
        """
        if not isinstance(self.units, TableUnits) or self.independent.inverse.error > PROOF:
            return None
        if self.units.steps is not None:  # whose forms cost a few look-ups each
            return None
        if not self.device.host and len(self.units) < _EIGENVECTORS_FROM * self.numbers:
            return None
        if self.weighted is not None and self.weighted[0].matrix is not self.sums.matrix:
            return None
        excess = self.noise.variance * self.noise.information
        if np.ptp(excess) > 1e-14 * excess[0]:
            return None
        kept = self.independent.rows
        device, error = self.device, self._by_variance.error
        M, R = self._placed(kept), device.put(self._by_variance.matrix)
        values, vectors = device.common_eigenvectors(R, M)
        projection = vectors.T
        if kept.size < self.numbers:
            projection = np.zeros((kept.size, self.numbers))
            projection[:, kept] = device.get(vectors).T
        asked = {"leverage": (0.0, 1.0), "linear": (1.0, self.prior.scale)}
        if self.weighted is not None:
            asked["hidden"] = (1.0 / excess[0], 1 / self.weighted[1])
        forms = {}
        for name, (r, s) in asked.items():
            weights = 1 / (np.maximum(values, 0.0) * r + s)
            root = vectors * device.put(np.sqrt(weights))
            rounding = math.sqrt(gamma(4) + self.sums.entries**2)
            form = RowForm.inverse(
                R * r + M * s,
                kept,
                self.numbers,
                error=error,
                entries=rounding,
                given=device.square(root),
            )
            # Of a thousand boxes it is between 1e-9 and 1e-7, and forms of their own take twice as long.
            if not form.error <= (PROOF if name == "leverage" else COARSE):
                return None
            forms[name] = replace(form, projection=projection, weights=weights)
        return forms

    @cached_property
    def linear(self) -> RowForm | BallForm:
        """(R + s M)⁻¹ of linear attacks, by the variances of the noise."""
        if self._shared is not None:
            return self._shared["linear"]
        return self._posterior(self._by_variance, self.sums, self.prior.scale)

    @cached_property
    def hidden(self) -> RowForm | BallForm | None:
        """(R + Σ aaᵀ/c)⁻¹ by the information of the noise, for priors with a density."""
        if self.weighted is None:
            return None
        if self._shared is not None:
            return self._shared["hidden"]
        return self._posterior(self._by_information, self.weighted[0], 1 / self.weighted[1])

    @cached_property
    def in_balls(self) -> DenseSolver | None:
        """The same with every digit; ``None`` where products are not exact."""
        if self.integers is None:
            return None
        solver, products = replace(self), self.integers.rational()
        variance, information = self.noise.variance, 1 / self.noise.information
        if self.noise.shared:
            variance = information = self.noise.covariance
        white = self.noise.whitener
        forms = {
            "linear": BallForm(noise=variance, whitener=white, products=products, unit=1 / self.prior.scale)
        }
        if self.weighted is not None:
            sums, unit = self.weighted
            if sums.matrix is not self.sums.matrix:
                products = flint.fmpz_mat(sums.matrix.astype(np.int64).tolist())
            forms["hidden"] = BallForm(noise=information, whitener=white, products=products, unit=unit)
        solver.__dict__.update(forms)
        return solver

    def reduced(self, variance: FloatArray) -> ReducedNoise:
        """R over the independent rows."""
        kept, T = self.independent.rows, self.independent.others
        if self.noise.shared:
            return self._correlated(kept, T)
        if not T.any():
            return ReducedNoise(stored=variance[kept], error=gamma(4))
        dependent = np.flatnonzero(T.any(axis=1))
        J = T[dependent].T @ (T[dependent] / variance[dependent, None])
        J[np.diag_indices(kept.size)] += 1 / variance[kept]
        # By Cauchy–Schwarz no sum of absolute values exceeds the root of both diagonal entries.
        rounding = math.sqrt(gamma(len(T) + 8))
        given = None
        if _FEW * dependent.size <= kept.size:
            # Woodbury's identity. It cancels few digits: dependent rows are noisier than those they are of.
            spread = T[dependent] * variance[kept]
            inner = np.diag(variance[dependent]) + spread @ T[dependent].T
            white = np.linalg.solve(np.linalg.cholesky(inner), spread)
            given = np.diag(variance[kept]) - white.T @ white
        inverse = RowForm.inverse(J, kept, self.numbers, entries=rounding, given=given)
        return ReducedNoise(stored=self._own(inverse), error=inverse.error)

    def _correlated(self, kept: IndexArray, T: FloatArray) -> ReducedNoise:
        """R for noise that rows share: the inverse of EᵀΣ⁻¹E, where E gives all rows from the independent
        ones.
        """
        form = self.noise.precision
        J, reach = form.matrix[np.ix_(kept, kept)], np.ones(kept.size)
        if T.any():
            E = T.copy()
            E[kept, np.arange(kept.size)] += 1.0
            J = E.T @ (form.matrix[:-1, :-1] @ E)
            reach = np.abs(E).T @ form.root[:-1] / np.sqrt(np.diagonal(J))
        rounding = math.sqrt(gamma(2 * self.numbers + 8 + form.roundings)) * reach
        whole = self.noise.whitener is not None and kept.size == self.numbers
        inverse = RowForm.inverse(
            (J + J.T) / 2,
            kept,
            self.numbers,
            error=form.error,
            entries=rounding,
            given=self.noise.covariance[np.ix_(kept, kept)] if whole else None,  # made with the strategy
        )
        return ReducedNoise(stored=self._own(inverse), error=inverse.error)

    @cached_property
    def _by_variance(self) -> ReducedNoise:
        return self.reduced(self.noise.variance)

    @cached_property
    def _by_information(self) -> ReducedNoise:
        excess = self.noise.variance * self.noise.information
        if not self.noise.shared and np.ptp(excess) > 1e-14 * excess[0]:
            return self.reduced(1 / self.noise.information)
        noise = self._by_variance  # of one law
        return ReducedNoise(stored=noise.stored / excess[0], error=noise.error + gamma(4))

    @cached_property
    def _noise_root(self) -> FloatArray:
        """A root of the noise's covariance over the independent rows."""
        return np.asarray(np.linalg.cholesky(self._by_variance.matrix).T)

    def _own(self, form: RowForm) -> FloatArray:
        """Over the independent rows."""
        return over_rows(form.matrix[:-1, :-1], self.independent.rows)

    def _posterior(self, noise: ReducedNoise, sums: ProductSums, scale: float) -> RowForm:
        kept = self.independent.rows
        same = sums.matrix is self.sums.matrix
        matrix = self.device.put(over_rows(sums.matrix, kept)) if not same else self._placed(kept)
        matrix = noise.added_to(matrix * scale, self.device)
        rounding = math.sqrt(gamma(4) + sums.entries**2)
        return RowForm.inverse(matrix, kept, self.numbers, error=noise.error, entries=rounding)

    def _placed(self, rows: IndexArray) -> Any:
        """M over some rows, where it is factorised: of all rows as it was computed there."""
        there = self.sums.placed is not None and np.array_equal(rows, np.arange(self.numbers))
        return self.sums.placed if there else self.device.put(over_rows(self.sums.matrix, rows))

    def decide(self, asked: AskedUnits) -> Decided:
        """What is identifiable of some units: exact."""
        return decided(
            asked,
            self.integers,
            self.independent.rows,
            disjoint=self._disjoint,
            weights=lambda images: (images.T @ self._inverse_products).T,
            refuted=lambda units: self._refuted(asked, units),
        )

    def _refuted(self, asked: AskedUnits, units: IndexArray) -> BoolArray:
        """Units of one column that are not identifiable: see :func:`seen_at_most`."""
        if not (self.sums.exact and self.leverage.error < PROOF):
            return np.zeros(units.size, dtype=np.bool_)
        kept, X = self.independent.rows, self._inverse_products
        M, b = self._products, asked.images.tocsr()[kept][:, units].toarray()
        y = X @ b
        y += X @ (b - M @ y)
        most = float(np.linalg.norm(X)) / (1 - 2 * self.leverage.error)
        return np.asarray(
            seen_at_most(M, b, y, most) < (1 - ROUNDING) * asked.kernel[0, 0] * asked.counts[units, 0]
        )

    @cached_property
    def _disjoint(self) -> bool:
        """Whether no two independent rows have a person in common: their products are a diagonal."""
        return bool(np.count_nonzero(self._products) == self.independent.rows.size)

    @cached_property
    def _products(self) -> FloatArray:
        """M over the independent rows."""
        kept = self.independent.rows
        return np.asarray(over_rows(self.sums.matrix, kept))

    @cached_property
    def _inverse_products(self) -> FloatArray:
        """Its inverse."""
        return self._own(self.leverage)

    @cached_property
    def _reach(self) -> FloatArray:
        """The noise of what the inverse of the products gives for each row: the root of XRX's diagonal."""
        X, R = self._inverse_products, self._by_variance
        if self._disjoint:
            return np.asarray(np.diagonal(X) * np.sqrt(np.diagonal(R.matrix)))
        return np.asarray(np.sqrt(np.maximum(np.einsum("ij,ij->j", X, R.times(X)), 0.0)))

    def weights(self, asked: AskedUnits, functionals: Any) -> AnswerWeights:
        """Weights on the independent rows: those of the least error follow by :meth:`on_all_rows`."""
        kept, X, R = self.independent.rows, self._inverse_products, self._by_variance
        used = np.flatnonzero(np.diff(functionals.tocsr().indptr))
        M, f = self._products, functionals.tocsr()[used]
        b, rounded = asked.images[:, used].tocsr()[kept], 0.0
        if used.size > MANY_ROWS * f.shape[1]:  # persons with many columns: only what is asked of them
            dense = f.toarray()
            rounded, b = gamma(used.size + 2) * (abs(b) @ np.abs(dense)), b @ dense
            f = sparse.eye_array(f.shape[1], format="csr")
        else:
            b = b.toarray()
        # What is left of the equations, with all that was rounded in them.
        length = np.sqrt(np.diagonal(M))[:, None]
        if self._disjoint:
            solved = b / length**2
            off = gamma(8) * np.abs(b)
        else:
            solved = X @ b
            solved += X @ (b - M @ solved)
            off = np.abs(b - M @ solved) + gamma(len(b) + 2) * (np.abs(b) + np.abs(M) @ np.abs(solved))
        off += rounded + self.sums.entries**2 * length * (length.T @ np.abs(solved))
        weights, bound = (f.T @ solved.T).T, 2 * self._reach @ (abs(f).T @ off.T).T
        rmse = np.sqrt(np.maximum(np.einsum("im,im->m", weights, R.times(weights)), 0.0))
        bound = np.where(rmse > 0, bound / np.where(rmse > 0, rmse, 1.0), np.inf) + R.error
        if not self.leverage.error <= PROOF:  # the factor 2 above covers no more
            bound = np.full_like(bound, np.inf)
        coarse, on_all = coarse_units(bound, kept.size), {}
        if coarse.size and kept.size <= BALL_ROWS and self.integers is not None:
            whole = asked.whole_images(self.integers)[:, used]
            weights[:, coarse], rmse[coarse], full = self._weights_in_balls(
                self.integers, whole, functionals.tocsr()[used].toarray()[:, coarse]
            )
            bound[coarse], on_all = 0.0, dict(zip(coarse.tolist(), full.T, strict=True))
        stated = bound + gamma(len(b) + 8)
        return AnswerWeights(weights=weights, rmse=rmse, relative_error=stated, on_all=on_all)

    def on_all_rows(self, attacks: AnswerWeights) -> FloatArray:
        """The weights of the least error on all answers that give what weights on the independent rows give.

        With A = E A_P they are Σ⁻¹ E R w: unbiased, since EᵀΣ⁻¹E is the inverse of R, and of the error wᵀRw.
        Where those on the independent rows are so large that rounding would hide them, balls made these.
        """
        kept, T, weights = self.independent.rows, self.independent.others, attacks.weights
        spread = self._by_variance.times(weights)
        full = T @ spread if T.any() else np.zeros((self.numbers, *weights.shape[1:]))
        full[kept] += spread
        if self.noise.shared:
            full = np.asarray(self.noise.precision.matrix[:-1, :-1] @ full)
        else:
            full = np.asarray((full.T / self.noise.variance).T)
        # What rounding left of Eᵀ full = w is made up for: weights are unbiased to the last digits.
        given = full[kept] + (T.T @ full if T.any() else 0.0)
        full[kept] += weights - given
        for column, best in attacks.on_all.items():
            full[:, column] = best
        return full

    def _weights_in_balls(
        self, integers: RowIntegers, images: WholeArray, functionals: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights on the independent rows over the rationals, errors, and weights on all rows, in balls."""
        kept, T, width = self.independent.rows, self.independent.others, images.shape[1]
        others = np.flatnonzero(T.any(axis=1)) if T.size else np.zeros(0, dtype=np.intp)
        right = np.hstack([images[kept].astype(object), integers.table[np.ix_(kept, others)].astype(object)])
        solved = integers.whole(kept, kept).solve(flint.fmpz_mat(right.tolist())).tolist()
        shifts, zero = integers.shifts.tolist(), flint.arb(0)
        stddevs = np.sqrt(self.noise.variance)
        for bits in BITS:
            with flint.ctx.workprec(bits):
                # E gives whole rows from the independent ones; their noise is over the same powers of two.
                lines = [[zero] * kept.size for _ in range(self.numbers)]
                for place, row in enumerate(kept.tolist()):
                    lines[row][place] = flint.arb(1)
                for column, row in enumerate(others.tolist()):
                    lines[row] = [flint.arb(line[width + column]) for line in solved]
                E = flint.arb_mat(lines)
                spread = self._precision_in_balls(shifts) * E
                J = E.transpose() * spread
                c = flint.arb_mat([[flint.arb(entry) for entry in line[:width]] for line in solved])
                c = c * flint.arb_mat([[flint.arb(entry) for entry in line] for line in functionals.tolist()])
                try:
                    best = J.solve(c)
                except ZeroDivisionError:  # singular, as far as these bits say
                    continue
                pairs = zip(c.transpose().tolist(), best.transpose().tolist(), strict=True)
                squares, full = [dot(left, right) for left, right in pairs], (spread * best).tolist()
                rmse = np.sqrt([max(float(square.mid()), 0.0) for square in squares])
                rounded = np.array([[float(entry.rad()) for entry in line] for line in full])
            off = (stddevs / integers.factors)[:, None] * rounded
            if all(square.rel_accuracy_bits() >= 50 for square in squares) and np.all(off <= 2**-50 * rmse):
                break
        values, on_all = (
            np.array([[float(entry.mid()) for entry in line] for line in lines])
            for lines in (c.tolist(), full)
        )
        return values / integers.factors[kept, None], rmse, on_all / integers.factors[:, None]

    def _precision_in_balls(self, shifts: list[int]) -> Any:
        """Σ⁻¹ of the noise over the rows that were made whole."""
        two = flint.arb(2)
        if not self.noise.shared:
            precisions = [
                two ** (2 * shift) / flint.arb(entry)
                for entry, shift in zip(self.noise.variance.tolist(), shifts, strict=True)
            ]
            zero = flint.arb(0)
            return flint.arb_mat(
                [[x if i == j else zero for j in range(len(precisions))] for i, x in enumerate(precisions)]
            )
        if self.noise.whitener is not None:
            white = flint.arb_mat(
                [
                    [flint.arb(entry) * two**shift for entry, shift in zip(line, shifts, strict=True)]
                    for line in self.noise.whitener.tolist()
                ]
            )
            return white.transpose() * white
        lines = [
            [flint.arb(entry) / two ** (a + b) for entry, b in zip(line, shifts, strict=True)]
            for line, a in zip(self.noise.covariance.tolist(), shifts, strict=True)
        ]
        return flint.arb_mat(lines).inv()

    def sharpest(self, asked: AskedUnits, unit: IndexArray, directions: IndexArray) -> Any:
        """Of the identifiable directions of units with several rows, the unit features that are seen best."""
        kept, X = self.independent.rows, self._inverse_products
        size, features = asked.counts.shape[1], sparse.lil_array((asked.counts.size, unit.size))
        for column, chosen in enumerate(unit.tolist()):
            columns_of_unit = slice(chosen * size, (chosen + 1) * size)
            if size > MANY_ROWS and len(asked.kernel) == 1:
                sharpest = self._sharpest_by_row(asked, chosen, int(directions[chosen]))
            else:
                square, axes = np.linalg.eigh(asked.squares(chosen))
                varying = square > 1e-9 * square[-1]  # a category's indicators sum up to one
                root = axes[:, varying] / np.sqrt(square[varying])
                images = asked.images[:, columns_of_unit].toarray()[kept] @ root
                places = slice(root.shape[1] - directions[chosen], None)
                touched = np.flatnonzero(images.any(axis=1))
                own_products = images[touched].T @ X[np.ix_(touched, touched)] @ images[touched]
                identifiable = np.linalg.eigh(own_products)[1][:, places]
                best = np.ones(1)
                if identifiable.shape[1] > 1:  # of one direction there is nothing to choose
                    # Singular values, not eigenvalues of a square: errors of one person's features are often
                    # far apart.
                    noise = self._noise_root @ (X[:, touched] @ images[touched] @ identifiable)
                    best = np.linalg.svd(noise, full_matrices=False)[2][-1]
                sharpest = root @ (identifiable @ best)
            features[columns_of_unit, [column]] = sharpest
        return features.tocsc()

    def _sharpest_by_row(self, asked: AskedUnits, unit: int, directions: int) -> FloatArray:
        """The same for a person with many columns: combinations y of rows with My = M_p y."""
        kept, X, R = self.independent.rows, self._inverse_products, self._by_information.matrix
        size = asked.counts.shape[1]
        columns_of_unit, counts = slice(unit * size, (unit + 1) * size), asked.counts[unit].astype(np.float64)
        columns = asked.block.table(self.numbers)[columns_of_unit, :-1].tocsc()[:, kept]
        touched = np.flatnonzero(np.diff(columns.indptr))
        table = columns[:, touched].toarray()
        K = np.linalg.cholesky(X[np.ix_(touched, touched)]).T
        image = K @ (table * counts[:, None]).T
        vectors = np.linalg.eigh(image @ (table @ K.T))[1][:, -directions:]
        y = X[:, touched] @ ((table * counts[:, None]).T @ (table @ (K.T @ vectors)))
        features = table @ y[touched]
        # Unit features: orthogonal over the rows of all people of the kind.
        triangle = np.asarray(np.linalg.qr(np.sqrt(counts)[:, None] * features, mode="r"))
        noise = np.linalg.cholesky(R).T @ np.linalg.solve(triangle.T, y.T).T
        best = np.linalg.svd(noise, full_matrices=False)[2][-1]
        return np.asarray(features @ np.linalg.solve(triangle, best))


def coarse_units(errors: FloatArray, rows: int) -> IndexArray:
    """Those whose errors are too large, in a design of so many rows."""
    fine = np.flatnonzero(~(errors <= ROUNDING))
    small = rows <= _FINE_ROWS and fine.size <= _FINE_UNITS
    return fine if small else np.flatnonzero(~(errors <= NOTICEABLE))
