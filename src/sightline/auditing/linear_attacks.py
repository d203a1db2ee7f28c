r"""The best linear attack on a record, folded to the few numbers that carry it, and whom it is seen with.

Values are independent with the prior's variance :math:`v`, and a target is a sum :math:`t^\top x` of some
rows. With the rows A of the design and noise :math:`\Sigma`, the best linear attack on the numbers S has risk

.. math:: \rho_S = 1 - \frac{v\, g_S^\top C_{SS}^{-1} g_S}{t^\top t}, \quad C = v A A^\top + \Sigma,
   \quad g = A t

as a share of the prior variance (theory page on attacks). Its information is :math:`1/\rho_S - 1`. The
numbers that are shown are chosen forwards, then backwards: each time the one whose loss costs least is left
out, for as long as the rest carries 99 % of the information of all.

The records that a target is seen with are those that the attack's guess contains with a large weight: the sum
of their values and the target's is known more sharply than one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import CategoryDesign
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result import LinearAttack, SeenTogether
from sightline.labeled.unknown_gram import UnknownRecordsGram, combined

_CARRIED = 0.99  # of the information, that the shown numbers carry
_MOST_STEPS = 6  # that are shown, even if they carry less
_CANDIDATES = 40  # numbers that are chosen forwards
_MOST_ROWS = 1_500  # of a design whose products are made for this
_MOST_TOGETHER = 12  # records that are looked at together
_HEAVY = 0.5  # of the target's own weight in a guess: others with less are not seen with it
_DEPENDENT = 1e-12  # of a number's variance: what is left of it given others is rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """A sum of rows: so many rows of each of some columns."""

    columns: IndexArray
    rows: FloatArray
    name: Literal["value", "total"] = "value"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Folded:
    """The attack on a target, and the columns that it is seen with, whose keys name those records."""

    attack: LinearAttack
    others: IndexArray  # columns of the linear design, without the target's own

    def named(self, keys: dict[int, tuple[str, ...]]) -> LinearAttack:
        """The attack with the keys of the records that the target is seen with."""
        together = self.attack.together
        records = tuple(key for column in self.others.tolist() for key in keys.get(column, ()))
        if together is None or not records:
            return self.attack
        return self.attack.model_copy(update={"together": together.model_copy(update={"records": records})})


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearAttacks:
    """The products of some published numbers, for attacks on some targets of one design."""

    findings: Findings
    found: LinearFindings
    part: CategoryDesign
    rows: IndexArray  # of the design, that attacks may use

    @classmethod
    def of(cls, findings: Findings, found: LinearFindings, columns: IndexArray) -> LinearAttacks | None:
        """For targets among some columns of the main design; none if these are in too many numbers.

        Of a design with many numbers only those that hold one of the columns are used.
        """
        design, variances = found.linear.design, found.linear.design.law.variances
        rows = np.arange(design.row_count)
        if rows.size > _MOST_ROWS:
            own = columns[columns < design.size]
            rows = np.flatnonzero(np.any(design.incidence.columns(own) != 0, axis=1))
        rows = rows[np.isfinite(variances[rows])]
        if not 0 < rows.size <= _MOST_ROWS:
            return None
        return cls(findings=findings, found=found, part=found.linear.main, rows=rows)

    @cached_property
    def _covariance(self) -> FloatArray:
        """C: of the numbers, with noise."""
        design, unknown = self.part.design, ~self.found.linear.known[: self.part.design.size]
        chosen = design if self.rows.size == design.row_count else design.take(self.rows)
        products = UnknownRecordsGram.of(chosen, unknown).matrix
        return np.asarray(self._variance * products + chosen.law.covariance)

    @cached_property
    def _variance(self) -> float:
        """v: of one row's value."""
        return float(self.found.linear.prior.of_column.variance)

    @cached_property
    def _solver(self) -> tuple[FloatArray, tuple[FloatArray, bool]] | None:
        """The scales that give C a unit diagonal, and a factor of it then; none if it is singular."""
        scale = 1 / np.sqrt(np.diagonal(self._covariance))
        try:
            return scale, cho_factor(self._covariance * np.outer(scale, scale), lower=True)
        except LinAlgError:
            return None

    def folded(self, target: Target, writer: RecipeWriter) -> Folded | None:
        """The attack on a target; none if the numbers tell nothing of it, or rounding hides what."""
        if np.any(target.columns >= self.part.design.size) or self._solver is None:
            return None
        reach = self._reach(target.columns, target.rows)
        length = float(target.rows.sum())  # tᵀt: every row has weight 1
        weights = self._solved(reach)
        gain = self._variance * float(reach @ weights) / length
        if not 0 < gain < 1 or self._digits_lost(target, 1 - gain):
            return None
        chosen, part_gain = self._chosen(reach / np.sqrt(length / self._variance), gain)
        share = (part_gain / (1 - part_gain)) / (gain / (1 - gain))
        if not 0 < share <= 1 + 1e-6:
            return None
        small = np.linalg.solve(self._covariance[np.ix_(chosen, chosen)], reach[chosen]) * self._variance
        published = small * self.part.factors[self.rows[chosen]]
        order = np.lexsort((chosen, -np.abs(published * np.sqrt(np.diagonal(self._covariance))[chosen])))
        lines, published = self.rows[chosen[order]], published[order]
        steps = tuple(
            writer.step(int(line), float(weight)) for line, weight in zip(lines, published, strict=True)
        )
        text, public = (writer.text(lines, steps, 0.0, owner) for owner in (True, False))
        together, columns = self._together(target, weights, 1 - gain)
        attack = LinearAttack(
            steps=steps,
            share=min(share, 1.0),
            numbers=int(self.rows.size),
            target=target.name,
            together=together,
            text=text,
            publishable_text=public if public != text else None,
        )
        return Folded(attack=attack, others=columns)

    def _digits_lost(self, target: Target, risk: float) -> bool:
        """Whether the attack on a value seems to leave less than the lower end, which no attack does."""
        if target.name == "total" or self.found.linear.categories:
            return False
        return risk < float(self.found.exposures.remaining_lower[target.columns[0]]) * (1 - 1e-6)

    def _reach(self, columns: IndexArray, rows: FloatArray) -> FloatArray:
        """g = A t on the numbers that are used."""
        entries = self.part.design.incidence.columns(columns)
        return np.asarray(entries[self.rows] @ rows)

    def _solved(self, reach: FloatArray) -> FloatArray:
        assert self._solver is not None
        scale, factor = self._solver
        return np.asarray(scale * cho_solve(factor, scale * reach))

    def _chosen(self, reach: FloatArray, total: float) -> tuple[IndexArray, float]:
        """The numbers that carry the attack, and their gain: 1 − ρ, of the ``total`` of all numbers."""
        C = self._covariance
        enough = _CARRIED * total / (1 - total)
        chosen = _forwards(C, reach, total)
        gain = float(reach[chosen] @ np.linalg.solve(C[np.ix_(chosen, chosen)], reach[chosen]))
        while chosen.size > 1:
            inverse = np.linalg.inv(C[np.ix_(chosen, chosen)])
            weights = inverse @ reach[chosen]
            losses = weights**2 / np.diagonal(inverse)
            least = int(np.argmin(losses))
            after = gain - float(losses[least])
            if chosen.size <= _MOST_STEPS and after < enough * (1 - after):
                break
            chosen, gain = np.delete(chosen, least), after
        return chosen, gain

    def _together(
        self, target: Target, weights: FloatArray, risk: float
    ) -> tuple[SeenTogether | None, IndexArray]:
        """The few records whose sum with the target is known best, and the columns of the others."""
        none: tuple[None, IndexArray] = None, np.zeros(0, dtype=np.intp)
        if target.name != "value" or self.findings.streamed:  # others that it is seen with may have no column
            return none
        full = np.zeros(self.part.design.row_count)
        full[self.rows] = weights
        in_guess = combined(self.part.design, full)
        column, counts = int(target.columns[0]), self.found.counts[: self.part.design.size]
        own = in_guess[column]
        heavy = np.flatnonzero((in_guess >= _HEAVY * own) & (counts > 0))
        heavy = heavy[heavy != column]
        order = np.concatenate([[column], heavy[np.lexsort((heavy, -in_guess[heavy]))]])
        best, best_risk = 0, risk
        for size in range(1, order.size + 1):
            members = counts[order[:size]].astype(np.float64)
            if members.sum() > _MOST_TOGETHER:
                break
            reach = self._reach(order[:size], members)
            left = 1 - self._variance * float(reach @ self._solved(reach)) / members.sum()
            if members.sum() > 1 and left < best_risk * (1 - 1e-6):
                best, best_risk = size, left
        if not best or best_risk <= 0:
            return none
        number = int(counts[order[:best]].sum())
        stddev = float(np.sqrt(best_risk * self._variance * number))
        return SeenTogether(others=number - 1, stddev=stddev), order[1:best]


def _forwards(C: FloatArray, reach: FloatArray, total: float) -> IndexArray:
    """The numbers that carry most, each chosen for what it adds to those before it."""
    diagonal = np.diagonal(C).copy()
    left, open_variance = reach.copy(), diagonal.copy()
    columns = np.zeros((min(_CANDIDATES, reach.size), reach.size))
    chosen: list[int] = []
    gain = 0.0
    for place in range(len(columns)):
        usable = open_variance > _DEPENDENT * diagonal
        gains = np.where(usable, left**2 / np.where(usable, open_variance, 1.0), 0.0)
        gains[chosen] = 0.0
        best = int(np.argmax(gains))
        if gains[best] <= 0 or gain >= total * (1 - 1e-9):
            break
        root = np.sqrt(open_variance[best])
        columns[place] = (C[best] - columns[:place].T @ columns[:place, best]) / root
        left -= columns[place] * (left[best] / root)
        open_variance -= columns[place] ** 2
        chosen.append(best)
        gain += float(gains[best])
    return np.array(chosen, dtype=np.intp)
