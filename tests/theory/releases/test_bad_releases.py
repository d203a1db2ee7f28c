"""A release that cannot be published cannot be written down, and the message says what to do."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidInput, InvalidRelease


def mean(**changes):
    return sl.SubsetMean(**{"members": [0, 1], "radius": 1.0} | changes)


def total(**changes):
    return sl.SubsetSum(**{"members": [0, 1], "radius": 1.0} | changes)


def weighted(**changes):
    return sl.WeightedSum(**{"members": [0, 1], "weights": [1.0, 2.0], "radius": 1.0} | changes)


def moment(**changes):
    return sl.Moment(**{"order": 2, "members": [0, 1], "bound": 1.0} | changes)


def threshold(**changes):
    return sl.SmoothThreshold(**{"at": 0.0, "members": [0, 1], "bound": 1.0, "bandwidth": 0.1} | changes)


def deepset(**changes):
    plain = {"feature": lambda x: x, "readout": lambda s: s, "members": [0, 1], "sensitivity": 1.0}
    return sl.DeepSet(**plain | changes)


FAMILIES = [mean, total, weighted, moment, threshold, deepset]
REFUSED = [
    *((make, {"members": []}, "at least one of members") for make in FAMILIES),
    *((make, {"members": [1, -2]}, "members >= 0, got -2") for make in FAMILIES),
    *((make, {"members": [3, 3]}, r"distinct members, got \[3\] twice") for make in FAMILIES),
    *((make, {"members": [0.0, 1.0]}, "members as whole numbers") for make in FAMILIES),
    *((make, {"members": [True, False]}, "members as whole numbers") for make in FAMILIES),
    *((make, {"radius": 0.0}, "radius between") for make in (mean, total, weighted)),
    *((make, {"radius": -1.0}, "radius between") for make in (mean, total, weighted)),
    *((make, {"radius": np.nan}, "finite radius") for make in (mean, total, weighted)),
    *((make, {"radius": np.inf}, "finite radius") for make in (mean, total, weighted)),
    *((make, {"radius": "wide"}, "radius to be a number, got str") for make in (mean, total, weighted)),
    *((make, {"radius": True}, "radius to be a number, got bool") for make in (mean, total, weighted)),
    *((make, {"radius": 1e200}, "radius between") for make in (mean, total, weighted)),
    *((make, {"dimension": 0}, "dimension >= 1") for make in (mean, total, weighted, deepset)),
    *(
        (make, {"dimension": 2.0}, "dimension to be a whole number")
        for make in (mean, total, weighted, deepset)
    ),
    (weighted, {"weights": [1.0]}, "one weight for each of 2 members, got 1"),
    (weighted, {"weights": [[1.0, 2.0]]}, "weights of 1 dimension"),
    (weighted, {"weights": [1.0, np.nan]}, "finite weights"),
    (weighted, {"weights": ["a", "b"]}, "weights to be an array of numbers"),
    (weighted, {"members": [7, 3], "weights": [0.0, 1.0]}, r"nonzero weights, got zero for member \[7\]"),
    (weighted, {"weights": [1.0, 1e200]}, "largest weight times radius"),
    (weighted, {"weights": [1.0, 1e300], "radius": 1e100}, "finite sensitivity"),
    *((make, {"bound": 0.0}, "bound between") for make in (moment, threshold)),
    *((make, {"bound": np.nan}, "finite bound") for make in (moment, threshold)),
    *(
        (make, {"convention": "loose"}, "convention to be one of tight, uniform, got loose")
        for make in (moment, threshold)
    ),
    (moment, {"order": 0}, "order >= 1"),
    (moment, {"order": -3}, "order >= 1"),
    (moment, {"order": 2.0}, "order to be a whole number"),
    (moment, {"order": True}, "order to be a whole number"),
    (moment, {"order": 2**53}, "order below"),
    (moment, {"order": 50, "bound": 1e3}, r"bound\*\*order between"),
    (moment, {"order": 50, "bound": 1e-3}, r"bound\*\*order between"),
    (threshold, {"bandwidth": 0.0}, "bandwidth between"),
    (threshold, {"bandwidth": -1.0}, "bandwidth between"),
    (threshold, {"bandwidth": np.nan}, "finite bandwidth"),
    (threshold, {"at": np.nan}, "finite at"),
    (threshold, {"at": 1.5}, "the threshold within ±1.0, got 1.5"),
    (threshold, {"bound": 1e-100, "bandwidth": 1e100}, "sensitivity between .* use a smaller bandwidth"),
    (threshold, {"kernel": "box"}, "kernel to be one of logistic, compact, got box"),
    (deepset, {"sensitivity": -1.0}, "sensitivity between"),
    (deepset, {"sensitivity": np.nan}, "finite sensitivity"),
    (deepset, {"sensitivity": [1.0, 1.0]}, r"sensitivity as one number or as 1, got shape \(2,\)"),
    (deepset, {"sensitivity_l1": 0.0}, "sensitivity_l1 between"),
    (deepset, {"outputs": 2}, r"a readout of 2 number\(s\), got 1; say outputs=1"),
    (deepset, {"readout": lambda s: jnp.stack([s, s])}, r"got 2; say outputs=2"),
    (deepset, {"feature": lambda x: x[3]}, r"feature to accept an array of shape \(\), got"),
    (deepset, {"feature": lambda x: (x, x)}, "feature to return one array in double precision, got tuple"),
    (deepset, {"readout": lambda s: s.astype(jnp.float32)}, "double precision, got float32"),
    (deepset, {"feature": lambda x: x.astype(int)}, "double precision, got int"),
]


@pytest.mark.parametrize(("make", "changes", "message"), REFUSED)
def test_it_is_refused_with_what_was_expected(make, changes, message):
    make()
    with pytest.raises(InvalidRelease, match=message):
        make(**changes)


def test_arguments_are_named():
    with pytest.raises(TypeError, match="positional"):
        sl.SubsetMean([0, 1], 1.0)


class TestCells:
    def test_overlapping_cells_are_named(self):
        cells = [mean(members=[4, 1]), mean(members=[2]), mean(members=[0, 4])]
        with pytest.raises(InvalidRelease, match=r"at most one cell, got record \[4\] in cells \[0, 2\]"):
            sl.Cells(cells=cells)

    def test_there_is_at_least_one_cell(self):
        with pytest.raises(InvalidRelease, match="at least one cell"):
            sl.Cells(cells=[])

    def test_cells_are_over_the_same_records(self):
        with pytest.raises(InvalidRelease, match=r"one dimension, got \[1, 2\]"):
            sl.Cells(cells=[mean(), mean(members=[5], dimension=2)])


class TestDeepSetWhereItIsNotSmooth:
    def test_an_infinite_answer(self):
        with pytest.raises(
            InvalidInput, match=r"finite at the records, got NaN or infinity in outputs \[0\]"
        ):
            deepset(readout=jnp.log).value([0.0, 0.0])

    @pytest.mark.slow
    def test_an_infinite_derivative(self):
        with pytest.raises(InvalidInput, match=r"have derivatives.*record \[1\]"):
            deepset(feature=jnp.sqrt).jacobian([1.0, 0.0])
