r"""The noise that a plan states, number by number: laws, parameters, and the strategies of mechanisms.

What is stated is a standard deviation, a multiple of the sensitivity, or a share of the budget. A share is
for all copies of a release and all its aggregates together (those with the label, if it has one): each of
these :math:`L` releases gets noise :math:`\sqrt{\kappa_L}\,\Delta`, as with a budget of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np

from sightline.arrays import EXACT, FloatArray, IndexArray
from sightline.auditing.plan import Plan, Release
from sightline.auditing.release_noise import ReleaseNoise, Running, names_of, noise_on, popped
from sightline.errors import InvalidPlan, require_plan
from sightline.noise.count_rules import CountRule
from sightline.noise.pricing import price
from sightline.noise.strategies import Strategy
from sightline.privacy.accountant import Budget
from sightline.privacy.law import Law
from sightline.privacy.registry import ACCOUNTANTS, accountant_named
from sightline.tables.membership import YES_OR_NO, Feature, Membership, Statistic
from sightline.tables.published import Steps, published, without_queries

Laws = tuple[Law, ...]
_KEPT_BY_A_RULE = ("ORDER BY", "LIMIT", "CAST AS", "ROUND", "COALESCE")  # of a whole number from 0 on
Bundles = tuple[tuple[int, ...], ...]

# How a plan names a number of a release.
_HOW_NAMED = (
    "write the values of its group in the order of GROUP BY, and the label of its aggregate if only one of "
    'several is meant: "north", or ["north", "2024"], or ["north", "mean pay"]'
)


def stated_laws(plan: Plan, membership: Membership) -> Laws:
    """The law of the noise on each partition."""
    return tuple(noise.law for noise in _noises(plan, membership))


def _names(membership: Membership, p: int) -> tuple[str, ...]:
    """What the aggregate of a partition may be called."""
    starts = membership.starts
    grouped = any(cell.key for cell in membership.cells[int(starts[p]) : int(starts[p + 1])])
    part = membership.partitions[p]
    return names_of(part.called or part.label, grouped=grouped)


def _noises(plan: Plan, membership: Membership) -> list[ReleaseNoise]:
    """The stated noise on each partition; of no size where the release shares the budget."""
    of_partitions, stated = [], [release.noises for release in plan.releases]
    shared = ReleaseNoise.model_construct(law=Law(ACCOUNTANTS[plan.privacy.accountant].law.value))
    for p, part in enumerate(membership.partitions):
        release, own = plan.releases[part.query], stated[part.query]
        noise = noise_on(own, _names(membership, p))
        require_plan(
            bool(noise) or not own,
            f"release {release.name[:60]!r}: noise for every aggregate",
            got=f"none for {_names(membership, p)[-1][:60]!r}",
            fix="add a section with this label" if part.label else "name it so, or leave the label out",
        )
        of_partitions += noise or [shared]
    return of_partitions


def count_rules(plan: Plan, membership: Membership) -> tuple[CountRule, ...]:
    """How the counts of each partition are published."""
    return tuple(
        replace(noise.count_rule, below=plan.releases[part.query].suppress_below)
        for noise, part in zip(_noises(plan, membership), membership.partitions, strict=True)
    )


def counts_people(plan: Plan, membership: Membership) -> bool:
    """Whether a count of rows is one of people, each of whom answers for themselves in every number.

    Nobody has two rows in one number, and rows of a person in several of them, such as those of two years,
    have nothing in common that would tell one by the other.
    """
    if membership.contributions <= 1:
        return True
    numbers = range(len(membership.partitions))
    return plan.data.values == "independent" and all(
        membership.most_rows_of_a_record(p, 1) <= 1 for p in numbers
    )


def _check_count_rules(plan: Plan, membership: Membership) -> None:
    """Refuse rules for counts where something else is published, or where no program decides."""
    number, people = plan.data.secret_kind.measured, counts_people(plan, membership)
    for p, rule in enumerate(count_rules(plan, membership)):
        part = membership.partitions[p]
        release = plan.releases[part.query]
        if rule.exact and not release.numbers:
            continue
        counts = part.feature in (YES_OR_NO if number else (Feature.VALUE, Feature.INDICATOR))
        counts &= not part.weighted and part.computed.factor == 1 and not part.computed.per_row
        where = f"release {release.name[:60]!r}:"
        require_plan(
            counts and part.statistic is Statistic.SUM,
            f"{where} rounding, blanks, within and cell-key on counts of people",
            got=f"{part.name[:60]!r}",
            fix="publish COUNT(*) FILTER (WHERE …), or count the groups of the secret",
        )
        require_plan(
            all(step.startswith(_KEPT_BY_A_RULE) for step in part.computed.steps),
            f"{where} rounding, blanks, within and cell-key on the count itself",
            got=f"{part.name[:60]!r}, with which is computed: {', '.join(part.computed.steps)[:80]}",
            fix="0 + 2 is rounded otherwise than 0: publish the count, and compute with what is published",
        )
        require_plan(
            people,
            f"{where} counts of records with one row each, or one in each number and values = 'independent'",
            got=f"up to {membership.contributions:,} rows a record",
            fix="make one row of each record in [data] sql; if nothing stays from number to number, write "
            "values = 'independent' in [data], which of a ledger is in its head",
        )
        require_plan(
            not membership.known_rows,
            f"{where} an attacker who knows nobody's secret, beside rounding, blanks, within and cell-key",
            got="[attacker] knows",
            fix="leave it out: what such counts tell of people who are known is not subtracted yet",
        )
        require_plan(
            not rule.by_chance or release.times == 1,
            f"{where} one copy of counts that chance rounds",
            got=f"times = {release.times}",
            fix="several draws of one count tell it: draw once and publish the same numbers",
        )


def check_laws(plan: Plan, membership: Membership, laws: Laws, bundles: Bundles) -> None:
    """Refuse laws that the audit has no bound for where they are stated."""
    used_noise = {id(noise) for noise in _noises(plan, membership)}
    read = {part.query for part in membership.partitions}
    for query, release in enumerate(plan.releases):
        own = [part for part in membership.partitions if part.query == query]
        public = {label for part in own for label in part.beside}  # their noise hides no secret
        withheld = {name[-1] for name in release.withhold}
        idle = [noise.label for noise in release.noise if query in read and id(noise) not in used_noise]
        idle = [label for label in idle if label not in public | withheld]
        labels = sorted({part.called or part.label for part in own} | public)
        require_plan(
            not idle,
            f"release {release.name[:60]!r}: noise with the label of one of its aggregates",
            got=repr((idle or [""])[0][:60]),
            fix=f"there are: {', '.join(labels)[:200]}",
        )
    _check_count_rules(plan, membership)
    for bundle in bundles:
        require_plan(
            len({laws[p] for p in bundle}) == 1,
            "one law of noise for all categories of a histogram",
            got=f"several in {membership.partitions[bundle[0]].name[:60]!r}",
        )
    used = {laws[p] for bundle in bundles for p in bundle}
    require_plan(
        not any(release.factored for release in plan.releases) or all(law is Law.GAUSSIAN for law in used),
        "a mechanism with Gaussian noise on every number of the plan",
        got="noise of another law",
    )
    for bundle in bundles:
        for p in bundle:
            if laws[p].on_lattice:
                _check_lattice(plan, membership, p, laws[p])


def _check_lattice(plan: Plan, membership: Membership, p: int, law: Law) -> None:
    """What whole numbers are added to must be whole for every secret: counts, and sums of whole numbers."""
    part, data, occurring = membership.partitions[p], plan.data, membership.occurring
    number = data.secret_kind.measured
    weights = membership.weights_in(p)[membership.signatures[:, p] >= 0]
    plain = part.statistic is Statistic.SUM and bool(np.all(weights == np.rint(weights)))
    # Noise on a multiple has another lattice than noise on the sum, which is what is audited.
    plain &= part.computed.factor == 1 and not part.computed.per_row
    sums = number and part.feature is Feature.VALUE
    counts = part.feature in (YES_OR_NO if number else (Feature.VALUE, Feature.INDICATOR))
    require_plan(
        plain and (counts or sums),
        f"{law.value} noise on counts and on sums of whole numbers",
        got=f"{part.name[:60]!r}",
        fix="what whole numbers are added to must be whole: else the digits behind the point are published "
        "exactly; for means and other numbers state gaussian or laplace noise that was added without a "
        "lattice; write a multiple as SUM(2 * x)",
    )
    low, high = map(float, data.domain)
    require_plan(
        not sums or (low.is_integer() and high.is_integer() and high - low <= EXACT),
        f"whole bounds with {law.value} noise on {part.name[:60]!r}",
        got=f"[{low:g}, {high:g}]",
    )
    require_plan(
        not sums or occurring.whole,
        f"a secret of whole numbers with {law.value} noise on {part.name[:60]!r}",
        got="other numbers in the table",
        fix="state gaussian or laplace noise, if that was added; whole numbers on other sums publish their "
        "digits behind the point",
    )
    require_plan(
        not sums or (plan.attacker.prior in ("uniform", "two-point") and plan.attacker.values_within is None),
        f"prior = 'uniform' or 'two-point', and no values_within, with {law.value} noise on sums",
        got="another attacker",
        fix="no bound is proved for others who know that the values are whole",
    )


def sums_are_whole(plan: Plan, membership: Membership) -> bool:
    """Whether discrete noise is on sums of a number, which is then whole."""
    if not plan.data.secret_kind.measured or not any(release.noise for release in plan.releases):
        return False
    laws = zip(stated_laws(plan, membership), membership.partitions, strict=True)
    return any(law.on_lattice and part.feature is Feature.VALUE for law, part in laws)


def stated_parameters(
    plan: Plan, membership: Membership, laws: Laws, bundles: Bundles, sensitivity: FloatArray
) -> FloatArray:
    """The parameter of the stated noise on each cell; 0 where it is exact, or shares the budget."""
    parameters, starts = np.zeros(len(membership.cells)), membership.starts
    noises, factors = _noises(plan, membership), membership.published_factors
    left = {id(noise): dict(noise.by_cell) for noise in noises}
    for p, part in enumerate(membership.partitions):
        release, law, noise = plan.releases[part.query], laws[p], noises[p]
        own = slice(int(starts[p]), int(starts[p + 1]))
        if not noise.sized:
            continue
        # A deviation is that of the number which is published: it is only a factor.
        factor = factors[own]
        if noise.by_cell:
            names = _names(membership, p)
            stddevs = [_stddev(release, left[id(noise)], cell.key, names) for cell in membership.cells[own]]
            parameters[own] = law.facts.parameter_of_stddev(np.array(stddevs, dtype=np.float64) / factor)
            continue
        if noise.stddev:
            parameters[own] = law.facts.parameter_of_stddev(np.asarray(noise.stddev / factor))
            continue
        count = sum(release.times for bundle in bundles if any(noises[q] is noise for q in bundle))
        parameters[own] = _parameters(plan, noise, sensitivity[own], count)
    for noise, part in zip(noises, membership.partitions, strict=True):
        idle = next(iter(left[id(noise)]), ())
        require_plan(
            not left[id(noise)],
            f"release {plan.releases[part.query].name!r}: noise by_cell for numbers that it publishes",
            got=f"the number {', '.join(idle)!r}, which it does not",
            fix=_HOW_NAMED,
        )
    _check_least(plan, membership, laws, parameters)
    return parameters


def _parameters(plan: Plan, noise: ReleaseNoise, sensitivity: FloatArray, count: int) -> FloatArray:
    """From one number: a multiple of the sensitivity, or a share of the budget."""
    if noise.noise_multiplier:
        return noise.noise_multiplier * sensitivity
    budget = Budget(epsilon=noise.epsilon, delta=plan.privacy.cost_delta)
    name = plan.privacy.accountant
    if noise.law.pure:
        name = "laplace"
    elif noise.law.on_lattice or ACCOUNTANTS[name].law is not Law.GAUSSIAN:
        name = "zcdp"  # proved for discrete Gaussian noise, too
    return price(accountant_named(name, budget), sensitivity, releases=max(1, count)).scales


def _stddev(
    release: Release, left: dict[tuple[str, ...], float], key: tuple[str, ...], labels: tuple[str, ...]
) -> float:
    stddev = popped(left, key, labels)
    require_plan(
        bool(stddev),
        f"release {release.name!r}: noise by_cell for every published number",
        got=f"none for the group {', '.join(key)!r}" + (f" of {labels[0]}" * bool(labels[0])),
    )
    return stddev[0]


def _check_least(plan: Plan, membership: Membership, laws: Laws, parameters: FloatArray) -> None:
    """Refuse noise that is too small for the bounds of its law."""
    for p, law in enumerate(laws):
        own, least = parameters[membership.starts[p] : membership.starts[p + 1]], law.facts.least_parameter
        release = plan.releases[membership.partitions[p].query]
        require_plan(
            bool(np.all(own >= least)),
            f"release {release.name!r}: {law.value} noise of at least {least:g}",
            got=f"{float(np.min(own, initial=np.inf)):.4g}",
            fix="with less noise on whole numbers the bounds for Gaussian noise do not hold",
        )


def strategies_of(plan: Plan, membership: Membership) -> dict[int, Strategy]:
    """The strategy of the noise of each partition whose numbers share it."""
    strategies = {}
    for p, noise in enumerate(_noises(plan, membership)):
        part, numbers = membership.partitions[p], int(membership.starts[p + 1] - membership.starts[p])
        if not noise.mechanism or not numbers:
            continue
        release = plan.releases[part.query]
        where = f"release {release.name[:60]!r}: a mechanism"
        mean = part.statistic is Statistic.MEAN
        require_plan(
            part.feature in (Feature.VALUE, Feature.INDICATOR) and not mean,
            f"{where} for sums and counts that are linear in the secret",
            got="a mean" if mean else "a power of it, or a count above a level",
            fix="publish the sum; how many rows there are is public" if mean else "",
        )
        steps = release.running.steps if release.running else numbers
        try:
            strategies[p] = noise.mechanism.strategy(steps, running=bool(release.running))
        except InvalidPlan as error:
            raise InvalidPlan(f"release {release.name[:60]!r}: {error}") from None
        _check_separation(release, membership, p)
    return strategies


def _check_separation(release: Release, membership: Membership, p: int) -> None:
    """Refuse records with rows that are closer together than the plan says."""
    least = release.running.min_separation
    if not least:
        return
    inside, steps = membership.rows_in_cells(p), release.running.steps
    order = np.lexsort((inside.cell % steps, inside.record))
    record, step = inside.record[order], inside.cell[order] % steps
    close = (np.diff(record) == 0) & (np.diff(step) < least)
    require_plan(
        not close.any() and int(inside.rows.max(initial=1)) == 1,
        f"release {release.name[:60]!r}: rows of a record at least {least} steps apart",
        got="closer ones",
        fix="set min_separation to what holds, or leave it out",
    )


def steps_of(plan: Plan, membership: Membership) -> dict[int, Steps]:
    """The steps of every partition of which running sums are published."""
    steps = {}
    for p, part in enumerate(membership.partitions):
        release = plan.releases[part.query]
        if not release.running or membership.starts[p] == membership.starts[p + 1]:
            continue
        running, names = release.running, [_plain(name) for name in part.key_names]
        where = f"release {release.name[:60]!r}: running over"
        require_plan(
            names.count(_plain(running.over)) == 1,
            f"{where} one of the columns of GROUP BY",
            got=repr(running.over[:60]),
            fix=f"there are: {', '.join(part.key_names)[:200] or 'none'}",
        )
        steps[p] = Steps(
            column=names.index(_plain(running.over)),
            count=running.steps,
            place=partial(_place, running, where),
            text=running.text,
        )
    return steps


def _plain(name: str) -> str:
    """A column, or an expression, without the quotes of its columns."""
    return name.replace('"', "").casefold()


def _place(running: Running, where: str, text: str) -> int:
    """The place of a step; no value of the table is in the message."""
    try:
        place = running.place_of_text(text)
    except ValueError:
        kind = "whole numbers" if isinstance(running.first, int) else "days"
        raise InvalidPlan(
            f"expected {where} a column of {kind}, which have an order without gaps, got another value in "
            f"{running.over[:60]!r}; number the steps in the sql of [data]"
        ) from None
    require_plan(
        0 <= place < running.steps,
        f"{where} steps from {running.text(0)} to {running.text(running.steps - 1)}",
        got=f"rows outside of them in {running.over[:60]!r}",
        fix="publish them in another release, or leave them out by WHERE",
    )
    return place


def as_published(plan: Plan, membership: Membership) -> Membership:
    """The membership of the numbers that the plan really publishes, without those that it withholds.

    Which numbers are withheld is part of the plan, which the attacker knows: it says nothing about the
    secrets, because it was chosen from who is in which group and from the noise.
    """
    withheld: list[int] = []
    for query, release in enumerate(plan.releases):
        if not release.withhold:
            continue
        where = f"release {release.name!r}: withhold"
        for name in release.withhold:
            withheld += cells_named(membership, query, name, where)
        require_plan(
            not _cells_of(membership, query) <= set(withheld),
            f"release {release.name!r}: a number that is published",
            got="withhold for all of them",
            fix="leave out the release",
        )
    twice = [cell for cell, times in Counter(withheld).items() if times > 1]
    require_plan(
        not twice,
        "each number at most once in withhold",
        got="one twice" if not twice else f"the group {', '.join(membership.cells[twice[0]].key)!r} twice",
    )
    return published(membership, withheld=withheld) if withheld else membership


def without_numbers(plan: Plan, membership: Membership, gone: IndexArray) -> tuple[Plan, Membership]:
    """The plan that withholds some cells, and its membership; releases without another number are dropped."""
    if not gone.size:
        return plan, membership
    marks: dict[int, list[tuple[tuple[str, ...], str]]] = {}
    for c in gone.tolist():
        part = membership.partitions[membership.cells[c].partition]
        marks.setdefault(part.query, []).append((membership.cells[c].key, part.label))
    kept = published(membership, withheld=gone.tolist())
    before = {part.query for part in membership.partitions}
    dropped = before - {part.query for part in kept.partitions}
    releases = []
    for query, release in enumerate(plan.releases):
        if query not in dropped:
            releases.append(release.without(marks[query]) if query in marks else release)
    changed = plan.model_copy(update={"releases": tuple(releases)})
    return changed, without_queries(kept, dropped)


def _cells_of(membership: Membership, query: int) -> set[int]:
    """All cells of a release."""
    parts = membership.partitions
    return {c for c, cell in enumerate(membership.cells) if parts[cell.partition].query == query}


def cells_named(membership: Membership, query: int, name: tuple[str, ...], where: str) -> list[int]:
    """The cells of a release that a name means; a mistake is refused with ``where`` in front.

    A name is the values of a group, for all aggregates of the release, or these and the label of one.
    """
    groups, labeled = [], []
    for c in sorted(_cells_of(membership, query)):
        cell = membership.cells[c]
        part = membership.partitions[cell.partition]
        if cell.key == name:
            groups.append(c)
        elif cell.key == name[:-1] and name[-1] in names_of(
            part.called or part.label, grouped=bool(cell.key)
        ):
            labeled.append(c)
    cells = groups or labeled
    parts = [membership.cells[c].partition for c in cells]
    require_plan(
        not (groups and labeled) and len(set(parts)) == len(parts),
        f"{where} for groups that their keys tell apart",
        got=f"two that read {', '.join(name)!r}",
    )
    require_plan(
        bool(cells),
        f"{where} for numbers that its query has",
        got=repr(", ".join(name)[:60]),
        fix=_HOW_NAMED,
    )
    return cells
