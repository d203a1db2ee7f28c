"""Work on all cores: in order, with what it raises, and ended by whoever waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from sightline import progress
from sightline.bounds.priors import UniformPrior
from sightline.progress import on_cores, report, reporting
from sightline.units import units as units_module
from sightline.units.row_noise import RowNoise
from sightline.units.row_products import RowProducts
from sightline.units.target import UnitPrior
from sightline.units.units import Units


@pytest.fixture(autouse=True, params=[1, 2, 5])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(progress, "available_cores", lambda: request.param)
    return int(request.param)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 40])
def test_every_item_is_done_once_and_in_order(count: int) -> None:
    def slow_first(item: int) -> int:
        time.sleep(0.002 * (item % 3 == 0))
        return item * item

    assert on_cores(slow_first, range(count)) == [item * item for item in range(count)]


def test_the_first_item_is_done_alone_in_this_thread_and_the_others_on_all_cores(cores: int) -> None:
    here, first_is_done = threading.get_ident(), threading.Event()
    together = threading.Barrier(cores, timeout=20)

    def thread_of(item: int) -> int:
        if item == 0:
            time.sleep(0.01)
            first_is_done.set()
        else:
            assert first_is_done.is_set()
            together.wait()  # ends only if so many are under way at a time
        return threading.get_ident()

    found = on_cores(thread_of, range(1 + 2 * cores))
    assert found[0] == here
    assert (here in found[1:]) == (cores == 1)
    assert set(on_cores(lambda _: threading.get_ident(), range(9), alone=True)) == {here}


def test_what_a_thread_raises_is_raised_here_and_ends_the_rest() -> None:
    begun, before = [], threading.active_count()

    def fails(item: int) -> None:
        begun.append(item)
        if item == 3:
            raise ZeroDivisionError("of item 3")
        time.sleep(0.005)

    with pytest.raises(ZeroDivisionError, match="of item 3"):
        on_cores(fails, range(1_000))
    assert len(begun) < 30
    assert threading.active_count() == before  # nobody is left waiting


@pytest.mark.parametrize("raised", [KeyboardInterrupt, TimeoutError])
def test_whoever_takes_the_items_can_end_the_work(raised: type[BaseException]) -> None:
    begun = []

    def items() -> Iterator[int]:
        for item in range(1_000):
            report("working", item / 1_000)
            yield item

    def stop(stage: str, share: float) -> None:
        if share >= 0.005:
            raise raised

    with reporting(stop), pytest.raises(raised):
        on_cores(begun.append, items())
    assert set(begun) <= {0, 1, 2, 3, 4}


def test_threads_see_the_context_of_the_caller() -> None:
    stages = []
    with reporting(lambda stage, share: stages.append(stage)), np.errstate(divide="ignore"):
        found = on_cores(lambda item: report(f"item {item}", 0.0) or (np.ones(1) / 0.0)[0], range(4))
    assert found == [np.inf] * 4
    assert sorted(stages) == [f"item {item}" for item in range(4)]


@pytest.mark.parametrize("at_a_time", [24, 60, 1 << 21])
def test_a_pass_in_many_blocks_gives_what_one_block_gives(
    at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers, so that every digit is the same; with each unit in one block of some thread."""
    monkeypatch.setattr(units_module, "AT_A_TIME", at_a_time)
    monkeypatch.setattr(RowProducts, "at_a_time", at_a_time)
    generator, numbers, kinds = np.random.default_rng(1), 60, 500
    rows = generator.integers(0, 20, (kinds, 3)) + np.array([0, 20, 40])
    units = Units.of_one_row(rows.astype(np.int16), numbers, generator.integers(1, 9, kinds))
    noise = RowNoise.of(*np.ones((2, numbers)), np.zeros(numbers), np.ones(numbers))
    passed = RowProducts(prior=UnitPrior(target=UniformPrior(low=0.0, high=1.0)), noise=noise)
    shares: list[float] = []
    with reporting(lambda _, share: shares.append(share)):
        found = units.run(passed)
    table = np.zeros((numbers, kinds))
    table[rows.T, np.arange(kinds)] = 1.0
    assert np.array_equal(found["matrix"], (table * units.people) @ table.T)
    assert found["columns"] == kinds
    assert len(shares) == -(-kinds // (at_a_time // 3))
    assert shares == sorted(shares)
