"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

# Running attacks
from sightline.theory.attacks.monte_carlo import sweep as sweep
from sightline.theory.attacks.monte_carlo import Simulation as Simulation
from sightline.theory.attacks.estimates import Attack as Attack
from sightline.theory.attacks.estimates import Estimates as Estimates
from sightline.theory.attacks.estimates import AttackStatus as AttackStatus
from sightline.theory.attacks.blue import Reconstruction as Reconstruction
from sightline.theory.attacks.blue import ReconstructedValue as ReconstructedValue
from sightline.theory.attacks.blue import MissingDirection as MissingDirection

# Attacks
from sightline.theory.attacks.bayes import LinearBayes as LinearBayes
from sightline.theory.attacks.bayes import BayesBracket as BayesBracket
from sightline.theory.attacks.bayes import bayes_bracket as bayes_bracket
from sightline.theory.attacks.inversion import MomentInversion as MomentInversion

# Priors
from sightline.theory.attacks.bayes import PriorDensity as PriorDensity
