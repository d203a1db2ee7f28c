"""The result as Markdown: for a comment on a change, or the summary of a workflow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sightline.auditing.result import AuditResult
from sightline.format import number
from sightline.report.first_screen import limit_line, picture, secret_line, status_words
from sightline.report.formats.problems import PlanProblems
from sightline.report.names import short
from sightline.report.wording import accuracy_words, how, noise_range, unverified_line, who

_SPECIAL = re.compile(r"[&<>`*_\[\]\\|~$]|(?<=:)//|(?<=www)\.")
_LINKS = re.compile(r"[@#]")  # what GitHub makes a mention, or a link to another issue, of
_WORD_JOINER = "\N{WORD JOINER}"
_LONGEST = 2_000  # characters of a text, and of a cell a tenth of it


def result_markdown(result: AuditResult, file: str) -> str:
    """The first screen of a publishable result, the most exposed, and the releases; for each secret."""
    parts = [f"## Sightline: {status_words(result)}", f"Plan {escaped(file)}"]
    if result.all_secrets is not None:
        parts.append(escaped(result.all_secrets.text))
        parts.append("\n".join(f"- {escaped(secret_line(one))}" for one in (result, *result.other_secrets)))
    for one in (result, *result.other_secrets):
        if result.other_secrets:
            parts.append(f"## Secret {escaped(one.secret)}: {status_words(one)}")
        parts += _of_secret(one)
    return "\n\n".join(parts)


def _of_secret(result: AuditResult) -> list[str]:
    parts = [escaped(limit_line(result))]
    if result.sharpest is not None:
        parts += ["\n".join(["```text", *picture(result), "```"]), escaped(result.sharpest.text)]
    if result.slack is not None:
        parts.append(f"**{'Slack' if result.slack.holds else 'Shortfall'}**: {escaped(result.slack.text)}")
    if result.all_secrets is not None:
        listed = [f"- {escaped(secret_line(one))}" for one in (result, *result.other_secrets)]
        parts += [*_titled("Every secret", listed), escaped(result.all_secrets.text)]
    changes = [
        f"{place}. {escaped(change.text)}{f' (cost: {escaped(change.cost)})' if change.cost else ''}"
        for place, change in enumerate(result.what_to_change, start=1)
    ]
    more = ["", escaped(result.more_to_change)] if result.more_to_change else []
    parts += _titled("What to change", [*changes, *more])
    since = [] if result.since is None else list(result.since.lines) or ["nothing changed"]
    parts += _titled("Since the last audit", [f"- {escaped(line)}" for line in since])
    parts += _titled("Not verified", [f"- {escaped(unverified_line(one))}" for one in result.unverified])
    parts += _titled("Most exposed", _exposed(result))
    parts += _titled("Releases", _releases(result))
    return parts


def checked_markdown(reports: Sequence[PlanProblems]) -> str:
    """Plans that were checked, or could not be audited, and why."""
    said = [f"- {escaped(report.file)}: {escaped(report.summary)}" for report in reports]
    return "\n\n".join(["## Sightline", "\n".join(said)])


def escaped(text: str, limit: int = _LONGEST) -> str:
    """A text on one line in which nothing is markup, a link or a mention.

    >>> escaped("*a* <b> | c_d https://e")
    '&#42;a&#42; &#60;b&#62; &#124; c&#95;d https:&#47;&#47;e'
    """
    plain = _SPECIAL.sub(lambda found: "".join(f"&#{ord(c)};" for c in found.group()), short(text, limit))
    return _LINKS.sub(lambda found: f"{found.group()}{_WORD_JOINER}", plain.replace("&#", "\0")).replace(
        "\0", "&#"
    )


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return [f"### {title}", "\n".join(lines)] if lines else []


def _exposed(result: AuditResult) -> list[str]:
    rows = [
        (
            who(place, one),
            "none" if one.rmse is None else number(one.rmse),
            "" if one.remaining_uncertainty is None else str(one.remaining_uncertainty),
            "" if one.remaining_uncertainty is None else one.remaining_uncertainty.of_stddev,
            how(one, result.unit),
        )
        for place, one in enumerate(result.exposed, start=1)
    ]
    return _table(("who", "error", "remains", "of ±", "how"), rows)


def _releases(result: AuditResult) -> list[str]:
    rows = [
        (
            one.name,
            noise_range(one),
            accuracy_words(one),
            *("" if n is None else f"{n:,}" for n in (one.newly_exposes, one.exposes_alone)),
        )
        for one in result.releases
    ]
    return _table(("name", "noise", "noise/range", "newly exposes", "needed for"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    written = [f"| {' | '.join(escaped(cell, _LONGEST // 10) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *written] if written else []
