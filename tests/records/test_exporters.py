"""Exporters: against stored plans and records of the real libraries, and in environments that have them."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
from importlib import util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import dp_accounting
import duckdb
import numpy as np
import pytest
from dp_accounting import pld, rdp

import sightline as sl
from sightline.auditing.query_files import GivenPlan
from sightline.cli import main
from sightline.errors import InvalidPlan
from sightline.records.plan_from_records import records_plan
from sightline.records.release_record import ReleaseRecord, plan_of, read_record, record_of
from sightline.study_commands import LIBRARIES
from tests.records.environments import ENVIRONMENTS, FOLDER, Environment

ROOT = Path(__file__).parents[2]
FIXTURES = Path(__file__).parent / "fixtures"
EXPORTERS = ROOT / "src" / "sightline" / "records" / "exporters"
HOMES = "home,feeder,watts\n" + "".join(f"h{i},{'abcd'[i % 4]},{i * 977 % 9001}\n" for i in range(40))


def _module(library: str) -> ModuleType:
    spec = util.spec_from_file_location(f"export_{library}", EXPORTERS / f"{library}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_exporter_is_printed_as_it_is_and_imports_nothing_of_ours(
    library: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exporter", library]) == 0
    text = (EXPORTERS / f"{library}.py").read_text(encoding="utf-8")
    assert capsys.readouterr().out == text
    imported = {
        name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
    }
    standard = {
        "__future__",
        "collections.abc",
        "importlib.metadata",
        "io",
        "json",
        "math",
        "pathlib",
        "re",
        "typing",
    }
    assert imported - standard <= {"polars"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_versions_that_were_not_tested_are_refused(library: str, tmp_path: Path) -> None:
    module = _module(library)
    module.version = lambda _: "99.1"  # type: ignore[attr-defined]
    stated = {"record": "a", "secret": "b", "bounds": [0, 1]} if library == "dp_accounting" else {}
    with pytest.raises(module.CannotExport, match=r"got 99\.1"):
        module.write(tmp_path, None, **stated)


# OpenDP


def _stored(version: str, name: str) -> tuple[Any, Any]:
    """A query and its context, as far as the exporter reads them."""
    stored = json.loads((FIXTURES / f"opendp-{version}.json").read_text())["queries"][name]
    query = SimpleNamespace(
        polars_plan=SimpleNamespace(serialize=lambda format: json.dumps(stored["plan"])),
        summarize=lambda: SimpleNamespace(to_dicts=lambda: stored["summary"]),
    )
    accountant = SimpleNamespace(input_metric=stored["metric"], output_measure=stored["measure"])
    shares = stored["shares"]
    context = SimpleNamespace(d_in=stored["d_in"], d_mids=shares, d_mids_consumed=[], accountant=accountant)
    return query, context


def _exported(tmp_path: Path, version: str, name: str, **stated: Any) -> ReleaseRecord:
    module = _module("opendp")
    module.version = lambda _: version  # type: ignore[attr-defined]
    query, context = _stored(version, name)
    (path,) = module.write(tmp_path, context, record="home", **stated, **{name: query})
    with pytest.raises(FileExistsError):
        module.write(tmp_path, context, record="home", **stated, **{name: query})
    return read_record(path)


_SUM = 'SUM(LEAST(GREATEST(COALESCE("watts", 0), 0), 9000))'
_B = 27000.000000000007  # OpenDP's scale of a sum at a third of ε = 1


def _discrete(b: float) -> float:
    """The deviation of geometric noise of scale b: Σ k² e^(−|k|/b) over Σ e^(−|k|/b)."""
    q = math.exp(-1 / b)
    return math.sqrt(2 * q) / (1 - q)


OPENDP = {
    "by_feeder": (
        f'SELECT "feeder", {_SUM} AS "watts" FROM data GROUP BY "feeder"',
        [("discrete-gaussian", "watts", 9000 * math.sqrt(3))],
    ),
    "mean": (
        f'SELECT "feeder", {_SUM} AS "m_sum", COUNT(*) AS "m_count" FROM data GROUP BY "feeder"',
        [("discrete-gaussian", "m_sum", 9000 * math.sqrt(6)), ("discrete-gaussian", "m_count", math.sqrt(6))],
    ),
    "total": (
        f'SELECT {_SUM} AS "all", COUNT(*) AS "len" FROM data '
        "WHERE ((\"feeder\" <> 'd') AND (\"home\" > 'h1'))",
        [("geometric", "all", _discrete(54_000)), ("geometric", "len", _discrete(6))],
    ),
    "computed": (
        'SELECT SUM(LEAST(GREATEST(LEAST(GREATEST(COALESCE("watts", 0), 0), 9000), 0), 9000)) AS "watts" '
        "FROM data",
        [("geometric", "watts", _discrete(_B))],
    ),
    "keys": (
        'SELECT "feeder", COUNT(*) AS "len" FROM data '
        """WHERE "feeder" IN ('a', 'b''x') GROUP BY "feeder\"""",
        [("geometric", "len", _discrete(3))],
    ),
    "count": ('SELECT COUNT("watts") AS "watts" FROM data', [("geometric", "watts", _discrete(3))]),
    "float": (
        'SELECT SUM(LEAST(GREATEST(COALESCE("watts", 0.0), 0.0), 9000.0)) AS "watts" FROM data',
        [("laplace", "watts", 27_000 * math.sqrt(2))],
    ),
}


STORED = [
    *(("0.16.0", name) for name in OPENDP),
    *(("0.14.1", name) for name in ("by_feeder", "mean", "total")),
]


@pytest.mark.parametrize(("version", "name"), STORED)
def test_what_opendp_plans_is_read_back(version: str, name: str, tmp_path: Path) -> None:
    record = _exported(tmp_path, version, name)
    sql, noises = OPENDP[name]
    assert record.release.sql == sql
    assert [(noise.law.value, noise.label) for noise in record.release.noise] == [one[:2] for one in noises]
    assert [noise.stddev for noise in record.release.noise] == pytest.approx(
        [one[2] for one in noises], rel=1e-6
    )
    assert record.about.engine == f"opendp {version}"
    assert record.about.neighbours == "add-remove"
    third = {"rho": 1 / 6} if name in ("by_feeder", "mean") else {"epsilon": 1 / 3}
    assert record.about.privacy_parameters.model_dump() == pytest.approx(third)
    if name not in ("keys", "count"):
        assert record.data == {"record": "home", "secret": "watts", "bounds": [0.0, 9000.0]}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("median", "median: expected sums, means and counts, got dp_median"),
        ("doubled", "expected columns, constants, comparisons, fill_null and clip, got BinaryExpr"),
        ("truncated", "rows are sampled where somebody has too many"),
        ("threshold", "groups are hidden where a noisy count is small"),
    ],
)
def test_what_cannot_be_read_back_is_refused(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        _exported(tmp_path, "0.16.0", name)
    assert not list(tmp_path.iterdir())


def test_hidden_groups_become_withhold(tmp_path: Path) -> None:
    record = _exported(tmp_path, "0.16.0", "threshold", hidden={"threshold": [["d"]]})
    assert record.release.withhold == (("d",),)
    assert record.release.hidden_by_noise
    assert (record.about.facts["withhold"], record.about.facts["hidden_by_noise"]) == ("stated", "read")
    given = GivenPlan(record="home", secret="watts", bounds=(0, 9000))
    plan = plan_of({"threshold.json": record}, source="homes.csv", given=given)
    assert plan.releases == (record.release,)


def test_a_plan_that_holds_rows_is_refused(tmp_path: Path) -> None:
    import io

    import polars

    module = _module("opendp")
    query, _ = _stored("0.16.0", "by_feeder")
    plan = json.loads(query.polars_plan.serialize(format="json"))
    file = io.BytesIO()
    polars.DataFrame({"home": ["h1"], "feeder": ["a"], "watts": [5]}).write_ipc_stream(file)
    plan["GroupBy"]["input"]["DataFrameScan"]["df"] = list(file.getvalue())
    with pytest.raises(module.CannotExport, match="holds rows of the table"):
        module._Plan(plan)


# dp_accounting, which is installed


def _composed() -> Any:
    accountant = pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(2.0))
    accountant.compose(dp_accounting.LaplaceDpEvent(3.0), 4)
    inner = dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(5.0), dp_accounting.NoOpDpEvent()])
    return accountant.compose(inner)


ABOUT = {"record": "home", "secret": "watts", "bounds": [0, 9000]}
QUERIES = {
    "a": "SELECT SUM(watts) FROM data",
    "b": "SELECT AVG(watts) FROM data",
    "c": "SELECT SUM(watts) FROM data",
}


def test_the_ledger_of_an_accountant(tmp_path: Path) -> None:
    records = [
        read_record(p) for p in _module("dp_accounting").write(tmp_path, _composed(), **ABOUT, **QUERIES)
    ]
    found = [
        (r.release.noise[0].law.value, r.release.noise[0].noise_multiplier, r.release.times) for r in records
    ]
    assert found == [("gaussian", 2.0, 1), ("laplace", 3.0, 4), ("gaussian", 5.0, 1)]
    (tmp_path / "homes.csv").write_text(HOMES)
    plan = plan_of({r.release.name: r for r in records}, source=str(tmp_path / "homes.csv"))
    result = sl.audit(plan)
    # Two Gaussian releases and four Laplace ones, at the delta of the plan.
    assert result.budget.spent["zcdp"] == pytest.approx(_zcdp([1 / 8, 1 / 50], [1 / 3] * 4, 1e-6), rel=1e-4)
    with pytest.raises(ValueError, match="a query for each of 3 events, got 1"):
        _module("dp_accounting").write(tmp_path / "x", _composed(), **ABOUT, a="SELECT 1")
    pairs = pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(2.0), 2)
    pairs.compose(dp_accounting.LaplaceDpEvent(3.0), 4)
    with pytest.raises(ValueError, match=r"each of 2 events, got 3; .* a query for each of all 6 times"):
        _module("dp_accounting").write(tmp_path / "x", pairs, **ABOUT, **QUERIES)
    names = {f"q{place}": QUERIES["ab"[place > 0]] for place in range(6)}
    paths = _module("dp_accounting").write(tmp_path / "x", pairs, **ABOUT, **names)
    each = [read_record(path).release for path in paths]
    assert [one.noise[0].law.value for one in each] == ["gaussian"] * 2 + ["laplace"] * 4
    assert [(one.sql, one.times) for one in each] == [(sql, 1) for sql in names.values()]
    exact = rdp.RdpAccountant().compose(dp_accounting.GaussianDpEvent(0.0))
    with pytest.raises(ValueError, match="a: expected noise, got a multiplier of 0"):
        _module("dp_accounting").write(tmp_path / "y", exact, **ABOUT, a="SELECT SUM(watts) FROM data")


def test_whole_noise_that_smartnoise_does_not_have_is_refused() -> None:
    """Old versions draw geometric noise on whole numbers; what 1.0.10 calls so is Laplace noise."""
    module = _module("smartnoise")
    for name in ("geometric", "discrete_gaussian"):
        mechanism = SimpleNamespace(mechanism=SimpleNamespace(name=name), scale=9000.0)
        with pytest.raises(module.CannotExport, match=f"expected Laplace or Gaussian noise, got '{name}'"):
            module._noise(mechanism, "s")


def test_what_smartnoise_itself_has_no_noise_for_is_said_in_its_words() -> None:
    """Version 1.0.10 finds no Gaussian noise for a sum of bounds 0 to 9000 at epsilon = 1."""

    def none_found(query: object) -> None:
        raise ValueError("Unable to find appropriate noise scale\nand more lines")

    reader = SimpleNamespace(_rewrite=lambda sql: (None, None), _get_mechanisms=none_found)
    module = _module("smartnoise")
    with pytest.raises(
        module.CannotExport, match=r"has noise for, got: Unable to find appropriate noise scale$"
    ):
        module._record("s", "SELECT SUM(watts) AS s FROM homes", reader, None)


def rounded_up(epsilon: float) -> float:
    """A cost as it is printed: to three digits, never less than it is."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return round(math.ceil(epsilon / unit - 1e-9) * unit, 9)


def _zcdp(rhos: list[float], pure: list[float], delta: float) -> float:
    """The better of: all as zCDP, or the Gaussian ones as zCDP and the pure epsilons on top."""
    every = sum(rhos) + sum(e**2 / 2 for e in pure)
    each = [_epsilon(every, delta), _epsilon(sum(rhos), delta) + sum(pure)]
    return min(each)


def _epsilon(rho: float, delta: float) -> float:
    """The tight conversion of zCDP, on a grid."""
    orders = [1 + 0.01 * step for step in range(1, 10_000)]
    return min(a * rho + math.log1p(-1 / a) - math.log(a * delta) / (a - 1) for a in orders)


def test_a_sensitivity_is_needed_where_zero_is_inside(tmp_path: Path) -> None:
    write, about = _module("dp_accounting").write, {**ABOUT, "bounds": [-100, 9000]}
    with pytest.raises(ValueError, match="a: expected sensitivity="):
        write(tmp_path, _composed(), **about, **QUERIES)
    sizes = {"a": 9000, "b": 1000, "c": 9000}
    paths = write(tmp_path, _composed(), **about, sensitivity=sizes, **QUERIES)
    stddevs = [read_record(path).release.noise[0].stddev for path in paths]
    assert stddevs == pytest.approx([18_000, 3000 * math.sqrt(2), 45_000])


@pytest.mark.parametrize(
    "event",
    [
        dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(1.0)),
        dp_accounting.SingleEpochTreeAggregationDpEvent(1.0, [4]),
        dp_accounting.SelfComposedDpEvent(dp_accounting.ZCDpEvent(0.5), 3),
    ],
    ids=lambda event: type(event).__name__,
)
def test_other_events_are_refused(event: Any, tmp_path: Path) -> None:
    accountant = SimpleNamespace(ledger=event, neighboring_relation=SimpleNamespace(name="ADD_OR_REMOVE_ONE"))
    with pytest.raises(ValueError, match="expected Gaussian and Laplace events"):
        _module("dp_accounting").write(tmp_path, accountant, **ABOUT, a="SELECT SUM(watts) FROM data")


# Tumult, as far as the exporter reads its objects


def _node(kind: str, **parts: Any) -> Any:
    return type(kind, (), parts)()


def _tumult(*steps: Any, protected: str = "SymmetricDifference", most: int = 1) -> Any:
    """The SQL of a sum after some steps, and the data, as exported."""
    child = _node("PrivateSource")
    for kind, part in steps:
        name = "condition" if kind == "Filter" else "replace_with"
        child = _node(kind, child=child, **{name: part})
    total = _node(
        "GroupByBoundedSum",
        child=child,
        groupby_keys=(),
        output_column="s",
        measure_column="watts",
        low=0,
        high=9000,
    )
    metric = SimpleNamespace(key_to_metric={"homes": _node(protected)})
    noise = {"noise_mechanism": SimpleNamespace(name="GEOMETRIC"), "noise_parameter": 9000}
    session = SimpleNamespace(
        _accountant=SimpleNamespace(input_metric=metric, d_in={"homes": most}),
        _noise_info=lambda query, budget: [noise],
    )
    query, budget = SimpleNamespace(_query_expr=total), SimpleNamespace(epsilon=1)
    return _module("tumult")._record("total", query, budget, session, "home")


def test_counts_that_tumult_suppresses_are_taken_as_published() -> None:
    counts = _node("GroupByCount", child=_node("PrivateSource"), groupby_keys=(), output_column="n")
    noise = [{"noise_mechanism": SimpleNamespace(name="GEOMETRIC"), "noise_parameter": 2.0}]
    accountant = SimpleNamespace(
        input_metric=SimpleNamespace(key_to_metric={"homes": _node("SymmetricDifference")}), d_in={"homes": 1}
    )
    session = SimpleNamespace(_noise_info=lambda *_: noise, _accountant=accountant)
    budget = SimpleNamespace(epsilon=0.5)
    suppressed = _node("SuppressAggregates", child=counts, column="n", threshold=10.0)
    found = [
        _module("tumult")._record("n", SimpleNamespace(_query_expr=one), budget, session, None)
        for one in (counts, suppressed)
    ]
    assert found[0] == found[1]
    assert found[0]["release"]["sql"] == 'SELECT COUNT(*) AS "n" FROM data'


def test_the_steps_before_a_sum_by_tumult_keep_their_order() -> None:
    made = _tumult(
        ("Filter", "feeder <> 'd' AND home IN ('h1', 'h2')"),
        ("Filter", "watts > -5"),
        ("ReplaceNullAndNan", {"watts": 7}),
        ("ReplaceNullAndNan", {"watts": 8}),
        most=3,
    )
    assert made["release"]["sql"] == (
        'SELECT SUM(LEAST(GREATEST(COALESCE("watts", 7), 0), 9000)) AS "s" FROM data '
        "WHERE (feeder <> 'd' AND home IN ('h1', 'h2')) AND (watts > -5)"
    )
    assert made["data"]["max_rows_per_record"] == 3
    (noise,) = made["release"]["noise"]
    assert noise["stddev"] == pytest.approx(_discrete(9000))
    assert record_of(made).release.noise[0].law.value == "geometric"


@pytest.mark.parametrize(
    ("steps", "protected"),
    [
        ([("ReplaceNullAndNan", {"watts": 7}), ("Filter", "watts > 5")], "SymmetricDifference"),
        ([("ReplaceNullAndNan", {"feeder": "a"})], "SymmetricDifference"),
        ([("ReplaceNullAndNan", {})], "SymmetricDifference"),
        ([("Map", {})], "SymmetricDifference"),
        ([], "IfGroupedBy"),
        *(
            ([("Filter", text)], "SymmetricDifference")
            for text in (
                'feeder = "d"',  # a text in Spark, a column elsewhere
                "feeder = 'a''b'",  # two texts in Spark
                "feeder = 'a\\b'",
                "feeder <=> 'a'",
                "rand() < 0.5",
                "`feeder` = 'a'",
                "watts > 5 -- AND",
            )
        ),
    ],
)
def test_what_tumult_means_otherwise_is_refused(steps: list[Any], protected: str) -> None:
    with pytest.raises(ValueError, match=r"expected (filters|a filter|one private table)"):
        _tumult(*steps, protected=protected)


# Records that the libraries wrote


BY_HAND = {
    "opendp-0.16.0": (15_588.457, "discrete-gaussian"),  # ρ = 1/6: 9000 √3
    "smartnoise-sql-1.0.10": (9000 * math.sqrt(2), "laplace"),  # ε = 1: b = 9000
    "dp-accounting-0.6.0": (None, "gaussian"),
    "tmlt.analytics-0.21.0": (math.sqrt(405e6), "discrete-gaussian"),  # ρ = 0.1: 9000²/2ρ
}


@pytest.mark.parametrize("name", BY_HAND)
def test_three_releases_of_every_library_pass(name: str, tmp_path: Path) -> None:
    records = {path.name: read_record(path) for path in sorted((FIXTURES / name).glob("*.json"))}
    assert sorted(records) == ["by_feeder.json", "mean.json", "total.json"]
    stddev, law = BY_HAND[name]
    (noise,) = records["by_feeder.json"].release.noise
    assert noise.law.value == law
    assert noise.stddev == (0.0 if stddev is None else pytest.approx(stddev, rel=1e-7))
    (tmp_path / "homes.csv").write_text(HOMES)
    result = sl.audit(plan_of(records, source=str(tmp_path / "homes.csv")))
    assert result.verdict.passed, result.verdict.text
    assert result.least_remaining_uncertainty is not None
    least = result.least_remaining_uncertainty
    assert round(100 * least.lower) >= 93
    assert round(100 * least.upper) <= 97
    assert least.upper == pytest.approx(_linear_risk(*IN_SUMS[name]), rel=1e-6)


# By library: σ of the sums by feeder, those of the sums of everybody, and whether feeder d is left out there.
IN_SUMS: dict[str, tuple[list[float], list[float], bool, bool]] = {
    "opendp-0.16.0": ([9000 * math.sqrt(3), 9000 * math.sqrt(6)], [9000 * math.sqrt(6)], False, True),
    "smartnoise-sql-1.0.10": ([9000 * math.sqrt(2)], [9000 * math.sqrt(2)] * 2, False, False),
    "dp-accounting-0.6.0": ([18_000.0], [27_000 * math.sqrt(2), 18_000.0, 18_000.0], False, False),
    "tmlt.analytics-0.21.0": ([math.sqrt(405e6), math.sqrt(202.5e6)], [math.sqrt(405e6)], True, True),
}


def _linear_risk(by_feeder: list[float], of_all: list[float], without_d: bool, whole: bool) -> float:
    """The least share of a home's variance that the best linear attack leaves, by dense algebra."""
    homes = np.arange(40)
    feeders = [(homes % 4 == place).astype(float) for place in range(4)]
    everybody = (homes % 4 < 3).astype(float) if without_d else np.ones(40)
    seen = np.array([*(row for _ in by_feeder for row in feeders), *(everybody for _ in of_all)])
    noise = np.diag(np.square([*np.repeat(by_feeder, 4), *of_all]))
    variance = 9000 * 9002 / 12 if whole else 9000**2 / 12
    gain = variance * seen.T @ np.linalg.inv(variance * seen @ seen.T + noise) @ seen
    return float(1 - np.diag(gain).max())


def test_the_sum_of_a_mean_by_tumult_is_centred() -> None:
    """At ρ = 0.05 for each of the two: 4500²/2ρ, and 1/2ρ."""
    record = read_record(FIXTURES / "tmlt.analytics-0.21.0" / "mean.json")
    variances = [(noise.stddev or 0) ** 2 for noise in record.release.noise]
    assert variances == pytest.approx([202_500_000, 10])


def test_the_libraries_epsilon_and_ours_differ_by_the_counts(tmp_path: Path) -> None:
    """SmartNoise counts a sum and a count at ε = 1 each; the count protects who is in the table."""
    paths = [FIXTURES / "smartnoise-sql-1.0.10" / f"{name}.json" for name in ("mean", "total")]
    records = {path.name: read_record(path) for path in paths}
    theirs = sum(record.about.privacy_parameters.epsilon or 0 for record in records.values())
    (tmp_path / "homes.csv").write_text(HOMES)
    plan = plan_of(records, source=str(tmp_path / "homes.csv"))
    ours = min(sl.audit(plan).budget.spent.values())
    assert theirs == pytest.approx(4.0)
    assert ours == pytest.approx(2.0, rel=1e-6)
    given = GivenPlan(table=str(tmp_path / "homes.csv"))
    made = records_plan(paths, out=tmp_path / "plan.toml", given=given)
    assert "epsilon = 4 at delta = 1e-06, added up; the audit counts epsilon = 2 at" in made.notes[-2]
    assert "protects who is in the table: its noisy counts cost, too; the audit counts" in made.notes[-1]
    assert made.notes[-2] in made.text


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        # OpenDP: ρ = 1/6 each, of which the counts in two of them have half.
        ("opendp-0.16.0", _epsilon(1 / 2, 1e-6), _epsilon(1 / 3, 1e-6)),
        # SmartNoise: ε = 1 for each of three sums and two counts, as its page says.
        ("smartnoise-sql-1.0.10", 5.0, 3.0),
        # Tumult: ρ = 0.3. Another value moves the centred sum by 9000, not by 4500: 0.1 + 0.1 + 0.2.
        ("tmlt.analytics-0.21.0", _epsilon(0.3, 1e-6), _epsilon(0.4, 1e-6)),
    ],
)
def test_what_each_library_counts_and_what_the_audit_does(
    name: str, theirs: float, ours: float, tmp_path: Path
) -> None:
    paths = sorted((FIXTURES / name).glob("*.json"))
    (tmp_path / "homes.csv").write_text(HOMES)
    given = GivenPlan(table=str(tmp_path / "homes.csv"))
    line = records_plan(paths, out=tmp_path / "plan.toml", given=given).notes[-2]
    library, _, audit = line.partition(", added up; the audit counts ")
    assert f"epsilon = {rounded_up(theirs):g} at delta = " in library
    assert audit.startswith(f"epsilon = {rounded_up(ours):g} at delta = ")
    page = (ROOT / "docs" / "libraries.md").read_text()
    assert " ".join(page.split()).count("counts ε = 5.0 for these three, the audit 3.0") == 1


def test_an_accountant_s_events_are_counted_as_rho_and_epsilon(tmp_path: Path) -> None:
    """Three Gaussian events of ρ = 1/8 and a Laplace one of ε = 1/3; the library's own figure is below."""
    paths = sorted((FIXTURES / "dp-accounting-0.6.0").glob("*.json"))
    (tmp_path / "homes.csv").write_text(HOMES)
    given = GivenPlan(table=str(tmp_path / "homes.csv"))
    line = records_plan(paths, out=tmp_path / "plan.toml", given=given).notes[-2]
    theirs = _zcdp([1 / 8] * 3, [1 / 3], 1e-6)
    assert (
        f"rho = 0.375 and epsilon = 0.334, which is epsilon = {rounded_up(theirs):g} at delta = 1e-06" in line
    )
    accountant = pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(2.0), 3)
    accountant.compose(dp_accounting.LaplaceDpEvent(3.0))
    own = accountant.get_epsilon(1e-6)
    assert own < theirs
    ours = float(line.partition("the audit counts epsilon = ")[2].split()[0])
    assert ours == pytest.approx(own, rel=0.01)  # both add up losses; a mean has the sensitivity of its sum
    assert "(accountant: optimal)" in line


def test_records_that_count_epsilon_and_records_that_count_rho(tmp_path: Path) -> None:
    """ρ = 1/6 by OpenDP, and ε = 2 at δ = 5e-7 by SmartNoise, whose δ is on top of that of the conversion."""
    paths = [FIXTURES / "opendp-0.16.0" / "by_feeder.json", FIXTURES / "smartnoise-sql-1.0.10" / "total.json"]
    (tmp_path / "homes.csv").write_text(HOMES)
    given = GivenPlan(table=str(tmp_path / "homes.csv"))
    line = records_plan(paths, out=tmp_path / "plan.toml", given=given).notes[-2]
    theirs = _zcdp([1 / 6], [2.0], 5e-7)
    assert (
        f"rho = 0.167 and epsilon = 2, which is epsilon = {rounded_up(theirs):g} at delta = 1e-06, added"
        in line
    )
    assert re.search(r"the audit counts epsilon = [\d.]+ at delta = 5e-07", line)


def test_times_is_how_often_with_fresh_noise_of_that_size(tmp_path: Path) -> None:
    """An event that happened twice is two events of one time each, for both counts and for what is left."""
    (tmp_path / "homes.csv").write_text(HOMES)
    given = GivenPlan(table=str(tmp_path / "homes.csv"))
    write, found = _module("dp_accounting").write, []
    accountant = pld.PLDAccountant()
    for _ in range(2):  # the ledger makes one event of both
        accountant.compose(dp_accounting.GaussianDpEvent(2.0))
    for name, repeated in (("once", 1), ("twice", 2)):
        queries = {f"q{place}": "SELECT SUM(watts) FROM data" for place in range(3 - repeated)}
        paths = write(tmp_path / name, accountant, **ABOUT, **queries)
        records = {path.name: read_record(path) for path in paths}
        assert {one.release.times for one in records.values()} == {repeated}
        assert {one.about.privacy_parameters.rho for one in records.values()} == {1 / 8}  # each time
        result = sl.audit(plan_of(records, source=str(tmp_path / "homes.csv")))
        assert result.least_remaining_uncertainty is not None
        line = records_plan(paths, out=tmp_path / "plan.toml", given=given).notes[-2]
        found.append((result.least_remaining_uncertainty.upper, result.budget.spent["zcdp"], line))
    assert found[0][:2] == pytest.approx(found[1][:2], rel=1e-9)
    assert found[0][2] == found[1][2]
    assert found[0][1] == pytest.approx(_zcdp([1 / 8, 1 / 8], [], 1e-6), rel=1e-4)


def test_rows_that_would_have_been_sampled_are_refused(tmp_path: Path) -> None:
    """A record of one row a person, and a table in which somebody has two."""
    record = read_record(FIXTURES / "smartnoise-sql-1.0.10" / "by_feeder.json")
    (tmp_path / "homes.csv").write_text(HOMES + "h1,a,5\n")
    with pytest.raises(InvalidPlan, match="max_rows_per_record"):
        sl.audit(plan_of({"a": record}, source=str(tmp_path / "homes.csv")))


# In environments of their own


# What the libraries' own objects say of each release: its scales, and the groups that are published.
# dp_accounting knows no groups; it says how often each event happened.
_OWN = {
    "opendp": """
for name, query in {"by_feeder": by_feeder, "total": total, "mean": mean}.items():
    frame = query.release().collect()
    groups = frame["feeder"].to_list() if "feeder" in frame.columns else []
    own[name] = [row["scale"] for row in query.summarize().to_dicts()], groups
""",
    "smartnoise": """
for name, sql in queries.items():
    head, *rows = reader.execute(sql)
    groups = [row[0] for row in rows] if head[0] == "feeder" else []
    own[name] = [one.scale for one in reader._get_mechanisms(reader._rewrite(sql)[0]) if one], groups
""",
    "tumult": """
for name, query in queries.items():
    scales = [float(one["noise_parameter"]) for one in session._noise_info(query, budget)]
    frame = session.evaluate(query, budget)
    own[name] = scales, [row[0] for row in frame.collect()] if "feeder" in frame.columns else []
""",
    "dp_accounting": """
for name, event in zip(queries, accountant.ledger.events):
    own[name] = [getattr(event, "event", event).noise_multiplier], getattr(event, "count", 1)
""",
}
# The same by hand. OpenDP: σ at ρ = 1/6, half of it for each of a sum and a count. SmartNoise: b at ε = 1.
# Tumult: σ² at ρ = 0.1; a mean's sum is centred, and it and the count get half each.
SCALES = {
    "opendp": {
        "by_feeder": [15_588.457],
        "total": [9000 * math.sqrt(6), math.sqrt(6)],
        "mean": [9000 * math.sqrt(6), math.sqrt(6)],
    },
    "smartnoise": {"by_feeder": [9000], "total": [9000, 1], "mean": [9000, 1]},
    "tumult": {"by_feeder": [405_000_000], "total": [405_000_000], "mean": [202_500_000, 10]},
    "dp_accounting": {"by_feeder": [2], "total": [3], "mean": [2]},
}


def _scale(library: str, noise: Any) -> float:
    """What a library calls the scale of some noise of a record."""
    if library == "dp_accounting":
        return float(noise.noise_multiplier)
    return float(
        {"opendp": noise.stddev, "smartnoise": noise.stddev / math.sqrt(2)}.get(library, noise.stddev**2)
    )


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: one.name)
def test_the_page_of_a_library_runs_with_it(
    environment: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not environment.python.exists():
        pytest.skip(f"no {environment.name} below {FOLDER}: python -m tests.records.environments makes it")
    monkeypatch.chdir(tmp_path)
    library = environment.exporter
    Path("homes.csv").write_text(HOMES)
    assert main(["exporter", library]) == 0
    Path(f"export_{library}.py").write_text(capsys.readouterr().out)
    script = (ROOT / "docs" / "libraries" / f"publish_with_{library}.py").read_text()
    Path("publish.py").write_text(
        f"{script}\nimport json\nown = {{}}\n{_OWN[library]}\nprint(json.dumps(own))\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [environment.python, "-W", "ignore", "publish.py"],
        capture_output=True,
        text=True,
        env=clean,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    page = (ROOT / "docs" / "libraries.md").read_text()
    assert f"`sightline exporter {library} > export_{library}.py`" in page
    for command in [line[2:].split() for line in page.splitlines() if line.startswith("$ sightline")]:
        assert main([word.strip("'") for word in command[1:]]) == 0
    shown = capsys.readouterr()
    assert "PASSED" in shown.out
    assert re.search(r"In all the library counts .*epsilon = .*; the audit counts epsilon = ", shown.err)
    result = sl.audit("plan.toml", full=True)
    assert result.least_remaining_uncertainty is not None
    least = result.least_remaining_uncertainty
    assert 93 <= round(100 * least.lower) <= round(100 * least.upper) <= 97
    outputs = {one.name: one.outputs for one in result.releases}
    own = json.loads(done.stdout.strip().splitlines()[-1])
    assert own.keys() == SCALES[library].keys()
    for name, (scales, groups) in own.items():
        release = read_record(Path("releases") / f"{name}.json").release
        found = [_scale(library, noise) for noise in release.noise]
        assert found == pytest.approx(scales, rel=1e-9)
        assert found == pytest.approx(SCALES[library][name], rel=1e-7)
        rows = duckdb.execute(release.sql.replace("FROM data", "FROM 'homes.csv'")).fetchall()
        if library == "dp_accounting":
            assert release.times == groups
        else:
            assert sorted(groups) == sorted(row[0] for row in rows if len(rows) > 1)
        assert outputs[release.name] == len(rows)  # each time
    stored = FIXTURES / environment.name
    if stored.exists():  # what other tests read is what the library writes
        for path in stored.iterdir():
            assert json.loads((Path("releases") / path.name).read_text()) == json.loads(path.read_text())


def test_the_record_on_the_page_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    text = page.partition("```json\n")[2].partition("```")[0]
    assert record_of(json.loads(text)).missing == ()
    monkeypatch.chdir(tmp_path)
    Path("by_feeder.json").write_text(text)
    Path("homes.csv").write_text(HOMES)
    for line in page.partition("```console\n")[2].partition("```")[0].splitlines():
        if line.startswith("$ "):
            assert main([word.strip("'") for word in line.split()[2:]]) == 0
        else:
            assert line in capsys.readouterr().out
