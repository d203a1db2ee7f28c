"""People in six counties of two states; the smallest county has six."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "google_mobility",
        columns=("state", "county"),
        sizes={
            ("north", "north 1"): 90,
            ("north", "north 2"): 24,
            ("north", "north 3"): 6,
            ("south", "south 1"): 110,
            ("south", "south 2"): 40,
            ("south", "south 3"): 10,
        },
        secret="out",
        newcomer=True,
    )
