"""Sightline: what a sequence of differentially private aggregates lets an attacker see.

The public names load on first use, so that ``import sightline`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

# Public name -> the module that defines it, in the order of the path plan -> report.
_HOME = {
    "SightlineError": "errors",
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
    "GaussianNoise": "geometry.noise",
    "LaplaceNoise": "geometry.noise",
    "CorrelatedNoise": "geometry.noise",
    "Transcript": "geometry.transcript",
    "noise_multipliers": "geometry.transcript",
    "Geometry": "geometry.fisher",
    "Decision": "geometry.decision",
    "Evidence": "geometry.decision",
    "Exposure": "geometry.exposure",
    "Direction": "geometry.exposure",
    "Increment": "geometry.increment",
    "Form": "geometry.forms",
    "profiled_information": "geometry.forms",
    "lift": "geometry.lift",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'sightline' has no attribute {name!r}")
    return getattr(import_module(f"sightline.{home}"), name)


def __dir__() -> list[str]:
    return __all__
