"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

from sightline.paper.run import figure as figure
from sightline.paper.comparison import Figure as Figure
from sightline.paper.comparison import Table as Table
from sightline.paper.run import LABELS as LABELS
from sightline.paper.comparison import Claim as Claim
from sightline.paper.comparison import ClaimVerdict as ClaimVerdict
from sightline.paper.comparison import Comparison as Comparison
from sightline.paper.comparison import JointTest as JointTest
from sightline.paper.comparison import MadeFigure as MadeFigure
from sightline.paper.comparison import Panel as Panel
from sightline.paper.run import regenerate as regenerate
from sightline.paper.run import Regenerated as Regenerated
