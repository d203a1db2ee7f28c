"""The page of a design: the noise before and after, what each limit costs, and what the noise is for."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from sightline.designing.attacks import who
from sightline.designing.result import DesignResult
from sightline.designing.summary import LOSSES
from sightline.designing.task import Loss
from sightline.format import number, percent
from sightline.report.figures.catalogue import DESIGN_FIGURES
from sightline.report.files import write_new
from sightline.report.page import page_html

_MOST_NUMBERS = 200  # that are listed, those first that rise most


def design_html(result: DesignResult, *, date: str | None = None) -> str:
    """Return the page as the text of one HTML file. It is for the table's owner only."""
    raised = sorted(result.raised, key=lambda one: -one.stddev / one.stddev_before)
    words = {
        "date": date,
        "headline": design_headline(result),
        "loss": LOSSES[Loss(result.loss)],
        "raised": raised[:_MOST_NUMBERS],
        "version": version("sightline"),
        "who_is": who,
    }
    return page_html("design.html", DESIGN_FIGURES, result, words)


def write_design(
    result: DesignResult, path: str | Path, *, force: bool = False, date: str | None = None
) -> None:
    """Write the page, so that only the owner of the file can read it; replace a file only if forced."""
    text = design_html(result, date=date)
    write_new(Path(path), text.encode("utf-8"), force=force, owner_only=True)


def design_headline(result: DesignResult) -> tuple[str, str]:
    """The answer as one number, and the words that follow it."""
    if not result.binds:
        return "0", f"numbers need more noise for a limit of {percent(result.limit)}"
    times = number(result.loss_designed / result.loss_before, 3)
    common = number(result.loss_with_common_factor / result.loss_before, 3)
    words = (
        f"today's loss keeps everyone above {percent(result.limit)}; "
        f"a factor on all noise costs {common} times"
    )
    return f"{times} ×", words
