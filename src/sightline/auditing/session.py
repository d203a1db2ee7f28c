"""A plan with its table open: everything that an audit asks of an engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan, SecretKind
from sightline.errors import InvalidPlan
from sightline.progress import Progress
from sightline.tables.collect import collect
from sightline.tables.declared import check_declared
from sightline.tables.engines.engine import Engine, open_source
from sightline.tables.engines.engine import Kind as ColumnKind
from sightline.tables.membership import Membership, RowValues
from sightline.tables.records import has_rows, members_of, row_values, signature_of, signature_totals
from sightline.tables.sql.reader import ReleaseQuery, read_condition, read_release

_KINDS = {
    SecretKind.NUMBER: ColumnKind.NUMBER,
    SecretKind.BOOLEAN: ColumnKind.BOOLEAN,
    SecretKind.CATEGORY: ColumnKind.TEXT,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Session:
    """A checked plan, the engine that holds its table, and its releases as the reader understood them."""

    plan: Plan
    engine: Engine
    queries: tuple[ReleaseQuery, ...]

    @property
    def kind(self) -> ColumnKind:
        """What the secret is, to the tables."""
        return _KINDS[self.plan.data.secret_kind]

    def membership(self, progress: Progress) -> Membership:
        """Who is in which cell."""
        data = self.plan.data
        return collect(
            self.engine,
            self.queries,
            record=data.record,
            secret=data.secret,
            secret_kind=self.kind,
            bounds=data.bounds,
            categories=data.categories,
            known=self.plan.attacker.knows,
            contribution_limit=data.max_rows_per_record,
            progress=lambda step: progress(step, 0.0),
        )

    def values(self) -> RowValues:
        """Owner-only: the secret of every row."""
        data = self.plan.data
        return row_values(
            self.engine,
            self.queries,
            record=data.record,
            secret=data.secret,
            secret_kind=self.kind,
            bounds=data.bounds,
            categories=data.categories,
        )

    def totals(self) -> FloatArray:
        """Owner-only: the sum of the secrets that the attacker does not know, signature by signature."""
        data = self.plan.data
        return signature_totals(
            self.engine,
            self.queries,
            record=data.record,
            secret=data.secret,
            secret_kind=self.kind,
            bounds=data.bounds,
            categories=data.categories,
            known=self.plan.attacker.knows,
        )

    def keys(self, signatures: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """The keys of the records with some signatures that the attacker does not know."""
        data = self.plan.data
        return members_of(
            self.engine,
            self.queries,
            record=data.record,
            secret=data.secret,
            secret_kind=self.kind,
            signature_ids=signatures,
            categories=data.categories,
            known=self.plan.attacker.knows,
        )

    def signatures_of(self, record: str) -> tuple[int, ...]:
        """The signatures of one record's rows that the attacker does not know."""
        if not self._signatures(record, known=()):
            data = self.plan.data
            there = has_rows(self.engine, record=data.record, record_key=record)
            reason = (
                "whose rows have none; nothing that is published depends on it"
                if there
                else "which no row is about; check its spelling"
            )
            raise InvalidPlan(
                f"expected a {data.record} that has a row with a secret, got {record[:60]!r}, {reason}"
            )
        return self._signatures(record, known=self.plan.attacker.knows)

    def _signatures(self, record: str, *, known: Sequence[str]) -> tuple[int, ...]:
        data = self.plan.data
        return signature_of(
            self.engine,
            self.queries,
            record=data.record,
            secret=data.secret,
            secret_kind=self.kind,
            record_key=record,
            categories=data.categories,
            known=known,
        )


@contextmanager
def opened(plan: Plan, base: Path) -> Iterator[Session]:
    """Open the plan's table and read its releases; the table is closed at the end."""
    data = plan.data
    engine = open_source(data.source, base=base, tables=data.tables)
    try:
        columns = engine.columns()
        kind = _KINDS[data.secret_kind]
        check_declared(engine, record=data.record, secret=data.secret, secret_kind=kind)
        others = {name: engine.columns(name) for name in data.tables}
        for text in plan.attacker.knows:
            read_condition(text, columns=columns, secret=data.secret)
        queries = []
        for release in plan.releases:
            try:
                query = read_release(
                    release.sql,
                    name=release.name,
                    columns=columns,
                    record=data.record,
                    secret=data.secret,
                    secret_kind=kind,
                    bandwidth=data.bandwidth,
                    tables=others,
                )
            except InvalidPlan as error:
                raise InvalidPlan(f"release {release.name!r}: {error}") from None
            queries.append(query)
        yield Session(plan=plan, engine=engine, queries=tuple(queries))
    finally:
        engine.close()
