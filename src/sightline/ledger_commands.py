"""The commands of a ledger: ``sightline ledger init``, ``check``, ``add``, ``log`` and others."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.format import percent_stated
from sightline.report.streams import print_json, print_lines

if TYPE_CHECKING:
    from sightline.ledger.book import Ledger
    from sightline.ledger.decision import ReleaseDecision

_folder = click.argument("folder", type=click.Path(path_type=Path))
_release = click.argument("release", type=click.Path(path_type=Path))
_key = click.option(
    "--key",
    type=click.Path(path_type=Path),
    envvar="SIGHTLINE_LEDGER_KEY",
    help="The file with the key of the people's hashes, kept elsewhere.  [env var: SIGHTLINE_LEDGER_KEY]",
)
_epoch = click.option("--epoch", default="", metavar="NAME", help="Whose values the release is about.")
_table = click.option("--table", metavar="FILE", help="This release's table, if not the head's own.")
_full = click.option("--full", is_flag=True, help="Also list more people, and search for noise that passes.")
_json = click.option("--json", "as_json", is_flag=True, help="Print the audit of everything as JSON.")


@click.group(epilog="Example:  sightline ledger check releases march.toml --table march.parquet")
def ledger() -> None:
    """Keep everything that was published, and ask before each release whether it may follow."""


@ledger.command(epilog="Example:  sightline ledger init releases --from head.toml --values one --key key")
@_folder
@click.option(
    "--from", "head", type=click.Path(path_type=Path), required=True, help="A plan without releases."
)
@click.option(
    "--values",
    type=click.Choice(["one", "by-epoch"]),
    required=True,
    help="Whether all releases are about one value of each person, or every epoch about a new one.",
)
@_key
@click.option("--keys-in-clear", is_flag=True, help="Store the records' keys themselves: no --key.")
def init(folder: Path, head: Path, values: str, key: Path | None, keys_in_clear: bool) -> None:
    """Start a ledger for a table: its data, unit, secret, bounds, attacker and limit."""
    from sightline.ledger.book import Ledger
    from sightline.ledger.frozen import HOW_A_KEY_IS_MADE

    if (key is None) != keys_in_clear:
        raise click.UsageError(
            "expected --key FILE, with 16 to 64 bytes that are kept elsewhere, or --keys-in-clear; "
            f"{HOW_A_KEY_IS_MADE}"
        )
    Ledger.start(folder, head=head, values=values, key=key)
    with_key = "" if key is None else f" --key {shlex.quote(str(key))}"
    print(f"Started {folder}. Before each release:  sightline ledger check {folder} release.toml{with_key}")


@ledger.command(epilog="Example:  sightline ledger check releases march.toml")
@_folder
@_release
@_key
@_epoch
@_table
@_full
@_json
def check(  # many parameters: one for each option
    folder: Path, release: Path, key: Path | None, epoch: str, table: str | None, full: bool, as_json: bool
) -> int:
    """Say what a release would do after all others. Nothing is written. For the table's owner only."""
    from sightline.auditing.result_parts import FEW, TOP
    from sightline.ledger.decision import lines
    from sightline.report.streams import Ticker

    with Ticker() as progress:
        decision = _opened(folder, key).check(
            release, epoch=epoch, table=table, top=TOP if full or as_json else FEW, progress=progress
        )
        told = [] if as_json else lines(decision, full=full)
    _print(decision, told, as_json=as_json)
    return 2 if decision.held_back else 0


@ledger.command(epilog="Example:  sightline ledger add releases march.toml")
@_folder
@_release
@_key
@_epoch
@_table
@click.option("--despite", default="", metavar="REASON", help="Add it although its check does not pass.")
@_json
def add(  # many parameters: one for each option
    folder: Path, release: Path, key: Path | None, epoch: str, table: str | None, despite: str, as_json: bool
) -> int:
    """Decide again, and add the release. Only then may its numbers go out."""
    from sightline.ledger.decision import lines
    from sightline.report.streams import Ticker

    with Ticker() as progress:
        decision, number = _opened(folder, key).add(
            release, epoch=epoch, table=table, despite=despite, progress=progress
        )
        told = [] if as_json else lines(decision, full=False)
    _print(decision, told, as_json=as_json)
    if number is None:
        print("Not added.", file=sys.stderr)
        return 2
    print(f"Added as entry {number}.", file=sys.stderr)
    return 0


@ledger.command(epilog="Example:  sightline ledger cancel releases 14 --never-seen 'the job had crashed'")
@_folder
@click.argument("number", type=int)
@click.option("--never-seen", "reason", required=True, metavar="REASON", help="Why no one saw its numbers.")
@_key
def cancel(folder: Path, number: int, reason: str, key: Path | None) -> None:
    """Let an entry that no one saw no longer count. Both stay."""
    print(f"Added as entry {_opened(folder, key).cancel(number, reason=reason)}.")


@ledger.command(epilog="Example:  sightline ledger epoch releases 2026")
@_folder
@click.argument("name")
@_key
def epoch(folder: Path, name: str, key: Path | None) -> None:
    """Start an epoch: its releases are about a new value of each person."""
    print(f"Added as entry {_opened(folder, key).start_epoch(name)}.")


@ledger.command(epilog="Example:  sightline ledger limit releases 40% --reason 'decided by the board'")
@_folder
@click.argument("share")
@click.option("--reason", required=True, metavar="REASON", help="Every later answer lists it.")
@_key
def limit(folder: Path, share: str, reason: str, key: Path | None) -> None:
    """Set another limit for all later answers."""
    print(f"Added as entry {_opened(folder, key).set_limit(share, reason=reason)}.")


@ledger.command(epilog="Example:  sightline ledger clock releases --reason 'the server was set to 2099'")
@_folder
@click.option("--reason", required=True, metavar="REASON", help="Every later answer lists it.")
@_key
def clock(folder: Path, reason: str, key: Path | None) -> None:
    """Go on after an entry whose time lies ahead: the clock was wrong. All entries stay."""
    print(f"Added as entry {_opened(folder, key).correct_clock(reason=reason)}.")


@ledger.command(epilog="Example:  sightline ledger merge releases copy-of-releases")
@_folder
@click.argument("other", type=click.Path(path_type=Path))
@_key
def merge(folder: Path, other: Path, key: Path | None) -> None:
    """Add what another copy of the ledger has published since the two parted."""
    numbers = _opened(folder, key).merge(other)
    print(f"Added as {', '.join(map(str, numbers))}." if numbers else "Nothing to add.")


@ledger.command(epilog="Example:  sightline ledger log releases")
@_folder
@_key
def log(folder: Path, key: Path | None) -> None:
    """List the entries."""
    for entry in _opened(folder, key).log():
        told = {
            "release": entry.release.name if entry.release else "",
            "cancel": f"of entry {entry.cancels}",
            "epoch": entry.epoch,
            "limit": percent_stated(entry.limit),
            "clock": "corrected",
        }.get(entry.kind, f"values: {entry.values}")
        parts = [
            entry.at,
            f"{entry.kind:7}",
            told,
            entry.verdict,
            entry.despite and f"despite: {entry.despite}",
        ]
        print_lines([f"{entry.number:6}  " + "  ".join(part for part in parts if part)])


@ledger.command(epilog="Example:  sightline ledger verify releases --head 3b1f…")
@_folder
@click.option("--head", metavar="HASH", help="The hash of an entry that was kept: it must be in the chain.")
@_key
def verify(folder: Path, head: str | None, key: Path | None) -> None:
    """Read everything, compare it with its hashes, and print the hash of the last entry, to be kept."""
    opened = _opened(folder, key)
    print(opened.verify(head=head))


@ledger.command(epilog="Example:  sightline ledger plan releases --out all.toml")
@_folder
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The plan; its table is beside it."
)
@_key
def plan(folder: Path, out: Path, key: Path | None) -> None:
    """Write everything so far as a plan over one table, for audit, explain and design."""
    print(f"Wrote {_opened(folder, key).plan(out)}")


def _opened(folder: Path, key: Path | None) -> Ledger:
    from sightline.ledger.book import Ledger

    return Ledger.open(folder, key=key)


def _print(decision: ReleaseDecision, told: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json(decision.audited.result().model_dump(mode="json"))
    else:
        print_lines(told)
