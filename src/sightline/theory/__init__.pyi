"""The rooms of the paper; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.theory import releases as releases
from sightline.theory import geometry as geometry
from sightline.theory import labeled as labeled
from sightline.theory import multiset as multiset
from sightline.theory import attacks as attacks
from sightline.theory import paper as paper
