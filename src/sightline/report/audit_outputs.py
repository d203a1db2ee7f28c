"""Where the result of an audit goes: to standard output in one format, and to files in others."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sightline.auditing.result import AuditResult
from sightline.errors import InvalidInput, SightlineError
from sightline.report.console import console
from sightline.report.exposures_file import check_suffix, write_exposures
from sightline.report.files import check_new, write_new
from sightline.report.formats.output import PipelineFormat, checked_text, result_text
from sightline.report.formats.plan_lines import PlanLines
from sightline.report.json_output import print_json
from sightline.report.terminal import print_result

_TEXT, _JSON = "text", "json"
_FOR_FILES = (_JSON, *(one.value for one in PipelineFormat))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutputs:
    """The formats and files that an audit was asked for."""

    plan: str
    shown: str  # the format of standard output
    files: tuple[tuple[str, Path], ...]  # formats, each with a file
    exposures: Path | None  # for the table of the most exposed
    full: bool  # whether the text has every section
    force: bool

    @classmethod
    def of(  # many parameters: options of one command
        cls, plan: str, *, shown: str, write: Sequence[str], exposures: Path | None, full: bool, force: bool
    ) -> AuditOutputs:
        """The outputs; ``write`` has texts of the form FORMAT=FILE."""
        files = []
        for text in write:
            name, equals, file = text.partition("=")
            if name not in _FOR_FILES or not equals or not file:
                raise InvalidInput(f"expected FORMAT=FILE with {', '.join(_FOR_FILES)}, got {text[:60]!r}")
            files.append((name, Path(file)))
        return cls(plan=plan, shown=shown, files=tuple(files), exposures=exposures, full=full, force=force)

    @property
    def every_section(self) -> bool:
        """Whether something that is written has all sections of the result."""
        return self.full or self.shown != _TEXT or bool(self.files)

    def check(self, *, names: bool) -> None:
        """Refuse what cannot be written, before the audit."""
        if names and self.shown not in (_TEXT, _JSON):
            raise InvalidInput(f"expected --names with text or json, got {self.shown}, which names nobody")
        if self.exposures is not None:
            check_suffix(self.exposures)
        for path in (*(path for _, path in self.files), self.exposures):
            if path is not None:
                check_new(path, force=self.force)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Also tell pipelines about an error, since they would take a missing report for a good one."""
        try:
            yield
        except SightlineError as error:
            failed = (PlanLines.of(self.plan), f"{type(error).__name__}: {error}")
            if self.shown not in (_TEXT, _JSON):
                print(checked_text([failed], PipelineFormat(self.shown)))
            for name, path in self.files:
                if name != _JSON:
                    self._write_file(path, checked_text([failed], PipelineFormat(name)), owner_only=False)
            raise

    def write(self, result: AuditResult) -> None:
        """Print the result, and write the files."""
        lines = PlanLines.of(self.plan)
        if self.shown == _TEXT:
            print_result(result, console(), full=self.full)
        elif self.shown == _JSON:
            print_json(result.model_dump(mode="json"))
        else:
            print(result_text(result, lines, PipelineFormat(self.shown)))
        parts = (result, *result.other_secrets)
        for name, path in self.files:
            if name == _JSON:
                owned = any(part.owner_only for part in parts)
                self._write_file(path, result.to_json(), owner_only=owned)
            else:
                self._write_file(path, result_text(result, lines, PipelineFormat(name)), owner_only=False)
        if self.exposures is not None:
            write_exposures(result, self.exposures, force=self.force)
            listed = sum(len(one.exposed) for one in parts)
            in_all = sum(one.exposed_in_all for one in parts)
            print(
                f"Wrote {self.exposures}: {listed:,} of {in_all:,} exposed; --top lists more", file=sys.stderr
            )

    def _write_file(self, path: Path, text: str, *, owner_only: bool) -> None:
        write_new(path, f"{text}\n".encode("utf-8", "replace"), force=self.force, owner_only=owner_only)
        print(f"Wrote {path}", file=sys.stderr)
