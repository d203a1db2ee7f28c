"""The prior that a domain stands for."""

from __future__ import annotations

from sightline.labeled.bounds.cosine import CosineSquaredPrior
from sightline.labeled.bounds.protocol import RecordPrior


def prior_on(domain: tuple[float, float] | RecordPrior) -> RecordPrior:
    """A prior as it is; for the smallest and the largest value of a record, the cos² prior between them."""
    if isinstance(domain, RecordPrior):
        return domain
    low, high = domain
    return CosineSquaredPrior(width=float(high) - float(low))
