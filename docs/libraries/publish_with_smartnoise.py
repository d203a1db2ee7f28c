"""An example: three queries about homes, published with SmartNoise SQL, and written down."""

import pandas as pd
import snsql
from export_smartnoise import write

homes = pd.read_csv("homes.csv")
columns = {
    "home": {"type": "string", "private_id": True},
    "feeder": {"type": "string"},
    "watts": {"type": "int", "lower": 0, "upper": 9000},
}
table = {"max_ids": 1, "censor_dims": False, "rows": 40, **columns}
privacy = snsql.Privacy(epsilon=1.0, delta=1e-6)
reader = snsql.from_df(homes, privacy=privacy, metadata={"": {"": {"homes": table}}})

queries = {
    "by_feeder": "SELECT feeder, SUM(watts) AS s FROM homes GROUP BY feeder",
    "total": "SELECT SUM(watts) AS s, COUNT(*) AS n FROM homes",
    "mean": "SELECT AVG(watts) AS m FROM homes",
}
write("releases", reader, **queries)
