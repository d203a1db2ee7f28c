"""An audit in the kernel of a notebook, with ipywidgets and without: DuckDB looks for it."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

AUDIT = """
import sightline as sl
from sightline.examples.shipped import example_plan

result = sl.audit(example_plan("microgrid"))
result
"""
WITHOUT_WIDGETS = """
import sys

sys.modules["ipywidgets"] = None  # an import of it fails, as where it is not installed
"""


def outputs(*cells: str) -> list[Any]:
    """What the last cell of a notebook shows; an error in a cell is one here."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    return list(book.cells[-1].outputs)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # of the client, about its own sockets
@pytest.mark.parametrize("before", [(), (WITHOUT_WIDGETS,)], ids=["with ipywidgets", "without"])
def test_an_audit_runs_and_shows_its_verdict(before: tuple[str, ...]) -> None:
    (shown,) = [one for one in outputs(*before, AUDIT) if one.output_type == "execute_result"]
    assert "BELOW THE LIMIT" in shown.data["text/html"]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_without_ipywidgets_duckdb_refuses_what_the_engine_used_to_set() -> None:
    """The case above would pass for nothing if DuckDB did not mind."""
    refused = """
import duckdb

try:
    duckdb.connect().execute("SET enable_progress_bar = false")
except duckdb.InvalidInputException as error:
    print("ipywidgets" in str(error))
"""
    (said,) = outputs(WITHOUT_WIDGETS, refused)
    assert said.text == "True\n"


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_an_explanation_shows_its_steps_once() -> None:
    """The console that prints the steps is no output of the cell: in a kernel it would be."""
    explained = AUDIT.replace(
        'sl.audit(example_plan("microgrid"))', 'sl.explain(example_plan("microgrid"), "H17")'
    )
    (shown,) = outputs(explained)
    assert "1. subtract" in shown.data["text/html"]
