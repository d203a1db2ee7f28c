"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.theory.releases.query import Query as Query
from sightline.theory.releases.add_remove import AddRemove as AddRemove
