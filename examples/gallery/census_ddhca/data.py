"""People in four tracts; the smallest has five."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "census_ddhca",
        columns=("state", "county", "tract"),
        sizes={
            ("s1", "c1", "t1"): 60,
            ("s1", "c1", "t2"): 5,
            ("s1", "c2", "t3"): 45,
            ("s2", "c3", "t4"): 110,
        },
        secret="member",
        share=0.1,
    )
