"""The setting of most of the paper's numbers: budget, two accountants, the table's sensitivities."""

from __future__ import annotations

from sightline.multiset.moments import Moments
from sightline.privacy.budget import Budget
from sightline.privacy.composition import BasicComposition
from sightline.privacy.concentrated import ZeroConcentrated

BUDGET = Budget(epsilon=1.0, delta=1e-5)
BASIC, ZCDP = BasicComposition(BUDGET), ZeroConcentrated(BUDGET)
UNIFORM = Moments(convention="uniform")
