"""People in four blocks of one county, and elsewhere; the smallest block has six."""

from __future__ import annotations

from examples.gallery.people import Table, in_areas


def table() -> Table:
    """The table, the same each time."""
    return in_areas(
        "census_pl94",
        columns=("state", "county", "tract", "block_group", "block", "race", "of_age", "quarters"),
        sizes={
            ("s1", "c1", "t1", "g1", "b1", "0", "1", "0"): 21,
            ("s1", "c1", "t1", "g1", "b1", "0", "0", "0"): 7,
            ("s1", "c1", "t1", "g1", "b1", "1", "1", "0"): 6,
            ("s1", "c1", "t1", "g1", "b1", "1", "0", "0"): 2,
            ("s1", "c1", "t1", "g1", "b1", "5", "1", "0"): 3,
            ("s1", "c1", "t1", "g1", "b1", "5", "0", "0"): 1,
            ("s1", "c1", "t1", "g1", "b2", "0", "1", "0"): 3,
            ("s1", "c1", "t1", "g1", "b2", "0", "0", "0"): 1,
            ("s1", "c1", "t1", "g1", "b2", "1", "1", "0"): 1,
            ("s1", "c1", "t1", "g1", "b2", "5", "1", "0"): 1,
            ("s1", "c1", "t1", "g2", "b3", "0", "1", "0"): 16,
            ("s1", "c1", "t1", "g2", "b3", "0", "0", "0"): 5,
            ("s1", "c1", "t1", "g2", "b3", "1", "1", "0"): 5,
            ("s1", "c1", "t1", "g2", "b3", "1", "0", "0"): 1,
            ("s1", "c1", "t1", "g2", "b3", "5", "1", "0"): 3,
            ("s1", "c1", "t2", "g3", "b4", "0", "1", "0"): 27,
            ("s1", "c1", "t2", "g3", "b4", "0", "0", "0"): 8,
            ("s1", "c1", "t2", "g3", "b4", "1", "1", "0"): 8,
            ("s1", "c1", "t2", "g3", "b4", "1", "0", "0"): 2,
            ("s1", "c1", "t2", "g3", "b4", "5", "1", "0"): 4,
            ("s1", "c1", "t2", "g3", "b4", "5", "0", "0"): 1,
            ("s1", "other", "other", "other", "other", "0", "1", "0"): 32,
            ("s1", "other", "other", "other", "other", "0", "0", "0"): 10,
            ("s1", "other", "other", "other", "other", "1", "1", "0"): 9,
            ("s1", "other", "other", "other", "other", "1", "0", "0"): 3,
            ("s1", "other", "other", "other", "other", "5", "1", "0"): 5,
            ("s1", "other", "other", "other", "other", "5", "0", "0"): 1,
            ("s2", "other", "other", "other", "other", "0", "1", "0"): 42,
            ("s2", "other", "other", "other", "other", "0", "0", "0"): 14,
            ("s2", "other", "other", "other", "other", "1", "1", "0"): 12,
            ("s2", "other", "other", "other", "other", "1", "0", "0"): 4,
            ("s2", "other", "other", "other", "other", "5", "1", "0"): 6,
            ("s2", "other", "other", "other", "other", "5", "0", "0"): 2,
        },
        secret="hispanic",
        share=0.18,
    )
