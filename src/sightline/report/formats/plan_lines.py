"""Where a plan file says what: the line of each release and of each section."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LARGEST_FILE = 4_000_000  # bytes; a larger plan is refused
_STRING_OR_COMMENT = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"{3,5}'
    r"|'''[^']*(?:'(?!'')[^']*)*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*",
    re.DOTALL,
)
_HEADER = re.compile(r"[ \t]*(\[\[?)[ \t]*([A-Za-z_]+)[ \t]*\]\]?[ \t\r]*")
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLines:
    """The name of a plan file as a pipeline shows it, and the lines at which its parts begin."""

    file: str  # with / between folders; relative to the working directory where the plan is below it
    releases: Mapping[str, int] = field(default_factory=dict)
    sections: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: str | Path) -> PlanLines:
        """Read a plan file; of one that cannot be read only the name is known."""
        path = Path(plan)
        file = _shown(path)
        if not path.is_file():  # a pipe cannot be read twice
            return cls(file=file)
        try:
            with path.open("rb") as stream:
                text = stream.read(_LARGEST_FILE + 1).decode("utf-8-sig")
            if len(text) > _LARGEST_FILE:
                return cls(file=file)
            names = _names(tomllib.loads(text))
        except (OSError, ValueError, RecursionError):
            return cls(file=file)
        found = headers(text)
        lines = [line for double, name, line in found if double and name == "release"]
        return cls(
            file=file,
            # Releases may also be written as an inline list: then all of them are at the first line.
            releases=dict(zip(names, lines, strict=True)) if len(names) == len(lines) else {},
            sections={name: line for double, name, line in reversed(found) if not double},
        )

    def of_release(self, name: str | None) -> int:
        """The line of a release's section; the first line if it is not known."""
        return 1 if name is None else self.releases.get(name, 1)

    def of_error(self, message: str) -> int:
        """The line that an error's message is about: of the TOML, of the release or section that it names."""
        at_line = _AT_LINE.search(message)
        if at_line:
            return int(at_line.group(1))
        named = [name for name in self.releases if f"release {repr(name)[:57]}" in message]
        if named:
            return self.releases[max(named, key=len)]
        sections = [line for name, line in self.sections.items() if f"[{name}]" in message]
        return sections[0] if sections else 1


def headers(text: str) -> list[tuple[bool, str, int]]:
    """The headers of a TOML text: whether they begin an entry of a list, their names, and their lines.

    >>> headers('[data]\\nsource = "t.csv"\\n[[release]]\\nsql = \"\"\"\\n[[release]]\\n\"\"\"')
    [(False, 'data', 1), (True, 'release', 3)]
    """
    code = _STRING_OR_COMMENT.sub(lambda found: "\n" * found.group().count("\n"), text)
    matches = ((_HEADER.fullmatch(line), number) for number, line in enumerate(code.split("\n"), start=1))
    return [(one.group(1) == "[[", one.group(2), number) for one, number in matches if one is not None]


def _names(content: Mapping[str, object]) -> list[str]:
    releases = content.get("release")
    entries = releases if isinstance(releases, list) else []
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    return [name if isinstance(name, str) else f"\0{place}" for place, name in enumerate(names)]


def _shown(path: Path) -> str:
    try:
        below = path.resolve().relative_to(Path.cwd().resolve())
    except (OSError, ValueError):
        return path.name
    return below.as_posix()
