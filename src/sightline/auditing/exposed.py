"""The section on who is exposed: the most exposed records and groups, and how many keep how much.

Names for signatures made of their public attributes: "feeder west, tariff flat" instead of a number.

The attributes are those of the groups that the rows are in, the rarest few of them. Columns that are as good
as a person's key are left out. Signatures that differ only in releases without groups are told apart by
these. The attributes of a few persons together may tell who they are, though each is public: a publishable
result has no names for small signatures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from scipy import sparse

from sightline.arrays import NOTICEABLE, ROUNDING, FloatArray, IndexArray
from sightline.auditing.findings import NO_KEYS, Findings, Keys, LinearFindings
from sightline.auditing.left_by_sums import SumsOfNumbers
from sightline.auditing.lowering import cell_name
from sightline.auditing.recipes import Folded, LinearAttacks, RecipeWriter
from sightline.auditing.result import EDGES, Distribution, Exposed
from sightline.auditing.result_parts import (
    FEW,
    FIRST,
    MOST_LISTED,
    NAMED,
    SMALL_GROUP,
    NamedFeature,
    Recipe,
    Uncertainty,
)
from sightline.bounds.feature_brackets import PersonRows
from sightline.bounds.guesses import right_at_most
from sightline.format import count
from sightline.progress import reported
from sightline.values import frozen


@frozen
class ExposedSection:
    """The list of the most exposed, and the numbers that belong to it."""

    exposed: tuple[Exposed, ...]
    exposed_in_all: int  # the length of the whole list
    identifiable_records: int


def exposed_section(findings: Findings, *, top: int, keys: Keys = NO_KEYS) -> ExposedSection:
    """The ``top`` most exposed; ``keys`` fetches their names."""
    if findings.plan.data.only_guarantee:
        return ExposedSection(exposed=(), exposed_in_all=0, identifiable_records=0)
    exposed = _about_question(findings.worst, top, keys)
    found, in_all = findings.linear, len(exposed)
    columns = found.most_exposed(np.flatnonzero(found.listed), max(0, top - len(exposed)))
    exposed += describe(findings, found, columns, keys)
    in_all += int(np.count_nonzero(found.listed)) + found.others.signatures_below
    if findings.belief.by_row and found.linear.rows_of_unit.max(initial=1) > 1:
        rows = findings.rows_apart
        groups = np.flatnonzero(rows.visible & (rows.counts <= SMALL_GROUP) & (_owners(findings, rows) > 1))
        some = rows.most_exposed(groups, max(0, top - len(exposed)))
        exposed += describe(findings, rows, some, keys)
        in_all += groups.size
    for local in findings.nonlinear:
        exposed += local.worst(top - len(exposed))
        in_all += local.report().identifiable
    return ExposedSection(
        exposed=exposed, exposed_in_all=in_all, identifiable_records=found.identifiable_records
    )


def _about_question(worst: Findings, top: int, keys: Keys) -> tuple[Exposed, ...]:
    """The record that the headline is about, if that is about a yes-or-no question; else none."""
    if not worst.asked:
        return ()
    columns = worst.linear.most_exposed(np.flatnonzero(worst.linear.listed), min(1, top))
    return tuple(
        one.model_copy(update={"about": worst.asked}) for one in describe(worst, worst.linear, columns, keys)
    )


def about_signatures(findings: Findings, signatures: Sequence[int]) -> tuple[Exposed, ...]:
    """What is seen of the rows with some signatures of the membership, each by itself."""
    if not findings.linear or (findings.membership.by_person and not findings.belief.by_row):
        return ()
    found = findings.rows_apart if findings.membership.by_person else findings.linear
    unit, k = found.linear.unit_of_record[list(signatures)], found.linear.columns_of_unit
    units = np.unique(unit[unit >= 0])
    return describe(findings, found, (units[:, None] * k + np.arange(k)).ravel())


def about_person(findings: Findings, kind: int) -> tuple[Exposed, ...]:
    """What is seen of the rows together of a kind of person, given by its place in the membership's table."""
    found = findings.linear
    unit = int(found.linear.unit_of_record[kind])
    if unit < 0:
        return ()
    columns = unit * found.linear.columns_of_unit + np.arange(found.linear.columns_of_unit)
    if found.linear.rows_of_unit[unit] > 1:
        columns = columns[[np.argmin(found.lower[columns])]]
    elif findings.belief.by_row:  # the row by itself says it
        return ()
    return describe(findings, found, columns)


def distribution(findings: Findings) -> Distribution:
    """How many records keep how much, in the bins of ``EDGES``."""
    found = findings.linear
    lower, people = found.per_unit(found.lower).min(axis=1), found.people.astype(np.float64)
    records, _ = np.histogram(lower, bins=np.array(EDGES), weights=people)
    return Distribution(edges=EDGES, records=tuple((records + found.others.histogram).astype(int).tolist()))


def describe(
    findings: Findings, found: LinearFindings, columns: IndexArray, keys: Keys = NO_KEYS
) -> tuple[Exposed, ...]:
    """The entries of some columns; that of a person with one row is that of the row."""
    if not columns.size:
        return ()
    linear, k = found.linear, found.linear.columns_of_unit
    single = linear.rows_of_unit[columns // k] == 1
    if linear.by_kind and findings.belief.by_row and single.any():
        row = findings.row_units[linear.units.starts[columns[single] // k] // k]
        rows = iter(describe(findings, findings.rows_apart, row * k + columns[single] % k, keys))
        persons = iter(describe(findings, found, columns[~single], keys))
        entries = [next(rows if one else persons) for one in single.tolist()]
        return _with_guesses(findings, found, columns, entries)
    writer = RecipeWriter(findings=findings, found=found)
    folded = dict[int, tuple[Folded, ...]]()
    if found.attacks_claimed:
        attacks = LinearAttacks.of(findings, found, columns)
        folded = {column: attacks.folded(column, writer) for column in columns.tolist()}
    others = [attack.others for own in folded.values() for attack in own]
    every = np.unique(np.concatenate([columns, *others])).astype(np.intp)
    named = keys_of(found, every, keys)
    labels = signature_names(findings, found.linear.first_signatures(columns))
    entries = list[Exposed]()
    sums: SumsOfNumbers | None = None
    for place, (column, label, alone) in enumerate(
        reported(
            list(zip(columns.tolist(), labels, single.tolist(), strict=True)),
            "describing what is exposed",
        )
    ):
        entry = _entry(findings, found, column, writer, named, folded.get(column, ()))
        update: dict[str, Any] = {
            "label": label if alone and found.scale_of_total(column) == 1 else "",
            "total": found.total(column),
        }
        if place < FIRST:
            if update["total"] is not None:
                span = span_of_rows(findings, found, column)
                update["total"] = update["total"].model_copy(update={"span": span})
            if not alone:
                update["named"] = named_features(findings, found, column)
            if found.attacks_claimed and _has_many_steps(entry):
                sums = sums or SumsOfNumbers.of(findings, found)
                update["left_by_sums"] = sums.about(column)
        entries.append(entry.model_copy(update=update))
    return _with_guesses(findings, found, columns, entries)


def _with_guesses(
    findings: Findings, found: LinearFindings, columns: IndexArray, entries: Iterable[Exposed]
) -> tuple[Exposed, ...]:
    """The entries with how often a guess at the value is right: of one of few values, whichever it is.

    Where the design has all records and all releases, the noise and a walk may bound it more sharply.
    """
    if findings.prior.kind.measured:
        return tuple(entries)
    chances, units = findings.prior.chances, columns // found.linear.columns_of_unit
    right = right_at_most(chances, found.per_unit(found.lower)[units])
    if found is findings.linear and not (findings.has_nonlinear or findings.streamed):
        right = np.minimum(right, found.guesses.right[units])
    before = float(chances.max())
    return tuple(
        one.model_copy(update={"right_before": before, "right_after": max(before, after)})
        for one, after in zip(entries, right.tolist(), strict=True)
    )


def _has_many_steps(entry: Exposed) -> bool:
    """Whether nothing that a line can name carries nearly all of the attack."""
    recipe = entry.shortest or entry.recipe
    if recipe is not None and len(recipe.steps) <= NAMED:
        return False
    return entry.attack is None or not 0 < entry.attack.few_numbers <= FEW


def _entry(
    findings: Findings,
    found: LinearFindings,
    column: int,
    writer: RecipeWriter,
    named: dict[int, tuple[str, ...]],
    folded: tuple[Folded, ...],
) -> Exposed:
    """The entry of a column; of a person with several rows that of their sharpest feature, in words."""
    linear, (unit, category) = found.linear, divmod(column, found.linear.columns_of_unit)
    owners, rows = named.get(column, ()), int(linear.rows_of_unit[unit])
    size, recipe = int(found.counts[column]), None
    name: Literal["row", "total", "combination"] | None = None
    rmse, width = float(found.exposure.rmse.ravel()[column]), size * linear.prior.range
    shortest = None
    if rows == 1:
        rows = found.scale_of_total(column)  # of rows that share a level, what is shown is their total
        first, recipe = int(linear.signatures_of(column)[0]), writer.best(column, rows)
        shortest = writer.shortest(column, rows) if recipe else None
        rmse, width, name = rmse * rows, width * rows, "total" if rows > 1 and recipe else None
    else:
        rows = linear.rows_in_total(column)
        first = int(linear.first_signatures(np.array([column]))[0])
        times = linear.units.times[linear.units.starts[unit] : linear.units.starts[unit + 1]]
        if found.visible[column]:
            feature = _least_weights(found.exposure.feature(unit, category), linear.columns_of_unit)
            scale, name = 1 / _largest_weight(feature), feature_name(feature, times)
            recipe = writer.written(column, writer.weights(column) * scale, feature * scale)
            if findings.belief.block and name == "total":  # of levels, not of rows
                name = "combination"
            rmse = float(found.exposure.rmse[unit, 0]) * abs(scale)
            width = float(np.abs(feature * scale) @ times) * linear.prior.range
    seen: dict[str, Any] = {"identifiable": False, "rmse": None, "rmse_percent_of_range": None}
    if recipe:
        seen = {
            "identifiable": True,
            "rmse": rmse,
            "rmse_percent_of_range": 100 * rmse / width,
            "releases": tuple(dict.fromkeys(step.release for step in recipe.steps)),
            "shortest": shortest,
        }
    return Exposed(
        record=", ".join(owners) or None,
        signature=findings.membership.signature_number(first),
        size=size,
        category=linear.category(column) if linear.rows_of_unit[unit] == 1 else None,
        remaining_uncertainty=found.bracket(column),
        lower_by=found.lower_by(column),
        upper_by=found.upper_by(column),
        recipe=recipe,
        feature=name,
        rows=rows,
        attack=next((one.named(named) for one in folded), None),
        knows_changes=bool(recipe) and _knows_changes(findings, found, column, writer),
        **seen,
    )


def _knows_changes(findings: Findings, found: LinearFindings, column: int, writer: RecipeWriter) -> bool:
    """Whether the recipe for levels that are shown counts rows of others against each other.

    Then it needs an attacker who knows how these differ: how everyone else changed in between.
    """
    rows = findings.row_by_row.linear.linear
    if findings.belief.by_row or rows.lowering.constant or findings.streamed:
        return False
    weights = np.zeros(found.linear.row_count)
    weights[list(writer.shortest_rows(column))] = (1.0, -1.0)[: len(writer.shortest_rows(column))]
    shares = np.abs(np.asarray(rows.table.T @ (weights if weights.any() else writer.weights(column))))
    unit = int(rows.unit_of_record[found.linear.records_of(column)[0]])
    own = shares[rows.units.starts[unit] : rows.units.starts[unit + 1]].max(initial=0.0)
    shares[rows.units.starts[unit] : rows.units.starts[unit + 1]] = 0.0
    return bool(shares.max(initial=0.0) > ROUNDING * own)


def _least_weights(feature: FloatArray, categories: int) -> FloatArray:
    """A feature of indicators, less what all categories of a row have in common: it counts rows."""
    if categories == 1:
        return feature
    table = feature.reshape(-1, categories)
    return np.asarray(table - np.median(table, axis=1, keepdims=True)).ravel()


def _largest_weight(feature: FloatArray) -> float:
    """The weight of a feature that is farthest from 0, with its sign.

    An eigenvector has either sign, as the machine's LAPACK has it: a recipe in units of this weight has one.
    Of weights that differ by rounding the first counts.
    """
    size = np.abs(feature)
    return float(feature[np.argmax(size > (1 - NOTICEABLE) * size.max())])


def feature_name(feature: FloatArray, times: IndexArray) -> Literal["row", "total", "combination"]:
    """What a feature of a person's rows is: one row, the total, or another combination of them.

    >>> feature_name(np.array([0.0, 2.0]), np.array([1, 1])), feature_name(np.ones(2), np.array([3, 1]))
    ('row', 'total')
    """
    size = np.abs(feature) / np.max(np.abs(feature))
    if np.count_nonzero(size > ROUNDING) == 1 and times[int(np.argmax(size))] == 1:
        return "row"
    return "total" if np.ptp(feature) <= ROUNDING * np.max(np.abs(feature)) else "combination"


def _owners(findings: Findings, rows: LinearFindings) -> IndexArray:
    """Of every column of the rows one by one, how many persons have such a row."""
    units, k = findings.linear.linear.units, rows.linear.columns_of_unit
    owners = findings.membership.others.owners
    if owners.size:
        return np.repeat(rows.linear.of_records(owners.astype(np.float64)).astype(np.intp), k)
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


# What is seen of a record's rows by the names that people have for them: a period, the whole, one row. The
# sharpest feature of a record with many rows is some combination of them; people ask about a month, the year,
# an hour.


def named_features(findings: Findings, found: LinearFindings, column: int) -> tuple[NamedFeature, ...]:
    """The features of a record with several rows that have names, the one of which least is left first.

    None where the secret is a category: its features are counts of each; nor where rows share levels.
    """
    linear = found.linear
    if not findings.belief.by_row or linear.columns_of_unit > 1 or linear.rows_of_unit[column] == 1:
        return ()
    rows = PersonRows.of(found.exposure, column)

    def left(lower: float, upper: float) -> Uncertainty:
        """Other releases than linear ones may leave less: then the lower end of all features counts."""
        least = float(found.lower[column]) if findings.has_nonlinear else float(lower)
        return Uncertainty(lower=min(least, float(upper)), upper=float(upper))

    # The row of which least is left, all rows, and of every number that the record is in its own part.
    one = sparse.eye_array(rows.times.size, format="csr")[:, rows.one_by_one]
    lower, upper = rows.brackets(one, one)
    best = int(np.argmin(upper))
    of_row = left(lower[best], upper[best])
    named = [NamedFeature(kind="row", name="one row", rows=1, remaining_uncertainty=of_row)]
    every, number = rows.times[:, None], int(rows.times.sum())
    (lower,), (upper,) = rows.brackets(every, every)
    of_all = left(lower, upper)
    named += [NamedFeature(kind="total", name="all their rows", rows=number, remaining_uncertainty=of_all)]
    lower, upper = rows.brackets(every * rows.table, every * rows.table**2)
    writer, membership = RecipeWriter(findings=findings, found=found), findings.membership
    order = np.lexsort((rows.published, upper))
    for place in order[rows.published[order] >= 0][:MOST_LISTED].tolist():
        cell = int(found.linear.cells[rows.published[place]])
        withheld = findings.key_columns[membership.cells[cell].partition]
        name, public = cell_name(membership, cell), cell_name(membership, cell, withheld=withheld)
        named.append(
            NamedFeature(
                kind="period",
                name=name,
                publishable_name=public if public != name else None,
                rows=int(rows.times[rows.table[:, place] != 0].sum()),
                remaining_uncertainty=left(lower[place], upper[place]),
                recipe=_alone(writer, rows, column, place),
            )
        )
    return tuple(sorted(named, key=lambda one: one.remaining_uncertainty.upper))


def _alone(writer: RecipeWriter, rows: PersonRows, column: int, place: int) -> Recipe | None:
    """A number that is this record's part of itself, or its difference from one that the record is not in.

    The difference of two rows is about one record alone iff its own part makes up all of the rows' products,
    which are whole numbers where weights are.
    """
    found, i = writer.found, int(rows.published[place])
    own: FloatArray = rows.table[:, place]
    if found.people[column] > 1:
        return None
    apart = writer.products_of_differences(i)
    units = found.linear.units
    numbers = units.rows[units.starts[column] : units.starts[column + 1]]  # a table of all takes gigabytes
    apart[numbers[numbers < units.numbers]] = np.inf
    others = np.flatnonzero(apart == float(rows.times @ own**2))
    if not others.size:
        return None
    variance = np.append(found.linear.design.noise.variance, 0.0)
    weights = np.zeros(found.linear.row_count + 1)
    weights[[i, int(others[np.argmin(variance[others])])]] = 1.0, -1.0
    return writer.written(column, weights[:-1], own)


_SORTED_AS_TEXT = re.compile(r"\d{4}-\d\d(-\d\d)?|([^\d]*)\d+")  # dates, and names with a number


def span_of_rows(findings: Findings, found: LinearFindings, column: int) -> tuple[str, str, str] | None:
    """The public column that splits a record's rows most, with its first and last value among them.

    None where there is no column of numbers or dates: of names nobody knows which is first.
    """
    values: dict[str, set[str]] = {}
    cells, parts = findings.membership.cells, findings.membership.partitions
    for cell in found.linear.cells[np.flatnonzero(found.linear.image(column))].tolist():
        key, part = cells[cell].key, parts[cells[cell].partition]
        for name, value in zip(part.key_names, key, strict=False):
            values.setdefault(name, set()).add(value)
    for name in sorted(values, key=lambda one: (-len(values[one]), one)):
        order = _in_order(values[name])
        if len(order) > 1:
            return name, order[0], order[-1]
    return None


def _in_order(values: set[str]) -> list[str]:
    """Numbers by size, dates and names with as many digits by their texts; else nothing.

    >>> _in_order({"10", "9"}), _in_order({"h02", "h01"}), _in_order({"May", "June"})
    (['9', '10'], ['h01', 'h02'], [])
    """
    try:
        return sorted(values, key=float)
    except ValueError:
        matches = [_SORTED_AS_TEXT.fullmatch(value) for value in values]
        shapes = {(len(value), value.rstrip("0123456789")) for value in values}
        dates = all(one and one.group(2) is None for one in matches)
        alike = len({len(value) for value in values}) == 1
        return sorted(values) if alike and all(matches) and (dates or len(shapes) == 1) else []


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
    most_rows: dict[tuple[str, str], int] = {}  # and the most rows that have it together with others
    for p, part in enumerate(membership.partitions):
        place = int(membership.signatures[signature, p])
        if place < 0:
            continue
        cell = membership.cells[int(membership.starts[p]) + place]
        key = cell.key
        names: Sequence[str] = part.key_names if len(part.key_names) == len(key) else ("",) * len(key)
        for position, (column, value) in enumerate(zip(names, key, strict=True)):
            if position not in findings.key_columns[p]:
                most_rows[column, value] = max(cell.rows, most_rows.get((column, value), 0))
    rarest = sorted(most_rows, key=lambda one: most_rows[one])[:NAMED]
    return ", ".join(f"{column} {value}".strip() for column, value in most_rows if (column, value) in rarest)


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
    more = len(names) - FEW
    listed = ", ".join(names[:FEW]) + (f" and {count(more, 'other')}" if more > 0 else "")
    return f"{word} {listed}"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
