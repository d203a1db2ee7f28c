"""A hundred homes with 24 hourly loads each, higher in the evening; home 1 joined halfway."""

from __future__ import annotations

import math
from random import Random

from examples.gallery.people import Table


def table() -> Table:
    """The table, the same each time."""
    draw = Random("sightline gallery recurve_load")
    rows = [["home", "joined", "hour", "kwh"]]
    for home in range(100):
        level = draw.uniform(0.4, 1.6)
        for hour in range(24):
            shape = 1 + 0.6 * math.cos((hour - 19) * math.pi / 12)
            load = min(4.0, level * shape * draw.uniform(0.6, 1.4))
            rows.append([str(home), str(2 if home == 1 else 1), str(hour), f"{load:.3f}"])
    return rows
