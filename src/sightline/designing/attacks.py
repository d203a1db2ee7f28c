"""The attacks that the noise must hold off: who, by which recipe, and at which price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.exposed import keys_of
from sightline.auditing.findings import Findings, Keys
from sightline.auditing.recipes import RecipeWriter
from sightline.designing.choice import Chosen
from sightline.designing.result import PricedAttack

_NOTHING = 1e-6  # a share of the added noise that is only rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedAttacks:
    """The dearest attacks, how many have a price, and the share of the noise that the budget asks for."""

    attacks: tuple[PricedAttack, ...]
    in_all: int
    budget: float


def priced_attacks(findings: Findings, chosen: Chosen, *, top: int, keys: Keys | None) -> PricedAttacks:
    r"""The dearest attacks, and how many have a price.

    At the optimum :math:`w = \sum_i \lambda_i \nabla\varphi_i` on all numbers that were raised, so the added
    loss :math:`w^\top (s - s_0)` is a sum over the attacks of
    :math:`\lambda_i\, \nabla\varphi_i^\top (s - s_0)`. These parts over their sum are the prices.
    """
    problem, optimum = chosen.problem, chosen.optimum
    cuts = optimum.cuts
    added = problem.variances(optimum.x) - problem.floors
    each = zip(problem.risks, cuts.chosen, cuts.recipes, cuts.prices, strict=True)
    parts = [
        prices * np.asarray(one.at(cuts.variances).tangents(chosen, recipes, prices).each.T @ added)
        for one, chosen, recipes, prices in each
    ]
    attacks = len(chosen.bounds)  # the other constraints are the budget's
    total = float(sum(part.sum() for part in parts[:attacks]))
    budget = (
        sum(float(part.sum()) for part, one in zip(parts, problem.risks, strict=True) if one.sign > 0) - total
    )
    if total <= _NOTHING * max(total, budget) or total <= 0:
        return PricedAttacks(attacks=(), in_all=0, budget=1.0 if budget > 0 else 0.0)
    parts, total = parts[:attacks], total + budget
    kind = np.concatenate([np.full(part.size, place) for place, part in enumerate(parts)])
    number = np.concatenate([np.arange(part.size) for part in parts])
    share = np.concatenate(parts) / total
    paid = np.flatnonzero(share > _NOTHING)
    share = share / (share[paid].sum() + budget / total)
    order = paid[np.lexsort((paid, -share[paid]))]
    assert findings.linear is not None  # the plan was checked to publish something linear
    writer = RecipeWriter(findings=findings, found=findings.linear)
    shown = order[:top]
    columns = np.array(
        [chosen.records[kind[i]][cuts.chosen[kind[i]][number[i]]] for i in shown], dtype=np.intp
    )
    named = _names(findings, np.where(columns >= 0, columns, -1 - columns), keys)
    found = []
    for i, column in zip(shown.tolist(), columns.tolist(), strict=True):
        recipe = _recipe(cuts.recipes[kind[i]], int(number[i]))[: findings.linear.linear.cells.size]
        own = column if column >= 0 else -1 - column  # of a person with several rows
        shortest, size = writer.shortest(own), int(findings.linear.counts[own])
        found.append(
            PricedAttack(
                record=named.get(own),
                size=size,
                recipe=_in_words(writer, own, recipe),
                shortest=None if shortest is None else shortest.text,
                bound=chosen.bounds[kind[i]].value,
                price=float(share[i]),
            )
        )
    return PricedAttacks(attacks=tuple(found), in_all=int(paid.size), budget=1.0 - float(share[paid].sum()))


def sharpest_attack(findings: Findings, *, keys: Keys | None) -> tuple[PricedAttack, float]:
    """The attack on the record that keeps least, and what it keeps."""
    found = findings.linear
    assert found is not None  # the plan was checked to publish something linear
    lower = found.lower
    column = int(np.argmin(lower))
    weights = found.linear.image(column) / found.linear.design.noise.variance
    writer = RecipeWriter(findings=findings, found=found)
    best, shortest = writer.best(column), writer.shortest(column)
    recipe = best or writer.written(column, weights / float(np.max(np.abs(weights))))
    attack = PricedAttack(
        record=_names(findings, np.array([column]), keys).get(column),
        size=int(found.counts[column]),
        recipe=recipe.text,
        shortest=None if shortest is None else shortest.text,
        bound="the largest of the audit's",
        price=1.0,
    )
    return attack, float(lower[column])


def _recipe(recipes: FloatArray, column: int) -> FloatArray:
    own = recipes[:, [column]]
    dense: FloatArray = own if isinstance(own, np.ndarray) else own.toarray()
    return dense[:, 0]


def _in_words(writer: RecipeWriter, column: int, weights: FloatArray) -> str:
    """The recipe in words. Small weights are left out: they belong to numbers that hardly help."""
    kept = np.where(np.abs(weights) > 1e-3 * np.max(np.abs(weights)), weights, 0.0)
    return writer.written(column, kept).text


def _names(findings: Findings, columns: IndexArray, keys: Keys | None) -> dict[int, str]:
    """The keys of the records of some columns."""
    if keys is None or findings.linear is None or not columns.size:
        return {}
    named = keys_of(findings.linear, columns, keys)
    return {column: ", ".join(own) for column, own in named.items() if own}
