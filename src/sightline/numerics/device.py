"""Where dense matrices are multiplied and factorised: with NumPy on this machine, or on an accelerator.

A device is named as in PyTorch, ``"cuda"`` or ``"cuda:1"``, and the first of PyTorch, CuPy and JAX that is
installed carries it. A library may be named too: ``"jax:cpu"``. Error bounds assume products in double
precision, so a device is asked for one exact product before it is used.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import scipy

from sightline.arrays import AT_A_TIME, FloatArray, namespace, to_numpy
from sightline.errors import InvalidInput, MissingExtra, TooMuchWork, require
from sightline.numerics.positive_inverse import positive_inverse
from sightline.values import frozen

_ACCELERATED = ("torch", "cupy", "jax")
_ONLY = {"numpy": "cpu", "cupy": "cuda"}  # CuPy's arrays lie on its current device
_MOST_AT_A_TIME = 1 << 29  # doubles: larger steps than 4 GB are slower
_SMALL_MEMORY = 8 << 30  # bytes
_FORGOTTEN_BITS = "JAX holds them only after jax.config.update('jax_enable_x64', True)"


@frozen(eq=True)
class Device:
    """An array library, and the place where its arrays lie.

    >>> device = Device.named("numpy:cpu")
    >>> device.get(device.put(np.eye(2)) @ device.put(np.ones((2, 1)))).tolist()
    [[1.0], [1.0]]
    """

    library: str
    place: str  # "host", "cpu", "cuda" or "cuda:1"

    @classmethod
    def named(cls, name: str) -> Device:
        """The device of a name, with a library before it or without, tried out."""
        first, _, rest = name.partition(":")
        if first in ("numpy", *_ACCELERATED):
            device = cls(library=first, place=rest or "cuda")
        else:
            device = cls(library=_installed(name), place=name)
        device._try_out()
        return device

    @classmethod
    def of(cls, array: Any) -> Device:
        """Where an array lies; the host for arrays on the processor, which NumPy serves as well."""
        device = cls.holding(array)
        if device.place in ("cpu", "host"):
            return HOST
        device._try_out()
        return device

    @classmethod
    def holding(cls, array: Any) -> Device:
        """Where an array of a device lies that was tried out before."""
        library = type(array).__module__.partition(".")[0].removesuffix("lib")  # jaxlib
        match library:
            case "torch":
                return cls(library=library, place=str(array.device))
            case "cupy":
                return cls(library=library, place="cuda")
            case "jax":
                device = next(iter(array.devices()))
                return cls(library=library, place="cpu" if device.platform == "cpu" else f"cuda:{device.id}")
            case _:
                return HOST

    @property
    def host(self) -> bool:
        """Whether this is no accelerator: blocks and precision are chosen for the processor's caches."""
        return self.place == "host"

    def put(self, values: Any) -> Any:
        """NumPy numbers as an array on the device; what is there already, or is no array, as it is."""
        if not isinstance(values, np.ndarray) or self.library == "numpy":
            return values
        match self.library:
            case "torch":
                with (
                    warnings.catch_warnings()
                ):  # PyTorch warns of arrays that are locked, and would share them
                    warnings.simplefilter("ignore")
                    shared = import_module("torch").from_numpy(np.ascontiguousarray(values))
                return shared.to(self.place, copy=True)
            case "cupy":
                return import_module("cupy").asarray(values)
            case _:
                jax = import_module("jax")
                platform, _, number = self.place.partition(":")
                return jax.device_put(values, jax.devices(platform)[int(number or 0)])

    def get(self, array: Any) -> Any:
        """An array of the device as NumPy numbers."""
        return to_numpy(array)

    def numbers(self, array: Any) -> FloatArray:
        """The same as doubles, none of which is NaN: a faulty device must not make a pass."""
        values = np.asarray(self.get(array), dtype=np.float64)
        if (
            not self.host and values.size
        ):  # a least number is NaN if one is: half the time of a table of answers
            require(not np.isnan(values.min()), "a number for every record", got=f"NaN from {self}")
        return values

    def floats(self, array: Any) -> Any:
        """An array of the device in double precision."""
        double = namespace(array).float64
        return array.to(double) if self.library == "torch" else array.astype(double)

    @property
    def at_a_time(self) -> int:
        """Doubles that one step of a pass holds: on the host what a cache likes, else some of the memory.

        A step has the columns, a product with them and its square: with a forty-eighth of the memory, in
        bytes, no more than half of it.
        """
        if self.host:
            return AT_A_TIME
        return int(min(self._memory() // 48, _MOST_AT_A_TIME))

    def _memory(self) -> int:
        """Bytes of the device; of a library that does not say, as many as small accelerators have."""
        match self.library:
            case "torch" if self.place != "cpu":
                return int(import_module("torch").cuda.mem_get_info(self.place)[1])
            case "cupy":
                return int(import_module("cupy").cuda.Device().mem_info[1])
            case "jax":
                platform, _, number = self.place.partition(":")
                device = import_module("jax").devices(platform)[int(number or 0)]
                return int((device.memory_stats() or {}).get("bytes_limit", _SMALL_MEMORY))
            case _:
                return _SMALL_MEMORY

    def inverse(self, matrix: Any) -> Any:
        """The inverse of a positive definite matrix, symmetric to the last bit; nothing is proved about it.

        It lies where the matrix does. ``None`` if the matrix is not positive definite, to rounding.
        """
        if self.host:
            return positive_inverse(matrix.copy())
        whitener = self._whitener(matrix)
        return None if whitener is None else self.square(whitener.T)

    def square(self, root: Any) -> Any:
        """``root @ root.T``, symmetric to the last bit."""
        product = root @ root.T
        return product if self.host else (product + product.T) / 2  # BLAS computes one half of it

    def add_to_diagonal(self, matrix: Any, values: FloatArray) -> Any:
        """The matrix with NumPy numbers added to its diagonal; it is written over, where its library can."""
        there, every = self.put(values), self.put(np.arange(len(values)))
        if self.library == "jax":
            return matrix.at[every, every].add(there)
        matrix[every, every] += there
        return matrix

    def common_eigenvectors(self, R: Any, M: Any) -> tuple[FloatArray, Any]:
        r"""Values and vectors V with :math:`V^\top M V = I` and :math:`V^\top R V` a diagonal, the values.

        M is positive definite. Nothing is proved about them. The vectors lie where the matrices do.
        """
        whitener = None if self.host else self._whitener(M)
        if whitener is None:
            values, vectors = scipy.linalg.eigh(self.get(R), self.get(M), check_finite=False)
            return values, self.put(vectors)
        inside = whitener @ R @ whitener.T
        values, vectors = namespace(whitener).linalg.eigh((inside + inside.T) / 2)
        return self.get(values), whitener.T @ vectors

    def _whitener(self, matrix: Any) -> Any:
        """W with W M Wᵀ = I, a lower triangle; ``None`` if M is not positive definite."""
        try:
            lower = namespace(matrix).linalg.cholesky(matrix)
        except Exception as error:  # each library has an exception of its own for it
            if _out_of_memory(error):
                raise
            return None
        unit = namespace(matrix).eye(len(matrix), **self._like(matrix))
        match self.library:
            case "torch":
                whitener = import_module("torch").linalg.solve_triangular(lower, unit, upper=False)
            case "cupy":
                whitener = import_module("cupyx.scipy.linalg").solve_triangular(lower, unit, lower=True)
            case "jax":
                whitener = import_module("jax.scipy.linalg").solve_triangular(lower, unit, lower=True)
            case _:
                whitener = np.linalg.solve(lower, unit)
        finite = bool(namespace(whitener).isfinite(whitener).all())  # JAX fills a failed factor with NaN
        return whitener if finite else None

    def _like(self, array: Any) -> dict[str, Any]:
        """How a new array is asked for that lies where another does; JAX and CuPy know by themselves."""
        return {"dtype": array.dtype} | ({"device": array.device} if self.library == "torch" else {})

    @contextmanager
    def memory_refused(self) -> Iterator[None]:
        """A device that runs out of memory is a refusal in one line."""
        try:
            yield
        except Exception as error:
            if not self.host and _out_of_memory(error):
                raise TooMuchWork(
                    f"expected a design that fits the memory of {self}, got one that does not; "
                    "leave out the device, or publish fewer numbers"
                ) from error
            raise

    def __str__(self) -> str:
        return f"{self.library}:{self.place}"

    def _try_out(self) -> None:
        """Refuse a device that is not there, or that does not multiply in double precision."""
        only = _ONLY.get(self.library, self.place)
        require(self.place == only, f"a device that {self.library} has, {self.library}:{only}", got=str(self))
        whole = np.random.default_rng(0).integers(0, 1 << 22, (2, 256, 256))
        left, right = whole.astype(np.float64)
        try:
            product = self.get(self.put(left) @ self.put(right))
        except ImportError as error:
            raise MissingExtra(f"expected {self.library}, which the device {self} needs; {error}") from error
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InvalidInput(f"expected a device that {self.library} has, got {self}: {reason}") from error
        require(
            product.dtype == np.float64
            and bool(np.array_equal(product.astype(np.int64), whole[0] @ whole[1])),
            f"products in double precision of {self}",
            got=f"numbers of type {product.dtype} that are not exact",
            fix=_FORGOTTEN_BITS if self.library == "jax" else "use another device",
        )


HOST = Device(library="numpy", place="host")


def _installed(name: str) -> str:
    """The first library that is installed."""
    for library in _ACCELERATED:
        if importlib.util.find_spec(library) is not None:
            return library
    raise MissingExtra(
        f"expected PyTorch, CuPy or JAX, which device={name!r} needs, got none of them; install one, "
        "or leave out the device"
    )


def _out_of_memory(error: Exception) -> bool:
    """Whether an array library says that memory ran out; each has an exception of its own for it."""
    return "OutOfMemory" in type(error).__name__ or "RESOURCE_EXHAUSTED" in str(error)
