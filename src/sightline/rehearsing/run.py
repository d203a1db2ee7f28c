"""Rehearse a plan: publish it once, real or simulated, mount the attacks, and repeat them many times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings, find
from sightline.auditing.reading import PlanLike, public_source, read_plan
from sightline.auditing.session import Session, opened
from sightline.errors import InvalidPlan, TooMuchWork, require
from sightline.noise.published import PublishedLaw
from sightline.progress import Progress, silent
from sightline.rehearsing.attack_weights import (
    AttackWeights,
    best_linear,
    best_unbiased,
    prior_errors,
    sample_rows,
)
from sightline.rehearsing.likelihood import MOST_VALUES, SmallGroup, small_groups
from sightline.rehearsing.publication import Publication, read_publication, simulate_publication
from sightline.rehearsing.result import (
    CONFIDENCE,
    AttackKind,
    Coverage,
    Guess,
    Rehearsal,
    any_law_factor,
    gaussian_factor,
    unimodal_factor,
)
from sightline.rehearsing.truth import MOST_NAMED, Secrets, Truth, rehearsed, secrets_by_column, seen_rows
from sightline.tables.membership import Feature
from sightline.tables.records import secrets_of
from sightline.tables.subject import SecretKind

_MOST_ROWS = 4_000  # published numbers whose covariance is factorised
_MOST_DRAWS = 200_000_000  # values drawn from the prior, over all repetitions
_MOST_REPETITIONS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    """A rehearsal, and the publication that it attacked, to write to a file."""

    rehearsal: Rehearsal
    publication: Publication


def rehearse(
    plan: PlanLike,
    *,
    seed: int = 0,
    repetitions: int = 2000,
    top: int = 10,
    answers: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Rehearsal:
    """Publish a plan once with simulated noise, attack it, and compare the guesses with the truth.

    The ``top`` most exposed are attacked by the best unbiased attack, where there is one, and by the best
    linear attack; small groups under moments and thresholds by constrained maximum likelihood. Then
    everything is repeated ``repetitions`` times, to measure how often the intervals hold the truth. With
    ``answers``, a CSV file of what was really published, that is attacked in place of simulated numbers.
    Equal seeds give equal rehearsals. The result holds true values: it is for the owner of the table only.
    """
    return publish_and_rehearse(
        plan, seed=seed, repetitions=repetitions, top=top, answers=answers, progress=progress
    ).rehearsal


def publish_and_rehearse(
    plan: PlanLike,
    *,
    seed: int = 0,
    repetitions: int = 2000,
    top: int = 10,
    answers: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Publishing:
    """The same as :func:`rehearse`, with the numbers that were attacked."""
    require(seed >= 0, "seed >= 0", got=seed)
    require(
        20 <= repetitions <= _MOST_REPETITIONS, f"20 to {_MOST_REPETITIONS:,} repetitions", got=repetitions
    )
    require(top >= 1, "top >= 1", got=top)
    checked, base = read_plan(plan)
    watch = progress or silent
    watch("opening the table", 0.0)
    with opened(checked, base, progress=watch) as session:
        findings = find(session.plan, session.membership(watch))
        _check(findings)
        watch("asking for the true values", 0.0)
        truth = Truth.of(session, findings)
        # Streams of their own: the publication of a seed does not depend on the number of repetitions.
        published, repeated = (np.random.default_rng([seed, stream]) for stream in range(2))
        if answers is None:
            publication = simulate_publication(findings, truth.answers, published)
        else:
            publication = read_publication(Path(answers), findings)
        rehearsing = _Rehearsing(
            session=session,
            findings=findings,
            truth=truth,
            numbers=publication.means,
            repetitions=repetitions,
            generator=repeated,
            watch=watch,
        )
        guesses, notes = rehearsing.everything(top)
        data = session.plan.data
    return Publishing(
        publication=publication,
        rehearsal=Rehearsal(
            source=public_source(str(data.source)),
            record=data.record,
            secret=data.secret,
            kind=data.secret_kind.value,
            bounds=data.domain,
            prior=findings.prior.values,
            seed=seed,
            simulated=answers is None,
            numbers=publication.values.size,
            guesses=guesses,
            misfit=None if answers is None else publication.misfit(findings, truth.answers),
            notes=notes,
        ),
    )


def _named(keys: list[str], size: int) -> str:
    """The keys of a sum's records, or of the first few.

    >>> _named(["H1", "H2"], 2), _named(["H1", "H2", "H3", "H4", "H5"], 7)
    ('H1, H2', 'H1, H2, H3, H4, H5 and 2 more')
    """
    shown = keys[:MOST_NAMED]
    more = size - len(shown)
    return ", ".join(dict.fromkeys(shown)) + (f" and {more:,} more" if more else "")


def _check(findings: Findings) -> None:
    """Refuse what cannot be rehearsed."""
    require(
        len(findings.membership.cells) > 0,
        "a published number that depends on the secret",
        got="none",
        error=InvalidPlan,
    )
    other = [
        part.name
        for part in findings.membership.partitions
        if part.feature in (Feature.BAND, Feature.CLIPPED)
    ]
    require(
        not other,
        "numbers, moments, thresholds and categories",
        got=f"a band or a clipped sum in {', '.join(other[:3])!r}",
        fix="leave these releases out to rehearse the others",
        error=InvalidPlan,
    )
    require(
        findings.plan.attacker.values_within is None,
        "an attacker who knows the bounds of the values",
        got="values_within",
        fix="what they know of each value is not in the plan: rehearse without it",
        error=InvalidPlan,
    )
    pricing = findings.pricing
    used = {pricing.laws[p] for bundle in pricing.bundles for p in bundle}
    others = sorted(law.value for law in used - {PublishedLaw.GAUSSIAN, PublishedLaw.LAPLACE})
    require(
        not others,
        "Gaussian or Laplace noise on every number",
        got=f"the law {', '.join(others)!r}",
        fix="leave these releases out to rehearse the others",
        error=InvalidPlan,
    )
    found = findings.linear
    require(
        found is None or findings.membership.persons is None or not findings.one_value,
        "records with one row, or rows with values of their own",
        got='values = "constant"',
        fix="rehearse a table with one row a record",
        error=InvalidPlan,
    )
    if found is not None and found.linear.row_count > _MOST_ROWS:
        raise TooMuchWork(
            f"expected at most {_MOST_ROWS:,} published numbers to rehearse, "
            f"got {found.linear.row_count:,}; rehearse some of the releases"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rehearsing:
    """A publication under attack."""

    session: Session
    findings: Findings
    truth: Truth
    numbers: FloatArray  # the mean of each published number's copies
    repetitions: int
    generator: np.random.Generator
    watch: Progress

    def everything(self, top: int) -> tuple[tuple[Guess, ...], tuple[str, ...]]:
        """All guesses, and what the reader must know of them."""
        guesses: list[Guess] = []
        notes = self._remarks()
        found = rehearsed(self.findings)
        if found is not None:
            columns = found.most_exposed(np.arange(found.lower.size), top)
            secrets = secrets_by_column(self.session, found.linear, columns)
            self.watch("repeating the best unbiased attack", 0.0)
            guesses += self._unbiased(found, columns, secrets)
            self.watch("repeating the best linear attack", 0.0)
            linear, note = self._linear(found, columns, secrets)
            guesses, notes = guesses + linear, notes + note
        groups = small_groups(self.findings, self.truth)
        for group in groups:
            self.watch("repeating the constrained likelihood attack", 0.0)
            guesses += self._likelihood(group)
        if self.findings.has_nonlinear and not groups:
            notes.append(
                f"No group of up to {MOST_VALUES} records has its values determined by its own numbers: "
                "there is no constrained likelihood attack."
            )
        return tuple(guesses), tuple(notes)

    def _remarks(self) -> list[str]:
        membership, notes = self.findings.membership, []
        if membership.contributions > 1:
            notes.append("Records have several rows: each guess is at the value of one row.")
        if membership.clipped:
            notes.append("Values outside the bounds or categories are rehearsed as the audit reads them.")
        if membership.published_but_dropped:
            notes.append("Rows that the audit leaves out are not part of the simulated numbers.")
        return notes

    def _unbiased(
        self, found: LinearFindings, columns: IndexArray, secrets: dict[int, Secrets]
    ) -> Iterator[Guess]:
        linear = found.linear
        seen = columns[found.visible[columns]]
        if not seen.size:
            return
        attack = best_unbiased(found, seen)
        exact = np.asarray(linear.table @ self.truth.unknown)
        gaussian = self.findings.pricing.gaussian
        factor = (gaussian_factor if gaussian else unimodal_factor)(CONFIDENCE)
        errors = self._fixed_values_errors(found, attack, exact)
        for place, column in enumerate(seen.tolist()):
            size = int(found.counts[column])
            rows = secrets[column]
            yield self._guess(
                AttackKind.UNBIASED,
                record=_named([key for key, _ in rows], size),
                what=self._what(found, column, size),
                alike=size,
                truth=float(self.truth.unknown[column]),
                guess=float(attack.guesses(seen_rows(linear, self.truth, self.numbers))[place]),
                stated_mse=float(attack.mse[place]),
                factor=factor,
                errors=errors[:, place],
                coverage=Coverage.EXACT if gaussian else Coverage.AT_LEAST,
            )

    def _fixed_values_errors(
        self, found: LinearFindings, attack: AttackWeights, exact: FloatArray
    ) -> FloatArray:
        """Guess less truth with the true values and fresh noise, publication by publication."""
        linear, errors = found.linear, np.empty((self.repetitions, attack.columns.size))
        step = max(1, 4_000_000 // linear.row_count)
        for begin in range(0, self.repetitions, step):
            size = min(step, self.repetitions - begin)
            rows = exact + sample_rows(linear, size, self.generator)
            errors[begin : begin + size] = attack.guesses(rows) - self.truth.unknown[attack.columns]
        return errors

    def _linear(
        self, found: LinearFindings, columns: IndexArray, secrets: dict[int, Secrets]
    ) -> tuple[list[Guess], list[str]]:
        linear, notes = found.linear, []
        attack = best_linear(found, columns)
        people = int(found.people.sum())
        repetitions = max(20, min(self.repetitions, _MOST_DRAWS // people))
        if repetitions < self.repetitions:
            notes.append(f"The best linear attack is repeated {repetitions:,} times: the table is large.")
        errors = prior_errors(found, attack, repetitions, self.generator)
        unimodal = linear.prior.kind is SecretKind.NUMBER and linear.prior.number.has_density
        factor = (unimodal_factor if unimodal else any_law_factor)(CONFIDENCE)
        variance = linear.prior.of_column.variance
        guessed = attack.guesses(seen_rows(linear, self.truth, self.numbers))
        guesses = []
        for place, column in enumerate(columns.tolist()):
            key, secret = secrets[column][0]
            category = linear.category(column)
            guesses.append(
                self._guess(
                    AttackKind.LINEAR,
                    record=key,
                    what=self._what(found, column, 1),
                    alike=int(found.counts[column]),
                    truth=float(secret if category is None else secret == category),
                    guess=float(guessed[place]),
                    stated_mse=float(attack.mse[place]),
                    factor=factor,
                    errors=errors[:, place],
                    coverage=Coverage.AT_LEAST,
                    bracket=(
                        variance * float(found.exposure.lower.ravel()[column]),
                        variance * float(found.upper[column]),
                    ),
                )
            )
        return guesses, notes

    def _guess(  # many parameters: what a guess is, how it is stated, and what its repetitions showed
        self,
        attack: AttackKind,
        *,
        record: str,
        what: str,
        alike: int,
        truth: float,
        guess: float,
        stated_mse: float,
        factor: float,
        errors: FloatArray,
        coverage: Coverage,
        bracket: tuple[float, float] | None = None,
    ) -> Guess:
        deviation = math.sqrt(stated_mse)
        squares = errors**2
        return Guess(
            attack=attack,
            record=record,
            what=what,
            alike=alike,
            truth=truth,
            guess=guess,
            standard_error=deviation,
            interval=(guess - factor * deviation, guess + factor * deviation),
            coverage=coverage,
            repetitions=errors.size,
            covered=int(np.count_nonzero(np.abs(errors) <= factor * deviation)),
            mse=float(squares.mean()),
            mse_error=float(squares.std(ddof=1)) / math.sqrt(errors.size),
            stated_mse=stated_mse,
            bracket=bracket,
        )

    def _what(self, found: LinearFindings, column: int, size: int) -> str:
        category = found.linear.category(column)
        about = self.findings.plan.data.secret if category is None else f"is {category}"
        return about if size == 1 else f"sum of {size:,} × {about}"

    def _likelihood(self, group: SmallGroup) -> Iterator[Guess]:
        """The guesses at one small group's values."""
        once = group.attack(self.numbers[None])
        again = group.repeated(self.truth.answers, self.repetitions, self.generator)
        names = self._names_of(group)
        for place, truth in enumerate(group.truth.tolist()):
            lower, upper = (np.asarray(end)[:, place] for end in (again.lower, again.upper))
            squares = (np.asarray(again.values)[:, place] - truth) ** 2
            yield Guess(
                attack=AttackKind.LIKELIHOOD,
                record=names[place],
                what=self.findings.plan.data.secret,
                alike=1,
                truth=truth,
                guess=float(once.values[0, place]),
                standard_error=float(np.asarray(once.standard_errors)[0, place]),
                interval=(float(np.asarray(once.lower)[0, place]), float(np.asarray(once.upper)[0, place])),
                coverage=Coverage.UNKNOWN,
                repetitions=self.repetitions,
                covered=int(np.count_nonzero((lower <= truth) & (truth <= upper))),
                mse=float(squares.mean()),
                mse_error=float(squares.std(ddof=1)) / math.sqrt(squares.size),
                stated_mse=None,
                bracket=None,
            )

    def _names_of(self, group: SmallGroup) -> list[str]:
        """Whose values they are; of values that are seen as a set, their places in it."""
        if not group.labeled:
            return [
                f"value {place} of {group.values.size}, from below"
                for place in range(1, group.values.size + 1)
            ]
        wanted = sorted(set(group.signatures.tolist()))
        rows = secrets_of(
            self.session.engine,
            self.session.queries,
            self.session.subject,
            signature_ids=wanted,
            most=MOST_VALUES,
        )
        # Within a signature the group's values are in ascending order.
        ordered = {one: iter(sorted(own, key=lambda row: (row[1], row[0]))) for one, own in rows.items()}
        return [next(ordered[one])[0] for one in group.signatures.tolist()]
