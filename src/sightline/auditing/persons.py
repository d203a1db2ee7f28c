r"""Persons with several rows: each is judged by the sharpest linear feature of their rows.

Numbers and yes-or-no secrets go to the labeled engine. The indicators of one category depend on each other,
so the lower end of a category is made here. Let the attacker know all other persons. For each row that is not
of category a tell them which other category b it has; for the others tell them one drawn at random. That
leaves independent coins. Every published number counts one category, so that their information is at most
:math:`\lambda_a + \max_b \lambda_b`, with the largest eigenvalue :math:`\lambda_a` of the information about
the rows' indicators of a. The bound for one coin with that information holds for every linear feature of the
rows' indicators of one category.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import LinearDesign
from sightline.auditing.nonlinear import features_kept, is_nonlinear, nonlinear_information
from sightline.auditing.pricing import Pricing
from sightline.auditing.questions import coin_kept, distances
from sightline.auditing.result import Uncertainty
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.bounds.target import Seen
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.person_blocks import largest_eigenvalue
from sightline.labeled.person_kinds import PersonKinds
from sightline.labeled.person_ranks import person_ranks
from sightline.labeled.persons import Feature, Persons, persons, pure_losses
from sightline.labeled.unknown_gram import UnknownRecordsGram, row_squares
from sightline.progress import Progress
from sightline.tables.membership import Membership, PersonTable
from sightline.tables.subject import SecretKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PersonFindings:
    """What is seen of every kind of person with an unknown row, and the limit that it is compared with."""

    seen: Persons  # over the columns of the main design
    table: PersonTable
    place: IndexArray  # of each kind, in the membership's table of persons
    linear_lower: FloatArray  # the lower end through the linear releases alone
    lower: FloatArray  # and through all releases
    upper: FloatArray
    limit: float | None

    @property
    def number(self) -> IndexArray:
        """How many persons are of each kind."""
        return self.seen.kinds.persons

    @property
    def below(self) -> BoolArray:
        """Kinds that the linear releases alone may leave less than the limit."""
        return self._less_than_limit(self.linear_lower)

    @property
    def not_shown(self) -> BoolArray:
        """Kinds that all releases together are not shown to leave the limit."""
        return self._less_than_limit(self.lower)

    def _less_than_limit(self, lower: FloatArray) -> BoolArray:
        if self.limit is None:
            return np.zeros(lower.size, dtype=np.bool_)
        return np.asarray(lower < self.limit)

    def count(self, kinds: BoolArray) -> int:
        """How many persons are of some kinds."""
        return self.seen.count(kinds)

    @property
    def least(self) -> Uncertainty:
        """The bracket with the least lower end; of several, the one with the least upper end."""
        alike = np.flatnonzero(self.lower == self.lower.min())
        return self.bracket(int(alike[np.argmin(self.upper[alike])]))

    @property
    def sharpest_rmse(self) -> float:
        """The least error of an unbiased attack on a unit feature of a person with several rows."""
        return min((feature.rmse for feature in self.seen.features.values()), default=np.inf)

    def bracket(self, kind: int) -> Uncertainty:
        """The bracket of a person of one kind."""
        return Uncertainty(lower=float(self.lower[kind]), upper=float(self.upper[kind]))

    def most_exposed(self, kinds: IndexArray, count: int) -> IndexArray:
        """The most exposed of some kinds, worst first; ties go by position."""
        chosen: IndexArray = kinds[np.lexsort((kinds, self.upper[kinds], self.lower[kinds]))][:count]
        return chosen

    def feature(self, kind: int) -> Feature | None:
        """The sharpest identifiable feature of a person with several rows."""
        return self.seen.features.get(kind)

    def kind_at(self, place: int) -> int | None:
        """The kind at a place of the membership's table; none if all its rows are known."""
        found = np.flatnonzero(self.place == place)
        return int(found[0]) if found.size else None


def assess_persons(
    linear: LinearDesign, exposures: Exposures, membership: Membership, progress: Progress
) -> PersonFindings | None:
    """What the linear releases show of every person; none if each has one row, or one value."""
    table = membership.persons
    if table is None or linear.people is not None or np.all(exposures.known):
        return None
    one_block, place = _kinds(linear, table)
    design, width = linear.design, linear.main.width
    kinds = _in_blocks(one_block, linear.main.blocks, width)
    losses = pure_losses(design, copies=linear.copies) if _not_gaussian(linear) else None
    main = replace(exposures, known=exposures.known[: design.size])
    seen = persons(design, kinds, main, losses=losses, progress=progress)
    lower, upper = seen.lower, seen.upper
    if linear.prior.kind is SecretKind.CATEGORY:
        rows_lower, rows_upper = (
            _least_category(linear, values, one_block)
            for values in (exposures.remaining_lower, exposures.remaining_upper)
        )
        several = one_block.rows_of_person > 1
        upper = rows_upper
        lower = np.where(several, np.minimum(_category_bound(linear, one_block), upper), rows_lower)
    return PersonFindings(
        seen=seen, table=table, place=place, linear_lower=lower, lower=lower, upper=upper, limit=None
    )


def with_nonlinear(
    found: PersonFindings, linear: LinearDesign, membership: Membership, pricing: Pricing, up_to: int | None
) -> PersonFindings:
    r"""The lower end through linear and nonlinear releases.

    The linear releases carry at most :math:`\frac12 \ln\det(I + vG)` about a person's rows, and
    :math:`\det(I + vG) \le \prod_s (1 + v G_{ss})`. The nonlinear ones carry at most the sum over the
    person's signatures.
    """
    if not is_nonlinear(membership):
        return found
    if linear.prior.kind is SecretKind.BOOLEAN:  # a question about a number
        kept = coin_kept(distances(membership, pricing, up_to=up_to)[found.place])
        return replace(found, lower=kept * pricing.lattice_share)
    prior, kinds = linear.prior.number, found.seen.kinds
    own = row_squares(linear.design, np.square(linear.design.whitening))[kinds.columns] * kinds.rows
    logarithm = np.minimum(kinds.sums(np.log1p(prior.variance * own)), 600.0)
    carried = carried_by_persons(found.table, nonlinear_information(membership, pricing, up_to=up_to))
    kept = features_kept(
        prior, np.expm1(logarithm) / prior.variance, carried[found.place], pricing.bounding_law
    )
    return replace(found, lower=kept)


def carried_by_persons(table: PersonTable, values: FloatArray) -> FloatArray:
    """For every kind of a table, the sum of a value over the signatures of the unknown rows."""
    own = np.where(table.known, 0.0, values[table.signatures])
    return np.asarray(np.add.reduceat(own, table.starts[:-1]))


def identifiable_persons(found: PersonFindings, linear: LinearDesign) -> BoolArray:
    """The kinds with an identifiable feature in a design of some of the rows."""
    unknown = ~linear.known[: linear.design.size]
    gram = UnknownRecordsGram.of(linear.design, unknown)
    return np.asarray(person_ranks(gram, found.seen.kinds).directions > 0)


def _kinds(linear: LinearDesign, table: PersonTable) -> tuple[PersonKinds, IndexArray]:
    """The unknown rows of every kind of person over the columns of one block; the kinds' places."""
    width = linear.main.width
    column_of = np.full(len(linear.signatures), -1, dtype=np.intp)
    unknown = np.flatnonzero(~linear.known[:width])
    column_of[linear.column_signature[unknown]] = unknown
    chosen = ~table.known
    column = column_of[linear.signature_of[table.signatures[chosen]]]
    # Signatures that differ only in releases that are not linear share a column.
    keys, entry = np.unique(table.kind_of[chosen] * np.intp(width) + column, return_inverse=True)
    place, first = np.unique(keys // width, return_index=True)
    kinds = PersonKinds(
        starts=np.append(first, keys.size),
        columns=keys % width,
        rows=np.bincount(entry.ravel(), table.rows[chosen]).astype(np.intp),
        persons=table.persons[place],
    )
    return kinds, place


def _in_blocks(kinds: PersonKinds, blocks: int, width: int) -> PersonKinds:
    """The same kinds with a column for each category of a row."""
    if blocks == 1:
        return kinds
    order = np.argsort(np.tile(kinds.kind_of, blocks), kind="stable")
    columns = np.concatenate([kinds.columns + block * width for block in range(blocks)])
    return PersonKinds(
        starts=kinds.starts * blocks,
        columns=columns[order],
        rows=np.tile(kinds.rows, blocks)[order],
        persons=kinds.persons,
    )


def _least_category(linear: LinearDesign, values: FloatArray, kinds: PersonKinds) -> FloatArray:
    """The least value of a kind's rows and of all categories."""
    return kinds.least(values.reshape(linear.blocks, -1).min(axis=0))


def _category_bound(linear: LinearDesign, kinds: PersonKinds) -> FloatArray:
    """The lower end for the features of one category, the one of which least remains."""
    main, coin = linear.main, CoinPrior(share=linear.prior.share)
    if _not_gaussian(linear):
        each = [pure_losses(main.design, copies=linear.copies, rows=~main.reference).reshape(main.blocks, -1)]
        each.append(
            pure_losses(main.design, copies=linear.copies, rows=main.reference).reshape(main.blocks, -1)[:1]
        )
        two = np.sort(np.concatenate(each), axis=0)[-2:].sum(axis=0)
        return np.asarray(np.exp(-kinds.sums(kinds.rows * two[kinds.columns])))
    found = [np.zeros((2, len(kinds)))]
    for rows, blocks in ((~main.reference, main.blocks), (main.reference, 1)):
        if not rows.any():
            continue
        design = main.design.take(np.flatnonzero(rows))
        carried = row_squares(design, np.square(design.whitening))
        for block in range(blocks):
            own = replace(kinds, columns=kinds.columns + block * main.width)
            trace = own.sums(own.rows * carried[own.columns])
            found.append(np.minimum(trace, largest_eigenvalue(design, own, np.arange(len(own))))[None])
    two = np.sort(np.concatenate(found), axis=0)[-2:].sum(axis=0)
    return coin.lower(Seen(information=two, linear_information=np.zeros_like(two)))


def _not_gaussian(linear: LinearDesign) -> bool:
    return bool(linear.design.law.excess > 1)
