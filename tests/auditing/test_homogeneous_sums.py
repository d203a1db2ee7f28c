"""Groups of one value that no single number shows, but a difference, an average or a sum of numbers does."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.auditing import homogeneous
from sightline.auditing.result import VerdictStatus


def audited(
    folder: Path,
    secrets: list[str],
    *releases: tuple[str, float],
    data: dict[str, object] | None = None,
    limit: float = 0.5,
) -> sl.AuditResult:
    """The rows have the columns id, g and x; person i is in group g = i % 40.

    Groups are asked about where the noise alone does not keep the limit.
    """
    lines = [f"{i},{i % 40},{x}" for i, x in enumerate(secrets)]
    (folder / "t.csv").write_text("id,g,x\n" + "\n".join(lines) + "\n")
    described = {"kind": "boolean"} if data is None else data
    return sl.audit(
        {
            "data": {"source": f"{folder}/t.csv", "record": "id", "secret": "x", **described},
            "release": [
                {"name": f"r{i}", "sql": sql, "noise_stddev": noise}
                for i, (sql, noise) in enumerate(releases)
            ],
            "limits": {"remaining_uncertainty": limit},
        }
    )


def posterior_by_worlds(sizes: list[int], answers: list[tuple[list[int], float, float]]) -> list[float]:
    """For groups of yes-or-no people, everyone's share left by the posterior, over all numbers of yeses.

    An answer is about some groups: their places, the true count and the noise. Everyone is a fair coin, or
    all numbers of yeses in a group are equally likely: the smaller share counts.
    """
    found = []
    for even in (False, True):
        weights, means = 0.0, np.zeros(len(sizes))
        for world in itertools.product(*(range(n + 1) for n in sizes)):
            weight = 1.0 if even else math.prod(math.comb(n, k) for n, k in zip(sizes, world, strict=True))
            for places, total, noise in answers:
                weight *= norm.pdf(sum(world[place] for place in places), total, noise)
            weights += weight
            means += weight * np.array(world) / np.array(sizes)
        share = means / weights
        found.append(4 * share * (1 - share))
    return np.minimum(*found).tolist()


@pytest.mark.slow
def test_the_others_of_a_total_are_seen_through_a_difference(tmp_path: Path) -> None:
    """Forty times no beside forty times yes: neither total is at an end, and their difference is."""
    secrets = ["false"] * 40 + ["true"] * 40
    result = audited(
        tmp_path,
        secrets,
        ("SELECT COUNT(*) FILTER (WHERE x) FROM data", 1.5),
        ("SELECT COUNT(*) FILTER (WHERE x) FROM data WHERE id >= 20", 1.5),
        limit=0.85,
    )
    # 80 people with 40 yeses and 60 with 40: each by itself leaves most.
    truth = posterior_by_worlds([20, 60], [([0, 1], 40, 1.5), ([1], 40, 1.5)])
    assert truth[0] < 0.85 < truth[1]
    alone = [posterior_by_worlds([80], [([0], 40, 1.5)]), posterior_by_worlds([60], [([0], 40, 1.5)])]
    assert min(alone[0] + alone[1]) > 0.85
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert [one.name.value for one in result.unverified] == ["homogeneous"]
    assert result.homogeneous is not None
    (told,) = result.homogeneous
    assert told.rows == 20
    assert told.text.startswith('"r0" less "r1" tells the values of 20 rows')
    assert told.remaining == pytest.approx(truth[0], rel=0.2)  # the enumeration also uses the second number
    mixed = ["true" if i % 2 else "false" for i in range(80)]
    again = audited(
        tmp_path,
        mixed,
        ("SELECT COUNT(*) FILTER (WHERE x) FROM data", 1.5),
        ("SELECT COUNT(*) FILTER (WHERE x) FROM data WHERE id >= 20", 1.5),
        limit=0.85,
    )
    assert again.verdict.status is VerdictStatus.PASSED


@pytest.mark.slow
def test_forty_values_at_a_bound_are_seen_through_a_difference(tmp_path: Path) -> None:
    """A total, and the total of all but forty, whose values are 0: their sum is the difference."""
    rng = np.random.default_rng(2)
    others = [f"{value:.3f}" for value in rng.uniform(0, 10, 400)]
    releases = (
        ("SELECT SUM(x) FROM data", 3.0),
        ("SELECT SUM(x) FROM data WHERE id >= 40", 3.0),
    )
    result = audited(tmp_path, ["0.0"] * 40 + others, *releases, data={"bounds": [0, 10]})
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert result.homogeneous is not None
    (told,) = result.homogeneous
    # Every sum of the forty is equally likely before, and 0 is seen: half a normal law. Each is at most 10.
    mean = math.hypot(3, 3) * math.sqrt(2 / math.pi) / 40
    assert told.rows == 40
    assert told.remaining == pytest.approx(mean * (10 - mean) / (100 / 12), rel=1e-9)
    spread = [f"{value:.3f}" for value in rng.uniform(0, 10, 40)]
    assert audited(tmp_path, spread + others, *releases, data={"bounds": [0, 10]}).verdict.passed


@pytest.mark.slow
def test_where_many_numbers_tell_alone_the_verdict_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Combinations are not looked for there: what numbers tell alone is not shown to hold already."""
    others = [f"{value:.3f}" for value in np.random.default_rng(2).uniform(0, 10, 400)]
    releases = (
        ("SELECT SUM(x) FROM data", 3.0),
        ("SELECT SUM(x) FROM data WHERE id >= 40", 3.0),
        ("SELECT SUM(x) FROM data WHERE id < 10", 3.0),
    )
    every = audited(tmp_path, ["0.0"] * 40 + others, *releases, data={"bounds": [0, 10]})
    monkeypatch.setattr(homogeneous, "MOST_LISTED", 0)
    fewer = audited(tmp_path, ["0.0"] * 40 + others, *releases, data={"bounds": [0, 10]})
    assert every.verdict.status is fewer.verdict.status is VerdictStatus.NOT_SHOWN
    assert every.homogeneous is not None
    assert fewer.homogeneous is not None
    assert [one.release for one in fewer.homogeneous] == ["r2"]
    assert len(every.homogeneous) > 1
    assert fewer.homogeneous[0] in every.homogeneous


@pytest.mark.slow
def test_the_same_rows_again_and_again(tmp_path: Path) -> None:
    """196 counts of the same rows with noise 21 are one count with noise 1.5."""
    counts = [("SELECT COUNT(*) FILTER (WHERE x) FROM data", 21.0)] * 196
    result = audited(tmp_path, ["false"] * 40, *counts, limit=0.9)
    once = audited(tmp_path, ["false"] * 40, ("SELECT COUNT(*) FILTER (WHERE x) FROM data", 1.5), limit=0.9)
    assert result.verdict.status is once.verdict.status is VerdictStatus.NOT_SHOWN
    assert result.homogeneous is not None
    assert once.homogeneous is not None
    assert result.homogeneous[0].remaining == pytest.approx(once.homogeneous[0].remaining, rel=1e-9)
    assert "196 numbers together" in result.homogeneous[0].text
    single = audited(tmp_path, ["false"] * 40, counts[0], limit=0.9)
    assert single.verdict.status is VerdictStatus.PASSED


@pytest.mark.slow
def test_all_groups_of_a_release_together(tmp_path: Path) -> None:
    """Forty groups of ten, nobody of whom is ill: each could have some at noise 2.3, all of them cannot."""
    by_group = ("SELECT g, COUNT(*) FILTER (WHERE x) FROM data GROUP BY g", 2.3)
    assert posterior_by_worlds([10], [([0], 0, 2.3)])[0] > 0.5  # by itself
    result = audited(tmp_path, ["false"] * 400, by_group, limit=0.96)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert result.homogeneous is not None
    told = result.homogeneous[0]
    assert (told.rows, told.text.split(" tell ")[0]) == (400, 'all groups of "r0" together')
    mean = 2.3 * math.sqrt(40) * math.sqrt(2 / math.pi) / 400  # of half a normal law
    assert told.remaining == pytest.approx(mean * (1 - mean) / 0.25, rel=1e-9)


@pytest.mark.slow
def test_categories_and_complements(tmp_path: Path) -> None:
    """A count of one category less one of the same over fewer rows; and counts of NOT."""
    categories = ["cold", "flu", "well"]
    secrets = ["well"] * 30 + [categories[i % 3] for i in range(90)]
    releases = (
        ("SELECT COUNT(*) FILTER (WHERE x = 'flu') FROM data", 1.0),
        ("SELECT COUNT(*) FILTER (WHERE x = 'flu') FROM data WHERE id >= 30", 1.0),
    )
    result = audited(tmp_path, secrets, *releases, data={"categories": categories}, limit=0.8)
    assert [one.name.value for one in result.unverified] == ["homogeneous"]
    negated = audited(
        tmp_path,
        ["true"] * 20 + ["true", "false"] * 40,
        ("SELECT COUNT(*) FILTER (WHERE NOT x) FROM data", 1.5),
        ("SELECT COUNT(*) FILTER (WHERE x) FROM data WHERE id >= 20", 1.5),
        limit=0.85,
    )
    assert [one.name.value for one in negated.unverified] == ["homogeneous"]


@pytest.mark.parametrize(("yes", "flagged"), [(6, False), (9, False), (1, True), (0, True)])
def test_groups_are_compared_with_the_share_of_yes_that_the_plan_states(
    tmp_path: Path, yes: int, flagged: bool
) -> None:
    """Groups of 100 of whom 6 % answer yes, as expected, tell nothing of anyone; 36 % was said to be left.

    The posterior of a count, over all counts: tosses with the stated odds, or every count equally likely.
    """
    rows, noise, share = 100, 0.5, 0.06
    counts = np.arange(rows + 1)
    left = []
    for tosses in (
        1.0,
        np.array([math.comb(rows, int(k)) * share**k * (1 - share) ** (rows - k) for k in counts]),
    ):
        weights = tosses * norm.pdf(counts, yes, noise)
        mean = float(weights @ counts / weights.sum()) / rows
        left.append(mean * (1 - mean) / (share * (1 - share)))
    assert (min(left) < 0.5) == flagged
    secrets = ["true" if place < 40 * yes else "false" for place in range(40 * rows)]
    release = ("SELECT g, COUNT(*) FILTER (WHERE x) FROM data GROUP BY g", noise)
    lines = [f"{i},{i % 40},{x}" for i, x in enumerate(secrets)]
    (tmp_path / "t.csv").write_text("id,g,x\n" + "\n".join(lines) + "\n")
    result = sl.audit(
        {
            "data": {"source": f"{tmp_path}/t.csv", "record": "id", "secret": "x", "kind": "boolean"},
            "attacker": {"prior": {"yes": share}},
            "release": [{"name": "counts", "sql": release[0], "noise_stddev": noise}],
            "limits": {"remaining_uncertainty": 0.5},
        }
    )
    by_group = [one for one in result.homogeneous or () if one.rows == rows]
    assert bool(by_group) == flagged
    for one in by_group:
        assert one.remaining <= min(left) + 1e-9
