"""The result survives JSON unchanged, and a newer one is refused."""

from __future__ import annotations

import json

import pytest

from sightline.auditing.findings import find
from sightline.auditing.result import SCHEMA_VERSION, AuditResult, Uncertainty
from sightline.errors import InvalidInput
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of


@pytest.fixture
def result() -> AuditResult:
    plan = plan_of({"name": "all"}, {"name": "but one"}, limits={"remaining_uncertainty": 0.5})
    parts = [partition(0, "all"), partition(1, "but one")]
    return assembled(find(plan, membership_of(parts, [[""] * 4, [None, "", "", ""]])))


def test_there_and_back(result: AuditResult) -> None:
    assert AuditResult.from_json(result.to_json()) == result
    assert AuditResult.from_json(result.to_json(indent=None).encode()) == result


def test_the_promised_keys_are_there(result: AuditResult) -> None:
    content = json.loads(result.to_json())
    promised = {
        *("records", "cells", "signatures", "rank", "identifiable_records", "exposed", "releases"),
        *("verdict", "schema_version", "budget", "what_to_change", "assumptions", "owner_only"),
    }
    assert promised <= set(content)
    assert {"rmse", "remaining_uncertainty", "recipe", "rmse_percent_of_range"} <= set(content["exposed"][0])
    left = content["exposed"][0]["remaining_uncertainty"]
    assert set(left) == {"lower", "upper", "stddev_lower", "stddev_upper"}
    assert left["stddev_lower"] ** 2 == pytest.approx(left["lower"], rel=1e-12)
    assert left["stddev_upper"] ** 2 == pytest.approx(left["upper"], rel=1e-12)
    assert {"release", "cell", "weight"} <= set(content["exposed"][0]["recipe"]["steps"][0])
    assert content["exposed"][0]["record"] is None


def test_a_file_cannot_contradict_itself_about_the_standard_deviation(result: AuditResult) -> None:
    content = json.loads(result.to_json())
    content["least_remaining_uncertainty"]["stddev_lower"] = 0.123
    assert AuditResult.from_json(json.dumps(content)) == result


def test_the_same_plan_gives_the_same_bytes(result: AuditResult) -> None:
    plan = plan_of({"name": "all"}, {"name": "but one"}, limits={"remaining_uncertainty": 0.5})
    parts = [partition(0, "all"), partition(1, "but one")]
    again = assembled(find(plan, membership_of(parts, [[""] * 4, [None, "", "", ""]])))
    assert again.to_json() == result.to_json()


def test_a_newer_result_is_refused(result: AuditResult) -> None:
    content = json.loads(result.to_json())
    newer = json.dumps({**content, "schema_version": SCHEMA_VERSION + 1})
    with pytest.raises(InvalidInput, match="an audit result of version 2, got 3; read it with"):
        AuditResult.from_json(newer)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "an audit result in JSON, got something else"),
        ("[" * 100_000, "an audit result in JSON, got something else"),
        ("[]", "an audit result in JSON, got list"),
        ("{}", "an audit result of version 2, got None"),
        ('{"schema_version": 2}', "expected an audit result, got source: Field required"),
    ],
)
def test_what_is_no_result(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        AuditResult.from_json(text)


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [(0.5361, 0.5699, "53–57 %"), (0.5, 0.5, "50 %"), (0.0, 1.0, "0–100 %"), (0.999, 0.9999, "99–100 %")],
)
def test_a_bracket_is_rounded_outwards(lower: float, upper: float, text: str) -> None:
    assert str(Uncertainty(lower=lower, upper=upper)) == text
