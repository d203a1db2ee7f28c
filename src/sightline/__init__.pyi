"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

# Audit a plan
from sightline.jobs.audit import audit as audit
from sightline.jobs.audit import open_audit as open_audit
from sightline.jobs.assemble import OpenAudit as OpenAudit
from sightline.jobs.audit import explain as explain
from sightline.auditing.plan import Plan as Plan
from sightline.auditing.result import AuditResult as AuditResult
from sightline.report.page import write_report as write_report
from sightline.report.figures import export_figures as export_figures
from sightline.jobs.design import design as design
from sightline.advising.design_result import DesignResult as DesignResult
from sightline.rehearsing.run import rehearse as rehearse
from sightline.ledger.book import Ledger as Ledger
from sightline.errors import SightlineError as SightlineError

# Budgets and accountants
from sightline.privacy.accountant import Budget as Budget
from sightline.privacy.composition import BasicComposition as BasicComposition
from sightline.privacy.composition import AdvancedComposition as AdvancedComposition
from sightline.privacy.concentrated import ZeroConcentrated as ZeroConcentrated
from sightline.privacy.concentrated import Renyi as Renyi
from sightline.privacy.gaussian_dp import GaussianDP as GaussianDP
from sightline.privacy.composition import LaplaceComposition as LaplaceComposition

# Study a design
from sightline.theory.releases.linear import SubsetMean as SubsetMean
from sightline.theory.releases.linear import SubsetSum as SubsetSum
from sightline.theory.releases.linear import WeightedSum as WeightedSum
from sightline.theory.releases.linear import Cells as Cells
from sightline.theory.releases.features import Moment as Moment
from sightline.theory.releases.features import SmoothThreshold as SmoothThreshold
from sightline.theory.releases.deepset import DeepSet as DeepSet
from sightline.noise.laws import GaussianNoise as GaussianNoise
from sightline.noise.laws import LaplaceNoise as LaplaceNoise
from sightline.noise.laws import CorrelatedNoise as CorrelatedNoise
from sightline.theory.geometry.transcript import Transcript as Transcript
from sightline.bounds.membership_design import MembershipDesign as MembershipDesign

# Study a multiset
from sightline.theory.multiset.moments import Moments as Moments
from sightline.theory.multiset.thresholds import Thresholds as Thresholds
from sightline.theory.multiset.curve import release_curve as release_curve

# Attack it
from sightline.theory.attacks.monte_carlo import simulate as simulate
from sightline.theory.attacks.mle import ConstrainedMLE as ConstrainedMLE
from sightline.theory.attacks.blue import Blue as Blue
from sightline.theory.attacks.blue import reconstruct as reconstruct

# Everything else, by room
from sightline import privacy as privacy
from sightline import theory as theory
from sightline.theory import releases as releases
from sightline.theory import geometry as geometry
from sightline.theory import labeled as labeled
from sightline.theory import multiset as multiset
from sightline.theory import attacks as attacks
from sightline.theory import paper as paper

__version__: str
