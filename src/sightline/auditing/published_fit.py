r"""The fit that a plan with ``[publish] consistent = true`` publishes in place of its noisy numbers.

A published number is a sum over the rows of a table of some function of the secret, or a mean of as many
rows. Who is in which group is public, so the rows A of these sums are, too, and the fit is a function of
the noisy numbers alone: it tells nobody more than they do. For Gaussian noise it tells no less either. So
the audit is that of the noisy numbers.

Columns are the kinds of rows, for each function of the secret one after the other. The categories of a
secret, or yes and no, are as many columns, which add up to the rows of a kind: sizes of groups are public,
and the fit keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import AssumptionName, Plan
from sightline.auditing.pricing import Pricing
from sightline.errors import TooMuchWork, require_plan
from sightline.numerics.constrained_fit import Columns
from sightline.numerics.least_squares import LeastSquares, combinations
from sightline.tables.membership import YES_OR_NO, Cell, Feature, Membership, Partition, Statistic
from sightline.values import frozen


@frozen(slots=False)
class PublishedFit:
    """The numbers of a plan as sums of columns: a number is a sum over its factor."""

    columns: Columns
    factors: FloatArray  # rows behind a mean, 1 for a sum
    variances: FloatArray  # of the noise on a number, over the mean of its copies
    partition: IndexArray

    @classmethod
    def of(cls, plan: Plan, membership: Membership, pricing: Pricing) -> PublishedFit:
        """The numbers of a plan that :func:`check_fit` has accepted."""
        if membership.streamed:
            raise TooMuchWork(
                "expected a table whose kinds of rows fit into memory, got one that is streamed; "
                "a fit needs all of them: give --max-memory"
            )
        owner = pricing.owner
        return cls(
            columns=_columns(plan, membership),
            factors=_factors(membership),
            variances=pricing.noise_stddev**2 / pricing.times[owner],
            partition=owner,
        )

    @cached_property
    def system(self) -> LeastSquares:
        """The least squares of the sums, without the columns that known totals give."""
        return LeastSquares(
            rows=self.columns.free[0], variances=self.variances * self.factors**2, partition=self.partition
        )

    @cached_property
    def stddevs(self) -> FloatArray:
        """Of every fitted number; not a number where too many hang together."""
        return np.asarray(self.system.stddevs() / self.factors)

    def sums(self, numbers: FloatArray) -> FloatArray:
        """Published numbers as sums of columns."""
        return np.asarray(self.factors * numbers)

    def numbers(self, sums: FloatArray) -> FloatArray:
        """Sums of columns as published numbers."""
        return np.asarray(sums / self.factors)

    def fitted(self, noisy: FloatArray) -> FloatArray:
        """The least-squares fit to noisy numbers."""
        offset = self.columns.free[1]
        return self.numbers(self.system.fitted(self.sums(noisy) - offset) + offset)

    def covariance(self, derived: DerivedNumbers) -> FloatArray:
        """Of all fitted numbers, measured and then derived."""
        both = sparse.vstack([sparse.eye_array(self.factors.size), derived.weights])
        return self.system.covariance(both @ sparse.diags_array(1 / self.factors))

    def stddevs_of(self, derived: DerivedNumbers) -> FloatArray:
        """Of derived numbers."""
        return self.system.stddevs(derived.weights @ sparse.diags_array(1 / self.factors))

    @property
    def conditions(self) -> int | None:
        """How many numbers follow from others; ``None`` where too many hang together to count them."""
        return self.system.conditions


@frozen(slots=False)
class DerivedNumbers:
    """Numbers of releases that are computed from the fit: ``weights @ measured numbers + constants``."""

    partitions: tuple[Partition, ...]
    cells: tuple[Cell, ...]
    weights: Any  # numbers × measured numbers, sparse
    constants: FloatArray  # from sizes of groups, which are public

    @classmethod
    def of(cls, plan: Plan, membership: Membership) -> DerivedNumbers:
        """The derived numbers of a plan; one that does not follow from the measured ones is refused.

        Only numbers that the membership has are measured: what it withholds derives nothing.
        """
        whole = membership.with_derived
        if whole is None:
            none = sparse.csr_array((0, len(membership.cells)))
            return cls(partitions=(), cells=(), weights=none, constants=np.zeros(0))
        place = {_name(membership, cell): at for at, cell in enumerate(membership.cells)}
        names = [_name(whole, cell) for cell in whole.cells]
        derived = np.array([plan.releases[name[0]].derived for name in names])
        measured = np.array([name in place for name in names])
        used = np.flatnonzero(derived | measured)
        free, offset = _columns(plan, whole).free
        owner = np.array([cell.partition for cell in whole.cells])
        _check_whole(plan, whole, derived)
        weights, wrong = combinations(free[used], measured[used], owner[used])
        underived = _release(plan, whole, [whole.cells[at].partition for at in used[wrong]])
        require_plan(
            not wrong.size,
            f"release {underived!r}: derived numbers that follow from measured ones",
            got=f"{wrong.size:,} of {int(derived.sum()):,} that do not",
            fix="measure it, with noise of its own, or a finer table of the same people",
        )
        given, wanted = np.flatnonzero(measured), np.flatnonzero(derived)
        sizes = _factors(whole)
        order = np.array([place[names[at]] for at in given], dtype=np.intp)
        constants = (offset[wanted] - weights @ offset[given]) / sizes[wanted]
        scaled = sparse.diags_array(1 / sizes[wanted]) @ weights @ sparse.diags_array(sizes[given])
        moved = sparse.csr_array(
            (np.ones(given.size), (np.arange(given.size), order)), shape=(given.size, len(place))
        )
        return cls(
            partitions=tuple(whole.partitions[owner[at]] for at in wanted),
            cells=tuple(whole.cells[at] for at in wanted),
            weights=sparse.csr_array(scaled @ moved),
            constants=np.asarray(constants),
        )


def _name(membership: Membership, cell: Cell) -> tuple[int, int, int, int, str, tuple[str, ...]]:
    """A number of a plan, whichever others there are beside it."""
    part = membership.partitions[cell.partition]
    return part.query, part.select, part.grouping_set, part.aggregate, str(part.parameter), cell.key


def _check_whole(plan: Plan, membership: Membership, derived: NDArray[np.bool_]) -> None:
    """Whether something follows from other numbers is decided over the integers."""
    wrong = [p for p, weights in membership.weights.items() if not _whole(weights)]
    require_plan(
        not wrong,
        "derived = true beside aggregates with whole weights",
        got=f"others in release {_release(plan, membership, wrong)!r}",
    )


def _factors(membership: Membership) -> FloatArray:
    """The rows behind a mean, 1 for a sum."""
    part = membership.partitions
    return np.array(
        [cell.rows if part[cell.partition].statistic is Statistic.MEAN else 1 for cell in membership.cells],
        dtype=np.float64,
    )


def _columns(plan: Plan, membership: Membership) -> Columns:
    """The columns: of every kind of rows a sum, or how many rows hold each answer."""
    functions: dict[object, list[int]] = {}
    for p, part in enumerate(membership.partitions):
        if membership.starts[p + 1] > membership.starts[p]:
            functions.setdefault(_function(part), []).append(p)
    blocks, groups, totals, count = [], [], [], 0
    for parts in functions.values():
        kinds, sizes = _kinds(membership, parts)
        answers = _answers(plan, membership.partitions[parts[0]])
        lines, places, entries = [], [], []
        for p in parts:
            part, place = membership.partitions[p], membership.positions(p)[kinds]
            inside = np.flatnonzero(place >= 0)
            named = set(part.categories) if part.feature is Feature.INDICATOR else {"yes"}
            for c, answer in enumerate(answers):
                if (answer in named) == part.above:
                    lines.append(place[inside])
                    places.append(inside * len(answers) + c)
                    entries.append(membership.weights_in(p)[kinds][inside])
        shape = len(membership.cells), kinds.size * len(answers)
        where = np.concatenate(lines), np.concatenate(places)
        blocks.append(sparse.csr_array((np.concatenate(entries), where), shape=shape))
        groups.append(count + np.repeat(np.arange(kinds.size), len(answers)))
        totals.append(sizes if len(answers) > 1 else np.full(kinds.size, np.nan))
        count += kinds.size
    rows = sparse.csr_array(sparse.hstack(blocks))
    return Columns(rows=rows, group=np.concatenate(groups), totals=np.concatenate(totals))


def _answers(plan: Plan, part: Partition) -> tuple[str, ...]:
    """What a row can answer, where rows are counted; a number has one column, its sum."""
    if part.feature is Feature.INDICATOR:
        return plan.data.categories
    yes_or_no = part.feature in YES_OR_NO or plan.data.secret_kind.two_values
    return ("yes", "no") if yes_or_no else ("yes",)


def _function(part: Partition) -> object:
    """Numbers of one function of the secret have columns in common. The categories are one function."""
    if part.feature in (Feature.INDICATOR, Feature.VALUE):
        return part.feature
    return part.feature, part.parameter, part.closed


def _kinds(membership: Membership, parts: list[int]) -> tuple[IndexArray, FloatArray]:
    """One signature of each kind that some partitions tell apart, and how many rows there are of it."""
    of_rows = [membership.signatures[:, p].astype(np.float64) for p in parts]
    of_rows += [membership.weights_in(p) for p in parts if membership.partitions[p].weighted]
    _, first, place = np.unique(np.stack(of_rows, axis=1), axis=0, return_index=True, return_inverse=True)
    sizes = np.bincount(place.ravel(), membership.counts).astype(np.float64)
    seen = np.flatnonzero((membership.signatures[first][:, parts] >= 0).any(axis=1))
    return np.asarray(first[seen]), np.asarray(sizes[seen])


def check_fit(plan: Plan, membership: Membership, pricing: Pricing) -> None:
    """Refuse a fit that is no function of noisy numbers and public groups, or is not what is audited."""
    if not plan.publish.consistent:
        return
    parts = {cell.partition for cell in membership.cells}
    shared = [p for p in parts if p in pricing.strategies]
    exact = [int(p) for p in np.unique(pricing.owner[pricing.exact])]
    computed = [p for p in parts if membership.partitions[p].computed.steps]
    means = (
        [p for p in parts if membership.partitions[p].statistic is Statistic.MEAN]
        if plan.publish.whole
        else []
    )
    broken = (
        [p for p in membership.weights if not _whole(membership.weights[p])] if plan.publish.whole else []
    )
    assert not any(release.derived for release in plan.releases) or membership.with_derived is not None
    require_plan(
        not plan.data.only_guarantee,
        "[publish] consistent with secret = 'presence' beside a frame",
        got="no frame",
        fix="a fit uses which groups people are in, and that would tell who is in the table",
    )
    require_plan(
        not membership.dropped or AssumptionName.DROPPED in plan.limits.accept,
        "[publish] consistent with a secret and a key in every row",
        got=f"{membership.dropped:,} rows without",
        fix="a fit uses which groups rows with a secret are in, and that would tell who has one; if "
        'everybody may know that, say accept = ["dropped"] in [limits]',
    )
    if any(release.derived for release in plan.releases):
        DerivedNumbers.of(plan, membership)
    for wrong, wanted, got in (
        (exact, "noise on every number", "numbers without noise"),
        (shared, "independent noise on every number", "running sums or a mechanism"),
        (computed, "aggregates as they are", "something computed with one"),
        (means, "whole = true with sums and counts", "a mean"),
        (broken, "whole = true with whole weights", "others"),
    ):
        require_plan(
            not wrong,
            f"[publish] consistent: {wanted}",
            got=f"{got} in release {_release(plan, membership, wrong)!r}",
        )


def _whole(weights: FloatArray) -> bool:
    return bool(np.all(weights == np.rint(weights)))


def _release(plan: Plan, membership: Membership, parts: Iterable[int]) -> str:
    return next((plan.releases[membership.partitions[p].query].name[:60] for p in parts), "")
