r"""``tab:accountant_scaling_main``: fit the growth of :math:`\kappa_L` and of the risk :math:`\kappa_L/L`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.paper.comparison import Claim, Effort, Line, Table, claim
from sightline.paper.drawing import panel
from sightline.paper.published import BASIC, BUDGET, ZCDP
from sightline.privacy.accountant import Accountant
from sightline.privacy.concentrated import Renyi
from sightline.privacy.gaussian_dp import GaussianDP
from sightline.progress import reported

LABEL = "tab:accountant_scaling_main"
RELEASES = tuple(2**k for k in range(1, 21))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthFit:
    r"""The least-squares fit of :math:`\ln\kappa_L = c + p \ln L + q \ln\ln(1.25 L/\delta)`."""

    accountant: str
    kappa: Line
    power: float
    log_power: float
    misfit: float  # largest absolute residual of the logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One fit for each accountant; the last is not in the paper's table."""

    growths: tuple[GrowthFit, ...]


def compute(_effort: Effort) -> Result:
    """Fit the growth of every accountant's kappa."""
    accountants: dict[str, Accountant] = {
        "Basic Composition": BASIC,
        "zCDP": ZCDP,
        "RDP, order 64": Renyi(BUDGET, order=64),
        "exact Gaussian": GaussianDP(BUDGET),
    }
    return Result(growths=tuple(_fit(*pair) for pair in reported(tuple(accountants.items()))))


def _fit(name: str, accountant: Accountant) -> GrowthFit:
    L = np.array(RELEASES, dtype=np.float64)
    kappa = np.array(accountant.kappa(RELEASES))
    design = np.stack([np.ones_like(L), np.log(L), np.log(np.log(1.25 * L / BUDGET.delta))], axis=1)
    fitted, *_ = np.linalg.lstsq(design, np.log(kappa), rcond=None)
    residual = np.log(kappa) - design @ fitted
    return GrowthFit(
        accountant=name,
        kappa=Line.of(name, x=L, y=kappa),
        power=float(fitted[1]),
        log_power=float(fitted[2]),
        misfit=float(np.max(np.abs(residual))),
    )


def draw(result: Result) -> dict[str, Any]:
    """The risk κ_L/L, relative to two releases."""
    return {
        "growth": panel(
            [
                Line.of(kappa.name, x=kappa.x, y=[k / L * 2 / kappa.y[0] for L, k in kappa.points])
                for kappa in (growth.kappa for growth in result.growths)
            ],
            title="Risk of the one contrast, κ_L/L",
            subtitle="relative to two releases",
            y_title="κ_L/L over κ₂/2",
            x_log=True,
        )
    }


def tables(result: Result) -> tuple[Table, ...]:
    """The paper's table with fitted exponents."""
    rows = tuple(
        (
            growth.accountant,
            _powers(growth.power, growth.log_power),
            _powers(growth.power - 1, growth.log_power),
            f"{growth.misfit:.1e}",
            "flat" if abs(growth.power - 1) < 1e-6 else "worse",
        )
        for growth in result.growths
    )
    heading = ("accountant", "κ_L ∝", "risk κ_L/L ∝", "misfit of ln κ_L", "effect of copies")
    return (Table(heading=heading, rows=rows),)


def _powers(power: float, log_power: float) -> str:
    """Write the two factors; adding 0.0 removes the sign of a zero."""
    return f"L^{round(power, 4) + 0.0:.4f} · ln(1.25L/δ)^{round(log_power, 4) + 0.0:.4f}"


def claims(result: Result) -> tuple[Claim, ...]:
    """The two rows of the table."""
    by_name = {growth.accountant: growth for growth in result.growths}
    basic = by_name["Basic Composition"]
    linear = [growth for name, growth in by_name.items() if name == "zCDP" or name.startswith("RDP")]
    return (
        claim(
            LABEL,
            "Basic Composition: κ_L = Θ(L² log L), risk Θ(L log L), copies make it worse.",
            checked=f"least squares of ln κ_L over ln L and ln ln(1.25L/δ), L = 2 … {basic.kappa.x[-1]:g}",
            value=basic.power,
            quantity=f"fitted power of L (and {basic.log_power:.6f} of the logarithm)",
            holds=abs(basic.power - 2) < 1e-6 and abs(basic.log_power - 1) < 1e-6,
        ),
        claim(
            LABEL,
            "Linear zCDP/RDP: κ_L = Θ(L), risk Θ(1), copies leave it flat.",
            checked="the same fit",
            value=max(abs(growth.power - 1) for growth in linear),
            quantity="largest distance of the fitted power from 1",
            holds=all(abs(growth.power - 1) < 1e-6 and abs(growth.log_power) < 1e-6 for growth in linear),
            remark="so does exact Gaussian composition, which the table does not list, with less noise",
        ),
    )


TITLE = "Accountants in the same one-contrast geometry, with fitted growth"
ABOUT = "κ_L and κ_L/L, fitted by a power of L times a power of the logarithm."
