"""The error that is printed is that of the recipe that is shown, whatever the law; and whose recipe it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import sightline as sl
from sightline.bounds.membership_design import MembershipDesign
from sightline.noise.laws import GaussianNoise, LaplaceNoise, MixedNoise


def least_deviation(rows: np.ndarray, variances: np.ndarray, target: np.ndarray) -> float:
    """Of weights w with Aᵀw = t the least deviation, by Lagrange's equations: (AΣ⁻¹Aᵀ)⁻¹ in another form."""
    L, N = rows.shape
    equations = np.block([[np.diag(variances), rows], [rows.T, np.zeros((N, N))]])
    solved = np.linalg.lstsq(equations, np.concatenate([np.zeros(L), target]), rcond=None)[0][:L]
    np.testing.assert_allclose(rows.T @ solved, target, atol=1e-9)
    return float(np.sqrt(solved**2 @ variances))


def test_the_error_under_laplace_noise_is_the_deviation_of_the_recipe() -> None:
    # Two full-rank answers: their noise is all there is, and no unbiased attack has less.
    found = MembershipDesign([[1, 0], [0, 1]], noise=LaplaceNoise(scales=[2**0.5] * 2)).exposures(
        domain=(0, 1)
    )
    np.testing.assert_allclose(found.rmse, 2.0, rtol=1e-12)


def test_a_mix_of_laws_is_weighted_by_variance() -> None:
    # A value seen once with a Gaussian and once with a Laplace deviation of 1: the mean has the error √½.
    noise = MixedNoise.of([GaussianNoise(stddevs=[1.0]), LaplaceNoise(scales=[0.5**0.5])])
    found = MembershipDesign([[1, 0], [1, 0]], noise=noise, readout="sum").exposures(domain=(0, 1))
    assert found.rmse[0] == pytest.approx(0.5**0.5, rel=1e-12)
    np.testing.assert_allclose(found.recipe(0), [0.5, 0.5], rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_random_mixes_have_the_least_variance(seed: int) -> None:
    generator = np.random.default_rng(seed)
    L, N = int(generator.integers(3, 7)), 3
    rows = (generator.random((L, N)) < 0.6).astype(float)
    rows[rows.sum(axis=1) == 0, 0] = 1.0
    scales, laplace = generator.uniform(0.2, 3.0, L), generator.integers(0, 2, L).astype(float)
    variances = scales**2 * (1 + laplace)
    noise = MixedNoise(scales=scales, stddevs=np.sqrt(variances), laplace_answers=laplace)
    found = MembershipDesign(rows, noise=noise, readout="sum").exposures(domain=(0, 1))
    for j in np.flatnonzero(found.identifiable):
        least = least_deviation(rows, variances, np.eye(N)[j])
        assert found.rmse[j] == pytest.approx(least, rel=1e-9)
        assert np.sqrt(found.recipe(j) ** 2 @ variances) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize(
    ("law", "epsilon", "deviation"), [("laplace", 1 / 3, 18**0.5), ("geometric", 1 / 3, 4.223)]
)
def test_an_audit_prints_the_error_of_its_recipe(
    tmp_path: Path, law: str, epsilon: float, deviation: float
) -> None:
    (tmp_path / "t.csv").write_text("who,g,x\n" + "\n".join(f"p{i},{i % 4},{i % 2}" for i in range(5)))
    plan: dict[str, Any] = {
        "data": {"source": str(tmp_path / "t.csv"), "record": "who", "secret": "x", "kind": "boolean"},
        "release": [
            {
                "name": "r",
                "sql": "SELECT g, COUNT(*) FILTER (WHERE x) FROM data GROUP BY g",
                "noise": {"law": law, "epsilon": epsilon},
            }
        ],
    }
    exposed = next(one for one in sl.audit(plan).exposed if one.recipe is not None)
    assert exposed.recipe is not None
    assert exposed.rmse == pytest.approx(deviation, rel=2e-4)
    assert exposed.rmse == pytest.approx(exposed.recipe.rmse, rel=1e-9)


def test_persons_with_one_value_are_explained_by_their_own_numbers(tmp_path: Path) -> None:
    """p2 alone is in its number, known to 0.01; the others are only in a total that hides them."""
    rows = [("p0", "a"), ("p0", "a"), ("p1", "a"), ("p2", "b"), ("p2", "b"), ("p3", "a"), ("p4", "a")]
    values = {"p0": 1.0, "p1": 5.0, "p2": 7.0, "p3": 2.0, "p4": 9.0}
    (tmp_path / "t.csv").write_text("\n".join(["who,g,x", *(f"{w},{g},{values[w]}" for w, g in rows)]))
    source = {"source": str(tmp_path / "t.csv"), "record": "who", "secret": "x", "bounds": [0, 10]}
    plan: dict[str, Any] = {
        "data": {**source, "max_rows_per_record": 2, "values": "constant"},
        "release": [{"name": "r", "sql": "SELECT g, SUM(x) FROM data GROUP BY g", "noise_stddev": 0.02}],
    }
    for person in values:
        found = sl.explain(plan, record=person).exposed
        if person == "p2":  # two rows of one value: a sum of 2x with noise of 0.02
            assert [one.identifiable for one in found] == [True]
            assert found[0].rmse == pytest.approx(0.01)
            assert found[0].recipe is not None
            assert [(s.cell, s.weight) for s in found[0].recipe.steps] == [("b", pytest.approx(0.5))]
        else:
            assert not any(one.identifiable and one.size == 1 for one in found)
            assert all(one.recipe is None or one.recipe.steps[0].cell == "a" for one in found)


def test_slack_never_states_the_floor_of_its_search_as_what_is_needed(tmp_path: Path) -> None:
    """In a group of forty the sum alone leaves 97 % of everyone: with no noise to speak of, too."""
    (tmp_path / "t.csv").write_text("who,x\n" + "\n".join(f"p{i},{(7 * i) % 11}" for i in range(40)))
    plan: dict[str, Any] = {
        "data": {"source": str(tmp_path / "t.csv"), "record": "who", "secret": "x", "bounds": [0, 10]},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": "r", "sql": "SELECT SUM(x) FROM data", "noise_stddev": 20.0}],
    }
    slack = sl.audit(plan).slack
    assert slack is not None
    assert slack.noise_factor == 1e-5
    assert "even with a hundred-thousandth of this noise" in slack.text


def test_the_lower_end_of_a_yes_or_no_is_not_said_to_hold_against_who_knows_the_others() -> None:
    """Four people in one sharp count hide each other; three of them known, nothing is left of the fourth."""
    plan: dict[str, Any] = {
        "data": {"source": polars.DataFrame({"p": list("abcd"), "ill": [True, False, True, False]})},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": "n", "sql": "SELECT COUNT(*) FILTER (WHERE ill) FROM data", "noise_stddev": 0.1}
        ],
    }
    plan["data"] |= {"record": "p", "secret": "ill", "kind": "boolean"}
    alone, known = sl.audit(plan), sl.audit({**plan, "attacker": {"knows": ["p <> 'a'"]}})
    assert alone.least_remaining_uncertainty is not None
    assert known.least_remaining_uncertainty is not None
    # Of n with k yes, k(n - k)/n² remains; over all counts that is 1 - 1/n of a coin's variance.
    assert alone.least_remaining_uncertainty.lower == pytest.approx(0.75, abs=0.01)
    assert known.least_remaining_uncertainty.upper < 0.01
    said = " ".join(alone.assumptions)
    assert "even if they know all other" not in said
    assert "[attacker] knows" in said
