"""What the review found in the geometry engine, each case against exact arithmetic."""

from __future__ import annotations

from collections import Counter

import numpy as np

import tests.theory.geometry.fuzz_geometry as transcripts
import tests.units.exact_designs as drawn
import tests.units.fuzz_designs as designs
from sightline.noise.laws import CorrelatedNoise, GaussianNoise
from sightline.numerics.rank import Decision
from sightline.theory.geometry.transcript import Geometry
from sightline.theory.releases.linear import WeightedSum
from tests.units.exact_answers import ExactDesign


def compared(rows: np.ndarray, noise: GaussianNoise | CorrelatedNoise, target: list[int]) -> Counter[str]:
    """The profile of a target against the truth."""
    exact = ExactDesign(rows=rows, covariance=noise.covariance if noise.correlated else noise.scales)
    case = designs.Case(rows=rows, noise=noise, exact=exact, known=())
    others = np.setdiff1d(np.arange(rows.shape[1]), target).tolist()
    truth = transcripts.Truth.of(exact, target, others)
    found = Geometry(jacobian=rows.astype(np.float64), noise=noise).profile(target=target)
    count: Counter[str] = Counter()
    assert transcripts.decided_rightly(found, truth, count, real=False)
    transcripts.compare_information(found.information, truth, found.relative_error, count)
    transcripts.compare_bounds(found, truth, case, target, count)
    return count


def test_integers_beyond_two_to_the_31() -> None:
    """They passed for real numbers, and a target that is hidden was called identifiable."""
    rows = drawn.ladder(8, 1567)[:7] * 67_108_865
    rows[2, 3] *= 256
    noise = CorrelatedNoise(blocks=[np.ones((7, 7)) + 30 * np.eye(7)])
    assert compared(rows, noise, [6, 7])["directions"] == 1


def test_a_part_of_a_target_whose_coefficients_differ_much() -> None:
    """The information was 9e-4 off, with 9e-10 stated."""
    rows = np.array(
        [
            [-2304, 4, -1, 9, 1280, -768, -1, -6],
            [-9, -8, -7, -1280, 7, 0, -2, 6],
            [-7, 0, 4, -1792, 0, -4, -1, 0],
            [2048, 256, 9, 1280, 1, 1792, 1536, -768],
            [512, -5, 4, -4, -3, -8, 8, 1792],
            [7, -7, 1, 2048, 7, 2304, 2304, -1],
            [0, 0, 0, 0, 0, 1, 0, 0],
        ]
    )
    assert compared(rows, GaussianNoise(stddevs=np.full(7, 0.0213)), [1, 3, 6])["directions"] == 2


def test_correlated_noise_and_a_ladder_in_balls() -> None:
    """Double precision loses every digit here: it raised, and ball arithmetic knew independent noise only."""
    rows = drawn.ladder(8, 3000) * 1_000_003
    noise = CorrelatedNoise(blocks=[np.ones((8, 8)) + 3 * np.eye(8)])
    assert compared(rows, noise, [0])["bounds"] == 1


def test_coefficients_that_cancel_in_the_information() -> None:
    """Two combinations with coefficients of 10^12: their covariance was sharp, the information was not."""
    rows = np.array(
        [
            [2**36, -(2**33), -(2**48), -985162410098688, 1 - 2**47, -(2**33), -(2**34)],
            [25769803776, -51539607552, 1 - 2**47, 2**34, -68719476224, -51539607552, -(2**47)],
            [2**33, -68719476224, -9 * 2**47, -6 * 2**47, 6 * 2**47, -68719476223, -77309410816],
            [8589935104, -(2**50), -77309411328, -51539607552, 844424930131968, -(2**50), -77309410816],
            [25769804289, -844424921743360, -(2**47), 2**34, -(2**36), -844424921743360, -(2**47)],
            [206158430208, -103079215104, 2**48, -281474968322048, -(2**52), -103079214592, 2**48],
        ],
        dtype=np.int64,
    )
    covariance = [
        [44, 15, 2, 9, 7, 2],
        [15, 37, -2, -3, 20, 6],
        [2, -2, 19, 21, 6, 10],
        [9, -3, 21, 55, 11, 11],
        [7, 20, 6, 11, 30, 3],
        [2, 6, 10, 11, 3, 23],
    ]
    noise = CorrelatedNoise(blocks=[np.array(covariance, dtype=np.float64)])
    assert compared(rows, noise, [1, 5, 6])["information entries"] == 9


def test_an_increment_to_what_needed_balls() -> None:
    """The information afterwards came from double precision, with the error of the balls."""
    everyone, some = [1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 1]
    few, fewer = [1, 1, 0, 0, 1, 0, 0, 1], [1, 1, 0, 0, 1, 0, 0, 0]
    rows = np.array([everyone, fewer, few, some, some, fewer, everyone], dtype=np.float64)
    stddevs = np.array([1.2e6, 1.8e5, 6.1e-4, 5e-7, 6.3e-13, 5.2e4, 2.4e-7])
    geometry = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=stddevs))
    weights = np.array([2.0, 3.0, -3.0, 3.0, -3.0, -1.0, 2.0])
    query = WeightedSum(members=range(1, 8), weights=weights, radius=1.0)
    step = geometry.profile(target=[1, 6]).increment(query, noise_stddev=0.1)
    longer = ExactDesign(rows=np.vstack([rows, [0.0, *weights]]), covariance=np.append(stddevs, 0.1))
    after = transcripts.Truth.of(longer, [1, 6], [0, 2, 3, 4, 5, 7])
    count: Counter[str] = Counter()
    transcripts.compare_information(step.information, after, step.relative_error, count)
    assert count["information entries"] == 4


def test_a_real_row_that_opens_a_direction() -> None:
    """It was said to add nothing, with an error of zero."""
    generator = np.random.default_rng(488)
    rows = generator.standard_normal((3, 4)) * 1e9
    rows = np.vstack([rows, rows[0] + rows[2]])
    geometry = Geometry(jacobian=rows[:3], noise=GaussianNoise(stddevs=np.array([3e-9, 1e5, 3e-7])))
    found = geometry.profile(target=2)
    assert found.identifiable is Decision.NO
    query = WeightedSum(members=[1, 3], weights=rows[0, [1, 3]], radius=1.0)
    step = found.increment(query, noise_stddev=3.8)
    assert step.helps is Decision.YES
    assert step.opens == 1


def test_columns_close_together_are_not_called_hidden() -> None:
    """A no needs that the doubles agree, unless the difference is rounding."""
    nuisance = np.array([[1.0, 1.0], [1.0, 1.0 + 3e-10], [1.0, 1.0]])
    target = np.array([[1.0], [0.5], [1.0 + 1e-7]])
    rows = np.hstack([nuisance, target])
    found = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=np.ones(3))).profile(target=2)
    assert found.identifiable is not Decision.NO


def test_a_functional_of_real_rows_is_not_revealed_against_the_doubles() -> None:
    """Columns over 19 orders of magnitude: to rounding the functional is the first coordinate alone."""
    rows = np.array(
        [
            [0.0, 0.0, 0.0, 134.217729],
            [7.11353958e19, 7.11353958e13, 7.11353958e6, 0.0],
            [1.34217728e17, 1.34217728e11, 1.34217729e4, 0.0],
        ]
    )
    geometry = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[0.047, 3.1, 0.001]))
    assert geometry.profile(functional=[-2.0, 2.0, -2.0, 2.0]).identifiable is not Decision.YES


def test_the_error_of_a_functional_counts_what_cancels_in_its_columns() -> None:
    """Minus the last row, or twice the first. In doubles, the change of coordinates loses all digits."""
    rows = np.array([[1.0, 1885.0], [0.0, 1.0], [2.0, 3770.0]])
    stddevs = np.array([7.90883551e-04, 6.23217043e04, 5.36848990e-08])
    found = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=stddevs)).profile(functional=[-2.0, -3770.0])
    exact = 1 / (0.25 / stddevs[0] ** 2 + 1 / stddevs[2] ** 2)  # the first row is half of it
    assert abs(found.crb / exact - 1) <= found.relative_error < 1e-9
