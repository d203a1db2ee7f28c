r"""Section II and Appendix A: profiled information, one more release, the static case, BLUE, other noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

from sightline.arrays import FloatArray
from sightline.geometry.fisher import Geometry
from sightline.geometry.forms import Form, profiled_information
from sightline.geometry.lifting import lift
from sightline.geometry.transcript import Transcript
from sightline.labeled.inout import InOut
from sightline.noise.laws import GaussianNoise, LaplaceNoise
from sightline.numerics.decision import Decision
from sightline.paper.claim import Claim, claim
from sightline.releases.moment import Moment
from sightline.releases.subset_mean import SubsetMean

Check = Callable[[int, int], Claim]


def spine_monotone(cases: int, seed: int) -> Claim:
    """Append random rows to random transcripts, also where the nuisance block is singular."""
    generator = np.random.default_rng(seed)
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


def spine_update(cases: int, seed: int) -> Claim:
    """The rank-one identity and its equality case in rational arithmetic: nothing is rounded."""
    generator = np.random.default_rng(seed)
    broken = tried = 0
    while tried < cases:
        r, s = (int(generator.integers(1, 4)) for _ in range(2))
        rows = generator.integers(-4, 5, (r + s + 2, r + s))
        new = generator.integers(-4, 5, (1, r + s))
        old = _blocks(rows, r)
        if old[2].rank() < s:
            continue
        tried += 1
        grown = _blocks(np.vstack([rows, new]), r)
        a, b = _exact(new[:, :r].T), _exact(new[:, r:].T)
        inverse = old[2].inv()
        d = a - old[1] * inverse * b
        denominator = fmpq(1) + (b.transpose() * inverse * b)[0, 0]
        predicted = _schur(old) + d * d.transpose() * (fmpq(1) / denominator)
        gained = _schur(grown) - _schur(old)
        broken += predicted != _schur(grown) or (d.rank() == 0) != (gained.rank() == 0)
    return claim(
        "thm:spine",
        "With an invertible nuisance block the gain is d dᵀ/(1 + bᵀ I_ηη⁻¹ b), and nothing is gained iff d = "
        "0.",
        checked=f"{cases} random integer transcripts in exact rational arithmetic",
        value=broken,
        quantity="cases in which an equality fails",
        holds=broken == 0,
    )


def _exact(matrix: Any) -> fmpq_mat:
    return fmpq_mat([[fmpq(int(entry)) for entry in row] for row in matrix])


def _blocks(rows: Any, r: int) -> tuple[fmpq_mat, fmpq_mat, fmpq_mat]:
    theta, eta = _exact(rows[:, :r]), _exact(rows[:, r:])
    return theta.transpose() * theta, theta.transpose() * eta, eta.transpose() * eta


def _schur(blocks: tuple[fmpq_mat, fmpq_mat, fmpq_mat]) -> fmpq_mat:
    A, C, B = blocks
    return A - C * B.inv() * C.transpose()


def three_forms(cases: int, seed: int) -> Claim:
    """Projector in double precision against Schur and variational forms in ball arithmetic."""
    generator = np.random.default_rng(seed)
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
        quantity="largest relative difference",
        holds=largest < 1e-10,
    )


def static_case(cases: int, seed: int) -> Claim:
    """The same mean, and the same moment, many times."""
    generator = np.random.default_rng(seed)
    largest = 0
    for copies in (2, 5, 20):
        mean = SubsetMean(members=range(4), radius=1.0)
        moment = Moment(order=3, members=range(4), bound=1.0)
        for query in (mean, moment):
            geometry = Transcript([query] * copies, noise=generator.uniform(0.1, 1.0, copies)).geometry(
                at=generator.uniform(-1, 1, 4)
            )
            largest = max(largest, geometry.rank.rank)
    return claim(
        "eq:J_column_static",
        "Fully static releases are confined to a single observation-space direction.",
        checked="a mean and a third moment of four records, 2, 5 and 20 copies, unequal noise",
        value=largest,
        quantity="largest rank",
        holds=largest == 1,
    )


def inclusion(cases: int, seed: int) -> Claim:
    """Where the target's column is in the nuisance span, the information is exactly nothing."""
    members = range(51)
    exposure = (
        Transcript([SubsetMean(members=members, radius=1.0)] * 3, noise=[1.0] * 3)
        .geometry()
        .profile(target=0)
    )
    return claim(
        "cor:membership_necessity_s3",
        "If the target's range is in the nuisance range, its information is zero and the bound diverges.",
        checked="three copies of a mean of 51 records, target record 0, decided over the integers",
        value=float(exposure.information[0, 0]),
        quantity="profiled information",
        holds=exposure.identifiable is Decision.NO and math.isinf(exposure.crb),
    )


def pseudo_inverse(cases: int, seed: int) -> Claim:
    """``eq:mse_optimal_s4`` on an identifiable target and on one that is not."""
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


def kronecker(cases: int, seed: int) -> Claim:
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
        quantity="largest relative difference",
        holds=off < 1e-12,
    )


def laplace(cases: int, seed: int) -> Claim:
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
        quantity="largest relative difference",
        holds=off < 1e-9,
        remark="a bound only: the Laplace scale b is not its standard deviation (√2 b), and the linear "
        "attack's variance is twice the bound",
    )


CHECKS: tuple[Check, ...] = (
    spine_monotone,
    spine_update,
    three_forms,
    static_case,
    inclusion,
    pseudo_inverse,
    kronecker,
    laplace,
)
