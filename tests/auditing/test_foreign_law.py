"""A noise law that the posterior formulas do not know is refused, never taken for another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sightline.attacks.bayes import _posterior
from sightline.errors import InvalidNoise


def test_the_posterior_of_an_attack() -> None:
    noise: Any = SimpleNamespace(law="staircase")
    with pytest.raises(InvalidNoise, match="expected Gaussian or Laplace noise, got staircase"):
        _posterior(noise, np.zeros((1, 1)), np.zeros((2, 1)), np.ones(2))
