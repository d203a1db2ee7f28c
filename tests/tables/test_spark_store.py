"""Passes over signatures on Spark: the arrays of one process, and nothing of one record on the driver."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import sightline as sl
from sightline.auditing import streamed_findings, work
from sightline.auditing.streamed_findings import ExposureScan, UnitPass
from sightline.errors import InvalidInput, InvalidPlan, TooMuchWork
from sightline.progress import reporting
from sightline.tables.cells import CellSizes
from sightline.tables.engines import spark_store
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Arrays, SignatureBatch, SignatureStore, StoringEngine, folded
from sightline.tables.engines.spark_store import PartsOnWorker, SignaturesOnWorker, parts_of, refuse
from sightline.tables.streamed import Ranks
from tests.auditing.test_streamed_audit import assert_same, in_memory_and_streamed, persons_plan
from tests.tables.test_signature_store import EDGES, Case, brackets_of, costs_of, made_of, products_of

QUERY = "SELECT w0, w1, n, known FROM data"


def table_of(case: Case) -> pa.Table:
    columns = {"w0": case.words[0], "w1": case.words[1], "n": case.counts, "known": case.known}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


@pytest.fixture(scope="module")
def case() -> Case:
    return Case(4, rows=500)


@pytest.fixture(scope="module")
def store(
    spark_session: Any, case: Case, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SignatureStore]:
    """The signatures of the case in five tasks."""
    path = tmp_path_factory.mktemp("signatures") / "signatures.parquet"
    parquet.write_table(table_of(case), path)
    spark_session.read.parquet(str(path)).repartition(5).createOrReplaceTempView("signatures")
    engine = open_source(spark_session, base=Path(), table="signatures")
    assert isinstance(engine, StoringEngine)
    found = engine.store_signatures(QUERY, columns=("w0", "w1", "n", "known"))
    yield found
    found.close()
    found.close()
    engine.close()


def in_order(arrays: Arrays) -> dict[str, np.ndarray]:
    """Signatures in the order of their words: a pass keeps them in no particular one."""
    if "words" not in arrays:
        return dict(arrays)
    order, count = np.lexsort(arrays["words"]), arrays["words"].shape[1]
    return {name: own[..., order] if own.shape[-1] == count else own for name, own in arrays.items()}


class Rows:
    """Counts signatures and rows."""

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        return {"rows": np.array([len(batch), batch.counts.sum()])}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {"rows": first["rows"] + second["rows"]}


def test_passes_give_the_bits_of_one_process_and_collect_no_signature(
    store: SignatureStore, case: Case, rows_on_the_driver: list[int]
) -> None:
    cells = case.cells()
    brackets = brackets_of(case, cells, "gaussian", "uniform", batch=100)
    costs = np.random.default_rng(1).random(int(cells.widths.sum()))
    passes = [
        CellSizes(layouts=case.layouts),
        UnitPass(made=made_of(cells), reduction=products_of(cells, case)),
        Ranks(words=case.words[:, 5:9]),
        ExposureScan(
            made=made_of(cells),
            brackets=brackets,
            most=3,
            edges=EDGES,
            limit=0.5,
            costs=costs_of(cells, costs),
            moves=costs_of(cells, np.full(int(cells.widths.sum()), np.inf)),
            always=case.words[:, :1],
        ),
    ]
    assert store.signatures == case.counts.size
    for one in passes:
        expected, got = in_order(case.store(1000).run(one, "")), in_order(store.run(one, ""))
        assert expected.keys() == got.keys()
        for name, values in expected.items():
            assert np.array_equal(values, got[name]), name
            assert values.dtype == got[name].dtype
    assert rows_on_the_driver == [1] * len(
        passes
    )  # a row of merged arrays for each pass: the session shuffles to 1
    assert store.signatures > 100


@pytest.mark.usefixtures("spark_session")
@pytest.mark.parametrize("name", ["known", "known, one value"])
def test_persons_on_the_executors_are_those_in_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = persons_plan(tmp_path, name)
    expected, _ = in_memory_and_streamed(plan, monkeypatch, top=8)
    plan["data"]["source"] = f"spark://local[1,4]?table=parquet.`{plan['data']['source']}`"
    monkeypatch.setattr(work, "_PER_SIGNATURE", 1e18)
    monkeypatch.setattr(streamed_findings, "MOST_KEPT", 25)
    assert_same(expected, sl.audit(plan, top=8), top=20, ties=True)


def test_a_worker_that_dies_in_a_pass_changes_nothing(
    store: SignatureStore, case: Case, tmp_path: Path
) -> None:
    marker = str(tmp_path / "died")

    class DiesOnce:
        """Kills the worker that it runs on, the first time that it has read a batch."""

        def of_batch(self, batch: SignatureBatch) -> Arrays:
            if not os.path.exists(marker):  # noqa: PTH110
                with open(marker, "w") as file:  # noqa: PTH123
                    file.write(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return {"rows": np.array([len(batch), batch.counts.sum()])}

        def merged(self, first: Arrays, second: Arrays) -> Arrays:
            return {"rows": first["rows"] + second["rows"]}

    found = store.run(DiesOnce(), "")
    assert int(Path(marker).read_text()) != os.getpid()
    assert found["rows"].tolist() == [case.counts.size, case.counts.sum()]


def test_errors_of_a_pass_come_back_as_they_are(store: SignatureStore) -> None:
    class Refuses:
        def of_batch(self, batch: SignatureBatch) -> Arrays:
            from sightline.errors import TooMuchWork

            raise TooMuchWork("expected less, got more")

        def merged(self, first: Arrays, second: Arrays) -> Arrays:
            raise NotImplementedError

    with pytest.raises(TooMuchWork, match=r"^expected less, got more$"):
        store.run(Refuses(), "")

    class Fails(Refuses):
        def of_batch(self, batch: SignatureBatch) -> Arrays:
            raise ValueError(f"a value of the table: {batch.counts[0]}")

    with pytest.raises(InvalidPlan, match="expected a query that Spark can run") as raised:
        store.run(Fails(), "")
    assert "a value of the table" not in str(raised.value)


def test_a_pass_ends_when_progress_raises(store: SignatureStore) -> None:
    class Sleeps:
        def of_batch(self, batch: SignatureBatch) -> Arrays:
            import time

            time.sleep(60)
            return {}

        def merged(self, first: Arrays, second: Arrays) -> Arrays:
            return {}

    seen: list[float] = []

    def impatient(stage: str, share: float) -> None:
        seen.append(share)
        assert stage == "reading"
        if len(seen) > 2:
            raise TooMuchWork("the time is over")

    with reporting(impatient), pytest.raises(TooMuchWork, match="the time is over"):
        store.run(Sleeps(), "reading")
    shares: list[float] = []
    with reporting(lambda _, share: shares.append(share)):
        store.run(CellSizes(layouts=()), "cells")
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_a_pass_must_read_every_signature_once(
    store: SignatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_signatures", store.signatures + 1)
    with pytest.raises(
        InvalidPlan, match=r"expected a pass over \d+ signatures, got one over \d+; the table"
    ):
        store.run(CellSizes(layouts=()), "")
    monkeypatch.setattr(store, "_signatures", 0)
    with pytest.raises(InvalidInput, match="at least one signature"):
        store.run(CellSizes(layouts=()), "")


def test_workers_merge_batches_of_any_size(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = table_of(case).to_batches(max_chunksize=17)
    for size in (1, 40, 10_000):
        monkeypatch.setattr(spark_store, "BATCH", size)
        parts = list(SignaturesOnWorker(Rows())(iter(batches)))
        assert [part.num_rows for part in parts] == [1]
        again = list(PartsOnWorker(Rows())(iter(parts * 2)))
        read, arrays = folded(Rows(), parts_of(again))
        assert read == 2 * case.counts.size
        assert arrays["rows"].tolist() == [2 * case.counts.size, 2 * case.counts.sum()]
    assert list(SignaturesOnWorker(Rows())(iter([]))) == []
    assert list(PartsOnWorker(Rows())(iter([]))) == []
    assert folded(Rows(), parts_of([])) == (0, {})


def test_another_version_on_the_workers_is_refused(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    own, merging = SignaturesOnWorker(Rows()), PartsOnWorker(Rows())
    parts = list(own(iter(table_of(case).to_batches())))
    monkeypatch.setattr(spark_store, "version", lambda _: "0.0.1")
    for found in (list(own(iter([]))), list(merging(iter(parts)))):
        with pytest.raises(InvalidPlan, match=r"on Spark's workers, as on the driver, got 0\.0\.1; install"):
            list(parts_of(found))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Task serialization failed: java.lang.StackOverflowError", "Java's stack"),
        ("[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 262144 bytes", "fit Spark's memory"),
        ("is bigger than spark.driver.maxResultSize (1024.0 MiB)", "maxResultSize"),
        ("java.io.IOException: No space left on device", "a full disk"),
        ("ModuleNotFoundError: No module named 'sightline'", r"install 'sightline\[spark\]'"),
    ],
)
def test_errors_of_spark_are_refused_with_what_helps(text: str, message: str) -> None:
    with pytest.raises(TooMuchWork, match=message) as raised:
        refuse(RuntimeError(f"{text} near 'a secret'"))
    assert "\n" not in str(raised.value)
    assert "a secret" not in str(raised.value)
