"""Sightline: what a sequence of differentially private aggregates lets an attacker see.

The public names load on first use, so that ``import sightline`` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module

# Public name -> the module that defines it, in the order of the path plan -> report.
_HOME = {
    "SightlineError": "errors",
    "Evidence": "numerics.decision",
    "Decision": "numerics.decision",
    "certificate": "numerics.certificate",
    "Budget": "privacy.budget",
    "Accountant": "privacy.accountant",
    "NoiseLaw": "privacy.accountant",
    "Validity": "privacy.accountant",
    "BasicComposition": "privacy.basic",
    "Calibration": "privacy.basic",
    "AdvancedComposition": "privacy.advanced",
    "ZeroConcentrated": "privacy.zero_concentrated",
    "Renyi": "privacy.renyi",
    "GaussianDP": "privacy.gaussian_dp",
    "LaplaceComposition": "privacy.laplace",
    "Spending": "privacy.spending",
    "account": "privacy.spending",
    "account_budgets": "privacy.spending",
    "Adjacency": "releases.query",
    "Query": "releases.query",
    "SubsetMean": "releases.subset_mean",
    "SubsetSum": "releases.subset_sum",
    "Moment": "releases.moment",
    "SmoothThreshold": "releases.smooth_threshold",
    "WeightedSum": "releases.weighted_sum",
    "Cells": "releases.cells",
    "DeepSet": "releases.deepset",
    "GaussianNoise": "noise.laws",
    "LaplaceNoise": "noise.laws",
    "CorrelatedNoise": "noise.laws",
    "Transcript": "geometry.transcript",
    "noise_multipliers": "geometry.transcript",
    "Geometry": "geometry.fisher",
    "Exposure": "geometry.exposure",
    "Direction": "geometry.exposure",
    "Increment": "geometry.increment",
    "Form": "geometry.forms",
    "profiled_information": "geometry.forms",
    "lift": "geometry.lift",
    "MembershipDesign": "labeled.design",
    "Known": "labeled.knowledge",
    "Exposures": "labeled.exposures",
    "RecordExposure": "labeled.exposures",
    "Contributions": "labeled.contributions",
    "CosineSquaredPrior": "labeled.bounds.cosine",
    "CoinPrior": "labeled.bounds.coin",
    "InOut": "labeled.inout",
    "one_contrast_information": "labeled.contrast",
    "exchangeable_information": "labeled.contrast",
    "symmetry": "labeled.contrast",
    "Family": "multiset.family",
    "Moments": "multiset.moment_family",
    "Thresholds": "multiset.threshold_family",
    "QueryFamily": "multiset.family",
    "Mixture": "multiset.mixture",
    "release_curve": "multiset.curve",
    "release_curves": "multiset.curve",
    "ReleaseCurve": "multiset.curve",
    "ReleaseCurves": "multiset.curve",
    "CurveStatus": "multiset.signal",
    "certified_curve": "multiset.certified",
    "CertifiedCurve": "multiset.certified",
    "Bottleneck": "multiset.spectrum",
    "Growth": "multiset.spectrum",
    "Asymptotics": "multiset.asymptotics",
    "Regime": "multiset.asymptotics",
    "Trend": "multiset.asymptotics",
    "Collision": "multiset.chart",
    "collisions": "multiset.chart",
    "chart_radius": "multiset.chart",
    "matching_loss": "multiset.chart",
    "plan_releases": "multiset.planning",
    "budget_sweep": "multiset.planning",
    "largest_epsilon": "multiset.planning",
    "ReleasePlan": "multiset.planning",
    "moment_sums": "multiset.moments",
    "moment_sum_limit": "multiset.moments",
    "scalar_crb": "multiset.moments",
    "scalar_floor": "multiset.moments",
    "scalar_tail": "multiset.moments",
    "scalar_step_ratio": "multiset.moments",
    "scalar_stopping_scale": "multiset.moments",
    "pair_information": "multiset.moments",
    "pair_crb": "multiset.moments",
    "pair_crb_at_two": "multiset.moments",
    "pair_step_ratio": "multiset.moments",
    "moment_value_bounds": "multiset.moments",
    "moment_log_determinant_bound": "multiset.moments",
    "moment_crb_bound": "multiset.moments",
    "moment_limit": "multiset.moments",
    "moment_limit_trace": "multiset.moments",
    "step_overlap": "multiset.thresholds",
    "dense_grid_matrix": "multiset.thresholds",
    "dense_grid_trace": "multiset.thresholds",
    "threshold_trace_bound": "multiset.thresholds",
    "threshold_crb_bound": "multiset.thresholds",
    "Attack": "attacks.estimates",
    "Estimates": "attacks.estimates",
    "AttackStatus": "attacks.estimates",
    "Blue": "attacks.blue",
    "BoxLeastSquares": "attacks.box",
    "LinearBayes": "attacks.linear_bayes",
    "BayesBracket": "attacks.linear_bayes",
    "bayes_bracket": "attacks.linear_bayes",
    "MomentInversion": "attacks.inversion",
    "ConstrainedMLE": "attacks.mle",
    "AdamMLE": "attacks.adam",
    "PosteriorMean": "attacks.posterior",
    "Trivial": "attacks.trivial",
    "Prior": "attacks.prior",
    "UniformPrior": "attacks.prior",
    "CosinePrior": "attacks.prior",
    "MissingDirection": "attacks.target",
    "reconstruct": "attacks.reconstruction",
    "Reconstruction": "attacks.reconstruction",
    "ReconstructedValue": "attacks.reconstruction",
    "simulate": "attacks.monte_carlo",
    "sweep": "attacks.monte_carlo",
    "Simulation": "attacks.simulation",
    "audit": "auditing.run",
    "explain": "auditing.run",
    "Explanation": "auditing.run",
    "Plan": "auditing.plan",
    "AuditResult": "auditing.result",
    "report_html": "report.html",
    "write_report": "report.html",
    "export_figures": "report.export",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("sightline")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'sightline' has no attribute {name!r}")
    return getattr(import_module(f"sightline.{home}"), name)


def __dir__() -> list[str]:
    return __all__


class _Package(type(sys)):  # the type of modules, without importing its name
    """``sightline.audit`` is the function: importing the room of that name does not hide it."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOME or not isinstance(value, type(sys)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """By name: code of the user's that mentions the package travels to other processes."""
        return __import__, (__name__,)


sys.modules[__name__].__class__ = _Package
