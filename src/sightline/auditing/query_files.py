"""Queries in files: the one that a release names, and a plan made of a folder of them.

A file holds one SELECT, or several that end with a semicolon each: then each is a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from sqlglot import TokenType, tokenize
from sqlglot.errors import SqlglotError

from sightline.auditing.plan_fields import SUFFIX, is_query_file
from sightline.auditing.plan_sections import DOMAIN, USUAL_DELTA, USUAL_LIMIT
from sightline.auditing.starter import (
    STARTER_BUDGET,
    StarterPlan,
    columns_meant,
    quoted_text,
    relative_source,
    starter_plan,
)
from sightline.errors import InvalidPlan, require_plan
from sightline.tables.engines.address import file_text, scheme_of
from sightline.tables.engines.protocol import Column, ColumnKind
from sightline.values import frozen


def one_statement(path: Path) -> str:
    """The one query in a file."""
    (sql, *others) = statements(path)
    require_plan(
        not others,
        f"one SELECT in {path.name[:60]!r}",
        got=f"{len(others) + 1} statements",
        fix="one release is one query",
    )
    return sql


def _names(queries: Iterable[str]) -> frozenset[str]:
    """The words of some queries that may be names of columns, in lower case."""
    values = (TokenType.STRING, TokenType.NUMBER)
    tokens = (token for sql in queries for token in tokenize(sql))
    return frozenset(token.text.casefold() for token in tokens if token.token_type not in values)


def rebased(content: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """The sections of a plan with paths that start from the working directory, not from ``base``."""
    data = content.get("data")
    if not isinstance(data, Mapping):
        return dict(content)
    moved = {name: _moved(data[name], base) for name in ("source", "frame") if name in data}
    if isinstance(tables := data.get("tables"), Mapping):
        moved["tables"] = {name: _moved(source, base) for name, source in tables.items()}
    return {**content, "data": {**data, **moved}}


def _moved(source: Any, base: Path) -> Any:
    if not isinstance(source, str) or scheme_of(source) is not None:
        return source
    path, colons, table = source.partition("::")
    return f"{base / path}{colons}{table}"


def statements(path: Path) -> list[str]:
    """The texts of the statements in a file, without their semicolons."""
    name = path.name[:60]
    text = file_text(path, f"a file of SQL in {name!r}")
    try:
        ends = [token.start for token in tokenize(text) if token.token_type is TokenType.SEMICOLON]
    except SqlglotError:
        ends = []  # the reader says what is wrong with it
    begins = [0, *(end + 1 for end in ends)]
    parts = [text[begin:end] for begin, end in zip(begins, [*ends, len(text)], strict=True)]
    selects = [part.strip() for part in parts if _says_something(part)]
    require_plan(bool(selects), f"a SELECT in {name!r}", got="nothing")
    return selects


def _says_something(text: str) -> bool:
    try:
        return bool(tokenize(text))
    except SqlglotError:
        return True


def named_queries(files: Sequence[str | Path]) -> list[dict[str, str]]:
    """A release for each statement, called by its file, in the order of the files."""
    releases: list[dict[str, str]] = []
    stems = [Path(file).stem for file in files]
    for file, stem in zip(files, stems, strict=True):
        name = stem if stems.count(stem) == 1 else str(Path(file).with_suffix(""))
        queries = statements(Path(file))
        names = [name] if len(queries) == 1 else [f"{name} {place}" for place in range(1, len(queries) + 1)]
        releases += [{"name": one, "sql": sql} for one, sql in zip(names, queries, strict=True)]
    return releases


@frozen(eq=True)
class GivenPlan:
    """What the command line says in place of a plan, or besides one."""

    table: str = ""
    record: str = ""
    secret: str = ""
    bounds: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    max_rows: int = 1
    # What is given of epsilon, delta and noise: the standard deviation of Gaussian noise on every number.
    amounts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_plan(
            not self.amounts.keys() >= {"epsilon", "noise"},
            "--epsilon, a budget, or --noise, a standard deviation",
            got="both",
        )

    @property
    def data(self) -> dict[str, Any]:
        """What is given of [data], as a plan says it, but for the table."""
        given = {
            "record": self.record,
            "secret": self.secret,
            "bounds": list(map(float, self.bounds)),
            "categories": list(self.categories),
            "public": list(self.public),
        }
        several = {"max_rows_per_record": self.max_rows}
        return {name: one for name, one in given.items() if one} | (several if self.max_rows > 1 else {})

    @property
    def by_hand(self) -> dict[str, float]:
        """The noise of every release, if it is chosen by hand."""
        return {"noise_stddev": self.amounts["noise"]} if "noise" in self.amounts else {}

    def of_queries(self, files: Sequence[str | Path]) -> dict[str, Any]:
        """The sections of a plan that publishes the queries in some files about the table.

        A column that is not given is guessed where names leave no doubt. What a number or a category can be
        is never guessed. Everyone must keep half of their uncertainty. Relative paths start from the working
        directory.
        """
        require_plan(bool(self.table), "--table FILE, the table that the queries read", got="none")
        require_plan(
            bool(self.amounts.keys() & {"epsilon", "noise"}),
            "--epsilon E, a budget for all queries, or --noise S, a standard deviation",
            got="neither",
        )
        key, hidden = columns_meant(self.table, record=self.record, secret=self.secret)
        own = {name: one for name, one in self.data.items() if name not in DOMAIN}
        data = {"source": self.table, **own, "record": key.name, "secret": hidden.name}
        plan = {
            "data": {**data, **self.domain(hidden)},
            "limits": {"remaining_uncertainty": USUAL_LIMIT},
            "release": named_queries(files),
        }
        return self.with_noise(plan)

    def starter(self, files: Sequence[str], *, out: Path) -> StarterPlan:
        """A commented plan for the table, to be written to ``out``, with the queries in some files."""
        stated = {}
        if self.bounds:
            stated["domain"] = f"bounds = [{self.bounds[0]:g}, {self.bounds[1]:g}]"
        elif self.categories:
            stated["domain"] = f"categories = [{', '.join(map(quoted_text, self.categories))}]"
        if self.max_rows > 1:
            stated["rows"] = f"max_rows_per_record = {self.max_rows}"
        budget = STARTER_BUDGET.format(self.amounts.get("epsilon", 1.0))
        if self.by_hand:
            budget = "# The noise below was chosen by hand; its cost is reported at this delta."
        stated["privacy"] = f"{budget}\ndelta = {self.amounts.get('delta', USUAL_DELTA):g}"
        releases = [self._release(one, out.parent) for one in files]
        return starter_plan(
            self.table,
            out=out,
            record=self.record,
            secret=self.secret,
            stated=stated,
            releases=releases,
            used=_names(one_statement(Path(one)) for one in files),
        )

    def _release(self, file: str, folder: Path) -> str:
        one_statement(Path(file))
        require_plan(
            is_query_file(relative_source(file, folder)),
            f"a file of SQL whose name ends in {SUFFIX}",
            got=repr(Path(file).name[:60]),
        )
        noise = "".join(f"{name} = {size:g}\n" for name, size in self.by_hand.items())
        name, path = quoted_text(Path(file).stem), quoted_text(relative_source(file, folder))
        return f"[[release]]\nname = {name}\nsql = {path}\n{noise}"

    def domain(self, secret: Column) -> dict[str, Any]:
        """What the secret can be, as a plan says it."""
        given = {name: one for name, one in self.data.items() if name in DOMAIN}
        zero_or_one = secret.kind is ColumnKind.NUMBER and set(self.categories) == {"0", "1"}
        if not self.bounds and (zero_or_one or (not given and secret.kind is ColumnKind.BOOLEAN)):
            return {"kind": "boolean"}
        if given:
            return given
        number = secret.kind is ColumnKind.NUMBER
        option = "--bounds LOW HIGH (or --categories 0,1)" if number else "--categories A,B,…"
        raise InvalidPlan(
            f"expected {option}, what {secret.name!r} can be, got none; a guess from the data would reveal it"
        )

    def with_public(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The sections of a plan that takes these columns as public, besides those that it lists itself."""
        data = content.get("data", {})
        listed = data.get("public", []) if isinstance(data, Mapping) else []
        if not self.public or not isinstance(data, Mapping) or not isinstance(listed, list):
            return dict(content)
        public = list(dict.fromkeys([*listed, *self.public]))
        return {**content, "data": {**data, "public": public}}

    def with_noise(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The sections of a plan with this budget for all releases, or with noise by hand on every number."""
        budget = {name: size for name, size in self.amounts.items() if name != "noise"}
        privacy, releases = {**content.get("privacy", {}), **budget}, list(content.get("release", ()))
        if budget.keys() < self.amounts.keys():  # by hand: no budget is shared
            privacy.pop("epsilon", None)
        if self.amounts.keys() & {"epsilon", "noise"}:
            releases = [self._with_own(one) if isinstance(one, Mapping) else one for one in releases]
        if "epsilon" in budget:
            privacy.setdefault("delta", USUAL_DELTA)
        return {**content, "release": releases, **({"privacy": privacy} if privacy else {})}

    def _with_own(self, release: Mapping[str, Any]) -> dict[str, Any]:
        """A release with the noise by hand, if there is one, in place of what it states."""
        stated = ("noise", "noise_stddev")
        return {name: one for name, one in release.items() if name not in stated} | self.by_hand
