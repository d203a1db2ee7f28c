"""What the attacker knows: each rung by hand, or against a plan that says the same in another way."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import sightline as sl
from sightline.auditing.secret_prior import SecretPrior
from sightline.errors import InvalidPlan
from sightline.jobs.audit import check
from sightline.report.beliefs import expected
from sightline.tables.subject import SecretKind

TOWNS = {"name": "towns", "sql": "SELECT town, SUM(hours) FROM data GROUP BY town"}


def write(folder: Path, *, people: int = 20, towns: int = 3, digits: int = 6) -> str:
    path = folder / "people.csv"
    hours = np.random.default_rng(5).uniform(0, 10, people).round(digits)
    rows = [f"P{i},t{i % towns},{value:.{digits}f}" for i, value in enumerate(hours)]
    path.write_text("\n".join(["id,town,hours", *rows]) + "\n")
    return str(path)


def plan_of(
    table: str, *, noise: float | None = 3.0, accept: tuple[str, ...] = (), **sections: Any
) -> dict[str, Any]:
    release = {**TOWNS, **({} if noise is None else {"noise_stddev": noise}), **sections.pop("release", {})}
    return {
        "data": {"source": table, "record": "id", "secret": "hours", "bounds": [0, 10]},
        "release": [release],
        "limits": {"remaining_uncertainty": 0.5, "accept": list(accept)},
        **sections,
    }


# ------------------------------------------------------------------ values known to ± t


def mean_posterior_variance(half_width: float, noise: float) -> float:
    """E Var(u | u + noise) for u uniform on ± half_width, by quadrature."""

    def moments(y: float) -> tuple[float, float]:
        a, b = (y + half_width) / noise, (y - half_width) / noise
        mass = norm.cdf(a) - norm.cdf(b)
        if mass < 1e-300:
            return 0.0, 0.0
        ratio = (norm.pdf(b) - norm.pdf(a)) / mass
        inner = (b * norm.pdf(b) - a * norm.pdf(a)) / mass
        return mass / (2 * half_width), noise**2 * (1 + inner - ratio**2)

    reach = half_width + 8 * noise
    return quad(lambda y: math.prod(moments(y)), -reach, reach, epsabs=1e-12)[0]


@pytest.mark.parametrize("within", [0.5, 2.0, 5.0])
def test_one_value_known_to_within_t(tmp_path: Path, within: float) -> None:
    """Everyone is alone in a town: what remains is the risk about a value from c − t to c + t."""
    table = write(tmp_path, towns=20)
    plan = plan_of(table, noise=1.0, attacker={"values_within": within})
    found = sl.audit(plan, limit=0.999)
    share = mean_posterior_variance(within, 1.0) / (within**2 / 3)
    least = found.least_remaining_uncertainty
    assert least is not None
    assert least.lower <= share <= least.upper
    assert least.lower >= 0.9 * share
    assert found.exposed[0].rmse == pytest.approx(1.0)
    assert found.exposed[0].rmse_percent_of_range == pytest.approx(10.0)  # of the bounds, not of ± t
    assert f"within ± {within:g} of what the attacker knows" in found.verdict.text


def test_it_is_the_audit_of_the_distances_with_the_noise_of_the_values(tmp_path: Path) -> None:
    """Bounds of −2 to 2 and the same noise keep the same share, but sensitivities are those of 0 to 10."""
    table = write(tmp_path)
    within = sl.audit(plan_of(table, attacker={"values_within": 2.0}))
    distances = tmp_path / "distances.csv"
    rows = [f"P{i},t{i % 3},{(-1) ** i * (i % 7) / 3.5 + i / 1000}" for i in range(20)]
    distances.write_text("\n".join(["id,town,hours", *rows]) + "\n")
    data = {"source": str(distances), "record": "id", "secret": "hours", "bounds": [-2, 2.1]}
    as_distance = sl.audit(plan_of(table) | {"data": data | {"bounds": [-2, 2]}})
    assert within.least_remaining_uncertainty == as_distance.least_remaining_uncertainty
    assert within.budget.spent["gaussian-dp"] > as_distance.budget.spent["gaussian-dp"]
    plain = sl.audit(plan_of(table))
    assert within.budget.spent == plain.budget.spent


def test_values_that_hardly_differ_are_not_few(tmp_path: Path) -> None:
    """A gap of the least double is no reason to overflow."""
    table = tmp_path / "people.csv"
    table.write_text("id,town,hours\na,t0,0.0\nb,t0,5e-324\nc,t0,3.0\n")
    found = sl.audit(plan_of(str(table), attacker={"values_within": 1.0}))
    assert "few_values" not in [one.name for one in found.unverified]


def test_the_noise_alone_leaves_what_it_leaves_of_the_interval() -> None:
    """Noise of 1 on a value known to ± 2: at least what quadrature says, less the bound's slack."""
    prior = SecretPrior(kind=SecretKind.NUMBER, bounds=(0.0, 10.0), within=2.0)
    kept = prior.kept(information=1.0, law=sl.privacy.accountant.Law.GAUSSIAN)
    truth = mean_posterior_variance(2.0, 1.0) / (4 / 3)
    assert 0.9 * truth <= kept <= truth
    assert expected(prior.fact) == "values spread evenly within ± 2 of what the attacker knows"


def test_a_pass_must_accept_that_homogeneous_groups_are_not_found(tmp_path: Path) -> None:
    table = write(tmp_path)
    attacker = {"values_within": 2.0}
    not_shown = sl.audit(plan_of(table, attacker=attacker))
    assert not_shown.verdict.status == "not shown"
    assert "such numbers cannot be compared with it (homogeneous)" in not_shown.verdict.text
    assert sl.audit(plan_of(table, attacker=attacker, accept=("homogeneous",))).verdict.status == "passed"


def test_whole_numbers_known_to_within_two_are_few_values(tmp_path: Path) -> None:
    """Five whole numbers are within ± 2: attackers can round, whatever the noise leaves of an even spread."""
    path = tmp_path / "people.csv"
    rows = [f"P{i},t{i % 3},{(37 * i) % 1000}" for i in range(90)]
    path.write_text("\n".join(["id,town,hours", *rows]) + "\n")
    plan = plan_of(str(path), accept=("homogeneous",), attacker={"values_within": 2.0})
    plan["data"]["bounds"] = [0, 1000]
    found = sl.audit(plan)
    assert found.verdict.status == "not shown"
    assert [one.name for one in found.unverified if not one.accepted] == ["few_values"]
    assert "5 values are all that fit into ± 2" in found.verdict.text
    plan["attacker"] = {"values_within": 50.0}
    assert sl.audit(plan).verdict.status == "passed"


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"attacker": {"values_within": 6.0}}, "at most half the width of its bounds, got 6.0"),
        (
            {"attacker": {"values_within": 1.0}, "release": {"sql": "SELECT AVG(hours * hours) FROM data"}},
            "values_within beside means, sums and counts",
        ),
        ({"attacker": {"knows_sizes": False}}, "the audit is for attackers who know the sizes"),
    ],
)
def test_knowledge_that_does_not_fit_the_plan_is_refused(
    tmp_path: Path, sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidPlan, match=message):
        check(plan_of(write(tmp_path), **sections))


# ------------------------------------------------------------------ a share of the records


def test_a_drawn_share_is_a_list_of_known_records(tmp_path: Path) -> None:
    table = write(tmp_path)
    drawn = [
        f"P{i}" for i in range(20) if int(hashlib.md5(f"P{i}".encode()).hexdigest()[:8], 16) < 0.4 * 16**8
    ]
    assert 3 < len(drawn) < 15
    listed = ", ".join(f"'{key}'" for key in drawn)
    by_list = sl.audit(plan_of(table, attacker={"knows": [f"id IN ({listed})"]}))
    by_share = sl.audit(plan_of(table, attacker={"knows": ["40%"]}))
    assert by_share.known_rows == len(drawn)
    assert by_share.least_remaining_uncertainty == by_list.least_remaining_uncertainty
    assert by_share.distribution == by_list.distribution


def test_a_pass_by_a_draw_must_be_accepted(tmp_path: Path) -> None:
    """Noise that hides people in groups of seven, and not from somebody who knows all others."""
    table = write(tmp_path)
    found = sl.audit(plan_of(table, noise=2.0, attacker={"knows": ["20%"]}))
    assert found.guaranteed_by_noise is not None
    assert found.guaranteed_by_noise < 0.5
    assert found.verdict.status == "not shown"
    assert "20 of 100 records are known to the attacker, drawn by their keys" in found.verdict.text
    accepted = sl.audit(plan_of(table, noise=2.0, accept=("drawn",), attacker={"knows": ["20%"]}))
    assert accepted.verdict.status == "passed"


def test_noise_that_suffices_whoever_is_known_needs_no_draw(tmp_path: Path) -> None:
    found = sl.audit(plan_of(write(tmp_path), noise=9.0, attacker={"knows": ["20%"]}))
    assert found.guaranteed_by_noise is not None
    assert found.guaranteed_by_noise >= 0.5
    assert found.verdict.status == "passed"


@pytest.mark.parametrize("number", ["SUM(hours)", "SUM(hours * hours)"])
def test_who_knows_everyone_learns_nothing(tmp_path: Path, number: str) -> None:
    release = {"sql": f"SELECT town, {number} FROM data GROUP BY town"}
    found = sl.audit(
        plan_of(write(tmp_path), release=release, attacker={"knows": ["town >= 't0'"]}), full=True
    )
    assert found.known_rows == found.rows == 20
    assert (found.rank, found.exposed, found.timeline, found.sharpest) == (0, (), (), None)
    assert (sum(found.distribution.records), found.verdict.judged, found.verdict.status) == (0, 0, "passed")
    assert ("not linear" in found.releases[0].note) == ("*" in number)
    assert sl.AuditResult.from_json(found.to_json()) == found
