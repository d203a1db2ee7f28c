"""A limit in the secret's own unit: nobody's value may be known better than to ± so much."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow
import pytest

import sightline as sl
from sightline.auditing.plan import Limits
from sightline.auditing.reading import read_plan, with_limit
from sightline.auditing.result import VerdictStatus
from sightline.errors import InvalidPlan
from sightline.report.wording import limit_line

ACCEPT = ["homogeneous", "few_values"]


def plan(noise: list[float], bounds: list[float], **limits: Any) -> dict[str, Any]:
    """Each person's own income, with noise of their own."""
    rows = len(noise)
    rng = np.random.default_rng(7)
    table = {"person": [f"p{i}" for i in range(rows)], "income": rng.uniform(0, 40_000, rows).round(2)}
    releases = [
        {"name": f"r{i}", "sql": f"SELECT SUM(income) FROM data WHERE person = 'p{i}'", "noise_stddev": s}
        for i, s in enumerate(noise)
    ]
    data = {"source": pyarrow.table(table), "record": "person", "secret": "income", "bounds": bounds}
    return {"data": data, "release": releases, "limits": {"accept": ACCEPT, **limits}}


def error_left(noise: float, width: float) -> float:
    """The root of the mean posterior variance of a uniform number behind Gaussian noise, by quadrature."""
    x = (np.arange(2_000) + 0.5) / 2_000 * width
    y = np.linspace(-8 * noise, width + 8 * noise, 4_001)
    likelihood = np.exp(-((y[:, None] - x) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
    seen = likelihood.mean(axis=1)
    mean = (likelihood * x).mean(axis=1) / np.maximum(seen, 1e-300)
    explained = float(np.sum(seen * (mean - width / 2) ** 2) * (y[1] - y[0]))
    return math.sqrt(width**2 / 12 - explained)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("width", [50_000.0, 200_000.0])
def test_who_is_below_is_who_is_known_better(width: float) -> None:
    """By the exact error of each person, whose number is theirs alone."""
    noise = [300.0, 480.0, 520.0, 900.0, 20_000.0]
    left = [error_left(one, width) for one in noise]
    for known_to in (400.0, 500.0, 700.0):
        found = sl.audit(plan(noise, [0, width], known_to=known_to)).verdict
        assert found.below_limit == sum(one < known_to for one in left)
        assert found.known_to == known_to
        assert f"the limit of ± {known_to:.0f}" in found.text


def test_the_share_depends_on_the_bounds_and_the_unit_does_not() -> None:
    noise = [400.0, 3_000.0, 9_000.0, 30_000.0]
    widths = (50_000.0, 1_000_000.0)
    shares, units = (
        [sl.audit(plan(noise, [0, width], **limit)).verdict.below_limit for width in widths]
        for limit in ({"remaining_uncertainty": 0.5}, {"known_to": 2_500.0})
    )
    assert shares == [3, 4]
    assert units == [1, 1]
    texts = sl.audit(plan(noise, [0, 50_000], remaining_uncertainty=0.05, known_to=2_500.0)).assumptions
    assert any(one.startswith("A limit that is a share depends on the bounds") for one in texts)
    assert any(one.startswith("The limit of ± 2,500 hardly depends on the bounds") for one in texts)


def test_the_stricter_of_both_decides() -> None:
    noise = [400.0, 3_000.0, 9_000.0, 30_000.0]
    both = [
        sl.audit(plan(noise, [0, 50_000], remaining_uncertainty=s, known_to=2_500.0)) for s in (0.5, 0.01)
    ]
    assert [one.verdict.below_limit for one in both] == [3, 1]
    assert [one.verdict.known_to for one in both] == [None, 2_500.0]
    assert "3 records may be below the limit of 50 % and of ± 2,500." in both[0].verdict.text
    assert "may be known more closely than to ± 2,500." in limit_line(both[1])


def test_the_noise_guarantees_no_error() -> None:
    """It leaves a share of what is open: to attackers who know a value to ± 1 no noise leaves ± 500."""
    both = [
        plan([3e5] * 3, [0, 50_000], **limit) for limit in ({"remaining_uncertainty": 0.5}, {"known_to": 500})
    ]
    shown, unit = (sl.audit(one).verdict for one in both)
    assert (shown.passed, shown.guaranteed) == (True, True)
    assert (unit.passed, unit.guaranteed) == (True, False)
    assert "On that average everyone keeps at least the limit of ± 500." in unit.text


def test_few_values_and_alike_groups_are_asked_in_the_unit() -> None:
    """Twelve people who all have 100, of 99 to 1,000: with that mean, values vary by ± 30 at most."""
    table = pyarrow.table({"person": [f"p{i}" for i in range(12)], "x": [100.0] * 12})
    asked = {
        "data": {"source": table, "record": "person", "secret": "x", "bounds": [99, 1_000]},
        "release": [{"name": "sum", "sql": "SELECT SUM(x) FROM data", "noise_stddev": 3.0}],
        "limits": {"known_to": 40.0},
    }
    result = sl.audit(asked)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert "homogeneous" in [one.name.value for one in result.unverified]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("500", {"known_to": 500.0}),
        (500.0, {"known_to": 500.0}),
        ("± 0.5", {"known_to": 0.5}),
        ("50%", {"remaining_uncertainty": 0.5}),
        ("0.25", {"remaining_uncertainty": 0.25}),
    ],
)
def test_a_limit_above_one_is_in_the_unit(given: float | str, expected: dict[str, float]) -> None:
    checked = with_limit(read_plan(plan([400.0], [0, 50_000], remaining_uncertainty=0.9))[0], given)
    assert checked.limits == Limits(**expected, accept=checked.limits.accept)


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidPlan, match=r"known_to of at most 14426\.5, got 20000; attackers know"):
        sl.audit(plan([400.0], [0, 50_000], known_to=20_000))
    with pytest.raises(InvalidPlan, match=r"known_to of at most 14426\.5"):
        sl.audit(plan([400.0], [0, 50_000]), limit=20_000)
    boolean = plan([400.0], [0, 50_000], known_to=3.0)
    boolean["data"] = {**boolean["data"], "bounds": None, "kind": "boolean"}
    with pytest.raises(InvalidPlan, match="known_to for a number that is the only secret, got a boolean"):
        sl.audit(boolean)
    several = plan([400.0], [0, 50_000], known_to=3.0) | {"secret": [{"column": "tax", "bounds": [0, 1]}]}
    with pytest.raises(InvalidPlan, match="got several secrets; state a share"):
        sl.audit(several)


def test_a_design_reaches_it() -> None:
    result = sl.design(plan([400.0, 3_000.0], [0, 50_000]), limit=2_000)
    assert result.passed
    (first, second) = sorted(one.stddev for one in result.noise)
    assert error_left(first, 50_000) >= 2_000 > error_left(0.99 * first, 50_000)
    assert second == 3_000


@pytest.mark.parametrize(("noise", "below"), [(3.0, 3), (6.0, 0)])
def test_of_several_rows_a_sum_is_asked_for_the_root_of_their_number_times_as_much(
    noise: float, below: int
) -> None:
    """The sums of four rows are known to ± 2.9 and ± 5.3: a limit of ± 2 asks for ± 4 of them."""
    values = np.random.default_rng(3).uniform(0, 20, 12).round(2)
    table = pyarrow.table({"who": sorted("abc" * 4), "x": values})
    rows = {"max_rows_per_record": 4, "values": "independent"}
    plan = {
        "data": {"source": table, "record": "who", "secret": "x", "bounds": [0, 20], **rows},
        "limits": {"known_to": 2.0, "accept": ["homogeneous", "few_values", "rows_apart"]},
        "release": [
            {"name": "sums", "sql": "SELECT who, SUM(x) FROM data GROUP BY who", "noise_stddev": noise}
        ],
    }
    result = sl.audit(plan)
    assert result.verdict.below_limit == below
    left = result.exposed[0].remaining_uncertainty
    before = 4 * 20**2 / 12  # the variance of the sum
    assert left is not None
    assert left.upper == pytest.approx(noise**2 / (before + noise**2))
    assert (before * left.lower < (2.0 * 4**0.5) ** 2) == (below > 0)


def test_of_rows_that_share_a_level_a_sum_is_asked_for_their_number_times_as_much() -> None:
    """The mean of four rows is known to a quarter of what their sum is: a limit of ± 1 asks for ± 4 of it."""
    values = np.random.default_rng(3).uniform(4, 16, 12).round(2)
    table = pyarrow.table({"who": sorted("abc" * 4), "x": values})
    for noise, status in ((3.6, "failed"), (5.0, "passed")):
        plan = {
            "data": {
                "source": table,
                "record": "who",
                "secret": "x",
                "bounds": [0, 20],
                "max_rows_per_record": 4,
            },
            "limits": {"known_to": 1.0, "accept": ["homogeneous", "few_values"]},
            "release": [
                {"name": "sums", "sql": "SELECT who, SUM(x) FROM data GROUP BY who", "noise_stddev": noise}
            ],
        }
        result = sl.audit(plan)
        total = result.exposed[0].total
        assert total is not None
        before = 4**2 * 20**2 / 12  # the variance of the sum: of four times a level
        assert total.after_upper == pytest.approx((before * noise**2 / (before + noise**2)) ** 0.5)
        assert result.verdict.status == status
        assert (total.after_lower < 4.0) == (status == "failed")
