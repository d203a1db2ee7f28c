"""The problems of a plan as pipelines show them, each with its rule, its level and its line in the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from sightline.auditing.result import AuditResult, Exposed, ReleaseReport
from sightline.auditing.result_parts import SMALL_GROUP
from sightline.format import count, parameter
from sightline.report.wording import how, limit_line, secret_line, short, status_words, unverified_line, who

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


_LONGEST_TEXT = 1_000  # characters of a text


class Level(StrEnum):
    """How much a problem matters. SARIF has the same words."""

    ERROR = "error"  # the limit is broken, or is not shown to hold; or nothing could be audited
    WARNING = "warning"
    NOTE = "note"


class Rule(StrEnum):
    """The kinds of problems."""

    LIMIT = "limit"
    NOT_VERIFIED = "not-verified"
    BELOW_LIMIT = "below-limit"
    SINGLED_OUT = "singled-out"
    EXPOSING_RELEASE = "exposing-release"
    NOT_AUDITED = "not-audited"

    @property
    def meaning(self) -> str:
        """What a problem of this kind says."""
        match self:
            case Rule.LIMIT:
                return "Every record must be shown to keep the limit on its remaining uncertainty."
            case Rule.NOT_VERIFIED:
                return "A pass needs assumptions that are verified, or accepted by name in the plan."
            case Rule.BELOW_LIMIT:
                return "A record may keep less of its uncertainty than the limit."
            case Rule.SINGLED_OUT:
                return "Published numbers tell a record apart from all others."
            case Rule.EXPOSING_RELEASE:
                return "Records can be told apart since this release, or only because of it."
            case Rule.NOT_AUDITED:
                return "A plan, its table and its SQL must be such that they can be audited."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProblem:
    """One thing to show at a line of the plan."""

    rule: Rule
    level: Level
    text: str
    line: int = 1
    other_lines: tuple[int, ...] = ()
    releases: tuple[str, ...] = ()  # that it is about, the heaviest first; none: the whole plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblems:
    """What a pipeline shows of one plan."""

    file: str
    summary: str
    problems: tuple[ReportedProblem, ...]  # the most important first
    releases: tuple[str, ...] = ()  # of an audit; none if the plan was only checked, or not audited
    passed: bool | None = None  # whether the limit is kept; none if there is none


def problems_of(result: AuditResult, lines: PlanLines) -> PlanProblems:
    """The problems of a publishable result, for every secret of the plan."""
    parts = (result, *result.other_secrets)
    found = [one for part in parts for one in _of_secret(part, named=len(parts) > 1)]
    order = list(Level)
    return PlanProblems(
        file=lines.file,
        summary=summary(result),
        problems=tuple(_placed(one, lines) for one in sorted(found, key=lambda one: order.index(one.level))),
        releases=tuple(dict.fromkeys(release.name for part in parts for release in part.releases)),
        passed=result.verdict.passed,
    )


def _of_secret(result: AuditResult, *, named: bool) -> list[ReportedProblem]:
    found = []
    if result.verdict.passed is False:
        found.append(ReportedProblem(rule=Rule.LIMIT, level=Level.ERROR, text=summary(result)))
        found += [
            ReportedProblem(rule=Rule.NOT_VERIFIED, level=Level.ERROR, text=_cut(unverified_line(one)))
            for one in result.unverified
            if not one.accepted
        ]
    for place, exposed in enumerate(result.exposed, start=1):
        found += _of_exposed(result, place, exposed)
    for release in result.releases:
        found += _of_release(result, release)
    if not named:
        return found
    return [replace(one, text=_cut(f"Secret {result.secret}: {one.text}")) for one in found]


def problems_of_check(error: str | None, lines: PlanLines) -> PlanProblems:
    """The problems of a plan that was checked, or that could not be audited because of an error."""
    if error is None:
        return PlanProblems(file=lines.file, summary="A good plan.", problems=())
    problem = ReportedProblem(
        rule=Rule.NOT_AUDITED, level=Level.ERROR, text=_cut(error), line=lines.of_error(error)
    )
    return PlanProblems(file=lines.file, summary=problem.text, problems=(problem,))


def _placed(one: ReportedProblem, lines: PlanLines) -> ReportedProblem:
    """The problem with the lines of its releases."""
    first, *others = dict.fromkeys(lines.of_release(name) for name in one.releases or (None,))
    return replace(one, line=first, other_lines=tuple(others))


def summary(result: AuditResult) -> str:
    """The verdict, what the sharpest attack knows, and the slack, in a few sentences.

    Of several secrets it is about the one that fares worst, and begins with a line about each.
    """
    each = " ".join(map(secret_line, (result, *result.other_secrets))) if result.other_secrets else ""
    sharpest = "" if result.sharpest is None else result.sharpest.text
    slack = "" if result.slack is None else result.slack.text
    return _cut(
        " ".join(filter(None, (each, f"{status_words(result)}. {limit_line(result)}", sharpest, slack)))
    )


def _of_exposed(result: AuditResult, place: int, exposed: Exposed) -> list[ReportedProblem]:
    left, limit = exposed.remaining_uncertainty, result.verdict.limit
    judged = exposed.about is None or result.verdict.known_to is None  # a yes or no has no unit
    below = judged and limit is not None and left is not None and left.lower < limit
    if not below and not (exposed.identifiable and exposed.size <= SMALL_GROUP):
        return []
    rule, level = (Rule.BELOW_LIMIT, Level.ERROR) if below else (Rule.SINGLED_OUT, Level.NOTE)
    keeps = "" if left is None else f", {left} of the variance ({left.of_stddev} of ±) remains"
    against = f", the limit is {parameter(100 * limit)} %" if below and limit is not None else ""
    text = f"Exposed: {who(place, exposed)}{keeps}{against}. {how(exposed, result.unit)}"
    steps = () if exposed.attack is None else (step.release for step in exposed.attack.steps)
    used = exposed.releases or tuple(dict.fromkeys(steps))
    return [ReportedProblem(rule=rule, level=level, text=_cut(text), releases=used)]


def _of_release(result: AuditResult, release: ReleaseReport) -> list[ReportedProblem]:
    words = []
    if release.newly_exposes:
        words.append(f"{count(release.newly_exposes, 'record')} can be told apart since its publication")
    if release.exposes_alone:
        words.append(f"{count(release.exposes_alone, 'record')} can be told apart only because of it")
    if not words:
        return []
    level = Level.WARNING if result.verdict.passed is False else Level.NOTE
    text = f'Release "{release.name}": {"; ".join(words)}.'
    return [
        ReportedProblem(rule=Rule.EXPOSING_RELEASE, level=level, text=_cut(text), releases=(release.name,))
    ]


def _cut(text: str) -> str:
    return short(text, _LONGEST_TEXT)
