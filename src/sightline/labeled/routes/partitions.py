r"""Cells of partitions: their dependencies are known, and a factorisation proves that there are no others.

Partitions that cover the same records have equal sums over their cells, so that one cell of each but the
first says nothing new. If factorising the products of the other rows proves them independent, then their
number is the rank, and a group is identifiable iff its leverages over these rows sum to one. All leverages
sum to the rank: few groups come near one, often none, and only these need exact arithmetic.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.company import Company, whitening
from sightline.labeled.forms import MatrixForms
from sightline.labeled.incidence.cells import CellPattern
from sightline.labeled.lens import PROOF, Form, Lens, Risks, lens_of_pairs
from sightline.labeled.routes.exact import Decided, Sweep
from sightline.numerics import residues
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.inverse import inverse_of_products
from sightline.progress import Progress


def lens_of_partitions(company: Company, risks: Risks) -> tuple[Lens, Rank] | None:
    """The forms of every record with its leverage, and the rank; ``None`` without a proof or accuracy."""
    pattern = company.design.pattern
    if not isinstance(pattern, CellPattern):
        return None
    kept = told_apart(pattern, company.products)
    found = inverse_of_products(company.products[np.ix_(kept, kept)])
    if found is None or kept.size * found[1] > PROOF:
        return None
    within, error = found
    lens = lens_of_pairs(
        company.products, whitening(company.design), risks, linear=np.zeros((0, pattern.lines))
    )
    if lens is None:
        return None
    leverage = np.zeros((pattern.lines, pattern.lines))
    leverage[np.ix_(kept, kept)] = within
    forms = MatrixForms(
        symmetric=(*lens.forms.matrices(), leverage),
        offsets=np.append(lens.forms.offsets, 0.0),
        linear=lens.forms.linear,
    )
    rank = Rank(rank=kept.size, evidence=Evidence.FULL_RANK)
    error = max(lens.relative_error, error)
    return Lens(names=(*lens.names, Form.LEVERAGE), forms=forms, relative_error=error), rank


def told_apart(pattern: CellPattern, products: FloatArray) -> IndexArray:
    """The lines but for those that the others give: empty ones, one of each further partition of a set."""
    starts, widths = pattern.starts, pattern.widths
    spans = [slice(s, s + w) for s, w in zip(starts, widths, strict=True)]
    shared = np.array([[products[p, q].sum() for q in spans] for p in spans])
    kept = np.diagonal(products) > 0
    for q, span in enumerate(spans):
        # The same records are covered iff each covers as many as both together.
        alike = [p for p in range(q) if shared[p, p] == shared[q, q] == shared[p, q]]
        if alike:
            kept[span.start + int(np.argmax(np.diagonal(products)[span]))] = False
    return np.flatnonzero(kept)


def decide_by_partitions(swept: Sweep, leverage: FloatArray, progress: Progress) -> Decided:
    """Decisions by leverage over independent rows, exact where it comes near one."""
    pattern = swept.pattern
    assert isinstance(pattern, CellPattern)  # whose forms the leverages are
    sizes = pattern.counts if swept.unknown.all() else pattern.counts[swept.unknown]
    identifiable = np.zeros(sizes.size, dtype=np.bool_)
    near = np.flatnonzero(sizes * leverage > 1 / 2)
    # A group that is alone in a cell is its sum: no elimination is needed to see that.
    members, columns = np.diagonal(swept.products), np.flatnonzero(swept.unknown)[near]
    for first, line in zip(pattern.starts, pattern.table, strict=True):
        cells = line[columns]
        alone = (cells >= 0) & (members[first + cells] == sizes[near])
        identifiable[near[alone]] = True
    near = near[~identifiable[near]]
    if near.size:
        progress("deciding exactly", 0.0)
        survey = swept.solve()
        columns = np.flatnonzero(swept.unknown)[near]
        sums = survey.linear @ pattern.columns(columns)
        limbs = sums.reshape(-1, survey.solved.shape[0], near.size)
        tests = residues.join(limbs, bits=survey.bits, prime=survey.prime)
        found = residues.times(tests, sizes[near].astype(np.int64), prime=survey.prime)
        identifiable[near] = np.all(found == survey.marks.drawn[:, columns], axis=0)
    return Decided(
        kinds=np.arange(sizes.size),
        sizes=sizes,
        first=np.arange(sizes.size),
        identifiable=identifiable,
        undecided=np.zeros(sizes.size, dtype=np.bool_),
    )
