"""No plan and no table raises anything but a `SightlineError`; `make fuzz` goes on with other seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline as sl
from sightline.errors import InvalidInput
from tests.auditing import fuzz_plans
from tests.auditing.fuzz_plans import ForeignException, run_cases
from tests.numbered_cases import trials


@pytest.mark.slow
def test_some_plans() -> None:
    most = len(trials(60))
    assert run_cases(0, go_on=lambda number: number < most).total() == most


@pytest.mark.thorough
@pytest.mark.slow
def test_some_hundred_plans() -> None:
    ended = run_cases(0, go_on=lambda number: number < 300)
    assert ended.total() == 300
    assert ended["refused"] > 100, "mistakes are found"
    assert ended["passed"] + ended["failed"] + ended["not shown"] + ended["no limit"] > 20, (
        "good plans are left"
    )
    assert sum(number for end, number in ended.items() if end.startswith("command")) > 3


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_some_hundred_more_plans(seed: int) -> None:
    assert run_cases(seed, go_on=lambda number: number < 250).total() == 250


@pytest.mark.slow
@pytest.mark.parametrize("error", [ZeroDivisionError, OverflowError, RuntimeWarning, TypeError])
def test_the_fuzzer_notices_what_is_not_ours(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error("not ours")

    monkeypatch.setattr(sl, "audit", broken)
    with pytest.raises(ForeignException, match="case 0 of seed 0"):
        run_cases(0, go_on=lambda number: number < 1)


@pytest.mark.slow
def test_the_fuzzer_notices_an_error_of_several_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def wordy(*_: object, **__: object) -> None:
        raise InvalidInput("one\ntwo")

    monkeypatch.setattr(sl, "audit", wordy)
    with pytest.raises(ForeignException):
        run_cases(0, go_on=lambda number: number < 1)


def test_it_counts_what_it_did() -> None:
    assert fuzz_plans.fuzz(3, 0.0) == {"plans": 0}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": {"bounds": [0, 1e51]}}, r"\[data\] bounds number 2: expected a number <= 1e\+50"),
        ({"data": {"bounds": [1e-60, 2e-60]}}, "expected bounds at least 1e-50 apart"),
        ({"noise_stddev": 1e155}, "noise_stddev: expected a number <= 1e"),
        ({"noise_stddev": 5e-324}, "noise_stddev: expected a number >= 1e-50"),
        (
            {"sql": "SELECT SUM(POWER(n, 60)) FROM data"},
            "expected a change of one record between 1e-100 and 1e",
        ),
    ],
    ids=["large bounds", "near bounds", "much noise", "no noise", "a high power"],
)
def test_numbers_whose_squares_are_none_are_refused(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("who,n\na,1\nb,2\nc,3\n")
    data = {"source": f"{tmp_path}/t.csv", "record": "who", "secret": "n", "bounds": [0, 1000.0]}
    release = {"name": "r", "sql": "SELECT AVG(n) FROM data", "noise_stddev": 1.0}
    more = change.pop("data", {})
    plan = {"data": {**data, **more}, "release": [{**release, **change}]}  # type: ignore[dict-item]
    with pytest.raises(sl.errors.InvalidPlan, match=words):
        sl.audit(plan)


def test_a_key_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,n\na,1\nb,2\n")
    plan = {
        "data": {"source": f"{tmp_path}/t.csv", "record": "who", "secret": "n", "bounds": [0, 9]},
        "release": [{"name": "r", "sql": "SELECT AVG(n) FROM data", "noise_stddev": 1.0}],
    }
    with pytest.raises(sl.errors.InvalidPlan, match="a key in Unicode"):
        sl.explain(plan, record="\ud800")


@pytest.mark.slow
def test_a_slope_whose_square_is_no_number_tells_nothing(tmp_path: Path) -> None:
    """Found by the fuzzer: the square of a value of 10⁻¹⁶⁰ changes by nothing, beside a noise of 10⁹⁸."""
    (tmp_path / "t.csv").write_text("who,g,x\na,1,1e-160\nb,1,1e-160\nc,2,3\nd,2,4\n")
    plan = {
        "data": {"source": f"{tmp_path}/t.csv", "record": "who", "secret": "x", "bounds": [1e-160, 1e49]},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
        "release": [
            {"name": "squares", "sql": "SELECT g, SUM(x * x) FROM data GROUP BY g"},
            {"name": "mean", "sql": "SELECT AVG(x) FROM data", "noise_stddev": 1e-9},
        ],
    }
    local = sl.audit(plan).local
    assert local is not None
    assert local.identifiable == 0
    (tmp_path / "t.csv").write_text("who,g,x\na,1,1e-150\nb,1,1e-150\nc,2,3\nd,2,4\n")
    with pytest.raises(sl.errors.InvalidPlan, match="slopes of moments and thresholds of at least 1e-100"):
        sl.audit({**plan, "release": [{**plan["release"][0], "noise_stddev": 1e-50}]})  # type: ignore[index]


def test_a_long_name_is_cut_in_a_message(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,n\na,1\nb,2\n")
    data = {"source": f"{tmp_path}/t.csv", "record": "who", "secret": "x" * 5000, "bounds": [0, 9]}
    with pytest.raises(sl.errors.InvalidPlan) as raised:
        sl.audit({"data": data, "release": [{"name": "r", "sql": "SELECT 1", "noise_stddev": 1.0}]})
    assert len(str(raised.value)) < 300
