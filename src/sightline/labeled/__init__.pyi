"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.labeled.description import Known as Known
from sightline.labeled.design import Exposures as Exposures
from sightline.labeled.design import RecordExposure as RecordExposure
from sightline.labeled.bounds.priors import UniformPrior as UniformPrior
from sightline.labeled.bounds.priors import CosineSquaredPrior as CosineSquaredPrior
from sightline.labeled.bounds.priors import TwoPointPrior as TwoPointPrior
from sightline.labeled.bounds.coin import CoinPrior as CoinPrior
from sightline.labeled.inout import InOut as InOut
from sightline.labeled.inout import one_contrast_information as one_contrast_information
from sightline.labeled.inout import exchangeable_information as exchangeable_information
from sightline.labeled.inout import symmetry as symmetry
