"""Public names that load on first use: the stub ``__init__.pyi`` of a package is the list of them.

Type checkers read the stub, and so does this module, when a name is first asked for. To publish a name, add a
line to the stub.
"""

from __future__ import annotations

_INSTALL_AS = {"flint": "python-flint"}  # packages whose modules have another name
TYPE_CHECKING = False  # the typing module takes longer to import than this package
if TYPE_CHECKING:
    from collections.abc import Callable


def homes(package: str) -> dict[str, str]:
    """The public names of ``package`` in the order of its stub, each with the module that defines it."""
    from pkgutil import get_data

    stub = (get_data(package, "__init__.pyi") or b"").decode()
    lines = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    return {name: home for _, home, _, name, *_ in lines}


def lazy(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for the ``__init__.py`` of ``package``."""
    known: dict[str, str] = {}

    def names() -> list[str]:
        if not known:
            known.update(homes(package))
        return sorted(known)

    def load(name: str) -> object:
        from importlib import import_module

        if name == "__all__":
            return names()
        if name.startswith("__") or name not in names():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = known[name]
        try:
            if home == package:  # a room
                return import_module(f"{package}.{name}")
            return getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if missing.startswith("sightline"):
                raise
            install = _INSTALL_AS.get(missing, missing)
            raise ImportError(
                f"expected {install}, which {package}.{name} needs; install {install}"
            ) from error

    return load, names
