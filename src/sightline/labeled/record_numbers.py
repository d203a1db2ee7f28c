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
from sightline.labeled.unknown_gram import RecordsGram
from sightline.progress import Progress

# Signals beyond this would overflow a double when they are squared and summed.
_MOST = 1e140
# Brackets are rounded outwards by their error and printed to a thousandth. Where nothing else is asked for, a
# larger error than that of the attacks will do.
_ENOUGH_FOR_BRACKETS = 1e-6
# From so many rows on, the few sharp records take longer than all else. Where no attack is asked for, their
# brackets, like all others, are rounded outwards by an error of at most this.
_MANY_ROWS, _ENOUGH_FOR_MANY = 1_000, 1e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attack:
    """What is assumed of the values and of the attacker, and how it is computed."""

    prior: TargetPrior
    everyone_told: bool  # the attacker knows all other records, whichever is the target
    copies: FloatArray | None
    attacks: bool  # whether RMSE and recipes are wanted
    cost: RouteCost
    progress: Progress

    def risks(self, gram: RecordsGram) -> tuple[FloatArray | None, Risks]:
        """The precision of every record's prior, if others are unknown, and the risks to compute."""
        require_noise_to_count(gram)
        precision = None if self.everyone_told else precisions(gram, self.prior)
        return precision, risks_over_v(
            self.prior.variance,
            excess=gram.design.law.excess,
            precision=None if precision is None else float(np.max(precision)),
        )


def require_noise_to_count(gram: RecordsGram) -> None:
    """Refuse signals whose squares no double holds."""
    require(
        gram.signal < _MOST,
        f"numbers of at most {_MOST:g} times their noise",
        got=f"{gram.signal:g}",
        fix="so little noise is none",
        error=InvalidNoise,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordNumbers:
    """The attacks on identifiable groups and the quantities of every unknown record, with their errors."""

    attacks: GroupAttacks
    risks: Risks  # what the quantities of the same names are
    quantities: dict[Quantity, FloatArray]
    share_error: FloatArray  # bounds on the absolute errors of the risks over v
    relative_error: FloatArray  # and on relative errors that come on top


def refined_numbers(problem: Problem, reading: Reading, *, attacks: bool) -> RecordNumbers:
    """The numbers of a dense route, computed again where digits were lost."""
    quantities = reading.quantities
    found = group_attacks(problem, reading) if attacks else no_attacks(problem.gram, reading, rmse=np.nan)
    costly = not attacks and problem.gram.design.row_count > _MANY_ROWS
    if costly and reading.share_error + 2 * problem.gram.whitening_error < _ENOUGH_FOR_MANY:
        return unrefined_numbers(problem.gram, reading, found, problem.risks)
    sharp, refined = refine_sharp(problem, reading)
    touched = quantities[Quantity.INFORMATION] > 0
    share_error = np.where(touched, reading.share_error + 2 * problem.gram.whitening_error, 0.0)
    share_error[sharp] = 0.0
    relative_error = np.zeros(touched.size)
    relative_error[sharp] = refined
    errors = (reading.share_error, refined, found.relative_error, problem.gram.whitening_error)
    exact_columns = problem.gram.design.incidence.complete  # ball arithmetic starts from all of them
    if exact_columns and max(errors) > (certified.ENOUGH if attacks else _ENOUGH_FOR_BRACKETS):
        numbers = certified.certified_numbers(problem, reading, attacks=attacks)
        if numbers is not None:
            error, quantities = certified.RELATIVE_ERROR, numbers.quantities
            if numbers.rmse is not None and numbers.recipes is not None:
                found = GroupAttacks(rmse=numbers.rmse, recipes=numbers.recipes, relative_error=error)
            share_error = np.zeros(touched.size)
            relative_error = np.where(touched, error, 0.0)
    return RecordNumbers(
        attacks=found,
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


def no_attacks(gram: RecordsGram, reading: Reading, *, rmse: float) -> GroupAttacks:
    """No attacks and no recipes: ``rmse`` stands for the error of all of them."""
    return GroupAttacks(
        rmse=np.full(reading.decisions.sizes.size, rmse),
        recipes=np.zeros((0, gram.design.row_count)),
        relative_error=0.0,
    )
