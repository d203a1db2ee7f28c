"""People in three countries; the smallest has twelve."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "facebook_urls",
        columns=("country",),
        sizes={
            ("a",): 200,
            ("b",): 80,
            ("c",): 12,
        },
        secret="interested",
    )
