"""The array library of the answers: NumPy, JAX, CuPy or PyTorch. The solvers run on its device.

The solvers work on columns, one array of trials for each number, and every constant is a Python float. They
need only a dozen functions, which have the same names in all four libraries, so there are no adapters.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from sightline.errors import InvalidInput, MissingExtra

Column: TypeAlias = Any  # an array of trials, of any of the libraries
Box: TypeAlias = tuple[float, float]  # the smallest and the largest value that a record can have


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
