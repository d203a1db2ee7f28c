"""Sums that follow from published numbers: which are parts of which, and which can never tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import sightline as sl
from sightline.auditing import homogeneous, noise_factor
from sightline.auditing.known_sums import KnownSums, nested_pairs


def sums_over(members: np.ndarray, column: np.ndarray, unknown: np.ndarray) -> KnownSums:
    count = len(members)
    return KnownSums(
        members=sparse.csr_array(members.astype(np.float64)),
        column=column,
        rows=members @ unknown,
        deviation=np.ones(count),
        copies=np.zeros(count, dtype=np.intp),
        names=("",) * count,
        cells=np.zeros(count, dtype=np.intp),
    )


def test_nested_sums_are_those_that_a_comparison_of_all_finds() -> None:
    generator, found = np.random.default_rng(2), 0
    for _ in range(40):
        members = generator.random((9, 12)) < 0.4
        members[1] = members[0] & (generator.random(12) < 0.7)
        members[2] = members.any(axis=0)
        members = np.unique(members[members.any(axis=1)], axis=0)
        column = generator.integers(2, size=len(members))
        unknown = generator.integers(1, 4, size=12).astype(np.float64)
        expected = [
            (large, small)
            for large in range(len(members))
            for small in range(len(members))
            if column[large] == column[small]
            and not (members[small] & ~members[large]).any()
            and (members[large] & ~members[small]) @ unknown >= 2
        ]
        large, small = nested_pairs(sums_over(members, column, unknown), unknown)
        assert list(zip(large.tolist(), small.tolist(), strict=True)) == expected
        found += len(expected)
    assert found > 100


def test_no_sum_contains_another() -> None:
    members = np.eye(4, dtype=np.bool_)
    for some in (members, members[:0]):
        large, small = nested_pairs(sums_over(some, np.zeros(len(some), np.intp), np.ones(4)), np.ones(4))
        assert (large.size, small.size) == (0, 0)


def survey(folder: Path, noise: float) -> dict[str, object]:
    """A total, and the sum of a third of its 60 rows: the values of the others are at the lower end."""
    lines = [f"{i},{i % 3},{90.0 if i % 3 == 0 else 0.0}" for i in range(60)]
    (folder / "t.csv").write_text("id,g,x\n" + "\n".join(lines) + "\n")
    sql = ("SELECT SUM(x) FROM data", "SELECT SUM(x) FROM data WHERE g = 0")
    return {
        "data": {"source": f"{folder}/t.csv", "record": "id", "secret": "x", "bounds": [0, 100]},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": f"r{i}", "sql": one, "noise_stddev": noise} for i, one in enumerate(sql)],
    }


def test_what_is_left_out_could_not_have_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little noise the difference tells, and with much none: as if all sums were looked at."""
    noises = (1.0, 500.0, 5_000.0)
    found = [sl.audit(survey(tmp_path, noise)).homogeneous for noise in noises]
    monkeypatch.setattr(homogeneous, "_may_tell_together", lambda findings, published: True)
    assert found == [sl.audit(survey(tmp_path, noise)).homogeneous for noise in noises]
    assert [one.text for one in found[0] if " less " in one.text]
    assert not found[-1]


def test_the_slack_is_audited_at_the_noise_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that hide everyone hold with hardly any noise: two audits find that, not one for each step."""
    plan = survey(tmp_path, 50.0)
    plan["release"] = plan["release"][:1]  # type: ignore[index]
    asked: list[float] = []
    real = noise_factor.lowest

    def lowest(findings: object, factor: float) -> float:
        asked.append(factor)
        return real(findings, factor)  # type: ignore[arg-type]

    monkeypatch.setattr(noise_factor, "lowest", lowest)
    slack = sl.audit(plan).slack
    assert slack is not None
    assert slack.noise_factor is not None
    assert slack.noise_factor <= 1e-5
    assert len(asked) == 2
    assert noise_factor.rounded(min(asked), up=True) == slack.noise_factor
