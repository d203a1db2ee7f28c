"""How much public columns tell of the secret beforehand, by a second computation and against chance."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.report.first_screen import public_line
from sightline.tables.explained import MOST_EXPLAINED, explained


def _one_by_one(secret: np.ndarray, classes: np.ndarray) -> float:
    """By definition: each row is guessed by the rows of its class without it, or by all other rows."""
    errors = []
    for place, own in enumerate(classes):
        others = np.arange(len(secret)) != place
        alike = others & (classes == own)
        guesses = [secret[one].mean(axis=0) for one in (alike if alike.any() else others, others)]
        errors.append([secret[place] - guess for guess in guesses])
    squares = np.square(np.array(errors)).reshape(len(secret), 2, -1).sum(axis=(0, 2))
    return float(1 - squares[0] / squares[1])


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_guesses_by_others_leave(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g, h = rng.integers(0, 4, (2, 200))
    secret = 2.0 * g + 1.5 * h + rng.normal(0, 2, 200)
    found = explained(secret, {"g": g, "h": h}, np.arange(200))
    assert set(found.columns) == {"g", "h"}
    assert found.share == pytest.approx(_one_by_one(secret, 10 * g + h), rel=1e-9)
    alone = explained(secret, {"g": g}, np.arange(200))
    assert alone.share == pytest.approx(_one_by_one(secret, g), rel=1e-9)
    assert alone.share < found.share


def test_of_a_category_it_is_the_share_of_its_indicators() -> None:
    rng = np.random.default_rng(3)
    g = rng.integers(0, 3, 300)
    secret = np.array(["abc"[(one + (rng.random() < 0.3)) % 3] for one in g], dtype=object)
    indicators = (secret[:, None] == np.array(["a", "b", "c"], dtype=object)).astype(float)
    found = explained(secret, {"g": g}, np.arange(300))
    assert found.share == pytest.approx(_one_by_one(indicators, g), rel=1e-9)
    assert found.share > 0.2


def test_one_odd_value_in_a_class_of_its_own_explains_next_to_nothing() -> None:
    """One yes of a hundred, alone in its class: whoever knows the others cannot tell."""
    yes, classes = np.arange(100) == 7, np.where(np.arange(100) == 7, 99, np.arange(100) % 5)
    assert explained(yes.astype(float), {"c": classes}, np.arange(100)).share <= 0.01


def test_rows_of_one_person_count_once() -> None:
    """Ten people with a hundred rows each: three groups of them explain nothing that chance does not."""
    rng = np.random.default_rng(8)
    person = np.repeat(np.arange(10), 100)
    secret = rng.uniform(0, 10, 10)[person] + rng.normal(0, 0.1, 1000)
    group = (np.arange(10) % 3)[person]
    assert explained(secret, {"g": group}, np.arange(1000)).share > 0  # as if there were a thousand people
    assert explained(secret, {"g": group}, person).share == 0


def test_many_numbers_count_by_their_rank_and_keys_do_not() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, 500)
    near, key = x + rng.normal(0, 0.1, 500), np.array([f"k{i}" for i in range(500)], dtype=object)
    found = explained(x, {"near": near, "key": key}, np.arange(500))
    assert found.columns == ("near",)
    assert found.share == pytest.approx(np.corrcoef(x, near)[0, 1] ** 2, abs=0.05)


def test_columns_that_have_nothing_to_do_with_it_raise_no_alarm() -> None:
    """Of 3,000 tables of all sizes at most one in a thousand has a finding, up to chance."""
    rng = np.random.default_rng(11)
    findings = 0
    for _ in range(3000):
        n, width = int(rng.integers(5, 200)), int(rng.integers(1, 5))
        secret = rng.uniform(0, 1, n) if rng.random() < 0.7 else np.exp(rng.normal(0, 1.5, n))
        columns = {f"c{i}": rng.integers(0, rng.integers(2, 12), n) for i in range(width)}
        findings += explained(secret, columns, np.arange(n)).share > MOST_EXPLAINED
    assert findings <= 3


def _salaries(share: float, number: int = 400) -> pl.DataFrame:
    """A band of a column that explains a share of the salaries' variance."""
    rng = np.random.default_rng(2)
    salary = rng.uniform(20e3, 180e3, number)
    other = salary + rng.normal(0, np.sqrt((1 - share) / share) * salary.std(), number)
    return pl.DataFrame({"who": range(number), "band": (other // 10_000).astype(int), "salary": salary})


def _audited(share: float, **limits: object) -> sl.AuditResult:
    about = {"record": "who", "secret": "salary", "bounds": [0, 200_000]}
    release = {
        "name": "r",
        "sql": "SELECT band, SUM(salary) FROM data GROUP BY band",
        "noise_stddev": 1e6,
    }
    return sl.audit(
        {
            "data": {"source": _salaries(share), **about},
            "limits": {"remaining_uncertainty": "50%", **limits},
            "release": [release],
        },
        verdict_only=True,
    )


def test_groups_that_tell_most_of_the_secret_do_not_pass_unseen() -> None:
    """Each number has noise enough for a guarantee; of people in a band nine tenths are known before it."""
    table = _salaries(0.9)
    within = table.with_columns(left=pl.col("salary") - pl.col("salary").mean().over("band"))["left"]
    assert float((within**2).mean()) < 0.15 * float(table["salary"].var())  # type: ignore[arg-type]
    result = _audited(0.9)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    (asked,) = [one for one in result.unverified if not one.accepted]
    assert asked.name.value == "explained"
    assert asked.owner_only
    assert result.explained is not None
    assert result.explained.share == pytest.approx(0.9, abs=0.05)
    assert result.publishable().explained is None
    accepted = _audited(0.9, accept=["explained"])
    assert accepted.verdict.status is VerdictStatus.PASSED


def test_a_smaller_share_is_said_and_asks_for_nothing() -> None:
    result = _audited(0.3)
    assert result.verdict.status is VerdictStatus.PASSED
    assert not result.unverified
    assert "In the table, band explains 2" in public_line(result)
    assert "of the variance of salary (for the owner only)." in public_line(result)


def test_numbers_of_an_engine_are_numbers() -> None:
    """Beside texts all columns come as objects, and each number was a category of its own."""
    draw = np.random.default_rng(12)
    group = draw.integers(0, 4, 400)
    table = {
        "who": [f"p{i}" for i in range(400)],
        "g": group,
        "v": 20.0 * (group % 2) + draw.uniform(0, 20, 400),
    }
    release = {"name": "r", "sql": "SELECT g, SUM(v) FROM data GROUP BY g", "noise_stddev": 1e6}
    about = {"record": "who", "secret": "v", "bounds": [0, 100]}
    source = pytest.importorskip("pandas").DataFrame(table)
    limits = {"remaining_uncertainty": "50%"}
    result = sl.audit({"data": {"source": source, **about}, "limits": limits, "release": [release]})
    assert result.explained is not None
    assert result.explained.share == pytest.approx(100 / (100 + 20**2 / 12), abs=0.05)
