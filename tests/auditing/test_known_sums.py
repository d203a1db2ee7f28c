"""Sums that follow from published numbers: which are parts of which, and which can never tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import sightline as sl
from sightline.auditing import homogeneous, noise_slack
from sightline.auditing.cell_sets import CellSets, WeightedSets
from tests.auditing.hand_made import membership_of, partition


def random_sets(generator: np.random.Generator) -> tuple[CellSets, np.ndarray]:
    """Cells and whole partitions of a small table, some of whose rows are known; and who is in each."""
    rows, partitions = int(generator.integers(4, 30)), int(generator.integers(1, 5))
    groups: list[list[str | None]] = []
    for place in range(partitions):
        fine = generator.integers(6, size=rows)
        if place and generator.random() < 0.5:  # a coarser version of the one before
            fine = np.array([int(one or 0) // 2 for one in groups[-1]])
        out = generator.random(rows) < generator.choice([0.0, 0.2])
        groups.append([None if gone else str(one) for one, gone in zip(fine, out, strict=True)])
    known = np.flatnonzero(generator.random(rows) < generator.choice([0.0, 0.3]))
    membership = membership_of([partition(p) for p in range(partitions)], groups, known=known.tolist())
    cells = np.arange(len(membership.cells))
    owner = np.array([cell.partition for cell in membership.cells], dtype=np.intp)
    sets = CellSets(membership=membership, partition=owner, cell=cells - membership.starts[owner])
    sets = sets.with_whole(np.unique(owner))
    members = np.zeros((len(sets), len(membership.signatures)), dtype=np.bool_)
    unknown = membership.counts > membership.known
    for place in range(len(sets)):
        number = membership.signatures[:, sets.partition[place]]
        members[place] = unknown & (number == sets.cell[place] if sets.cell[place] >= 0 else number >= 0)
    kept = np.flatnonzero(members.any(axis=1))
    return sets.take(kept), members[kept]


def test_nested_sets_are_those_that_a_comparison_of_all_finds() -> None:
    generator, found, partial = np.random.default_rng(2), 0, 0
    for _ in range(150):
        sets, members = random_sets(generator)
        unknown = (sets.membership.counts - sets.membership.known).astype(np.float64)
        column = generator.integers(2, size=5)[sets.partition]
        expected = {
            (large, small)
            for large in range(len(members))
            for small in range(len(members))
            if large != small
            and column[large] == column[small]
            and not (members[small] & ~members[large]).any()
        }
        large, small = sets.nested(members @ unknown, column)
        pairs = list(zip(large.tolist(), small.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))
        assert set(pairs) == expected
        found += len(expected)
        partial += sum(members[one].sum() > members[other].sum() for one, other in pairs)
    assert found > partial > 500


def test_sums_over_sets_are_those_over_their_signatures() -> None:
    generator = np.random.default_rng(3)
    for _ in range(50):
        sets, members = random_sets(generator)
        values = generator.integers(-9, 9, size=(members.shape[1], 2)).astype(np.float64)
        assert np.array_equal(sets.totals(values), members @ values)
        assert np.array_equal(
            WeightedSets(weights=sparse.csr_array(members * 1.0)).totals(values), members @ values
        )
        for place in range(len(sets)):
            assert np.array_equal(sets.signatures(place), np.flatnonzero(members[place]))


def test_no_set_lies_within_another() -> None:
    membership = membership_of([partition()], [["a", "b", "c", "c"]])
    sets = CellSets(membership=membership, partition=np.zeros(3, np.intp), cell=np.arange(3))
    for some in (sets, sets.take(np.zeros(0, np.intp))):
        large, small = some.nested(np.array([1.0, 1.0, 2.0]), np.zeros(3, np.intp))
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
    real = noise_slack.lowest

    def lowest(findings: object, factor: float) -> float:
        asked.append(factor)
        return real(findings, factor)  # type: ignore[arg-type]

    monkeypatch.setattr(noise_slack, "lowest", lowest)
    slack = sl.audit(plan).slack
    assert slack is not None
    assert slack.noise_factor is not None
    assert slack.noise_factor <= 1e-5
    assert len(asked) <= 3
    assert noise_slack.rounded(min(asked), up=True) == slack.noise_factor
