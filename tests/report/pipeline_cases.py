"""What the formats for pipelines promise, as checks on their texts."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

SCHEMAS = Path(__file__).parent / "schemas"


# The rules of Jenkins' junit-10.xsd for the elements that are written: attributes, those that must be there,
# and children. The file itself is not copied here.
_ANY = {"message", "type"}
_ELEMENTS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
        {"name", "tests", "failures", "errors"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name", "time", "classname", "group"},
        {"name"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": (_ANY, set(), set()),
    "error": (_ANY, set(), set()),
    "skipped": (_ANY, set(), set()),
    "system-out": (set(), set(), set()),
}
_MIXED = {"failure", "error", "skipped", "system-out"}  # elements with text


def checked_junit(text: str) -> dict[str, str]:
    """The outcome of each test case of a JUnit report that keeps the rules."""
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, needed, children = _ELEMENTS[element.tag]
        assert needed <= set(element.attrib) <= attributes, element.tag
        assert {child.tag for child in element} <= children, element.tag
        assert element.tag in _MIXED or not (element.text or "").strip()
    outcomes = {}
    for suite in root:
        cases = suite.findall("testcase")
        for case in cases:
            assert len(case) <= 1
            outcomes[case.attrib["name"]] = case[0].tag if len(case) else "passed"
        assert int(suite.attrib["tests"]) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == sum(case.find(tag) is not None for case in cases)
    return outcomes
