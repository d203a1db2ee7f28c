"""Read GROUP BY on bands of the secret: a CASE that names the band in which a number lies."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.sql.grammar import refuse, shown
from sightline.tables.sql.secret_conditions import Secret, SecretTest, complement
from sightline.tables.subject import SecretKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretBand:
    """One band of a histogram, and the name that CASE gives it; None for NULL."""

    name: exp.Literal | None
    test: SecretTest

    @property
    def label(self) -> str:
        return "NULL" if self.name is None else self.name.name


def read_bands(key: exp.Expr, secret: Secret) -> tuple[SecretBand, ...] | None:
    """Read a bound key as bands of a number, in the order of CASE; None if it is no such CASE.

    A branch holds where its condition does and no earlier one: ``CASE WHEN x < 10 THEN 'low' WHEN x < 20 THEN
    'middle' ELSE 'high' END`` has the bands below 10, from 10 to 20, and the rest. Without ELSE the rest is
    NULL, if the branches leave one.
    """
    node = key.unnest()
    if secret.kind is not SecretKind.NUMBER or not isinstance(node, exp.Case) or node.this is not None:
        return None
    branches = [(_name(one.args["true"], node), secret.test(one.this)) for one in node.args["ifs"]]
    earlier: list[SecretTest] = []
    bands: list[SecretBand] = []
    complete = False  # whether the last branch takes all that the others leave
    for name, test in branches:
        band = _one_band([test, *earlier], node, secret)
        complete = bool(earlier) and band == _one_band(earlier, node, secret)
        bands.append(SecretBand(name=name, test=band))
        earlier.append(complement(test))
    otherwise = node.args.get("default")
    if not complete or otherwise is not None:
        rest = _one_band(earlier, node, secret)
        bands.append(SecretBand(name=_name(otherwise, node), test=rest))
    if len({band.label for band in bands}) < len(bands):
        refuse("a different name for each band", got=shown(node), fix="name every band, also ELSE")
    return tuple(bands)


def _one_band(tests: list[SecretTest], node: exp.Expr, secret: Secret) -> SecretTest:
    """The band in which all tests are met."""
    try:
        return secret.both(tests)
    except InvalidPlan:
        refuse(
            "a CASE whose branches and ELSE are one band each, without gaps between them",
            got=shown(node),
            fix="compare with one end of each band only, such as CASE WHEN x < 18 THEN 'a' WHEN x < 65 THEN "
            "'b' ELSE 'c' END, or publish COUNT(*) FILTER (WHERE x BETWEEN … AND …) for each band",
        )


def _name(value: exp.Expr | None, node: exp.Expr) -> exp.Literal | None:
    if value is None or isinstance(value.unnest(), exp.Null):
        return None
    literal = value.unnest()
    if not isinstance(literal, exp.Literal):
        refuse("constants as the names of bands", got=shown(node), fix="write THEN 'a name'")
    return literal
