"""Workflow commands of GitHub: annotations at the lines of the plan."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.report.formats.problems import Level, PlanProblems
from sightline.report.names import one_line

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def workflow_commands(reports: Sequence[PlanProblems]) -> str:
    """A workflow command for each problem on a line of its own; without an error, first the plan's summary.

    GitHub shows ten of each level for a step, so the most important come first.
    """
    commands = []
    for report in reports:
        if all(one.level is not Level.ERROR for one in report.problems):
            commands.append(_command("notice", report.file, 1, "Sightline", report.summary))
        for one in report.problems:
            title = f"Sightline: {one.rule.value}"
            commands.append(_command(_COMMANDS[one.level], report.file, one.line, title, one.text))
    return "\n".join(commands)


def _command(name: str, file: str, line: int, title: str, text: str) -> str:
    return f"::{name} file={_property(one_line(file))},line={line},title={_property(title)}::{_message(text)}"


def _message(text: str) -> str:
    r"""Escape the message of a command, which ends at a line break.

    >>> _message("5 %\n::error::no")
    '5 %25%0A::error::no'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property of a command, which ends at a comma or colon.

    >>> _property("a, b: 5 %")
    'a%2C b%3A 5 %25'
    """
    return _message(text).replace(":", "%3A").replace(",", "%2C")
