"""The shipped tables: the same as computed anew, and below the true risk at every node."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from flint import acb, arb, ctx

from sightline.bounds import scalar_risk
from tests.bounds.test_scalar_risk import uniform_answer
from tools import risk_tables
from tools.risk_tables import computed

STORED = {
    "uniform": lambda: scalar_risk.uniform_table().deficits,
    "cos2": lambda: scalar_risk.cosine_table().deficits,
    "two_point": lambda: scalar_risk.two_point_table().deficits,
    "uniform_laplace": lambda: scalar_risk.uniform_laplace_table().values,
    "cos2_laplace": lambda: scalar_risk.cosine_laplace_table().values,
}


@pytest.mark.thorough
def test_the_file_is_what_the_integrals_give() -> None:
    found = computed()
    assert found.keys() == STORED.keys()
    for name, values in found.items():
        assert np.allclose(STORED[name](), values, rtol=1e-11, atol=0), name


def test_the_grids_reach_where_they_should() -> None:
    for grid, most in (
        (scalar_risk.DENSITY_GRID, 1e4),
        (scalar_risk.TWO_POINT_GRID, 4e3),
        (scalar_risk.LAPLACE_GRID, 1e6),
    ):
        nodes = grid.nodes()
        assert nodes[0] == grid.least
        assert most <= nodes[-1] < most * grid.ratio**2
        assert np.allclose(np.diff(np.log(nodes)), math.log(grid.ratio), rtol=1e-9)


def risk_ball(information: float, answer: Callable[[acb, arb], tuple[acb, acb]]) -> arb:
    r"""risk = s² − s⁴ ∫ p'²/p (Tweedie), in balls; what lies beyond the reach lowers it by the tail."""
    s = 1 / arb(information).sqrt()

    def integrand(y: acb, _: bool) -> acb:
        density, slope = answer(y, s)
        return slope**2 / density

    reach, far = 9.0, 0.5 + 9.0 * float(s)
    pieces = np.linspace(0, far, 5).tolist()
    total = sum((acb.integral(integrand, a, b).real for a, b in itertools.pairwise(pieces)), arb(0))
    # Beyond: s⁴ ∫ p'²/p ≤ ∫ E[(y − x)² | y] p dy, at most s² times the tail of t² under the normal density.
    tail = 2 * (reach * math.exp(-(reach**2) / 2) / math.sqrt(2 * math.pi) + math.exp(-(reach**2) / 2))
    return s**2 - s**4 * 2 * total - s**2 * arb(0).union(arb(tail))


def two_point_ball(information: float) -> arb:
    r"""¼ e^{−G/8} E sech(√G t/2), in balls; the integrand is positive, so a finite reach is a lower bound."""
    g = arb(information).sqrt()

    def integrand(t: acb, _: bool) -> acb:
        return (-(t**2) / 2).exp() / (g * t / 2).cosh()

    total = sum((acb.integral(integrand, a, a + 3).real for a in (0, 3, 6, 9)), arb(0))
    return total * 2 / (2 * arb.pi()).sqrt() * (-(g**2) / 8).exp() / 4


@pytest.mark.slow
@pytest.mark.parametrize("step", [20, pytest.param(1, marks=pytest.mark.thorough)])
def test_every_node_of_a_coin_lies_below_a_ball_of_its_risk_and_close(step: int) -> None:
    nodes, deficits = scalar_risk.TWO_POINT_GRID.nodes().tolist(), STORED["two_point"]().tolist()
    for node, deficit in zip(nodes[::step], deficits[::step], strict=True):
        with ctx.workprec(90):
            ball, stored = two_point_ball(node), 1 / (arb(node) + arb(deficit))
            assert stored <= ball.lower(), node
            # Where the risk is far below 1/G, the deficit 1/f − G is all of 1/f.
            assert stored >= ball.upper() * (1 - 2e-9), node


@pytest.mark.thorough
def test_nodes_of_a_uniform_value_lie_below_a_ball_of_its_risk_and_close() -> None:
    """Some nodes: a ball takes a third of a second. The next test has all of them, without balls."""
    nodes, deficits = scalar_risk.DENSITY_GRID.nodes(), STORED["uniform"]()
    for place in range(1200, nodes.size, 170):
        with ctx.workprec(90):
            ball = risk_ball(float(nodes[place]), uniform_answer)
            stored = 1 / (arb(float(nodes[place])) + arb(float(deficits[place])))
            assert stored <= ball.lower(), place
            assert stored >= ball.upper() * (1 - 2e-9), place


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "cos2"])
def test_every_node_of_a_density_lies_below_a_finer_quadrature_and_close(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, masses = np.polynomial.legendre.leggauss(110)
    for setting, value in {"_POINTS": points, "_MASSES": masses, "_STEP": 0.3, "_REACH": 10.0}.items():
        monkeypatch.setattr(risk_tables, setting, value)
    risk = {"uniform": risk_tables.uniform_risk, "cos2": risk_tables.cosine_risk}[name]
    nodes = scalar_risk.DENSITY_GRID.nodes()
    finer, stored = risk(nodes), 1 / (nodes + STORED[name]())
    assert np.all(stored <= finer * (1 - 1e-10))
    assert np.all(stored >= finer * (1 - 2e-9))


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["uniform_laplace", "cos2_laplace"])
def test_the_laplace_tables_against_a_finer_quadrature(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points, masses = np.polynomial.legendre.leggauss(110)
    monkeypatch.setattr(risk_tables, "_LAPLACE_POINTS", points)
    monkeypatch.setattr(risk_tables, "_LAPLACE_MASSES", masses)
    risk = {
        "uniform_laplace": risk_tables.uniform_laplace_risk,
        "cos2_laplace": risk_tables.cosine_laplace_risk,
    }
    nodes = scalar_risk.LAPLACE_GRID.nodes()
    finer, stored = risk[name](nodes), STORED[name]()
    assert np.all(stored <= finer)
    assert np.all(stored >= finer * (1 - 2e-9))


def test_the_next_node_is_what_a_search_finds() -> None:
    for grid in (scalar_risk.DENSITY_GRID, scalar_risk.TWO_POINT_GRID, scalar_risk.LAPLACE_GRID):
        nodes = grid.nodes()
        drawn = np.exp(np.random.default_rng(1).uniform(np.log(1e-6), np.log(1e8), 20_000))
        edges = np.concatenate([nodes, np.nextafter(nodes, 0), np.nextafter(nodes, np.inf), [0.0, np.inf]])
        for information in (drawn, edges):
            found = scalar_risk.next_node(nodes, information)
            assert np.array_equal(found, np.searchsorted(nodes, information))
