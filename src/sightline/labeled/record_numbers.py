"""The numbers of every unknown record from a route's reading, and what is assumed of the attacker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import InvalidNoise, require
from sightline.labeled import certified
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.hidden import precisions
from sightline.labeled.risk_forms import Quantity, Risks, risks_over_v
from sightline.labeled.routes.cost import RouteCost
from sightline.labeled.routes.problem import Problem, Reading
from sightline.labeled.sharp_records import GroupAttacks, group_attacks, refine_sharp
from sightline.labeled.unknown_gram import RecordsGram, row_counts
from sightline.progress import Progress

# Signals beyond this would overflow a double when they are squared and summed.
_MOST = 1e140


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attack:
    """What is assumed of the values and of the attacker, and how it is computed."""

    prior: TargetPrior
    everyone_told: bool  # the attacker knows all other records, whichever is the target
    copies: FloatArray | None
    cost: RouteCost
    progress: Progress

    def risks(self, gram: RecordsGram) -> tuple[FloatArray | None, Risks]:
        """The precision of every record's prior, if others are unknown, and the risks to compute."""
        require(
            gram.signal < _MOST,
            f"numbers of at most {_MOST:g} times their noise",
            got=f"{gram.signal:g}",
            fix="so little noise is none",
            error=InvalidNoise,
        )
        precision = None if self.everyone_told else precisions(gram, self.prior)
        return precision, risks_over_v(
            self.prior.variance,
            excess=gram.design.law.excess,
            precision=None if precision is None else float(np.max(precision)),
        )

    def laplace_answers(self, gram: RecordsGram) -> FloatArray | None:
        """How many answers with Laplace noise depend on each unknown record; ``None`` for Gaussian noise."""
        if gram.design.law.excess == 1:
            return None
        each = np.ones(gram.design.row_count) if self.copies is None else self.copies
        return row_counts(gram.design, each)[gram.unknown]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordNumbers:
    """The attacks on identifiable groups and the quantities of every unknown record, with their errors."""

    attacks: GroupAttacks
    risks: Risks  # what the quantities of the same names are
    quantities: dict[Quantity, FloatArray]
    share_error: FloatArray  # bounds on the absolute errors of the risks over v
    relative_error: FloatArray  # and on relative errors that come on top


def refined_numbers(problem: Problem, reading: Reading) -> RecordNumbers:
    """The numbers of a dense route, computed again where digits were lost."""
    quantities = reading.quantities
    attacks = group_attacks(problem, reading)
    sharp, refined = refine_sharp(problem, reading)
    touched = quantities[Quantity.INFORMATION] > 0
    share_error = np.where(touched, reading.share_error + 2 * problem.gram.whitening_error, 0.0)
    share_error[sharp] = 0.0
    relative_error = np.zeros(touched.size)
    relative_error[sharp] = refined
    errors = (reading.share_error, refined, attacks.relative_error, problem.gram.whitening_error)
    if max(errors) > certified.ENOUGH:
        numbers = certified.certified_numbers(problem, reading)
        if numbers is not None:
            error, quantities = certified.RELATIVE_ERROR, numbers.quantities
            attacks = GroupAttacks(rmse=numbers.rmse, recipes=numbers.recipes, relative_error=error)
            share_error = np.zeros(touched.size)
            relative_error = np.where(touched, error, 0.0)
    return RecordNumbers(
        attacks=attacks,
        risks=problem.risks,
        quantities=quantities,
        share_error=share_error,
        relative_error=relative_error,
    )


def unrefined_numbers(
    gram: RecordsGram, reading: Reading, attacks: GroupAttacks, risks: Risks
) -> RecordNumbers:
    """The numbers of a reading as they are, with its error for all of them."""
    touched = reading.quantities[Quantity.INFORMATION] > 0
    return RecordNumbers(
        attacks=attacks,
        risks=risks,
        quantities=reading.quantities,
        share_error=np.where(touched, reading.share_error + 2 * gram.whitening_error, 0.0),
        relative_error=np.zeros(touched.size),
    )
