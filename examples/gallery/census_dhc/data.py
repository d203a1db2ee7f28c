"""People in six blocks; the smallest has four."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "census_dhc",
        columns=("state", "county", "tract", "block_group", "block", "sex"),
        sizes={
            ("s1", "c1", "t1", "g1", "b1", "f"): 20,
            ("s1", "c1", "t1", "g1", "b1", "m"): 20,
            ("s1", "c1", "t1", "g1", "b2", "f"): 2,
            ("s1", "c1", "t1", "g1", "b2", "m"): 2,
            ("s1", "c1", "t1", "g2", "b3", "f"): 12,
            ("s1", "c1", "t1", "g2", "b3", "m"): 12,
            ("s1", "c1", "t2", "g3", "b4", "f"): 30,
            ("s1", "c1", "t2", "g3", "b4", "m"): 30,
            ("s1", "c2", "t3", "g4", "b5", "f"): 35,
            ("s1", "c2", "t3", "g4", "b5", "m"): 35,
            ("s2", "c3", "t4", "g5", "b6", "f"): 45,
            ("s2", "c3", "t4", "g5", "b6", "m"): 45,
        },
        secret="child",
        share=0.25,
    )
