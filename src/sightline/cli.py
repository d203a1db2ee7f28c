"""The command line: a command parses, calls one function of the library, and prints.

Exit status: 0 fine, 1 a mistake that is told in one line, 2 an exposure above the limit that was set.
What is not a user's mistake keeps its traceback.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sightline.errors import SightlineError

if TYPE_CHECKING:
    from sightline.demo import Tour


@click.group(
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


@commands.command(epilog="Example:  sightline demo --json")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def demo(as_json: bool) -> None:
    """A short tour: one record, a mean with it, a mean without it, three accountants."""
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
