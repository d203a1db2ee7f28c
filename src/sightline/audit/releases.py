"""What each release of a plan does: whom it newly exposes, whom it sharpens, whether it is a copy."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.audit.plan import Plan
from sightline.audit.pricing import Pricing
from sightline.audit.result import ReleaseReport
from sightline.audit.view import View
from sightline.labeled.contributions import Contributions
from sightline.tables.membership import Feature, Membership

# A release sharpens a record if its error would be larger by this share without it.
_SHARPER = 0.01
_BLOCK = 1 << 12  # signatures that are marked at a time, within a cache


def release_reports(
    plan: Plan,
    membership: Membership,
    pricing: Pricing,
    view: View | None,
    contributions: Contributions | None,
) -> tuple[ReleaseReport, ...]:
    """One report for each release of the plan, in its order."""
    queries = np.array([membership.partitions[c.partition].query for c in membership.cells], dtype=np.intp)
    place = {} if view is None else {int(query): i for i, query in enumerate(view.queries)}
    copies = copied(plan, membership)
    noise = pricing.noise_stddev
    counted = np.zeros(len(plan.releases), dtype=np.intp)
    for bundle in pricing.bundles:
        counted[membership.partitions[bundle[0]].query] += pricing.times[bundle[0]]
    reports = []
    for query, release in enumerate(plan.releases):
        mine: FloatArray = noise[queries == query]
        parts = [p for p in membership.partitions if p.query == query]
        done: dict[str, int | None] = {"newly_exposes": None, "exposes_alone": None, "sharpens": None}
        note = ""
        if not parts:
            note = "depends on no secret: costs nothing and reveals nothing"
        elif mine.size == 0:
            note = "no row meets its condition"
        elif query not in place:
            note = "not linear in the secret: seen locally, at the operating point"
        elif contributions is not None:
            i = place[query]
            factor = contributions.sharpening()[i]
            done = {
                "newly_exposes": int(contributions.newly_exposed(i).size),
                "exposes_alone": int(contributions.exposed_only_with(i).size),
                "sharpens": int(np.count_nonzero(np.isfinite(factor) & (factor >= 1 + _SHARPER))),
            }
        reports.append(
            ReleaseReport(
                name=release.name,
                times=release.times,
                outputs=int(mine.size),
                counted=int(counted[query]),
                smallest_noise_stddev=float(mine.min()) if mine.size else None,
                largest_noise_stddev=float(mine.max()) if mine.size else None,
                noise_given=release.noise_stddev is not None,
                copy_of=copies.get(query),
                note=note,
                **done,
            )
        )
    return tuple(reports)


def copied(plan: Plan, membership: Membership) -> dict[int, str]:
    """Releases all of whose numbers aggregate the rows of an earlier release's numbers in the same way."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(1 << 63, size=len(membership.signatures), dtype=np.uint64)
    marks = np.zeros(len(membership.cells) + 1, dtype=np.uint64)  # the last entry takes rows in no cell
    for start in range(0, len(drawn), _BLOCK):
        block = membership.signatures[start : start + _BLOCK]
        # Sums that wrap around: equal rows, equal sums.
        np.add.at(marks, block, np.broadcast_to(drawn[start : start + _BLOCK, None], block.shape))
    seen: list[tuple[int, set[tuple[int, Feature, float | str | None, bool]]]] = []
    found: dict[int, str] = {}
    for query in range(len(plan.releases)):
        rows = {
            (int(mark), part.feature, part.parameter, part.above)
            for mark, cell in zip(marks, membership.cells, strict=False)
            if (part := membership.partitions[cell.partition]).query == query
        }
        if not rows:
            continue
        home = next((earlier for earlier, theirs in seen if rows <= theirs), None)
        if home is not None:
            found[query] = plan.releases[home].name
        seen.append((query, rows))
    return found
