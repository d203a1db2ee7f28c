"""The section on releases: how many records each exposes or sharpens, and whether it is a copy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.auditing.accuracy import noise_of_range
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.plan import Plan
from sightline.auditing.result import ReleaseReport
from sightline.tables.membership import Feature, Membership, Parameter

# A release sharpens a record if its error would be larger by this share without it.
_SHARPER = 0.01


def release_reports(findings: Findings) -> tuple[ReleaseReport, ...]:
    """One report for each release of the plan, in its order."""
    plan, membership, pricing = findings.plan, findings.membership, findings.pricing
    queries = np.array([membership.partitions[c.partition].query for c in membership.cells], dtype=np.intp)
    linear = set() if findings.linear is None else set(findings.linear.linear.queries.tolist())
    copies = copied(plan, membership)
    noise = pricing.noise_stddev
    counted = np.zeros(len(plan.releases), dtype=np.intp)
    for bundle in pricing.bundles:
        counted[membership.partitions[bundle[0]].query] += pricing.times[bundle[0]]
    reports = []
    for query, release in enumerate(plan.releases):
        mine: FloatArray = noise[queries == query]
        parts = [p for p in membership.partitions if p.query == query]
        effects: dict[str, int | None] = {"newly_exposes": None, "exposes_alone": None, "sharpens": None}
        note = ""
        if not parts:
            note = "depends on no secret: costs nothing and reveals nothing"
        elif mine.size == 0:
            note = "no row meets its condition"
        elif query not in linear:
            note = "not linear in the secret: seen locally, at the operating point"
        elif findings.linear is not None:
            effects = _effects(findings, findings.linear, query)
        reports.append(
            ReleaseReport(
                name=release.name,
                times=plan.copies(release),
                outputs=int(mine.size),
                counted=int(counted[query]),
                smallest_noise_stddev=float(mine.min()) if mine.size else None,
                largest_noise_stddev=float(mine.max()) if mine.size else None,
                noise_given=release.noise_given,
                noise_of_range=noise_of_range(findings, query),
                copy_of=copies.get(query),
                note=note,
                accuracy=None,
                **effects,
            )
        )
    return tuple(reports)


def _effects(findings: Findings, found: LinearFindings, query: int) -> dict[str, int | None]:
    """How many records a release exposes or sharpens; none where that costs too much."""
    persons = findings.membership.persons is not None and not findings.one_value
    affordable = found.repeatable if persons else found.comparable and bool(found.visible.any())
    if not affordable:
        return {"newly_exposes": None, "exposes_alone": None, "sharpens": None}
    if not found.identifiable.any():  # nor is anybody with fewer releases
        return {"newly_exposes": 0, "exposes_alone": 0, "sharpens": None if persons else 0}
    now, before = _seen(findings.up_to(query), found), _seen(findings.up_to(query - 1), found)
    others = findings.without(query)
    kept = _seen(others, found)
    sharper = np.zeros(len(found.visible), dtype=np.bool_)
    if others is not None:
        both = np.flatnonzero(found.identifiable & others.identifiable)
        sharper[both] = others.group_rmse(both) > (1 + _SHARPER) * found.group_rmse(both)
    return {
        "newly_exposes": int(np.count_nonzero(now & ~before)),
        "exposes_alone": int(np.count_nonzero(_seen(found, found) & ~kept)),
        "sharpens": None if persons else int(np.count_nonzero(found.per_unit(sharper).any(axis=1))),
    }


def _seen(seen: LinearFindings | None, of: LinearFindings) -> NDArray[np.bool_]:
    """The units of one person of whom something is identifiable."""
    return (
        np.zeros(len(of.people), dtype=np.bool_)
        if seen is None
        else seen.per_unit(seen.identifiable).any(axis=1)
    )


def copied(plan: Plan, membership: Membership) -> dict[int, str]:
    """Releases all of whose numbers aggregate the rows of an earlier release's numbers in the same way."""
    if membership.others is not None:  # the rows of a streamed table are not compared
        return {}
    sizes = np.array([cell.rows for cell in membership.cells], dtype=np.uint64)
    alike = _covered(membership, sizes, set(range(len(plan.releases))))
    # The row counts agree; compare the rows. Equal rows have equal sums of random marks, modulo 2^64.
    concerned = {*alike, *(home for homes in alike.values() for home in homes)}
    marks = np.zeros(len(membership.cells) + 1, dtype=np.uint64)  # the last entry takes rows in no cell
    drawn = np.random.default_rng(0).integers(1 << 63, size=len(membership.signatures), dtype=np.uint64)
    for p, partition in enumerate(membership.partitions):
        if partition.query in concerned:
            weights = membership.weights_in(p)
            np.add.at(
                marks,
                membership.positions(p),
                drawn * weights.view(np.uint64) if partition.weighted else drawn,
            )
    found = _covered(membership, marks, concerned)
    return {query: plan.releases[homes[0]].name for query, homes in found.items()}


def _covered(membership: Membership, marks: NDArray[np.uint64], queries: set[int]) -> dict[int, list[int]]:
    """Queries all of whose cells are marked like some of an earlier one's, with all such earlier ones."""
    rows: dict[int, set[tuple[int, Feature, Parameter, bool, bool]]] = {}
    for cell, mark in zip(membership.cells, marks.tolist(), strict=False):
        part = membership.partitions[cell.partition]
        if part.query in queries:
            kind = (part.feature, part.parameter, part.above, part.closed)
            rows.setdefault(part.query, set()).add((mark, *kind))
    found = {}
    for query, mine in rows.items():
        homes = [earlier for earlier, theirs in rows.items() if earlier < query and mine <= theirs]
        if homes:
            found[query] = sorted(homes)
    return found
