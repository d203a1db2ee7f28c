"""Who is certain by counts in intervals: against all tables, and against a plain integer program."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from sightline.bounds import certain
from sightline.bounds.certain import CountIntervals, contradiction, decide, upper_bound
from sightline.errors import InvalidInput
from tests.bounds.fuzz_certain import check, drawn
from tests.numbered_cases import check_case, trials


def intervals_of(table: list[list[float]], low: list[float], high: list[float], truth: list[float]) -> object:
    return CountIntervals(
        weights=sparse.csr_array(np.array(table)),
        low=np.array(low),
        high=np.array(high),
        sizes=np.ones(len(truth)),
        truth=np.array(truth),
    )


@pytest.mark.slow
def test_certain_classes_are_those_with_one_answer_in_all_tables() -> None:
    count: Counter[str] = Counter()
    for trial in trials(400):
        check_case(check, 45, trial, count)
    assert count["certain classes"] > count["tables"] / 2


@pytest.mark.slow
@pytest.mark.parametrize("case", range(50))
def test_larger_tables_agree_with_a_plain_integer_program(case: int) -> None:
    rng = np.random.default_rng([450, case])
    own = drawn(rng, classes=int(rng.integers(10, 40)), numbers=int(rng.integers(6, 20)), largest=4)
    found = decide(own)
    constraint = LinearConstraint(own.weights, own.low, own.high)
    for place in range(own.sizes.size):
        ends = []
        for sign in (1.0, -1.0):
            objective = np.zeros(own.sizes.size)
            objective[place] = sign
            solved = milp(
                objective,
                constraints=constraint,
                bounds=Bounds(0, own.sizes),
                integrality=np.ones(own.sizes.size),
            )
            ends.append(round(sign * solved.fun))
        assert found.certain[place] == (ends[1] == 0 or ends[0] == own.sizes[place])
    for place, weights in found.proofs.items():
        assert upper_bound(own, place, weights) < 1


def test_half_a_person_is_no_person() -> None:
    # Three people in pairs: each pair has one yes or none, and all three together have two by parts alone.
    table = [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    found = decide(intervals_of(table, [0, 0, 0, 0], [1, 1, 1, 3], [0, 0, 0]))  # type: ignore[arg-type]
    assert not found.certain.any()
    exact = decide(intervals_of(table[:3], [1, 1, 0], [1, 1, 0], [0, 1, 0]))  # type: ignore[arg-type]
    assert exact.certain.tolist() == [True, True, True]


def test_a_table_outside_its_intervals_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a table within the intervals"):
        intervals_of([[1.0]], [1.0], [1.0], [0.0])
    with pytest.raises(InvalidInput, match="low <= high"):
        intervals_of([[1.0]], [1.0], [0.0], [0.0])


def test_what_a_number_of_nodes_does_not_decide_is_undecided_and_more_nodes_decide_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Three sums of 18 people's weights: one table in 2^18 has them, and no linear program says so.
    rng = np.random.default_rng(2)
    weights, truth = rng.integers(0, 100, (3, 18)).astype(float), rng.integers(0, 2, 18).astype(float)
    sums = weights @ truth
    every = (np.arange(1 << 18)[:, None] >> np.arange(18)) & 1
    assert np.count_nonzero(np.all(every @ weights.T == sums, axis=1)) == 1
    intervals = CountIntervals(
        weights=sparse.csr_array(weights), low=sums, high=sums, sizes=np.ones(18), truth=truth
    )
    found = decide(intervals)
    assert found.certain.all()
    assert not found.undecided.any()
    monkeypatch.setattr(certain, "_MOST_NODES", 50)
    first, again = decide(intervals), decide(intervals)
    assert first.undecided.any()
    assert not np.any(first.certain & first.undecided)
    assert np.array_equal(first.undecided, again.undecided)


@pytest.mark.parametrize("case", trials(60))
def test_a_contradiction_is_one_and_its_numbers_alone_contradict_each_other(case: int) -> None:
    rng = np.random.default_rng([47, case])
    numbers, classes = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    weights = sparse.csr_array(rng.integers(0, 2, (numbers, classes)).astype(float))
    sizes = rng.integers(1, 4, classes).astype(float)
    low = rng.integers(0, 6, numbers).astype(float)
    high = low + rng.integers(0, 3, numbers)
    found = contradiction(weights, low, high, sizes)
    every = np.array(list(product(*(range(int(one) + 1) for one in sizes))), dtype=float)
    answers = every @ weights.toarray().T
    inside = (answers >= low) & (answers <= high)
    whole = linprog(
        np.zeros(classes),
        A_ub=sparse.vstack([weights, -weights]),
        b_ub=np.concatenate([high, -low]),
        bounds=np.stack([np.zeros(classes), sizes], axis=1),
    )
    assert bool(found) == (whole.status == 2)
    if found:
        assert not inside[:, list(found)].all(axis=1).any()


def test_a_program_that_is_too_large_leaves_classes_undecided_and_nobody_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exact counts of which no three people are alike: no search frees anybody, and programs must."""
    rng = np.random.default_rng(3)
    table = (rng.random((12, 40)) < 0.4).astype(np.float64)
    truth = (rng.random(40) < 0.5).astype(np.float64)
    counts = table @ truth
    own = CountIntervals(
        weights=sparse.csr_array(table), low=counts, high=counts, sizes=np.ones(40), truth=truth
    )
    decided = decide(own)
    assert not decided.undecided.any()
    monkeypatch.setattr(certain, "_MOST_STEPS_OF_ENTRIES", 1)
    monkeypatch.setattr(certain, "_freed_by_moves", lambda _, asked: np.zeros_like(asked))
    stopped = decide(own)
    assert stopped.undecided.all()
    assert not stopped.certain.any()


def test_what_follows_from_one_count_after_the_other_needs_no_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A total of 5 less an exact 3 leaves 2 of 2; and what is left of another total is nobody."""
    monkeypatch.setattr(certain, "_decide_component", lambda *_: pytest.fail("a program was asked"))
    own = CountIntervals(
        weights=sparse.csr_array(np.array([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, -1]])),
        low=np.array([3.0, 5.0, 2.0, 3.0]),
        high=np.array([3.0, 5.0, 2.0, 3.0]),
        sizes=np.array([6.0, 4.0, 5.0, 2.0]),
        truth=np.array([3.0, 2.0, 0.0, 0.0]),
    )
    found = decide(own)
    assert found.certain.tolist() == [False, False, True, True]
    for place, weights in found.proofs.items():
        assert upper_bound(own, place, weights) < 1
    assert sorted(found.proofs) == [2, 3]
