"""Every kind of unit with every noise, prior, store and solver, against twins made by hand.

The twin of a plan is a matrix of whole numbers that is read off the table here, not by the library. Who is
identifiable follows from its rank over the integers. The risk of the best linear attack follows from the
prior's covariance: no lower end may be above it, and the upper ends of numbers are it. Of secrets with few
values the twin lists all worlds: the risk of the posterior mean lies between both ends.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from flint import fmpz_mat

import sightline as sl
from sightline.auditing import work

CATEGORIES = ("a", "b", "c")
VARIANCES = {"uniform": 100 / 12, "cos2": 100 / 12 - 50 / math.pi**2, "two-point": 25.0}
UNITS = ("record", "yes or no", "category", "persons with rows", "persons with one value", "weighted rows")
NOISES = ("gaussian", "laplace", "mixed", "whole", "exact", "copies")
STORES = ("parquet", "duckdb", "streamed")
_DRAWS, _MOST_TERMS = 4_000, 10**7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Twin:
    """What is published, by hand: rows over columns in groups, one group for each person."""

    rows: np.ndarray  # whole numbers: published numbers × columns, without the columns of known rows
    variances: np.ndarray  # of the noise on each row
    kernel: np.ndarray  # the covariance of the columns is this, times ``variance``
    variance: float
    columns: dict[str, list[int]]  # of each person that is not known
    laws: tuple[str, ...]  # of the noise on each row; without copies, which are Gaussian
    values: tuple[tuple[float, ...], ...]  # what the columns of one person may hold; empty where that is much

    def identifiable(self, person: str) -> bool:
        """Whether some combination of a person's columns follows from the answers without noise."""
        seen = self.rows @ self.kernel
        own = self.kernel[self.columns[person]]
        return _rank(seen) + _rank(own) > _rank(np.vstack([seen, own]))

    def shares(self, person: str) -> np.ndarray:
        """What the best linear attack leaves of a person's columns: each, or for several rows the least."""
        covariance = self.variance * self.kernel
        total = self.rows @ covariance @ self.rows.T + np.diag(self.variances)
        left = (
            covariance
            - covariance @ self.rows.T @ np.linalg.pinv(total, 1e-13, True) @ self.rows @ covariance
        )
        own = np.ix_(self.columns[person], self.columns[person])
        if np.count_nonzero(self.kernel) == len(self.kernel):
            return np.linalg.eigvalsh(left[own])[:1] / self.variance
        return np.diagonal(left[own]) / np.diagonal(covariance[own])

    def best(self) -> tuple[np.ndarray, np.ndarray] | None:
        """What the posterior mean leaves of every column, and how far off the draws may be: over all worlds.

        Five standard errors, and what draws that are too rare to be met may leave. Nothing where worlds are
        too many.
        """
        people = len(self.columns)
        if not self.values:
            return None
        worlds = np.array([np.concatenate(one) for one in itertools.product(self.values, repeat=people)])
        # Worlds with the same answers are told apart by no draw: one line for all of them.
        means, answers, many = np.unique(
            worlds @ self.rows.T, axis=0, return_inverse=True, return_counts=True
        )
        first, second = (
            np.array([np.bincount(answers, column) for column in moments.T]).T / many[:, None]
            for moments in (worlds, worlds**2)
        )
        generator = np.random.default_rng(5)
        draws = max(400, min(_DRAWS, _MOST_TERMS // len(means)))
        exact, linear = self.variances == 0, np.isin(self.laws, ("laplace", "geometric"))
        # Of whole noise the chances of two worlds have the same ratio as of its continuous kin.
        each = [_drawn(law, v, draws, generator) for law, v in zip(self.laws, self.variances, strict=True)]
        spread, noises = np.array([one[0] for one in each]), np.array([one[1] for one in each]).T
        shares = []
        for truth, noise in zip(answers[generator.integers(len(worlds), size=draws)], noises, strict=True):
            offsets = (means[truth] + noise - means) / spread
            logs = -np.where(linear, np.abs(offsets), offsets**2 / 2)[:, ~exact].sum(axis=1)
            logs[np.any(np.abs(offsets[:, exact]) > 1e-6, axis=1)] = -np.inf
            chances = many * np.exp(logs - logs.max())
            chances /= chances.sum()
            shares.append(chances @ second - (chances @ first) ** 2)
        found = np.array(shares) / (self.variance * np.diagonal(self.kernel))
        return found.mean(axis=0), 5 * found.std(axis=0) / math.sqrt(draws) + 15 / draws


def _drawn(law: str, variance: float, draws: int, generator: np.random.Generator) -> tuple[float, np.ndarray]:
    """The scale of a law with some variance, and draws of its noise."""
    stddev = math.sqrt(variance)
    match law:
        case "laplace":
            return stddev / math.sqrt(2), generator.laplace(scale=stddev / math.sqrt(2), size=draws)
        case "geometric":  # two-sided: chances fall by exp(−1/b) from one whole number to the next
            ratio = (1 + variance - math.sqrt(1 + 2 * variance)) / variance
            first, second = generator.geometric(1 - ratio, size=(2, draws))
            return -1 / math.log(ratio), (first - second).astype(np.float64)
        case "discrete-gaussian":
            numbers = np.arange(-80.0, 81.0)
            chances = np.exp(-(numbers**2) / (2 * variance))
            return stddev, generator.choice(numbers, size=draws, p=chances / chances.sum())
    return stddev or 1.0, stddev * generator.standard_normal(draws)


def _rank(table: np.ndarray) -> int:
    return int(fmpz_mat([[int(entry) for entry in row] for row in table.tolist()]).rank())


def case_of(
    unit: str, noise: str, prior: str, known: bool
) -> tuple[dict[str, Any], dict[str, list[Any]], Twin]:
    """A plan without its source, the columns of its table, and its twin."""
    draw = Random(f"{unit} {noise} {prior} {known}")
    persons = unit.startswith("persons")
    count = 10
    who = [f"P{row // 2 if persons else row}" for row in range(count)]
    data: dict[str, Any] = {"record": "who", "secret": "x"}
    attacker: dict[str, Any] = {"knows": ["known = 1"]} if known else {}
    is_known = [known and who[row] in ("P1", "P4") for row in range(count)]
    columns: dict[str, list[Any]] = {"who": who, "known": [int(one) for one in is_known]}
    weights = [draw.choice([1, 2, 3]) if unit == "weighted rows" else 1 for _ in range(count)]
    match unit:
        case "yes or no":
            data["kind"], columns["x"], variance = "boolean", [draw.random() < 0.5 for _ in who], 0.25
        case "category":
            data["categories"], columns["x"] = list(CATEGORIES), [draw.choice(CATEGORIES) for _ in who]
            variance = 1 / len(CATEGORIES) ** 2
        case _:
            data["bounds"], attacker["prior"], variance = [0, 10], prior, VARIANCES[prior]
            values = {one: 10 * draw.random() for one in who}
            same = unit == "persons with one value"
            columns["x"] = [values[one] if same else 10 * draw.random() for one in who]
    if persons:
        data |= {"max_rows_per_record": 2, "values": "constant" if "one value" in unit else "independent"}
    if unit == "weighted rows":
        columns["w"] = weights
    releases, lines, variances, laws = [], [], [], []
    for place, groups in enumerate((3, 2, 4)):
        name = f"g{place}"
        columns[name] = [f"v{draw.randrange(groups)}" for _ in who]
        stated, stddev, times = _noise(draw, noise, place)
        mean = unit == "record" and noise not in ("exact", "whole") and place == 1
        counted = CATEGORIES[place % 2] if unit == "category" else None
        sql = f"SELECT {name}, {_aggregate(unit, mean, counted)} AS n FROM data GROUP BY {name}"
        releases.append({"name": f"r{place}", "sql": sql, "times": times, **stated})
        for value in sorted(set(columns[name])):
            inside = [row for row in range(count) if columns[name][row] == value]
            lines.append((inside, counted))
            variances.append((stddev * (len(inside) if mean else 1)) ** 2 / times)
            laws.append(stated.get("noise", {}).get("law", "gaussian"))
    twin = _twin(unit, who, is_known, weights, lines, np.array(variances), variance)
    twin = replace(twin, laws=tuple(laws), values=_values(unit, prior))
    plan = {"data": data, "release": releases, "attacker": attacker}
    return plan, columns, twin


def _values(unit: str, prior: str) -> tuple[tuple[float, ...], ...]:
    """What the columns of one person may hold, each with the same chance; empty where no world is listed."""
    if unit == "persons with rows":
        return ()
    if unit == "category":
        return tuple(tuple(map(float, line)) for line in np.eye(len(CATEGORIES)))
    if unit == "yes or no":
        return (0.0,), (1.0,)
    return ((0.0,), (10.0,)) if prior == "two-point" else ()


def _aggregate(unit: str, mean: bool, counted: str | None) -> str:
    if counted is not None:
        return f"COUNT(*) FILTER (WHERE x = '{counted}')"
    return {"yes or no": "COUNT(*) FILTER (WHERE x)", "weighted rows": "SUM(w * x)"}.get(
        unit, "AVG(x)" if mean else "SUM(x)"
    )


def _noise(draw: Random, noise: str, place: int) -> tuple[dict[str, Any], float, int]:
    """What the plan says of a release's noise, its standard deviation, and its copies."""
    stddev = 10 ** draw.uniform(-0.5, 0.7) if noise != "whole" else draw.uniform(1.6, 4)
    match noise:
        case "laplace":
            return {"noise": {"law": "laplace", "stddev": stddev}}, stddev, 1
        case "mixed":
            return {"noise": {"law": ("laplace", "gaussian")[place % 2], "stddev": stddev}}, stddev, 1
        case "whole":
            law = ("discrete-gaussian", "geometric")[place % 2]
            return {"noise": {"law": law, "stddev": stddev}}, stddev, 1
        case "exact" if place == 0:
            return {"noise": {"law": "none"}}, 0.0, 1
        case "copies":
            return {"noise_stddev": stddev}, stddev, 1 + 3 * place
    return {"noise_stddev": stddev}, stddev, 1


def _twin(
    unit: str,
    who: list[str],
    known: list[bool],
    weights: list[int],
    lines: list[tuple[list[int], str | None]],
    variances: np.ndarray,
    variance: float,
) -> Twin:
    each = len(CATEGORIES) if unit == "category" else 1
    left = [row for row in range(len(who)) if not known[row]]
    table = np.zeros((len(lines), len(left) * each), dtype=np.int64)
    for place, (inside, counted) in enumerate(lines):
        for column, row in enumerate(left):
            own = column * each + (CATEGORIES.index(counted) if counted is not None else 0)
            table[place, own] = weights[row] * (row in inside)
    persons = {person: [c for c, row in enumerate(left) if who[row] == person] for person in who}
    columns = {person: own for person, own in persons.items() if own}
    if unit == "persons with one value":
        table = np.array([table[:, own].sum(axis=1) for own in columns.values()]).T
        columns = {person: [place] for place, person in enumerate(columns)}
    if each > 1:
        columns = {
            person: [each * own[0] + place for place in range(each)] for person, own in columns.items()
        }
    block = each * np.eye(each, dtype=np.int64) - 1 if each > 1 else np.ones((1, 1), dtype=np.int64)
    kernel = np.kron(np.eye(table.shape[1] // each, dtype=np.int64), block)
    return Twin(
        rows=table,
        variances=variances,
        kernel=kernel,
        variance=variance,
        columns=columns,
        laws=(),
        values=(),
    )


def combinations() -> list[tuple[str, str, str, bool]]:
    """All of them that a plan can state."""
    found = []
    for unit in UNITS:
        counts = unit in ("yes or no", "category")
        for noise in NOISES:
            if noise == "whole" and not counts:
                continue  # whole numbers are added to whole numbers
            for prior in ("",) if counts else VARIANCES:
                found += [(unit, noise, prior, known) for known in (False, True)]
    return found


def audited(plan: dict[str, Any], source: object) -> sl.AuditResult:
    return sl.audit({**plan, "data": {"source": source, **plan["data"]}}, names=True, top=1000, limit=0.999)


def agrees(result: sl.AuditResult, twin: Twin, unit: str, noise: str, prior: str) -> None:
    assert result.identifiable_records == sum(twin.identifiable(person) for person in twin.columns)
    truths = {person: twin.shares(person) for person in twin.columns}
    least = result.least_remaining_uncertainty
    assert least is not None
    smallest = min(float(shares.min()) for shares in truths.values())
    assert least.lower <= smallest + 1e-9
    assert least.lower <= least.upper
    error = 1e-6 if noise != "exact" else 1e-4  # a little noise stands for none
    if unit == "persons with rows":
        # Of two values an attack that lists their worlds may leave less than the best linear one.
        assert prior == "two-point" or least.upper >= smallest - error
        return
    best = twin.best()
    for one in result.exposed:
        assert one.record is not None
        assert one.remaining_uncertainty is not None
        ends = one.remaining_uncertainty
        place = CATEGORIES.index(one.category) if one.category is not None else 0
        person = one.record.split(", ")[0]
        truth = float(truths[person][place])
        assert ends.lower <= truth + 1e-9
        if unit != "category":
            assert ends.upper <= truth + error
        if best is None:
            assert ends.upper >= truth - error
        else:
            mean, margin = (float(part[twin.columns[person][place]]) for part in best)
            assert ends.lower <= mean + margin + error
            assert ends.upper >= mean - margin - error


@pytest.mark.sampled(30)
@pytest.mark.parametrize(("unit", "noise", "prior", "known"), combinations())
def test_every_unit_with_every_noise_and_prior(unit: str, noise: str, prior: str, known: bool) -> None:
    plan, columns, twin = case_of(unit, noise, prior, known)
    agrees(audited(plan, pyarrow.table(columns)), twin, unit, noise, prior)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("store", STORES)
def test_every_unit_from_every_store(
    unit: str, store: str, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior = "" if unit in ("yes or no", "category") else "uniform"
    plan, columns, twin = case_of(unit, "gaussian", prior, known)
    table = pyarrow.table(columns)
    source: object = table
    if store == "duckdb":
        with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
            connection.register("held", table)
            connection.execute("CREATE TABLE t AS FROM held")
        source = f"{tmp_path}/t.duckdb::t"
    else:
        pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
        source = str(tmp_path / "t.parquet")
    expected = audited(plan, table)
    if store == "streamed":
        monkeypatch.setattr(work, "_PER_SIGNATURE", 1e18)
    got = audited(plan, source)
    agrees(got, twin, unit, "gaussian", prior)
    assert got.identifiable_records == expected.identifiable_records
    assert store == "streamed" or got.distribution == expected.distribution
    assert got.verdict.below_limit == expected.verdict.below_limit
