"""Running sums are rehearsed: published with noise that steps share, and attacked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sightline.auditing.findings import find
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.rehearsing.publication import Truth, published_means
from sightline.rehearsing.result import AttackKind
from sightline.rehearsing.run import rehearse
from tests.auditing.continual.running_plans import MECHANISMS, decoder_of, plan_of, table

DAYS = [1, 2, 2, 5, 6]


@pytest.mark.parametrize("name", MECHANISMS)
def test_guesses_are_off_by_what_the_running_sums_leave(name: str) -> None:
    """Errors of repeated publications against the covariance of the textbook's decoder."""
    noise = {**MECHANISMS[name], "stddev": 0.4}
    result = rehearse(plan_of(table(DAYS), 6, noise), repetitions=2_000)
    assert not result.surprises
    _, B = decoder_of(noise, 6)
    sigma = 0.16 * B @ B.T
    columns = np.array([[float(t >= day) for day in sorted(set(DAYS))] for t in range(1, 7)])
    best = np.diagonal(np.linalg.inv(columns.T @ np.linalg.solve(sigma, columns)))
    found = {one.record: one for one in result.guesses if one.attack is AttackKind.UNBIASED}
    for record, place in (("0", 0), ("1, 2", 1), ("3", 2), ("4", 3)):
        guess = found[record]
        assert guess.stated_mse == pytest.approx(best[place], rel=1e-8)
        # 2,000 squares of normal errors: their mean is within 5 standard errors.
        assert guess.mse == pytest.approx(best[place], rel=5 * math.sqrt(2 / 2_000))


@pytest.mark.parametrize("times", [1, 2])
def test_the_published_noise_has_its_law(times: int) -> None:
    """Uniform: Kolmogorov's bound for 200 draws at a false alarm rate of one in ten thousand."""
    noise: dict[str, Any] = {"mechanism": "tree-least-squares", "stddev": 3.0}
    checked, base = read_plan(plan_of(table(DAYS), 6, noise, release={"times": times}))
    with opened(checked, base) as session:
        findings = find(checked, session.membership())
        truth = Truth.of(session, findings).answers
    _, B = decoder_of(noise, 6)
    whitened = np.linalg.pinv(np.diff(B, axis=0, prepend=0.0))  # the noise of the steps has this factor
    chances = []
    for seed in range(200):
        apart = published_means(findings, truth, np.random.default_rng(seed)) - truth
        chances.append(chi2.sf(times * np.sum((whitened @ apart / 3.0) ** 2), 6))
    away = np.abs(np.sort(chances) - (np.arange(200) + 0.5) / 200).max()
    assert away < 2.23 / math.sqrt(200)
