"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

# Running attacks
from sightline.attacks.monte_carlo import sweep as sweep
from sightline.attacks.monte_carlo import Simulation as Simulation
from sightline.attacks.estimates import Attack as Attack
from sightline.attacks.estimates import Estimates as Estimates
from sightline.attacks.estimates import AttackStatus as AttackStatus
from sightline.attacks.blue import Reconstruction as Reconstruction
from sightline.attacks.blue import ReconstructedValue as ReconstructedValue
from sightline.attacks.blue import MissingDirection as MissingDirection

# Attacks
from sightline.attacks.bayes import LinearBayes as LinearBayes
from sightline.attacks.bayes import BayesBracket as BayesBracket
from sightline.attacks.bayes import bayes_bracket as bayes_bracket
from sightline.attacks.inversion import MomentInversion as MomentInversion

# Priors
from sightline.attacks.bayes import PriorDensity as PriorDensity
