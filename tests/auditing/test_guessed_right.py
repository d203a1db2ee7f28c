"""A limit on how often a guess is right: what follows from it, its words, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.bounds.guesses import must_remain, right_at_most
from sightline.errors import InvalidPlan
from sightline.report.wording import limit_line


def plan(noise: float, *, values: int = 2, **limits: Any) -> dict[str, Any]:
    """Each of four people in a number of their own."""
    categories = {"categories": list("abcdef"[:values])} if values > 2 else {"kind": "boolean"}
    secret = list("abca") if values > 2 else [True, False, True, True]
    by = "g, x, COUNT(*)" if values > 2 else "g, COUNT(*) FILTER (WHERE x)"
    table = pyarrow.table({"id": [1, 2, 3, 4], "g": list("pqrs"), "x": secret})
    accept = ["groups", "homogeneous", "explained", "few_values"]
    return {
        "data": {"source": table, "record": "id", "secret": "x", **categories},
        "limits": {"accept": accept, **limits},
        "release": [
            {
                "name": "own",
                "sql": f"SELECT {by} FROM data GROUP BY g{', x' * (values > 2)}",
                "noise_stddev": noise,
            }
        ],
    }


@pytest.mark.parametrize("chances", [[0.5, 0.5], [0.1, 0.9], [1 / 3] * 3, [0.05] * 20])
@pytest.mark.parametrize("right", [0.91, 0.95, 0.999])
def test_what_must_remain_is_the_inverse_of_the_guess(chances: list[float], right: float) -> None:
    share = must_remain(np.array(chances), right)
    assert right_at_most(np.array(chances), np.array([[share]]))[0] == pytest.approx(right)


@pytest.mark.parametrize("noise", [0.4, 0.8, 1.5, 4.0])
def test_a_pass_is_never_guessed_right_more_often(noise: float) -> None:
    """The sign test on a person's own number is right Φ(1/2σ) of the time."""
    truth = float(norm.cdf(1 / (2 * noise)))
    for limit in (0.55, 0.65, 0.8, 0.95):
        result = sl.audit(plan(noise, guessed_right=limit))
        assert result.verdict.guessed_right == limit
        if result.verdict.status is VerdictStatus.PASSED:
            assert truth <= limit
            assert f"No guess at x of 4 records is right more than {limit:.0%}".replace("%", " %") in (
                limit_line(result)
            )
            assert not result.verdict.guaranteed  # it depends on what is known before
        else:
            assert truth > limit
            assert result.verdict.status is VerdictStatus.FAILED
            assert " may be right more than " in limit_line(result)


def test_a_limit_on_guesses_and_one_on_what_remains_are_kept_both() -> None:
    """A guess is right 79 % of the time, and half of the variance remains: less would need more noise."""
    noise = 0.62
    truth = float(norm.cdf(1 / (2 * noise)))
    answer = norm(1, noise)  # of one whose value is yes
    remains = float(answer.expect(lambda y: 1 - np.tanh((2 * y - 1) / (4 * noise**2)) ** 2))
    by_guess = sl.audit(plan(noise, guessed_right=truth + 0.001))
    assert by_guess.verdict.status is VerdictStatus.PASSED
    assert by_guess.slack is None  # no factor was tried
    assert sl.audit(plan(noise, guessed_right=truth - 0.001)).verdict.status is not VerdictStatus.PASSED
    for share, kept in ((remains * 0.9, True), (remains * 1.02, False)):
        both = sl.audit(plan(noise, guessed_right=truth + 0.001, remaining_uncertainty=share))
        assert (both.verdict.status is VerdictStatus.PASSED) is kept, (share, remains)


def test_the_category_itself_is_guessed() -> None:
    result = sl.audit(plan(0.5, values=5, guessed_right="90%"))
    view = result.sharpest
    assert view is not None
    assert view.right_before == pytest.approx(0.2)
    assert view.right_after is not None
    assert 0.2 < view.right_after <= 1
    # The largest of five independent answers of one person's own cells, drawn.
    drawn = np.random.default_rng(1).standard_normal((100_000, 5)) * 0.5
    drawn[:, 0] += 1
    best = float((drawn.argmax(axis=1) == 0).mean())
    assert best - 0.01 <= view.right_after
    assert "is guessed right at most" in view.text or "guesses" in view.text


@pytest.mark.parametrize(
    ("limits", "values", "message"),
    [
        ({"guessed_right": 0.5}, 2, "guessed_right of more than 50 % and less than 100 %, got 50 %"),
        ({"guessed_right": "20%"}, 5, "guessed_right of more than 20 %"),
        ({"guessed_right": 1.0}, 2, "a limit of at most 99.9%"),
    ],
)
def test_a_limit_that_says_nothing_is_refused(limits: dict[str, Any], values: int, message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        sl.audit(plan(1.0, values=values, **limits))


def test_a_number_is_not_guessed_right() -> None:
    number = plan(1.0, guessed_right=0.6)
    number["data"] |= {"kind": "number", "bounds": [0, 1]}
    with pytest.raises(InvalidPlan, match=r"guessed_right for a yes or no, or a category, .* got a number"):
        sl.audit(number)
