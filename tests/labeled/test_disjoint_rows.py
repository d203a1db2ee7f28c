"""Rows that share no record, and records alone in their rows: closed forms against factorisations."""

from __future__ import annotations

import numpy as np
import pytest

from sightline import MembershipDesign
from sightline.labeled import contributions, exposures, sharp_records
from sightline.labeled.differencing import differencing_pairs
from sightline.labeled.exposures import Exposures
from sightline.labeled.hidden import hidden_by_record
from sightline.labeled.incidence.cells import incidence_of_cells
from sightline.labeled.routes import partitions
from sightline.labeled.routes.exact import random_residues
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.noise.laws import CorrelatedNoise, LaplaceNoise
from sightline.numerics import integers

SIZES = [1, 1, 2, 3, 7, 40]


def one_partition(factor: float, law: str) -> MembershipDesign:
    """Cells of these sizes, one release, with noise over two orders of magnitude."""
    cells = np.arange(len(SIZES), dtype=np.int16)[:, None]
    scales = factor * np.geomspace(0.1, 10.0, len(SIZES))
    noise = LaplaceNoise(scales=scales) if law == "laplace" else scales
    incidence = incidence_of_cells(cells, cells=[len(SIZES)], counts=SIZES)
    return MembershipDesign(incidence, noise=noise, readout="sum", releases=[0] * len(SIZES))


def assert_alike(found: Exposures, expected: Exposures) -> None:
    assert found.identifiable.tolist() == expected.identifiable.tolist()
    assert found.groups.identifiable.tolist() == expected.groups.identifiable.tolist()
    assert found.rank == expected.rank
    for name in ("rmse", "information", "remaining_lower", "remaining_upper"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9), name
    assert found.groups.rmse == pytest.approx(expected.groups.rmse, rel=1e-9)
    assert np.asarray(found.recipes[:]) == pytest.approx(np.asarray(expected.recipes[:]), rel=1e-9, abs=1e-15)
    assert found.relative_error <= max(1.01 * expected.relative_error, 1e-9)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("factor", [1.0, 1e-4])
def test_one_partition_is_as_if_it_were_factorised(
    factor: float, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = one_partition(factor, law)
    found = design.exposures(domain=(0, 1))
    monkeypatch.setattr(partitions, "is_diagonal", lambda gram: False)
    monkeypatch.setattr(sharp_records, "_alone", lambda gram, columns, sizes: np.zeros(len(sizes), bool))
    assert_alike(found, design.exposures(domain=(0, 1)))


def test_the_sum_of_a_cell_is_seen_as_its_noise_says() -> None:
    """By hand: the error of a sum is its noise, and the recipe takes the number as it is."""
    design = one_partition(1.0, "gaussian")
    found = design.exposures(domain=(0, 1))
    assert found.groups.rmse == pytest.approx(np.geomspace(0.1, 10.0, len(SIZES)), rel=1e-12)
    assert np.asarray(found.recipes[:]) == pytest.approx(np.eye(len(SIZES)), abs=1e-12)
    assert found.rank == len(SIZES)


@pytest.mark.parametrize("correlated", [False, True])
def test_groups_that_are_alone_beside_groups_that_are_not(
    correlated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record 0 is alone in two rows, two records are alone in one, and three rows tell two others apart."""
    rows = np.array(
        [
            [1, 0, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [0, 1, 1, 0, 0, 0],
            [0, 0, 0, 1, 1, 0],
            [0, 0, 0, 1, 0, 0],
            [0, 0, 0, 1, 0, 1],
        ]
    )
    scales = np.array([0.3, 2.0, 0.5, 1.0, 0.01, 3.0])
    mixing = np.eye(6) + 0.2 * np.tri(6, k=-1)
    noise = CorrelatedNoise(blocks=[mixing @ mixing.T]) if correlated else scales
    design = MembershipDesign(rows, noise=noise, readout="sum")
    found = design.exposures(domain=(0, 1))
    monkeypatch.setattr(sharp_records, "_alone", lambda gram, columns, sizes: np.zeros(len(sizes), bool))
    assert_alike(found, design.exposures(domain=(0, 1)))
    if not correlated:
        assert found.rmse[0] == pytest.approx((0.3**-2.0 + 2.0**-2.0) ** -0.5)


def test_rows_are_compared_where_one_may_have_all_members_of_the_other() -> None:
    generator = np.random.default_rng(8)
    pairs = 0
    for _ in range(30):
        rows = (generator.random((6, 7)) < 0.5).astype(float)
        rows[0] = 1.0
        rows[1] = rows[2] * (generator.random(7) < 0.8)
        rows = rows[rows.any(axis=1)]
        design = MembershipDesign(rows, noise=np.ones(len(rows)), readout="sum")
        found = design.exposures(domain=(0, 1))
        gram = UnknownRecordsGram.of(design, ~found.known)
        random, prime = random_residues(gram), integers.prime_of(gram.matrix.astype(np.int64))
        asked = {
            "images": random.images(prime),
            "totals": random.totals(found.group, gram.unknown, prime),
            "prime": prime,
            "first": found.groups.first,
            "sizes": found.groups.sizes,
        }
        everything = differencing_pairs(design.names, **asked)
        assert differencing_pairs(design.names, **asked, among=contributions._nested(gram)) == everything
        pairs += len(everything)
    assert pairs > 20


@pytest.mark.parametrize("sharp", [0.05, 1.0])
def test_one_precision_for_all_adds_nothing_where_each_record_has_its_own(
    sharp: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lower ends are the same as if the risk at one precision had been computed, too."""
    cells = np.array([[a, b] for a in range(4) for b in range(5)], dtype=np.int16)
    incidence = incidence_of_cells(cells, cells=[4, 5], counts=np.arange(1, 21))
    design = MembershipDesign(incidence, noise=sharp * np.geomspace(0.5, 2, 9), readout="sum")
    found = design.exposures(domain=(0, 1))

    def with_one_infinite(*given: object) -> object:  # so that the other risk is computed
        by_record = hidden_by_record(*given)  # type: ignore[arg-type]
        assert by_record is not None
        by_record.information[0] = np.inf
        return by_record

    monkeypatch.setattr(exposures, "hidden_by_record", with_one_infinite)
    other = design.exposures(domain=(0, 1))
    assert found.remaining_lower[1:] == pytest.approx(other.remaining_lower[1:], rel=1e-12)
    assert found.remaining_upper == pytest.approx(other.remaining_upper, rel=1e-9)
    assert found.remaining_lower[0] >= other.remaining_lower[0] * (1 - 1e-9)
