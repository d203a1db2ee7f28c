"""Theorem 1 and what lies beyond it, as properties: an increment equals profiling again, always."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidInput

TARGET = 0


def random_transcript(generator, *, whole: bool, wide: bool):
    """Scalar subset sums or real-weighted sums; wide ones have a singular nuisance block."""
    records = int(generator.integers(2, 7))
    lines = int(generator.integers(1, records)) if wide else records + int(generator.integers(0, 4))
    return [random_query(generator, records, whole=whole) for _ in range(lines)], records


def random_query(generator, records, *, whole: bool):
    members = np.flatnonzero(generator.random(records) < 0.6)
    if members.size == 0:
        members = np.array([generator.integers(records)])
    if whole:
        return sl.SubsetSum(members=members, radius=1.0)
    weights = generator.choice([-1.0, 1.0], members.size) * generator.uniform(0.5, 2.0, members.size)
    return sl.WeightedSum(members=members, weights=weights, radius=1.0)


def profiled(queries, stddevs, records, target=TARGET):
    return sl.Transcript(queries, noise=stddevs).geometry(records=records).profile(target=target)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_one_more_release_adds_exactly_its_increment(seed, whole, wide):
    generator = np.random.default_rng(seed)
    queries, records = random_transcript(generator, whole=whole, wide=wide)
    query = random_query(generator, records, whole=whole)
    stddevs = 10.0 ** generator.uniform(-1, 1, len(queries) + 1)
    before = profiled(queries, stddevs[:-1], records)
    after = profiled([*queries, query], stddevs, records)
    if sl.geometry.Decision.UNDECIDED in (before.identifiable, after.identifiable):
        return
    step = before.increment(query, noise_stddev=stddevs[-1])
    np.testing.assert_allclose(step.information, after.information, rtol=1e-10, atol=0)
    assert step.opens == int(bool(after.identifiable)) - int(bool(before.identifiable))
    # Monotone, and no gain if and only if there is no contrast.
    assert step.gain[0, 0] >= 0
    assert bool(step.helps) == (step.gain[0, 0] > 0)
    if step.gain[0, 0] > 1e-12 * before.information[0, 0]:
        assert after.information[0, 0] > before.information[0, 0]
    elif before.information[0, 0] > 0:
        assert after.information[0, 0] == pytest.approx(before.information[0, 0], rel=1e-12)
    else:
        assert after.information[0, 0] == 0


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_block_of_rows_adds_its_block_increment_for_a_vector_target(seed, whole, wide):
    generator = np.random.default_rng(seed)
    records = int(generator.integers(4, 8))
    lines = int(generator.integers(1, 4)) if wide else records + int(generator.integers(0, 3))
    queries = [random_query(generator, records, whole=whole) for _ in range(lines)]
    halves = np.split(generator.permutation(records), [records // 2])
    block = sl.Cells(cells=[sl.SubsetSum(members=half, radius=1.0) for half in halves])
    stddevs = 10.0 ** generator.uniform(-1, 1, lines + 2)
    target = [0, 1]
    before = profiled(queries, stddevs[:-2], records, target)
    after = profiled([*queries, block], stddevs, records, target)
    if sl.geometry.Decision.UNDECIDED in (before.identifiable, after.identifiable):
        return
    step = before.increment(block, noise_stddev=stddevs[-2:])
    scale = max(np.abs(after.information).max(), 1e-300)
    assert np.abs(step.information - after.information).max() <= 1e-9 * scale
    assert np.linalg.eigvalsh(step.gain).min() >= -1e-10 * scale
    assert np.linalg.eigvalsh(after.information - before.information).min() >= -1e-9 * scale
    assert step.opens == len(after.directions) - len(before.directions)


def test_theorem_1_by_hand():
    """Rows x0 + x1 and x1 at unit noise: d = a − I_θη I_ηη⁻¹ b with I_θη = 1, I_ηη = 2."""
    queries = [sl.SubsetSum(members=[0, 1], radius=1.0), sl.SubsetSum(members=[1], radius=1.0)]
    exposure = profiled(queries, [1.0, 1.0], 2)
    step = exposure.increment(sl.SubsetSum(members=[0, 1], radius=1.0), noise_stddev=1.0)
    assert step.contrast[0, 0] == pytest.approx(0.5, rel=1e-14)
    assert step.gain[0, 0] == pytest.approx(0.25 / (1 + 0.5))
    assert step.opens == 0


def test_a_new_bystander_absorbs_a_release_whole():
    queries = [sl.SubsetSum(members=[0, 1], radius=1.0), sl.SubsetSum(members=[1], radius=1.0)]
    exposure = profiled(queries, [1.0, 1.0], 3)
    step = exposure.increment(sl.SubsetSum(members=[0, 2], radius=1.0), noise_stddev=1e-6)
    assert not step.helps
    assert step.gain.tolist() == [[0.0]]


def test_records_alike_so_far_and_told_apart_by_the_release_absorb_it():
    exposure = profiled([sl.SubsetSum(members=[0, 1, 2], radius=1.0)], [1.0], 3)
    assert not exposure.increment(sl.SubsetSum(members=[1], radius=1.0), noise_stddev=1.0).helps
    differencing = exposure.increment(sl.SubsetSum(members=[1, 2], radius=1.0), noise_stddev=1.0)
    assert differencing.opens == 1
    assert differencing.information[0, 0] == pytest.approx(0.5)


def test_a_copy_sharpens_and_opens_nothing():
    mean = sl.SubsetMean(members=[0, 1], radius=1.0)
    exposure = profiled([mean], [1.0], 2, target=[0, 1])
    step = exposure.increment(mean, noise_stddev=1.0)
    assert step.helps
    assert step.opens == 0
    np.testing.assert_allclose(step.information, 2 * exposure.information)


def test_a_crowd_much_larger_than_the_transcript_can_be_added_to():
    generator = np.random.default_rng(8)
    records = 30_000
    queries = [
        sl.SubsetMean(members=np.flatnonzero(generator.random(records) < 0.3), radius=1.0) for _ in range(4)
    ]
    target = int(queries[0].members[0])
    exposure = profiled(queries, np.ones(4), records, target)
    assert not exposure.identifiable
    without = sl.SubsetMean(members=queries[0].members[1:], radius=1.0)
    assert exposure.increment(without, noise_stddev=1.0).opens == 1
    bystander = sl.SubsetMean(members=queries[0].members[2:], radius=1.0)
    assert exposure.increment(bystander, noise_stddev=1.0).opens == 0


def test_curved_releases_are_added_at_the_operating_point():
    values = [-0.4, 0.7]
    moments = [sl.Moment(order=k, members=[0, 1], bound=1.0) for k in (1, 2, 3)]
    before = sl.Transcript(moments[:2], noise=[0.1, 0.2]).geometry(at=values).profile(target=[0, 1])
    after = sl.Transcript(moments, noise=[0.1, 0.2, 0.3]).geometry(at=values).profile(target=[0, 1])
    step = before.increment(moments[2], noise_stddev=0.3)
    np.testing.assert_allclose(step.information, after.information, rtol=1e-10)


class TestOneClearErrorEach:
    mean = sl.SubsetMean(members=[0, 1], radius=1.0)

    def test_noise_must_be_positive(self):
        with pytest.raises(InvalidInput, match="noise stddevs > 0"):
            profiled([self.mean], [1.0], 2).increment(self.mean, noise_stddev=0.0)

    def test_a_curved_release_needs_an_operating_point(self):
        exposure = profiled([self.mean], [1.0], 2)
        with pytest.raises(InvalidInput, match="a linear release, or a geometry with an operating point"):
            exposure.increment(sl.Moment(order=2, members=[0], bound=1.0), noise_stddev=1.0)

    def test_members_must_be_records(self):
        exposure = profiled([self.mean], [1.0], 2)
        with pytest.raises(InvalidInput, match="over these 2 records of dimension 1, got members up to 3"):
            exposure.increment(sl.SubsetMean(members=[3], radius=1.0), noise_stddev=1.0)

    def test_an_undecided_exposure_cannot_grow(self):
        rows = np.array([[1.0, 1.0], [1.0, 1.0 + 3e-14], [math.pi, math.pi]])
        exposure = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=np.ones(3))).profile(
            target=0
        )
        with pytest.raises(InvalidInput, match="a decided exposure to add to"):
            exposure.increment(self.mean, noise_stddev=1.0)
