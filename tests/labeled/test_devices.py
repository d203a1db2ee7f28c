"""The dense part on another array library: the same decisions and numbers, and clear refusals.

NumPy as its own second library runs the blocks, the unpacking and the precision of an accelerator on every
machine. PyTorch and JAX, where they are installed, run on the processor.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidInput, MissingExtra, TooMuchWork
from sightline.labeled.column_forms import ColumnForms, ProjectedForms
from sightline.labeled.incidence import dense
from sightline.numerics.device import HOST, Device
from tests.labeled import compare_devices
from tests.labeled.compare_devices import Case, cases, compare


def worst(device: Device, chosen: list[Case]) -> float:
    return max(compare(case, device) for case in chosen)


def with_doubles() -> AbstractContextManager[Any]:
    jax = pytest.importorskip("jax")
    return jax.enable_x64(True)


def test_numpy_as_the_library_of_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_LARGE_BLOCK", 1)  # several blocks of records
    assert worst(Device.named("numpy:cpu"), list(cases(1, 48))) <= 1e-10


@pytest.mark.slow
def test_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert worst(Device.named("torch:cpu"), list(cases(1, 48))) <= 1e-9


@pytest.mark.thorough
@pytest.mark.slow
def test_jax() -> None:
    """One design of each kind: JAX compiles for every new shape."""
    with with_doubles():
        chosen = [case for case in cases(1, 8) if case.kind in ("subsets", "partitions", "many")]
        assert worst(Device.named("jax:cpu"), chosen) <= 1e-9


def test_differences_are_found() -> None:
    """The comparison itself: other noise, and other records, do not pass for the same."""
    one, other = (case.design for case in list(cases(2, 9))[::8])
    host = one.exposures(domain=(0, 1))
    noisier = one.with_noise_times(1.001).exposures(domain=(0, 1))
    with pytest.raises(AssertionError, match="information differs by 2"):
        compare_devices.same_numbers("noise", "information", host.information, noisier.information)
    with pytest.raises(AssertionError, match="differs"):
        compare_devices.same_decisions("records", host, other.exposures(domain=(0, 1)))


@pytest.mark.parametrize("weights", ["binary", "whole", "real"])
def test_sweeps_are_those_of_the_host(weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products, images and forms of rows with known records; sums of whole numbers to the last bit."""
    monkeypatch.setattr(dense, "_LARGE_BLOCK", 1)
    generator = np.random.default_rng(3)
    table = generator.integers(0, 2 if weights == "binary" else 4, (7, 9_001)).astype(np.float64)
    table *= 1.0 if weights != "real" else generator.uniform(0.5, 2.0, table.shape)
    host = dense.DenseIncidence.of(table)
    there = host.on(Device.named("numpy:cpu"))
    unknown, factors = generator.random(9_001) < 0.7, generator.integers(0, 9, 9_001).astype(np.float64)
    keys = generator.integers(0, 1 << host.key_bits, (2, 9_001)).astype(np.float64)
    exact = {"rtol": 0 if weights != "real" else 1e-13}
    kept = table[:, unknown]
    for found in (host.gram(unknown, lambda *_: None), there.gram(unknown, lambda *_: None)):
        np.testing.assert_allclose(found, kept @ kept.T, **exact)
    weighted = there.weighted_gram(factors, lambda *_: None)
    np.testing.assert_allclose(weighted, (table * factors) @ table.T, **exact)
    np.testing.assert_allclose(there.images(unknown, keys), host.images(unknown, keys), **exact)
    assert there.take(np.array([0, 2])).gram(unknown, lambda *_: None).shape == (2, 2)


def test_records_that_stand_for_several_are_counted_on_a_device() -> None:
    chosen = [case for case in cases(4, 7) if case.kind == "partitions"]
    cells = chosen[0].design.incidence
    host, there = cells.as_dense(), cells.on(Device.named("numpy:cpu")).as_dense()
    everyone = np.ones(cells.records, dtype=bool)
    assert there.device.library == "numpy"
    assert not there.device.host
    products = cells.gram(everyone, lambda *_: None)
    assert np.array_equal(host.gram(everyone, lambda *_: None), products)
    assert np.array_equal(there.gram(everyone, lambda *_: None), products)


def test_rows_of_another_library_on_the_processor_are_those_of_numpy() -> None:
    """Also in single precision, which holds 0s and 1s."""
    jax = pytest.importorskip("jax")
    rows = np.random.default_rng(0).integers(0, 2, (3, 24))
    design = sl.MembershipDesign(jax.numpy.asarray(rows, dtype="float32"), noise=[1.0] * 3)
    assert design.incidence.device == HOST
    assert np.array_equal(design.incidence.columns(np.arange(24)), rows)


def test_eigenvalues_that_were_not_found_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX and CuPy return NaN where LAPACK raises: another factorisation takes their place."""
    generator = np.random.default_rng(5)
    design = sl.MembershipDesign(generator.integers(0, 2, (6, 200)), noise=[0.5] * 6)
    expected = design.exposures(domain=(0, 1))
    nothing = (np.full(6, np.nan), np.full((6, 6), np.nan))
    found_by = np.linalg.eigh
    calls = iter([nothing])
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: next(calls, None) or found_by(matrix))
    found = design.exposures(domain=(0, 1))
    assert next(calls, None) is None
    assert np.array_equal(found.identifiable, expected.identifiable)
    assert found.remaining_upper == pytest.approx(expected.remaining_upper, rel=1e-9)


class TestRefusals:
    def test_a_library_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cupy", None)
        with pytest.raises(MissingExtra, match="expected cupy, which the device cupy:cuda needs"):
            Device.named("cupy")

    def test_no_library_at_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match="expected PyTorch, CuPy or JAX, which device='cuda' needs"):
            sl.MembershipDesign([[0, 1]], records=3, noise=[1.0]).exposures(domain=(0, 1), device="cuda")

    def test_a_device_that_is_not_there(self) -> None:
        pytest.importorskip("jax")
        with pytest.raises(InvalidInput, match="expected a device that jax has, got jax:abacus"):
            Device.named("jax:abacus")

    def test_single_precision(self) -> None:
        """JAX holds doubles as floats unless it is told not to; no bound would hold."""
        pytest.importorskip("jax")
        with pytest.raises(InvalidInput, match=r"expected products in double precision of jax:cpu.*x64"):
            Device.named("jax:cpu")

    @pytest.mark.parametrize("moment", ["rows", "products"])
    def test_too_little_memory(self, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
        class OutOfMemoryError(RuntimeError):
            """As PyTorch's and CuPy's."""

        def refuse(self: Device, values: Any) -> Any:
            raise OutOfMemoryError("tried to allocate 80 GiB")

        design = sl.MembershipDesign([[1, 1, 0], [0, 1, 1]], noise=[1.0, 1.0])
        device = Device.named("numpy:cpu")
        placed = design.on(device)
        monkeypatch.setattr(Device, "put", refuse)
        with pytest.raises(TooMuchWork, match="fits the memory of numpy:cpu"):
            design.on(device) if moment == "rows" else placed.exposures(domain=(0, 1))

    def test_numbers_that_are_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """NaN is below no limit: a faulty device must not make a pass."""

        def faulty(self: ColumnForms, block: Any) -> Any:
            return np.full((len(self.offsets) + len(self.linear), block.shape[1]), np.nan)

        design = sl.MembershipDesign(np.random.default_rng(5).integers(0, 2, (6, 200)), noise=[0.5] * 6)
        monkeypatch.setattr(ProjectedForms, "of_block", faulty)
        with pytest.raises(InvalidInput, match="a number for every record, got NaN from numpy:cpu"):
            design.exposures(domain=(0, 1), device="numpy:cpu")

    def test_other_errors_stay_as_they_are(self) -> None:
        with pytest.raises(ZeroDivisionError), Device.named("numpy:cpu").memory_refused():
            raise ZeroDivisionError
        with pytest.raises(MemoryError), HOST.memory_refused():
            raise MemoryError


def test_without_python_flint() -> None:
    """Independent rows of many records need none; where it is needed, one line says so."""
    script = (
        "import sys; sys.modules['flint'] = None\n"
        "import numpy as np, sightline as sl\n"
        "rows = np.random.default_rng(0).integers(0, 2, (5, 300))\n"
        "found = sl.MembershipDesign(rows, noise=[1.0] * 5).exposures(domain=(0, 1))\n"
        "assert found.rank == 5 and not found.identifiable.any()\n"
        "try:\n"
        "    sl.MembershipDesign([[1, 1], [0, 1]], noise=[1.0] * 2).exposures(domain=(0, 1))\n"
        "except sl.SightlineError as error:\n"
        "    print(error)\n"
        "try:\n"
        "    sl.GaussianDP\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "expected python-flint, which decides in exact arithmetic who is identifiable; "
        "install it: pip install python-flint\n"
        "expected python-flint, which sightline.GaussianDP needs; install python-flint\n"
    )
