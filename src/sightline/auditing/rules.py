r"""The rules that statistical offices sign: k, dominance and p %, for numbers and for what follows from them.

A combination is one published number, or a difference of two or three of them: :math:`x - y`,
:math:`x - y - z`. With 0/1 rows a, b, c and the people :math:`n` behind each, the people whose coefficient is
not zero are counted by inclusion and exclusion: :math:`n_a + n_b - 2n_{ab}`, and :math:`n_a + n_b + n_c -
2n_{ab} - 2n_{ac} - n_{bc} + 3n_{abc}`. What no three numbers give but elimination does, the sum over a group
that the numbers tell apart, is added from the audit.

- *k*: fewer than k people are behind a combination.
- *dominance (n, share)*: of an exact sum, the n largest are more than this share of it.
- *p %*: of an exact sum, what is left without the two largest is less than p % of the largest: who is the
  second knows the first to within p %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, findings_with
from sightline.auditing.lowering import LINEAR, cell_name
from sightline.auditing.plan_sections import Rules
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result_parts import BrokenRule, RulesReport
from sightline.errors import InvalidPlan, require
from sightline.format import count, percent
from sightline.progress import reported
from sightline.tables.membership import Membership, RowValues
from sightline.tables.subject import SecretKind

_MOST_WORK = 4e9  # products for differences of three: seconds
_MOST_BROKEN = 100  # combinations that are listed, the fewest people first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Combination:
    """Numbers with signs, and the coefficients of the signatures in what they give."""

    cells: tuple[int, ...]  # the first is added, the others subtracted
    coefficients: NDArray[np.int8]  # over the signatures
    people: int  # whose coefficient is not zero
    text: str = ""  # a recipe, where no two or three numbers give it

    @property
    def is_sum(self) -> bool:
        """Whether it is a multiple of the sum over those people."""
        used = self.coefficients[self.coefficients != 0]
        return bool(np.all(used == used[0])) if used.size else False

    @property
    def key(self) -> bytes:
        """The same for combinations that are multiples of one sum, or that differ by their sign."""
        if self.is_sum:
            return bytes((self.coefficients != 0).tobytes())
        first = self.coefficients[np.flatnonzero(self.coefficients)[0]]
        return bytes((self.coefficients * np.sign(first)).tobytes())


def rules_report(findings: Findings, values: Callable[[], RowValues] | None) -> RulesReport | None:
    """Whether the plan's rules hold; none if it has none. ``values`` fetches the secrets, for exact sums."""
    rules, membership = findings.plan.rules, findings.membership
    if not rules.given:
        return None
    require(
        not findings.streamed,
        "[rules] of a table in memory",
        got="a table that is streamed",
        fix="all numbers are compared at once by who is behind them: allow more --max-memory",
        error=InvalidPlan,
    )
    require(
        membership.contributions == 1,
        "[rules] with one row a record",
        got=f"up to {membership.contributions:,} rows a record",
        fix="in a difference some rows of a person cancel and others do not: rows do not count people; "
        'add them up: sql = "SELECT record, SUM(x) AS x … GROUP BY record" in [data]',
        error=InvalidPlan,
    )
    every, complete = _combinations(findings, np.ones(len(membership.cells), dtype=np.bool_), rules.k or 0)
    broken = [_too_few(findings, one, rules.k) for one in every if rules.k and 0 < one.people < rules.k]
    exact = findings.pricing.exact
    if rules.of_values and exact.any():
        require(
            findings.plan.data.secret_kind is SecretKind.NUMBER and findings.plan.data.domain[0] >= 0,
            "dominance and p for sums of numbers from 0 on",
            got=f"{findings.plan.data.secret_kind.value}s from {findings.plan.data.domain[0]:g}",
            error=InvalidPlan,
        )
        if values is not None:
            exactly, all_exact = _combinations(findings, exact, membership.rows + 1)
            largest = _Largest.of(values(), len(membership.counts), max(rules.dominance.n, 2))
            broken += [
                text for one in exactly if one.is_sum for text in _of_values(findings, one, largest, rules)
            ]
            complete &= all_exact
    broken.sort(key=lambda one: (one.people, one.rule, one.text))
    far = "differences of up to three numbers" if complete else "differences of two numbers"
    return RulesReport(
        broken=tuple(broken[:_MOST_BROKEN]),
        in_all=len(broken),
        checked=f"{rules.text}: for every number, {far}, and what elimination singles out",
    )


def _combinations(findings: Findings, chosen: NDArray[np.bool_], most: int) -> tuple[list[Combination], bool]:
    """Combinations of the chosen cells with fewer than ``most`` people, and whether threes were looked at."""
    membership, complete = findings.membership, True
    found: dict[bytes, Combination] = {}
    for cells in _comparable(membership):
        own = cells[chosen[cells]]
        table = _table(membership, own)
        complete &= float(len(own)) ** 3 * table.shape[1] <= _MOST_WORK
        for one in _differences(table, own, membership.counts, most, threes=complete):
            key = one.key
            if key not in found or len(one.cells) < len(found[key].cells):
                found[key] = one
    for one in _singled_out(findings, chosen, most):
        found.setdefault(one.key, one)
    return list(found.values()), complete


def _comparable(membership: Membership) -> Iterator[IndexArray]:
    """Cells whose numbers can be subtracted: of one feature, and each row with weight one."""

    def feature(p: int) -> str:
        part = membership.partitions[p]
        alone = f"{p}" if part.weighted or part.feature not in LINEAR else ""
        return repr((part.feature.value, part.parameter, part.above, alone))

    starts = membership.starts
    for _, parts in groupby(sorted(range(len(membership.partitions)), key=feature), key=feature):
        yield np.concatenate([np.arange(starts[p], starts[p + 1]) for p in parts]).astype(np.intp)


def _table(membership: Membership, cells: IndexArray) -> NDArray[np.bool_]:
    """Which signatures are in which cell."""
    owner = np.array([membership.cells[cell].partition for cell in cells.tolist()], dtype=np.intp)
    table = np.zeros((cells.size, len(membership.counts)), dtype=np.bool_)
    for p in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == p)
        table[mine] = membership.positions(p)[None, :] == cells[mine][:, None]
    return table


def _differences(
    table: NDArray[np.bool_], cells: IndexArray, people: NDArray[np.int64], most: int, *, threes: bool
) -> Iterator[Combination]:
    """One number, or a difference of two or three, with some people but fewer than ``most``."""
    A, n = table.astype(np.float64), people.astype(np.float64)
    pairs = (A * n) @ A.T
    size = np.diagonal(pairs)

    def made(*places: int) -> Combination:
        first, *others = places
        row = table[first].astype(np.int8)
        for other in others:
            row = row - table[other].astype(np.int8)
        used = int(people[row != 0].sum())
        return Combination(cells=tuple(int(cells[one]) for one in places), coefficients=row, people=used)

    for a in np.flatnonzero((size > 0) & (size < most)).tolist():
        yield made(a)
    apart = size[:, None] + size[None, :] - 2 * pairs
    for a, b in np.argwhere(np.triu((apart > 0.5) & (apart < most - 0.5), 1)).tolist():
        yield made(a, b) if size[a] >= size[b] else made(b, a)
    if not threes or len(cells) < 3:
        return
    for a in reported(range(len(cells)), "looking for differences of three"):
        both = (A * (n * A[a])) @ A.T
        left = size[a] + size[:, None] + size[None, :] - 2 * (pairs[a][:, None] + pairs[a][None, :])
        left = left - pairs + 3 * both
        few = np.triu((left > 0.5) & (left < most - 0.5), 1)
        few[a, :] = few[:, a] = False
        for b, c in np.argwhere(few).tolist():
            yield made(a, b, c)


def _singled_out(findings: Findings, chosen: NDArray[np.bool_], most: int) -> Iterator[Combination]:
    """Groups whose sum some combination of any length gives, by the audit's elimination."""
    found = findings.linear
    if found is None or found.linear.columns_of_unit > 1 or not found.repeatable:
        return
    rows = chosen[found.linear.cells]
    if not rows.any():
        return
    if not rows.all():
        found = findings_with(findings, found.linear.take(np.flatnonzero(rows)))
    if found is None:
        return
    writer = RecipeWriter(findings=findings, found=found)
    for column in np.flatnonzero(found.visible & (found.counts < most)).tolist():
        recipe = writer.best(column)
        members = np.zeros(len(findings.membership.counts), dtype=np.int8)
        members[found.linear.signatures_of(column)] = 1
        people = int(findings.membership.counts[members != 0].sum())
        if recipe is not None and 0 < people < most:
            yield Combination(cells=(), coefficients=members, people=people, text=recipe.text)


def _name(findings: Findings, one: Combination, *, owner: bool) -> str:
    if not one.cells:
        return one.text if owner else "a combination of numbers"
    withheld = [findings.key_columns[findings.membership.cells[cell].partition] for cell in one.cells]
    names = [
        f'"{cell_name(findings.membership, cell, withheld=frozenset() if owner else keys)}"'
        for cell, keys in zip(one.cells, withheld, strict=True)
    ]
    return " − ".join(names)


def _too_few(findings: Findings, one: Combination, k: int | None) -> BrokenRule:
    def text(owner: bool) -> str:
        behind = f"{count(one.people, 'person is', 'people are')} behind it, fewer than {k}"
        return f"k: {_name(findings, one, owner=owner)}: {behind}"

    return BrokenRule(
        rule="k", people=one.people, text=text(True), publishable_text=text(False), owner_only=False
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Largest:
    """The largest values of every signature, and their sum. Owner-only."""

    values: FloatArray  # (K, m), the largest first; 0 where there are fewer
    sums: FloatArray

    @classmethod
    def of(cls, rows: RowValues, signatures: int, most: int) -> _Largest:
        order = np.lexsort((-rows.secret, rows.signature))
        signature, secret = rows.signature[order], rows.secret[order]
        starts = np.searchsorted(signature, np.arange(signatures))
        place = np.arange(signature.size) - starts[signature]
        values = np.zeros((signatures, most))
        first = place < most
        values[signature[first], place[first]] = secret[first]
        sums = np.bincount(signature, secret, minlength=signatures).astype(np.float64)
        return cls(values=values, sums=sums)


def _of_values(findings: Findings, one: Combination, largest: _Largest, rules: Rules) -> Iterator[BrokenRule]:
    """The rules on values that the sum over some people breaks."""
    inside = one.coefficients != 0
    total = float(largest.sums[inside].sum())
    values = np.sort(largest.values[inside].ravel())[::-1]
    name = _name(findings, one, owner=True)
    n, share, p = rules.dominance.n, rules.dominance.share, rules.p
    if total <= 0:
        return
    if share is not None and float(values[:n].sum()) > share * total:
        who = "the largest is" if n == 1 else f"the {n} largest are"
        yield _broken("dominance", one, f"{name}: {who} more than {percent(share)} of it")
    if p is not None and total - float(values[:2].sum()) < p * float(values[0]):
        yield _broken("p", one, f"{name}: the second largest knows the largest to within {percent(p)}")


def _broken(rule: str, one: Combination, text: str) -> BrokenRule:
    return BrokenRule(rule=rule, people=one.people, text=f"{rule}: {text}", owner_only=True)
