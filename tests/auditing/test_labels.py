"""Plans that mix moments of a group with releases over subsets: whose a value is, open or resolved."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.assemble import assemble
from sightline.auditing.findings import find
from sightline.auditing.labels import label_counts
from sightline.auditing.pricing import price
from sightline.auditing.result import AuditResult
from sightline.tables.membership import Feature, Membership, RowValues
from tests.auditing.hand_made import membership_of, partition, plan_of

BOUNDS = {"source": "t.csv", "record": "id", "secret": "x", "bounds": [-1, 1]}
VALUES = [-0.6, 0.1, 0.8]


def hybrid(
    values: list[float],
    subsets: list[list[int]],
    *,
    moments: int = 3,
    known: tuple[int, ...] = (),
    **privacy: object,
) -> tuple[object, Membership, RowValues]:
    """The first moments of all rows, and the mean of each subset."""
    parts = [
        partition(q, f"moment {q + 1}")
        if q == 0
        else partition(q, f"moment {q + 1}", feature=Feature.POWER, parameter=q + 1)
        for q in range(moments)
    ]
    parts += [partition(moments + i, f"subset {i}") for i in range(len(subsets))]
    groups: list[list[str | None]] = [[""] * len(values) for _ in range(moments)]
    groups += [["" if row in subset else None for row in range(len(values))] for subset in subsets]
    membership = membership_of(parts, groups, known=known)
    plan = plan_of(
        *({"name": part.name} for part in parts),
        data=BOUNDS,
        privacy={"epsilon": 1.0, "delta": 1e-5, **privacy},
    )
    table = np.array([[0 if group == "" else -1 for group in line] for line in groups]).T
    _, signature = np.unique(table, axis=0, return_inverse=True)
    return plan, membership, RowValues(signature=signature.ravel().astype(np.int64), secret=np.array(values))


def audited(*arguments: object, **options: object) -> AuditResult:
    plan, membership, values = hybrid(*arguments, **options)  # type: ignore[arg-type]
    return assemble(find(plan, membership, values=lambda: values))  # type: ignore[arg-type]


@pytest.mark.slow
def test_at_a_small_budget_labels_stay_open() -> None:
    result = audited(VALUES, [[1, 2]])
    assert result.local is not None
    assert (result.local.labels_open, result.local.labels_resolved) == (3, 0)
    assert "leave open whose they are" in result.verdict.text
    assert not result.local.fixed_group


@pytest.mark.slow
def test_at_a_large_budget_the_subset_resolves_what_it_separates() -> None:
    """The mean of rows 1 and 2 tells row 0 from both of them, and neither of the two from the other."""
    result = audited(VALUES, [[1, 2]], epsilon=1e4)
    assert result.local is not None
    assert (result.local.labels_open, result.local.labels_resolved) == (2, 1)
    assert "show whose 1 of them are" in result.verdict.text
    both = audited(VALUES, [[1, 2], [0, 2]], epsilon=1e4)
    assert both.local is not None
    assert (both.local.labels_open, both.local.labels_resolved) == (0, 3)
    assert "show whose they are, to an attacker who knows the values" in both.verdict.text


@pytest.mark.slow
def test_moments_alone_say_nothing_about_labels() -> None:
    result = audited(VALUES, [])
    assert result.local is not None
    assert result.local.labels_open is None
    assert "as one of a set, not whose it is" in result.verdict.text
    assert "over subsets" not in result.verdict.text


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_counts_are_those_of_exchanging_every_two_values(law: str) -> None:
    """Exchange two values, evaluate every release again, and measure the change in noise deviations."""
    generator = np.random.default_rng(3)
    accountant = {"accountant": "laplace"} if law == "laplace" else {}
    for trial in range(20):
        values = generator.uniform(-1, 1, 5).round(1).tolist()
        subsets = [sorted(generator.choice(5, 3, replace=False).tolist()) for _ in range(3)]
        epsilon = float(10 ** generator.uniform(1, 4))
        plan, membership, rows = hybrid(values, subsets, epsilon=epsilon, **accountant)
        pricing = price(plan, membership)  # type: ignore[arg-type]
        queries: list[sl.releases.Query] = [
            sl.Moment(order=order, members=range(5), bound=1.0) for order in (1, 2, 3)
        ]
        queries += [sl.SubsetMean(members=subset, radius=2.0) for subset in subsets]

        def answers(x: list[float], queries: list[sl.releases.Query] = queries) -> np.ndarray:
            return np.array([query.value(x)[0] for query in queries])

        limit = 2 * math.log(20) if law == "laplace" else 2 * 1.959964
        resolved = 0
        for i in range(5):
            distances = []
            for k in range(5):
                if values[k] != values[i]:
                    exchanged = list(values)
                    exchanged[i], exchanged[k] = values[k], values[i]
                    change = answers(exchanged) - answers(values)
                    distances.append(float(np.linalg.norm(change / pricing.scale)))
            resolved += min(distances, default=np.inf) >= limit
        found = label_counts(membership, pricing, rows, np.ones(5, dtype=bool))
        assert found is not None, trial
        assert (found.open, found.resolved) == (5 - resolved, resolved), trial


def test_a_known_row_is_not_confused_with_others() -> None:
    plan, membership, rows = hybrid(VALUES, [[1, 2], [2]], epsilon=1e4, known=(0,))
    pricing = price(plan, membership)  # type: ignore[arg-type]
    found = label_counts(membership, pricing, rows, np.ones(3, dtype=bool))
    assert found is not None
    assert found.open + found.resolved == 2


@pytest.mark.slow
def test_a_plan_in_sql_says_whose_values_the_subsets_show(tmp_path: Path) -> None:
    (tmp_path / "homes.csv").write_text("home,feeder,load\nA,n,-0.6\nB,s,0.1\nC,s,0.8\n")
    releases = ["AVG(POWER(load, 2))", "AVG(POWER(load, 3))", "AVG(load)"]
    lines = [
        f'[[release]]\nname = "r{i}"\nsql = "SELECT {sql} FROM data"\n' for i, sql in enumerate(releases)
    ]
    lines.append('[[release]]\nname = "south"\nsql = "SELECT AVG(load) FROM data WHERE feeder = \'s\'"\n')
    head = (
        '[data]\nsource = "homes.csv"\nrecord = "home"\nsecret = "load"\nbounds = [-1, 1]\n'
        "[privacy]\nepsilon = {epsilon}\ndelta = 1e-5\n"
    )
    for epsilon, text in ((1.0, "leave open whose they are"), (1e4, "show whose 1 of them are")):
        path = tmp_path / "plan.toml"
        path.write_text(head.format(epsilon=epsilon) + "".join(lines))
        result = sl.audit(path)
        assert text in result.verdict.text
        assert "local" in result.owner_only
