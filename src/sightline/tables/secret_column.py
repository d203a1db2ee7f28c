"""A secret that is an expression of columns: add it to ``data`` as a column."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, ColumnKind, Engine
from sightline.tables.sql.fragments import embedded, quoted
from sightline.tables.sql.grammar import parse_condition, refuse, shown
from sightline.tables.sql.scope import Scope, find_column
from sightline.tables.sql.secret_products import ARITHMETIC
from sightline.tables.subject import Schema, SecretExpression, SecretKind, Subject

_LONGEST = 60  # bytes; Postgres cuts names after 63


def with_secret_column(engine: Engine, subject: Subject) -> Subject:
    """The subject with its secret as an expression, and that expression as a column of ``data``.

    If the secret is the name of a column, or nothing that can be read, the subject stays as it is. No row is
    read.
    """
    names = {column.name.casefold() for column in engine.columns()}
    if subject.secret.casefold() in names or subject.record.casefold() not in names:
        return subject  # without its record key a table may have no header: see check_declared
    try:
        node = parse_condition(subject.secret, engine.dialect)
    except InvalidPlan:
        return subject
    if isinstance(node.unnest(), exp.Column):
        return subject
    try:
        expression = _checked(engine, subject, node)
    except InvalidPlan as error:
        raise InvalidPlan(f"[data] secret: {error}") from None
    listed = ", ".join(quoted(column.name) for column in engine.columns())
    value = embedded(expression.bound, engine.dialect)
    engine.restrict(f"SELECT {listed}, {value} AS {quoted(expression.name)} FROM {quoted(DATA)}")
    return replace(subject, expression=expression)


def _checked(engine: Engine, subject: Subject, node: exp.Expr) -> SecretExpression:
    schema = Schema.of(engine)
    bound = Scope.of_data(schema, secret="", called=exp.to_identifier(DATA)).bind(node)
    for part in bound.walk():
        number = isinstance(part, exp.Literal) and not part.is_string
        if not number and not isinstance(part, (*ARITHMETIC, exp.Column, exp.Identifier, exp.Paren)):
            refuse(
                "a column, or columns and numbers with + - * /",
                got=shown(part),
                fix="compute the column beforehand",
            )
    columns = [find_column(schema.columns, column.name) for column in bound.find_all(exp.Column)]
    others = [column for column in columns if column.kind is not ColumnKind.NUMBER]
    if not columns or others:
        got = f'"{others[0].name}", a {others[0].kind.value} column' if others else "no column"
        refuse("an expression of columns of numbers", got=got)
    if find_column(schema.columns, subject.record) in columns:
        refuse("a secret without the record key", got=f'"{subject.record}" in it')
    if subject.kind is not SecretKind.NUMBER:
        refuse("bounds, as an expression is a number", got=f"kind {subject.kind.value!r}")
    if len(subject.secret.encode()) > _LONGEST:
        refuse(
            f"an expression of at most {_LONGEST} bytes",
            got=f"{len(subject.secret.encode())}",
            fix="compute the column beforehand",
        )
    return SecretExpression(
        name=subject.secret, bound=bound, columns=frozenset(column.name for column in columns)
    )
