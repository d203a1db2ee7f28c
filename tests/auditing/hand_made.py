"""Memberships made by hand, from lists of cells: the audit's tests need no engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.auditing.findings import Findings
from sightline.auditing.plan import Plan
from sightline.auditing.result import AuditResult
from sightline.jobs.assemble import assemble
from sightline.tables.membership import Cell, Feature, Membership, Partition, PersonTable, Statistic


def plan_of(*releases: dict[str, Any], **changes: object) -> Plan:
    """A plan over a number from 0 to 10, with other sections as they are given."""
    content = {
        "data": {"source": "t.csv", "record": "id", "secret": "x", "bounds": [0, 10]},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
        "release": [{"sql": "SELECT AVG(x) FROM data", **release} for release in releases],
        **changes,
    }
    return Plan.model_validate(content)


def partition(query: int = 0, name: str = "p", **changes: Any) -> Partition:
    return Partition(
        **{
            "query": query,
            "name": name,
            "statistic": Statistic.MEAN,
            "feature": Feature.VALUE,
            **changes,
        }
    )


def membership_of(
    partitions: Sequence[Partition],
    groups: Sequence[Sequence[str | None]],
    *,
    known: Sequence[int] = (),
    contributions: int = 1,
    owners: Sequence[str] | None = None,
) -> Membership:
    """From the group of every row in every partition (None for none): ``groups[partition][row]``.

    ``owners`` says whose row it is, where persons have several.
    """
    rows = len(groups[0])
    cells: list[Cell] = []
    number: list[dict[str | None, int]] = []
    for p, line in enumerate(groups):
        sizes = Counter(group for group in line if group is not None)
        number.append({})
        for group in sorted(sizes):
            number[p][group] = len(number[p])
            key = (group,) if group else ()
            cells.append(Cell(partition=p, key=key, rows=sizes[group]))
    table = np.array(
        [[number[p].get(line[row], -1) for p, line in enumerate(groups)] for row in range(rows)],
        dtype=np.int32,
    ).reshape(rows, len(groups))
    distinct, back = np.unique(table, axis=0, return_inverse=True)
    back = back.ravel()
    mine = np.zeros(rows)
    mine[list(known)] = 1
    return Membership(
        partitions=tuple(partitions),
        cells=tuple(cells),
        signatures=distinct,
        counts=np.bincount(back, minlength=len(distinct)).astype(np.int64),
        known=np.bincount(back, mine, len(distinct)).astype(np.int64),
        rows=rows,
        records=rows if owners is None else len(set(owners)),
        contributions=contributions,
        dropped=0,
        clipped=0,
        persons=PersonTable() if owners is None else persons_of(owners, back.tolist(), set(known)),
    )


def persons_of(owners: Sequence[str], signatures: Sequence[int], known: set[int]) -> PersonTable:
    """The table of persons: every person a kind of their own, in the order of their names."""
    kinds = []
    for owner in sorted(set(owners)):
        mine = [row for row, name in enumerate(owners) if name == owner]
        kinds.append(sorted(Counter((signatures[row], row in known) for row in mine).items()))
    entries = [entry for kind in kinds for entry in kind]
    return PersonTable(
        starts=np.cumsum([0, *map(len, kinds)]),
        signatures=np.array([signature for (signature, _), _ in entries], dtype=np.intp),
        known=np.array([is_known for (_, is_known), _ in entries]),
        rows=np.array([rows for _, rows in entries], dtype=np.intp),
        persons=np.ones(len(kinds), dtype=np.intp),
        several=sum(len(kind) > 1 or kind[0][1] > 1 for kind in kinds),
        varying=1,
    )


def assembled(findings: Findings, **options: Any) -> AuditResult:
    """The whole result of some findings."""
    return assemble(findings, **options).result()
