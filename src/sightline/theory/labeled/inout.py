r"""Repeated IN/OUT releases: a mean with the target and a mean without it, in closed form.

**Cube-root allocation.** A block of :math:`L_i` releases that gets :math:`u_i = L_i\epsilon_i` in all
contributes :math:`2\Delta^2 c_i L_i / u_i^2` to the risk, with :math:`c_i = \ln(1.25/\delta_i)`. Under
:math:`\sum u_i = \epsilon_{\rm tot}` the minimum is at :math:`u_i \propto (c_i L_i)^{1/3}` and equals
:math:`2\Delta^2 (\sum_i (c_i L_i)^{1/3})^3/\epsilon_{\rm tot}^2` (``eq:opt_u_v_ratio``,
``eq:mse_inout_opt_eps``).

One contrast: the profiled information where the nuisance records are interchangeable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import MOST_SQUARE, ROUNDING, FloatArray, IndexArray, frozen_floats
from sightline.bounds.membership_design import MembershipDesign
from sightline.checked_numbers import positive_number, whole_number
from sightline.errors import InvalidBudget, InvalidInput, require
from sightline.noise.laws import Noise
from sightline.privacy.accountant import Accountant, Budget
from sightline.units.description import LinearReleases
from sightline.values import frozen


def one_contrast_information(
    *, target: float, coupling: float, diagonal: float, off_diagonal: float, size: int
) -> float:
    r"""Profiled information of a target in a block of ``size`` records with interchangeable nuisance:

    .. math:: I_{\mathrm{eff}} = a - c^2\,\frac{m-1}{d + (m-2)e}

    with a = ``target``, c = ``coupling``, d = ``diagonal``, e = ``off_diagonal`` and m = ``size``
    (``eq:lever1_onecontrast_ieff``). The nuisance block must be positive definite.

    >>> one_contrast_information(target=2.0, coupling=1.0, diagonal=2.0, off_diagonal=1.0, size=3)
    1.3333333333333335
    """
    a, c, d, e = (float(value) for value in (target, coupling, diagonal, off_diagonal))
    m = whole_number(size, name="size")
    require(m >= 2, "a target and at least one nuisance record", got=f"size {m}")
    require(
        bool(np.all(np.isfinite([a, c, d, e]))), "finite entries of the Gram matrix", got="NaN or infinity"
    )
    definite = d + (m - 2) * e > 0 and (m == 2 or d > e)
    require(
        definite,
        "a positive definite nuisance block: d > e and d + (m - 2)e > 0",
        got=f"d = {d:g}, e = {e:g}, m = {m}",
        fix="reduce records with one signature to their sum first",
    )
    return a - c * c * (m - 1) / (d + (m - 2) * e)


def exchangeable_information(*, alpha: float, tau: float, size: int) -> float:
    r"""The fully exchangeable case :math:`a = d = \alpha`, :math:`c = e = \tau` (``eq:ieff_exchangeable``):

    .. math:: I_{\mathrm{eff}} = \frac{(\alpha - \tau)(\alpha + \tau(m-1))}{\alpha + \tau(m-2)}

    >>> round(exchangeable_information(alpha=2.0, tau=1.0, size=3), 12)
    1.333333333333
    """
    m = whole_number(size, name="size")
    require(m >= 2, "a target and at least one nuisance record", got=f"size {m}")
    require(
        np.isfinite(alpha) and alpha > tau >= 0,
        "alpha > tau >= 0",
        got=f"alpha = {alpha:g}, tau = {tau:g}",
    )
    return (alpha - tau) * (alpha + tau * (m - 1)) / (alpha + tau * (m - 2))


@frozen(eq=True)
class Symmetry:
    """Whether the records beside a target are interchangeable, and the target's information if they are."""

    holds: bool
    size: int  # m: the target and the other touched records
    target: float  # a
    coupling: float  # c
    diagonal: float  # d
    off_diagonal: float  # e
    departure: float  # largest difference of entries that should be equal, relative to the largest entry
    information: float | None  # the one-contrast value; None without the symmetry or if the block is singular

    def __str__(self) -> str:
        if not self.holds:
            return f"no one-contrast symmetry: entries of G differ by {self.departure:.2g} of the largest"
        if self.information is None:
            return "one contrast, with a singular nuisance block: only the sum of the others can be seen"
        return f"one contrast: information {self.information:.6g} about the target, in a block of {self.size}"


def symmetry(design: LinearReleases, *, target: int) -> Symmetry:
    """Test whether all other touched records are interchangeable nuisance to a target.

    The test is on the Gram matrix of the target's block (``eq:lever1_blocksym_gram``): equal couplings to
    the target, equal diagonal, equal off-diagonal.
    """
    if not 0 <= target < design.size:
        raise InvalidInput(f"expected a target from 0 to {design.size - 1}, got {target}")
    everyone = np.ones(design.size, dtype=np.bool_)
    signatures = design.incidence.groups(everyone)
    degree = np.zeros(design.size, dtype=np.bool_)
    for row in range(design.row_count):
        degree[design.incidence.members(row)] = True
    require(bool(degree[target]), "a target in some release", got=f"record {target}, which is in none")
    others = degree.copy()
    others[target] = False
    require(
        bool(others.any()),
        "a target and at least one other record in some release",
        got=f"record {target} alone",
    )
    _, first, counts = np.unique(signatures[others], return_index=True, return_counts=True)
    require(
        first.size <= MOST_SQUARE,
        f"at most {MOST_SQUARE} signatures to compare",
        got=first.size,
        fix="test a smaller design",
    )
    columns = design.incidence.columns(np.concatenate([[target], np.flatnonzero(others)[first]]))
    return _of_gram(design.whiten(columns), counts)


def _of_gram(whitened: FloatArray, counts: IndexArray) -> Symmetry:
    G = whitened.T @ whitened
    couplings, diagonals = G[0, 1:], np.diagonal(G)[1:]
    off = G[1:, 1:][~np.eye(len(counts), dtype=np.bool_)]
    # Records with one signature meet each other in the diagonal entry of that signature.
    off = np.concatenate([off, diagonals[counts > 1]])
    m = 1 + int(np.sum(counts))
    largest = float(np.max(np.abs(G)))
    spans = [float(np.ptp(part)) for part in (couplings, diagonals, off) if part.size]
    departure = max(spans) / largest
    a, c, d = float(G[0, 0]), float(np.mean(couplings)), float(np.mean(diagonals))
    e = float(np.mean(off)) if off.size else 0.0
    holds = departure <= ROUNDING
    definite = (m == 2 or d - e > ROUNDING * largest) and d + (m - 2) * e > ROUNDING * largest
    information = (
        one_contrast_information(target=a, coupling=c, diagonal=d, off_diagonal=e, size=m)
        if holds and definite
        else None
    )
    return Symmetry(
        holds=holds,
        size=m,
        target=a,
        coupling=c,
        diagonal=d,
        off_diagonal=e,
        departure=departure,
        information=information,
    )


@frozen(eq=True)
class Allocation:
    """A budget for one release of each block, and the risk that it leaves the attacker."""

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    mse: float
    proven: bool  # the classical calibration is a proven guarantee for epsilons up to 1 only


def cube_root_allocation(
    budget: Budget, *, counts: tuple[int, ...], deltas: tuple[float | None, ...], radius: float
) -> Allocation:
    """The best split of the budget's epsilon over blocks of ``counts`` releases.

    A delta that is not given is an equal share of the budget's delta per release.

    >>> allocation = cube_root_allocation(
    ...     Budget(epsilon=1.0, delta=1e-5), counts=(8, 1), deltas=(None, None), radius=1.0
    ... )
    >>> [round(epsilon, 6) for epsilon in allocation.epsilons]
    [0.083333, 0.333333]
    """
    equal = budget.delta / sum(counts)
    shares = tuple(equal if delta is None else float(delta) for delta in deltas)
    require(
        all(0 < delta < 1 for delta in shares),
        "deltas between 0 and 1",
        got=shares,
        error=InvalidBudget,
    )
    spent = math.fsum(count * delta for count, delta in zip(counts, shares, strict=True))
    require(
        spent <= budget.delta * (1 + 1e-12),
        f"deltas that add up to at most {budget.delta:g}",
        got=f"{spent:g}",
        error=InvalidBudget,
    )
    weights = [math.log(1.25 / delta) * count for count, delta in zip(counts, shares, strict=True)]
    roots = [weight ** (1 / 3) for weight in weights]
    total = math.fsum(roots)
    epsilons = tuple(budget.epsilon * root / total / count for root, count in zip(roots, counts, strict=True))
    return Allocation(
        epsilons=epsilons,
        deltas=shares,
        mse=2 * radius**2 * total**3 / budget.epsilon**2,
        proven=max(epsilons) <= 1,
    )


@frozen(eq=True)
class Split:
    """How many of the releases include the target, and the risk that this leaves."""

    in_releases: float
    out_releases: float
    mse: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InOut:
    r"""The target's mean with a background of n others, and the mean of the background alone, repeated.

    The releases depend on the records only through the target :math:`\theta_1 = x_j` and the background's
    sum :math:`\theta_2` (``eq:theta_fixed_background``), and their block means are sufficient. ``radius`` is
    the largest change of one record's value (for vectors, in L2 norm); ``dimension`` is the length of a
    record, and risks of vector records are sums over the coordinates.

    >>> design = InOut(background=50)
    >>> round(design.mse(2, 2, in_stddev=0.1, out_stddev=0.1), 9)
    25.505
    >>> float(design.blue([1.02, 1.0], [1.0, 1.0]).round(9))
    1.51
    """

    background: int
    radius: float = 1.0
    dimension: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "background", whole_number(self.background, name="background"))
        object.__setattr__(self, "radius", positive_number(self.radius, name="radius"))
        object.__setattr__(self, "dimension", whole_number(self.dimension, name="dimension"))

    def mse(self, in_releases: float, out_releases: float, *, in_stddev: float, out_stddev: float) -> float:
        r"""The least risk of an unbiased attack (``eq:crb_fixed_background``):

        .. math:: p\Bigl((n+1)^2\sigma_{\rm in}^2/L_{\rm in} + n^2\sigma_{\rm out}^2/L_{\rm out}\Bigr).

        Counts need not be whole: the continuous relaxation uses the same formula.
        """
        for count, name in ((in_releases, "in_releases"), (out_releases, "out_releases")):
            require(
                math.isfinite(count) and count > 0,
                f"{name} > 0",
                got=count,
                fix="without both kinds of release the target is not identifiable",
            )
        alpha, beta = self._amplified(in_stddev, out_stddev)
        return self.dimension * (alpha**2 / in_releases + beta**2 / out_releases)

    def block_means(self, in_answers: ArrayLike, out_answers: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The sufficient statistic: the mean answer of each block (``eq:block_means_fixed_background``)."""
        return self._answers(in_answers, "IN").mean(axis=0), self._answers(out_answers, "OUT").mean(axis=0)

    def blue(self, in_answers: ArrayLike, out_answers: ArrayLike) -> FloatArray:
        r"""The best unbiased attack, :math:`(n+1)\bar y_{\rm in} - n\bar y_{\rm out}`
        (``eq:blue_fixed_background``)."""
        mean_in, mean_out = self.block_means(in_answers, out_answers)
        return np.asarray((self.background + 1) * mean_in - self.background * mean_out)

    def best_continuous_split(self, releases: float, *, in_stddev: float, out_stddev: float) -> Split:
        r"""The best split of the continuous relaxation (``eq:opt_split_s4``, ``eq:mse_inout_opt_s4``):

        .. math:: L_{\rm in}/L_{\rm out} = \frac{n+1}{n}\,\frac{\sigma_{\rm in}}{\sigma_{\rm out}}.
        """
        _feasible(releases)
        alpha, beta = self._amplified(in_stddev, out_stddev)
        share = alpha / (alpha + beta)
        return Split(
            in_releases=releases * share,
            out_releases=releases * (1 - share),
            mse=self.dimension * (alpha + beta) ** 2 / releases,
        )

    def best_split(self, releases: int, *, in_stddev: float, out_stddev: float) -> Split:
        r"""The best split into whole releases.

        The risk is strictly convex in :math:`L_{\rm in}`, so the best whole split is one of the two
        neighbours of the continuous one that leave a release of each kind. It is not always the nearer.

        >>> split = InOut(background=1).best_split(3, in_stddev=0.3, out_stddev=0.55)
        >>> split.in_releases, split.out_releases, round(split.mse, 9)
        (2, 1, 0.4825)
        """
        whole_number(releases, name="releases")
        continuous = self.best_continuous_split(releases, in_stddev=in_stddev, out_stddev=out_stddev)
        below = math.floor(continuous.in_releases)
        counts = sorted({min(max(count, 1), releases - 1) for count in (below, below + 1)})
        splits = [
            Split(
                in_releases=count,
                out_releases=releases - count,
                mse=self.mse(count, releases - count, in_stddev=in_stddev, out_stddev=out_stddev),
            )
            for count in counts
        ]
        return min(splits, key=lambda split: split.mse)

    def mse_under(self, accountant: Accountant, in_releases: int, out_releases: int) -> float:
        r"""The least risk when an accountant pays for all releases equally:
        :math:`p\,\kappa_L\Delta^2(1/L_{\rm in} + 1/L_{\rm out})`.

        The block size cancels against the sensitivities (``eq:dp_to_risk_fixed_total_closed_s4``). For
        Laplace noise it is the Cramér–Rao bound; the linear attack's own risk is twice that.

        >>> from sightline.privacy.composition import BasicComposition
        >>> basic = BasicComposition(Budget(epsilon=1.0, delta=1e-5))
        >>> round(InOut(background=50).mse_under(basic, 1, 1), 4), round(basic.kappa(2) * 2, 4)
        (198.8675, 198.8675)
        """
        for count, name in ((in_releases, "in_releases"), (out_releases, "out_releases")):
            whole_number(count, name=name)
        kappa = accountant.kappa(in_releases + out_releases)
        return self.dimension * kappa * self.radius**2 * (1 / in_releases + 1 / out_releases)

    def lower_bound(self, accountant: Accountant, releases: int) -> float:
        r"""No split of ``releases`` leaves less risk than :math:`4p\,\kappa_L\Delta^2/L`
        (``eq:fixed_background_lower_bound``, ``eq:one_contrast_kappa_over_L``). Attained if L is even."""
        _feasible(whole_number(releases, name="releases"))
        return self.dimension * 4 * accountant.kappa(releases) * self.radius**2 / releases

    def best_mse_under(self, accountant: Accountant, releases: int) -> float:
        r"""The least risk over all whole splits: the lower bound, times :math:`L^2/(L^2-1)` if L is odd."""
        bound = self.lower_bound(accountant, releases)
        return bound if releases % 2 == 0 else bound * releases**2 / (releases**2 - 1)

    def best_allocation(
        self,
        budget: Budget,
        *,
        in_releases: int = 1,
        out_releases: int = 1,
        in_delta: float | None = None,
        out_delta: float | None = None,
    ) -> Allocation:
        r"""The split of :math:`\epsilon_{\rm tot}` over the two kinds that leaves the attacker the least
        risk, under basic composition (``prop:lever1_nonuniform``).

        Deltas are per release and default to equal shares of the budget's. Over all release counts the
        minimum is at one release of each kind, the default.
        """
        for count, name in ((in_releases, "in_releases"), (out_releases, "out_releases")):
            whole_number(count, name=name)
        allocation = cube_root_allocation(
            budget, counts=(in_releases, out_releases), deltas=(in_delta, out_delta), radius=self.radius
        )
        return Allocation(
            epsilons=allocation.epsilons,
            deltas=allocation.deltas,
            mse=self.dimension * allocation.mse,
            proven=allocation.proven,
        )

    def design(
        self, in_releases: int, out_releases: int, *, noise: Accountant | Noise | ArrayLike, records: int = 0
    ) -> MembershipDesign:
        """The same releases as a membership design: the target is record 0, its background follows."""
        members = self.background + 1
        rows = [range(members)] * whole_number(in_releases, name="in_releases")
        rows += [range(1, members)] * whole_number(out_releases, name="out_releases")
        names = [f"with the target, {i + 1}" for i in range(in_releases)]
        names += [f"without the target, {i + 1}" for i in range(out_releases)]
        return MembershipDesign(
            rows,
            records=max(records, members),
            noise=noise,
            radius=self.radius,
            names=tuple(names),
        )

    def _amplified(self, in_stddev: float, out_stddev: float) -> tuple[float, float]:
        n = self.background
        return (
            (n + 1) * positive_number(in_stddev, name="in_stddev"),
            n * positive_number(out_stddev, name="out_stddev"),
        )

    def _answers(self, answers: ArrayLike, kind: str) -> FloatArray:
        array = frozen_floats(answers, name=f"{kind} answers")
        shape = (self.dimension,) if self.dimension > 1 else ()
        if array.ndim == 0 or len(array) == 0 or array.shape[1:] not in {shape, (self.dimension,)}:
            raise InvalidInput(
                f"expected at least one {kind} answer of dimension {self.dimension}, got shape {array.shape}"
            )
        return array


def _feasible(releases: float) -> None:
    require(
        math.isfinite(releases) and releases >= 2,
        "at least two releases to split",
        got=releases,
        fix="one with and one without the target are needed",
    )
