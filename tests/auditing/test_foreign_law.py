"""A noise law that the posterior formulas do not know is refused, never taken for another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sightline.attacks.posterior import _posterior
from sightline.auditing.homogeneous import _View
from sightline.errors import InvalidNoise


def test_the_posterior_of_an_attack() -> None:
    noise: Any = SimpleNamespace(law="staircase")
    with pytest.raises(InvalidNoise, match="expected Gaussian or Laplace noise, got staircase"):
        _posterior(noise, np.zeros((1, 1)), np.zeros((2, 1)), np.ones(2))


def test_the_posterior_of_a_group() -> None:
    findings = SimpleNamespace(prior=None, pricing=SimpleNamespace(law="staircase"))
    view: Any = SimpleNamespace(findings=findings, rows=np.full(1, 3.0), deviation=np.ones(1))
    with pytest.raises(InvalidNoise, match="expected Gaussian or Laplace noise, got staircase"):
        _View._posterior(view, np.zeros(1, dtype=np.intp), np.ones(1))
