"""The public names, in the order of the reference; `__init__.py` loads each on first use."""

# ruff: isort: skip_file

# Families of releases
from sightline.theory.multiset.family import Family as Family
from sightline.theory.multiset.family import QueryFamily as QueryFamily

# Curves
from sightline.theory.multiset.curve import release_curves as release_curves
from sightline.theory.multiset.curve import ReleaseCurve as ReleaseCurve
from sightline.theory.multiset.curve import ReleaseCurves as ReleaseCurves
from sightline.theory.multiset.signal import CurveStatus as CurveStatus
from sightline.theory.multiset.spectrum import Bottleneck as Bottleneck
from sightline.theory.multiset.spectrum import Growth as Growth
from sightline.theory.multiset.spectrum import Asymptotics as Asymptotics
from sightline.theory.multiset.spectrum import Regime as Regime
from sightline.theory.multiset.spectrum import Trend as Trend

# Hybrid transcripts
from sightline.theory.multiset.hybrid_splits import HybridSplits as HybridSplits

# The sorted chart
from sightline.theory.multiset.curve import Collision as Collision
from sightline.theory.multiset.curve import collisions as collisions
from sightline.theory.multiset.curve import chart_radius as chart_radius
from sightline.theory.multiset.curve import matching_loss as matching_loss

# Closed forms for moments
from sightline.theory.multiset.moments import moment_sums as moment_sums
from sightline.theory.multiset.moments import moment_sum_limit as moment_sum_limit
from sightline.theory.multiset.moments import scalar_crb as scalar_crb
from sightline.theory.multiset.moments import scalar_floor as scalar_floor
from sightline.theory.multiset.moments import scalar_tail as scalar_tail
from sightline.theory.multiset.moments import scalar_step_ratio as scalar_step_ratio
from sightline.theory.multiset.moments import scalar_stopping_scale as scalar_stopping_scale
from sightline.theory.multiset.moments import pair_information as pair_information
from sightline.theory.multiset.moments import pair_crb as pair_crb
from sightline.theory.multiset.moments import pair_crb_at_two as pair_crb_at_two
from sightline.theory.multiset.moments import pair_step_ratio as pair_step_ratio
from sightline.theory.multiset.moments import moment_value_bounds as moment_value_bounds
from sightline.theory.multiset.moments import moment_log_determinant_bound as moment_log_determinant_bound
from sightline.theory.multiset.moments import moment_crb_bound as moment_crb_bound
from sightline.theory.multiset.moments import moment_limit as moment_limit
from sightline.theory.multiset.moments import moment_limit_trace as moment_limit_trace

# Closed forms for thresholds
from sightline.theory.multiset.thresholds import step_overlap as step_overlap
from sightline.theory.multiset.thresholds import dense_grid_matrix as dense_grid_matrix
from sightline.theory.multiset.thresholds import dense_grid_trace as dense_grid_trace
from sightline.theory.multiset.thresholds import threshold_trace_bound as threshold_trace_bound
from sightline.theory.multiset.thresholds import threshold_crb_bound as threshold_crb_bound
