r"""Section II and Appendix A: profiled information, one more release, the static case, BLUE, other noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.noise.laws import GaussianNoise, LaplaceNoise
from sightline.numerics.rank import Decision
from sightline.theory.geometry.transcript import Form, Geometry, Transcript, lift, profiled_information
from sightline.theory.labeled.inout import InOut
from sightline.theory.paper.comparison import Check, Claim, claim
from sightline.theory.releases.features import Moment, SmoothThreshold
from sightline.theory.releases.linear import SubsetMean, SubsetSum
from sightline.theory.releases.query import Query


def spine_monotone(cases: int, generator: np.random.Generator) -> Claim:
    """Append random rows to random transcripts, also where the nuisance block is singular."""
    lowest = math.inf
    for _ in range(cases):
        columns, lines = int(generator.integers(2, 7)), int(generator.integers(1, 6))
        rows = generator.integers(-2, 3, (lines + 1, columns)).astype(float)
        stddevs = generator.uniform(0.3, 3.0, lines + 1)
        target = list(range(int(generator.integers(1, columns))))
        before = _information(rows[:-1], stddevs[:-1], target)
        after = _information(rows, stddevs, target)
        scale = max(float(np.max(np.abs(after))), 1e-300)
        lowest = min(lowest, float(np.linalg.eigvalsh(after - before)[0]) / scale)
    return claim(
        "thm:spine",
        "One more independent release never lowers the profiled information (Loewner order), singular "
        "nuisance included.",
        checked=f"{cases} random integer transcripts and rows, profiled from scratch before and after",
        value=lowest,
        quantity="smallest eigenvalue of the difference, relative",
        holds=lowest >= -1e-12,
    )


def _information(rows: FloatArray, stddevs: FloatArray, target: list[int]) -> FloatArray:
    geometry = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=stddevs))
    return geometry.profile(target=target).information


def spine_update(cases: int, generator: np.random.Generator) -> Claim:
    """The rank-one identity and its equality case, in exact rational arithmetic."""
    broken = tried = without_gain = 0
    while tried < cases:
        r, s = (int(generator.integers(1, 4)) for _ in range(2))
        rows = generator.integers(-4, 5, (r + s + 2, r + s))
        new = generator.integers(-4, 5, (1, r + s))
        A, C, B = old = _blocks(rows, r)
        if B.rank() < s:
            continue
        a, b = _exact(new[:, :r].T), _exact(new[:, r:].T)
        inverse = B.inv()
        match tried % 4:
            case 1:  # a row that the nuisance explains: d = 0 for every b
                a = C * inverse * b
            case 2:  # the same plus a billionth of the row: d is not 0
                a = C * inverse * b + a * (fmpq(1) / fmpq(10**9))
            case 3:  # a row without nuisance
                b = b * fmpq(0)
        tried += 1
        grown = (A + a * a.transpose(), C + a * b.transpose(), B + b * b.transpose())
        d = a - C * inverse * b
        denominator = fmpq(1) + (b.transpose() * inverse * b)[0, 0]
        predicted = _schur(old) + d * d.transpose() * (fmpq(1) / denominator)
        gained = _schur(grown) - _schur(old)
        without_gain += d.rank() == 0
        broken += predicted != _schur(grown) or (d.rank() == 0) != (gained.rank() == 0)
    return claim(
        "thm:spine",
        "With an invertible nuisance block the gain is d dᵀ/(1 + bᵀ I_ηη⁻¹ b), and nothing is gained iff d = "
        "0.",
        checked=f"{cases} random transcripts in exact rational arithmetic; d = 0 in {without_gain} of them, "
        "and a billionth of the row away from 0 in a quarter",
        value=broken,
        quantity="cases in which an equality fails",
        holds=broken == 0 and cases // 4 <= without_gain < cases,
    )


def variational_form(cases: int, generator: np.random.Generator) -> Claim:
    """The minimum over V in rational arithmetic, with an invertible and with a singular nuisance block."""
    broken = tried = singular = 0
    largest = 0.0
    while tried < cases:
        r, s, extra = int(generator.integers(1, 4)), int(generator.integers(1, 4)), tried % 3
        theta, basis = (generator.integers(-4, 5, (r + s + 2, n)) for n in (r, s))
        # Extra nuisance columns that repeat or combine the others make the block singular.
        eta = np.hstack([basis, basis @ generator.integers(-2, 3, (s, extra))])
        A, C0, B0 = _blocks(np.hstack([theta, basis]), r)
        if B0.rank() < s:
            continue
        tried += 1
        singular += extra > 0
        _, C, B = _blocks(np.hstack([theta, eta]), r)
        best = _stacked(B0.inv() * C0.transpose(), extra)
        least = A - C * best
        off = _exact(generator.integers(-3, 4, (s + extra, r)))
        if tried % 5 == 0:
            off = off * (fmpq(1) / fmpq(10**9))  # V close to the minimiser
        V = best + off
        value = A - C * V - V.transpose() * C.transpose() + V.transpose() * B * V
        above = value - least
        moved = _exact(eta) * off
        broken += B * best != C.transpose() or above != moved.transpose() * moved
        if extra == 0:  # the minimiser is unique
            broken += (above.rank() == 0) != (off.rank() == 0)
        geometry = Geometry(
            jacobian=np.hstack([theta, eta]).astype(float), noise=GaussianNoise(stddevs=np.ones(r + s + 2))
        )
        ours = geometry.profile(target=list(range(r))).information
        exact = np.array([[float(least[i, j].p) / float(least[i, j].q) for j in range(r)] for i in range(r)])
        largest = max(largest, float(np.max(np.abs(ours - exact))) / float(np.max(np.abs(theta.T @ theta))))
    return claim(
        "prop:ieff_variational",
        "I_eff is the least [1; −V]ᵀ I [1; −V] in the Loewner order, at V* = I_ηη⁺ I_ηθ; unique if I_ηη ≻ 0.",
        checked=f"{cases} random integer transcripts, {singular} with a singular nuisance block, in exact "
        "rational arithmetic: the value at V minus the minimum is a Gram matrix, hence ⪰ 0; the minimum "
        f"against the general engine (largest relative difference {largest:.0e})",
        value=broken,
        quantity="cases in which an equality fails",
        holds=broken == 0 and largest < 1e-12,
    )


def _stacked(matrix: fmpq_mat, extra: int) -> fmpq_mat:
    """The matrix with ``extra`` rows of zeros below."""
    rows = [[matrix[i, j] for j in range(matrix.ncols())] for i in range(matrix.nrows())]
    return fmpq_mat(rows + [[fmpq(0)] * matrix.ncols() for _ in range(extra)])


def _exact(matrix: Any) -> fmpq_mat:
    return fmpq_mat([[fmpq(int(entry)) for entry in row] for row in matrix])


def _blocks(rows: Any, r: int) -> tuple[fmpq_mat, fmpq_mat, fmpq_mat]:
    theta, eta = _exact(rows[:, :r]), _exact(rows[:, r:])
    return theta.transpose() * theta, theta.transpose() * eta, eta.transpose() * eta


def _schur(blocks: tuple[fmpq_mat, fmpq_mat, fmpq_mat]) -> fmpq_mat:
    A, C, B = blocks
    return A - C * B.inv() * C.transpose()


def three_forms(cases: int, generator: np.random.Generator) -> Claim:
    """Projector in double precision against Schur and variational forms in ball arithmetic."""
    largest = 0.0
    for _ in range(min(cases, 60)):
        rows = generator.normal(size=(9, 6)) * 10.0 ** generator.uniform(-2, 2, (9, 1))
        exposure = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=np.ones(9))).profile(target=[0, 1])
        projector, schur, variational = (profiled_information(exposure, form) for form in Form)
        for other in (schur, variational):
            largest = max(largest, float(np.max(np.abs(projector - other)) / np.max(np.abs(other))))
    return claim(
        "eq:Ieff_projector",
        "Schur complement, projector form and variational form (eq:ieff_variational) are one quantity.",
        checked="random rows over four orders of magnitude: projector in doubles, the others in ball "
        "arithmetic",
        value=largest,
        holds=largest < 1e-10,
    )


def static_case(cases: int, generator: np.random.Generator) -> Claim:
    """One query of any family, repeated with unequal noise; also at records where its derivative is zero."""
    wrong = flat = 0
    for case in range(cases):
        records = int(generator.integers(2, 9))
        members = np.sort(generator.permutation(records)[: int(generator.integers(1, records + 1))])
        at = generator.uniform(-1, 1, records)
        if case % 5 == 0:
            at = np.zeros(records)
        query = _any_query(generator, case, members)
        copies = int(generator.integers(1, 25))
        stddevs = 10.0 ** generator.uniform(-4, 4, copies)
        rank = Transcript([query] * copies, noise=stddevs).geometry(at=at).rank.rank
        expected = int(np.any(query.jacobian(at) != 0))
        flat += expected == 0
        wrong += rank != expected
    return claim(
        "eq:J_column_static",
        "Fully static releases are confined to a single observation-space direction.",
        checked=f"{cases} random queries (means, sums, moments, logistic and compact thresholds) of random "
        "members, 1 to 24 copies, noise over eight orders of magnitude: rank one, and rank zero for the "
        f"{flat} whose derivative is zero at the records",
        value=wrong,
        quantity="transcripts of another rank",
        holds=wrong == 0,
    )


def _any_query(generator: np.random.Generator, case: int, members: NDArray[np.int64]) -> Query:
    match case % 5:
        case 0 | 1:
            return Moment(order=int(generator.integers(1, 6)), members=members, bound=1.0)
        case 2:
            return SubsetMean(members=members, radius=1.0)
        case 3:
            return SubsetSum(members=members, radius=1.0)
        case _:
            return SmoothThreshold(
                at=float(generator.uniform(-1, 1)),
                members=members,
                bound=1.0,
                bandwidth=0.3,
                kernel="compact" if case % 2 else "logistic",
            )


def inclusion(cases: int, generator: np.random.Generator) -> Claim:
    """Designs whose target column is a combination of others, and the same designs with one more release."""
    wrong, largest = 0, 0.0
    for case in range(cases):
        releases, others = int(generator.integers(2, 9)), int(generator.integers(2, 7))
        rows = generator.integers(0, 2, (releases, others + 1))
        match case % 3:
            case 0:  # static membership: another record is in the same releases
                rows[:, 0] = rows[:, 1]
            case 1:  # the sum of two others that share no release
                rows[:, 2] *= 1 - rows[:, 1]
                rows[:, 0] = rows[:, 1] + rows[:, 2]
            case _:  # a difference of two others
                rows[:, 2] |= rows[:, 1]
                rows[:, 0] = rows[:, 2] - rows[:, 1]
        rows = rows[rows.any(axis=1)]
        if not rows.size:
            continue
        alone = np.r_[1, np.zeros(others, dtype=int)][None]
        for table, expected in ((rows, Decision.NO), (np.vstack([rows, alone]), Decision.YES)):
            queries = [SubsetSum(members=np.flatnonzero(row), radius=1.0) for row in table]
            stddevs = 10.0 ** generator.uniform(-2, 2, len(table))
            exposure = Transcript(queries, noise=stddevs).geometry().profile(target=0)
            wrong += exposure.identifiable is not expected
            if expected is Decision.NO:
                wrong += not math.isinf(exposure.crb)
                largest = max(largest, float(exposure.information[0, 0]))
    return claim(
        "cor:membership_necessity_s3",
        "If the target's range is in the nuisance range, its information is zero and the bound diverges.",
        checked=f"{cases} random designs in which the target's column is that of another, a sum or a "
        "difference of two others, decided over the integers; with one release of the target alone each is "
        "identifiable",
        value=largest,
        quantity="largest profiled information",
        holds=wrong == 0 and largest == 0,
    )


def pseudo_inverse(cases: int, generator: np.random.Generator) -> Claim:
    """``eq:mse_optimal_s4`` for an identifiable target and for one that is not."""
    n = 50
    design = np.zeros((2, n + 1))
    design[0], design[1, 1:] = 1 / (n + 1), 1 / n
    both = np.linalg.pinv(design.T @ design)[0, 0]
    closed = InOut(background=n).mse(1, 1, in_stddev=1.0, out_stddev=1.0)
    alone = np.linalg.pinv(design[:1].T @ design[:1])[0, 0]
    return claim(
        "eq:mse_optimal_s4",
        "The attainable risk of x_j is e_jᵀ(AᵀΣ⁻¹A)⁺e_j.",
        checked="one IN and one OUT mean of 51 records, unit noise, against the closed form",
        value=abs(both / closed - 1),
        quantity="relative difference, identifiable target",
        holds=abs(both / closed - 1) < 1e-9,
        remark="for identifiable targets only (app:linear_blue_identity says so, the equation does not): "
        "from the IN mean alone x_j is not identifiable and its risk is infinite, but the formula gives "
        f"{alone:.4g}, less than the {both:.0f} with both means",
    )


def kronecker(cases: int, generator: np.random.Generator) -> Claim:
    """The lift against the full block Jacobian."""
    p, n = 3, 4
    scalar = np.vstack([np.full(n + 1, 1 / (n + 1)), np.r_[0.0, np.full(n, 1 / n)]])
    stddevs = np.array([0.3, 0.7])
    exposure = Geometry(jacobian=scalar, noise=GaussianNoise(stddevs=stddevs)).profile(target=0)
    lifted = lift(exposure, np.eye(p)).crb
    whole = Geometry(
        jacobian=np.kron(scalar, np.eye(p)), noise=GaussianNoise(stddevs=np.repeat(stddevs, p)), dimension=p
    ).profile(target=0)
    formula = InOut(background=n, dimension=p).mse(1, 1, in_stddev=0.3, out_stddev=0.7)
    off = max(abs(lifted / formula - 1), abs(whole.crb / formula - 1))
    return claim(
        "app:block_jacobians",
        "Vector records under isotropic noise: the trace bound is p times the scalar one.",
        checked="p = 3: Kronecker lift, full block Jacobian and closed form",
        value=off,
        holds=off < 1e-12,
    )


def laplace(cases: int, generator: np.random.Generator) -> Claim:
    """Fisher information of Laplace location noise by quadrature of the squared score."""
    b = 0.7
    edge, nodes = 40 * b, np.polynomial.legendre.leggauss(200)
    w = (nodes[0] + 1) * edge / 2
    density = np.exp(-w / b) / (2 * b)
    quadrature = 2 * float(np.sum(nodes[1] * density / b**2)) * edge / 2
    rows = np.vstack([np.ones(3) / 3, [0.0, 0.5, 0.5]])
    weighted = Geometry(jacobian=rows, noise=LaplaceNoise(scales=[b, 2 * b])).profile(target=0).crb
    gaussian = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[b, 2 * b])).profile(target=0).crb
    off = max(abs(quadrature * b**2 - 1), abs(weighted / gaussian - 1))
    return claim(
        "app:laplace_noise",
        "Laplace noise gives the same geometry with weights b⁻².",
        checked="information of the location by quadrature of the squared score; profiled bound against "
        "Gaussian noise of the same scale",
        value=off,
        holds=off < 1e-9,
        remark="a bound only: the Laplace scale b is not its standard deviation (√2 b), and the linear "
        "attack's variance is twice the bound",
    )


CHECKS: tuple[Check, ...] = (
    spine_monotone,
    spine_update,
    three_forms,
    variational_form,
    static_case,
    inclusion,
    pseudo_inverse,
    kronecker,
    laplace,
)
