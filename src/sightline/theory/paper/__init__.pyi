"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.theory.paper.run import figure as figure
from sightline.theory.paper.comparison import Figure as Figure
from sightline.theory.paper.comparison import Table as Table
from sightline.theory.paper.run import LABELS as LABELS
from sightline.theory.paper.comparison import Claim as Claim
from sightline.theory.paper.comparison import ClaimVerdict as ClaimVerdict
from sightline.theory.paper.comparison import Comparison as Comparison
from sightline.theory.paper.comparison import JointTest as JointTest
from sightline.theory.paper.comparison import MadeFigure as MadeFigure
from sightline.theory.paper.comparison import Panel as Panel
from sightline.theory.paper.run import regenerate as regenerate
from sightline.theory.paper.run import Regenerated as Regenerated
