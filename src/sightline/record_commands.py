"""Commands about release records: the exporters of libraries, and a plan of what was published."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.errors import InvalidInput
from sightline.report.streams import print_lines

if TYPE_CHECKING:
    from sightline.auditing.query_files import GivenPlan

LIBRARIES = ("opendp", "smartnoise", "dp_accounting")


@click.command(epilog="Example:  sightline exporter opendp > export_opendp.py")
@click.argument("library", type=click.Choice(LIBRARIES))
def exporter(library: str) -> None:
    """Print a file to put beside a program that publishes with a library: it writes release records."""
    text = resources.files("sightline").joinpath("exporters", f"{library}.py").read_text(encoding="utf-8")
    print(text, end="")


def plan_from_records(pattern: str, given: GivenPlan, *, out: Path, force: bool, alone: bool) -> None:
    """Write the plan of the release records that match a pattern, and say how each field is known."""
    from glob import glob

    from sightline.auditing.records import records_plan
    from sightline.report.files import check_apart, write_new

    files = sorted(glob(pattern))  # noqa: PTH207 - a pattern may start from the root
    if not files or not alone or given.epsilon is not None or given.noise is not None:
        got = "other releases or noise" if files else f"{pattern[:60]!r}, which is no file"
        raise InvalidInput(f"expected release records alone, got {got}")
    check_apart([out], map(Path, files))
    made = records_plan(files, out=out, given=given)
    write_new(out, made.text.encode("utf-8"), force=force, owner_only="://" in (given.table or ""))
    print_lines(made.notes, sys.stderr)
    print(f"Wrote {out}. Check it, then:  sightline audit {out}")
