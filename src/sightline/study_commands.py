"""Commands beside ``audit``: ``design``, ``fit``, ``rehearse``, ``paper``, ``check``, ``exporter``.

Options that other commands have, too, are defined here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sightline.errors import InvalidInput, InvalidPlan, SightlineError, require
from sightline.format import count
from sightline.report.streams import harmless_json, print_json, print_lines

if TYPE_CHECKING:
    from sightline.auditing.query_files import GivenPlan

plan_argument = click.argument("plan", type=click.Path())
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
limit_option = click.option(
    "--limit",
    metavar="LIMIT",
    help="What everyone must keep: a share of their uncertainty, as 50% or 0.5, or ± in the secret's own "
    "unit, as 500; exit with 2 if one may not.",
)
names_option = click.option("--names", is_flag=True, help="Name the exposed records by their keys.")
html_option = click.option(
    "--html", type=click.Path(path_type=Path), help="Also write the report to this HTML file."
)
force_option = click.option("--force", is_flag=True, help="Replace files that exist.")

about_a_table = (
    click.option("--table", metavar="FILE", help="The table that the queries read: no plan is needed."),
    click.option("--record", metavar="COLUMN", help="The column that says whose row it is."),
    click.option("--secret", metavar="COLUMN", help="The column to protect."),
)
about_a_secret = (
    click.option("--bounds", type=(float, float), metavar="LOW HIGH", help="What a number can be."),
    click.option("--categories", metavar="A,B,…", help="What a category can be."),
    click.option("--public", metavar="A,B,…", help="The columns that everybody may know of everyone."),
    click.option("--max-rows", type=int, default=1, help="The most rows that one record has. [default: 1]"),
    click.option("--epsilon", type=float, metavar="E", help="A budget for all releases."),
    click.option("--delta", type=float, metavar="D", help="Its delta. [default: 1e-6]"),
    click.option("--noise", type=float, metavar="S", help="Gaussian noise of this stddev on every number."),
)


def given_plan(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say what a plan says about its table and its noise, as one parameter ``given``."""

    def decorated(command: Callable[..., object]) -> Callable[..., object]:
        @wraps(command)
        def packed(**parameters: Any) -> object:
            from sightline.auditing.query_files import GivenPlan

            names = [one.name for one in fields(GivenPlan) if one.name in parameters]
            mine, amounts = (
                {name: value for name in each if (value := parameters.pop(name)) is not None}
                for each in (names, ("epsilon", "delta", "noise"))
            )
            for name in ("categories", "public"):
                mine[name] = tuple(one.strip() for one in mine.get(name, "").split(",") if one.strip())
            return command(given=GivenPlan(**mine, amounts=amounts), **parameters)

        for option in reversed(options):
            packed = option(packed)
        return packed

    return decorated


def plan_given(paths: Sequence[str], given: GivenPlan) -> dict[str, Any] | str:
    """The plan that a command line means: one plan file, or queries in files about a table."""
    from sightline.auditing.plan_fields import SUFFIX
    from sightline.auditing.query_files import rebased
    from sightline.auditing.reading import plan_content

    queries = [path for path in paths if path.lower().endswith(SUFFIX)]
    if queries and len(queries) < len(paths):
        raise InvalidInput("expected one plan, or files of SQL, got both")
    if queries:
        return given.of_queries(queries)
    if len(paths) > 1:
        raise InvalidInput(f"expected one plan, or files that end in {SUFFIX}, got {len(paths)} files")
    if Path(paths[0]).is_dir():
        raise InvalidInput(
            f"expected a plan, or files that end in {SUFFIX}, got a folder; write {paths[0]}/*{SUFFIX}"
        )
    if given.table or given.data.keys() - {"public"}:
        raise InvalidInput(
            "expected --table, --record, --secret, --bounds, --categories and --max-rows with files of SQL, "
            "got a plan, which says them itself"
        )
    if not given.amounts and not given.public:
        return paths[0]
    content, _, base = plan_content(paths[0])
    return given.with_noise(given.with_public(rebased(content, base)))


@click.command(epilog="Example:  sightline design plan.toml --limit 50% --out designed.toml")
@plan_argument
@json_option
@limit_option
@names_option
@click.option("--out", type=click.Path(path_type=Path), help="Write the proposed plan to this file.")
@click.option("--grain", default="cell", show_default=True, help="One noise for each cell, or release.")
@click.option(
    "--loss",
    default="size",
    show_default=True,
    help="What to make small: variances by size, relative to today's, or as they are (variance).",
)
@click.option(
    "--series", default=1, show_default=True, help="Periods, such as 12 months, that share the budget."
)
@click.option("--digits", default=3, show_default=True, help="Round the noise to so many digits.")
@force_option
def design(  # many parameters: one for each option
    plan: str,
    as_json: bool,
    limit: str | None,
    names: bool,
    out: Path | None,
    grain: str,
    loss: str,
    series: int,
    digits: int,
    force: bool,
) -> int:
    """Find the least noise with which everyone keeps the limit. For the table's owner only."""
    from sightline.auditing.plan_edit import edited_plan
    from sightline.auditing.reading import files_read
    from sightline.jobs import design as run
    from sightline.report.design import lines
    from sightline.report.files import check_apart, check_new, write_new
    from sightline.report.streams import Ticker

    files = [out] if out else []
    check_apart(files, files_read(plan))
    for file in files:
        check_new(file, force=force)
        if file.resolve().parent != Path(plan).resolve().parent:
            raise InvalidInput(
                f"expected a file beside the plan, where its paths start from, got {str(file)!r}"
            )
    with Ticker() as progress:
        found = run.design(
            plan,
            limit=limit,
            grain=grain,
            loss=loss,
            series=series,
            digits=digits,
            names=names,
            progress=progress,
        )
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_lines(lines(found))
    for file in files:
        _require_one(found.other_secrets, "--out")
        # Noise that a design chose tells something of who is exposed: the file is for its owner.
        proposed = edited_plan(found.plan, plan)
        write_new(file, proposed.encode("utf-8"), force=force, owner_only=True)
        print(f"Wrote {file}", file=sys.stderr)
    return 0 if all(one.passed for one in (found, *found.other_secrets)) else 2


def _require_one(others: Sequence[object], option: str) -> None:
    """A file is about one secret."""
    if others:
        raise InvalidInput(
            f"expected a plan about one secret for {option}, got {1 + len(others)} of them; "
            "--json has all of them, or write a plan for each"
        )


@click.command(epilog="Example:  sightline fit plan.toml noisy.csv --out tables")
@plan_argument
@click.argument("noisy", required=False, type=click.Path(path_type=Path), metavar="[NOISY.csv]")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the tables, made if missing.")
@click.option("--covariance", is_flag=True, help="Also write the covariance of the fit: covariance.csv.")
@click.option(
    "--template", type=click.Path(path_type=Path), help="Write a file of all numbers to fill in, and end."
)
@force_option
def fit(
    plan: str, noisy: Path | None, out: Path | None, covariance: bool, template: Path | None, force: bool
) -> None:
    """Make consistent tables of noisy numbers: their weighted least-squares fit. No secret is read."""
    from sightline.auditing.reading import files_read
    from sightline.jobs import fit as run
    from sightline.report.files import check_apart, check_new, make_folder, write_new
    from sightline.report.streams import Ticker

    if template is not None:
        require(noisy is None and out is None, "--template alone", got="a file of numbers, or --out")
        check_apart([template], files_read(plan))
        check_new(template, force=force)
        with Ticker() as progress:
            content = run.noisy_file(run.fit_task(plan, progress=progress))
        write_new(template, content, force=force, owner_only=True)
        then = f"sightline fit {plan} {template} --out tables"
        print(f"Wrote {template}. Fill in its values with noise, then:  {then}")
        return
    if noisy is None or out is None:
        raise InvalidInput(
            "expected NOISY.csv and --out FOLDER, got one of them or none; or ask for --template FILE"
        )
    with Ticker() as progress:
        made = run.fit(plan, noisy, covariance=covariance, progress=progress)
        files = [(out / name, content) for name, content in made.files()]
    check_apart([path for path, _ in files], [noisy, *files_read(plan)])
    make_folder(out)
    for path, _ in files:
        check_new(path, force=force)
    for path, content in files:
        write_new(path, content, force=force)
    print_lines(made.lines())
    print(f"Wrote {count(len(files), 'file')} to {out}", file=sys.stderr)


@click.command(epilog="Example:  sightline rehearse plan.toml --seed 7 --figure rehearsal.svg")
@plan_argument
@json_option
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same rehearsal.")
@click.option("--repetitions", default=2000, show_default=True, help="How often to repeat each attack.")
@click.option("--top", default=10, show_default=True, help="How many of the most exposed to attack.")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw guesses and truth: .svg, .pdf or .png.")
@force_option
def rehearse(  # many parameters: one for each option
    plan: str,
    as_json: bool,
    seed: int,
    repetitions: int,
    top: int,
    figure: Path | None,
    force: bool,
) -> None:
    """Publish a plan with simulated noise and attack it: guesses beside the truth. For the owner only."""
    from sightline.auditing.reading import files_read
    from sightline.rehearsing.run import rehearse as rehearsed
    from sightline.report.files import check_apart, check_new
    from sightline.report.streams import Ticker

    figures = [figure] if figure else []
    check_apart(figures, files_read(plan))
    for file in figures:
        check_new(file, force=force)
    with Ticker() as progress:
        made = rehearsed(plan, seed=seed, repetitions=repetitions, top=top, progress=progress)
    from sightline.report.rehearsal import document, print_rehearsal
    from sightline.report.streams import console

    if as_json:
        print_json(document(made))
    else:
        print_rehearsal(made, console())
    for file in figures:
        from sightline.report import style
        from sightline.report.rehearsal import draw_rehearsal

        style.save(style.specification(draw_rehearsal(made)), file, force=force, owner_only=True)
        print(f"Wrote {file}", file=sys.stderr)


@click.command(epilog="Example:  sightline paper fig:mle --fast --out figures")
@click.argument("labels", nargs=-1, metavar="[LABEL]...")
@click.option("--out", default="paper", show_default=True, type=click.Path(path_type=Path))
@click.option("--fast", is_flag=True, help="Run fewer random trials: a look in seconds.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same files.")
@json_option
def paper(labels: tuple[str, ...], out: Path, fast: bool, seed: int, as_json: bool) -> None:
    """Make the paper's figures, tables and claims again, and compare them with its numbers."""
    from sightline.report.streams import Ticker
    from sightline.theory.paper.run import regenerate

    with Ticker() as progress:
        made = regenerate(labels, out=out, fast=fast, seed=seed, progress=progress)
    if as_json:
        print_json(made.document())
    else:
        print("\n".join(made.lines()))


LIBRARIES = ("opendp", "smartnoise", "tumult", "dp_accounting")


@click.command(epilog="Example:  sightline check plan.toml; or:  sightline check releases/*.json")
@click.argument("plans", type=click.Path(), nargs=-1, metavar="[PLAN | RECORD.json | FOLDER]...")
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

    Of release records the fields are checked, and that their SQL is a query. A folder stands for the plans
    in it: its .toml files with a [data] section. Other .toml files are named as skipped; a file that is not
    TOML is an error.
    """
    from sightline.auditing import reading
    from sightline.records import release_record as records

    if schema or record_schema:
        print_json(reading.plan_schema() if schema else records.record_schema())
        return 0
    if not plans:
        raise click.UsageError("expected a plan file, got none; or ask for --schema")
    plans = tuple(file for plan in plans for file in _plans_in(plan))
    if registry:
        require(len(plans) == 1, "--registry with one release record", got=f"{len(plans)} files")
        print(harmless_json(records.registry_text(records.read_record(plans[0]))))
        return 0
    from sightline.jobs import audit as jobs

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


def _plans_in(path: str) -> list[str]:
    """The path itself, or of a folder the plans in it, and what is no TOML, to be refused."""
    if not Path(path).is_dir():
        return [path]
    files = sorted(one for one in Path(path).glob("*.toml") if one.is_file())
    skipped = [str(one) for one in files if not _may_be_a_plan(one)]
    print_lines([f"{one}: skipped, it has no [data] section" for one in skipped], sys.stderr)
    plans = [str(one) for one in files if str(one) not in skipped]
    require(bool(plans), "a folder with a plan, a .toml file with [data]", got=repr(path[:60]))
    return plans


def _may_be_a_plan(path: Path) -> bool:
    """Whether a file has a section about data, or cannot be read as TOML."""
    from sightline.auditing.reading import parsed_toml
    from sightline.tables.engines.address import file_bytes

    try:
        return "data" in parsed_toml(file_bytes(path, "a plan file"), path.name)
    except InvalidPlan:
        return True


@click.command(epilog="Example:  sightline exporter opendp > export_opendp.py")
@click.argument("library", type=click.Choice(LIBRARIES))
def exporter(library: str) -> None:
    """Print a file to put beside a program that publishes with a library: it writes release records."""
    text = (
        resources.files("sightline")
        .joinpath("records", "exporters", f"{library}.py")
        .read_text(encoding="utf-8")
    )
    print(text, end="")


def plan_from_records(pattern: str, given: GivenPlan, *, out: Path, force: bool, alone: bool) -> None:
    """Write the plan of the release records that match a pattern, and say how each field is known."""
    from glob import glob

    from sightline.records.plan_from_records import records_plan
    from sightline.report.files import check_apart, write_new

    files = sorted(glob(pattern))  # noqa: PTH207 - a pattern may start from the root
    if not files or not alone or given.amounts.keys() & {"epsilon", "noise"}:
        got = "other releases or noise" if files else f"{pattern[:60]!r}, which is no file"
        raise InvalidInput(f"expected release records alone, got {got}")
    check_apart([out], map(Path, files))
    made = records_plan(files, out=out, given=given)
    write_new(out, made.text.encode("utf-8"), force=force, owner_only="://" in given.table)
    print_lines(made.notes, sys.stderr)
    print(f"Wrote {out}. Check it, then:  sightline audit {out}")
