"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.privacy.accountant import Accountant as Accountant
from sightline.privacy.adjacency import Adjacency as Adjacency
from sightline.privacy.adjacency import histogram_sensitivity as histogram_sensitivity
from sightline.privacy.adjacency import mean_sensitivity as mean_sensitivity
from sightline.privacy.adjacency import sum_sensitivity as sum_sensitivity
from sightline.privacy.law import Law as Law
from sightline.privacy.accountant import Validity as Validity
from sightline.privacy.composition import Calibration as Calibration
from sightline.privacy.gaussian_dp import PerRecord as PerRecord
from sightline.privacy.optimal import OptimalComposition as OptimalComposition
from sightline.privacy.registry import account as account
from sightline.privacy.registry import account_budgets as account_budgets
from sightline.privacy.registry import Spending as Spending
