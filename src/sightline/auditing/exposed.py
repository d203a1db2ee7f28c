"""The section on who is exposed: the most exposed records and groups, and how many keep how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, Keys, LinearFindings
from sightline.auditing.linear_attacks import Folded, LinearAttacks
from sightline.auditing.named_features import named_features
from sightline.auditing.questions import question_text
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result import EDGES, Distribution, Exposed
from sightline.auditing.result_parts import SMALL_GROUP
from sightline.auditing.signature_names import signature_names
from sightline.progress import reported

_NAMED = 5  # of the most exposed with several rows, whose periods are looked at
_NEGLIGIBLE = 1e-9  # of the largest weight of a feature: rounding of a weight that is zero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExposedSection:
    """The list of the most exposed, and the numbers that belong to it."""

    exposed: tuple[Exposed, ...]
    columns: IndexArray  # of the linear design, for those of the list that are seen through it
    exposed_in_all: int  # the length of the whole list
    identifiable_records: int


def exposed_section(findings: Findings, *, top: int, keys: Keys | None) -> ExposedSection:
    """The ``top`` most exposed; ``keys`` fetches their names."""
    exposed = _about_question(findings.worst, top, keys)
    columns = np.zeros(0, dtype=np.intp)
    in_all, identifiable = len(exposed), 0
    if (found := findings.linear) is not None:
        identifiable = found.identifiable_records
        columns = found.most_exposed(np.flatnonzero(found.listed), max(0, top - len(exposed)))
        exposed += describe(findings, found, columns, keys)
        in_all += int(np.count_nonzero(found.listed))
        in_all += 0 if found.others is None else found.others.signatures_below
        if found.linear.rows_of_unit.max(initial=1) > 1:
            rows = findings.rows_apart
            groups = np.flatnonzero(
                rows.visible & (rows.counts <= SMALL_GROUP) & (_owners(findings, rows) > 1)
            )
            some = rows.most_exposed(groups, max(0, top - len(exposed)))
            exposed += describe(findings, rows, some, keys)
            in_all += groups.size
    if findings.nonlinear is not None:
        exposed += findings.nonlinear.worst(top - len(exposed))
        in_all += findings.nonlinear.report().identifiable
    return ExposedSection(
        exposed=exposed, columns=columns, exposed_in_all=in_all, identifiable_records=identifiable
    )


def _about_question(worst: Findings, top: int, keys: Keys | None) -> tuple[Exposed, ...]:
    """The record that the headline is about, if that is about a yes-or-no question; else none."""
    if worst.question is None or worst.linear is None:
        return ()
    asked = {"about": question_text(worst.question, worst.plan.data.secret)}
    columns = worst.linear.most_exposed(np.flatnonzero(worst.linear.listed), min(1, top))
    return tuple(one.model_copy(update=asked) for one in describe(worst, worst.linear, columns, keys))


def about_signatures(findings: Findings, signatures: Sequence[int]) -> tuple[Exposed, ...]:
    """What is seen of the rows with some signatures of the membership, each by itself."""
    if findings.linear is None or (findings.membership.persons is not None and findings.one_value):
        return ()
    found = findings.linear if findings.membership.persons is None else findings.rows_apart
    unit, k = found.linear.unit_of_record[list(signatures)], found.linear.columns_of_unit
    units = np.unique(unit[unit >= 0])
    return describe(findings, found, (units[:, None] * k + np.arange(k)).ravel(), None)


def about_person(findings: Findings, kind: int) -> tuple[Exposed, ...]:
    """What is seen of the rows together of a kind of person, given by its place in the membership's table."""
    found = findings.linear
    unit = -1 if found is None else int(found.linear.unit_of_record[kind])
    if found is None or unit < 0:
        return ()
    columns = unit * found.linear.columns_of_unit + np.arange(found.linear.columns_of_unit)
    if found.linear.rows_of_unit[unit] > 1:
        columns = columns[[np.argmin(found.lower[columns])]]
    elif not findings.one_value:  # the row by itself says it
        return ()
    return describe(findings, found, columns, None)


def distribution(findings: Findings) -> Distribution:
    """How many records keep how much, in the bins of ``EDGES``."""
    found = findings.linear
    if found is None:
        return Distribution(edges=EDGES, records=(0,) * (len(EDGES) - 1))
    lower, people = found.per_unit(found.lower).min(axis=1), found.people.astype(np.float64)
    records, _ = np.histogram(lower, bins=np.array(EDGES), weights=people)
    if found.others is not None:
        records = records + found.others.histogram
    return Distribution(edges=EDGES, records=tuple(int(number) for number in records))


def describe(
    findings: Findings, found: LinearFindings, columns: IndexArray, keys: Keys | None
) -> tuple[Exposed, ...]:
    """The entries of some columns; that of a person with one row is that of the row."""
    linear, k = found.linear, found.linear.columns_of_unit
    single = linear.rows_of_unit[columns // k] == 1
    if linear.by_kind and not findings.one_value and single.any():
        row = findings.row_units[linear.units.starts[columns[single] // k] // k]
        rows = iter(describe(findings, findings.rows_apart, row * k + columns[single] % k, keys))
        persons = iter(describe(findings, found, columns[~single], keys))
        return tuple(next(rows if one else persons) for one in single.tolist())
    writer = RecipeWriter(findings=findings, found=found)
    attacks = LinearAttacks.of(findings, found, columns) if columns.size else None
    folded: dict[int, Folded] = {}
    for column in columns.tolist() if attacks is not None else ():
        if attacks is not None and (attack := attacks.folded(column, writer)) is not None:
            folded[column] = attack
    others = [attack.others for attack in folded.values()]
    every = np.unique(np.concatenate([columns, *others])).astype(np.intp)
    named = keys_of(found, every, keys) if keys is not None else {}
    labels = signature_names(findings, found.linear.first_signatures(columns))
    return tuple(
        _entry(findings, found, column, writer, named, folded.get(column)).model_copy(update={"label": label})
        if alone
        else _of_person(found, column, writer, named, folded.get(column)).model_copy(
            update={
                "total": None if attacks is None else attacks.total(column),
                "named": named_features(findings, found, column) if place < _NAMED else (),
            }
        )
        for place, (column, label, alone) in enumerate(
            reported(
                list(zip(columns.tolist(), labels, single.tolist(), strict=True)),
                "describing what is exposed",
            )
        )
    )


def _entry(
    findings: Findings,
    found: LinearFindings,
    column: int,
    writer: RecipeWriter,
    named: dict[int, tuple[str, ...]],
    folded: Folded | None,
) -> Exposed:
    size = int(found.counts[column])
    recipe = writer.best(column)
    rmse = None if recipe is None else float(found.group_rmse(np.array([column]))[0])
    signatures, owners = found.linear.signatures_of(column), named.get(column, ())
    return Exposed(
        record=", ".join(owners) if owners else None,
        signature=findings.membership.signature_number(int(signatures[0])),
        size=size,
        category=found.linear.category(column),
        identifiable=recipe is not None,
        local=False,
        rmse=rmse,
        rmse_percent_of_range=None if rmse is None else 100 * rmse / (size * found.linear.prior.range),
        remaining_uncertainty=found.bracket(column),
        releases=() if recipe is None else tuple(dict.fromkeys(step.release for step in recipe.steps)),
        recipe=recipe,
        shortest=None if recipe is None else writer.shortest(column),
        attack=None if folded is None else folded.named(named),
    )


def _of_person(
    found: LinearFindings,
    column: int,
    writer: RecipeWriter,
    named: dict[int, tuple[str, ...]],
    folded: Folded | None,
) -> Exposed:
    """The entry of a person with several rows: their sharpest feature, in words, and its recipe."""
    linear, unit = found.linear, column // found.linear.columns_of_unit
    times = linear.units.times[linear.units.starts[unit] : linear.units.starts[unit + 1]]
    owners, weights = named.get(column, ()), writer.weights(column)
    name = recipe = rmse = share = None
    if weights is not None:
        feature = found.exposure.feature(unit, column % linear.columns_of_unit)
        feature = _least_weights(feature, linear.columns_of_unit)
        scale = 1 / float(feature[np.argmax(np.abs(feature))])  # a row that counts most counts 1, not -1
        name = feature_name(feature, times)
        recipe = writer.written(column, weights * scale, feature * scale)
        rmse = float(found.exposure.rmse[unit, 0]) * abs(scale)
        share = 100 * rmse / (abs(scale) * float(np.abs(feature) @ times) * linear.prior.range)
    return Exposed(
        record=", ".join(owners) if owners else None,
        signature=linear.membership.signature_number(int(linear.first_signatures(np.array([column]))[0])),
        size=int(found.people[unit]),
        category=None,
        identifiable=recipe is not None,
        local=False,
        rmse=rmse,
        rmse_percent_of_range=share,
        remaining_uncertainty=found.bracket(column),
        releases=() if recipe is None else tuple(dict.fromkeys(step.release for step in recipe.steps)),
        recipe=recipe,
        shortest=None,
        feature=name,
        rows=int(linear.rows_of_unit[unit]),
        attack=None if folded is None else folded.attack,
    )


def _least_weights(feature: FloatArray, categories: int) -> FloatArray:
    """A feature of indicators, less what all categories of a row have in common: it counts rows."""
    if categories == 1:
        return feature
    table = feature.reshape(-1, categories)
    return np.asarray(table - np.median(table, axis=1, keepdims=True)).ravel()


def feature_name(feature: FloatArray, times: IndexArray) -> Literal["row", "total", "combination"]:
    """What a feature of a person's rows is: one row, the total, or another combination of them.

    >>> feature_name(np.array([0.0, 2.0]), np.array([1, 1])), feature_name(np.ones(2), np.array([3, 1]))
    ('row', 'total')
    """
    size = np.abs(feature) / np.max(np.abs(feature))
    if np.count_nonzero(size > _NEGLIGIBLE) == 1 and times[int(np.argmax(size))] == 1:
        return "row"
    return "total" if np.ptp(feature) <= _NEGLIGIBLE * np.max(np.abs(feature)) else "combination"


def _owners(findings: Findings, rows: LinearFindings) -> IndexArray:
    """Of every column of the rows one by one, how many persons have such a row."""
    assert findings.linear is not None
    units, k, others = findings.linear.linear.units, rows.linear.columns_of_unit, findings.membership.others
    if others is not None and others.owners is not None:
        return np.repeat(rows.linear.of_records(others.owners.astype(np.float64)).astype(np.intp), k)
    persons = np.repeat(findings.linear.people, np.diff(units.starts) // k)
    return np.repeat(np.bincount(findings.row_units, persons, len(rows.people)).astype(np.intp), k)


def keys_of(found: LinearFindings, columns: IndexArray, keys: Keys) -> dict[int, tuple[str, ...]]:
    """The keys of the records of some columns."""
    if not columns.size:
        return {}
    records = {column: found.linear.records_of(column).tolist() for column in columns.tolist()}
    fetch = keys.of_kinds if found.linear.by_kind else keys.of_signatures
    members = fetch(sorted({one for own in records.values() for one in own}))
    return {
        column: tuple(sorted({key for one in own for key in members.get(one, ())}))
        for column, own in records.items()
    }
