r"""A short tour: one record, a mean with it and a mean without it, and three accountants.

It is the paper's IN/OUT family with a fixed background (``subsec:lever1_inout``). All copies of the two means
measure one contrast, and the best unbiased estimate of the target has mean squared error
:math:`4 \Delta^2 \kappa_L / L` (``eq:one_contrast_kappa_over_L``). The demo does not use that formula: it
computes its numbers by the general functions of ``sightline.geometry``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from sightline.format import number, parameter
from sightline.geometry.exposure import Exposure
from sightline.geometry.transcript import Transcript
from sightline.privacy.accountant import Accountant, Budget
from sightline.privacy.composition import BasicComposition
from sightline.privacy.concentrated import ZeroConcentrated
from sightline.privacy.gaussian_dp import GaussianDP
from sightline.releases.linear import SubsetMean

_BACKGROUND = 50
_RELEASES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """The results of the tour: what is exposed, by which recipe, and with which error per accountant."""

    background: int
    epsilon: float
    delta: float
    identifiable_from_in: str
    identifiable_from_in_and_out: str
    recipe: tuple[float, float]  # weights on one IN and one OUT answer
    # accountant -> number of releases -> error, in units of the value's range
    rmse: dict[str, dict[int, float]]


def tour() -> Tour:
    """Attack record 0 of 51 with noisy means that include it (IN) and leave it out (OUT), as many of each.

    Values have range 1, and each transcript has the whole budget. With more copies the error grows under
    basic composition and stays the same under the exact accountant:

    >>> result = tour()
    >>> result.identifiable_from_in, result.identifiable_from_in_and_out, result.recipe
    ('no', 'yes', (51.0, -50.0))
    >>> {releases: round(rmse, 2) for releases, rmse in result.rmse["basic composition"].items()}
    {2: 14.1, 4: 20.49, 8: 29.74, 16: 43.09, 32: 62.38}
    >>> {releases: round(rmse, 2) for releases, rmse in result.rmse["exact Gaussian"].items()}
    {2: 7.46, 4: 7.46, 8: 7.46, 16: 7.46, 32: 7.46}
    """
    budget = Budget(epsilon=1.0, delta=1e-5)
    accountants: dict[str, Accountant] = {
        "basic composition": BasicComposition(budget),
        "zero-concentrated": ZeroConcentrated(budget),
        "exact Gaussian": GaussianDP(budget),
    }
    exact = accountants["exact Gaussian"]
    pair = _exposure(1, 1, exact)
    assert pair.recipe is not None  # the rows of one IN and one OUT mean are independent
    weight_in, weight_out = pair.recipe[0].round(9).tolist()
    return Tour(
        background=_BACKGROUND,
        epsilon=budget.epsilon,
        delta=budget.delta,
        identifiable_from_in=_exposure(1, 0, exact).identifiable.value,
        identifiable_from_in_and_out=pair.identifiable.value,
        recipe=(weight_in, weight_out),
        rmse={
            name: {releases: _exposure(releases // 2, releases // 2, rule).rmse for releases in _RELEASES}
            for name, rule in accountants.items()
        },
    )


def _exposure(copies_in: int, copies_out: int, accountant: Accountant) -> Exposure:
    mean_in = SubsetMean(members=np.arange(_BACKGROUND + 1), radius=1.0)
    mean_out = SubsetMean(members=np.arange(1, _BACKGROUND + 1), radius=1.0)
    transcript = Transcript((mean_in,) * copies_in + (mean_out,) * copies_out, noise=accountant)
    return transcript.geometry().profile(target=0)


_QUESTIONS = """\
{total} records. The releases are noisy means of two kinds:
  IN   the mean of all {total}
  OUT  the mean of the {background} without record 0

[bold]What is exposed[/] depends on the queries. Can record 0 be told apart from the others?
  from IN alone     {identifiable_from_in}
  from IN and OUT   {identifiable_from_in_and_out}: record 0 = {weight_in} x IN - {weight_out} x OUT

[bold]How sharply[/] depends on the noise. This is the root-mean-square error of the best unbiased
reconstruction of record 0, for values of range 1 and a total budget of
epsilon = {epsilon}, delta = {delta}:

"""

_MEANING = """\
More copies of the same two means expose nothing new. Under basic composition each copy
adds so much noise that the error grows; under the other two it stays the same. An error
above 0.5 is worse than guessing the middle of the range. These errors hold for unbiased
attacks: they are a benchmark, not a privacy guarantee.
"""


def print_tour(result: Tour, screen: Console) -> None:
    """Print the tour as a short text with one table."""
    weight_in, weight_out = result.recipe
    words = {
        **asdict(result),
        "total": result.background + 1,
        "weight_in": number(weight_in),
        "weight_out": number(-weight_out),
        "epsilon": parameter(result.epsilon),
        "delta": parameter(result.delta),
    }
    table = Table("releases", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    for accountant in result.rmse:
        table.add_column(accountant, justify="right")
    for releases in next(iter(result.rmse.values())):
        table.add_row(str(releases), *(f"{errors[releases]:.2f}" for errors in result.rmse.values()))
    for line in _QUESTIONS.format(**words).splitlines():
        screen.print(line, soft_wrap=True)
    screen.print(table)
    screen.print()
    for line in _MEANING.splitlines():
        screen.print(line, soft_wrap=True)
