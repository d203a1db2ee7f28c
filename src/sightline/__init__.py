"""Sightline: what a sequence of differentially private aggregates lets an attacker see.

The public names are listed in ``__init__.pyi``. Each loads on first use, so ``import sightline`` is instant.
"""

from sightline._names import lazy

_load, __dir__ = lazy(__name__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("sightline")
    return _load(name)


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext sightline`` calls: add the cell magic ``%%sightline``."""
    from sightline.jobs.notebook_cell import register

    register(shell)
