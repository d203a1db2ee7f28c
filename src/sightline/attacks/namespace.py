"""The array library of the answers: NumPy, JAX, CuPy or PyTorch. The solvers run on its device.

The solvers work on columns, one array of trials for each number, and every constant is a Python float. They
need only a dozen functions, which have the same names in all four libraries, so there are no adapters.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from sightline.errors import InvalidInput, MissingExtra

Column: TypeAlias = Any  # an array of trials, of any of the libraries
Box: TypeAlias = tuple[float, float]  # the smallest and the largest value that a record can have


def namespace(array: Any) -> Any:
    """The module of functions for an array: by the array API standard, or the library itself (PyTorch)."""
    own = getattr(array, "__array_namespace__", None)
    if own is not None:
        return own()
    return sys.modules[type(array).__module__.partition(".")[0]]


def is_array(values: Any) -> bool:
    """Whether these are arrays of a supported library, and not a list or a number."""
    library = type(values).__module__.partition(".")[0]
    return hasattr(values, "__array_namespace__") or library in ("torch", "cupy")


def compiles(xp: Any) -> bool:
    """Whether the library needs compiled steps with fixed shapes to be fast (JAX)."""
    return str(xp.__name__).startswith("jax")


def to_device(values: Any, device: str) -> Any:
    """NumPy numbers as a PyTorch array in double precision on a device of that name."""
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise MissingExtra(
            "expected PyTorch, which moves answers to a named device; install torch, or pass arrays that are "
            "on the device already"
        ) from error
    try:
        return torch.asarray(np.array(values, dtype=np.float64), device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"expected a device that PyTorch has, got {device!r}: {reason}") from None


def like(array: Any, values: np.ndarray[Any, Any]) -> Any:
    """NumPy numbers in the library, the precision and on the device of an array."""
    xp = namespace(array)
    place = {"device": array.device} if xp.__name__ == "torch" else {}
    return xp.asarray(values, dtype=array.dtype, **place)


def to_numpy(array: Any) -> Any:
    """An array of any library as a NumPy array, on the host."""
    if isinstance(array, np.ndarray):
        return array
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        return array.detach().cpu().numpy()
    return array.get() if library == "cupy" else np.asarray(array)
