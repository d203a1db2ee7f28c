"""People in three countries; the smallest is hidden."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "wikimedia_views",
        columns=("country",),
        sizes={
            ("a",): 400,
            ("b",): 250,
            ("c",): 40,
        },
        secret="read",
        share=0.5,
        newcomer=True,
    )
