"""An example: three queries about homes, published with Tumult Analytics, and written down."""

import os
import sys

from export_tumult import write
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, QueryBuilder, RhoZCDPBudget, Session

os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run in the same environment
builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", 1)
spark = builder.config("spark.ui.enabled", False).getOrCreate()
homes = spark.read.csv("homes.csv", header=True, inferSchema=True)
session = Session.from_dataframe(
    privacy_budget=RhoZCDPBudget(0.3),
    source_id="homes",
    dataframe=homes,
    protected_change=AddOneRow(),
)
feeders = KeySet.from_dict({"feeder": ["a", "b", "c", "d"]})
queries = {
    "by_feeder": QueryBuilder("homes").groupby(feeders).sum("watts", 0, 9000),
    "total": QueryBuilder("homes").filter("feeder <> 'd'").sum("watts", 0, 9000),
    "mean": QueryBuilder("homes").groupby(feeders).average("watts", 0, 9000),
}
budget = RhoZCDPBudget(0.1)
write("releases", session, record="home", **{name: (query, budget) for name, query in queries.items()})
