"""Section IV and Appendices C–D: the sorted chart, the design law, moments, thresholds.

Section IV and Appendix C: the bound of a group under many releases, inside the domain and at its edge.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
from flint import fmpq, fmpq_mat

from sightline.arrays import FloatArray
from sightline.privacy.accountant import Accountant
from sightline.theory.attacks.inversion import invert_moments
from sightline.theory.geometry.transcript import Transcript
from sightline.theory.multiset.curve import chart_radius, matching_loss, release_curve
from sightline.theory.multiset.moments import (
    moment_crb_bound,
    moment_limit,
    moment_limit_trace,
    pair_crb,
    pair_crb_at_two,
    pair_step_ratio,
    scalar_crb,
    scalar_floor,
    scalar_step_ratio,
    scalar_stopping_scale,
    scalar_tail,
)
from sightline.theory.multiset.thresholds import Thresholds, dense_grid_matrix, threshold_trace_bound
from sightline.theory.paper.comparison import Check, Claim, claim
from sightline.theory.paper.published import BASIC, UNIFORM, ZCDP
from sightline.theory.releases.features import Moment


def sorted_chart(cases: int, generator: np.random.Generator) -> Claim:
    """The matching loss by trying all permutations."""
    largest = 0.0
    for _ in range(cases):
        m = int(generator.integers(2, 6))
        truth, estimate = generator.normal(size=(2, m))
        brute = min(float(np.sum((estimate - truth[list(order)]) ** 2)) for order in permutations(range(m)))
        largest = max(largest, abs(float(matching_loss(estimate, truth)) / brute - 1))
    moments = [Moment(order=order, members=range(4), bound=1.0) for order in range(1, 7)]
    transcript = Transcript(moments, noise=BASIC)
    values = generator.uniform(-1, 1, 4)
    change = max(
        float(np.max(np.abs(transcript.answers(values[list(order)]) - transcript.answers(values))))
        for order in permutations(range(4))
    )
    return claim(
        "prop:lever2_sorted_chart_main",
        "(i) The law of the answers is permutation-invariant; (iii) the matching loss is locally the squared "
        "error of the sorted values.",
        checked=f"{cases} random pairs of vectors against all permutations; six moments at all orders of "
        f"four values (largest change {change:.0e})",
        value=largest,
        quantity="largest relative difference of the two losses",
        holds=largest < 1e-12 and change < 1e-15,
        remark="(iii) holds everywhere, not only locally: for scalars sorting is the best matching "
        "(rearrangement inequality)",
    )


def sorted_coordinates(cases: int, generator: np.random.Generator) -> Claim:
    """Inside the chart's radius sorting is a fixed reordering; just outside it is not."""
    broken, crossed = 0, 0
    for case in range(cases):
        m = int(generator.integers(2, 7))
        values = generator.permutation(np.arange(-20, 21))[:m] / 4.0 * 10.0 ** (-(case % 4))
        order = np.argsort(values)
        radius = chart_radius(values)
        # Move by up to the radius; in every second case by almost the radius.
        size = radius * (1 - 2.0**-40) if case % 2 else radius * generator.random()
        move = size * generator.choice([-1.0, 1.0], m)
        moved = np.sort(values + move)
        broken += not np.array_equal(moved, (values + move)[order])
        # The sorted vector is equal within an orbit and different between orbits.
        broken += not np.array_equal(np.sort(generator.permutation(values)), np.sort(values))
        broken += np.array_equal(moved, np.sort(values)) and size > 0
        # Just beyond the radius the two nearest values change places.
        near = int(np.argmin(np.diff(values[order])))
        push = np.zeros(m)
        push[order[near]], push[order[near + 1]] = 1.001 * radius, -1.001 * radius
        crossed += not np.array_equal(np.sort(values + push), (values + push)[order])
    return claim(
        "prop:lever2_sorted_chart_main",
        "(ii) Away from collisions the sorted vector is a local chart of the quotient by permutations.",
        checked=f"{cases} random vectors, gaps over four orders of magnitude: for moves up to half the "
        "smallest gap, sorting is one fixed reordering; it gives the same vector for a whole orbit and "
        "different vectors for different orbits; "
        f"for moves just beyond, the order changes in {crossed} of {cases}",
        value=broken,
        quantity="vectors for which this fails",
        holds=broken == 0 and crossed == cases,
    )


def design_law(cases: int, generator: np.random.Generator) -> Claim:
    """The release curve against the general engine on the same transcript."""
    largest, ranks = 0.0, True
    for _ in range(min(cases, 40)):
        m = int(generator.integers(1, 5))
        # At least 0.08 apart: for nearly equal values both sides lose their digits.
        values = np.sort(generator.permutation(np.arange(-9, 10))[:m] / 10 + generator.uniform(0, 0.02, m))
        curve = release_curve(values, family=UNIFORM, accountant=BASIC, releases=range(1, m + 4))
        for i, L in enumerate(curve.releases.tolist()):
            moments = [
                Moment(order=order, members=range(m), bound=1.0, convention="uniform")
                for order in range(1, L + 1)
            ]
            geometry = Transcript(moments, noise=BASIC).geometry(at=values)
            ranks &= geometry.rank.rank == min(L, m)
            if m <= L:
                crb = geometry.profile(target=range(m)).crb
                largest = max(largest, abs(curve.crb[i] / crb - 1))
            else:
                ranks &= math.isinf(curve.crb[i])
    return claim(
        "thm:lever2_design_law",
        "CRB(L) = κ_L tr A_L⁻¹, finite iff A_L ≻ 0; moments of distinct values have rank min(L, m).",
        checked="random groups of 1 to 4 values, L = 1 … m + 3, against the general engine",
        value=largest,
        holds=largest < 1e-8 and ranks,
    )


def interior_limit(cases: int, generator: np.random.Generator) -> Claim:
    """The curve over kappa against the exact limit."""
    farthest, monotone = 0.0, True
    for _ in range(min(cases, 20)):
        m = int(generator.integers(1, 4))
        values = np.sort(generator.permutation(np.arange(-8, 9))[:m] / 10.0)
        curve = release_curve(values, family=UNIFORM, accountant=BASIC, releases=[m, 20, 100, 400])
        trace = curve.crb / curve.kappa
        monotone &= bool(np.all(np.diff(trace) <= 1e-12 * trace[:-1]))
        farthest = max(farthest, abs(float(trace[-1]) / moment_limit_trace(values, family=UNIFORM) - 1))
    limit = moment_limit([0.0, 0.5], family=UNIFORM)
    definite = float(np.linalg.eigvalsh(limit)[0]) > 0
    return claim(
        "prop:poly_interior_matrix",
        "Interior distinct values: A_L increases to A_∞ ≻ 0, and CRB(L) = Θ(κ_L).",
        checked="random groups in ±0.8: CRB/κ_L at L = 400 against tr A_∞⁻¹ in exact rationals",
        value=farthest,
        quantity="largest relative distance from the limit",
        holds=farthest < 1e-9 and monotone and definite,
    )


def scalar_forms(cases: int, generator: np.random.Generator) -> Claim:
    """Curve, floor, step ratio and tail of one value; the tail in exact fractions."""
    largest, below = 0.0, True
    for r in (0.1, 0.5, 0.8, 0.95):
        curve = release_curve([r], family=UNIFORM, accountant=BASIC, releases=range(1, 41)).crb
        formula = scalar_crb(r, family=UNIFORM, accountant=BASIC, releases=40)
        floor = scalar_floor(r, family=UNIFORM, accountant=BASIC, releases=40)
        steps = scalar_step_ratio(r, family=UNIFORM, accountant=BASIC, releases=39)
        below &= bool(np.all(floor <= formula * (1 + 1e-12)))
        q = Fraction(r) ** 2
        exact = (1 + q) / (1 - q) ** 3 - sum(ell**2 * q ** (ell - 1) for ell in range(1, 13))
        tail = float(scalar_tail(r, 12, family=UNIFORM))
        largest = max(
            largest,
            float(np.max(np.abs(curve / formula - 1))),
            float(np.max(np.abs(steps / (curve[1:] / curve[:-1]) - 1))),
            abs(tail / float(exact) - 1),
        )
    return claim(
        "eq:m1_crb",
        "One value: CRB = 4κ_L R²/T(L), its floor (eq:m1_floor), step ratio (eq:m1_stop_appendix) and tail.",
        checked="r = 0.1, 0.5, 0.8, 0.95, L = 1 … 40, against the general curve; the tail in exact fractions",
        value=largest,
        holds=largest < 1e-11 and below,
    )


def pair_forms(cases: int, generator: np.random.Generator) -> Claim:
    """The closed forms of a pair against the general curve."""
    largest, stops = 0.0, True
    for _ in range(min(cases, 60)):
        # At least 0.2 apart: the general curve, unlike the closed form, loses digits for close values.
        low = float(generator.uniform(-1, 0.8))
        pair = [low, float(generator.uniform(low + 0.2, 1))]
        curve = release_curve(pair, family=UNIFORM, accountant=BASIC, releases=range(2, 41))
        formula = pair_crb(pair, family=UNIFORM, accountant=BASIC, releases=40)
        steps = pair_step_ratio(pair, family=UNIFORM, accountant=BASIC, releases=39)
        at_two = pair_crb_at_two(pair, family=UNIFORM, accountant=BASIC)
        largest = max(largest, float(np.max(np.abs(curve.crb / formula - 1))), abs(at_two / formula[0] - 1))
        stops &= bool(np.all((steps >= 1) == (np.diff(formula) >= 0)))
    return claim(
        "eq:m2_crb",
        "A pair: closed-form CRB (eq:m2_fim), stopping comparison (eq:m2_stop) and L = 2 form (eq:m2_L2).",
        checked="random pairs, L = 2 … 40, against the general curve",
        value=largest,
        holds=largest < 1e-9 and stops,
        remark="with the table's sensitivities 2R^ℓ/m; the real-data panels use parity-tight ones, under "
        "which the L = 2 form is κ₂R²(R² + 16μ² + 16γ²)/(8γ²)",
    )


def inversion(cases: int, generator: np.random.Generator) -> Claim:
    """Invert exact moments."""
    pairs = np.sort(generator.uniform(-1, 1, (cases, 2)), axis=1)
    moments = np.stack([pairs.mean(axis=1), (pairs**2).mean(axis=1)], axis=1)
    values, _ = invert_moments(moments)
    largest = float(np.max(np.abs(values - pairs)))
    return claim(
        "eq:m2_estimator",
        "x̂ = y₁ ∓ √((y₂ − y₁²)₊) inverts the two noiseless moments.",
        checked=f"{cases} random pairs",
        value=largest,
        quantity="largest error",
        holds=largest < 1e-7,
        remark="to half the digits for close values, where y₂ − y₁² cancels",
    )


def boundary_growth(cases: int, generator: np.random.Generator) -> Claim:
    """T(L) at the boundary, in integer arithmetic."""
    L = 10**6
    total = L * (L + 1) * (2 * L + 1) // 6
    gain = [
        sum(ell**2 for ell in range(1, n + 1)) / BASIC.kappa(n) * math.log(1.25 * n / 1e-5) / n
        for n in (10**3, 10**4)
    ]
    return claim(
        "eq:Tj_poly_def",
        "|r| = 1: T(L) = Θ(L³) and T/κ_L = Θ(L/log L); |r| < 1: T(∞) = (1+r²)/(1−r²)³.",
        checked="Σℓ² at L = 10⁶; (T/κ_L)/(L/ln(1.25L/δ)) at L = 10³ and 10⁴: "
        + " and ".join(f"{value:.6f}" for value in gain),
        value=total / L**3,
        quantity="T(L)/L³ (limit 1/3)",
        holds=abs(total / L**3 - 1 / 3) < 1e-5 and abs(gain[1] / gain[0] - 1) < 0.01,
    )


def kernel_approximation(cases: int, generator: np.random.Generator) -> Claim:
    """The paper's Riemann-sum approximation, and its error near the edges."""
    family = Thresholds(bandwidth=0.12, convention="uniform")

    def misfit(*values: float) -> float:
        rows = family.rows(np.array([values]), 400)[0]
        kernel = dense_grid_matrix(values, family=family, edges=False)
        return float(np.max(np.abs(rows.T @ rows * family.spacing(400) - kernel)) / np.max(kernel))

    off, edge = misfit(-0.3, 0.1, 0.4), misfit(0.7, 0.85, 0.97)
    return claim(
        "subsec:lever2_threshold",
        "Interior values: (A_L)_ij ≈ K(z_i − z_j)/(4η_L).",
        checked="logistic steps of bandwidth 0.12, L = 400, values −0.3, 0.1, 0.4; K in closed form",
        value=off,
        quantity="largest difference over the largest entry",
        holds=off < 0.01,
        remark=f"near the edge the approximation is off by {edge:.0%} (0.7, 0.85, 0.97), as the paper warns",
    )


def logistic_trace(cases: int, generator: np.random.Generator) -> Claim:
    """The O(L) trace and the Ω(κ_L/L) bound for logistic steps; zCDP is flat."""
    family = Thresholds(bandwidth=0.12, convention="uniform")
    counts = [8, 32, 128, 512, 2048]
    triple = [-0.5, 0.0, 0.5]
    basic = release_curve(triple, family=family, accountant=BASIC, releases=counts)
    largest = max(
        float(np.sum(eigenvalues)) / threshold_trace_bound(L, members=3, family=family)
        for L, eigenvalues in zip(counts, basic.eigenvalues, strict=True)
    )
    flat = basic.under(ZCDP).crb
    plateau = float(flat[-1] / flat[-2] - 1)
    return claim(
        "app:logistic_smoothing",
        "Logistic steps: the same O(L) trace and Ω(κ_L/L) bound; linear accountants give a plateau.",
        checked=f"L = 8 … 2048; under zCDP the bound changes by {abs(plateau):.0e} from L = 512 to 2048",
        value=largest,
        quantity="largest tr A_L over its O(L) bound (must be ≤ 1)",
        holds=largest <= 1 and abs(plateau) < 1e-3,
    )


def _interior(generator: np.random.Generator, members: int) -> FloatArray:
    """Values in ±0.8 that are at least 0.1 apart: for closer values the curve loses its digits."""
    places = generator.permutation(np.arange(-16, 17, 3))[:members] / 20
    return np.sort(places + generator.uniform(0, 0.05, members)).clip(-0.8, 0.8)


def spectral_consequences(cases: int, generator: np.random.Generator) -> Claim:
    """Both regimes, and the bracket of the bound by the smallest eigenvalue, up to 1024 releases."""
    inside = [_interior(generator, 1 + case % 3) for case in range(max(6, cases // 4))]
    boundary = [np.array(values) for values in ([-1.0, 1.0], [1.0], [-1.0])]
    counts, bracket, diverge, vanish = [2**k for k in range(1, 11)], 0.0, True, True
    for accountant in (BASIC, ZCDP):
        for values in (*inside, *boundary):
            curve = release_curve(values, family=UNIFORM, accountant=accountant, releases=counts)
            finite = np.isfinite(curve.crb)
            weakest = curve.kappa[finite] / curve.eigenvalues[finite, -1]
            crb = curve.crb[finite]
            bracket = max(bracket, float(np.max(weakest / crb)), float(np.max(crb / weakest)) / len(values))
            if np.max(np.abs(values)) < 1:
                diverge &= bool(np.all(np.diff(crb[-3:]) > 0)) and 0 < curve.best < 1024
                diverge &= bool(np.all(np.diff(curve.growth.ratio[-3:]) < 0))
            else:
                vanish &= bool(np.all(np.diff(crb) < 0)) and bool(np.all(np.diff(curve.growth.ratio) > 0))
    return claim(
        "cor:lever2_spectral_consequences",
        "(i) λ_min = o(κ_L) makes the bound diverge, with a finite best L; (ii) it vanishes iff λ_min/κ_L → "
        "∞.",
        checked=f"{len(inside)} random interior groups of 1 to 3 values and {len(boundary)} groups at the "
        "boundary, basic composition and zCDP, to L = 1024: κ_L/λ_min ≤ CRB ≤ mκ_L/λ_min at every L; inside, "
        "CRB rises and λ_min/κ_L falls at the end; at the boundary CRB falls and λ_min/κ_L rises throughout",
        value=bracket,
        quantity="largest side of the bracket over the bound (must be ≤ 1)",
        holds=bracket <= 1 + 1e-9 and diverge and vanish,
    )


def mixed_regime(cases: int, generator: np.random.Generator) -> Claim:
    """Groups with values inside and at the boundary: some eigenvalues grow faster than κ_L, others slower."""
    groups = [
        np.sort(np.r_[_interior(generator, 1 + case % 2), [(-1.0,), (1.0,), (-1.0, 1.0)][case % 3]])
        for case in range(max(6, cases // 4))
    ]
    largest, agree = 0.0, True
    for values in groups:
        curve = release_curve(values, family=UNIFORM, accountant=BASIC, releases=[8, 512, 1024])
        ratios = curve.eigenvalues / curve.kappa[:, None]
        largest = max(largest, float(np.max(np.abs(np.sum(1 / ratios, axis=1) / curve.crb - 1))))
        change = ratios[-1] / ratios[-2]
        at_boundary = int(np.sum(np.abs(values) == 1))
        agree &= bool(np.all(change[:at_boundary] > 1) and np.all(change[at_boundary:] < 1))
        agree &= bool(curve.crb[-1] > curve.crb[-2])
    return claim(
        "rem:lever2_mixed_regime",
        "CRB = κ_L Σ 1/λ_k; one subcritical direction is enough to make it diverge.",
        checked=f"{len(groups)} random groups with one or two values at the boundary and one or two inside: "
        "from L = 512 to 1024 as many ratios λ/κ_L rise as values are at the boundary, the others fall, and "
        "the bound rises",
        value=largest,
        quantity="largest relative difference of bound and sum",
        holds=largest < 1e-8 and agree,
    )


def stopping_scale(cases: int, generator: np.random.Generator) -> Claim:
    r"""The best count of one value, against the root of the one-step condition.

    With :math:`c = 1/\ln(1/r^2)` and :math:`L = xc`, :math:`T(L) \approx c^3\gamma(3, x)`, where
    :math:`\gamma(3, x) = \int_0^x t^2 e^{-t} dt`. One more moment pays while :math:`x^3 e^{-x}/\gamma(3, x)`
    is above :math:`L(\kappa_{L+1}/\kappa_L - 1)`, which is 1 under zCDP, and 2 plus one over a logarithm
    under basic composition. So the best L over c tends to a constant, slowly under basic composition.
    """
    radii = 1 - 10 ** generator.uniform(-3.7, -2.3, max(8, cases // 10))
    largest, scales, best = 0.0, [], []
    for r in radii.tolist():
        scale = scalar_stopping_scale(r, family=UNIFORM)
        counts = np.arange(1, int(8 * scale) + 1)
        signal = BASIC.kappa(counts) / scalar_crb(r, family=UNIFORM, accountant=BASIC, releases=len(counts))
        for accountant in (BASIC, ZCDP):
            count = int(np.argmin(accountant.kappa(counts) / signal)) + 1
            largest = max(largest, abs(count / (_stopping_root(scale, accountant) * scale) - 1))
            if accountant is ZCDP:
                scales.append(math.log(scale))
                best.append(math.log(count))
    exponent = float(np.polyfit(scales, best, 1)[0])
    return claim(
        "app:poly_general_m",
        "Useful moment orders scale as 1/ln(1/r²), up to logarithmic factors.",
        checked=f"best L of one value at {len(radii)} random r from 0.995 to 0.9998, basic composition and "
        "zCDP, against the root of the limiting one-step condition times the scale; under zCDP, which has no "
        f"logarithm, the fitted exponent of the scale is {exponent:.4f}",
        value=largest,
        holds=largest < 0.01 and abs(exponent - 1) < 0.005,
    )


def _stopping_root(scale: float, accountant: Accountant) -> float:
    """The x at which one more moment gains as much as it costs, by bisection."""

    def gain(x: float) -> float:
        below = 2 - math.exp(-x) * (x * x + 2 * x + 2)  # γ(3, x)
        L = round(x * scale)
        cost = L * (accountant.kappa(L + 1) / accountant.kappa(L) - 1)
        return float(x**3 * math.exp(-x) / below - cost)

    low, high = 0.5, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle) > 0 else (low, middle)
    return low


def determinant_bound(cases: int, generator: np.random.Generator) -> Claim:
    """Both inequalities by exact determinants and traces; for one value they are equalities."""
    hadamard, amgm, equal = -math.inf, math.inf, 0.0
    for case in range(cases):
        m = 1 + case % 5
        L = m + int(generator.integers(0, 6))
        R = Fraction(int(generator.integers(1, 5)), 2)
        # Distinct rationals in ±R, the ends included; every third group has values a thousandth apart.
        step = Fraction(1, 1000) if case % 3 == 0 else Fraction(1, 12)
        places = generator.permutation(np.arange(-12, 13))[:m].tolist()
        ratios = [
            min(max(place * step + (Fraction(1, 2) if case % 3 == 0 else 0), -1), 1) for place in places
        ]
        W = fmpq_mat([[_fmpq(ell * ratio ** (ell - 1) / R) for ratio in ratios] for ell in range(1, L + 1)])
        gram = W.transpose() * W
        product = math.prod(_sum_of_squares(ratio**2, L) / R**2 for ratio in ratios)
        determinant = _fraction(gram.det())
        hadamard = max(hadamard, float(determinant / product) - 1)
        inverse = gram.inv()
        trace = sum(_fraction(inverse[k, k]) for k in range(m))
        ratio_of_means = float(trace) / m * math.exp(_log(determinant) / m)
        amgm = min(amgm, ratio_of_means - 1)
        if m == 1:
            equal = max(equal, abs(ratio_of_means - 1), abs(float(determinant / product) - 1))
    return claim(
        "prop:lever2_det_amgm",
        "det I_C(L) ≤ Π F(r_k², L)/(4κ_L R²)^m, and CRB(L) ≥ m/det(I_C(L))^{1/m}.",
        checked=f"{cases} random groups of 1 to 5 rational values, a third of them a thousandth apart, "
        "m ≤ L ≤ m + 5: determinants and traces in exact rational arithmetic; equality for one value",
        value=hadamard,
        quantity="largest det over its bound, less 1 (must be ≤ 0)",
        holds=hadamard <= 0 and amgm >= -1e-12 and equal < 1e-12,
    )


def interior_minimiser(cases: int, generator: np.random.Generator) -> Claim:
    """The sums stay below their limits, the lower bound diverges, and the best count is proven."""
    groups = [_interior(generator, 1 + case % 3) for case in range(max(6, cases // 8))]
    largest, proven, growth = 0.0, 0, math.inf
    for values in groups:
        for value in values.tolist():
            s = Fraction(value) ** 2
            limit = (1 + s) / (1 - s) ** 3
            largest = max(largest, max(float(_sum_of_squares(s, L) / limit) for L in (1, 5, 20)))
        bounds = [
            moment_crb_bound(values, family=UNIFORM, accountant=BASIC, releases=L) / L**2
            for L in (50, 300, 2000)
        ]
        growth = min(growth, bounds[1] / bounds[0], bounds[2] / bounds[1])
        curve = release_curve(values, family=UNIFORM, accountant=BASIC, releases=range(1, 121))
        proven += curve.best_is_global
    return claim(
        "cor:lever2_generalm_interior",
        "|r_k| < 1: F(r_k², L) ≤ (1+r_k²)/(1−r_k²)³, the bound diverges, and a finite minimiser exists.",
        checked=f"{len(groups)} random interior groups of 1 to 3 values: F in exact rational arithmetic; the "
        "determinant bound over L² rises from L = 50 to 300 to 2,000; for "
        f"{proven} groups the best L up to 120 is proven best of all L",
        value=largest,
        quantity="largest F over its limit (must be ≤ 1)",
        holds=largest <= 1 and growth > 1 and proven == len(groups),
    )


def _sum_of_squares(s: Fraction, L: int) -> Fraction:
    """F(s, L) = Σ ℓ² s^(ℓ−1), ℓ = 1 … L."""
    return sum((ell**2 * s ** (ell - 1) for ell in range(1, L + 1)), Fraction(0))


def _fmpq(value: Fraction) -> fmpq:
    return fmpq(value.numerator, value.denominator)


def _fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def _log(value: Fraction) -> float:
    """The logarithm of a positive rational of any size."""
    return math.log(value.numerator) - math.log(value.denominator)


CHECKS: tuple[Check, ...] = (
    sorted_chart,
    sorted_coordinates,
    design_law,
    boundary_growth,
    scalar_forms,
    interior_limit,
    pair_forms,
    inversion,
    kernel_approximation,
    logistic_trace,
    spectral_consequences,
    mixed_regime,
    stopping_scale,
    determinant_bound,
    interior_minimiser,
)
