"""The findings of an audit whose table is streamed: passes over all records, then the few that matter.

1. The products of cells over all unknown rows, and the extremes of the priors' precisions.
2. For priors with a density, the same products weighted by the precision of each record's prior.
3. Every record's bracket: counts over all of them, and the signatures that are worth a closer look.

The signatures that are kept are then assessed as in memory, beside the products of all others. What an audit
states about all records comes from a pass; what would take more passes is left out.
"""

from __future__ import annotations

import math

import numpy as np

from sightline.auditing.design import LinearDesign, linear_design
from sightline.auditing.findings import Findings, LinearFindings, OtherRecords
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.result import EDGES
from sightline.auditing.secret_prior import SecretPrior
from sightline.errors import TooMuchWork
from sightline.labeled.bracket_forms import (
    BracketForms,
    PrecisionForm,
    TotalProducts,
    WeightedByPrecision,
    bracket_forms,
    is_worth_weighing,
)
from sightline.labeled.hidden import precision_unit
from sightline.labeled.kept_exposures import kept_exposures
from sightline.progress import Progress
from sightline.tables.store_passes import CellProducts, ExposureScan, WeightedProducts
from sightline.tables.streamed import StreamedTable

PASSES = 5  # sizes of cells, products, weighted products, records, and the numbers of those that are kept
MOST_KEPT = 10_000  # signatures that are kept for how little remains of them


def find_streamed(plan: Plan, table: StreamedTable, progress: Progress, *, most: int = MOST_KEPT) -> Findings:
    """Price a plan and assess its design by passes over all signatures; keep the ``most`` worst of them."""
    pricing = price(plan, table.membership)
    linear = _linear(plan, table, pricing)
    design = linear.design
    if design.whitening.ndim == 2 or pricing.exact.any():
        got = "correlated noise" if design.whitening.ndim == 2 else "numbers without noise"
        raise TooMuchWork(
            f"expected independent noise on all numbers of a table that is streamed, got {got}; "
            "allow more with max_memory, so that all signatures fit"
        )
    totals = _totals(linear, table, progress)
    forms = bracket_forms(
        design,
        linear.prior.of_column,
        totals,
        copies=linear.copies,
        lattice_share=linear.lattice_share,
        progress=progress,
    )
    found = table.store.run(_scan(plan, table, forms, pricing, most), "assessing every record", progress)
    kept = table.listing(found, totals.products, progress)
    linear = _linear(plan, kept, pricing)
    progress("assessing the most exposed", 0.0)
    exposures = kept_exposures(
        linear.design, forms, known=np.flatnonzero(linear.known), copies=linear.copies, progress=progress
    )
    return Findings(
        plan=plan,
        membership=kept.membership,
        pricing=pricing,
        prior=SecretPrior.of(plan),
        linear=LinearFindings(
            linear=linear,
            exposures=exposures,
            lower=exposures.remaining_lower,
            limit=plan.limits.remaining_uncertainty,
            others=OtherRecords(
                below=int(found["below"][1]),
                signatures_below=int(found["below"][0]),
                histogram=found["histogram"],
                relative_error=float(found["largest_error"][0]),
            ),
        ),
        by_release=False,
        nonlinear=None,
    )


def _linear(plan: Plan, table: StreamedTable, pricing: Pricing) -> LinearDesign:
    linear = linear_design(plan, table.membership, pricing)
    assert linear is not None  # a table is streamed if all of its cells are linear in the secret
    return linear


def _totals(linear: LinearDesign, table: StreamedTable, progress: Progress) -> TotalProducts:
    """The products of cells over all unknown rows, by one pass or two."""
    precision = PrecisionForm.of(linear.design, linear.prior.of_column)
    found = table.store.run(
        CellProducts(cells=table.cells.filled, precision=precision), "products of cells", progress
    )
    if precision is None:
        return TotalProducts(products=found["products"], most_precision=None)
    unit = precision_unit(float(found["least"][0]), people=table.membership.rows, peak=1.0)
    most = float(found["most"][0])
    if unit is None:
        return TotalProducts(products=found["products"], most_precision=most)
    weights = WeightedByPrecision(form=precision, unit=unit)
    if not is_worth_weighing(linear.design, found["products"], weights, most):
        return TotalProducts(products=found["products"], most_precision=most)
    weighted = table.store.run(
        WeightedProducts(cells=table.cells.filled, weights=weights), "weighted products of cells", progress
    )
    return TotalProducts(
        products=found["products"], most_precision=most, weighted=weighted["products"], weights=weights
    )


def _scan(plan: Plan, table: StreamedTable, forms: BracketForms, pricing: Pricing, most: int) -> ExposureScan:
    limit, others = plan.limits.remaining_uncertainty, table.membership.others
    costs = pricing.record_costs
    pure = np.array([law.pure for law in pricing.laws], dtype=np.bool_)[pricing.owner]
    assert others is not None  # a streamed table has others
    return ExposureScan(
        cells=table.cells.filled,
        forms=forms,
        most=most,
        edges=np.array(EDGES),
        limit=-math.inf if limit is None else limit,
        # A record has one row, so that each cell costs it this much for every copy. Of a mix of laws the
        # budget asks who pays most for noise without a pure epsilon.
        costs=np.where(pure & ~pure.all(), 0.0, costs.costs * costs.times[pricing.owner]),
        always=others.words,
    )
