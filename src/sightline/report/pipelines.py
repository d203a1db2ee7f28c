"""A result, or the error that there is instead, in the format that a pipeline asks for.

Annotations of GitHub, a test report of JUnit, a code scan in SARIF, a comment in Markdown: each names nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from importlib.metadata import version
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from sightline.auditing.result import AuditResult
from sightline.format import json_text, number
from sightline.report.problems import (
    Level,
    PlanLines,
    PlanProblems,
    ReportedProblem,
    Rule,
    problems_of,
    problems_of_check,
)
from sightline.report.streams import harmless_json
from sightline.report.wording import (
    accuracy_words,
    how,
    limit_line,
    noise_range,
    one_line,
    picture,
    secret_line,
    short,
    status_words,
    unverified_line,
    who,
)

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


_NOT_SHOWN = "Nobody who is listed is exposed through it, but no limit is shown to hold."
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(reports: Sequence[PlanProblems]) -> str:
    """The test cases of a plan are: that it can be audited, the limit, the assumptions of a pass,
    and each release.

    A release fails if a record that is listed below the limit is exposed through it. It passes only if the
    limit is kept. Otherwise its test case is skipped, since others may be exposed through it.
    """
    suites = Element("testsuites")
    for report in reports:
        suite = SubElement(suites, "testsuite", name=_junit_text(report.file))
        _add_cases(suite, report)
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        for name, part in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(sum(case.find(part) is not None for case in cases)))
        SubElement(suite, "system-out").text = _junit_text(report.summary)
    indent(suites)
    text: bytes = tostring(suites, encoding="us-ascii", xml_declaration=False)
    # No text starts a command of a CI service that reads what is printed.
    written = re.sub(r"(?<=##)\[|(?<=##vso)\[", "&#91;", text.decode("ascii"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}'


def _add_cases(suite: Element, report: PlanProblems) -> None:
    errors = [one for one in report.problems if one.level is Level.ERROR]
    _add_case(suite, report, "plan", [one for one in errors if one.rule is Rule.NOT_AUDITED])
    if not report.releases:
        return
    limit = _add_case(suite, report, "limit", [one for one in errors if one.rule is Rule.LIMIT])
    if report.passed is None:
        SubElement(limit, "skipped", message="No limit was set.")
    unverified = [one for one in errors if one.rule is Rule.NOT_VERIFIED]
    if unverified:
        _add_case(suite, report, "assumptions", unverified)
    for name in report.releases:
        why = [one for one in errors if name in one.releases]
        case = _add_case(suite, report, f"release {name}", why)
        if not why and not report.passed:
            SubElement(case, "skipped", message=_NOT_SHOWN)


def _add_case(suite: Element, report: PlanProblems, name: str, why: Sequence[ReportedProblem]) -> Element:
    case = SubElement(suite, "testcase", name=_junit_text(name), classname=_junit_text(report.file))
    if why:
        kind = "error" if why[0].rule is Rule.NOT_AUDITED else "failure"
        found = SubElement(case, kind, message=_junit_text(why[0].text), type=why[0].rule.value)
        found.text = _junit_text("\n".join(one.text for one in why))
    return case


def _junit_text(text: str) -> str:
    """A text without the characters that XML has no way to write."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = list(Rule)


def sarif(reports: Sequence[PlanProblems]) -> dict[str, Any]:
    """A log with one run, and a result for each problem."""
    rules = [{"id": rule.value, "shortDescription": {"text": rule.meaning}} for rule in _RULES]
    failed = any(one.rule is Rule.NOT_AUDITED for report in reports for one in report.problems)
    run = {
        "tool": {"driver": {"name": "Sightline", "version": version("sightline"), "rules": rules}},
        "invocations": [{"executionSuccessful": not failed}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, report.file) for report in reports for one in report.problems],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(one: ReportedProblem, file: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": one.rule.value,
        "ruleIndex": _RULES.index(one.rule),
        "level": one.level.value,
        "message": {"text": one.text},
        "locations": [_location(file, one.line)],
    }
    if one.other_lines:
        result["relatedLocations"] = [
            {"id": place, **_location(file, line)} for place, line in enumerate(one.other_lines, start=1)
        ]
    return result


def _location(file: str, line: int) -> dict[str, Any]:
    artifact = {"uri": quote(file.encode("utf-8", "replace")), "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}


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


class PipelineFormat(StrEnum):
    """A format that goes to logs and dashboards: it shows only what is publishable."""

    GITHUB = "github"
    JUNIT = "junit"
    SARIF = "sarif"
    MARKDOWN = "markdown"


def result_text(result: AuditResult, lines: PlanLines, chosen: PipelineFormat) -> str:
    """The publishable part of a result. Its verdict is passed only if the owner's is."""
    shown = result.publishable()
    if chosen is PipelineFormat.MARKDOWN:
        return result_markdown(shown, lines.file)
    return _in_format([problems_of(shown, lines)], chosen)


def checked_text(checked: Sequence[tuple[PlanLines, str | None]], chosen: PipelineFormat) -> str:
    """Plans that were checked, or could not be audited: each with the message of its error, or none."""
    return _in_format([problems_of_check(error, lines) for lines, error in checked], chosen)


def _in_format(reports: Sequence[PlanProblems], chosen: PipelineFormat) -> str:
    match chosen:
        case PipelineFormat.GITHUB:
            return workflow_commands(reports)
        case PipelineFormat.JUNIT:
            return junit(reports)
        case PipelineFormat.SARIF:
            return harmless_json(json_text(sarif(reports), ascii_only=True))
        case PipelineFormat.MARKDOWN:
            return checked_markdown(reports)
