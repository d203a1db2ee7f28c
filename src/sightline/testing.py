"""For test suites: ``assert_keeps`` fails a test if a plan does not keep a limit."""

from __future__ import annotations

from sightline.auditing.reading import PlanLike
from sightline.auditing.result import AuditResult
from sightline.errors import InvalidInput
from sightline.jobs import audit as jobs
from sightline.report.first_screen import print_first_screen
from sightline.report.streams import printed
from sightline.report.wording import LINE_WIDTH


def assert_keeps(plan: PlanLike, limit: float | str | None = None) -> AuditResult:
    """Audit a plan, and raise ``AssertionError`` unless everyone is shown to keep the limit.

    ``plan`` and ``limit`` are those of :func:`sightline.audit`; without ``limit`` the plan's own is meant,
    and a plan without one is refused. The error's message is the first screen of the publishable result: test
    logs are kept and read by others, so it names nobody. The result is returned.
    """
    __tracebackhide__ = True
    result = jobs.audit(plan, limit=limit)
    if result.verdict.passed is None:
        raise InvalidInput('expected a limit to keep, got none; write assert_keeps(plan, "50%")')
    if not result.verdict.passed:
        raise AssertionError(_first_screen(result.publishable()))
    return result


def _first_screen(result: AuditResult) -> str:
    return printed(lambda screen: print_first_screen(result, screen, full=True), width=LINE_WIDTH).rstrip()
