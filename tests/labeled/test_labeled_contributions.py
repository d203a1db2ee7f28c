"""What each release does, against designs that really lack it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tests.labeled.naive_labeled as naive
from sightline import MembershipDesign
from sightline.errors import InvalidRelease
from sightline.labeled import InOut


@pytest.mark.slow
def test_against_designs_without_the_release() -> None:
    generator = np.random.default_rng(17)
    lost = sharpened = 0
    for trial in range(40):
        rows = naive.random_rows(generator, most=8)
        stddevs = 10 ** generator.uniform(-2, 2, len(rows))
        given_as = sparse.csr_array(rows) if trial % 2 else rows
        design = MembershipDesign(given_as, noise=stddevs)
        whole = design.exposures(domain=(0, 1))
        table = design.contributions()
        assert np.array_equal(table.records, np.flatnonzero(whole.identifiable))
        assert np.allclose(table.rmse, whole.rmse[table.records], rtol=1e-9)
        if table.records.size == 0:
            continue
        for release in range(design.row_count):
            up_to = design.take(range(release + 1)).exposures(domain=(0, 1)).rmse[table.records]
            assert np.allclose(table.rmse_in_order[release], up_to, rtol=1e-8)
            others = [line for line in range(design.row_count) if line != release]
            expected = np.full(table.records.size, np.inf)
            if others:
                expected = design.take(others).exposures(domain=(0, 1)).rmse[table.records]
            assert np.allclose(table.rmse_without[release], expected, rtol=1e-8)
            lost += table.exposed_only_with(release).size
            sharpened += np.isfinite(expected).sum()
        newly = np.concatenate([table.newly_exposed(release) for release in range(design.row_count)])
        assert np.array_equal(np.sort(newly), table.records)  # each record becomes exposed once
    assert lost > 20
    assert sharpened > 20


def test_in_out_by_hand() -> None:
    family = InOut(background=5)
    design = family.design(2, 2, noise=[0.1] * 4, records=8)
    table = design.contributions()

    def rmse(ins: int, outs: int) -> float:
        return family.mse(ins, outs, in_stddev=0.1, out_stddev=0.1) ** 0.5

    assert table.records.tolist() == [0]
    assert table.newly_exposed(2).tolist() == [0]
    assert table.newly_exposed(0).size == table.newly_exposed(3).size == 0
    assert table.rmse_in_order[:, 0] == pytest.approx([np.inf, np.inf, rmse(2, 1), rmse(2, 2)])
    assert table.rmse_without[:, 0] == pytest.approx([rmse(1, 2)] * 2 + [rmse(2, 1)] * 2)
    assert table.sharpening()[:, 0] == pytest.approx(table.rmse_without[:, 0] / rmse(2, 2))
    factors = table.sharpening_in_order()[:, 0]
    assert np.isnan(factors[:2]).all()
    assert factors[2] == np.inf
    assert factors[3] == pytest.approx(rmse(2, 1) / rmse(2, 2))
    (pair,) = table.pairs
    assert str(pair) == "'with the target, 1' minus 'without the target, 1' leaves record 0"


def test_releases_with_many_cells_come_and_go_as_one() -> None:
    rows = [[0, 1], [2, 3], [0, 1, 2], [3]]
    design = MembershipDesign(rows, records=4, noise=[0.1] * 4, readout="sum", releases=[0, 0, 1, 1])
    table = design.contributions()
    assert table.records.tolist() == [2, 3]
    assert table.newly_exposed(0).size == 0
    assert table.newly_exposed(1).tolist() == [2, 3]
    assert table.exposed_only_with(0).tolist() == [2]
    assert {(pair.larger, pair.smaller, pair.record) for pair in table.pairs} == {(2, 0, 2), (1, 3, 2)}


def naive_pairs(rows: np.ndarray) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of different member sets whose difference is one whole group of equal columns."""
    groups = {tuple(np.flatnonzero((column == rows.T).all(axis=1))) for column in rows.T}
    sets = {tuple(np.flatnonzero(row)) for row in rows}
    return {
        (one, two)
        for one in sets
        for two in sets
        if set(two) < set(one) and tuple(sorted(set(one) - set(two))) in groups
    }


@pytest.mark.slow
def test_all_differencing_pairs_are_found_and_no_others() -> None:
    generator = np.random.default_rng(23)
    found_any = 0
    for _ in range(200):
        rows = naive.random_rows(generator, most=7)
        design = MembershipDesign(rows, noise=np.ones(len(rows)))
        pairs = design.contributions().pairs
        found = {
            (tuple(np.flatnonzero(rows[pair.larger])), tuple(np.flatnonzero(rows[pair.smaller])))
            for pair in pairs
        }
        assert found == naive_pairs(rows)
        assert len(found) == len(pairs)
        for pair in pairs:
            difference = rows[pair.larger] - rows[pair.smaller]
            assert difference[pair.record] == 1
            assert difference.sum() == pair.size
        found_any += len(pairs)
    assert found_any > 100


def test_a_group_is_named_as_one() -> None:
    design = MembershipDesign([[0, 1, 2], [0]], records=3, noise=[1.0, 1.0], names=("all", "some"))
    (pair,) = design.contributions().pairs
    assert (pair.size, pair.record) == (2, 1)
    assert str(pair) == "'all' minus 'some' leaves 2 records around 1"


def test_what_is_known_counts() -> None:
    design = MembershipDesign([[0, 1, 2], [0]], records=3, noise=[1.0, 1.0])
    assert design.contributions().records.tolist() == [0]
    table = design.contributions(known=[1])
    assert table.records.tolist() == [0, 2]
    assert [(pair.larger, pair.smaller, pair.size) for pair in table.pairs] == [(0, 1, 1)]


def test_progress_covers_the_releases() -> None:
    seen = []
    design = MembershipDesign([[1, 1], [1, 0], [0, 1]], noise=[1.0] * 3, readout="sum")
    design.contributions(progress=lambda stage, share: seen.append((stage, share)))
    assert [share for stage, share in seen if stage == "taking releases away"] == [0, 1 / 3, 2 / 3]


def test_real_weights_are_refused() -> None:
    design = MembershipDesign([[0.5, 0.3], [0.1, 0.7]], noise=[1.0, 1.0], readout="sum")
    with pytest.raises(InvalidRelease, match="whole-number weights"):
        design.contributions()


def random_partitions(generator: np.random.Generator) -> MembershipDesign:
    """Partitions of the same records, some of them published twice: rows that depend on each other."""
    records, count = int(generator.integers(4, 9)), int(generator.integers(2, 5))
    labels = [generator.integers(0, generator.integers(1, 4), records) for _ in range(count)]
    labels += [labels[0]] * int(generator.integers(0, 2))
    rows, releases = [], []
    for release, line in enumerate(labels):
        for cell in np.unique(line):
            rows.append(line == cell)
            releases.append(release)
    noise = generator.uniform(0.5, 2.0, len(rows))
    return MembershipDesign(np.array(rows), noise=noise, readout="sum", releases=releases)


@pytest.mark.slow
def test_releases_that_depend_on_each_other_against_designs_without_them() -> None:
    generator = np.random.default_rng(23)
    stayed = lost = 0
    for _ in range(60):
        design = random_partitions(generator)
        table = design.contributions()
        for release in range(design.release_count):
            for found, lines in (
                (table.rmse_in_order[release], np.flatnonzero(design.release_of <= release)),
                (table.rmse_without[release], np.flatnonzero(design.release_of != release)),
            ):
                alone = design.take(lines).exposures(domain=(0, 1)).rmse[table.records]
                assert np.allclose(found, alone, rtol=1e-9)
            stayed += np.isfinite(table.rmse_without[release]).sum()
            lost += np.isinf(table.rmse_without[release]).sum()
    assert stayed > 100
    assert lost > 20


def test_correlated_noise_is_factorised_anew() -> None:
    rows = [[0, 1, 2], [1, 2], [0, 1, 2], [2]]
    spread = np.random.default_rng(3).standard_normal((4, 4)) / 3 + np.eye(4)
    design = MembershipDesign(rows, records=3, noise=spread @ spread.T, readout="sum")
    table = design.contributions()
    for release in range(4):
        others = [line for line in range(4) if line != release]
        expected = design.take(others).exposures(domain=(0, 1)).rmse[table.records]
        assert np.allclose(table.rmse_without[release], expected, rtol=1e-9)


@pytest.mark.slow
def test_exposures_that_are_at_hand_are_not_decided_again() -> None:
    generator = np.random.default_rng(37)
    for _ in range(10):
        design = random_partitions(generator)
        known = [0]
        own = design.contributions(known=iter(known))
        given = design.contributions(known=known, exposures=design.exposures(domain=(0, 1), known=known))
        assert np.array_equal(own.records, given.records)
        assert np.array_equal(own.rmse_in_order, given.rmse_in_order)
        assert np.array_equal(own.rmse_without, given.rmse_without)
        assert own.pairs == given.pairs


def test_one_release_of_many_cells_by_hand() -> None:
    """Cells of one, two and one records: what is alone is seen with the noise of its cell, and only there."""
    design = MembershipDesign(
        [[0], [1, 2], [3]], records=4, noise=[0.5, 1.0, 2.0], readout="sum", releases=[0, 0, 0]
    )
    table = design.contributions()
    assert table.records.tolist() == [0, 3]
    assert table.rmse == pytest.approx([0.5, 2.0])
    assert table.rmse_in_order == pytest.approx(np.array([[0.5, 2.0]]))
    assert np.isinf(table.rmse_without).all()
    assert table.newly_exposed(0).tolist() == table.exposed_only_with(0).tolist() == [0, 3]


@pytest.mark.parametrize("uneven", [1.0, 1e5])
def test_independent_rows_lose_whom_they_identify(uneven: float) -> None:
    """Nested rows, of which each two neighbours leave a record, with equal and with very uneven noise."""
    size = 70
    rows = np.tril(np.ones((size, size)))
    stddevs = np.geomspace(1.0, uneven, size)
    design = MembershipDesign(rows, noise=stddevs, readout="sum")
    table = design.contributions()
    # Record j is row j minus row j - 1.
    alone = np.sqrt(stddevs**2 + np.append(0.0, stddevs[:-1]) ** 2)
    assert np.allclose(table.rmse, alone, rtol=1e-9)
    place = np.arange(size)
    assert np.allclose(table.rmse_in_order, np.where(place <= place[:, None], alone, np.inf), rtol=1e-9)
    used = (place == place[:, None]) | (place == place[:, None] + 1)  # by record j: rows j and j - 1
    assert np.allclose(table.rmse_without, np.where(used, np.inf, alone), rtol=1e-9)
