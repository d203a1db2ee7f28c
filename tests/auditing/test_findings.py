"""The audit against the labeled engine fed by hand, and against exact fractions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.arrays import MOST_SQUARE
from sightline.auditing import findings
from sightline.auditing.findings import Keys, find
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.auditing.result import EDGES, AuditResult, VerdictStatus
from sightline.bounds.assessment import UnitExposure, assess
from sightline.bounds.coin import coin_risk
from sightline.errors import InvalidInput, InvalidPlan
from sightline.tables.membership import Feature, Membership, RowValues, Statistic
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of


def examined(plan: Plan, membership: Membership, **options: object) -> AuditResult:
    return assembled(find(plan, membership), **options)


def identifiable_by_fractions(rows: np.ndarray, unknown: list[int]) -> list[bool]:
    """Record j is identifiable iff adding its unit vector to the rows does not raise their rational rank."""

    def rank(table: np.ndarray) -> int:
        return flint.fmpz_mat([[int(x) for x in row] for row in table]).rank()

    seen = rows[:, unknown]
    before = rank(seen)
    return [rank(np.vstack([seen, np.eye(len(unknown))[j]])) == before for j in range(len(unknown))]


groups = st.lists(
    st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=7, max_size=7).filter(any),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@given(
    lines=groups,
    means=st.lists(st.booleans(), min_size=4, max_size=4),
    known=st.sets(st.integers(0, 6), max_size=3),
    times=st.integers(1, 3),
)
@settings(deadline=None)
def test_the_audit_says_what_the_labeled_engine_says_when_fed_by_hand(
    lines: list[list[str | None]], means: list[bool], known: set[int], times: int
) -> None:
    parts = [
        partition(q, f"q{q}", statistic=Statistic.MEAN if means[q] else Statistic.SUM)
        for q in range(len(lines))
    ]
    plan = plan_of(*({"name": f"q{q}", "times": times} for q in range(len(lines))))
    membership = membership_of(parts, lines, known=sorted(known))
    found = find(plan, membership)
    result = assembled(found, top=50)

    # By hand: a row of weights for every published number and every copy, noise by the accountant's formula.
    kappa = sl.GaussianDP(sl.Budget(epsilon=1.0, delta=1e-5)).kappa(times * len(lines))
    rows, noise = [], []
    for cell in membership.cells:
        member = np.array([group == (cell.key[0] if cell.key else "") for group in lines[cell.partition]])
        size = cell.rows if means[cell.partition] else 1
        for _ in range(times):
            rows.append(member / size)
            noise.append(math.sqrt(kappa) * 10 / size)
    by_hand = sl.MembershipDesign(np.array(rows), noise=noise, readout="sum").exposures(
        domain=(0, 10), known=sorted(known)
    )
    unknown = [row for row in range(7) if row not in known]
    exact = identifiable_by_fractions(np.array(rows) > 0, unknown)
    assert result.identifiable_records == sum(exact)
    linear, ours = found.linear.linear, found.linear.exposure
    signature_of_row = {
        row: next(
            k
            for k, signature in enumerate(membership.signatures)
            if all(
                (signature[p] >= 0) == (line[row] is not None)
                and (line[row] is None or membership.cells[membership.positions(p)[k]].key == ((line[row],)))
                for p, line in enumerate(lines)
            )
        )
        for row in unknown
    }
    for row, is_identifiable in zip(unknown, exact, strict=True):
        column = linear.unit_of_record[signature_of_row[row]]
        assert bool(found.linear.identifiable[column]) == is_identifiable
        if is_identifiable:
            assert ours.rmse[column, 0] == pytest.approx(by_hand.rmse[row], rel=1e-8)
        assert ours.lower[column, 0] == pytest.approx(by_hand.remaining_lower[row], rel=1e-7)
        assert ours.upper[column, 0] == pytest.approx(by_hand.remaining_upper[row], rel=1e-7)
    assert result.known_rows == len(known)
    assert sum(result.distribution.records) == len(unknown)


@pytest.mark.slow
@given(lines=groups, seed=st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_every_recipe_gives_the_value_from_exact_answers(lines: list[list[str | None]], seed: int) -> None:
    parts = [partition(q, f"q{q}") for q in range(len(lines))]
    plan = plan_of(*({"name": f"q{q}"} for q in range(len(lines))))
    membership = membership_of(parts, lines)
    values = np.random.default_rng(seed).uniform(0, 10, 7)
    answers = {}
    for cell in membership.cells:
        inside = [v for v, g in zip(values, lines[cell.partition], strict=True) if g == cell.key[0]]
        answers[f"q{cell.partition}", cell.key[0]] = np.mean(inside)
    result = assembled(find(plan, membership), top=50)
    signatures = np.array(
        [
            [
                next(
                    (
                        c
                        for c, cell in enumerate(membership.cells)
                        if cell.partition == p and cell.key == (line[row],)
                    ),
                    -1,
                )
                for p, line in enumerate(lines)
            ]
            for row in range(7)
        ]
    )
    for one in result.exposed:
        here = [membership.positions(p)[one.signature] for p in range(len(lines))]
        mine = np.all(signatures == here, axis=1)
        for recipe in (one.recipe, one.shortest):
            if recipe is not None:
                total = recipe.constant + sum(
                    step.weight * answers[step.release, step.cell] for step in recipe.steps
                )
                assert total == pytest.approx(values[mine].sum(), abs=1e-6)


def in_and_out(**changes: object) -> tuple[Plan, Membership]:
    plan = plan_of({"name": "with A7"}, {"name": "without A7"}, **changes)
    parts = [partition(0, "with A7"), partition(1, "without A7")]
    return plan, membership_of(parts, [[""] * 51, [None] + [""] * 50])


@pytest.mark.slow
def test_the_recipe_of_the_paper() -> None:
    result = examined(*in_and_out())
    group, one = result.exposed  # of the others least remains, by a little
    assert group.size == 50
    assert group.remaining_uncertainty == result.least_remaining_uncertainty
    assert one.recipe is not None
    assert one.recipe.text == '51 × "with A7" − 50 × "without A7"'
    assert [(s.release, s.weight) for s in one.recipe.steps] == [("with A7", 51.0), ("without A7", -50.0)]
    kappa = sl.GaussianDP(sl.Budget(epsilon=1.0, delta=1e-5)).kappa(2)
    assert one.rmse == pytest.approx(math.sqrt(4 * kappa * 10**2 / 2), rel=1e-9)  # one_contrast_kappa_over_L
    assert one.rmse_percent_of_range == pytest.approx(one.rmse * 10)
    assert result.identifiable_records == 1
    assert result.identifiable_groups == 1
    assert result.rank == 2


@pytest.mark.slow
def test_releases_are_told_by_what_they_add() -> None:
    plan = plan_of({"name": "all"}, {"name": "some"}, {"name": "again"}, {"name": "free"})
    parts = [partition(0, "all"), partition(1, "some"), partition(2, "again")]
    membership = membership_of(parts, [[""] * 5, [None] + [""] * 4, [""] * 5])
    all_, some, again, free = examined(plan, membership).releases
    assert (all_.newly_exposes, some.newly_exposes, again.newly_exposes) == (0, 1, 0)
    assert (all_.exposes_alone, some.exposes_alone, again.exposes_alone) == (0, 1, 0)
    assert free.note == "depends on no secret: costs nothing and reveals nothing"
    assert free.counted == 0
    assert free.smallest_noise_stddev is None


NUMBERS = {"source": "t.csv", "record": "id", "secret": "x"}


@pytest.mark.slow
def test_the_limit_is_held_against_the_lower_end() -> None:
    plan, membership = in_and_out(privacy={"epsilon": 100.0, "delta": 1e-5})
    bracket = examined(plan, membership).least_remaining_uncertainty
    assert bracket is not None
    assert bracket.lower < bracket.upper
    for limit, passed in [((bracket.lower + bracket.upper) / 2, False), (bracket.lower * 0.99, True)]:
        result = examined(
            *in_and_out(privacy={"epsilon": 100.0, "delta": 1e-5}, limits={"remaining_uncertainty": limit})
        )
        assert result.verdict.passed is passed
        assert result.verdict.below_limit == (not passed)
    assert examined(plan, membership).verdict.passed is None


def test_without_a_release_nobody_is_said_to_keep_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where lines are searched for and answers simulated, an end may fall: the larger one is taken."""
    generator, fell = np.random.default_rng(4), 0

    def halved(*asked: Any, **how: Any) -> UnitExposure:
        exposure = assess(*asked, **how)
        return replace(exposure, lower=exposure.lower / 2)

    for trial in range(8):
        kind: dict[str, object] = (
            {"kind": "boolean"}
            if trial % 2
            else {"bounds": [0, 10], "max_rows_per_record": 8, "values": "independent"}
        )
        groups = [[str(one) for one in generator.integers(0, 3, 8)] for _ in range(3)]
        owners = None if trial % 2 else [str(one) for one in np.sort(generator.integers(0, 5, 8))]
        parts = [partition(q, f"r{q}", statistic=Statistic.SUM) for q in range(3)]
        noise = {"noise_stddev": float(10 ** generator.uniform(-1, 0.3)) * (1 if trial % 2 else 10)}
        releases = [{"name": f"r{q}", "sql": "SELECT SUM(x) FROM data", **noise} for q in range(3)]
        plan = plan_of(*releases, data={**NUMBERS, **kind})
        found = find(plan, membership_of(parts, groups, owners=owners, contributions=8 if owners else 1))
        for release in range(3):
            if release:  # the search for these finds half of what it could
                monkeypatch.setattr(findings, "assess", halved)
            without = found.without(release)
            assert without is not None
            assert np.all(without.lower >= found.linear.lower)
            fell += int(np.sum(halved(without.linear.design).lower.ravel() < found.linear.lower - 1e-9))
        monkeypatch.undo()
    assert fell > 0  # by itself


@pytest.mark.slow
def test_the_distribution_counts_every_record_once() -> None:
    result = examined(*in_and_out(privacy={"epsilon": 100.0, "delta": 1e-5}))
    assert sum(result.distribution.records) == 51
    assert len(result.distribution.records) == len(EDGES) - 1
    least = result.least_remaining_uncertainty
    assert least is not None
    assert result.distribution.records[np.searchsorted(EDGES, least.lower, side="right") - 1] == 1


# ------------------------------------------------------------------ secrets that are not numbers


@pytest.mark.slow
def test_a_complement_is_the_size_of_the_cell_less_the_count() -> None:
    plan = plan_of({"name": "ill"}, {"name": "not ill"}, data={**NUMBERS, "kind": "boolean"})
    parts = [
        partition(0, "ill", statistic=Statistic.SUM),
        partition(1, "not ill", statistic=Statistic.SUM, above=False),
    ]
    result = examined(plan, membership_of(parts, [[""] * 4, [None] + [""] * 3]))
    (one,) = [one for one in result.exposed if one.size == 1]
    assert one.recipe is not None
    # ill(all 4) - (3 - not ill(last 3)) = ill(first)
    assert {(s.release, s.weight) for s in one.recipe.steps} == {("ill", 1.0), ("not ill", 1.0)}
    assert one.recipe.constant == -3
    assert any("There are few values, so attackers can round" in line for line in result.assumptions)


@pytest.mark.slow
@given(
    lines=st.lists(
        st.lists(st.sampled_from([None, "a", "b"]), min_size=5, max_size=5).filter(any),
        min_size=1,
        max_size=4,
    ),
    chosen=st.lists(st.sampled_from(["cold", "flu", "well"]), min_size=4, max_size=4),
)
@settings(deadline=None, max_examples=30)
def test_every_category_is_assessed_with_indicators_that_sum_to_one(
    lines: list[list[str | None]], chosen: list[str]
) -> None:
    categories = ["cold", "flu", "well"]
    parts = [
        partition(q, f"q{q}", statistic=Statistic.SUM, feature=Feature.INDICATOR, parameter=chosen[q])
        for q in range(len(lines))
    ]
    plan = plan_of(
        *({"name": f"q{q}"} for q in range(len(lines))), data={**NUMBERS, "categories": categories}
    )
    membership = membership_of(parts, lines)
    found = find(plan, membership)
    result = assembled(found, top=50)
    pricing = price(plan, membership)
    # By hand: x[category, row] for all categories, and for each row the fact that they sum to one.
    rows = [np.tile(np.eye(5)[row], 3) for row in range(5)]
    for cell in membership.cells:
        member = np.array([g == cell.key[0] for g in lines[cell.partition]], dtype=float)
        rows.append(np.concatenate([member * (c == chosen[cell.partition]) for c in categories]))
    exact = np.array(identifiable_by_fractions(np.array(rows), list(range(15)))).reshape(3, 5)
    assert result.identifiable_records == exact.any(axis=0).sum()
    alike = [[line[row] for line in lines] for row in range(5)]
    signatures = {row: signature_of(membership, lines, row) for row in range(5)}
    told = {(one.signature, one.category) for one in result.exposed if one.identifiable and one.size == 1}
    linear = found.linear.linear
    for a, row in itertools.product(range(3), range(5)):
        if alike.count(alike[row]) == 1 and categories[a] in linear.categories:
            assert ((signatures[row], categories[a]) in told) == exact[a, row]
    # A record that is not of category a is of another one, b; the numbers that count a or b tell them apart.
    information = np.zeros((3, 5))
    for cell, scale in zip(membership.cells, pricing.scale, strict=True):
        member = np.array([g == cell.key[0] for g in lines[cell.partition]])
        information[categories.index(chosen[cell.partition])] += member / scale**2
    kept = []
    for a, row in itertools.product(range(3), range(5)):
        n = alike.count(alike[row])
        apart = [information[a, row] + information[b, row] for b in range(3) if b != a]
        alone = np.mean([coin_risk(one, share=1 / 3) for one in apart])
        shared = np.mean([1 - 1 / n + coin_risk(n * one, share=1 / 3) / n for one in apart])
        kept.append(max(alone, shared))
    least = result.least_remaining_uncertainty
    assert least is not None
    # All others known, or alike: others hide more than that (tests/bounds/test_genies.py has the truth).
    assert min(kept) - 1e-5 <= least.lower <= least.upper


def signature_of(membership: Membership, lines: list[list[str | None]], row: int) -> int:
    """The position of a row's signature, by looking for its groups."""
    for k in range(len(membership.signatures)):
        cells = [membership.positions(p)[k] for p in range(len(lines))]
        groups = [membership.cells[c].key[0] if c >= 0 else None for c in cells]
        if groups == [line[row] for line in lines]:
            return k
    raise AssertionError("every row has a signature")


# ------------------------------------------------------------------ moments and thresholds


def moments(orders: list[int], values: list[float], **changes: object) -> AuditResult:
    plan = plan_of(*({"name": f"moment {k}"} for k in orders), data={**NUMBERS, "bounds": [-1, 1]}, **changes)
    parts = [
        partition(q, f"moment {k}")
        if k == 1
        else partition(q, f"moment {k}", feature=Feature.POWER, parameter=k)
        for q, k in enumerate(orders)
    ]
    membership = membership_of(parts, [[""] * len(values)] * len(orders))
    fetched = RowValues(signature=np.zeros(len(values), dtype=np.int64), secret=np.sort(values))
    return assembled(find(plan, membership, values=lambda: fetched))


def test_the_moments_of_one_group_have_the_bound_of_the_release_curve() -> None:
    values = [-0.6, 0.1, 0.8]
    result = moments([1, 2, 3, 4], values)
    accountant = sl.GaussianDP(sl.Budget(epsilon=1.0, delta=1e-5))
    curve = sl.release_curve(
        values, family=sl.Moments(convention="tight"), accountant=accountant, releases=[4]
    )
    assert result.local is not None
    assert result.local.fixed_group
    assert result.local.group_rmse == pytest.approx(math.sqrt(curve.crb[0]), rel=1e-9)
    assert result.local.identifiable == 3
    assert "as one of a set, not whose it is" in result.verdict.text
    assert [one.size for one in result.exposed if not one.local] == [3]  # the mean shows their sum to anyone
    assert [one.size for one in result.exposed if one.local] == [1, 1, 1]
    assert {"local", "exposed: local"} <= set(result.owner_only)
    assert all(one.remaining_uncertainty is None for one in result.exposed if one.local)


def test_fewer_moments_than_values_show_none_of_them() -> None:
    result = moments([1, 2], [-0.6, 0.1, 0.8])
    assert result.local is not None
    assert result.local.identifiable == 0
    assert result.local.group_rmse is None
    assert "no row is identifiable" in result.verdict.text


def test_a_sharp_local_view_does_not_pass_and_puts_nobody_below() -> None:
    """Near the true values both are seen; that proves nothing, in either direction."""
    loud = {"privacy": {"epsilon": 1e4, "delta": 1e-5}, "limits": {"remaining_uncertainty": 0.5}}
    result = moments([1, 2], [-0.6, 0.5], **loud)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert result.verdict.below_limit == 0


def test_what_the_local_view_cannot_do_is_refused() -> None:
    plan = plan_of({"name": "squares"}, data={**NUMBERS, "bounds": [0, 1]})
    parts = [partition(0, feature=Feature.POWER, parameter=2)]
    many = find(
        plan, membership_of(parts, [[""] * (MOST_SQUARE + 1)]), values=lambda: pytest.fail("too many rows")
    )
    assert many.nonlinear == ()
    assert "was not computed" in assembled(many).verdict.text
    few = RowValues(signature=np.zeros(3, dtype=np.int64), secret=np.linspace(0, 1, 3))
    with pytest.raises(InvalidPlan, match="knows all rows with a signature or none"):
        find(plan, membership_of(parts, [[""] * 3], known=[0]), values=lambda: few)


def test_slopes_that_all_vanish_show_nothing() -> None:
    plan = plan_of({"name": "squares"}, data={**NUMBERS, "bounds": [0, 1]})
    membership = membership_of([partition(0, feature=Feature.POWER, parameter=2)], [[""] * 3])
    nothing = RowValues(signature=np.zeros(3, dtype=np.int64), secret=np.zeros(3))
    result = assembled(find(plan, membership, values=lambda: nothing))
    assert result.local is None
    assert result.exposed == ()


# ------------------------------------------------------------------ odd tables


def test_a_table_without_rows_exposes_nobody() -> None:
    membership = Membership(
        partitions=(partition(),),
        cells=(),
        signatures=np.zeros((0, 1), dtype=np.int32),
        counts=np.zeros(0, dtype=np.int64),
        known=np.zeros(0, dtype=np.int64),
        rows=0,
        records=0,
        contributions=0,
        dropped=4,
        clipped=0,
    )
    result = examined(plan_of({"name": "a"}), membership)
    assert result.verdict.text == "The table has no row with a secret: nothing can be exposed."
    assert result.exposed == ()


@pytest.mark.slow
def test_a_single_record_is_exposed_by_its_own_mean() -> None:
    result = examined(plan_of({"name": "a"}), membership_of([partition(0, "a")], [[""]]))
    assert result.identifiable_records == 1
    assert result.exposed[0].recipe is not None
    assert result.exposed[0].recipe.text == '1 × "a"'


@pytest.mark.slow
def test_more_cells_than_fit_a_square_table_are_assessed() -> None:
    rows = [str(i // 2) for i in range(40_000)] + ["alone"]
    result = examined(plan_of({"name": "a"}), membership_of([partition()], [rows]))
    assert (result.cells, result.identifiable_records) == (20_001, 1)


@pytest.mark.slow
def test_records_with_several_rows_are_counted_once() -> None:
    rows = {"max_rows_per_record": 2, "values": "independent"}
    plan = plan_of({"name": "a"}, data={**NUMBERS, "bounds": [0, 1], **rows})
    owners = ["ann", "ann", "bob", "cy"]
    membership = membership_of([partition()], [["x", "y", "z", "z"]], contributions=2, owners=owners)
    found = find(plan, membership)
    keys = Keys(
        of_signatures=lambda asked: dict.fromkeys(asked, ("bob", "cy")),
        of_kinds=lambda asked: {kind: (("ann", "bob", "cy")[kind],) for kind in asked},
    )
    assert assembled(found, keys=keys).identifiable_records == 1
    assert assembled(found, keys=keys).exposed[0].record is None
    named = assembled(found, names=True, keys=keys)
    assert [one.record for one in named.exposed] == ["ann", "bob, cy"]
    assert any("the sharpest linear feature of its rows" in line for line in named.assumptions)


def test_rows_of_several_persons_need_to_say_whose_they_are() -> None:
    plan = plan_of({"name": "a"}, data={**NUMBERS, "bounds": [0, 1], "max_rows_per_record": 2})
    with pytest.raises(InvalidInput, match="whose rows they are"):
        find(plan, membership_of([partition()], [["x", "y", "z", "z"]], contributions=2))


def test_the_list_is_cut_but_the_count_is_not() -> None:
    rows = [str(i) for i in range(30)]
    result = examined(plan_of({"name": "a"}), membership_of([partition()], [rows]), top=4)
    assert len(result.exposed) == 4
    assert result.exposed_in_all == result.identifiable_records == 30


@pytest.mark.slow
def test_known_rows_are_no_longer_exposed() -> None:
    plan = plan_of({"name": "a"}, attacker={"knows": ["id = 1"]})
    everyone = examined(plan, membership_of([partition(0, "a")], [["", "", ""]]))
    two_known = examined(plan, membership_of([partition(0, "a")], [["", "", ""]], known=[0, 1]))
    assert everyone.identifiable_records == 0
    assert two_known.identifiable_records == 1
    assert two_known.known_rows == 2
    assert sum(two_known.distribution.records) == 1


def test_the_fractions_of_the_reference_are_exact() -> None:
    rows = np.array([[1, 1, 1], [0, 1, 1]])
    assert identifiable_by_fractions(rows, [0, 1, 2]) == [True, False, False]
