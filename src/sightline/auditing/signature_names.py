"""Names for signatures made of their public attributes: "feeder west, tariff flat" instead of a number.

The attributes are those of the groups that the rows are in, the rarest few of them. Columns that are as good
as a person's key are left out. Signatures that differ only in releases without groups are told apart by
these. The attributes of a few persons together may tell who they are, though each is public: a publishable
result has no names for small signatures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sightline.arrays import IndexArray
from sightline.auditing.findings import Findings
from sightline.format import count

_MOST_RELEASES = 2  # that a name lists
_MOST_ATTRIBUTES = 4


def signature_names(findings: Findings, signatures: IndexArray) -> tuple[str, ...]:
    """A name for each of some signatures of the membership; those that are alike get their number, too."""
    attributes = [_attributes(findings, int(signature)) for signature in signatures]
    alike = Counter(attributes)
    named = [
        name if alike[name] == 1 else _joined(name, _conditions(findings, int(signature)))
        for name, signature in zip(attributes, signatures, strict=True)
    ]
    alike = Counter(named)
    return tuple(
        name
        if name and alike[name] == 1
        else _joined(name, f"#{findings.membership.signature_number(int(signature))}")
        for name, signature in zip(named, signatures, strict=True)
    )


def _attributes(findings: Findings, signature: int) -> str:
    """The rarest public values of the groups that a signature is in, in the order of publication."""
    membership = findings.membership
    found: dict[tuple[str, str], int] = {}  # and the most rows that have it together with others
    for p, part in enumerate(membership.partitions):
        place = int(membership.signatures[signature, p])
        if place < 0:
            continue
        cell = membership.cells[int(membership.starts[p]) + place]
        key = cell.key
        names: Sequence[str] = part.key_names if len(part.key_names) == len(key) else ("",) * len(key)
        for position, (column, value) in enumerate(zip(names, key, strict=True)):
            if position not in findings.key_columns[p]:
                found[column, value] = max(cell.rows, found.get((column, value), 0))
    rarest = sorted(found, key=lambda one: found[one])[:_MOST_ATTRIBUTES]
    return ", ".join(f"{column} {value}".strip() for column, value in found if (column, value) in rarest)


def _conditions(findings: Findings, signature: int) -> str:
    """The releases without groups that a signature is in, or not in, whichever are fewer."""
    membership, releases = findings.membership, findings.plan.releases
    inside: dict[int, bool] = {}
    for p, part in enumerate(membership.partitions):
        cells = range(int(membership.starts[p]), int(membership.starts[p + 1]))
        if len(cells) == 1 and not membership.cells[cells[0]].key:
            inside[part.query] = inside.get(part.query, False) or membership.signatures[signature, p] >= 0
    members = [releases[query].name for query, member in inside.items() if member]
    others = [releases[query].name for query, member in inside.items() if not member]
    if not members or not others:
        return ""
    word, names = ("in", members) if len(members) <= len(others) else ("not in", others)
    more = len(names) - _MOST_RELEASES
    listed = ", ".join(names[:_MOST_RELEASES]) + (f" and {count(more, 'other')}" if more > 0 else "")
    return f"{word} {listed}"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
