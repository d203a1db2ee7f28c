"""Rehearse a plan: publish it once with simulated noise, mount the attacks, and repeat them many times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import MOST_SQUARE, FloatArray, IndexArray
from sightline.auditing.exposed import feature_name
from sightline.auditing.findings import Findings, LinearFindings, find
from sightline.auditing.lowering import LINEAR
from sightline.auditing.plan import Plan
from sightline.auditing.plans_by_secret import plans_by_secret
from sightline.auditing.reading import PlanLike, public_source, read_plan
from sightline.auditing.result_parts import SMALL_GROUP
from sightline.auditing.session import Session, opened
from sightline.bounds.chance_of_error import one_budget
from sightline.errors import InvalidPlan, TooMuchWork, require, require_plan
from sightline.numerics.intervals import any_law_factor, gaussian_factor, unimodal_factor
from sightline.progress import Progress, report, reporting
from sightline.rehearsing.attacks import (
    AttackWeights,
    RowTarget,
    best_linear,
    best_unbiased,
    errors_of,
    errors_with_fresh_noise,
    sharpest_targets,
)
from sightline.rehearsing.publication import (
    Secrets,
    Truth,
    published_means,
    rehearsed,
    secrets_by_column,
    seen_rows,
)
from sightline.rehearsing.result import CONFIDENCE, AttackKind, Coverage, Guess, Rehearsal
from sightline.tables.records import secrets_of

_MOST_DRAWS = 200_000_000  # values drawn from the prior, over all repetitions
_MOST_REPETITIONS = 1_000_000


@one_budget()
def rehearse(
    plan: PlanLike,
    *,
    seed: int = 0,
    repetitions: int = 2000,
    top: int = 10,
    progress: Progress | None = None,
) -> Rehearsal:
    """Publish a plan once with simulated noise, attack it, and compare the guesses with the truth.

    The ``top`` most exposed are attacked by the best unbiased attack, where there is one, and by the best
    linear attack. Then everything is repeated ``repetitions`` times, to measure how often the intervals hold
    the truth. Equal seeds give equal rehearsals. The result holds true values: it is for the owner of the
    table only.
    """
    require(seed >= 0, "seed >= 0", got=seed)
    require(
        20 <= repetitions <= _MOST_REPETITIONS, f"20 to {_MOST_REPETITIONS:,} repetitions", got=repetitions
    )
    require(top >= 1, "top >= 1", got=top)
    checked, base = read_plan(plan)
    require_plan(
        not checked.data.only_guarantee,
        "a frame of everybody who might be there, to rehearse attacks on presence",
        got="none",
        fix="everybody in the table is there, and there is nobody to be taken for them",
    )
    parts = plans_by_secret(checked)
    with reporting(progress):
        made = [_rehearsed(part, base, seed, repetitions, top) for part in parts]
    return replace(made[0], other_secrets=tuple(made[1:]))


def _rehearsed(checked: Plan, base: Path, seed: int, repetitions: int, top: int) -> Rehearsal:
    """The rehearsal of the releases about one secret."""
    report("opening the table", 0.0)
    with opened(checked, base) as session:
        findings = find(session.plan, session.membership()).row_by_row
        _check(findings)
        report("asking for the true values", 0.0)
        truth = Truth.of(session, findings)
        # Streams of their own: the publication of a seed does not depend on the number of repetitions.
        published, repeated = (np.random.default_rng([seed, stream]) for stream in range(2))
        attacked = _Attacked(
            session=session,
            findings=findings,
            truth=truth,
            numbers=published_means(findings, truth.answers, published),
            repetitions=repetitions,
            generator=repeated,
        )
        guesses, notes = attacked.everything(top)
        data, pricing = session.plan.data, findings.pricing
    return Rehearsal(
        source=public_source(str(data.source)),
        record=data.record,
        secret=data.secret,
        kind=data.secret_kind.value,
        bounds=data.domain,
        prior=findings.prior.fact,
        seed=seed,
        numbers=int(pricing.times[pricing.owner].sum()),
        guesses=tuple(guesses),
        notes=tuple(notes),
    )


def _named(keys: list[str], size: int) -> str:
    """The keys of a sum's records, or of the first few.

    >>> _named(["H1", "H2"], 2), _named(["H1", "H2", "H3", "H4", "H5"], 7)
    ('H1, H2', 'H1, H2, H3, H4, H5 and 2 more')
    """
    shown = keys[:SMALL_GROUP]
    more = size - len(shown)
    return ", ".join(dict.fromkeys(shown)) + (f" and {more:,} more" if more else "")


def _repeated(errors: FloatArray, held: NDArray[np.bool_]) -> dict[str, Any]:
    """What a guess's repetitions showed: their errors, and whether their intervals held the truth."""
    squares = errors**2
    return {
        "repetitions": errors.size,
        "covered": int(np.count_nonzero(held)),
        "mse": float(squares.mean()),
        "mse_error": float(squares.std(ddof=1)) / math.sqrt(errors.size),
    }


def _check(findings: Findings) -> None:
    """Refuse what cannot be rehearsed."""

    def refuse(wrong: bool, wanted: str, *, got: str, fix: str) -> None:
        require(not wrong, wanted, got=got, fix=fix, error=InvalidPlan)

    membership, pricing = findings.membership, findings.pricing
    others_out = "leave these releases out to rehearse the others"
    cells = len(membership.cells)
    refuse(cells == 0, "a published number that depends on the secret", got="none", fix="publish one")
    others = [part.name for part in membership.partitions if part.feature not in LINEAR]
    refuse(
        bool(others),
        "numbers that are linear in the secret",
        got=f"a moment, a count above a level, a band or a clipped sum in {', '.join(others[:3])!r}",
        fix=others_out,
    )
    refuse(
        findings.plan.attacker.values_within is not None,
        "an attacker who knows the bounds of the values",
        got="values_within",
        fix="what they know of each value is not in the plan: rehearse without it",
    )
    used = {pricing.laws[p] for bundle in pricing.bundles for p in bundle}
    laws = sorted(law.value for law in used if law.facts.draws is None)
    refuse(
        bool(laws),
        "Gaussian or Laplace noise on every number",
        got=f"the law {', '.join(laws)!r}",
        fix=others_out,
    )
    refuse(
        membership.by_person and findings.one_value,
        "records with one row, or rows with values of their own",
        got='values = "constant"',
        fix="rehearse a table with one row a record",
    )
    found = rehearsed(findings)
    refuse(
        not found,
        "a secret that the attacker does not know",
        got="none",
        fix="leave out some of [attacker] knows",
    )
    rows = found.linear.row_count
    if rows > MOST_SQUARE:
        raise TooMuchWork(
            f"expected at most {MOST_SQUARE:,} published numbers to rehearse, "
            f"got {rows:,}; rehearse some of the releases"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Attacked:
    """A publication under attack."""

    session: Session
    findings: Findings
    truth: Truth
    numbers: FloatArray  # the mean of each published number's copies
    repetitions: int
    generator: np.random.Generator

    def everything(self, top: int) -> tuple[list[Guess], list[str]]:
        """All guesses, and what the reader must know of them."""
        guesses: list[Guess] = []
        notes = self._remarks()
        rows = rehearsed(self.findings)
        columns = rows.most_exposed(np.arange(rows.lower.size), top)
        secrets = secrets_by_column(self.session, rows.linear, columns)
        report("repeating the best unbiased attack", 0.0)
        guesses += self._unbiased(rows, columns[rows.visible[columns]], secrets)
        report("repeating the best linear attack", 0.0)
        repetitions = max(20, min(self.repetitions, _MOST_DRAWS // int(rows.people.sum())))
        if repetitions < self.repetitions:
            notes.append(f"The best linear attack is repeated {repetitions:,} times: the table is large.")
        guesses += self._linear(rows, columns, secrets, repetitions)
        guesses += self._persons(rows, top, repetitions)
        return guesses, notes

    def _remarks(self) -> list[str]:
        membership, notes = self.findings.membership, []
        if membership.contributions > 1:
            notes.append(
                "Records have several rows: guesses are at single rows, and at the combination of a record's "
                "rows of which least remains, scaled so that no row counts more than once."
                if self.findings.prior.kind.summed
                else "Records have several rows: each guess is at one row, and none at several together."
            )
        if membership.clipped:
            notes.append("Values outside the bounds or categories are rehearsed as the audit reads them.")
        if membership.published_but_dropped:
            notes.append("Rows that the audit leaves out are not part of the simulated numbers.")
        return notes

    def _unbiased(
        self, found: LinearFindings, columns: IndexArray, secrets: dict[int, Secrets]
    ) -> Iterator[Guess]:
        """The recipes: the true values stay, the noise is drawn anew."""
        if not columns.size:
            return
        gaussian = self.findings.pricing.gaussian
        attack = best_unbiased(found, columns)
        errors = errors_with_fresh_noise(found.linear, attack, self.repetitions, self.generator)
        guesses = self._stated(
            attack,
            errors,
            kind=AttackKind.UNBIASED,
            coverage=Coverage.EXACT if gaussian else Coverage.AT_LEAST,
            factor=(gaussian_factor if gaussian else unimodal_factor)(CONFIDENCE),
        )
        for column, stated in zip(columns.tolist(), guesses, strict=True):
            size, about = int(found.counts[column]), self._about(found, column)
            yield Guess(
                record=_named([key for key, _ in secrets[column]], size),
                what=about if size == 1 else f"sum of {size:,} × {about}",
                alike=size,
                truth=float(self.truth.unknown[column]),
                bracket=None,
                **stated,
            )

    def _linear(
        self, found: LinearFindings, columns: IndexArray, secrets: dict[int, Secrets], repetitions: int
    ) -> Iterator[Guess]:
        """The best linear attacks: values and noise are drawn anew."""
        linear = found.linear
        targets = [RowTarget.of_column(found, column) for column in columns.tolist()]
        variance = linear.prior.of_column.variance
        guesses = self._over_the_prior(found, targets, repetitions, AttackKind.LINEAR)
        for column, stated in zip(columns.tolist(), guesses, strict=True):
            key, secret = secrets[column][0]
            category = linear.category(column)
            ends = found.exposure.lower.ravel()[column], found.exposure.upper.ravel()[column]
            yield Guess(
                record=key,
                what=self._about(found, column),
                alike=int(found.counts[column]),
                truth=float(secret if category is None else secret == category),
                bracket=(variance * float(ends[0]), variance * float(ends[1])),
                **stated,
            )

    def _persons(self, found: LinearFindings, top: int, repetitions: int) -> Iterator[Guess]:
        """The best linear attacks on the rows of a person together, as the audit judges them."""
        whole = self.findings.linear
        if not whole.linear.by_kind or whole.linear.columns_of_unit > 1:
            return
        several = np.flatnonzero(whole.linear.rows_of_unit > 1)
        chosen = whole.most_exposed(several, top).tolist() if several.size else []
        owns = [slice(*whole.linear.units.starts[unit : unit + 2].tolist()) for unit in chosen]
        rows = [(self.findings.row_units[own], whole.linear.units.times[own]) for own in owns]
        combinations = [
            (unit, target, *named)
            for unit, target in zip(chosen, sharpest_targets(found, rows), strict=True)
            for named in self._combination_of(whole, unit, found, target)
        ]
        if not combinations:
            return
        targets = [target for _, target, _, _ in combinations]
        guesses = self._over_the_prior(found, targets, repetitions, AttackKind.TOGETHER)
        for (unit, target, record, truth), stated in zip(combinations, guesses, strict=True):
            name, in_all = feature_name(target.weights, target.times), int(target.times.sum())
            variance = whole.linear.design.prior.scale * float(target.times @ target.weights**2)
            ends = whole.exposure.lower[unit, 0], whole.exposure.upper[unit, 0]
            secret = self.findings.plan.data.secret
            yield Guess(
                record=record,
                what=f"{name if name != 'row' else 'one'} of {in_all:,} rows of {secret}",
                alike=int(whole.people[unit]),
                truth=truth,
                bracket=(variance * float(ends[0]), variance * float(ends[1])),
                **stated,
            )

    def _over_the_prior(
        self, found: LinearFindings, targets: Sequence[RowTarget], repetitions: int, kind: AttackKind
    ) -> list[dict[str, Any]]:
        """What the best linear attacks on some targets guess, and what their repetitions showed."""
        prior = found.linear.prior
        unimodal = prior.kind.measured and prior.number.has_density
        attack = best_linear(found, targets)
        return self._stated(
            attack,
            errors_of(found, attack, targets, repetitions, self.generator),
            kind=kind,
            coverage=Coverage.AT_LEAST,
            factor=(unimodal_factor if unimodal else any_law_factor)(CONFIDENCE),
        )

    def _about(self, found: LinearFindings, column: int) -> str:
        category = found.linear.category(column)
        return self.findings.plan.data.secret if category is None else f"is {category}"

    def _combination_of(
        self, whole: LinearFindings, unit: int, found: LinearFindings, target: RowTarget
    ) -> Iterator[tuple[str, float]]:
        """One person of a unit, and the true combination of their rows; none if they cannot be told apart."""
        kinds = whole.linear.records_of(unit * whole.linear.columns_of_unit)[:1].tolist()
        keys = self.session.keys(self.findings.membership).of_kinds(kinds)
        people = sorted(key for own in keys.values() for key in own)
        signatures = [found.linear.signatures_of(int(one)).tolist() for one in target.units]
        if not people or found.counts[target.units].max() > MOST_SQUARE:
            return
        secrets = secrets_of(
            self.session.engine,
            self.session.counted,
            signature_ids=sorted({one for own in signatures for one in own}),
        )
        values = [
            [float(value) for one in own for key, value in secrets[one] if key == people[0]]
            for own in signatures
        ]
        if [len(own) for own in values] == target.times.tolist():
            yield people[0], float(target.weights @ [sum(own) for own in values])

    def _stated(
        self,
        attack: AttackWeights,
        errors: FloatArray,
        *,
        kind: AttackKind,
        coverage: Coverage,
        factor: float,
    ) -> list[dict[str, Any]]:
        """What linear attacks guess, whose mean squared errors are known, and what repetitions showed."""
        linear = rehearsed(self.findings).linear
        guesses = attack.guesses(seen_rows(linear, self.truth, self.numbers))
        return [
            {
                "attack": kind,
                "coverage": coverage,
                "guess": float(guess),
                "standard_error": math.sqrt(mse),
                "interval": (float(guess) - factor * math.sqrt(mse), float(guess) + factor * math.sqrt(mse)),
                "stated_mse": float(mse),
                **_repeated(own, np.abs(own) <= factor * math.sqrt(mse)),
            }
            for guess, mse, own in zip(guesses, attack.mse, errors.T, strict=True)
        ]
