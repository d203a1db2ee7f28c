"""The same search on arrays of other libraries: the same numbers, on the device where the answers are."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import sightline as sl
from tests.attacks.attack_cases import INTERIOR, moments, noisy, thresholds

pytestmark = pytest.mark.slow

CASES = {
    "pair": (moments(5.0), INTERIOR),
    "triple": (moments(20.0, releases=6, members=3), (-0.7, 0.1, 0.8)),
    "thresholds": (thresholds(0.1), (-0.5, 0.0, 0.6)),
    "hybrid": (
        sl.Transcript(
            [*moments(20.0, releases=3).queries, sl.SubsetMean(members=[1], radius=2.0)], noise=[0.1] * 4
        ),
        INTERIOR,
    ),
}


FEW = sl.ConstrainedMLE(grid_starts=2, random_starts=1)


class TestOtherLibraries:
    @pytest.mark.parametrize("name", ["pair", "thresholds", "hybrid"])
    def test_jax(self, name) -> None:
        jax = pytest.importorskip("jax")
        transcript, at = CASES[name]
        answers = noisy(transcript, at, 60)
        reference = FEW.estimate(transcript, answers)
        with jax.enable_x64(True):
            found = FEW.estimate(transcript, jax.numpy.asarray(answers))
            assert isinstance(found.values, jax.Array)
            assert found.values.dtype == np.float64
        self.check(found.on_host(), reference)

    @pytest.mark.parametrize("name", CASES)
    def test_torch(self, name) -> None:
        attack = sl.ConstrainedMLE()
        torch = pytest.importorskip("torch")
        transcript, at = CASES[name]
        answers = noisy(transcript, at, 200)
        found = attack.estimate(transcript, torch.asarray(answers))
        assert isinstance(found.values, torch.Tensor)
        assert found.values.dtype == torch.float64
        self.check(found.on_host(), attack.estimate(transcript, answers))

    @staticmethod
    def check(found: sl.attacks.Estimates, reference: sl.attacks.Estimates) -> None:
        assert isinstance(found.values, np.ndarray)
        assert np.max(np.abs(found.objective - reference.objective)) <= 1e-9
        # Where the optimum is flat, rounding moves the values more than the objective.
        assert found.values == pytest.approx(reference.values, abs=1e-5)
        if reference.certified is not None:
            assert np.array_equal(found.certified, reference.certified)


def test_single_precision_stays_single() -> None:
    jax = pytest.importorskip("jax")
    transcript, at = CASES["pair"]
    answers = noisy(transcript, at, 60)
    found = FEW.estimate(transcript, jax.numpy.asarray(answers, dtype="float32"))
    assert found.values.dtype == np.float32
    reference = FEW.estimate(transcript, answers)
    assert np.max(np.abs(found.on_host().objective - reference.objective)) < 1e-3


class TestDeviceByName:
    def test_answers_move_there_and_back(self) -> None:
        pytest.importorskip("torch")
        transcript, at = CASES["pair"]
        answers = noisy(transcript, at, 50)
        found = sl.ConstrainedMLE(device="cpu").estimate(transcript, answers)
        assert isinstance(found.values, np.ndarray)
        assert found.values == pytest.approx(sl.ConstrainedMLE().estimate(transcript, answers).values)

    def test_an_unknown_device(self) -> None:
        pytest.importorskip("torch")
        with pytest.raises(sl.SightlineError, match="a device that PyTorch has, got 'abacus'"):
            sl.ConstrainedMLE(device="abacus").estimate(moments(5.0), [0.1, 0.2])

    def test_without_pytorch_it_says_what_is_missing(self, monkeypatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(sl.SightlineError, match="expected PyTorch"):
            sl.ConstrainedMLE(device="cuda").estimate(moments(5.0), [0.1, 0.2])


def test_the_search_needs_numpy_and_scipy_only() -> None:
    """An accelerator machine need not have the rest."""
    script = (
        "import sys\n"
        "import sightline.attacks.mle, sightline.attacks.inversion\n"
        "print(sorted({'flint', 'click', 'rich', 'scipy.stats', 'jax', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
