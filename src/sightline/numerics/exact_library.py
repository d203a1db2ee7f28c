"""python-flint, loaded when something is first computed exactly.

Designs whose rows are proved independent by floating point, and of which no record comes near
identifiability, need no exact arithmetic, so a machine without python-flint can assess them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sightline.errors import MissingExtra


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        flint = import_module("flint")
    except ImportError as error:
        raise MissingExtra(
            "expected python-flint, which decides in exact arithmetic who is identifiable; "
            "install it: pip install python-flint"
        ) from error
    found = globals()[name] = getattr(flint, name)
    return found
