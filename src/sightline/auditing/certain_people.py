"""Who is certain: whose yes or no, or category, follows from the published counts at the true values.

Exact, rounded and blank counts are intervals (:mod:`sightline.noise.count_rules`), and programs decide whose
value is the same in every table within them (:mod:`sightline.bounds.certain`). Owner-only: it depends on the
secrets which intervals are published.

Where chance rounds counts, nobody knows before the draw what is published. Numbers without chance are decided
alone first; then everybody is looked for whom some draw may make certain, and draws are simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.exposed import signature_names
from sightline.auditing.findings import NO_KEYS, Findings, Keys
from sightline.auditing.known_sums import Totals, known_sums
from sightline.auditing.lowering import cell_name, linear_partitions
from sightline.auditing.published_numbers import values_of
from sightline.auditing.result_parts import MOST_LISTED, CertainGroup, CertainReport, LikelyGroup
from sightline.auditing.stated_noise import count_rules
from sightline.bounds.certain import (
    BoolArray,
    CountIntervals,
    Decisions,
    contradiction,
    decide,
    some_table,
)
from sightline.bounds.likely import posterior_means
from sightline.errors import require_plan
from sightline.format import number
from sightline.noise.count_rules import CountRule
from sightline.tables.membership import Membership
from sightline.values import frozen

_WHOLE = 1e-6  # within which a sum of a ledger, which is solved for, is taken as whole
# Entries of the numbers of kinds of persons, of which an integer program looks for a table in seconds.
_MOST_OF_KINDS = 100_000
_DRAWS = 20  # simulated draws of rules with chance: enough to tell a rare case from a usual one
# Of a simulated attack: classes, steps of each and of all. 60,000 steps take half a second.
_MOST_WALKED, _STEPS_OF_A_CLASS, _MOST_STEPS = 400, 1_000, 60_000
MOST_NAMED = 6  # numbers that contradict each other, in a message
_SEED = 45  # of these draws: the same plan and table give the same result


@frozen(slots=False)
class PublishedCounts:
    """The counts of a plan that a rule publishes, and the people behind them in classes."""

    findings: Findings
    cells: IndexArray  # the membership's cell of every number; the rest are the sizes of signatures
    intervals: CountIntervals  # as the rules leave them at most
    true_counts: FloatArray  # of the cells
    offsets: FloatArray  # a published count is the sum over the classes, and this
    rules: tuple[CountRule, ...]  # of each cell
    signature: IndexArray  # of each class; of a kind of persons, of one of their rows
    kind: IndexArray  # the same, or the kind of persons
    by_kind: bool  # whether a class is a kind of persons, all of whose rows have one value
    categories: int  # classes of a signature
    published: BoolArray  # cells whose published values are known: nothing is drawn any more

    @classmethod
    def of(cls, findings: Findings, totals: FloatArray, *, may_stay: bool = False) -> PublishedCounts | int:
        """Of findings about a yes or no, or a category; 0 if no count is published without noise.

        With ``may_stay``, of persons all of whose rows have one value, although nothing says so; 0 if no
        table of such persons has these numbers.

        A ledger has sums that give every number its true value, and no table: then some whole table with
        these numbers takes its place. If there is none, how many people are not decided.
        """
        membership, pricing, plan = findings.membership, findings.pricing, findings.plan
        known = known_sums(findings, totals, linear_partitions(membership))
        if not known or not known[0].totals.size:
            return 0
        sums = known[0]
        lines = np.flatnonzero(pricing.exact[sums.cells])
        if not lines.size:
            return 0
        cells, owner = sums.cells[lines], pricing.owner[sums.cells[lines]]
        by_partition = count_rules(plan, membership)
        rules = tuple(by_partition[p] for p in owner.tolist())
        below = np.array([not membership.partitions[p].above for p in owner.tolist()])
        offsets = np.where(below, membership.weight_sums[cells], 0.0)
        weights, truth = sums.weights[lines], sums.totals
        counts, signature, kind = np.asarray(weights @ truth) + offsets, sums.signature, sums.signature
        people = np.asarray(sums.counts, dtype=np.float64)
        plain = np.array([not membership.partitions[p].weighted for p in owner.tolist()])
        counts = np.where(plain & (np.abs(counts - np.round(counts)) < _WHOLE), np.round(counts), counts)
        categories = max(1, len(plan.data.categories))
        low, high = counts.copy(), counts.copy()
        for rule in set(rules):
            own = np.array([one == rule for one in rules])
            if not rule.exact:
                low[own], high[own] = rule.known_of_counts(counts[own])
        values = _published_values(findings, by_partition)
        is_published = np.array([cell in values for cell in cells.tolist()], dtype=np.bool_)
        for place in np.flatnonzero(is_published).tolist():
            shown = np.array([values[int(cells[place])]])
            low[place], high[place] = (end[0] for end in rules[place].known_of_values(shown))
        if by_kind := may_stay or _one_value_each(findings):
            together = _Kinds.of(membership, sums.signature[::categories])
            weights = sparse.csr_array(weights @ sparse.kron(together.rows, sparse.eye_array(categories)))
            people, signature = (
                np.repeat(together.persons, categories),
                np.repeat(together.signature, categories),
            )
            kind = np.repeat(together.kind, categories)
            if together.partly_known or weights.nnz > _MOST_OF_KINDS:
                return int(together.persons.sum())
            truth = np.full(people.size, -1.0)  # of persons: some table takes the place of the true one
        tables, ends = [weights], [(low - offsets, high - offsets)]
        if categories > 1:  # everybody has one category
            one_each = sparse.kron(
                sparse.eye_array(truth.size // categories), np.ones((1, categories)), format="csr"
            )
            sizes = people[::categories]
            tables, ends = [*tables, one_each], [*ends, (sizes, sizes)]
        every = sparse.csr_array(sparse.vstack(tables, format="csr"))
        lows, highs = (np.concatenate(end) for end in zip(*ends, strict=True))
        if values:
            _check_published(findings, cells, (low, high), counts, (weights, offsets, people))
        near = np.round(truth)
        is_table = np.abs(truth - near).max() <= _WHOLE and not np.any((near < 0) | (near > people))
        whole, open_ = (near, False) if is_table else some_table(every, lows, highs, people)
        if whole is None:
            return int(people[::categories].sum()) if open_ or not may_stay else 0
        intervals = CountIntervals(weights=every, low=lows, high=highs, sizes=people, truth=whole)
        return cls(
            findings=findings,
            cells=cells,
            intervals=intervals,
            true_counts=counts,
            offsets=offsets,
            rules=rules,
            signature=signature,
            kind=kind,
            by_kind=by_kind,
            categories=categories,
            published=is_published,
        )

    @property
    def known(self) -> tuple[FloatArray, FloatArray]:
        """The least and the most that every published count may be."""
        ends = (self.intervals.low, self.intervals.high)
        low, high = (end[: self.cells.size] + self.offsets for end in ends)
        return low, high

    @property
    def by_chance(self) -> BoolArray:
        """Numbers that chance changes; the sizes of signatures are not among them."""
        of_cells = np.array([rule.by_chance for rule in self.rules], dtype=np.bool_) & ~self.published
        return np.append(of_cells, np.zeros(self.intervals.low.size - of_cells.size, dtype=np.bool_))

    def without_chance(self) -> CountIntervals:
        """The intervals of the numbers that no chance changes; the others may be anything."""
        chance, own = self.by_chance, self.intervals
        low, high = np.where(chance, -np.inf, own.low), np.where(chance, np.inf, own.high)
        kept = np.flatnonzero(~chance)
        return replace(own, weights=own.weights[kept], low=low[kept], high=high[kept])

    def drawn(self, rng: np.random.Generator) -> CountIntervals:
        """The intervals after one draw of what chance decides."""
        low, high = self.intervals.low.copy(), self.intervals.high.copy()
        draws = rng.random(self.cells.size)
        for rule in set(self.rules):
            own = np.flatnonzero(np.array([one == rule for one in self.rules]) & ~self.published)
            if rule.by_chance:
                ends = rule.known_of_values(rule.published(self.true_counts[own], draws[own]))
                low[own], high[own] = (end - self.offsets[own] for end in ends)
        return replace(self.intervals, low=low, high=high)

    def people(self, classes: BoolArray) -> int:
        """How many people have one of some classes, in some row."""
        persons = self.findings.membership.persons
        if self.findings.membership.by_person and not self.by_kind:
            rows = np.unique(self.signature[classes])
            kinds = np.unique(persons.kind_of[np.isin(persons.signatures, rows)])
            return int(persons.persons[kinds].sum())
        sizes = self.intervals.sizes.reshape(-1, self.categories)[:, 0]
        return int(sizes @ classes.reshape(-1, self.categories).any(axis=1))

    def told(self, found: Decisions) -> BoolArray:
        """Classes that tell a value: of a category the one that everybody has, and of a yes or no either."""
        if self.categories == 1:
            return found.certain
        return np.asarray(found.certain & (self.intervals.truth > 0))


def _one_value_each(findings: Findings) -> bool:
    """Whether persons with several rows have one value: as the plan says, or as the table has it and the plan
    does not exclude it.
    """
    constant = findings.membership.persons.constant and findings.plan.data.values != "independent"
    return findings.membership.by_person and (findings.one_value or constant)


@frozen(slots=False)
class _Kinds:
    """Persons whose rows have one value, by their rows: they answer for all of them together."""

    rows: Any  # signatures with unknown rows × kinds, sparse: how many rows a person has there
    persons: FloatArray  # of each kind
    signature: IndexArray  # of one of their rows
    kind: IndexArray  # in the membership's table of persons
    partly_known: bool  # whether somebody has known rows and others: then these are known, too

    @classmethod
    def of(cls, membership: Membership, signatures: IndexArray) -> _Kinds:
        table = membership.persons
        kept, own = np.flatnonzero(table.unknown), ~table.known
        kinds, first = np.unique(table.kind_of[own], return_index=True)
        place = np.searchsorted(signatures, table.signatures[own]), np.searchsorted(kept, table.kind_of[own])
        counted = (table.rows[own].astype(np.float64), place)
        return cls(
            rows=sparse.csr_array(counted, shape=(signatures.size, kept.size)),
            persons=table.persons[kinds].astype(np.float64),
            signature=table.signatures[own][first],
            kind=kept,
            partly_known=bool(np.isin(table.kind_of[table.known], kept).any()),
        )


def _published_values(findings: Findings, rules: tuple[CountRule, ...]) -> dict[int, float]:
    """The published value of every cell of which a file says it."""
    values = dict[int, float]()
    for query, release in enumerate(findings.plan.releases):
        if release.numbers:
            values |= values_of(release.numbers, release.name, findings.membership, query, rules)
    return values


def _check_published(
    findings: Findings,
    cells: IndexArray,
    ends: tuple[FloatArray, FloatArray],
    counts: FloatArray,
    classes: tuple[Any, FloatArray, FloatArray],
) -> None:
    """Refuse published numbers that no table has, or that this table does not have."""
    (low, high), (weights, offsets, people) = ends, classes
    off = np.flatnonzero((counts < low - _WHOLE) | (counts > high + _WHOLE))
    if not off.size:
        return

    def named(place: int) -> str:
        known = f"{low[place]:g}" if low[place] == high[place] else f"{low[place]:g} to {high[place]:g}"
        return f'"{cell_name(findings.membership, int(cells[place]))}" ({known})'

    weighted = contradiction(weights, low - offsets, high - offsets, people)
    require_plan(
        not weighted,
        "published numbers that some table has",
        got=" and ".join(named(place) for place in list(weighted)[:MOST_NAMED])
        + ", which contradict each other",
        fix="correct the files of numbers, or the rules by which they were made",
    )
    require_plan(
        False,
        "published numbers that were made from this table",
        got=f"{off.size:,} that its counts are not published as, such as {named(int(off[0]))}",
        fix="audit the table from which they were made",
    )


def certain_report(
    findings: Findings,
    totals: Totals,
    *,
    keys: Keys = NO_KEYS,
    of: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> CertainReport | None:
    """Who is certain, of the secret and of every yes-or-no question; none without a count that is a fact.

    Of everybody, or ``of`` those with some signatures, or of some kinds of persons if these have one value.
    """
    if findings.plan.data.only_guarantee:  # others might be in the table
        return None
    rows, reports = findings.row_by_row, list[CertainReport]()
    for one in (rows, *rows.questions):
        if not one.linear or one.prior.kind.measured or one.streamed:
            continue
        counts = PublishedCounts.of(one, totals(one.question))
        if isinstance(counts, PublishedCounts):
            reports.append(_report(counts, keys, of))
        elif counts:
            reports.append(CertainReport(undecided=counts))
        if counts and one.membership.persons.may_stay and not one.membership.persons.constant:
            reports.append(CertainReport(undecided=_told_if_values_stay(one, totals(one.question))))
    if not reports:
        return None
    worst = max(
        reports, key=lambda one: (one.people, one.draws[0], one.by_draw, one.undecided, one.ruled_out)
    )
    groups = sorted((group for one in reports for group in one.groups), key=lambda group: group.people)
    return worst.model_copy(update={"groups": tuple(groups[:MOST_LISTED])})


def _told_if_values_stay(findings: Findings, totals: FloatArray) -> int:
    """How many people are certain, or not decided, if everybody's rows have one value: then it is open."""
    counts = PublishedCounts.of(findings, totals, may_stay=True)
    if not isinstance(counts, PublishedCounts):
        return counts
    decisions = decide(counts.intervals)
    return counts.people(counts.told(decisions) | decisions.undecided)


def with_likely(report: CertainReport | None, findings: Findings, totals: Totals) -> CertainReport | None:
    """The report with a simulated attack, where a rule hides counts, nobody is certain and nothing is shown.

    Of a yes or no in some hundreds of classes: a walk through larger tables takes too long to tell.
    """
    rows = findings.row_by_row
    open_ones = report is not None and not (report.people or report.by_draw) and rows.not_shown
    if not open_ones or not rows.pricing.by_count_rule or not rows.prior.kind.two_values:
        return report
    counts = PublishedCounts.of(rows, totals(None)) if rows.linear and not rows.streamed else 0
    if not isinstance(counts, PublishedCounts) or counts.by_chance.any():
        return report
    own, share = counts.intervals, rows.prior.share
    if own.sizes.size > _MOST_WALKED:
        return report
    steps = min(_MOST_STEPS, _STEPS_OF_A_CLASS * own.sizes.size)
    chances = posterior_means(own, share=share, steps=steps, seed=_SEED)
    left = chances * (1 - chances) / (share * (1 - share))
    place = int(np.argmin(left))
    (label,) = signature_names(rows, counts.signature[[place]])
    yes = bool(chances[place] > 0.5)
    likely = LikelyGroup(
        people=int(own.sizes[place]),
        label=label,
        value="yes" if yes else "no",
        chance=float(chances[place] if yes else 1 - chances[place]),
        left=float(left[place]),
        steps=steps,
    )
    assert report is not None
    return report.model_copy(update={"likely": likely})


def _report(counts: PublishedCounts, keys: Keys, of: tuple[Sequence[int], Sequence[int]]) -> CertainReport:
    chance = bool(counts.by_chance.any())
    some = of[1] if counts.by_kind else of[0]
    asked = np.isin(counts.kind, list(some)) if some else np.ones(counts.kind.size, dtype=np.bool_)
    sure = decide(counts.without_chance() if chance else counts.intervals)
    by_draw, draws = 0, (0, 0)
    undecided = sure.undecided
    if chance:
        at_most = decide(counts.intervals)
        undecided = undecided | at_most.undecided
        possible = counts.told(at_most) & ~counts.told(sure) & asked
        by_draw = counts.people(possible)
        if by_draw:
            rng = np.random.default_rng(_SEED)
            each = [decide(counts.drawn(rng)) for _ in range(_DRAWS)]
            draws = sum(bool((counts.told(one) & possible).any()) for one in each), _DRAWS
    certain = counts.told(sure) & asked
    ruled_out = sure.certain & ~certain & asked
    if counts.categories > 1:  # of whom the value is told, everything else is ruled out
        ruled_out &= ~np.repeat(certain.reshape(-1, counts.categories).any(axis=1), counts.categories)
    order = np.flatnonzero(certain)
    order = order[np.argsort(counts.intervals.sizes[order], kind="stable")][:MOST_LISTED]
    return CertainReport(
        people=counts.people(certain),
        ruled_out=counts.people(ruled_out),
        undecided=counts.people(undecided & asked),
        by_draw=by_draw,
        draws=draws,
        groups=tuple(_groups(counts, sure, order, keys, without_chance=chance)),
    )


def _groups(
    counts: PublishedCounts, found: Decisions, classes: IndexArray, keys: Keys, *, without_chance: bool
) -> list[CertainGroup]:
    findings, own = counts.findings, counts.intervals
    labels = signature_names(findings, counts.signature[classes])
    named = (keys.of_kinds if counts.by_kind else keys.of_signatures)(
        [int(one) for one in counts.kind[classes]]
    )
    kept = np.flatnonzero(~counts.by_chance) if without_chance else np.arange(own.low.size)
    groups = []
    for place, label in zip(classes.tolist(), labels, strict=True):
        weights = {int(kept[i]): w for i, w in found.proofs.get(place, {}).items()}
        groups.append(
            CertainGroup(
                people=int(own.sizes[place]),
                label=label,
                value=_value(counts, place),
                about=findings.asked,
                records=tuple(named.get(int(counts.kind[place]), ())),
                recipe=_recipe(counts, {i: -w for i, w in weights.items()} if own.truth[place] else weights),
            )
        )
    return groups


def _value(counts: PublishedCounts, place: int) -> str:
    if counts.categories > 1:
        return counts.findings.plan.data.categories[place % counts.categories]
    return "yes" if counts.intervals.truth[place] > 0 else "no"


def _recipe(counts: PublishedCounts, weights: dict[int, float]) -> str:
    """The combination of published counts that leaves no other value, with the interval of each."""
    membership = counts.findings.membership
    steps = sorted(
        ((w, i) for i, w in weights.items() if i < counts.cells.size), key=lambda one: (-one[0], one[1])
    )
    if not steps:
        return "by all counts together, in whole numbers"
    first = steps[0][0]
    texts = list[str]()
    for w, i in steps:
        times = (
            "" if abs(abs(w) - abs(first)) < 1e-9 and abs(abs(w) - 1) < 1e-9 else f"{number(abs(w), 3)} × "
        )
        sign = "" if not texts and w > 0 else ("− " if w < 0 else "+ ")
        low, high = (end[i] + counts.offsets[i] for end in (counts.intervals.low, counts.intervals.high))
        known = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        texts.append(f'{sign}{times}"{cell_name(membership, int(counts.cells[i]))}" ({known})')
    return " ".join(texts)
