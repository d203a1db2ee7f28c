"""The dense part on another array library: the same decisions and numbers, and clear refusals.

NumPy as its own second library runs the blocks, the unpacking and the precision of an accelerator on every
machine. PyTorch and JAX, where they are installed, run on the processor.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import sightline as sl
from sightline.errors import InvalidInput, MissingExtra, TooMuchWork
from sightline.numerics import device
from sightline.numerics.device import HOST, Device
from sightline.units import member_rows
from sightline.units.row_forms import RowForm
from tests.units import compare_devices
from tests.units.compare_devices import Case, cases, compare


def agree(device: Device, chosen: list[Case]) -> None:
    """Decisions are the same, and numbers up to 1e-10 or what both say that they may be off by."""
    for case in chosen:
        compare(case, device)


def with_doubles() -> AbstractContextManager[Any]:
    jax = pytest.importorskip("jax")
    return jax.enable_x64(True)


@pytest.mark.thorough
def test_numpy_as_the_library_of_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_SMALL_MEMORY", 48 * 961)  # several blocks of records
    agree(Device.named("numpy:cpu"), list(cases(1, 48)))


@pytest.mark.slow
def test_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    agree(Device.named("torch:cpu"), list(cases(1, 48)))


@pytest.mark.thorough
@pytest.mark.slow
def test_jax() -> None:
    """One design of each kind: JAX compiles for every new shape."""
    with with_doubles():
        chosen = [case for case in cases(1, 8) if case.kind in ("subsets", "partitions", "many")]
        agree(Device.named("jax:cpu"), chosen)


def test_differences_are_found() -> None:
    """The comparison itself: other noise, and other records, do not pass for the same."""
    one, other = (case.design for case in list(cases(2, 9))[::8])
    host = one.exposures(domain=(0, 1))
    noise = one.law.scaled(1.001)
    noisier = sl.MembershipDesign(one.incidence, noise=noise, factors=one.scale).exposures(domain=(0, 1))
    with pytest.raises(AssertionError, match="information differs by 2"):
        compare_devices.same_numbers("noise", "information", host.information, noisier.information)
    with pytest.raises(AssertionError, match="differs"):
        compare_devices.same_decisions("records", host, other.exposures(domain=(0, 1)))


def test_rows_of_another_library_on_the_processor_are_those_of_numpy() -> None:
    """Also in single precision, which holds 0s and 1s."""
    jax = pytest.importorskip("jax")
    rows = np.random.default_rng(0).integers(0, 2, (3, 24))
    design = sl.MembershipDesign(jax.numpy.asarray(rows, dtype="float32"), noise=[1.0] * 3)
    assert design.incidence.device == HOST
    assert np.array_equal(design.incidence.columns(np.arange(24)), rows)


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

    def test_too_little_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class OutOfMemoryError(RuntimeError):
            """As PyTorch's and CuPy's."""

        def refuse(self: Device, values: Any) -> Any:
            raise OutOfMemoryError("tried to allocate 80 GiB")

        placed = sl.MembershipDesign([[1, 1, 0], [0, 1, 1]], noise=[1.0, 1.0]).on(Device.named("numpy:cpu"))
        monkeypatch.setattr(Device, "put", refuse)
        with pytest.raises(TooMuchWork, match="fits the memory of numpy:cpu"):
            placed.exposures(domain=(0, 1))

    def test_numbers_that_are_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """NaN is below no limit: a faulty device must not make a pass."""

        design = sl.MembershipDesign(np.random.default_rng(5).integers(0, 2, (6, 200)), noise=[0.5] * 6)
        placed = design.on(Device.named("numpy:cpu"))
        monkeypatch.setattr(Device, "get", lambda self, array: np.full(np.shape(array), np.nan))
        with pytest.raises(InvalidInput, match="a number for every record, got NaN from numpy:cpu"):
            placed.exposures(domain=(0, 1))

    def test_other_errors_stay_as_they_are(self) -> None:
        with pytest.raises(ZeroDivisionError), Device.named("numpy:cpu").memory_refused():
            raise ZeroDivisionError
        with pytest.raises(MemoryError), HOST.memory_refused():
            raise MemoryError


def symmetric(seed: int, size: int) -> np.ndarray[Any, Any]:
    rows = np.random.default_rng(seed).standard_normal((size, 3 * size))
    return rows @ rows.T


@pytest.mark.parametrize("name", ["numpy:cpu", "jax:cpu"])
class TestFactorisations:
    """What is factorised on a device is what the host's own libraries give."""

    def test_the_inverse(self, name: str) -> None:
        with with_doubles():
            there, matrix = Device.named(name), symmetric(3, 40)
            inverse = np.asarray(there.get(there.inverse(there.put(matrix))))
        assert np.array_equal(inverse, inverse.T)
        assert np.allclose(inverse @ matrix, np.eye(40), atol=1e-9)

    def test_a_singular_matrix_has_none(self, name: str) -> None:
        with with_doubles():
            there, matrix = Device.named(name), np.diag([1.0, 2.0, -1.0])
            assert there.inverse(there.put(matrix)) is None

    def test_numbers_are_added_to_the_diagonal(self, name: str) -> None:
        with with_doubles():
            there, matrix = Device.named(name), symmetric(8, 12)
            for laid_out in (np.ascontiguousarray(matrix), np.asfortranarray(matrix)):
                added = there.get(there.add_to_diagonal(there.put(laid_out.copy("K")), np.arange(12.0)))
                assert np.array_equal(np.asarray(added), matrix + np.diag(np.arange(12.0)))

    def test_common_eigenvectors(self, name: str) -> None:
        with with_doubles():
            there, M, R = Device.named(name), symmetric(4, 30), symmetric(5, 30)
            values, vectors = there.common_eigenvectors(there.put(R), there.put(M))
            V = np.asarray(there.get(vectors))
        assert np.allclose(V.T @ M @ V, np.eye(30), atol=1e-9)
        assert np.allclose(V.T @ R @ V, np.diag(values), atol=1e-9 * values.max())

    def test_the_error_of_a_form_is_proved_there_too(self, name: str) -> None:
        with with_doubles():
            there, matrix = Device.named(name), symmetric(6, 25)
            form = RowForm.inverse(there.put(matrix), np.arange(25), 25)
            assert np.allclose(form.root**2, np.diagonal(form.matrix))
        b = np.random.default_rng(7).standard_normal(25)
        seen, exact = b @ form.matrix[:-1, :-1] @ b, b @ np.linalg.solve(matrix, b)
        assert abs(seen - exact) <= form.error * exact <= 1e-9 * exact


def test_a_dense_table_of_any_size_is_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of more than 2^31 entries was taken for a sparse one, and had no such columns."""
    rows = np.random.default_rng(8).integers(0, 2, (6, 40))
    before = sl.MembershipDesign(rows, noise=np.full(6, 0.3)).exposures(domain=(0, 1))
    monkeypatch.setattr(member_rows, "_MOST_UNFOLDED", 10)
    after = sl.MembershipDesign(rows, noise=np.full(6, 0.3)).exposures(domain=(0, 1))
    assert np.array_equal(before.remaining_lower, after.remaining_lower)
    listed = sl.MembershipDesign(sparse.csr_array(rows), noise=np.full(6, 0.3)).exposures(domain=(0, 1))
    assert np.allclose(before.remaining_lower, listed.remaining_lower, rtol=1e-9)
