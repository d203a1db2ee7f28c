"""What figures are drawn from: timeline, what noise guarantees, accountants; each computed twice."""

from __future__ import annotations

import math
import tomllib

import numpy as np
import pytest

from sightline.auditing import releases, unit_findings
from sightline.auditing.findings import Findings, find
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.auditing.reading import plan_text
from sightline.auditing.result import AuditResult, LocalReport, Verdict
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of

EVERYONE = ["all"] * 6
WITHOUT_ONE = [None, *["all"] * 5]
FEEDERS = ["a", "a", "a", "b", "b", "b"]


def examined(**changes: object) -> Findings:
    plan = plan_of({"name": "all"}, {"name": "without"}, {"name": "feeders"}, **changes)
    parts = [partition(query, name) for query, name in enumerate(["all", "without", "feeders"])]
    return find(plan, membership_of(parts, [EVERYONE, WITHOUT_ONE, FEEDERS]))


def result_of(**changes: object) -> AuditResult:
    return assembled(examined(**changes))


class TestTimeline:
    def test_every_stage_is_the_audit_of_the_releases_so_far(self) -> None:
        noise = {"noise_stddev": 0.5}
        names = ["all", "without", "feeders"]
        groups = [EVERYONE, WITHOUT_ONE, FEEDERS]
        whole = plan_of(*({"name": name, **noise} for name in names))
        parts = [partition(query, name) for query, name in enumerate(names)]
        stages = assembled(find(whole, membership_of(parts, groups))).timeline
        for count, stage in enumerate(stages, start=1):
            plan = plan_of(*({"name": name, **noise} for name in names[:count]))
            alone = assembled(find(plan, membership_of(parts[:count], groups[:count])))
            least = alone.least_remaining_uncertainty
            assert least is not None
            assert stage.least_remaining_uncertainty is not None
            assert stage.identifiable_records == alone.identifiable_records
            assert stage.least_remaining_uncertainty.lower == pytest.approx(least.lower, rel=1e-9)
            assert stage.least_remaining_uncertainty.upper == pytest.approx(least.upper, rel=1e-9)

    def test_it_says_who_was_opened_when(self) -> None:
        stages = result_of().timeline
        assert [stage.newly_identifiable for stage in stages] == [0, 1, 0]
        assert [stage.published for stage in stages] == [1, 2, 3]
        (signature,) = stages[1].opened
        assert examined().membership.counts[signature] == 1

    def test_the_last_stage_is_the_whole(self) -> None:
        found = result_of()
        assert found.timeline[-1].least_remaining_uncertainty == found.least_remaining_uncertainty
        assert found.timeline[-1].identifiable_records == found.identifiable_records

    def test_a_large_plan_has_a_few_stages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = result_of().timeline
        monkeypatch.setattr(unit_findings, "_MOST_ROWS", 1)
        monkeypatch.setattr(releases, "_STAGES_OF_LARGE_PLANS", 2)
        found = result_of()
        assert found.alternatives == ()
        assert [stage.published for stage in found.timeline] == [2, 3]
        for stage in found.timeline:
            same = whole[stage.published - 1]
            assert stage.identifiable_records == same.identifiable_records
            assert stage.least_remaining_uncertainty == same.least_remaining_uncertainty


class TestGuarantee:
    @pytest.mark.parametrize("accountant", ["zcdp", "laplace"])
    def test_nobody_keeps_less_than_the_noise_guarantees(self, accountant: str) -> None:
        found = result_of(privacy={"epsilon": 20.0, "delta": 1e-5, "accountant": accountant})
        assert found.guaranteed_by_noise is not None
        assert found.least_remaining_uncertainty is not None
        assert 0 < found.guaranteed_by_noise <= found.least_remaining_uncertainty.lower

    @pytest.mark.slow
    def test_the_guarantee_is_that_of_one_unknown_record_in_every_release(self) -> None:
        found = result_of()
        budget = found.budget
        assert budget.noise_multiplier is not None
        # A uniform value in Gaussian noise, by quadrature: what is left of it is its risk over its variance.
        noise = budget.noise_multiplier / math.sqrt(3)
        x = (np.arange(2000) + 0.5) / 2000
        y = np.linspace(-9 * noise, 1 + 9 * noise, 4001)
        likelihood = np.exp(-(((y[:, None] - x) / noise) ** 2) / 2) / (noise * math.sqrt(2 * math.pi)) / 2000
        mean = likelihood @ x / likelihood.sum(axis=1)
        risk = 1 / 3 - np.sum(likelihood.sum(axis=1) * mean**2) * (y[1] - y[0])
        assert found.guaranteed_by_noise == pytest.approx(12 * risk, rel=1e-3)
        assert found.guaranteed_by_noise <= 12 * risk * (1 + 1e-6)


class TestAlternatives:
    @pytest.mark.slow
    def test_each_is_the_audit_with_that_accountant(self) -> None:
        for one in result_of().alternatives:
            privacy = {"epsilon": 1.0, "delta": 1e-5, "accountant": one.accountant}
            alone = result_of(privacy=privacy)
            assert one.least_remaining_uncertainty == alone.least_remaining_uncertainty
            assert one.noise_multiplier == pytest.approx(alone.budget.noise_multiplier, rel=1e-12)
            assert one.below_limit == alone.verdict.below_limit

    @pytest.mark.slow
    def test_every_accountant_is_there(self) -> None:
        assert {one.accountant for one in result_of().alternatives} == set(result_of().budget.would_need)

    def test_without_a_budget_there_are_none(self) -> None:
        plan = plan_of({"name": "all", "noise_stddev": 1.0}, privacy={})
        membership = membership_of([partition()], [EVERYONE])
        assert assembled(find(plan, membership)).alternatives == ()


class TestPlanText:
    def test_read_back_it_is_the_same_plan(self) -> None:
        plan = Plan.model_validate(
            {
                "data": {
                    "source": 'odd "name".csv',
                    "record": "id\x7f",
                    "secret": "x",
                    "categories": ["a", "ب", "</script>"],
                    "tables": {"other table": "o.csv"},
                },
                "privacy": {"epsilon": 1e-7, "delta": 1e-12},
                "release": [{"name": "line\nbreak", "sql": "SELECT 'it''s'", "times": 3}],
                "attacker": {"knows": ["id = 'x'"]},
                "limits": {"remaining_uncertainty": 0.5},
            }
        )
        assert Plan.model_validate(tomllib.loads(plan_text(plan))) == plan

    def test_it_keeps_no_password(self) -> None:
        plan = plan_of({"name": "a"}, data={
            "source": "postgresql://ann:hush@db/grid?table=homes", "record": "id", "secret": "x",
            "bounds": [0, 1], "tables": {"t": "postgresql://bob:quiet@db/grid"},
        })  # fmt: skip
        assert "hush" not in plan_text(plan)
        assert "quiet" not in plan_text(plan)


class TestPublishable:
    def test_it_has_neither_keys_nor_what_depends_on_secrets(self) -> None:
        public = Verdict(passed=None, limit=None, below_limit=0, text="public")
        local = LocalReport(
            rows=6, identifiable=2, undecided=0, sharpest_rmse=0.1, fixed_group=False, group_rmse=None,
            below_limit=1,
        )  # fmt: skip
        data = {"source": "people/t.csv", "record": "id", "secret": "x", "bounds": [0, 10]}
        found = result_of(data=data, attacker={"knows": ["id = 'Bob'"]})
        named = tuple(one.model_copy(update={"record": "Ann"}) for one in found.exposed)
        near = named[0].model_copy(update={"local": True})
        owner = found.model_copy(
            update={
                "exposed": (*named, near),
                "exposed_in_all": found.exposed_in_all + 2,
                "local": local,
                "publishable_verdict": public,
                "owner_only": ("dropped", "clipped", "local", "exposed: local"),
            }
        )
        published = owner.publishable()
        assert "Ann" not in published.to_json()
        assert published.dropped is published.clipped is published.local is None
        assert len(published.exposed) == len(named)
        assert published.exposed_in_all == found.exposed_in_all
        assert published.verdict == public
        assert (owner.source, published.source) == ("people/t.csv", "t.csv")
        assert "people" in owner.plan
        assert "people" not in published.plan
        assert "knows" in owner.plan
        assert "knows" not in published.plan
        assert AuditResult.from_json(published.to_json()) == published
        assert published.publishable() == published


def test_prices_are_the_ones_that_are_drawn() -> None:
    seen = examined()
    assert np.array_equal(price(seen.plan, seen.membership).scale, seen.pricing.scale)
