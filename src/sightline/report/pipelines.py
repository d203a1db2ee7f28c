"""A result, or the error that there is instead, in the format that a pipeline asks for.

A test report of JUnit, or a comment in Markdown: both name nobody. And where the result of an audit goes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sightline.auditing.result import AuditResult, Exposed
from sightline.errors import InvalidInput, SightlineError
from sightline.format import percent_stated
from sightline.report.files import check_new, write_new
from sightline.report.first_screen import (
    about_line,
    accepted_lines,
    change_lines,
    public_line,
    tried_line,
)
from sightline.report.streams import console, print_json, printed
from sightline.report.terminal import print_result
from sightline.report.wording import (
    LINE_WIDTH,
    LONGEST_TEXT,
    how,
    limit_line,
    once_each,
    rules_of,
    secret_line,
    short,
    still_unknown,
    unverified_line,
    verdict_words,
    who,
)
from sightline.values import frozen

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class PipelineFormat(StrEnum):
    """A format that goes to logs and dashboards: it shows only what is publishable."""

    JUNIT = "junit"
    MARKDOWN = "markdown"


class Rule(StrEnum):
    """The kinds of problems."""

    LIMIT = "limit"  # every record must be shown to keep it, and no other problem says who is not
    NOT_VERIFIED = "not-verified"  # a pass needs assumptions that are verified, or accepted by name
    BELOW_LIMIT = "below-limit"  # a record may keep less
    NOT_AUDITED = "not-audited"  # the plan, its table or its SQL cannot be audited


class ReportedProblem(NamedTuple):
    """One reason why a plan does not pass."""

    rule: Rule
    text: str
    releases: tuple[str, ...] = ()  # that it is about, the heaviest first; none: the whole plan


class PlanProblems(NamedTuple):
    """What a pipeline shows of one plan."""

    file: str
    summary: str
    problems: tuple[ReportedProblem, ...]
    releases: tuple[str, ...] = ()  # of an audit; none if the plan was only checked, or not audited
    passed: bool | None = None  # whether the limit is kept; none if there is none, or a person decides
    skipped: str = "No limit was set."  # why nothing is said of the limit, if nothing is


def result_text(result: AuditResult, plan: str | Path, chosen: PipelineFormat) -> str:
    """The publishable part of a result. Its verdict is passed only if the owner's is."""
    shown = result.publishable()
    if chosen is PipelineFormat.MARKDOWN:
        return result_markdown(shown, shown_path(plan))
    return junit([problems_of(shown, shown_path(plan))])


def checked_text(checked: Sequence[tuple[str | Path, str | None]], chosen: PipelineFormat) -> str:
    """Plans that were checked, or could not be audited: each with the message of its error, or none."""
    reports = [problems_of_check(error, shown_path(plan)) for plan, error in checked]
    return junit(reports) if chosen is PipelineFormat.JUNIT else checked_markdown(reports)


def shown_path(plan: str | Path) -> str:
    """A plan's path with / between folders; relative to the working directory where it is below it."""
    try:
        return Path(plan).resolve().relative_to(Path.cwd().resolve()).as_posix()
    except (OSError, ValueError):
        return Path(plan).name


def problems_of(result: AuditResult, file: str) -> PlanProblems:
    """The problems of a publishable result, for every secret of the plan."""
    parts = (result, *result.other_secrets)
    return PlanProblems(
        file=file,
        summary=summary(result),
        problems=tuple(one for part in parts for one in _of_secret(part, named=len(parts) > 1)),
        releases=tuple(dict.fromkeys(release.name for part in parts for release in part.releases)),
        passed=None if result.verdict.accepts_groups else result.verdict.passed,
        skipped=limit_line(result) if result.verdict.accepts_groups else "No limit was set.",
    )


def _of_secret(result: AuditResult, *, named: bool) -> list[ReportedProblem]:
    """The problems of one secret. That its limit does not hold is one only if nothing else says why."""
    below = once_each(one for one in result.exposed if _below(result, one))
    problems = [_of_exposed(result, place, one) for place, one in enumerate(below, start=1)]
    if result.verdict.passed is False:
        lacking = [one for one in result.unverified if not one.accepted]
        said = bool(problems) or (bool(lacking) and not result.verdict.below_limit)
        unverified = [ReportedProblem(Rule.NOT_VERIFIED, _cut(unverified_line(one))) for one in lacking]
        limit = [] if said and not rules_of(result).in_all else [ReportedProblem(Rule.LIMIT, summary(result))]
        problems = [*limit, *unverified, *problems]
    if not named:
        return problems
    return [one._replace(text=_cut(f"Secret {result.secret}: {one.text}")) for one in problems]


def problems_of_check(error: str | None, file: str) -> PlanProblems:
    """The problems of a plan that was checked, or that could not be audited because of an error."""
    if error is None:
        return PlanProblems(file, "A good plan.", ())
    problem = ReportedProblem(Rule.NOT_AUDITED, _cut(error))
    return PlanProblems(file, problem.text, (problem,))


def summary(result: AuditResult) -> str:
    """The verdict, what the sharpest attack knows, and the slack, in a few sentences.

    Of several secrets it is about the one that fares worst, and begins with a line about each.
    """
    each = " ".join(map(secret_line, (result, *result.other_secrets))) if result.other_secrets else ""
    verdict = f"{verdict_words(result)}. {limit_line(result)}"
    others = [part.text for part in (result.sharpest, result.slack) if part]
    accepted = [f"Accepted, and not verified: {line}" for line in accepted_lines(result)]
    rests_on = (*accepted, f"{about_line(result)}.", public_line(result))
    changes = f"To reach the limit: {'; or '.join(change_lines(result))}." if result.reaching else ""
    return _cut(" ".join(filter(None, (each, verdict, *rests_on, *others, changes, tried_line(result)))))


def _below(result: AuditResult, exposed: Exposed) -> bool:
    """Whether somebody who is listed may keep less than the limit."""
    left, limit = exposed.remaining_uncertainty, result.verdict.limit
    judged = exposed.about is None or result.verdict.known_to is None  # a yes or no has no unit
    return judged and limit is not None and left is not None and left.lower < limit


def _of_exposed(result: AuditResult, place: int, exposed: Exposed) -> ReportedProblem:
    whom = exposed if exposed.right_after is None else exposed.model_copy(update={"category": None})
    keeps = still_unknown(exposed, result).removeprefix(": ")
    limit = f"the limit is {_limit(result)}"
    text = f"Exposed: {who(place, whom)}, {keeps}; {limit}. {how(exposed, result.unit)}"
    steps = () if exposed.attack is None else (step.release for step in exposed.attack.steps)
    used = exposed.releases or tuple(dict.fromkeys(steps))
    return ReportedProblem(Rule.BELOW_LIMIT, _cut(text), used)


def _limit(result: AuditResult) -> str:
    """The limit, as the plan states it."""
    verdict = result.verdict
    share = f"{percent_stated(verdict.limit or 0.0)} of the variance"
    return share if verdict.guessed_right is None else verdict.limit_text


def _cut(text: str) -> str:
    return short(text, LONGEST_TEXT)


_NOT_SHOWN = "No limit is shown to hold: see the other test cases."
_NOT_XML = "[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"  # compiled on use: few write XML


def junit(reports: Sequence[PlanProblems]) -> str:
    """The test cases of a plan are: that it can be audited, the limit, the assumptions of a pass, everybody
    who is listed below the limit, and each release.

    A finding fails once, whatever the number of releases that it is made of. Where other test cases say why
    the limit does not hold, its own is skipped. A release passes only if the limit is kept; otherwise its
    test case is skipped.
    """
    from xml.etree import ElementTree  # few results are written as XML

    suites = ElementTree.Element("testsuites")
    for report in reports:
        suite = ElementTree.SubElement(suites, "testsuite", name=_junit_text(report.file))
        _add_cases(suite, report)
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        for name, part in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(sum(case.find(part) is not None for case in cases)))
        ElementTree.SubElement(suite, "system-out").text = _junit_text(report.summary)
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="us-ascii", xml_declaration=False)
    # No text starts a command of a CI service that reads what is printed.
    written = re.sub(r"(?<=##)\[|(?<=##vso)\[", "&#91;", text.decode("ascii"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}'


def _add_cases(suite: Element, report: PlanProblems) -> None:
    from xml.etree.ElementTree import SubElement

    errors = report.problems
    _add_case(suite, report, "plan", [one for one in errors if one.rule is Rule.NOT_AUDITED])
    if not report.releases:
        return
    broken = [one for one in errors if one.rule is Rule.LIMIT]
    limit = _add_case(suite, report, "limit", broken)
    if report.passed is None and not errors:
        SubElement(limit, "skipped", message=_junit_text(report.skipped))
    elif errors and not broken:
        SubElement(limit, "skipped", message=_NOT_SHOWN)
    unverified = [one for one in errors if one.rule is Rule.NOT_VERIFIED]
    if unverified:
        _add_case(suite, report, "assumptions", unverified)
    exposed = [one for one in errors if one.rule is Rule.BELOW_LIMIT]
    for place, one in enumerate(exposed, start=1):
        _add_case(suite, report, f"exposed no. {place}", [one])
    for name in report.releases:
        case = _add_case(suite, report, f"release {name}", [])
        if errors or not report.passed:
            message = _NOT_SHOWN if errors else report.skipped
            SubElement(case, "skipped", message=_junit_text(message))


def _add_case(suite: Element, report: PlanProblems, name: str, why: Sequence[ReportedProblem]) -> Element:
    from xml.etree.ElementTree import SubElement

    case = SubElement(suite, "testcase", name=_junit_text(name), classname=_junit_text(report.file))
    if why:
        kind = "error" if why[0].rule is Rule.NOT_AUDITED else "failure"
        failure = SubElement(case, kind, message=_junit_text(why[0].text), type=why[0].rule.value)
        failure.text = _junit_text("\n".join(one.text for one in why))
    return case


def _junit_text(text: str) -> str:
    """A text without the characters that XML has no way to write."""
    return re.sub(_NOT_XML, "\N{REPLACEMENT CHARACTER}", text)


_SPECIAL = re.compile(r"[&<>`*_\[\]\\|~$]|(?<=:)//|(?<=www)\.")
_LINKS = re.compile(r"[@#]")  # what GitHub makes a mention, or a link to another issue, of
_WORD_JOINER = "\N{WORD JOINER}"


def result_markdown(result: AuditResult, file: str) -> str:
    """The first screen of a publishable result as a block of text, in which nothing is markup."""
    lines = printed(lambda screen: print_result(result, screen), width=LINE_WIDTH)
    lines = lines.replace("```", "'''").rstrip()
    return f"## Sightline: {verdict_words(result)}\n\nPlan {escaped(file)}\n\n```text\n{lines}\n```"


def checked_markdown(reports: Sequence[PlanProblems]) -> str:
    """Plans that were checked, or could not be audited, and why."""
    said = [f"- {escaped(report.file)}: {escaped(report.summary)}" for report in reports]
    return "\n\n".join(["## Sightline", "\n".join(said)])


def escaped(text: str) -> str:
    """A text on one line in which nothing is markup, a link or a mention.

    >>> escaped("*a* <b> | c_d https://e")
    '&#42;a&#42; &#60;b&#62; &#124; c&#95;d https:&#47;&#47;e'
    """
    plain = _SPECIAL.sub(lambda found: "".join(f"&#{ord(c)};" for c in found.group()), _cut(text))
    return _LINKS.sub(lambda found: f"{found.group()}{_WORD_JOINER}", plain.replace("&#", "\0")).replace(
        "\0", "&#"
    )


_TEXT, _JSON = "text", "json"
_FOR_FILES = (_JSON, *(one.value for one in PipelineFormat))


@frozen(eq=True)
class AuditOutputs:
    """Where the result of an audit goes: to standard output in one format, and to files in others."""

    plan: str
    shown: str  # the format of standard output
    files: tuple[tuple[str, Path], ...]  # formats, each with a file
    full: bool  # whether the text has every section
    force: bool

    @classmethod
    def of(cls, plan: str, *, shown: str, write: Sequence[str], full: bool, force: bool) -> AuditOutputs:
        """The outputs; ``write`` has texts of the form FORMAT=FILE."""
        files = []
        for text in write:
            name, equals, file = text.partition("=")
            if name not in _FOR_FILES or not equals or not file:
                raise InvalidInput(f"expected FORMAT=FILE with {', '.join(_FOR_FILES)}, got {text[:60]!r}")
            files.append((name, Path(file)))
        return cls(plan=plan, shown=shown, files=tuple(files), full=full, force=force)

    @property
    def every_section(self) -> bool:
        """Whether something that is written has all sections of the result."""
        return self.full or self.shown != _TEXT or bool(self.files)

    def check(self, *, names: bool) -> None:
        """Refuse what cannot be written, before the audit."""
        if names and self.shown not in (_TEXT, _JSON):
            raise InvalidInput(f"expected --names with text or json, got {self.shown}, which names nobody")
        for _, path in self.files:
            check_new(path, force=self.force)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Also tell pipelines about an error, since they would take a missing report for a good one."""
        try:
            yield
        except SightlineError as error:
            failed = (self.plan, f"{type(error).__name__}: {error}")
            if self.shown not in (_TEXT, _JSON):
                print(checked_text([failed], PipelineFormat(self.shown)))
            for name, path in self.files:
                if name != _JSON:
                    self._write_file(path, checked_text([failed], PipelineFormat(name)), owner_only=False)
            raise

    def write(self, result: AuditResult) -> None:
        """Print the result, and write the files."""
        if self.shown == _TEXT:
            print_result(result, console(), full=self.full)
        elif self.shown == _JSON:
            print_json(result.model_dump(mode="json"))
        else:
            print(result_text(result, self.plan, PipelineFormat(self.shown)))
        owned = any(part.owner_only for part in (result, *result.other_secrets))
        for name, path in self.files:
            if name == _JSON:
                self._write_file(path, result.to_json(), owner_only=owned)
            else:
                self._write_file(path, result_text(result, self.plan, PipelineFormat(name)), owner_only=False)

    def _write_file(self, path: Path, text: str, *, owner_only: bool) -> None:
        write_new(path, f"{text}\n".encode("utf-8", "replace"), force=self.force, owner_only=owner_only)
        print(f"Wrote {path}", file=sys.stderr)
