"""JUnit's XML, as Jenkins and GitLab read it: a suite for each plan, a test case for each thing to hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from sightline.report.formats.problems import Level, PlanProblems, Problem, Rule

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
        suite = SubElement(suites, "testsuite", name=_text(report.file))
        _add_cases(suite, report)
        cases = suite.findall("testcase")
        suite.set("tests", str(len(cases)))
        for name, part in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(sum(case.find(part) is not None for case in cases)))
        SubElement(suite, "system-out").text = _text(report.summary)
    indent(suites)
    text: bytes = tostring(suites, encoding="us-ascii", xml_declaration=False)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text.decode("ascii")}'


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


def _add_case(suite: Element, report: PlanProblems, name: str, why: Sequence[Problem]) -> Element:
    case = SubElement(suite, "testcase", name=_text(name), classname=_text(report.file))
    if why:
        kind = "error" if why[0].rule is Rule.NOT_AUDITED else "failure"
        found = SubElement(case, kind, message=_text(why[0].text), type=why[0].rule.value)
        found.text = _text("\n".join(one.text for one in why))
    return case


def _text(text: str) -> str:
    """A text without the characters that XML has no way to write."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
