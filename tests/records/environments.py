"""Environments with the libraries that exporters are for, each of its own, kept below a cache folder.

``python -m tests.records.environments`` makes them: minutes, and a package index. Tests use those that exist,
and are skipped otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(os.environ.get("SIGHTLINE_EXPORTERS", Path.home() / ".cache" / "sightline" / "exporters"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What one exporter is tested with."""

    exporter: str
    package: str
    version: str
    extra: str = ""
    beside: tuple[str, ...] = ()  # what it needs and does not say

    @property
    def name(self) -> str:
        return f"{self.package}-{self.version}"

    @property
    def python(self) -> Path:
        return FOLDER / self.name / "bin" / "python"


ENVIRONMENTS = (
    Environment(exporter="opendp", package="opendp", version="0.16.0", extra="[polars]"),
    Environment(exporter="opendp", package="opendp", version="0.14.1", extra="[polars]"),
    Environment(exporter="smartnoise", package="smartnoise-sql", version="1.0.10"),
    Environment(exporter="dp_accounting", package="dp-accounting", version="0.6.0"),
    Environment(
        exporter="tumult", package="tmlt.analytics", version="0.21.0", beside=("numpy<2", "setuptools")
    ),
)


def make(environment: Environment) -> None:
    """Make an environment, unless it exists."""
    folder = environment.python.parent.parent
    if environment.python.exists():
        return
    venv.create(folder, with_pip=True)
    wanted = f"{environment.package}{environment.extra}=={environment.version}"
    install = [str(environment.python), "-m", "pip", "install", "-q", wanted, *environment.beside]
    try:
        subprocess.run(install, check=True)
    except BaseException:
        shutil.rmtree(folder)  # half an environment would be taken for one
        raise


if __name__ == "__main__":
    for one in ENVIRONMENTS:
        print(one.python.parent.parent, file=sys.stderr)
        make(one)
