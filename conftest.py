"""The Python blocks of the README and of the docs are tests: prose that is not run is assumed wrong."""

from __future__ import annotations

from doctest import ELLIPSIS

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS)], patterns=["*.md"]
).pytest()
