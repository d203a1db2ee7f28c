"""Bad input: a clear error each, and no value of a record in any of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import sightline as sl
from sightline import MembershipDesign
from sightline.errors import InvalidInput, InvalidNoise, InvalidRelease
from sightline.theory.labeled import InOut, Known

BASIC = sl.BasicComposition(sl.Budget(epsilon=1.0, delta=1e-5))
ONE = np.ones(1)


@pytest.mark.parametrize(
    ("rows", "records", "message"),
    [
        ([], 3, "at least one release, got L = 0"),
        (np.zeros((0, 3)), None, "at least one release, got L = 0"),
        ([[]], 3, r"at least one member in every row with independent noise, got none in row \[0\]"),
        ([[0, 3]], 3, "members below 3, got 3 in row 0"),
        ([[-1, 0]], 3, "members >= 0, got -1"),
        ([[0, 1, 1]], 3, r"distinct members, got \[1\] twice"),
        ([[0.5, 1.0]], 3, "members as whole numbers"),
        ([[0]], 1, "at least two records, got N = 1"),
        (np.ones((1, 1)), None, "at least two records, got N = 1"),
        (np.ones(3), None, "two dimensions"),
        ([[1, 0], [1]], None, "rows of different lengths; lists of members need records=N"),
        (np.array([["a", "b"]]), None, "a table of numbers"),
        (np.array([[0, 0]]), None, r"at least one member in every row .* got none in row \[0\]"),
        (np.array([[np.nan, 1.0]]), None, "finite weights, got NaN or infinity in row 0"),
        (np.array([[1.0, 1.0], [np.inf, 1.0]]), None, "finite weights, got NaN or infinity in row 1"),
        (np.ones((1, 3)), 4, "3 records, one a column, got records=4"),
        (sparse.csr_array(np.ones((1, 3))), 4, "3 records, one a column, got records=4"),
        (sparse.csr_array((0, 3)), None, "at least one release, got L = 0"),
        (sparse.csr_array((1, 1)), None, "at least two records, got N = 1"),
        (sparse.csr_array(np.array([[0, 0]])), None, r"got none in row \[0\]"),
        (sparse.csr_array(np.array([[1.0, np.nan]])), None, "finite weights"),
        (sparse.csr_array(np.array([[1j, 1.0]])), None, "a sparse table of numbers"),
        (
            sparse.coo_array((np.ones(3), ([0, 0, 0], [1, 1, 2])), shape=(1, 3)),
            None,
            "each member of a row once, got 1 entries given twice",
        ),
    ],
)
def test_rows(rows: object, records: int | None, message: str) -> None:
    with pytest.raises(InvalidRelease, match=message):
        MembershipDesign(rows, records=records, noise=ONE)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"noise": [1.0, 1.0]}, InvalidNoise, "noise for 1 rows, got noise for 2"),
        ({"noise": [0.0]}, InvalidNoise, "noise stddevs > 0"),
        ({"noise": BASIC}, InvalidNoise, "radius with an accountant, got none"),
        ({"noise": BASIC, "radius": -1.0}, InvalidInput, "radius between"),
        ({"noise": ONE, "readout": "median"}, InvalidRelease, "readout 'mean' or 'sum', got 'median'"),
        ({"noise": ONE, "names": ("a", "b")}, InvalidRelease, "1 names, got 2"),
        ({"noise": ONE, "releases": [0, 1]}, InvalidRelease, "one release number for each of 1 rows"),
        ({"noise": ONE, "releases": [0.5]}, InvalidRelease, "one release number for each of 1 rows"),
        ({"noise": ONE, "releases": [1]}, InvalidRelease, "numbered 0, 1, …"),
        ({"noise": ONE, "factors": [1.0, 2.0]}, InvalidRelease, "1 factors, none of them zero"),
        ({"noise": ONE, "factors": [0.0]}, InvalidRelease, "1 factors, none of them zero"),
    ],
)
def test_designs(kwargs: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MembershipDesign([[1, 1, 0]], **kwargs)


@pytest.mark.parametrize("noise", [np.full(3, 1e-150), np.full(3, 1e-300), np.diag(np.full(3, 1e-300))])
def test_noise_that_is_none(noise: np.ndarray) -> None:
    design = MembershipDesign([[1, 1, 0], [0, 1, 1], [1, 1, 1]], noise=noise)
    with pytest.raises(InvalidNoise, match=r"numbers of at most 1e\+130 times their noise"):
        design.exposures(domain=(0, 1))


@pytest.mark.parametrize("stddev", [1e-130, 1e-100, 1e100, 1e140])
def test_noise_far_out(stddev: float) -> None:
    found = MembershipDesign([[1, 1, 0], [0, 1, 1], [1, 1, 1]], noise=[stddev] * 3).exposures(domain=(0, 1))
    assert found.identifiable.all()
    assert np.allclose(found.rmse / stddev, np.sqrt([13, 17, 13]))  # 3·b − 2·a, 2·a + 2·b − 3·c, …
    assert np.all(found.remaining_upper == 1) if stddev > 1 else np.all(found.remaining_upper < 1e-100)


def test_rows_of_one_release_are_together_and_in_order() -> None:
    for releases in ([0, 1, 0], [0, 2, 3], [1, 1, 2]):
        with pytest.raises(InvalidRelease, match="rows of one release together"):
            MembershipDesign(np.eye(3), noise=np.ones(3), releases=releases)


def test_cells_that_an_accountant_pays_for_are_disjoint() -> None:
    with pytest.raises(InvalidRelease, match=r"record \[1\] in several cells of release 1"):
        MembershipDesign([[0], [0, 1], [1, 2]], records=3, noise=BASIC, radius=1.0, releases=[0, 1, 1])
    MembershipDesign([[0, 1], [1, 2]], records=3, noise=[1.0, 1.0], releases=[0, 0])  # not ours to pay


def test_weights_are_no_means() -> None:
    with pytest.raises(InvalidRelease, match='pass readout="sum"'):
        MembershipDesign([[2.0, 1.0]], noise=ONE)


class TestKnown:
    DESIGN = MembershipDesign([[1, 1, 0], [0, 1, 1]], noise=[1.0, 1.0])

    def test_the_target_is_not_known(self) -> None:
        found = self.DESIGN.exposures(domain=(0, 1), known=[1])
        for ask in (found.__getitem__, found.decision, found.recipe):
            with pytest.raises(InvalidInput, match="record 1, which is in known="):
                ask(1)

    @pytest.mark.parametrize("known", [[3], [-1], [0.5]])
    def test_known_records_exist(self, known: list[float]) -> None:
        with pytest.raises(InvalidInput, match="known records from 0 to 2"):
            self.DESIGN.exposures(domain=(0, 1), known=known)

    def test_somebody_is_unknown(self) -> None:
        with pytest.raises(InvalidInput, match="all 3 known; leave the target out"):
            self.DESIGN.exposures(domain=(0, 1), known=range(3))

    def test_there_is_no_such_record(self) -> None:
        found = self.DESIGN.exposures(domain=(0, 1))
        for record in (-1, 3):
            with pytest.raises(InvalidInput, match="a record from 0 to 2"):
                found[record]

    def test_no_recipe_without_identifiability(self) -> None:
        found = self.DESIGN.exposures(domain=(0, 1))
        with pytest.raises(InvalidInput, match="record 0, which is not"):
            found.recipe(0)
        for group in (0, 7, -1):
            with pytest.raises(InvalidInput, match=f"group {group}"):
                found.group_recipe(group)
        everyone = self.DESIGN.exposures(domain=(0, 1), known=Known.ALL_OTHERS)
        with pytest.raises(InvalidInput, match="known=\\[every record but 0\\]"):
            everyone.recipe(0)

    def test_worst_of_none(self) -> None:
        with pytest.raises(InvalidInput, match="count >= 1"):
            self.DESIGN.exposures(domain=(0, 1)).worst(0)


def test_a_design_of_an_in_out_needs_both() -> None:
    with pytest.raises(InvalidInput, match="in_releases >= 1"):
        InOut(background=3).design(0, 1, noise=ONE)


class TestTranscripts:
    def test_a_design_of_a_transcript_is_the_transcript(self) -> None:
        cells = sl.Cells(
            cells=[sl.SubsetMean(members=[0, 1, 2], radius=1.0), sl.SubsetSum(members=[3, 4], radius=1.0)]
        )
        weighted = sl.WeightedSum(members=[0, 4], weights=[2.0, -1.0], radius=1.0)
        queries = [cells, sl.SubsetMean(members=[1, 2], radius=1.0), weighted]
        transcript = sl.Transcript(queries, noise=BASIC, names=("streets", "pair", "net"))
        design = transcript.membership_design(records=6)
        assert design.names == ("streets, cell 1", "streets, cell 2", "pair", "net")
        assert design.release_of.tolist() == [0, 0, 1, 2]
        found = design.exposures(domain=(0, 1))
        geometry = transcript.geometry(records=6)
        for target in range(6):
            exposure = geometry.profile(target=target)
            assert exposure.identifiable is found.decision(target)
            if found.identifiable[target]:
                assert found.rmse[target] ** 2 == pytest.approx(exposure.crb, rel=1e-9)
                assert np.allclose(found.recipe(target), exposure.recipe, rtol=1e-8, atol=1e-9)

    def test_only_linear_releases_of_scalars(self) -> None:
        moment = sl.Moment(order=3, members=range(3), bound=1.0)
        with pytest.raises(InvalidRelease, match="got nonlinear releases"):
            sl.Transcript([moment], noise=[1.0]).membership_design()
        vector = sl.SubsetMean(members=[0, 1], radius=1.0, dimension=2)
        with pytest.raises(InvalidRelease, match="records of dimension 2"):
            sl.Transcript([vector], noise=[1.0, 1.0]).membership_design()


def test_an_accountant_pays_for_no_row_without_members() -> None:
    with pytest.raises(InvalidRelease, match="at least one member in every row"):
        MembershipDesign([[0, 1], []], records=2, noise=BASIC, radius=1.0)


@pytest.mark.parametrize("rows", [[[2**53 + 1, 1]], sparse.csr_array(np.array([[2**53 + 1, 1]]))])
def test_integers_that_a_double_cannot_hold_are_not_rounded(rows: object) -> None:
    with pytest.raises(InvalidRelease, match="integer weights that a double holds exactly"):
        MembershipDesign(rows, noise=ONE, readout="sum")


def test_a_noise_law_without_a_proved_lower_end_is_refused() -> None:
    class Foreign:
        outputs = 1

        def whiten(self, rows: object) -> object:
            return rows

    with pytest.raises(InvalidNoise, match="got Foreign; no lower end is proved for other laws"):
        MembershipDesign([[0, 1]], records=2, noise=Foreign())
