"""People in four regions; the smallest has ten."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "linkedin_hiring",
        columns=("region",),
        sizes={
            ("a",): 150,
            ("b",): 80,
            ("c",): 30,
            ("d",): 10,
        },
        secret="hired",
        share=0.1,
        newcomer=True,
    )
