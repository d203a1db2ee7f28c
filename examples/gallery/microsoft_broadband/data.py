"""People in five zip codes; the smallest has three."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "microsoft_broadband",
        columns=("zip",),
        sizes={
            ("00001",): 120,
            ("00002",): 60,
            ("00003",): 30,
            ("00004",): 9,
            ("00005",): 3,
        },
        secret="fast",
        share=0.6,
    )
