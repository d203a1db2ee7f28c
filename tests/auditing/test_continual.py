"""Running sums under factored noise: priced and audited from a plan, against dense computations."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidNoise, InvalidPlan
from sightline.labeled.description import Readout
from sightline.noise.factored import FactoredNoise
from sightline.noise.strategies import Strategy, strategy_of

MECHANISMS = [
    {"mechanism": "independent"},
    {"mechanism": "noisy-steps"},
    {"mechanism": "tree"},
    {"mechanism": "tree", "decoder": "least-squares"},
    {"mechanism": "toeplitz-sqrt"},
]
NAMES = ["independent", "noisy-steps", "tree online", "tree least squares", "toeplitz"]
SQL = "SELECT day, SUM(x) FROM data GROUP BY day"


def table(days: list[int], *, people: list[int] | None = None, seed: int = 0) -> Any:
    import polars

    values = np.random.default_rng(seed).random(len(days))
    person = list(range(len(days))) if people is None else people
    return polars.DataFrame({"person": person, "day": days, "x": values})


def plan_of(source: Any, steps: int, noise: dict[str, Any], **changes: Any) -> dict[str, Any]:
    running = {"over": "day", "from": 1, "to": steps, **changes.pop("running", {})}
    release = {"name": "running total", "sql": SQL, "running": running, "noise": noise}
    return {
        "data": {
            "source": source,
            "record": "person",
            "secret": "x",
            "bounds": [0, 1],
            **changes.pop("data", {}),
        },
        "release": [release],
        "limits": {"remaining_uncertainty": 0.5},
        "privacy": {"delta": 1e-6, **changes.pop("privacy", {})},
        **changes,
    }


def members_of(exposed: Any) -> list[int]:
    return [int(name) for name in exposed.record.split(", ")]


def decoder_of(noise: dict[str, Any], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """C and B as a textbook has them: of an online tree all nodes, and those of the binary digits of t."""
    A, name = np.tri(steps), noise["mechanism"]
    if name != "tree":
        C = {"independent": A, "noisy-steps": np.eye(steps)}.get(name)
        if C is None:
            first = [math.comb(2 * k, k) / 4**k for k in range(steps)]
            C = np.array([[first[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
        return C, A @ np.linalg.inv(C)
    nodes = [
        (start, start + size)
        for size in (2**j for j in range(steps.bit_length()))
        for start in range(0, steps - size + 1, size)
    ]
    C = np.array([[float(a <= day < b) for day in range(steps)] for a, b in nodes])
    if noise.get("decoder") == "least-squares":
        return C, A @ np.linalg.pinv(C)
    B = np.zeros((steps, len(nodes)))
    for t in range(1, steps + 1):
        end, left = t, t
        while left:
            size = left & -left
            B[t - 1, nodes.index((end - size, end))] = 1.0
            end, left = end - size, left - size
    return C, B


@pytest.mark.parametrize("noise", MECHANISMS, ids=NAMES)
class TestEveryMechanism:
    def test_the_price_is_that_of_its_strategy(self, noise: dict[str, Any]) -> None:
        """μ = 1: epsilon 4.887 at delta 1e-6, and 92.3 % are kept by the noise alone."""
        result = sl.audit(plan_of(table([1, 2, 2, 30, 64]), 64, {**noise, "noise_multiplier": 1.0}))
        assert result.budget.spent["gaussian-dp"] == pytest.approx(4.88655, rel=1e-5)
        assert result.guaranteed_by_noise == pytest.approx(0.92298, rel=1e-4)
        assert result.budget.releases == 1

    @pytest.mark.parametrize("days", [[1, 2, 3, 3, 5, 9], [4, 4, 4, 13], [11, 12, 16, 16]])
    def test_errors_and_upper_ends_are_those_of_a_dense_computation(
        self, noise: dict[str, Any], days: list[int]
    ) -> None:
        """Of the published running sums themselves, with the textbook's decoder."""
        steps = 16
        _, B = decoder_of(noise, steps)
        stddev = 0.7
        result = sl.audit(plan_of(table(days), steps, {**noise, "stddev": stddev}), names=True)
        columns = np.array([[float(t >= day) for day in days] for t in range(1, steps + 1)])
        sigma = stddev**2 * B @ B.T
        joint = sigma + columns @ columns.T / 12
        for one in result.exposed:
            members = members_of(one)
            own = columns[:, members[0]]
            upper = 1 - own @ np.linalg.solve(joint, own) / 12
            assert one.remaining_uncertainty is not None
            assert one.remaining_uncertainty.upper == pytest.approx(upper, rel=1e-8)
            distinct = np.unique(columns, axis=1)
            information = distinct.T @ np.linalg.solve(sigma, distinct)
            place = next(k for k in range(distinct.shape[1]) if np.array_equal(distinct[:, k], own))
            assert one.rmse == pytest.approx(math.sqrt(np.linalg.inv(information)[place, place]), rel=1e-8)
            assert one.recipe is not None
            weights = np.zeros(steps)
            for step in one.recipe.steps:
                weights[int(step.cell) - 1] = step.weight
            assert np.allclose(weights @ columns, [float(d == days[members[0]]) for d in days], atol=1e-9)
            assert math.sqrt(weights @ sigma @ weights) == pytest.approx(one.rmse, rel=1e-8)
        assert {who for one in result.exposed for who in members_of(one)} == set(range(len(days)))

    def test_the_noise_of_the_release_is_that_of_its_running_sums(self, noise: dict[str, Any]) -> None:
        _, B = decoder_of(noise, 16)
        result = sl.audit(plan_of(table([1, 5]), 16, {**noise, "stddev": 2.0}))
        expected = 2.0 * np.linalg.norm(B, axis=1)
        assert result.releases[0].smallest_noise_stddev == pytest.approx(expected.min(), rel=1e-9)
        assert result.releases[0].largest_noise_stddev == pytest.approx(expected.max(), rel=1e-9)

    def test_who_is_identifiable_does_not_depend_on_it(self, noise: dict[str, Any]) -> None:
        result = sl.audit(plan_of(table([1, 2, 2, 7, 9, 9, 9]), 12, {**noise, "noise_multiplier": 1.0}))
        assert (result.identifiable_records, result.identifiable_groups) == (2, 2)

    @pytest.mark.parametrize("people", [[0, 0, 0, 1, 1, 2], [0, 1, 0, 1, 0, 2]])
    def test_the_price_of_several_rows_is_that_of_the_worst_pattern(
        self, noise: dict[str, Any], people: list[int]
    ) -> None:
        days = [1, 3, 8, 2, 2, 5]
        plan = plan_of(
            table(days, people=people),
            8,
            {**noise, "stddev": 3.0},
            data={"max_rows_per_record": 3},
            privacy={"sensitivity": "memberships"},
        )
        C, _ = decoder_of(noise, 8)
        patterns = {who: np.zeros(8) for who in people}
        for who, day in zip(people, days, strict=True):
            patterns[who][day - 1] += 1
        mu = max(float(np.linalg.norm(C @ u)) for u in patterns.values()) / 3.0
        if (
            noise["mechanism"] == "tree" and "decoder" not in noise
        ):  # nodes that no running sum uses cost nothing
            used = strategy_of("tree", 8)
            mu = max(float(np.linalg.norm(used @ u)) for u in patterns.values()) / 3.0
        result = sl.audit(plan)
        assert result.budget.spent["gaussian-dp"] == pytest.approx(_epsilon(mu), rel=1e-6)


def _epsilon(mu: float) -> float:
    """Of one Gaussian answer: delta(epsilon) = 1e-6, by bisection of the formula of Balle and Wang."""
    from scipy.stats import norm

    low, high = 0.0, 500.0
    for _ in range(200):
        middle = (low + high) / 2
        delta = norm.cdf(mu / 2 - middle / mu) - math.exp(middle) * norm.cdf(-mu / 2 - middle / mu)
        low, high = (middle, high) if delta > 1e-6 else (low, middle)
    return high


class TestOtherFormsOfTheSame:
    DAYS: ClassVar[list[int]] = [1, 2, 2, 3, 5, 8, 8, 8, 11, 16]

    def test_the_tree_is_one_group_by_for_each_level(self) -> None:
        """Five releases with independent noise say the same as the nodes' least squares."""
        source = table(self.DAYS)
        tree = sl.audit(plan_of(source, 16, {"mechanism": "tree", "decoder": "least-squares", "stddev": 2.0}))
        levels = plan_of(source, 16, {"mechanism": "tree", "stddev": 2.0})
        levels["release"] = [
            {
                "name": f"level {j}",
                "sql": f"SELECT (day - 1) // {2**j}, SUM(x) FROM data GROUP BY (day - 1) // {2**j}",
                "noise_stddev": 2.0,
            }
            for j in range(5)
        ]
        other = sl.audit(levels)
        # The plain releases leave out groups that nobody is in, which tell nothing there.
        assert tree.identifiable_records == other.identifiable_records
        assert [one.rmse for one in tree.exposed] == pytest.approx(
            [one.rmse for one in other.exposed], rel=1e-9
        )
        for mine, theirs in zip(tree.exposed, other.exposed, strict=True):
            assert mine.remaining_uncertainty is not None
            assert theirs.remaining_uncertainty is not None
            assert mine.remaining_uncertainty.lower == pytest.approx(
                theirs.remaining_uncertainty.lower, rel=1e-6
            )
            assert mine.remaining_uncertainty.upper == pytest.approx(
                theirs.remaining_uncertainty.upper, rel=1e-9
            )
        assert tree.budget.spent["gaussian-dp"] == pytest.approx(other.budget.spent["per-record"], rel=1e-9)

    @pytest.mark.parametrize("noise", MECHANISMS, ids=NAMES)
    def test_a_strategy_from_a_file_is_the_named_one(self, noise: dict[str, Any], tmp_path: Path) -> None:
        table_of = strategy_of(noise["mechanism"], 16, noise.get("decoder", "online"))
        np.save(tmp_path / "C.npy", table_of)
        file = {"mechanism": {"file": str(tmp_path / "C.npy")}, "noise_multiplier": 0.5}
        named, read = (
            sl.audit(plan_of(table(self.DAYS), 16, one)) for one in ({**noise, "noise_multiplier": 0.5}, file)
        )
        assert [one.rmse for one in named.exposed] == [one.rmse for one in read.exposed]
        assert named.least_remaining_uncertainty == read.least_remaining_uncertainty
        assert named.budget == read.budget

    def test_linear_post_processing_never_sharpens(self) -> None:
        """What an online tree publishes is computed from the nodes that least squares use."""
        online, squares = (
            sl.audit(plan_of(table(self.DAYS), 16, {"mechanism": "tree", "decoder": one, "stddev": 1.0}))
            for one in ("online", "least-squares")
        )
        assert online.least_remaining_uncertainty is not None
        assert squares.least_remaining_uncertainty is not None
        assert online.least_remaining_uncertainty.upper >= squares.least_remaining_uncertainty.upper
        errors = [{one.label: one.rmse or 0.0 for one in result.exposed} for result in (online, squares)]
        assert all(errors[0][label] >= errors[1][label] * (1 - 1e-9) > 0 for label in errors[1])

    def test_a_python_design_sees_the_same(self) -> None:
        """Running sums as rows, with their decoder: its whitened rows are the strategy."""
        days, steps = [1, 2, 3, 5, 6], 8
        for noise in MECHANISMS:
            C, B = decoder_of(noise, steps)
            law = FactoredNoise(strategy=C, decoder=B, stddev=1.5)
            columns = np.array([[float(t >= day) for day in days] for t in range(1, steps + 1)])
            design = sl.MembershipDesign(columns, noise=law, readout=Readout.SUM)
            found = design.exposures(domain=(0, 1))
            audited = sl.audit(plan_of(table(days), steps, {**noise, "stddev": 1.5}), names=True)
            errors = {members_of(one)[0]: one.rmse for one in audited.exposed}
            assert [errors[k] for k in range(5)] == pytest.approx(found.rmse.tolist(), rel=1e-8)

    def test_a_number_that_nobody_is_in_tells_the_noise_of_the_next(self, tmp_path: Path) -> None:
        root = np.linalg.cholesky(np.array([[1.0, 0.9], [0.9, 1.0]]))
        np.save(tmp_path / "C.npy", np.linalg.inv(root))
        noise = {"mechanism": {"file": str(tmp_path / "C.npy")}, "stddev": 1.0}
        result = sl.audit(plan_of(table([2]), 2, noise))
        assert result.exposed[0].rmse == pytest.approx(math.sqrt(1 - 0.81), rel=1e-9)  # 0.436, not 1
        assert result.cells == 2

    def test_every_value_of_other_columns_has_sums_of_its_own(self) -> None:
        import polars

        days, places = [1, 3, 3, 4], ["n", "n", "s", "s"]
        frame = table(days).with_columns(polars.Series("place", places))
        noise = {"mechanism": "toeplitz-sqrt", "stddev": 1.0}
        plan = plan_of(frame, 4, noise)
        plan["release"][0]["sql"] = "SELECT place, day, SUM(x) FROM data GROUP BY place, day"
        both = sl.audit(plan, names=True)
        errors = {one.record: one.rmse for one in both.exposed}
        for place in "ns":
            alone = sl.audit(plan_of(frame.filter(polars.col("place") == place), 4, noise), names=True)
            assert {one.record: one.rmse for one in alone.exposed}.items() <= errors.items()
        assert both.cells == 8

    def test_days_may_be_dates(self) -> None:
        import datetime

        import polars

        frame = table([1, 4]).with_columns(
            polars.Series("day", [datetime.date(2026, 1, 31), datetime.date(2026, 2, 3)])
        )
        noise = {"mechanism": "tree", "stddev": 1.0}
        running = {"from": "2026-01-31", "to": datetime.date(2026, 2, 3)}
        found = sl.audit(plan_of(frame, 4, noise, running=running))
        assert found.cells == 4
        assert [one.rmse for one in found.exposed] == [
            one.rmse for one in sl.audit(plan_of(table([1, 4]), 4, noise)).exposed
        ]
        assert 'running = { "over" = "day", "from" = "2026-01-31", "to" = "2026-02-03" }' in found.plan

    def test_several_rows_of_a_person_are_judged_together(self) -> None:
        """One person with rows on two days, among others: the sharpest feature of a dense computation."""
        days, people, steps = [1, 3, 3, 4, 2], [0, 0, 1, 2, 3], 4
        noise = {"mechanism": "toeplitz-sqrt", "stddev": 1.0}
        plan = plan_of(table(days, people=people), steps, noise, data={"max_rows_per_record": 2})
        result = sl.audit(plan, names=True)
        C = strategy_of("toeplitz-sqrt", steps)
        prior = np.zeros((steps, steps))
        for day in days:
            prior[day - 1, day - 1] += 1 / 12
        gain = np.linalg.inv(np.linalg.inv(C.T @ C) + prior)
        own = np.eye(steps)[:, [0, 2]]
        left = np.eye(2) - own.T @ gain @ own / 12
        (mine,) = (one for one in result.exposed if one.record == "0")
        assert mine.remaining_uncertainty is not None
        assert mine.remaining_uncertainty.upper == pytest.approx(np.linalg.eigvalsh(left)[0], rel=1e-8)

    def test_days_that_are_all_alike_are_found_over_ranges(self) -> None:
        """Ten days of one person each, all at the least value: no day tells it, the range of them does."""
        import polars

        days = list(range(1, 31))
        frame = table(days).with_columns(polars.Series("x", [0.5] * 10 + [0.0] * 16 + [0.9] * 4))
        result = sl.audit(plan_of(frame, 30, {"mechanism": "toeplitz-sqrt", "stddev": 0.3}))
        assert any("together" in one.text and one.rows >= 16 for one in result.homogeneous or ())
        assert result.verdict.passed is not True


class TestSensitivities:
    """As jax-privacy 2.0.0 has them (recorded): square-root Toeplitz, and with four rows 16 steps apart."""

    @pytest.mark.parametrize(
        ("steps", "once", "apart"),
        [(64, 1.545590, 3.960620), (256, 1.682572, 5.011051), (1024, 1.809020, 5.706712)],
    )
    def test_of_square_root_toeplitz(self, steps: int, once: float, apart: float) -> None:
        strategy = Strategy.named("toeplitz-sqrt", steps)
        assert strategy.sensitivity(1).value == pytest.approx(once, abs=5e-7)
        found = strategy.sensitivity(4, 16)
        assert found.exact
        assert found.value == pytest.approx(apart, abs=5e-7)

    @pytest.mark.parametrize("rows", [1, 2, 3])
    @pytest.mark.parametrize("separation", [1, 2, 4])
    @pytest.mark.parametrize("seed", range(4))
    def test_bounds_hold_and_exact_ones_are_attained(self, rows: int, separation: int, seed: int) -> None:
        """Against all patterns, and all signs of what changes."""
        generator, steps = np.random.default_rng(seed), 9
        bands = np.tril(generator.normal(size=(steps, steps))) + 3 * np.eye(steps)
        if seed % 2:
            bands = bands * (np.arange(steps)[:, None] - np.arange(steps) < separation)
        strategy = Strategy(table=bands)
        found = strategy.sensitivity(rows, separation)
        worst = 0.0
        for size in range(1, rows + 1):
            for pattern in itertools.combinations(range(steps), size):
                if all(b - a >= separation for a, b in itertools.pairwise(pattern)):
                    for signs in itertools.product((1, -1), repeat=size):
                        moved = bands[:, pattern] @ np.array(signs)
                        worst = max(worst, float(np.linalg.norm(moved)))
        assert worst <= found.value * (1 + 1e-12)
        if seed % 2 or rows == 1:
            assert found.exact
        if found.exact:
            assert found.value == pytest.approx(worst, rel=1e-12)

    def test_declared_rows_are_priced_wherever_they_are(self) -> None:
        data, privacy = {"max_rows_per_record": 4}, {"sensitivity": "declared"}
        noise = {"mechanism": "toeplitz-sqrt", "noise_multiplier": 1.0}
        source = table([1, 17, 33], people=[0, 0, 1])
        apart = plan_of(source, 64, noise, data=data, privacy=privacy, running={"min_separation": 16})
        result = sl.audit(apart)
        assert result.releases[0].smallest_noise_stddev == pytest.approx(3.960620, abs=5e-7)
        assert not any("bounded from above" in line for line in result.assumptions)
        close = {"min_separation": 3}
        tree = plan_of(source, 64, {**noise, "mechanism": "tree"}, data=data, privacy=privacy, running=close)
        assert any("bounded from above" in line for line in sl.audit(tree).assumptions)
        together = sl.audit(plan_of(source, 64, noise, data=data, privacy=privacy))
        assert together.releases[0].smallest_noise_stddev == pytest.approx(4 * 1.545590, abs=4e-6)


RUNNING = {"over": "day", "from": 1, "to": 4}
GOOD = {"mechanism": "tree", "noise_multiplier": 1.0}


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"running": {"over": "hour"}}, r"running over one of the columns of GROUP BY, got 'hour'"),
            ({"running": {"to": 3}}, r"running over steps from 1 to 3, got rows outside of them"),
            ({"running": {"from": "2026-01-01", "to": "2026-01-09"}}, r"running over a column of days"),
            ({"running": {"from": 1.5}}, r"from: a whole number or a day"),
            ({"running": {"to": "2026-01-01"}}, r"from and to of one kind"),
            ({"running": {"to": 0}}, r"from one to 20,000 steps, got 0"),
            ({"running": {"every": 2}}, r"over, from and to"),
            ({"running": {"min_separation": -1}}, r"min_separation: a whole number of steps"),
            (
                {"noise": {**GOOD, "mechanism": "forest"}},
                r"mechanism: expected one of independent, .* got 'forest'",
            ),
            (
                {"noise": {**GOOD, "mechanism": 3}},
                r"mechanism: expected one of independent, .* got another value",
            ),
            ({"noise": {**GOOD, "decoder": "fast"}}, r"decoder: expected one of 'online' or 'least-squares'"),
            (
                {"noise": {"mechanism": "noisy-steps", "decoder": "least-squares", "stddev": 1.0}},
                "decoder with",
            ),
            ({"noise": {**GOOD, "law": "laplace"}}, r"a mechanism with gaussian noise of one size"),
            ({"noise": {"mechanism": "tree"}}, r"one of stddev, noise_multiplier"),
            ({"noise": {"stddev": 1.0}}, r"running with noise = \{ mechanism"),
            ({"sql": "SELECT day, AVG(x) FROM data GROUP BY day"}, r"a mechanism for sums and counts"),
            ({"times": 2}, r"without withhold, suppress and times, got times = 2"),
            ({"withhold": ["1"]}, r"without withhold, suppress and times, got withhold"),
        ],
    )
    def test_is_one_line(self, change: dict[str, Any], message: str) -> None:
        running = change.pop("running", {})
        plan = plan_of(table([1, 2, 4]), 4, GOOD, running=running)
        plan["release"][0].update(change)
        with pytest.raises(InvalidPlan, match=message) as caught:
            sl.audit(plan)
        assert "\n" not in str(caught.value)

    def test_a_column_without_an_order(self) -> None:
        import polars

        frame = table([1, 2]).with_columns(polars.Series("day", ["monday", "tuesday"]))
        with pytest.raises(InvalidPlan, match="a column of whole numbers, which have an order") as caught:
            sl.audit(plan_of(frame, 4, GOOD))
        assert "monday" not in str(caught.value)

    def test_rows_closer_than_declared(self) -> None:
        plan = plan_of(
            table([1, 2], people=[0, 0]),
            4,
            GOOD,
            data={"max_rows_per_record": 2},
            running={"min_separation": 2},
        )
        with pytest.raises(InvalidPlan, match="rows of a record at least 2 steps apart"):
            sl.audit(plan)

    def test_more_participations_than_declared(self) -> None:
        with pytest.raises(InvalidPlan, match=r"at most 1 row"):
            sl.audit(plan_of(table([1, 2], people=[0, 0]), 4, GOOD))

    @pytest.mark.parametrize(
        ("strategy", "message"),
        [
            (np.ones((4, 4)), "a strategy that spans the steps"),
            (np.eye(4)[:3], "a strategy that spans the steps"),
            (np.eye(3), "a column for each of 4 numbers, also of those that nobody is in, got 3 columns"),
            (np.where(np.eye(4) > 0, np.nan, 0.0), "strategy"),
            (np.full((4, 4), np.inf), "strategy"),
            (np.ones(4), "a table of numbers"),
            (np.array([["a", "b"]]), "a table of numbers"),
            (np.eye(4) * 1j, "a table of numbers"),
        ],
        ids=["rank one", "too few rows", "too few columns", "NaN", "infinite", "no table", "text", "complex"],
    )
    def test_a_strategy_file(self, strategy: np.ndarray, message: str, tmp_path: Path) -> None:
        np.save(tmp_path / "C.npy", strategy)
        self._refused(tmp_path, message)

    def test_files_that_are_no_array(self, tmp_path: Path) -> None:
        self._refused(tmp_path, "a file, got none")
        (tmp_path / "C.npy").write_bytes(b"")
        self._refused(tmp_path, "an array as numpy.save writes it")
        (tmp_path / "C.npy").write_bytes(b"\x93NUMPY\x01\x00" + b"{'shape': 9**9**9}")
        self._refused(tmp_path, "an array as numpy.save writes it")

    def test_nothing_is_unpickled(self, tmp_path: Path) -> None:
        class Harm:
            def __reduce__(self) -> tuple[Any, ...]:
                return (Path.touch, (tmp_path / "done",))

        np.save(tmp_path / "C.npy", np.array([[Harm()]], dtype=object), allow_pickle=True)
        self._refused(tmp_path, "an array as numpy.save writes it")
        assert not (tmp_path / "done").exists()

    def _refused(self, folder: Path, message: str) -> None:
        plan = plan_of(table([1, 2]), 4, {"mechanism": {"file": str(folder / "C.npy")}, "stddev": 1.0})
        with pytest.raises(InvalidPlan, match=message) as caught:
            sl.audit(plan)
        assert "\n" not in str(caught.value)

    def test_correlation_is_gone_and_says_what_to_write(self) -> None:
        plan = plan_of(table([1]), 4, GOOD, correlation={"numbers": ["a", "b"], "rows": [[], [0.5]]})
        with pytest.raises(InvalidPlan, match="write the strategy C of the noise"):
            sl.audit(plan)

    @pytest.mark.parametrize(
        ("strategy", "decoder", "stddev", "message"),
        [
            (np.eye(2), np.ones((2, 3)), 1.0, "a column for each row of the strategy"),
            (np.eye(2), np.eye(2), 0.0, "stddev > 0"),
            (np.eye(2), np.array([[1.0, 0.0], [0.0, 0.0]]), 1.0, "noise on every answer"),
            (np.array([[np.nan]]), np.eye(1), 1.0, "strategy"),
        ],
    )
    def test_factored_noise(
        self, strategy: np.ndarray, decoder: np.ndarray, stddev: float, message: str
    ) -> None:
        with pytest.raises(InvalidNoise, match=message):
            FactoredNoise(strategy=strategy, decoder=decoder, stddev=stddev)


def test_factored_noise_of_consistent_answers() -> None:
    """A total with its cells: the decoder is singular, and the total adds nothing."""
    decoder = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    noise = FactoredNoise(strategy=np.eye(2), decoder=decoder, stddev=2.0)
    assert noise.singular
    assert noise.noise_free(noise.workload) is None
    assert noise.noise_free(np.array([[1.0], [1.0], [3.0]])) is not None
    white = np.asarray(noise.whiten(noise.workload))
    assert np.allclose(white.T @ white, np.eye(2) / 4)
    assert np.allclose(noise.scaled(2.0).covariance, 4 * noise.covariance)
    assert np.allclose(noise.take(np.array([0, 2])).covariance, noise.covariance[np.ix_([0, 2], [0, 2])])
    drawn = noise.sample(20_000, generator=np.random.default_rng(0))
    assert np.allclose(drawn.T @ drawn / 20_000, noise.covariance, atol=0.3)


class TestLargePlans:
    def test_the_verdict_alone_leaves_out_what_each_release_adds(self) -> None:
        plan = plan_of(table([1, 2, 2, 7]), 8, {"mechanism": "tree", "noise_multiplier": 0.2})
        alone, whole = sl.audit(plan, verdict_only=True, full=True), sl.audit(plan)
        assert alone.verdict == whole.verdict
        assert alone.exposed == whole.exposed
        assert alone.budget == whole.budget
        assert (alone.timeline, alone.what_to_change, alone.reaching, alone.slack) == ((), (), (), None)
        assert [one.newly_exposes for one in alone.releases] == [None]
        assert "the verdict alone was asked for" in alone.more_to_change
        assert sl.AuditResult.from_json(alone.to_json()) == alone

    def test_a_recipe_of_many_numbers_lists_what_carries_its_variance(self) -> None:
        """Of 400 running sums: the listed steps have 99.9 % of the noise, and the rest are counted."""
        noise = {"mechanism": "toeplitz-sqrt", "stddev": 1.0}
        result = sl.audit(plan_of(table(list(range(1, 401, 2))), 400, noise), top=3, names=True)
        _, B = decoder_of(noise, 400)
        sigma = B @ B.T
        most = result.exposed[0]
        assert most.recipe is not None
        assert most.recipe.more_steps > 0
        listed = {int(step.cell) - 1: step.weight for step in most.recipe.steps}
        assert f"and {len(listed) + most.recipe.more_steps - 4} more" in most.recipe.text
        # All weights by a second computation: the best unbiased ones, with the empty days known.
        columns = np.tri(400)[:, ::2]
        solved = np.linalg.solve(sigma, columns)
        weights = (solved @ np.linalg.inv(columns.T @ solved))[:, int(most.record or "")]
        assert all(weights[place] == pytest.approx(weight, abs=1e-9) for place, weight in listed.items())
        shares = weights**2 * np.diagonal(sigma)
        assert sum(shares[place] for place in listed) >= 0.999 * shares.sum()
        used = np.count_nonzero(np.abs(weights) > 1e-9 * np.abs(weights).max())
        assert len(listed) + most.recipe.more_steps == used

    def test_both_rungs_are_on_the_first_screen(self) -> None:
        result = sl.audit(plan_of(table([1, 2, 30, 64]), 64, {"mechanism": "tree", "noise_multiplier": 1.0}))
        assert result.sharpest is not None
        assert (
            "That attacker knows nobody; to one who knows everyone else, the noise leaves at least 92 %"
            in (result.sharpest.text)
        )

    def test_running_sums_are_not_rehearsed(self) -> None:
        with pytest.raises(InvalidPlan, match="whose numbers are the groups themselves, got running sums"):
            sl.rehearse(plan_of(table([1, 2]), 4, GOOD))
