r"""The laws and parameters of the noise that a plan states, number by number.

What is stated is a standard deviation, a multiple of the sensitivity, or a share of the budget. A share is for
all copies of a release and all its aggregates together (those with the label, if it has one): each of these
:math:`L` releases gets noise :math:`\sqrt{\kappa_L}\,\Delta`, as with a budget of its own.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan, Release
from sightline.auditing.release_noise import ReleaseNoise
from sightline.errors import InvalidPlan, require
from sightline.noise.pricing import price, price_rho
from sightline.noise.published import LEAST_DISCRETE_STDDEV, PublishedLaw, parameter_of_stddev
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.budget import Budget
from sightline.privacy.registry import ACCOUNTANTS, accountant_named
from sightline.tables.membership import Feature, Membership, Statistic
from sightline.tables.subject import SecretKind

_ANY_DELTA = 1e-6  # for a pure epsilon, whose rules do not use it

Laws = tuple[PublishedLaw, ...]
Bundles = tuple[tuple[int, ...], ...]


def stated_laws(plan: Plan, membership: Membership) -> Laws:
    """The law of the noise on each partition."""
    shared = PublishedLaw(ACCOUNTANTS[plan.privacy.accountant].law.value)
    found = []
    for part in membership.partitions:
        release = plan.releases[part.query]
        if release.noise:
            found.append(_noise_on(release, part.label).law)
        else:
            found.append(PublishedLaw.GAUSSIAN if release.noise_given else shared)
    return tuple(found)


def _noise_on(release: Release, label: str) -> ReleaseNoise:
    noise = next((one for one in release.noise if one.on(label)), None)
    if noise is None:
        raise InvalidPlan(
            f"release {release.name[:60]!r}: expected noise for every aggregate, got none for {label[:60]!r}; "
            "add a section with this label"
        )
    return noise


def check_laws(plan: Plan, membership: Membership, laws: Laws, bundles: Bundles) -> None:
    """Refuse laws that the audit has no bound for where they are stated."""
    for release, labels in zip(plan.releases, _labels(plan, membership), strict=True):
        unknown = next((one.label for one in release.noise if one.label and one.label not in labels), None)
        require(
            unknown is None or not labels,
            f"release {release.name[:60]!r}: noise with the label of one of its aggregates",
            got=repr((unknown or "")[:60]),
            fix=f"there are: {', '.join(sorted(labels))[:200]}",
            error=InvalidPlan,
        )
    for bundle in bundles:
        require(
            len({laws[p] for p in bundle}) == 1,
            "one law of noise for all categories of a histogram",
            got=f"several in {membership.partitions[bundle[0]].name[:60]!r}",
            error=InvalidPlan,
        )
    used = {laws[p] for bundle in bundles for p in bundle}
    require(
        plan.correlation is None or used <= {PublishedLaw.GAUSSIAN},
        "[correlation] with Gaussian noise on every number",
        got="noise of another law",
        error=InvalidPlan,
    )
    one_row = plan.data.max_rows_per_record == 1
    require(
        PublishedLaw.NONE not in used or one_row or plan.data.values == "constant",
        "law = 'none' with one row a record, or values = 'constant'",
        got=f"max_rows_per_record = {plan.data.max_rows_per_record}",
        fix="no bound is proved for several rows behind an exact number; give it noise",
        error=InvalidPlan,
    )
    for bundle in bundles:
        for p in bundle:
            if laws[p].on_lattice:
                _check_lattice(plan, membership, p, laws[p], one_row=one_row)


def _labels(plan: Plan, membership: Membership) -> list[set[str]]:
    """The labels of each release's aggregates."""
    found: list[set[str]] = [set() for _ in plan.releases]
    for part in membership.partitions:
        found[part.query].add(part.label)
    return found


def _check_lattice(plan: Plan, membership: Membership, p: int, law: PublishedLaw, *, one_row: bool) -> None:
    """Noise of whole numbers must be on counts: what it is added to must be whole for every secret."""
    part = membership.partitions[p]
    counts = part.statistic is Statistic.SUM and part.feature in (Feature.VALUE, Feature.INDICATOR)
    require(
        counts and plan.data.secret_kind is not SecretKind.NUMBER,
        f"{law.value} noise on counts of a yes or no or of a category",
        got=f"{part.name[:60]!r}",
        fix="what whole numbers are added to must be whole: else the digits behind the point are published "
        "exactly; for numbers and means state gaussian or laplace noise that was added without a lattice",
        error=InvalidPlan,
    )
    require(
        one_row,
        f"{law.value} noise with one row a record",
        got=f"max_rows_per_record = {plan.data.max_rows_per_record}",
        fix="its bound is for one row; aggregate the rows first",
        error=InvalidPlan,
    )


def stated_parameters(
    plan: Plan, membership: Membership, laws: Laws, bundles: Bundles, sensitivity: FloatArray
) -> FloatArray:
    """The parameter of the noise that the plan states for each cell; 0 where it is exact, or shares a budget."""
    found, starts = np.zeros(len(membership.cells)), membership.starts
    by_cell = [_by_cell(release) for release in plan.releases]
    for p, part in enumerate(membership.partitions):
        release, law = plan.releases[part.query], laws[p]
        own = slice(int(starts[p]), int(starts[p + 1]))
        noise = _noise_on(release, part.label) if release.noise else None
        if release.noise_stddev is not None:
            found[own] = release.noise_stddev
        elif release.noise_by_cell or (noise is not None and noise.cells):
            keys = [cell.key for cell in membership.cells[own]]
            stddevs = [_popped(release, by_cell[part.query], part.label, key) for key in keys]
            found[own] = parameter_of_stddev(law, np.array(stddevs, dtype=np.float64))
        elif noise is not None and law is not PublishedLaw.NONE:
            count = sum(
                release.times
                for bundle in bundles
                if membership.partitions[bundle[0]].query == part.query
                and any(noise.on(membership.partitions[q].label) for q in bundle)
            )
            found[own] = _parameters(plan, noise, sensitivity[own], count)
    for release, left in zip(plan.releases, by_cell, strict=True):
        require(
            not left,
            f"release {release.name!r}: {_field(release)} for numbers that it publishes",
            got=f"the group {', '.join(next(iter(left), ('', ()))[1])!r}, which it does not",
            fix="check the spelling of its key and label",
            error=InvalidPlan,
        )
    _check_discrete(plan, membership, laws, found)
    return found


def _parameters(plan: Plan, noise: ReleaseNoise, sensitivity: FloatArray, count: int) -> FloatArray:
    """From one number: a standard deviation, a multiple of the sensitivity, or a share of the budget."""
    if noise.stddev is not None:
        return parameter_of_stddev(noise.law, np.full(sensitivity.size, noise.stddev))
    if noise.noise_multiplier is not None:
        return noise.noise_multiplier * sensitivity
    if noise.rho is not None:
        return price_rho(noise.rho, sensitivity, releases=max(1, count))
    assert noise.epsilon is not None  # the plan was checked for one of these; files have been read
    budget = Budget(epsilon=noise.epsilon, delta=plan.privacy.delta or _ANY_DELTA)
    name = plan.privacy.accountant
    if noise.law.pure:
        name = "laplace"
    elif noise.law.on_lattice or ACCOUNTANTS[name].law is not NoiseLaw.GAUSSIAN:
        name = "zcdp"  # proved for discrete Gaussian noise, too
    return price(accountant_named(name, budget), sensitivity, releases=max(1, count)).scales


def _by_cell(release: Release) -> dict[tuple[str, tuple[str, ...]], float]:
    """The standard deviation of each number that has one of its own, by label and key."""
    listed = [(cell.label, cell.key, cell.stddev) for cell in release.noise_by_cell]
    for noise in release.noise:
        listed += [(cell.label or noise.label, cell.key, cell.stddev) for cell in noise.cells]
    found = {(label, key): stddev for label, key, stddev in listed}
    require(
        len(found) == len(listed),
        f"release {release.name!r}: each published number once in {_field(release)}",
        got="one twice",
        error=InvalidPlan,
    )
    return found


def _popped(
    release: Release, left: dict[tuple[str, tuple[str, ...]], float], label: str, key: tuple[str, ...]
) -> float:
    found = left.pop((label, key), None)
    if found is None:
        raise InvalidPlan(
            f"expected release {release.name!r}: {_field(release)} for every published number, "
            f"got none for the group {', '.join(key)!r}" + (f" of {label}" * bool(label))
        )
    return found


def _field(release: Release) -> str:
    return "noise_by_cell" if release.noise_by_cell else "noise cells"


def _check_discrete(plan: Plan, membership: Membership, laws: Laws, parameters: FloatArray) -> None:
    """Refuse discrete Gaussian noise that is too small for its bound."""
    for p, law in enumerate(laws):
        own = parameters[membership.starts[p] : membership.starts[p + 1]]
        discrete = law is PublishedLaw.DISCRETE_GAUSSIAN
        release = plan.releases[membership.partitions[p].query]
        require(
            not discrete or bool(np.all(own >= LEAST_DISCRETE_STDDEV)),
            f"release {release.name!r}: discrete-gaussian noise of at least {LEAST_DISCRETE_STDDEV:g}",
            got=f"{float(np.min(own, initial=LEAST_DISCRETE_STDDEV)):.4g}",
            fix="with less noise on whole numbers the bounds for Gaussian noise do not hold",
            error=InvalidPlan,
        )
