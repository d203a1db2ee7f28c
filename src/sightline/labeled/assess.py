"""Every record at once: two sweeps over the records, and everything else in the size of the releases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import InvalidNoise, require
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.bounds.cosine import RecordPrior
from sightline.labeled.company import Company, excess, pure_losses, whitening
from sightline.labeled.design import Known, MembershipDesign
from sightline.labeled.exposures import Exposures, Groups
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.lens import Form, Lens, Risks, entropic_factor, lens_of_root, risks_over_v
from sightline.labeled.routes.exact import Decided, decide_by_leverage, sweep
from sightline.labeled.routes.partitions import decide_by_partitions, lens_of_partitions
from sightline.labeled.sharpness import best_recipes, variances
from sightline.numerics.decision import Evidence, Rank
from sightline.progress import Progress, silent

# Below this share of uncertainty, one minus what is learned loses digits: such records are looked at alone.
_SHARP = 1e-3
# Signals beyond this would not fit a double when they are squared and summed.
_MOST = 1e140


def assess(
    design: MembershipDesign, *, prior: RecordPrior, known: Iterable[int] | Known, progress: Progress
) -> Exposures:
    """The exposures of all records of a design."""
    unknown = unknown_records(design, known)
    pattern = design.pattern
    if pattern.whole:
        swept = sweep(pattern, unknown, progress)
        products = swept.products
    else:
        products = pattern.gram(unknown, progress)
    company = Company(design=design, products=products, unknown=unknown)
    require(
        company.signal < _MOST,
        f"numbers of at most {_MOST:g} times their noise",
        got=f"{company.signal:g}",
        fix="so little noise is none",
        error=InvalidNoise,
    )
    progress("factorising the products", 0.0)
    factor = _entropic_factor(company, prior)
    risks = risks_over_v(prior, excess=excess(design), entropic_factor=factor)

    def read(lens: Lens) -> tuple[dict[Form, FloatArray], FloatArray]:
        found = pattern.forms(lens.forms, unknown, progress)
        quadratic = len(lens.names)
        seen = found[:quadratic] if unknown.all() else found[:quadratic, unknown]
        return dict(zip(lens.names, seen, strict=True)), found[quadratic:]

    # Three ways to decide: by gap where weights are real; where a factorisation proves the rows independent,
    # or those of partitions but for the known dependencies, exactly for the few records that come into
    # question; else exactly for all of them.
    if not pattern.whole:
        root, rank = company.root_of_rows(None)
        lens = lens_of_root(root, whitening(design), risks, linear=np.zeros((0, pattern.lines)))
        numbers, _ = read(lens)
        _, kinds = np.unique(pattern.kinds(unknown)[unknown], return_inverse=True)
        decided = decide_by_leverage(numbers[Form.LEVERAGE], kinds, rank, lines=pattern.lines)
    elif (
        not pattern.sparse and pattern.counts is None and (proved := company.proved_lens(risks, swept.keys()))
    ):
        lens, rank = proved, Rank(rank=pattern.lines, evidence=Evidence.FULL_RANK)
        numbers, sums = read(lens)
        decided = swept.confirm(sums, numbers[Form.LEVERAGE])
    elif partitions := lens_of_partitions(company, risks):
        lens, rank = partitions
        numbers, _ = read(lens)
        decided = decide_by_partitions(swept, numbers[Form.LEVERAGE], progress)
    else:
        progress("deciding exactly", 0.0)
        survey = swept.solve()
        rank = Rank(rank=survey.rank, evidence=Evidence.MODULAR)
        lens = company.lens(risks, rank, survey.linear)
        numbers, sums = read(lens)
        decided = survey.decide(sums, unknown)
    progress("the most exposed", 0.0)
    if isinstance(known, Known):
        return _with_others_known(numbers[Form.INFORMATION], decided, prior, rank, design)
    return _with_unknown_company(company, prior, rank, decided, lens, numbers, risks, factor)


def _entropic_factor(company: Company, prior: RecordPrior) -> float:
    """The factor with no record known. With some it could only rise, and the bound would not be monotone.

    Zero, which is no bound, unless the noise is Gaussian and the prior has a density.
    """
    if excess(company.design) > 1 or prior.entropy_power == 0:
        return 0.0
    if not company.unknown.all():
        told = company.design.pattern.gram(~company.unknown, silent)
        company = replace(company, products=company.products + told, unknown=np.ones_like(company.unknown))
    return entropic_factor(company.eigenvalues, prior)


def unknown_records(design: MembershipDesign, known: Iterable[int] | Known) -> BoolArray:
    """Which records the attacker does not know."""
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


def _with_unknown_company(
    company: Company,
    prior: RecordPrior,
    rank: Rank,
    decided: Decided,
    lens: Lens,
    numbers: dict[Form, FloatArray],
    risks: Risks,
    factor: float,
) -> Exposures:
    design, unknown = company.design, company.unknown
    positions = np.flatnonzero(unknown)
    error = lens.relative_error
    sizes = decided.sizes[decided.kinds]
    group_rmse = np.full(decided.sizes.size, np.inf)
    recipes = np.zeros((0, design.lines))
    exposed = np.flatnonzero(decided.identifiable)
    if exposed.size:
        removed = np.zeros_like(unknown)
        removed[positions[decided.identifiable[decided.kinds]]] = True
        columns, around = company.around(
            positions[decided.first[exposed]],
            sizes=decided.sizes[exposed],
            removed=removed,
            rank=rank.rank - exposed.size,
        )
        group_rmse[exposed] = np.sqrt(variances(columns, 0.0, targets=exposed.size))
        recipes = design.law.recipe(best_recipes(columns, targets=exposed.size))
        error = max(error, around)
    sharp = np.flatnonzero((numbers[Form.LINEAR] < _SHARP) & (sizes == 1))
    if sharp.size:
        removed = np.zeros_like(unknown)
        removed[positions[sharp]] = True
        columns, around = company.around(
            positions[sharp], sizes=np.ones_like(sharp), removed=removed, rank=None
        )
        for form, risk in risks.items():
            numbers[form][sharp] = risk.unit * variances(columns, risk.precision, targets=sharp.size)
        error = max(error, around)
    lower = _bound_alone(design, prior, numbers[Form.INFORMATION], unknown, sizes.astype(np.float64))
    if Form.VAN_TREES in numbers:
        lower = np.maximum(lower, numbers[Form.VAN_TREES])
    if Form.ENTROPIC in numbers:
        lower = np.maximum(lower, factor * numbers[Form.ENTROPIC])
    return _exposures(
        unknown,
        decided,
        identifiable=decided.identifiable[decided.kinds] & (sizes == 1),
        rmse=np.where(sizes == 1, group_rmse[decided.kinds], np.inf),
        lower=lower,
        upper=numbers[Form.LINEAR],
        information=numbers[Form.INFORMATION],
        group_rmse=group_rmse,
        rank=rank,
        relative_error=error,
        width=prior.width,
        recipes=recipes,
        names=design.names,
    )


def _with_others_known(
    information: FloatArray, decided: Decided, prior: RecordPrior, rank: Rank, design: MembershipDesign
) -> Exposures:
    """The closed forms for one unknown record in known company."""
    touched, v = information > 0, prior.variance
    with np.errstate(divide="ignore"):
        rmse = np.where(touched, 1 / np.sqrt(information), np.inf)
    unknown = np.ones(information.size, dtype=np.bool_)
    lower = np.maximum(
        1 / (v * (information + prior.fisher_information)),
        _bound_alone(design, prior, information, unknown, np.ones(information.size)),
    )
    return _exposures(
        unknown,
        decided,
        identifiable=touched,
        rmse=rmse,
        lower=lower,
        upper=1 / (1 + v * information / excess(design)),
        information=information,
        group_rmse=np.full(decided.sizes.size, np.inf),
        rank=rank,
        relative_error=design.lines * float(np.finfo(np.float64).eps),
        width=prior.width,
        recipes=np.zeros((0, design.lines)),
        names=design.names,
    )


def _bound_alone(
    design: MembershipDesign,
    prior: RecordPrior,
    information: FloatArray,
    unknown: BoolArray,
    company: FloatArray,
) -> FloatArray:
    """What remains even if all records with other signatures are known."""
    if excess(design) == 1:
        return prior.company_bound(information, company)
    if isinstance(prior, CoinPrior):
        return prior.bound_by_loss(pure_losses(design)[unknown], company)
    return np.zeros_like(information)


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
    rank: Rank,
    relative_error: float,
    width: float,
    recipes: FloatArray,
    names: tuple[str, ...],
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
        evidence=rank.evidence,
        rank=rank.rank,
        relative_error=relative_error,
        width=width,
        recipes=recipes,
        names=names,
    )


def _spread(values: Any, unknown: BoolArray, otherwise: float) -> Any:
    """Values over the unknown records, laid out over all of them and locked."""
    if values.size == unknown.size:
        values.setflags(write=False)
        return values
    full = np.full(unknown.size, otherwise, dtype=values.dtype)
    full[unknown] = values
    full.setflags(write=False)
    return full
