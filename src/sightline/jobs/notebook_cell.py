"""A plan in a cell of a notebook: the magic ``%%sightline``."""

from __future__ import annotations

from typing import Any

from sightline.auditing.reading import plan_of_text
from sightline.auditing.result import AuditResult
from sightline.errors import SightlineError
from sightline.jobs.audit import audit


def audit_cell(line: str, cell: str) -> AuditResult:
    """Audit the plan in a cell. The line may give a limit, as in ``%%sightline 50%``.

    Relative paths start from the working directory. A mistake is one line without a traceback.
    """
    from IPython.core.error import UsageError

    try:
        return audit(plan_of_text(cell, "the cell"), limit=line.strip() or None)
    except SightlineError as error:
        raise UsageError(f"{type(error).__name__}: {error}") from None


def register(shell: Any) -> None:
    """Add ``%%sightline`` to a running IPython."""
    shell.register_magic_function(audit_cell, magic_kind="cell", magic_name="sightline")
