"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.paper.figures import figure as figure
from sightline.paper.figure_type import Figure as Figure
from sightline.paper.figure_type import Table as Table
from sightline.paper.figures import LABELS as LABELS
from sightline.paper.claim import Claim as Claim
from sightline.paper.claim import ClaimVerdict as ClaimVerdict
from sightline.paper.comparison import Comparison as Comparison
from sightline.paper.comparison import JointTest as JointTest
from sightline.paper.figure_type import MadeFigure as MadeFigure
from sightline.paper.figure_type import Panel as Panel
from sightline.paper.run import regenerate as regenerate
from sightline.paper.run import Regenerated as Regenerated
