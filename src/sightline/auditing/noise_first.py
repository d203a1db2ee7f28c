"""What a release computes with its noisy numbers: harmless after the noise, asked about where it matters."""

from __future__ import annotations

import numpy as np

from sightline.auditing.findings import Findings
from sightline.format import number

# Rounding before the noise matters beyond this share of what a record moves a number, and of the noise.
_FINE_BESIDE_SENSITIVITY, _FINE_BESIDE_NOISE = 1e-3, 0.1


def needing_noise_first(findings: Findings) -> set[int]:
    """Releases sorted by a noisy number, that make a NULL or text of it, round it, or enlarge given noise.

    A budget gives noise in proportion to the sensitivity, which grows with the number.
    """
    parts = [part for part in findings.membership.partitions if part.computed is not None]
    given = [release.noise_given for release in findings.plan.releases]
    return {
        part.query
        for part in parts
        if part.computed is not None
        and (part.computed.ranked or part.computed.shows or (part.computed.enlarges and given[part.query]))
    } | _rounded_coarsely(findings)


def _rounded_coarsely(findings: Findings) -> set[int]:
    r"""Releases whose rounding would tell something if it came before the noise.

    A number rounded to a step :math:`h` first moves by up to :math:`h` more than the aggregate does: two
    values on both sides of a boundary are then :math:`h` apart, however close they are. That is negligible
    if :math:`h` is a thousandth of what a record moves the number, or if all such steps together are a tenth
    of the noise: they then take less than 0.3 % of what remains
    (:func:`~sightline.auditing.pricing.kept_of_anything`).
    """
    membership, pricing = findings.membership, findings.pricing
    steps = np.array(
        [0.0 if one.computed is None else one.computed.rounded_to for one in membership.partitions]
    )
    step = steps[pricing.owner] / membership.published_factors
    coarse = (step > _FINE_BESIDE_SENSITIVITY * pricing.sensitivity) & ~pricing.exact
    moved = np.zeros(len(steps))
    np.maximum.at(moved, pricing.owner[coarse], (step[coarse] / pricing.scale[coarse]) ** 2)
    if float(pricing.times @ moved) <= _FINE_BESIDE_NOISE**2:
        return set()
    return {membership.partitions[p].query for p in np.flatnonzero(moved)}


def how_computed(findings: Findings) -> list[str]:
    """What was taken to carry the noise, for every number with which something is computed."""
    lines: dict[str, None] = {}
    for part in findings.membership.partitions:
        if part.computed is None:
            continue
        steps = ", ".join(part.computed.steps)
        line = f'"{part.name}": the noise is on {part.computed.noise_on}; after it: {steps}.'
        if part.computed.factor != 1 and findings.plan.releases[part.query].noise_given:
            line += (
                f" A stddev is that of {number(part.computed.factor)} times that: of the published number."
            )
        if part.computed.enlarges:
            line += " Noise that is added to the published number instead must be multiplied likewise."
        if any(step.startswith("LIMIT") for step in part.computed.steps):
            line += " It is audited as if all lines were published."
        lines[line] = None
    return list(lines)
