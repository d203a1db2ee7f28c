"""The command line: a command parses its options, calls one function of the library, and prints.

Exit status: 0 fine; 1 an error, in one line; 2 a limit that is broken or not shown to hold; 3 a damaged
ledger; 130 interrupted; 141 the program that reads the output has ended. A defect of Sightline itself keeps
its traceback.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

try:
    from collections.abc import Sequence
    from dataclasses import replace
    from enum import IntEnum
    from functools import partial
    from pathlib import Path
    from typing import TYPE_CHECKING, NoReturn

    import click

    from sightline.agent_commands import mcp
    from sightline.errors import (
        DamagedLedger,
        Interrupted,
        InvalidInput,
        MissingExtra,
        SightlineError,
        require,
    )
    from sightline.ledger_commands import ledger
    from sightline.report.streams import accept_any_encoding, discard_output, print_json, print_lines
    from sightline.study_commands import (
        about_a_secret,
        about_a_table,
        check,
        design,
        exporter,
        fit,
        force_option,
        given_plan,
        html_option,
        json_option,
        limit_option,
        names_option,
        paper,
        plan_argument,
        plan_from_records,
        plan_given,
        rehearse,
    )
except KeyboardInterrupt:
    print("Interrupted: nothing was written.", file=sys.stderr)
    raise SystemExit(130) from None

if TYPE_CHECKING:
    from sightline.auditing.query_files import GivenPlan
    from sightline.auditing.result import AuditResult

_AS_A_PLAN = (
    "As a plan, with [limits] accept and noise by release: sightline init with the same files and options."
)


class _Status(IntEnum):
    """How the process ends, besides 0, 1 after an error, and 2 if a limit does not hold."""

    DAMAGED = 3  # a ledger
    INTERRUPTED = 128 + 2  # what a shell reports of a program that a signal has ended: INT
    READER_GONE = 128 + 13  # and PIPE


class _Commands(click.Group):
    """Commands that end silently, as other programs do, when the program that reads the pipe has ended."""

    def invoke(self, ctx: click.Context) -> object:
        _begun().clear()
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, SystemExit):  # Rich turns the former into the latter
            discard_output()
            raise click.exceptions.Exit(_Status.READER_GONE) from None
        except KeyboardInterrupt:  # here, because click would print an empty line first
            print(_interrupted(ctx.invoked_subcommand), file=sys.stderr)
            raise click.exceptions.Exit(_Status.INTERRUPTED) from None


def _begun() -> list[Path]:
    """The files that were begun; none before the module that writes them is loaded."""
    begun: list[Path] = getattr(sys.modules.get("sightline.report.files"), "begun", [])
    return begun


def _interrupted(command: str | None) -> str:
    """What Ctrl-C leaves behind. A ledger may also have got files of an entry that is not there."""
    names = [path.name for path in _begun()]
    if not names:
        return f"Interrupted: nothing was {'added' if command == 'ledger' else 'written'}."
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    listed = f"{', '.join(names[:3])}{more}"
    if command == "ledger" and names[0].endswith(".json"):
        return f"Interrupted. The entry was added: {listed}."
    return f"Interrupted. Each file is whole, or as it was before: {listed}."


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example:  sightline demo",
)
@click.version_option(package_name="sightline", message="%(prog)s %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Tell what a sequence of differentially private aggregates lets an attacker see."""
    if context.invoked_subcommand is None:
        print(context.get_help())


_what_if = click.option(
    "--what-if/--no-what-if",
    default=True,
    show_default=True,
    help="Let the HTML file try other noise, releases and attackers; takes seconds.",
)
_publishable = click.option(
    "--publishable", is_flag=True, help="Leave out what is for the table's owner only."
)


@commands.command(
    epilog="Example:  sightline audit plan.toml --limit 50% --html report.html; or:  sightline audit "
    "queries/*.sql --table homes.parquet --record home --secret watts --bounds 0 9000 --epsilon 1"
)
@click.argument("plan", type=click.Path(), nargs=-1, required=True, metavar="PLAN | QUERY.sql...")
@given_plan(*about_a_table, *about_a_secret)
@json_option
@click.option(
    "--format",
    "shown",
    type=click.Choice(["text", "json", "junit", "markdown"]),
    help="Print for a pipeline: a test report, or a comment. They name nobody.",
)
@click.option(
    "--write", multiple=True, metavar="FORMAT=FILE", help="Also write a format to a file; repeatable."
)
@click.option("--full", is_flag=True, help="Also print the budget, each release, and every change.")
@click.option("--verdict-only", is_flag=True, help="Leave out what each release adds and what to change.")
@limit_option
@names_option
@click.option("--top", default=20, show_default=True, help="How many of the most exposed to list.")
@html_option
@click.option("--date", metavar="TEXT", help="A date to print on the report. By default it has none.")
@_publishable
@force_option
@click.option(
    "--max-memory",
    metavar="SIZE",
    help="Memory for the audit, as 4GB: what needs more is streamed or refused. [default: what is free]",
)
@click.option("--max-seconds", type=float, metavar="SECONDS", help="End an audit that takes longer.")
@_what_if
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RESULT",
    help="Also say what changed since this result of --json.",
)
def audit(  # many parameters: one for each option
    plan: tuple[str, ...],
    given: GivenPlan,
    as_json: bool,
    shown: str | None,
    write: tuple[str, ...],
    full: bool,
    verdict_only: bool,
    limit: str | None,
    names: bool,
    top: int,
    html: Path | None,
    date: str | None,
    publishable: bool,
    force: bool,
    max_memory: str | None,
    max_seconds: float | None,
    what_if: bool,
    against: Path | None,
) -> int:
    """Audit a plan, or the queries in some files: who is exposed, how sharply, and what to change."""
    from sightline.auditing.reading import files_read
    from sightline.jobs import audit as jobs
    from sightline.report.files import check_apart, check_new
    from sightline.report.pipelines import AuditOutputs
    from sightline.report.streams import Ticker

    outputs = AuditOutputs.of(
        plan[0],
        shown=shown or ("json" if as_json else "text"),
        write=write,
        full=full,
        force=force,
    )
    outputs.check(names=names)
    pages = [html] if html else []
    require(
        not verdict_only or not (pages or full),
        "--verdict-only without --html and --full",
        got="--full" if full else "--html",
        fix="they show what it leaves out",
    )
    for page in pages:
        check_new(page, force=force)
    with outputs.errors(), Ticker() as progress:
        meant = plan_given(plan, given)
        read = (*map(Path, plan), *files_read(meant))
        check_apart((*pages, *(path for _, path in outputs.files)), read)
        compared = [jobs.read_result(path) for path in (against,) if path]
        audited = partial(
            jobs.audit,
            meant,
            limit=limit,
            names=names,
            top=top,
            progress=progress,
            max_memory=max_memory,
            max_seconds=max_seconds,
            what_if=what_if and bool(pages) and not publishable,
            full=bool(pages or compared) or outputs.every_section,
            verdict_only=verdict_only,
        )
        try:
            result, interrupted = audited(), False
        except Interrupted as stopped:
            result, interrupted = stopped.result, True
    for last in compared:
        result = jobs.compare(result, last)
    outputs.write(result.publishable() if publishable else result)
    if given.table and outputs.shown == "text":
        print(_AS_A_PLAN, file=sys.stderr)
    if interrupted:
        more = "".join(f" {page} was not written." for page in pages)
        print(f"Interrupted: the verdict is whole, other sections are missing.{more}", file=sys.stderr)
        return _Status.INTERRUPTED
    for page in pages:
        from sightline.report.page import write_report

        with Ticker() as progress:
            progress("drawing the report", 0.0)
            write_report(result, page, force=force, publishable=publishable, date=date)
        if result.no_what_if is not None:
            print(f"No what-if: {result.no_what_if}.", file=sys.stderr)
        print(f"Wrote {page}", file=sys.stderr)
    return _status_of(result)


def _status_of(result: AuditResult) -> int:
    """2 if the limit is not shown to hold, or if a person has yet to decide: a pipeline publishes at 0."""
    return 2 if result.verdict.passed is False or result.verdict.waits_for_a_person else 0


@commands.command(epilog="Example:  sightline figures plan.toml --out figures")
@plan_argument
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder, made if missing.")
@limit_option
@names_option
@_publishable
@force_option
def figures(plan: str, out: Path, limit: str | None, names: bool, publishable: bool, force: bool) -> int:
    """Write every figure of a plan's report as SVG and PDF, for print."""
    from sightline.jobs import audit as jobs
    from sightline.report.figures import export_figures
    from sightline.report.streams import Ticker

    with Ticker() as progress:
        result = jobs.audit(plan, limit=limit, names=names, full=True, progress=progress)
        progress("drawing the figures", 0.0)
        paths = export_figures(result.publishable() if publishable else result, out, force=force)
    for path in paths:
        print(path)
    return _status_of(result)


@commands.command(epilog="Example:  sightline explain plan.toml A7")
@plan_argument
@click.argument("key", required=False, metavar="KEY")
@json_option
@click.option("--record", metavar="KEY", help="The key of the record, if it is not the second word.")
@click.option("--full", is_flag=True, help="Explain every part of the record, not only the sharpest.")
def explain(plan: str, key: str | None, as_json: bool, record: str | None, full: bool) -> None:
    """Explain why one record is exposed, step by step. For the table's owner only."""
    from sightline.jobs import audit as jobs
    from sightline.report.streams import Ticker

    if (record := record or key) is None:
        raise InvalidInput("expected the key of a record, got none; audit --names names the most exposed")
    with Ticker() as progress:
        explanation = jobs.explain(plan, record=record, progress=progress)
    if as_json:
        by_secret = {
            one.result.secret: [exposed.model_dump(mode="json") for exposed in one.exposed]
            for one in (explanation, *explanation.other_secrets)
        }
        print_json(by_secret if explanation.other_secrets else by_secret[explanation.result.secret])
        return
    from sightline.report.streams import console
    from sightline.report.terminal import print_explanation

    print_explanation(explanation, console(), full=full)


@commands.command(epilog="Example:  sightline init homes.parquet --secret watts --out plan.toml")
@click.argument("queries", nargs=-1, type=click.Path(), metavar="TABLE [QUERY.sql]...")
@given_plan(*about_a_table, *about_a_secret)
@click.option(
    "--from-dbt",
    type=click.Path(path_type=Path),
    metavar="MANIFEST",
    help="Take the releases from a dbt project: its target/manifest.json.",
)
@click.option(
    "--from-records",
    metavar="GLOB",
    help="Take the releases from release records, as 'releases/*.json', and say how each field is known.",
)
@click.option("--out", default="plan.toml", show_default=True, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init(  # many parameters: one for each option
    given: GivenPlan,
    queries: tuple[str, ...],
    from_dbt: Path | None,
    from_records: str | None,
    out: Path,
    force: bool,
) -> None:
    """Write a commented plan for a table, with the queries in some files or of a dbt project, or of what was
    published.

    A column that is not given is guessed where names leave no doubt. Otherwise the plan leaves it open, with
    candidates.
    """
    from sightline.auditing.dbt import dbt_plan_text
    from sightline.report.files import check_apart, check_new, write_new

    if not given.table:  # as audit has it, or the first word
        require(len(queries) > 0, "a table", got="none", fix="write  sightline init TABLE")
        given, queries = replace(given, table=queries[0]), queries[1:]
    table = given.table
    check_apart([out], [Path(table.partition("::")[0]), *filter(None, [from_dbt])])
    if from_dbt is not None:
        if given != type(given)(table=table) or queries:
            raise InvalidInput("expected --record and --secret in meta.sightline.data, got them as options")
        text = dbt_plan_text(from_dbt, table, out=out)
        write_new(out, text.encode("utf-8"), force=force, owner_only="://" in table)
        print(f"Wrote {out}. Check the order of its releases, then:  sightline audit {out}")
        return
    check_new(out, force=force)
    if from_records is not None:
        plan_from_records(from_records, given, out=out, force=force, alone=not queries)
        return
    plan = given.starter(queries, out=out)
    # It may hold a password.
    write_new(out, plan.text.encode("utf-8"), force=force, owner_only="://" in table)
    print_lines(plan.notes, sys.stderr)
    todo = "Check it" if plan.closed else "Say in it what the secret can be, change what is wrong"
    print(f"Wrote {out}. {todo}, then:  sightline audit {out}")


@commands.command(epilog="Example:  sightline demo --json")
@json_option
@html_option
@_what_if
@force_option
def demo(as_json: bool, html: Path | None, what_if: bool, force: bool) -> None:
    """Audit the shipped example: a micro-grid's dashboard, under a budget and with noise chosen by hand."""
    from sightline.examples.shipped import example_plan
    from sightline.jobs import audit as jobs
    from sightline.report.files import check_new

    pages = [html] if html else []
    for page in pages:
        check_new(page, force=force)
    plan = example_plan("microgrid")
    what_if = what_if and bool(pages)
    if as_json:
        result = jobs.audit(plan, names=True, what_if=what_if, full=True)
    else:
        from sightline.examples.dashboards import dashboards, print_dashboards
        from sightline.report.streams import console

        shown = list(dashboards())
        print_dashboards(shown, console())
        print("\nThe last of them:\n")
        result = jobs.audit(plan, names=True, what_if=what_if, full=True) if pages else shown[-1].result
    _print_result(result, as_json)
    for page in pages:
        from sightline.report.page import write_report

        try:
            write_report(result, page, force=force)
            print(f"\nThe report, to open in a browser: {page}", file=sys.stderr if as_json else sys.stdout)
        except MissingExtra as error:  # a demo without pictures is still a demo
            print(f"\nNo report was written: {error}", file=sys.stderr)
    if not as_json:
        print(f"\nThe plan and its data: {plan.parent}")
        print(f"Why H13:  sightline explain {plan} H13")
        print("Your own table:  sightline init TABLE")


def _print_result(result: AuditResult, as_json: bool) -> None:
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    from sightline.report.streams import console
    from sightline.report.terminal import print_result

    print_result(result, console())


for command in (check, design, fit, rehearse, ledger, mcp, exporter, paper):
    commands.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    try:
        accept_any_encoding()
        status = commands.main(arguments, prog_name="sightline", standalone_mode=False)
        sys.stdout.flush()  # a full disk is noticed here, and not when Python ends
    except SightlineError as error:
        failed = _failed(f"{type(error).__name__}: {error}")
        return _Status.DAMAGED if isinstance(error, DamagedLedger) else failed
    except click.ClickException as error:
        error.show()
        return 1
    except (click.Abort, KeyboardInterrupt):  # outside a command
        print("Interrupted.", file=sys.stderr)
        return _Status.INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return _Status.READER_GONE
    except OSError as error:  # a file or a device that fails, not a defect of Sightline
        discard_output()
        where = "" if error.filename is None else f" ({error.filename})"
        return _failed(f"{type(error).__name__}: {(error.strerror or str(error)).lower()}{where}")
    # Options such as --help end early with a status of their own; a command that ran may return None.
    return status or 0


def run() -> NoReturn:
    """What the command ``sightline`` calls: :func:`main`, with modules kept from the collector of cycles.

    They never become garbage. To look through them again and again takes a quarter of a small audit's time,
    and to free them one by one at the end a twentieth. So the process ends when all that was registered for
    its end has run.
    """
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - a closed one
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    gc.disable()
    try:
        if sys.argv[1:2] in (["audit"], ["demo"]) and "--help" not in sys.argv:
            _load_on_use("numpy", ("f2py", "testing"))
            # Pydantic looks for plugins in every package that is installed: 5 ms for a hundred of them.
            os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
            from sightline.jobs import audit as jobs  # noqa: F401
    except KeyboardInterrupt:
        print("Interrupted: nothing was written.", file=sys.stderr)
        raise SystemExit(_Status.INTERRUPTED) from None
    gc.freeze()
    gc.set_threshold(50_000)  # new objects before a look at them: a small audit makes fewer
    gc.enable()
    status = main()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _load_on_use(package: str, names: Sequence[str]) -> None:
    """Let modules of a package load when somebody first reads an attribute of them.

    SciPy reads every name of NumPy, and so loads a Fortran compiler and a test runner: a tenth of a small
    audit. A module that is loaded stays as it is.
    """
    from importlib.util import LazyLoader, find_spec, module_from_spec

    for name in names:
        spec = find_spec(f"{package}.{name}")
        if spec is None or spec.loader is None or spec.name in sys.modules:
            continue
        loader = spec.loader = LazyLoader(spec.loader)
        module = sys.modules[spec.name] = module_from_spec(spec)
        loader.exec_module(module)
        setattr(sys.modules[package], name, module)


def _failed(message: str) -> int:
    print_lines([message], sys.stderr)
    return 1
