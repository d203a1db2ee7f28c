"""Where dense matrices are multiplied and factorised: with NumPy on this machine, or on an accelerator.

A device is named as in PyTorch, ``"cuda"`` or ``"cuda:1"``, and the first of PyTorch, CuPy and JAX that is
installed carries it. A library may be named too: ``"jax:cpu"``. Error bounds assume products in double
precision, so a device is asked for one exact product before it is used.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from sightline.arrays import namespace, to_numpy
from sightline.errors import InvalidInput, MissingExtra, TooMuchWork, require
from sightline.values import frozen

_ACCELERATED = ("torch", "cupy", "jax")
_ONLY = {"numpy": "cpu", "cupy": "cuda"}  # CuPy's arrays lie on its current device
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
        library = type(array).__module__.partition(".")[0].removesuffix("lib")  # jaxlib
        match library:
            case "torch":
                place = str(array.device)
            case "cupy":
                place = "cuda"
            case "jax":
                own = next(iter(array.devices()))
                place = "cpu" if own.platform == "cpu" else f"cuda:{own.id}"
            case _:
                place = "cpu"
        if place == "cpu":
            return HOST
        device = cls(library=library, place=place)
        device._try_out()
        return device

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
                return import_module("torch").tensor(values, device=self.place)
            case "cupy":
                return import_module("cupy").asarray(values)
            case _:
                jax = import_module("jax")
                platform, _, number = self.place.partition(":")
                return jax.device_put(values, jax.devices(platform)[int(number or 0)])

    def get(self, array: Any) -> Any:
        """An array of the device as NumPy numbers."""
        return to_numpy(array)

    def floats(self, array: Any) -> Any:
        """An array of the device in double precision."""
        double = namespace(array).float64
        return array.to(double) if self.library == "torch" else array.astype(double)

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
            found = self.get(self.put(left) @ self.put(right))
        except ImportError as error:
            raise MissingExtra(f"expected {self.library}, which the device {self} needs; {error}") from error
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InvalidInput(f"expected a device that {self.library} has, got {self}: {reason}") from error
        require(
            found.dtype == np.float64 and bool(np.array_equal(found.astype(np.int64), whole[0] @ whole[1])),
            f"products in double precision of {self}",
            got=f"numbers of type {found.dtype} that are not exact",
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
