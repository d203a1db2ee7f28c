"""Numbers that take few values, and what is said of averages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.auditing.findings import find
from sightline.tables.membership import Feature, Occurring, Statistic
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of
from tests.auditing.no_false_pass.written_plans import DATA, LIMIT, exact_risk, names, written


def written_with_prior(folder: Path, rows: list[str], prior: str, accept: tuple[str, ...] = ()) -> str:
    """A sum over one person with noise of 0.35 of the range, and the mean of all with much noise."""
    path = written(
        folder,
        rows,
        ("SELECT SUM(x) FROM data WHERE id = 'p0'", 0.35),
        ("SELECT AVG(x) FROM data", 1.0),
        data={"bounds": [0.0, 1.0]},
        accept=accept,
    )
    text = Path(path).read_text(encoding="utf-8").replace("[attacker]", f'[attacker]\nprior = "{prior}"')
    Path(path).write_text(text.replace("uncertainty = 0.5", "uncertainty = 0.3"), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_yes_or_no_stored_as_a_number_does_not_pass_unseen(tmp_path: Path) -> None:
    """A 0 or 1 at noise 0.35 keeps 22.5 %; as an evenly spread number it would keep 58.7 %."""
    stored = [f"p{i},f,{i % 2}" for i in range(12)]
    truth = exact_risk(np.array([0.0, 1.0]), 0.35) / 0.25
    assert truth == pytest.approx(0.225, abs=5e-4)
    result = sl.audit(written_with_prior(tmp_path, stored, "uniform"), full=True)
    assert result.verdict.status == "not shown"
    assert names(result) == {"few_values"}
    assert "2 values are all or nearly all that x takes in the table" in result.verdict.text
    assert "2 values" not in result.publishable().to_json()
    # Judged as what it is, it fails.
    judged = sl.audit(written_with_prior(tmp_path, stored, "two-point"), full=True)
    assert judged.verdict.status == "failed"
    assert judged.least_remaining_uncertainty is not None
    assert judged.least_remaining_uncertainty.lower == pytest.approx(truth, rel=0.02)
    assert judged.least_remaining_uncertainty.lower <= truth <= judged.least_remaining_uncertainty.upper
    assert judged.prior == "values at either end, with even chances, from 0 to 1"
    # Accepted by name, it passes and says so.
    accepted = sl.audit(written_with_prior(tmp_path, stored, "uniform", accept=("few_values",)), full=True)
    assert accepted.verdict.passed
    assert "The plan accepts: 2 values are all or nearly all that x takes" in accepted.verdict.text
    assert accepted.least_remaining_uncertainty is not None
    assert accepted.least_remaining_uncertainty.lower == pytest.approx(0.587, abs=0.002)


@pytest.mark.parametrize(
    ("values", "few"),
    [
        ([i % 2 for i in range(12)], 2),
        ([0, 1], 2),  # two rows, but whole numbers on a short range
        ([(i % 5) / 4 for i in range(40)], 5),  # often repeated
        ([i / 41 for i in range(41)], None),
        ([0.1, 0.7, 0.3], 11),  # three rows, but no chance gives them one digit
        ([0.1234, 0.7654321, 0.32109876], None),  # a small table has few values, too
        ([(i % 20) / 20 for i in range(400)], 20),
        ([(i % 21) / 21 for i in range(400)], 19),  # nine tenths of the rows take them
        ([(i % 40) / 40 for i in range(400)], None),
        ([i % 2 for i in range(380)] + [i / 41 for i in range(1, 41)], 2),  # a yes or no with a few others
        ([0.0] * 100 + [i / 301 for i in range(1, 300)], None),  # one value often, and many others
    ],
)
def test_which_numbers_take_few_values(tmp_path: Path, values: list[float], few: int | None) -> None:
    rows = [f"p{i},f,{value}" for i, value in enumerate(values)]
    result = sl.audit(written(tmp_path, rows, ("SELECT AVG(x) FROM data", 1e-4), data={"bounds": [0.0, 1.0]}))
    found = [one.count for one in result.unverified if one.name.value == "few_values"]
    assert found == ([] if few is None else [few])


@pytest.mark.parametrize(
    ("data", "prior"),
    [
        ({"bounds": [0, 10]}, "values spread evenly from 0 to 10"),
        ({"kind": "boolean"}, "values that are yes or no with even chances"),
        ({"categories": ["a", "b", "c"]}, "categories with even chances"),
    ],
)
def test_what_remains_is_told_with_what_it_averages_over(data: dict[str, object], prior: str) -> None:
    plan = plan_of({"name": "count", "noise_stddev": 2.0}, data={**DATA, **data}, limits=LIMIT)
    feature = {"feature": Feature.INDICATOR, "parameter": "a"} if "categories" in data else {}
    part = partition(0, "count", statistic=Statistic.SUM, **feature)
    result = assembled(find(plan, membership_of([part], [["", "", ""]])))
    (sentence,) = [s for s in result.verdict.text.split(". ") if "uncertainty (variance" in s]
    assert sentence.startswith(f"On average over {prior}")
    assert "who knows the groups and the noise" in sentence
    assert "whatever the attack; the best attack leaves at most" in sentence
    assert result.prior == prior


def least_share(values: np.ndarray, chances: np.ndarray, table: np.ndarray, law: str) -> float:
    """What is left of the sharpest feature of independent rows behind noise of 1, by quadrature.

    ``table`` has a line for each answer and a column for each row.
    """
    worlds = np.stack([one.ravel() for one in np.meshgrid(*[values] * table.shape[1])], axis=1)
    weights = np.prod(np.meshgrid(*[chances] * table.shape[1]), axis=0).ravel()
    means = worlds @ table.T
    reach = np.linspace(means.min() - 12, means.max() + 12, 201 if len(table) == 2 else 4_001)
    points = np.stack([one.ravel() for one in np.meshgrid(*[reach] * len(table))], axis=1)
    away = np.abs(points[:, None, :] - means)
    log = -np.sum(away**2 / 2 if law == "gaussian" else away, axis=2)
    evidence = np.exp(log)
    evidence *= weights / evidence.sum(axis=0)
    total = evidence.sum(axis=1)
    mean = evidence @ worlds / np.maximum(total, 1e-300)[:, None]
    left = (worlds.T * weights) @ worlds - (mean.T * total) @ mean
    variance = chances @ values**2 - (chances @ values) ** 2
    return float(np.linalg.eigvalsh(left)[0] / variance)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_what_the_values_that_occur_keep_in_several_rows(law: str) -> None:
    """The bound that lets few values pass, against all worlds of two rows."""
    random = np.random.default_rng(8)
    close = 0
    for _ in range(12):
        values = np.sort(random.choice(9, size=3, replace=False)).astype(float)
        counts = random.integers(1, 6, size=3)
        table = random.normal(0, 0.25, (int(random.integers(1, 3)), 2))
        exact = least_share(values, counts / counts.sum(), table, law)
        signs = np.array([[1, 1], [1, -1]])  # how far the rows together move the answers over the bounds
        moved = float(np.max(np.sum((8 * table @ signs.T) ** 2, axis=0)))
        found = Occurring(low=values, high=values, counts=counts)
        kept = found.kept(moved, 8.0, rows=1 if law == "gaussian" else 2)
        assert kept <= exact + 1e-4
        close += kept > 0.3 * exact
    assert close >= 4


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_few_values_of_persons_with_several_rows_are_audited_as_the_values_that_occur(law: str) -> None:
    """Whole hours of two weeks each; the noise leaves more than the limit of what such a value tells."""

    def audited(stddev: float, limit: float) -> sl.AuditResult:
        table = pl.DataFrame(
            {
                "who": [n // 2 for n in range(80)],
                "x": [float(7 * n % 5) for n in range(80)],
                "g": [n // 2 % 4 for n in range(80)],
            }
        )
        data = {"source": table, "record": "who", "secret": "x", "bounds": [0, 4]}
        data |= {"values": "independent", "max_rows_per_record": 2}
        sql = "SELECT g, SUM(x) AS n FROM data GROUP BY g"
        release = [{"name": "sums", "sql": sql, "noise": {"law": law, "stddev": stddev}}]
        limits = {"remaining_uncertainty": limit, "accept": ["rows_apart"]}
        return sl.audit({"data": data, "release": release, "limits": limits})

    scale = {"gaussian": 1.0, "laplace": np.sqrt(0.5)}[law]
    moved = (8 / (6.0 * scale)) ** 2  # both rows by 4
    guaranteed = float(np.exp(-moved / 4))
    occurring = Occurring(low=np.arange(5.0), high=np.arange(5.0), counts=np.full(5, 16))
    kept = occurring.kept(moved, 4.0, rows=1 if law == "gaussian" else 2)
    assert guaranteed < kept
    found = audited(6.0, (guaranteed + kept) / 2)
    assert "few_values" not in names(found)
    assert found.verdict.passed
    assert "few_values" in names(audited(6.0, (1 + kept) / 2))
    assert "few_values" in names(audited(1.0, 0.5))
