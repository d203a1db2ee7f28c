"""People in four counties; the smallest has eight."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "google_vaccination",
        columns=("county",),
        sizes={
            ("a",): 120,
            ("b",): 60,
            ("c",): 25,
            ("d",): 8,
        },
        secret="searched",
        share=0.3,
        newcomer=True,
    )
