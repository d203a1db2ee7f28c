"""The command ``sightline check``."""

from __future__ import annotations

import sys

import click

from sightline.errors import SightlineError
from sightline.format import count
from sightline.report.streams import print_json


@click.command(epilog="Example:  sightline check plan.toml")
@click.argument("plans", type=click.Path(), nargs=-1, metavar="[PLAN]...")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a plan file instead.")
@click.option(
    "--format",
    "shown",
    type=click.Choice(["text", "github", "junit", "sarif", "markdown"]),
    default="text",
    show_default=True,
    help="Print for a pipeline: annotations, a test report, a code scan, a comment.",
)
def check(plans: tuple[str, ...], schema: bool, shown: str) -> int:
    """Check plans: their fields, the columns of their tables, and their SQL. No row is read."""
    if schema:
        from sightline.auditing.reading import plan_schema

        print_json(plan_schema())
        return 0
    if not plans:
        raise click.UsageError("expected a plan file, got none; or ask for --schema")
    from sightline import jobs

    errors: list[str | None] = []
    for plan in plans:
        try:
            checked = jobs.check(plan)
        except SightlineError as error:
            if shown == "text" and len(plans) == 1:
                raise
            errors.append(f"{type(error).__name__}: {error}")
            print(f"{plan}: {errors[-1]}", file=sys.stderr)
        else:
            errors.append(None)
            if shown == "text":
                print(f"{plan}: a good plan, with {count(len(checked.releases), 'release')}")
    if shown != "text":
        from sightline.report.pipelines import PipelineFormat, checked_text
        from sightline.report.problems import PlanLines

        found = [(PlanLines.of(plan), error) for plan, error in zip(plans, errors, strict=True)]
        print(checked_text(found, PipelineFormat(shown)))
    return 1 if any(errors) else 0
