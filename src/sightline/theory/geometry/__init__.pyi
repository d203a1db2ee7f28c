"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.theory.geometry.transcript import noise_multipliers as noise_multipliers
from sightline.theory.geometry.transcript import Geometry as Geometry
from sightline.theory.geometry.exposure import Exposure as Exposure
from sightline.theory.geometry.exposure import Direction as Direction
from sightline.theory.geometry.exposure import Increment as Increment
from sightline.theory.geometry.transcript import Form as Form
from sightline.theory.geometry.transcript import profiled_information as profiled_information
from sightline.theory.geometry.transcript import lift as lift
from sightline.numerics.rank import Decision as Decision
from sightline.numerics.rank import Evidence as Evidence
from sightline.numerics.integers import certificate as certificate
