"""The command line: a command parses, calls one function of the library, and prints.

Exit status: 0 fine, 1 a mistake that is told in one line, 2 an exposure above the limit that was set, 130
interrupted, 141 nobody reads on. What is not a user's mistake keeps its traceback.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.errors import MissingExtra, SightlineError

if TYPE_CHECKING:
    from sightline.auditing.result import AuditResult
    from sightline.demo import Tour


class _Commands(click.Group):
    """Commands that end quietly, as others do, when the reader of a pipe has seen enough."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, SystemExit):  # Rich ends with the latter where others raise the former
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
            raise click.exceptions.Exit(_NOBODY_READS_ON) from None


_NOBODY_READS_ON = 128 + 13  # what a shell reports of a program that the signal PIPE has ended


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example:  sightline demo",
)
@click.version_option(package_name="sightline", message="%(prog)s %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """What a sequence of differentially private aggregates lets an attacker see."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


_plan = click.argument("plan", type=click.Path())
_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


_limit = click.option(
    "--limit", metavar="SHARE", help="What everyone must keep, as 50% or 0.5; exits with 2 if not."
)
_names = click.option("--names", is_flag=True, help="Name the exposed records by their keys.")
_force = click.option("--force", is_flag=True, help="Replace files that exist.")
_publishable = click.option(
    "--publishable", is_flag=True, help="Leave out what is for the table's owner only."
)


@commands.command(epilog="Example:  sightline audit plan.toml --limit 50% --html report.html")
@_plan
@_json
@_limit
@_names
@click.option("--top", default=20, show_default=True, help="How many of the exposed to list.")
@click.option("--html", type=click.Path(path_type=Path), help="Write the report to this file, too.")
@click.option("--date", metavar="TEXT", help="A date to print on the report, which else has none.")
@_publishable
@_force
def audit(
    plan: str,
    as_json: bool,
    limit: str | None,
    names: bool,
    top: int,
    html: Path | None,
    date: str | None,
    publishable: bool,
    force: bool,
) -> int:
    """Who a plan exposes, how sharply, through which releases, and what to change."""
    from sightline.auditing import run
    from sightline.report.files import check_new
    from sightline.report.progress import Ticker

    if html is not None:
        check_new(html, force=force)
    with Ticker() as progress:
        found = run.audit(plan, limit=limit, names=names, top=top, progress=progress)
    _print_result(found.publishable() if publishable else found, as_json)
    if html is not None:
        from sightline.report.html import write_report

        with Ticker() as progress:
            progress("drawing the report", 0.0)
            write_report(found, html, force=force, publishable=publishable, date=date)
        click.echo(f"Wrote {html}", err=True)
    return 2 if found.verdict.passed is False else 0


@commands.command(epilog="Example:  sightline figures plan.toml --out figures")
@_plan
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder, made if missing.")
@_limit
@_names
@_publishable
@_force
def figures(plan: str, out: Path, limit: str | None, names: bool, publishable: bool, force: bool) -> int:
    """Every figure of a plan's report as SVG and PDF, for print."""
    from sightline.auditing import run
    from sightline.report.export import export_figures
    from sightline.report.progress import Ticker

    with Ticker() as progress:
        found = run.audit(plan, limit=limit, names=names, progress=progress)
        progress("drawing the figures", 0.0)
        paths = export_figures(found.publishable() if publishable else found, out, force=force)
    for path in paths:
        click.echo(path)
    return 2 if found.verdict.passed is False else 0


@commands.command(epilog="Example:  sightline check plan.toml")
@click.argument("plan", type=click.Path(), required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a plan file instead.")
def check(plan: str | None, schema: bool) -> None:
    """Check a plan: its fields, its table's columns and its SQL. No row is read."""
    if schema:
        from sightline.auditing.reading import plan_schema

        click.echo(json.dumps(plan_schema(), indent=2, ensure_ascii=False))
        return
    if plan is None:
        raise click.UsageError("expected a plan file, got none; or ask for --schema")
    from sightline.auditing import run

    found = run.check(plan)
    count = len(found.releases)
    click.echo(f"{plan}: a good plan, with {count} release{'' if count == 1 else 's'}")


@commands.command(epilog="Example:  sightline explain plan.toml --record A7")
@_plan
@_json
@click.option("--record", required=True, metavar="KEY", help="The key of the record.")
def explain(plan: str, as_json: bool, record: str) -> None:
    """Why one record is exposed: the recipe, step by step. For the table's owner only."""
    from sightline.auditing import run
    from sightline.report.progress import Ticker

    with Ticker() as progress:
        found = run.explain(plan, record=record, progress=progress)
    if as_json:
        click.echo(json.dumps([one.model_dump(mode="json") for one in found.exposed], indent=2))
        return
    from sightline.report import terminal

    terminal.print_explanation(found, terminal.console())


@commands.command(epilog="Example:  sightline init homes.parquet --secret watts --out plan.toml")
@click.argument("table")
@click.option("--record", metavar="COLUMN", help="The column that says whose row it is; else a guess.")
@click.option("--secret", metavar="COLUMN", help="The column to protect; else a guess.")
@click.option("--out", default="plan.toml", show_default=True, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init(table: str, record: str | None, secret: str | None, out: Path, force: bool) -> None:
    """Write a commented plan for a table, from the names and types of its columns."""
    from sightline.auditing.starter import starter_plan
    from sightline.report.files import write_new

    text = starter_plan(table, out=out, record=record, secret=secret)
    write_new(out, text.encode("utf-8"), force=force)
    click.echo(
        f"Wrote {out}. Say in it what the secret can be, change what is wrong, then:  sightline audit {out}"
    )


@commands.command(epilog="Example:  sightline demo --json")
@_json
@click.option("--html", type=click.Path(path_type=Path), help="Write the report to this file, too.")
@_force
def demo(as_json: bool, html: Path | None, force: bool) -> None:
    """Audit the shipped example: a micro-grid's dashboard that singles out two homes."""
    from sightline.auditing import run
    from sightline.examples.shipped import example_plan

    plan = example_plan("microgrid")
    found = run.audit(plan, names=True)
    _print_result(found, as_json)
    if html is not None:
        from sightline.report.html import write_report

        try:
            write_report(found, html, force=force)
            click.echo(f"\nThe report, to open in a browser: {html}", err=as_json)
        except MissingExtra as error:  # a demo without pictures is still a demo
            click.echo(f"\nNo report was written: {error}", err=True)
    if not as_json:
        click.echo(f"\nThe plan and its data: {plan.parent}")
        click.echo(f"Why H13:  sightline explain {plan} --record H13")
        click.echo("Your own table:  sightline init TABLE")


def _print_result(found: AuditResult, as_json: bool) -> None:
    if as_json:
        click.echo(found.to_json())
        return
    from sightline.report import terminal

    terminal.print_result(found, terminal.console())


@commands.command("tour", epilog="Example:  sightline tour --json")
@_json
def tour_command(as_json: bool) -> None:
    """The idea in one picture: one record, a mean with it, a mean without it, three accountants."""
    from sightline.demo import tour

    found = tour()
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        _print_tour(found)


_TOUR = """\
{total} records, and what is published about them is a list of noisy means of two kinds:
  IN   the mean of all {total}
  OUT  the mean of the {background} without record 0

[bold]What is exposed[/] is decided by the queries. Can record 0 be told apart from the others?
  from IN alone     {identifiable_from_in}
  from IN and OUT   {identifiable_from_in_and_out}: record 0 = {weight_in:g} x IN - {minus_weight_out:g} x OUT

[bold]How sharply[/] is decided by the noise. Root-mean-square error of the best unbiased
reconstruction of record 0, for values of range 1 and a total budget of
epsilon = {epsilon:g}, delta = {delta:g}:

"""

_MORAL = """\
More copies of the same two means open no new direction: under basic composition they
blur the picture, under the other two they leave it as it is. An error above 0.5 is
worse than guessing the middle of the range. All of this holds for unbiased attacks;
it is a benchmark, not a privacy guarantee.
"""


def _print_tour(found: Tour) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    weight_in, weight_out = found.recipe
    words = {
        **asdict(found),
        "total": found.background + 1,
        "weight_in": weight_in,
        "minus_weight_out": -weight_out,
    }
    table = Table("releases", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    for accountant in found.rmse:
        table.add_column(accountant, justify="right")
    for releases in next(iter(found.rmse.values())):
        table.add_row(str(releases), *(f"{errors[releases]:.2f}" for errors in found.rmse.values()))
    console.print(_TOUR.format(**words), soft_wrap=True, end="")
    console.print(table)
    console.print()
    console.print(_MORAL, soft_wrap=True, end="")


@commands.command(epilog="Example:  sightline paper fig:mle --fast --out figures")
@click.argument("labels", nargs=-1, metavar="[LABEL]...")
@click.option("--out", default="paper", show_default=True, type=click.Path(path_type=Path))
@click.option("--fast", is_flag=True, help="Fewer random trials: a look in seconds.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same files.")
@_json
def paper(labels: tuple[str, ...], out: Path, fast: bool, seed: int, as_json: bool) -> None:
    """Make the paper's figures, tables and claims again, and compare them with its numbers."""
    from sightline.paper import summary
    from sightline.paper.run import regenerate
    from sightline.report.progress import Ticker

    with Ticker() as progress:
        made = regenerate(labels, out=out, fast=fast, seed=seed, progress=progress)
    if as_json:
        click.echo(json.dumps(summary.document(made), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(summary.lines(made)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    try:
        status = commands.main(arguments, prog_name="sightline", standalone_mode=False)
    except SightlineError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        return 1
    except click.ClickException as error:
        error.show()
        return 1
    except click.Abort:
        click.echo("Interrupted.", err=True)
        return 130
    # Options such as --help end early with a status of their own; a command that ran returns None.
    return status or 0
