"""The command ``sightline rehearse``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sightline.report.streams import print_json


@click.command(epilog="Example:  sightline rehearse plan.toml --seed 7 --figure rehearsal.svg")
@click.argument("plan", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same rehearsal.")
@click.option("--repetitions", default=2000, show_default=True, help="How often to repeat each attack.")
@click.option("--top", default=10, show_default=True, help="How many of the most exposed to attack.")
@click.option("--answers", type=click.Path(path_type=Path), help="Attack what was published: a CSV file.")
@click.option(
    "--write-answers", type=click.Path(path_type=Path), help="Write the numbers in the form of --answers."
)
@click.option("--figure", type=click.Path(path_type=Path), help="Draw guesses and truth: .svg, .pdf or .png.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
def rehearse(  # many parameters: one for each option
    plan: str,
    as_json: bool,
    seed: int,
    repetitions: int,
    top: int,
    answers: Path | None,
    write_answers: Path | None,
    figure: Path | None,
    force: bool,
) -> None:
    """Publish a plan with simulated noise and attack it: guesses beside the truth. For the owner only."""
    from sightline.progress import reporting
    from sightline.rehearsing.run import publish_and_rehearse
    from sightline.report.files import check_new, write_new
    from sightline.report.progress import Ticker

    for path in (write_answers, figure):
        if path is not None:
            check_new(path, force=force)
    with Ticker() as progress, reporting(progress):
        made = publish_and_rehearse(plan, seed=seed, repetitions=repetitions, top=top, answers=answers)
    from sightline.report.rehearsal import document, print_rehearsal
    from sightline.report.streams import console

    if as_json:
        print_json(document(made.rehearsal))
    else:
        print_rehearsal(made.rehearsal, console())
    if write_answers is not None:
        write_new(write_answers, made.publication.text().encode("utf-8"), force=force, owner_only=True)
        print(f"Wrote {write_answers}", file=sys.stderr)
    if figure is not None:
        from sightline.report import style
        from sightline.report.rehearsal import draw_rehearsal as draw

        style.save(style.specification(draw(made.rehearsal)), figure, force=force, owner_only=True)
        print(f"Wrote {figure}", file=sys.stderr)
