"""Running sums are rehearsed: published with noise that steps share, attacked, and read from a file."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.auditing.findings import find
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.rehearsing import publication
from sightline.rehearsing.publication import Truth
from sightline.rehearsing.result import AttackKind
from sightline.rehearsing.run import publish_and_rehearse, rehearse
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


def numbers(text: str) -> np.ndarray:
    return np.array([float(line["value"]) for line in csv.DictReader(io.StringIO(text))])


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_written_are_running_sums_and_they_are_read_again(times: int, tmp_path: Path) -> None:
    noise = {"mechanism": "toeplitz-sqrt", "stddev": 1e-6}
    plan = plan_of(table(DAYS), 6, noise, release={"times": times})
    made = publish_and_rehearse(plan, repetitions=20)
    values = plan["data"]["source"]["x"].to_numpy()
    sums = [sum(values[k] for k, day in enumerate(DAYS) if day <= t) for t in range(1, 7)]
    assert np.allclose(numbers(made.publication.text()), np.repeat(sums, times), atol=1e-4)
    path = tmp_path / "answers.csv"
    path.write_text(made.publication.text())
    again = rehearse(plan, repetitions=20, answers=path)
    assert again.answers_fit
    pairs = zip(again.guesses, made.rehearsal.guesses, strict=True)
    assert all(one.guess == pytest.approx(other.guess, abs=1e-9) for one, other in pairs)


@pytest.mark.parametrize("times", [1, 2])
def test_the_misfit_has_its_law(times: int) -> None:
    """Uniform: Kolmogorov's bound for 200 draws at a false alarm rate of one in ten thousand."""
    noise: dict[str, Any] = {"mechanism": "tree-least-squares", "stddev": 3.0}
    checked, base = read_plan(plan_of(table(DAYS), 6, noise, release={"times": times}))
    with opened(checked, base) as session:
        findings = find(checked, session.membership())
        truth = Truth.of(session, findings).answers
    chances = []
    for seed in range(200):
        made = publication.simulate_publication(findings, truth, np.random.default_rng(seed))
        chances.append(made.misfit(findings, truth))
    away = np.abs(np.sort(chances) - (np.arange(200) + 0.5) / 200).max()
    assert away < 2.23 / math.sqrt(200)
