"""Every record at once: two sweeps over the records, and everything else in the size of the releases."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.geometry import exact
from sightline.geometry.decision import Evidence, Rank
from sightline.labeled.design import Known, MembershipDesign
from sightline.labeled.exposures import Exposures, Groups
from sightline.labeled.identify import Decided, decide_by_leverage, survey
from sightline.labeled.pattern import BoolArray, Progress
from sightline.labeled.prior import CosineSquaredPrior
from sightline.labeled.root import Root, root_of_products, root_of_rows
from sightline.labeled.sharpness import (
    ENTROPIC,
    INFORMATION,
    LEVERAGE,
    LINEAR,
    VAN_TREES,
    best_recipes,
    record_lens,
    variances,
)

# Products of rows lose twice the digits that rows do: beyond this error, factorise the rows themselves, if
# that many operations are affordable.
_COARSE, _AFFORDABLE = 1e-10, 1e12
# Below this share of uncertainty, one minus what is learned loses digits: such records are looked at alone.
_SHARP = 1e-3


def assess(
    design: MembershipDesign, *, domain: tuple[float, float], known: Iterable[int] | Known, progress: Progress
) -> Exposures:
    """The exposures of all records of a design."""
    prior = CosineSquaredPrior(width=float(domain[1]) - float(domain[0]))
    unknown = _unknown(design, known)
    pattern = design.pattern
    if pattern.whole:
        seen = survey(pattern, unknown, progress)
        products, linear = seen.products, seen.linear
        root, rank = _root(design, products, unknown, Rank(rank=seen.rank, evidence=Evidence.MODULAR))
    else:
        products, _ = pattern.gram(unknown, np.zeros((pattern.records, 0)), progress)
        linear = np.zeros((0, pattern.lines))
        root, rank = _root(design, products, unknown, None)
    lens = record_lens(root, design.whiten, prior, linear=linear)
    found = pattern.forms(lens.forms, unknown, progress)
    numbers = found[: LEVERAGE + 1, unknown]
    if pattern.whole:
        decided = seen.decide(found[LEVERAGE + 1 :], unknown)
    else:
        kinds = pattern.kinds(unknown)[unknown]
        _, kinds = np.unique(kinds, return_inverse=True)
        decided = decide_by_leverage(numbers[LEVERAGE], kinds, rank, lines=pattern.lines)
    if isinstance(known, Known):
        return _with_others_known(numbers[INFORMATION], decided, prior, rank, design)
    return _assemble(design, prior, unknown, products, root, rank, decided, numbers, lens.entropic_factor)


def _unknown(design: MembershipDesign, known: Iterable[int] | Known) -> BoolArray:
    unknown = np.ones(design.size, dtype=np.bool_)
    if isinstance(known, Known):
        return unknown
    index = np.asarray(list(known))
    if index.size:
        whole = index.dtype.kind in "iu"
        require(
            whole and index.min() >= 0 and index.max() < design.size,
            f"known records from 0 to {design.size - 1}",
            got=f"{index.min()} to {index.max()}" if whole else f"dtype {index.dtype}",
        )
        unknown[index] = False
    require(
        bool(unknown.any()),
        "at least one record that the attacker does not know",
        got=f"all {design.size} known",
        fix="leave the target out of known=",
    )
    return unknown


def _root(
    design: MembershipDesign, products: FloatArray, unknown: BoolArray, rank: Rank | None
) -> tuple[Root, Rank]:
    """Reduced coordinates of the unknown records: from the products if they are accurate enough."""
    if rank is not None:
        root = root_of_products(products, rank.rank)
        costly = design.lines**2 * design.size > _AFFORDABLE
        if root.relative_error <= _COARSE or costly:
            return root, rank
    diagonal = np.diagonal(products)
    scale = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    triangle = design.pattern.triangle(unknown, scale)
    root, by_gap = root_of_rows(triangle, scale, None if rank is None else rank.rank)
    return root, by_gap if rank is None else rank


def _whitened_around(
    design: MembershipDesign,
    products: FloatArray,
    unknown: BoolArray,
    targets: IndexArray,
    counts: IndexArray,
    rank: int | None,
    removed: BoolArray,
) -> tuple[FloatArray, float]:
    """Whitened columns of the targets, then of independent directions that all other records share."""
    columns = design.pattern.columns(targets)
    rest = products - (columns * counts) @ columns.T
    if rank is None and design.pattern.whole:
        rank = exact.rank(rest.astype(np.int64))
    evidence = None if rank is None else Rank(rank=rank, evidence=Evidence.MODULAR)
    root, _ = _root(design, rest, unknown & ~removed, evidence)
    return design.whiten(np.hstack([columns, root.factor])), root.relative_error


def _assemble(
    design: MembershipDesign,
    prior: CosineSquaredPrior,
    unknown: BoolArray,
    products: FloatArray,
    root: Root,
    rank: Rank,
    decided: Decided,
    numbers: FloatArray,
    entropic_factor: float,
) -> Exposures:
    positions = np.flatnonzero(unknown)
    error = root.relative_error
    group_rmse = np.full(decided.sizes.size, np.inf)
    recipes = np.zeros((0, design.lines))
    exposed = np.flatnonzero(decided.identifiable)
    if exposed.size:
        removed = _members(exposed, decided, unknown)
        columns, around = _whitened_around(
            design,
            products,
            unknown,
            positions[decided.first[exposed]],
            decided.sizes[exposed],
            rank.rank - exposed.size,
            removed,
        )
        group_rmse[exposed] = np.sqrt(variances(columns, 0.0, targets=exposed.size))
        recipes = design.law.recipe(best_recipes(columns, targets=exposed.size))
        error = max(error, around)
    sharp = np.flatnonzero((numbers[LINEAR] < _SHARP) & (decided.sizes[decided.kinds] == 1))
    if sharp.size:
        removed = np.zeros_like(unknown)
        removed[positions[sharp]] = True
        columns, around = _whitened_around(
            design, products, unknown, positions[sharp], np.ones(sharp.size, dtype=np.intp), None, removed
        )
        for form, precision in zip((VAN_TREES, LINEAR, ENTROPIC), prior.precisions, strict=True):
            numbers[form, sharp] = variances(columns, precision, targets=sharp.size) / prior.variance
        error = max(error, around)
    information = numbers[INFORMATION]
    company = decided.sizes[decided.kinds].astype(np.float64)
    lower = np.maximum(numbers[VAN_TREES], entropic_factor * numbers[ENTROPIC])
    alone = decided.sizes[decided.kinds] == 1
    return _exposures(
        unknown,
        decided,
        identifiable=decided.identifiable[decided.kinds] & alone,
        rmse=np.where(alone, group_rmse[decided.kinds], np.inf),
        lower=np.maximum(lower, prior.company_bound(information, company)),
        upper=numbers[LINEAR],
        information=information,
        group_rmse=group_rmse,
        evidence=rank.evidence,
        rank=rank.rank,
        relative_error=error,
        width=prior.width,
        recipes=recipes,
    )


def _with_others_known(
    information: FloatArray, decided: Decided, prior: CosineSquaredPrior, rank: Rank, design: MembershipDesign
) -> Exposures:
    """The closed forms for one unknown record in known company."""
    touched = information > 0
    with np.errstate(divide="ignore"):
        rmse = np.where(touched, 1 / np.sqrt(information), np.inf)
    v = prior.variance
    van_trees = 1 / (v * (information + prior.fisher_information))
    return _exposures(
        np.ones(information.size, dtype=np.bool_),
        decided,
        identifiable=touched,
        rmse=rmse,
        lower=np.maximum(van_trees, prior.company_bound(information)),
        upper=1 / (1 + v * information),
        information=information,
        group_rmse=np.full(decided.sizes.size, np.inf),
        evidence=rank.evidence,
        rank=rank.rank,
        relative_error=design.lines * float(np.finfo(np.float64).eps),
        width=prior.width,
        recipes=np.zeros((0, design.lines)),
    )


def _members(groups: IndexArray, decided: Decided, unknown: BoolArray) -> BoolArray:
    chosen = np.zeros(decided.sizes.size, dtype=np.bool_)
    chosen[groups] = True
    removed = np.zeros_like(unknown)
    removed[np.flatnonzero(unknown)[chosen[decided.kinds]]] = True
    return removed


def _exposures(
    unknown: BoolArray,
    decided: Decided,
    *,
    identifiable: BoolArray,
    rmse: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    information: FloatArray,
    group_rmse: FloatArray,
    evidence: Evidence,
    rank: int,
    relative_error: float,
    width: float,
    recipes: FloatArray,
) -> Exposures:
    alone = decided.sizes[decided.kinds] == 1
    groups = Groups(
        sizes=decided.sizes,
        identifiable=decided.identifiable,
        rmse=group_rmse,
        first=np.flatnonzero(unknown)[decided.first],
    )
    return Exposures(
        identifiable=_spread(identifiable, unknown, False),
        undecided=_spread(decided.undecided[decided.kinds] & alone, unknown, False),
        rmse=_spread(rmse, unknown, np.nan),
        remaining_lower=_spread(lower, unknown, np.nan),
        remaining_upper=_spread(upper, unknown, np.nan),
        information=_spread(information, unknown, np.nan),
        touched=_spread(information > 0, unknown, False),
        known=~unknown,
        group=_spread(decided.kinds, unknown, -1),
        groups=groups,
        evidence=evidence,
        rank=rank,
        relative_error=relative_error,
        width=width,
        recipes=recipes,
    )


def _spread(values: FloatArray, unknown: BoolArray, otherwise: float) -> FloatArray:
    """Values over the unknown records, laid out over all of them and locked."""
    full = np.full(unknown.size, otherwise, dtype=values.dtype)
    full[unknown] = values
    full.setflags(write=False)
    return full
