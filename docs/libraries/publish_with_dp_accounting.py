"""An example: three releases about homes, counted by dp_accounting, and written down."""

import dp_accounting
from dp_accounting import pld
from export_dp_accounting import write

accountant = pld.PLDAccountant()
accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier=2.0))
accountant.compose(dp_accounting.LaplaceDpEvent(noise_multiplier=3.0))
accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier=2.0), 2)

queries = {
    "by_feeder": "SELECT feeder, SUM(watts) FROM data GROUP BY feeder",
    "total": "SELECT SUM(watts) FROM data",
    "mean": "SELECT AVG(watts) FROM data",
}
write("releases", accountant, record="home", secret="watts", bounds=[0, 9000], **queries)
