"""An example: three sums and means of homes, published with OpenDP, and written down."""

import opendp.prelude as dp
import polars as pl
from export_opendp import write

dp.enable_features("contrib")
homes = pl.scan_csv("homes.csv")
context = dp.Context.compositor(
    data=homes,
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(rho=0.5),
    split_evenly_over=3,
    margins=[
        dp.polars.Margin(max_length=1000),
        dp.polars.Margin(by=["feeder"], max_length=1000, invariant="keys"),
    ],
)
watts = pl.col("watts").fill_null(0)
by_feeder = context.query().group_by("feeder").agg(watts.dp.sum(bounds=(0, 9000)))
total = context.query().select(watts.dp.sum(bounds=(0, 9000)), dp.len())
mean = context.query().group_by("feeder").agg(watts.dp.mean(bounds=(0, 9000)))

write("releases", context, by_feeder=by_feeder, total=total, mean=mean, record="home")
