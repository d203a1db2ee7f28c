"""A transcript: releases, and the noise on their answers; its geometry at an operating point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, assert_never

import numpy as np
from flint import arb_mat
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from sightline.arrays import FloatArray, IndexArray, coordinates, frozen_floats, frozen_index
from sightline.bounds.membership_design import Exposures, MembershipDesign
from sightline.errors import InvalidNoise, InvalidRelease, require
from sightline.noise.laws import CorrelatedNoise, Noise, as_noise
from sightline.noise.pricing import price
from sightline.numerics import integers as exact
from sightline.numerics.balls import evaluate_matrix
from sightline.numerics.rank import Decision, Evidence, Rank, balance, numerical_rank
from sightline.privacy.accountant import Accountant
from sightline.privacy.law import Law
from sightline.theory.geometry.exposure import Direction, Exposure
from sightline.theory.geometry.frame import (
    Frame,
    FunctionalFrame,
    WhitenedRows,
    dense,
    kinds,
    place,
    place_integers,
    stack,
)
from sightline.theory.geometry.profile import Question, profile
from sightline.theory.releases.query import Query
from sightline.units.description import Known, Readout
from sightline.units.target import TargetPrior


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry(WhitenedRows):
    """What the rows of a transcript reveal (``subsec:fim_crb``).

    Build it with :meth:`Transcript.geometry`, or directly from rows:

    >>> from sightline import GaussianNoise
    >>> rows = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    >>> geometry = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[3.0, 4.0]))
    >>> exposure = geometry.profile(target=0)
    >>> bool(exposure.identifiable), round(exposure.rmse, 12)
    (True, 5.0)
    >>> exposure.recipe.round(12).tolist()
    [[1.0, -1.0]]
    >>> geometry.profile(target=1).crb
    inf
    """

    @cached_property
    def rank(self) -> Rank:
        """How many directions of the records the transcript reveals at all."""
        return self._rank_of(slice(None))

    @property
    def static(self) -> bool:
        """Whether later releases only repeat the first (``eq:J_column_static``).

        Then they reveal the same directions more precisely, and no other.
        """
        if self.first_outputs == self.jacobian.shape[0] or not self.rank.decided:
            return False
        return self._rank_of(slice(0, self.first_outputs)).rank == self.rank.rank

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Independent combinations of the records that span everything the transcript reveals."""
        return self.profile(target=range(self.records)).directions

    def profile(
        self,
        target: int | Sequence[int] | None = None,
        *,
        functional: ArrayLike | None = None,
        known: Sequence[int] = (),
    ) -> Exposure:
        """The exposure of some records, or of linear functionals of them, with all other records as nuisance.

        ``target`` names records by position; ``functional`` gives rows of coefficients over all coordinates.
        The attacker knows the ``known`` records, so they are not nuisance.
        """
        require(
            (target is None) != (functional is None),
            "either a target or a functional",
            got="both" if target is not None else "neither",
        )
        known_columns = self._columns_of(known, name="known") if len(known) else np.zeros(0, dtype=np.intp)
        if functional is None:
            chosen = [target] if isinstance(target, int | np.integer) else list(target or ())
            frame = Frame(**self._split(self._columns_of(chosen, name="target"), known_columns))
            labels = tuple(self.label(column) for column in frame.support)
        else:
            support, coefficients = self._functional(functional)
            frame = FunctionalFrame(**self._split(support, known_columns), coefficients=coefficients)
            labels = tuple(f"f{row}" for row in range(len(coefficients))) if len(coefficients) > 1 else ("f",)
        profiled = profile(Question(frame=frame, rows=self))
        return Exposure(geometry=self, frame=frame, labels=labels, profile=profiled)

    def _split(self, support: IndexArray, known: IndexArray) -> dict[str, IndexArray]:
        overlap = np.intersect1d(support, known)
        require(
            overlap.size == 0,
            "a target that the attacker does not know already",
            got=f"known record {int(overlap[0]) // self.dimension if overlap.size else None} in the target",
            fix="take it out of the known records",
        )
        excluded = np.zeros(self.jacobian.shape[1], dtype=bool)
        excluded[support] = True
        excluded[known] = True
        others = np.flatnonzero(~excluded)
        representatives, place = kinds(self.pattern, others)
        return {"support": support, "others": others, "representatives": representatives, "place": place}

    def _rank_of(self, lines: slice) -> Rank:
        distinct, _ = kinds(self.pattern, np.arange(self.jacobian.shape[1], dtype=np.intp))
        if self.integer_rows is not None:
            return Rank(
                rank=exact.rank(dense(self.integer_rows[lines][:, distinct])), evidence=Evidence.MODULAR
            )
        decision, _ = numerical_rank(balance(dense(self.jacobian[lines][:, distinct]))[0])
        return decision

    def _columns_of(self, records: Sequence[int], *, name: str) -> IndexArray:
        chosen = frozen_index(records, name=name)
        require(
            int(chosen[-1]) < self.records,
            f"{name} among records 0 to {self.records - 1}",
            got=int(chosen[-1]),
        )
        return coordinates(chosen, self.dimension)

    def _functional(self, functional: ArrayLike) -> tuple[IndexArray, FloatArray]:
        rows = np.atleast_2d(frozen_floats(functional, name="functional"))
        columns = self.jacobian.shape[1]
        require(
            rows.shape[1] == columns, f"a functional of {columns} coefficients", got=f"shape {rows.shape}"
        )
        support = np.flatnonzero(np.any(rows != 0, axis=0))
        independent = support.size and numerical_rank(balance(rows[:, support].T)[0])[0].rank == len(rows)
        require(bool(independent), "independent, non-zero functionals", got="dependent ones")
        return support, rows[:, support]


class Form(Enum):
    """A way of writing the profiled information."""

    PROJECTOR = "projector"
    SCHUR = "schur"
    VARIATIONAL = "variational"


def profiled_information(exposure: Exposure, form: Form) -> FloatArray:
    r"""The profiled information of an exposure's target, by the chosen form (``app:projector_variational``).

    *Projector* (``eq:Ieff_projector``): Householder reflections project the target off the nuisance, and the
    residual is squared, in double precision: the form that :class:`Exposure` uses. The other two need the
    Gram matrix, where double precision loses half its digits, so they are computed in ball arithmetic with
    enough bits. *Schur* (``eq:Ieff_def``): :math:`A - C B^{-1} C^\top`. *Variational*
    (``eq:ieff_variational``): the least information :math:`Q(V)` along :math:`\theta - V\eta`, evaluated at a
    minimiser :math:`V` that is rounded to finitely many bits.

    >>> from sightline import GaussianNoise
    >>> rows = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> exposure = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[1.0, 1.0])).profile(target=0)
    >>> [round(float(profiled_information(exposure, form)[0, 0]), 12) for form in Form]
    [0.5, 0.5, 0.5]
    """
    whitened = exposure.geometry.whitened
    target = exposure.frame.target(whitened)
    projection = exposure.profile.projection
    nuisance = exposure.frame.nuisance(whitened)[:, exposure.profile.basis][:, projection.order]
    match form:
        case Form.PROJECTOR:
            return projection.information
        case Form.SCHUR:
            return _enclosed(_schur, target, nuisance)
        case Form.VARIATIONAL:
            return _enclosed(_variational, target, nuisance)
        case _:
            assert_never(form)


def _enclosed(
    form: Callable[[arb_mat, arb_mat, arb_mat], arb_mat], target: FloatArray, nuisance: FloatArray
) -> FloatArray:
    """A form of the Gram blocks A, B and C, correct to the last digit of a double."""

    def entries() -> arb_mat:
        J_theta, J_eta = arb_mat(target.tolist()), arb_mat(nuisance.tolist())
        A, B, C = J_theta.transpose() * J_theta, J_eta.transpose() * J_eta, J_theta.transpose() * J_eta
        return form(A, B, C) if nuisance.shape[1] else A

    return evaluate_matrix(entries)


def _schur(A: arb_mat, B: arb_mat, C: arb_mat) -> arb_mat:
    return A - C * B.inv() * C.transpose()


def _variational(A: arb_mat, B: arb_mat, C: arb_mat) -> arb_mat:
    V = B.solve(C.transpose()).mid()
    CV = C * V
    return A - CV - CV.transpose() + V.transpose() * B * V


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiftedExposure:
    """The exposure of vector records. In the matrices, the coordinates of one record are adjacent."""

    identifiable: Decision
    information: FloatArray
    covariance: FloatArray

    @property
    def crb(self) -> float:
        """Trace of the bound over all coordinates."""
        return float(np.trace(self.covariance))


def lift(exposure: Exposure, coordinate_covariance: ArrayLike) -> LiftedExposure:
    r"""Lift a scalar exposure to records of :math:`p` coordinates with noise :math:`\Sigma_0` across them.

    If every release is linear and has the same weights in all coordinates of a record, the rows are
    :math:`A \otimes I_p`, and with noise :math:`\Sigma \otimes \Sigma_0` the profiled information is that of
    one coordinate times :math:`\Sigma_0^{-1}` (``app:block_jacobians``). The identity is the paper's
    isotropic case, in which the bound is :math:`p` times the scalar one.

    >>> from sightline import GaussianNoise
    >>> rows = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> scalar = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[3.0, 4.0])).profile(target=0)
    >>> round(scalar.crb, 9), round(lift(scalar, np.eye(3)).crb, 9)
    (25.0, 75.0)
    """
    noise = CorrelatedNoise(blocks=(np.asarray(coordinate_covariance),))
    require(
        not noise.singular,
        "a covariance of the coordinates that can be inverted",
        got="a singular one",
        error=InvalidNoise,
    )
    sigma = noise.blocks[0]
    inverse = cho_solve(cho_factor(sigma), np.eye(len(sigma)))
    covariance: FloatArray = np.full(2 * (len(exposure.labels) * len(sigma),), exposure.crb)
    if exposure.identifiable is Decision.YES:
        covariance = np.kron(exposure.covariance, sigma).astype(np.float64)
    return LiftedExposure(
        identifiable=exposure.identifiable,
        information=np.kron(exposure.information, inverse).astype(np.float64),
        covariance=covariance,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    r"""Releases in the order of their publication, with the noise on their answers.

    ``noise`` is an accountant, which gives every answer the variance :math:`\kappa_L \Delta_\ell^2`
    (``eq:Sigma_explicit``); or it is the noise itself: standard deviations (one for each published number), a
    covariance matrix, or a noise law.

    >>> from sightline import SubsetMean
    >>> whole = SubsetMean(members=range(4), radius=1.0)
    >>> without = SubsetMean(members=range(1, 4), radius=1.0)
    >>> transcript = Transcript([whole, without], noise=[0.3, 0.4])
    >>> exposure = transcript.geometry().profile(target=0)
    >>> exposure.recipe.round(9).tolist(), round(exposure.crb, 9)
    ([[4.0, -3.0]], 2.88)
    """

    queries: tuple[Query, ...]
    noise: Accountant | Noise | ArrayLike
    names: tuple[str, ...] = ()

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(
            self, queries: Iterable[Query], noise: Accountant | Noise | ArrayLike, names: Sequence[str] = ()
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        require(len(self.queries) > 0, "at least one release", got=0, error=InvalidRelease)
        dimensions = sorted({query.dimension for query in self.queries})
        require(
            len(dimensions) == 1,
            "records of one dimension in every release",
            got=f"dimensions {dimensions}",
            error=InvalidRelease,
        )
        names = tuple(self.names) or tuple(f"release {i + 1}" for i in range(len(self.queries)))
        require(
            len(names) == len(self.queries),
            f"{len(self.queries)} names",
            got=len(names),
            error=InvalidRelease,
        )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "noise", self._resolve(self.noise))
        require(
            self.law.outputs == self.outputs,
            f"noise for {self.outputs} published numbers",
            got=f"noise for {self.law.outputs}",
            error=InvalidNoise,
        )

    @property
    def releases(self) -> int:
        """L, the number of releases for an accountant. A release with many cells counts once."""
        return len(self.queries)

    @property
    def outputs(self) -> int:
        """How many numbers are published in all."""
        return sum(query.outputs for query in self.queries)

    @property
    def dimension(self) -> int:
        """The length p of one record's value."""
        return self.queries[0].dimension

    @property
    def law(self) -> Noise:
        """The noise on the answers."""
        return self.noise  # type: ignore[return-value]  # resolved in __post_init__

    def answers(self, records: ArrayLike, *, seed: int | np.random.Generator | None = None) -> FloatArray:
        """The published numbers at these records: exact without a seed, else with noise drawn from it."""
        values = frozen_floats(records, name="records")
        exact = np.concatenate([query.value(values) for query in self.queries])
        if seed is None:
            return exact
        noisy: FloatArray = exact + self.law.sample(1, generator=np.random.default_rng(seed))[0]
        return noisy

    def geometry(self, at: ArrayLike | None = None, *, records: int | None = None) -> Geometry:
        """The whitened rows at an operating point.

        Linear releases need no point. Give the number of ``records``, or the last member is the last record.
        """
        operating = None if at is None else frozen_floats(at, name="records")
        if operating is None:
            curved = [name for name, query in zip(self.names, self.queries, strict=True) if not query.linear]
            require(
                not curved,
                "an operating point (at=...) for releases that are not linear",
                got=f"none for {curved[0] if curved else ''!r}",
                fix="pass the records, or made-up values in their place",
            )
        reach = 1 + max(int(query.members[-1]) for query in self.queries)
        count = records if records is not None else (reach if operating is None else len(operating))
        require(
            count >= reach,
            f"at least {reach} records",
            got=count,
            fix="a release has members beyond the records",
        )
        rows = [place(query, records=count, at=operating) for query in self.queries]
        integers = [place_integers(query, records=count) for query in self.queries]
        whole = [block for block in integers if block is not None]
        return Geometry(
            jacobian=stack(rows),
            noise=self.law,
            dimension=self.dimension,
            integer_rows=stack(whole) if len(whole) == len(rows) else None,
            at=operating,
            first_outputs=self.queries[0].outputs,
        )

    def append(self, query: Query, *, noise_stddev: ArrayLike, name: str = "") -> Transcript:
        """The transcript with one more release; the noise on the others stays the same.

        The new noise is Gaussian and independent of the noise on the others, which must be Gaussian too.
        """
        levels = np.broadcast_to(np.asarray(noise_stddev, dtype=np.float64), (query.outputs,))
        names = (*self.names, name or f"release {self.releases + 1}")
        return Transcript((*self.queries, query), noise=self.law.append(levels), names=names)

    def membership_design(self, *, records: int | None = None) -> MembershipDesign:
        """The membership design of linear releases over scalar records, with the same noise.

        >>> from sightline import SubsetMean, SubsetSum
        >>> releases = [SubsetMean(members=range(4), radius=1.0), SubsetSum(members=[1, 2, 3], radius=1.0)]
        >>> design = Transcript(releases, noise=[0.1, 0.3]).membership_design()
        >>> design.exposures(domain=(0, 1)).recipe(0).round(6).tolist()
        [4.0, -1.0]
        """
        linear = all(query.linear for query in self.queries)
        require(
            linear and self.dimension == 1,
            "linear releases over scalar records",
            got="nonlinear releases" if not linear else f"records of dimension {self.dimension}",
            fix="use transcript.geometry(...)",
            error=InvalidRelease,
        )
        geometry = self.geometry(records=records)
        jacobian = sparse.csr_array(geometry.jacobian)
        rows = sparse.csr_array(geometry.pattern)
        peaks = abs(rows).max(axis=1).toarray().ravel()
        factors = abs(jacobian).max(axis=1).toarray().ravel() / peaks
        outputs = [query.outputs for query in self.queries]
        names = [
            name if count == 1 else f"{name}, cell {cell + 1}"
            for name, count in zip(self.names, outputs, strict=True)
            for cell in range(count)
        ]
        return MembershipDesign(
            rows,
            noise=self.law,
            readout=Readout.SUM,
            releases=np.repeat(np.arange(len(outputs)), outputs),
            names=tuple(names),
            factors=factors,
        )

    def exposures(
        self,
        *,
        domain: tuple[float, float] | None = None,
        prior: str | TargetPrior = "uniform",
        known: Iterable[int] | Known = (),
    ) -> Exposures:
        """What the releases expose of every record, for linear releases over scalar records.

        ``domain`` is the smallest and the largest value of a record, and ``prior`` the distribution of the
        values over it; ``known`` are records whose values the attacker knows. See
        :meth:`MembershipDesign.exposures`.

        >>> from sightline import SubsetMean
        >>> means = [SubsetMean(members=range(4), radius=1.0), SubsetMean(members=[1, 2, 3], radius=1.0)]
        >>> Transcript(means, noise=[0.3, 0.4]).exposures(domain=(0, 10)).identifiable.tolist()
        [True, False, False, False]
        """
        return self.membership_design().exposures(domain=domain, prior=prior, known=known)

    def sensitivities(self, law: Law) -> FloatArray:
        """The sensitivities of all published numbers, in the norm that noise of this law needs."""
        return np.concatenate(
            [query.sensitivity_l1 if law.pure else query.sensitivity for query in self.queries]
        )

    def _resolve(self, noise: Accountant | Noise | ArrayLike) -> Noise:
        if isinstance(noise, Accountant):
            return price(noise, self.sensitivities(noise.law), releases=self.releases)
        return as_noise(noise)


def noise_multipliers(transcript: Transcript) -> FloatArray:
    """Noise over sensitivity of each release, at its least noisy output: the input of ``account``."""
    noise = transcript.law
    ends = np.cumsum([query.outputs for query in transcript.queries])[:-1]
    ratios = np.split(noise.scales / transcript.sensitivities(noise.law), ends)
    return np.array([part.min() for part in ratios])
