"""Noise by number from a CSV file beside the plan: read, compared with GROUP BY, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing import release_noise
from sightline.auditing.reading import read_plan
from sightline.errors import InvalidPlan

TABLE = "id,home,work,x\n" + "".join(
    f"p{i},{'ab'[i % 2]},{'ab'[i // 2 % 2]},{(7 * i) % 11}.5\n" for i in range(24)
)
QUERY = "SELECT home, work, SUM(x) FROM data GROUP BY home, work"
GOOD = "home,work,stddev\n" + "".join(f"{h},{w},{20 if h == 'a' else 30}\n" for h in "ab" for w in "ab")


def plan_in(folder: Path, noise: str, *, sql: str = QUERY, form: dict[str, Any] | None = None) -> Path:
    (folder / "t.csv").write_text(TABLE)
    (folder / "noise.csv").write_text(noise)
    extra = "".join(f', {name} = "{value}"' for name, value in (form or {}).items())
    (folder / "plan.toml").write_text(
        '[data]\nsource = "t.csv"\nrecord = "id"\nsecret = "x"\nbounds = [0, 12]\n'
        f'[[release]]\nname = "a"\nsql = "{sql}"\nnoise = {{ by_cell = "noise.csv"{extra} }}\n'
        '[limits]\nremaining_uncertainty = 0.5\naccept = ["few_values"]\n'
    )
    return folder / "plan.toml"


def test_each_number_has_the_noise_of_its_line(tmp_path: Path) -> None:
    result = sl.audit(plan_in(tmp_path, GOOD))
    assert result.verdict.passed
    (release,) = result.releases
    assert (release.smallest_noise_stddev, release.largest_noise_stddev) == (20.0, 30.0)
    laplace = sl.audit(plan_in(tmp_path, GOOD, form={"law": "laplace"}))
    assert laplace.budget.spent["laplace"] == pytest.approx(12 / (20 / 2**0.5))
    assert set(laplace.budget.spent) == {"laplace", "optimal"}
    assert '["a", "b", 20.0]' in result.plan  # what was read is part of the plan from then on
    assert "by_cell" not in (result.publishable_plan or "")


def test_one_line_with_little_noise_fails(tmp_path: Path) -> None:
    alone = TABLE + "q,c,c,3.5\n"
    path = plan_in(tmp_path, GOOD + "c,c,0.1\n")
    (tmp_path / "t.csv").write_text(alone)
    result = sl.audit(path)
    assert result.verdict.passed is False
    assert result.verdict.below_limit == 1


def test_labels_tell_aggregates_apart(tmp_path: Path) -> None:
    lines = "label,home,stddev\n" + "".join(
        f"{label},{home},{stddev}\n" for label, stddev in (("total", 20), ("mean", 3)) for home in "ab"
    )
    sql = "SELECT home, SUM(x) AS total, AVG(x) AS mean FROM data GROUP BY home"
    (release,) = sl.audit(plan_in(tmp_path, lines, sql=sql)).releases
    assert (release.smallest_noise_stddev, release.largest_noise_stddev) == (3.0, 20.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD.replace("a,a,20\n", ""),
            "noise by_cell for every published number, got none for the group 'a, a'",
        ),
        (
            GOOD + "a,a,21\n",
            "each published number once in release 'a': noise file 'noise.csv', got one twice",
        ),
        (GOOD + "z,a,21\n", "noise by_cell for numbers that it publishes, got the number 'z, a'"),
        (
            GOOD.replace("home,work,", "work,home,"),
            "the columns of GROUP BY, in its order: home, work, got work, home",
        ),
        (GOOD.replace("home,work,", "home,town,"), "in its order: home, work, got home, town"),
        (GOOD.replace("stddev", "sigma"), "one of them stddev, got 3 columns without stddev"),
        (GOOD.replace("home,work", "home,home"), "a header with names of their own"),
        ("", "a header with names of their own, one of them stddev, got 0 columns"),
        ("home,work,stddev\n", "a line for each published number, got none"),
        (GOOD + "a\n", "3 values in line 6, got 1"),
        (
            GOOD.replace("20", "0"),
            "line 2: a stddev between 1e-50 and 1e[+]50, got 0; a number that is published",
        ),
        (GOOD.replace("20", "nan"), "line 2: a stddev between 1e-50 and 1e[+]50, got another value"),
        (GOOD.replace("20", "=HYPERLINK"), "got another value"),
    ],
)
def test_a_file_that_is_not_the_noise_of_the_release_is_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidPlan, match=message):
        sl.audit(plan_in(tmp_path, text))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plan_in(tmp_path, GOOD)
    (tmp_path / "noise.csv").write_bytes(b"home,work,stddev\n\xff,b,1\n")
    with pytest.raises(InvalidPlan, match="a CSV file in UTF-8, got other bytes"):
        read_plan(path)
    monkeypatch.setattr(release_noise, "_LARGEST_FILE", 10)
    with pytest.raises(InvalidPlan, match=r"noise file 'noise\.csv': a CSV file of at most 10 bytes, got"):
        read_plan(path)
    (tmp_path / "noise.csv").unlink()
    with pytest.raises(InvalidPlan, match=r"noise file 'noise\.csv': a CSV file, got .*: no such file"):
        read_plan(path)
    (tmp_path / "noise.csv").mkdir()
    with pytest.raises(InvalidPlan, match=r"noise file 'noise\.csv': a CSV file, got .*: is a directory"):
        read_plan(path)


def test_a_broken_quote_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan, match="a CSV file, got a file that is no CSV"):
        read_plan(plan_in(tmp_path, 'home,work,stddev\n"a"b,a,1\n'))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("https://example.org/noise.csv", "a CSV file, got an address; download it first"),
        ("a\nb.csv", "a data source on one line"),
        ("x" * 5000, "a data source of at most 4,096 characters"),
    ],
)
def test_the_path_is_one_to_a_file(file: str, message: str) -> None:
    plan = {
        "data": {"source": "t.csv", "record": "id", "secret": "x", "bounds": [0, 12]},
        "release": [{"name": "a", "sql": QUERY, "noise": {"by_cell": file}}],
    }
    with pytest.raises(InvalidPlan, match=message):
        read_plan(plan)


def test_an_expression_of_group_by_may_have_any_name(tmp_path: Path) -> None:
    sql = "SELECT UPPER(home), SUM(x) FROM data GROUP BY UPPER(home)"
    lines = "letter,stddev\nA,20\nB,20\n"
    assert sl.audit(plan_in(tmp_path, lines, sql=sql)).verdict.passed
