"""Commands about plans and release records as files: check them, export them, and make plans of them."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.errors import InvalidInput, SightlineError, require
from sightline.format import count
from sightline.report.streams import harmless_json, print_json, print_lines

if TYPE_CHECKING:
    from sightline.auditing.query_files import GivenPlan

LIBRARIES = ("opendp", "smartnoise", "tumult", "dp_accounting")


@click.command(epilog="Example:  sightline check plan.toml; or:  sightline check releases/*.json")
@click.argument("plans", type=click.Path(), nargs=-1, metavar="[PLAN | RECORD.json]...")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a plan file instead.")
@click.option("--record-schema", is_flag=True, help="Print the JSON Schema of a release record instead.")
@click.option(
    "--registry", is_flag=True, help="Print a draft for the deployments registry of one release record."
)
@click.option(
    "--format",
    "shown",
    type=click.Choice(["text", "junit", "markdown"]),
    default="text",
    show_default=True,
    help="Print for a pipeline: a test report, or a comment.",
)
def check(plans: tuple[str, ...], schema: bool, record_schema: bool, registry: bool, shown: str) -> int:
    """Check plans: their fields, the columns of their tables, and their SQL. No row is read.

    Of release records the fields are checked, and that their SQL is a query.
    """
    from sightline.auditing import reading, records

    if schema or record_schema:
        print_json(reading.plan_schema() if schema else records.record_schema())
        return 0
    if not plans:
        raise click.UsageError("expected a plan file, got none; or ask for --schema")
    if registry:
        require(len(plans) == 1, "--registry with one release record", got=f"{len(plans)} files")
        print(harmless_json(records.registry_text(records.read_record(plans[0]))))
        return 0
    from sightline import jobs

    errors: list[str | None] = []
    for plan in plans:
        try:
            if plan.casefold().endswith(".json"):
                record = records.read_record(plan)
                records.check_query(record, Path(plan).name[:60])
                good = record.summary
            else:
                good = f"a good plan, with {count(len(jobs.check(plan).releases), 'release')}"
        except SightlineError as error:
            if shown == "text" and len(plans) == 1:
                raise
            errors.append(f"{type(error).__name__}: {error}")
            print_lines([f"{plan}: {errors[-1]}"], sys.stderr)
        else:
            errors.append(None)
            if shown == "text":
                print(f"{plan}: {good}")
    if shown != "text":
        from sightline.report.pipelines import PipelineFormat, checked_text

        print(checked_text(list(zip(plans, errors, strict=True)), PipelineFormat(shown)))
    return 1 if any(errors) else 0


@click.command(epilog="Example:  sightline exporter opendp > export_opendp.py")
@click.argument("library", type=click.Choice(LIBRARIES))
def exporter(library: str) -> None:
    """Print a file to put beside a program that publishes with a library: it writes release records."""
    text = resources.files("sightline").joinpath("exporters", f"{library}.py").read_text(encoding="utf-8")
    print(text, end="")


def plan_from_records(pattern: str, given: GivenPlan, *, out: Path, force: bool, alone: bool) -> None:
    """Write the plan of the release records that match a pattern, and say how each field is known."""
    from glob import glob

    from sightline.auditing.plan_from_records import records_plan
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
