"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.units.description import Known as Known
from sightline.bounds.membership_design import Exposures as Exposures
from sightline.bounds.membership_design import RecordExposure as RecordExposure
from sightline.bounds.priors import UniformPrior as UniformPrior
from sightline.bounds.priors import CosineSquaredPrior as CosineSquaredPrior
from sightline.bounds.priors import TwoPointPrior as TwoPointPrior
from sightline.bounds.coin import CoinPrior as CoinPrior
from sightline.theory.labeled.inout import InOut as InOut
from sightline.theory.labeled.inout import one_contrast_information as one_contrast_information
from sightline.theory.labeled.inout import exchangeable_information as exchangeable_information
from sightline.theory.labeled.inout import symmetry as symmetry
