"""The section on who is exposed: the most exposed records and groups, and how many keep how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.arrays import IndexArray
from sightline.auditing.exposed_persons import person_entry
from sightline.auditing.findings import Findings, Keys, LinearFindings
from sightline.auditing.linear_attacks import Folded, LinearAttacks, Target
from sightline.auditing.persons import PersonFindings
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result import EDGES, Distribution, Exposed
from sightline.auditing.result_parts import SMALL_GROUP
from sightline.auditing.signature_names import signature_names
from sightline.labeled.incidence.protocol import BoolArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExposedSection:
    """The list of the most exposed, and the numbers that belong to it."""

    exposed: tuple[Exposed, ...]
    columns: IndexArray  # of the linear design, for those of the list that are seen through it
    exposed_in_all: int  # the length of the whole list
    identifiable_records: int


def exposed_section(findings: Findings, *, top: int, keys: Keys | None) -> ExposedSection:
    """The ``top`` most exposed; ``keys`` fetches their names."""
    exposed: tuple[Exposed, ...] = ()
    columns = np.zeros(0, dtype=np.intp)
    in_all = identifiable = 0
    if (found := findings.linear) is not None:
        identifiable = found.identifiable_records
        columns = found.most_exposed(np.flatnonzero(found.listed), top)
        if (people := found.persons) is None:
            exposed = describe(findings, found, columns, keys)
            in_all = int(np.count_nonzero(found.listed))
            in_all += 0 if found.others is None else found.others.signatures_below
        else:
            kinds = np.flatnonzero(people.below | people.seen.identifiable)
            exposed = describe_persons(findings, found, people, people.most_exposed(kinds, top), keys)
            groups = np.flatnonzero(
                found.visible & (found.counts <= SMALL_GROUP) & ~_of_one_person(found, people)
            )
            if top > len(exposed):
                some = found.most_exposed(groups, top - len(exposed))
                exposed += describe(findings, found, some, keys)
            in_all = kinds.size + groups.size
    if findings.nonlinear is not None:
        exposed += findings.nonlinear.worst(top - len(exposed))
        in_all += findings.nonlinear.report().identifiable
    return ExposedSection(
        exposed=exposed, columns=columns, exposed_in_all=in_all, identifiable_records=identifiable
    )


def about_signatures(findings: Findings, signatures: Sequence[int]) -> tuple[Exposed, ...]:
    """What is seen of the rows with some signatures of the membership."""
    found = findings.linear
    if found is None:
        return ()
    linear = found.linear
    wanted = np.isin(linear.column_signature, linear.signature_of[list(signatures)])
    return describe(findings, found, np.flatnonzero(wanted & ~linear.known), None)


def about_person(findings: Findings, place: int) -> tuple[Exposed, ...]:
    """What is seen of the rows together of a kind of person, given by its place in the membership's table."""
    found = findings.linear
    if found is None or found.persons is None:
        return ()
    kind = found.persons.kind_at(place)
    if kind is None or found.persons.seen.kinds.rows_of_person[kind] == found.linear.main.blocks:
        return ()
    return describe_persons(findings, found, found.persons, np.array([kind]), None)


def distribution(findings: Findings) -> Distribution:
    """How many records keep how much, in the bins of ``EDGES``."""
    found = findings.linear
    if found is None:
        return Distribution(edges=EDGES, records=(0,) * (len(EDGES) - 1))
    lower = found.per_record(found.lower).min(axis=0)
    counts = found.per_record(found.counts)[0]
    if found.persons is not None:
        lower, counts = found.persons.lower, found.persons.number
    unknown = counts > 0
    weights = counts[unknown].astype(np.float64)
    records, _ = np.histogram(lower[unknown], bins=np.array(EDGES), weights=weights)
    if found.others is not None:
        records = records + found.others.histogram
    return Distribution(edges=EDGES, records=tuple(int(number) for number in records))


def describe(
    findings: Findings, found: LinearFindings, columns: IndexArray, keys: Keys | None
) -> tuple[Exposed, ...]:
    """The entries of some columns."""
    writer = RecipeWriter(findings=findings, found=found)
    attacks = LinearAttacks.of(findings, found, columns) if columns.size else None
    folded: dict[int, Folded] = {}
    for column in columns.tolist() if attacks is not None else ():
        one = Target(columns=np.array([column]), rows=np.ones(1))
        if attacks is not None and (attack := attacks.folded(one, writer)) is not None:
            folded[column] = attack
    others = [attack.others for attack in folded.values()]
    every = np.unique(np.concatenate([columns, *others])).astype(np.intp)
    named = _keys_of(found, every, keys) if keys is not None else {}
    labels = signature_names(findings, found.linear.first_signatures(columns))
    return tuple(
        _entry(findings, found, int(column), writer, named, folded.get(int(column))).model_copy(
            update={"label": label}
        )
        for column, label in zip(columns, labels, strict=True)
    )


def describe_persons(
    findings: Findings, found: LinearFindings, people: PersonFindings, kinds: IndexArray, keys: Keys | None
) -> tuple[Exposed, ...]:
    """The entries of some kinds of persons; that of a person with one row is that of the row."""
    writer = RecipeWriter(findings=findings, found=found)
    several = people.seen.kinds.rows_of_person[kinds] > found.linear.main.blocks
    named = keys.of_kinds(people.place[kinds[several]].tolist()) if keys is not None else {}
    columns = np.array([_worst_column(found, people, int(kind)) for kind in kinds], dtype=np.intp)
    rows = describe(findings, found, columns[~several], keys)
    single = iter(rows)
    targets = {int(kind): _total_of(people, int(kind)) for kind in kinds[several]}
    attacks = None
    if targets and found.linear.main.blocks == 1:
        every = np.unique(np.concatenate([target.columns for target in targets.values()]))
        attacks = LinearAttacks.of(findings, found, every)

    def entry(kind: int) -> Exposed:
        folded = None if attacks is None else attacks.folded(targets[kind], writer)
        found_entry = person_entry(found, people, kind, writer, named)
        attack = None if folded is None else folded.attack
        return found_entry.model_copy(update={"attack": attack})

    return tuple(
        entry(int(kind)) if many else next(single) for kind, many in zip(kinds, several, strict=True)
    )


def _total_of(people: PersonFindings, kind: int) -> Target:
    """The total of all unknown rows of a person."""
    entries = people.seen.kinds.entries(kind)
    rows = people.seen.kinds.rows[entries].astype(np.float64)
    return Target(columns=people.seen.kinds.columns[entries], rows=rows, name="total")


def _worst_column(found: LinearFindings, people: PersonFindings, kind: int) -> int:
    """Of the first row's columns, one for each category, the one of which the least remains."""
    first = int(people.seen.kinds.columns[people.seen.kinds.entries(kind)][0])
    width = found.linear.main.width
    columns = first % width + width * np.arange(found.linear.blocks)
    return int(columns[np.argmin(found.lower[columns])])


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


def _of_one_person(found: LinearFindings, people: PersonFindings) -> BoolArray:
    """Columns all of whose rows belong to one person: the person's own entry says what is seen of them."""
    kinds, width = people.seen.kinds, found.linear.main.width
    first = kinds.columns < width  # one category says it for all
    persons = kinds.persons[kinds.kind_of][first].astype(np.float64)
    owners = np.bincount(kinds.columns[first], persons, width)
    return np.asarray(np.tile(owners == 1, found.linear.blocks))


def _keys_of(found: LinearFindings, columns: IndexArray, keys: Keys) -> dict[int, tuple[str, ...]]:
    """The keys of the records of some columns."""
    if not columns.size:
        return {}
    people = found.linear.people
    if people is not None:
        kinds = people.kind[found.linear.column_signature[columns]].tolist()
        persons = keys.of_kinds(sorted(set(kinds)))
        return {column: persons[kind] for column, kind in zip(columns.tolist(), kinds, strict=True)}
    signatures = {column: found.linear.signatures_of(column).tolist() for column in columns.tolist()}
    members = keys.of_signatures(sorted({one for own in signatures.values() for one in own}))
    return {
        column: tuple(sorted({key for one in own for key in members.get(one, ())}))
        for column, own in signatures.items()
    }
