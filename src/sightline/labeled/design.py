"""A membership design: subset means or sums over named records, the noise on them, and what they expose."""

from __future__ import annotations

from collections.abc import Iterable

from sightline.labeled.bounds.domain import prior_on
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.combination import SmallestCombination, combination
from sightline.labeled.contributions import Contributions, contributions
from sightline.labeled.description import LinearReleases
from sightline.labeled.exposures import Exposures, exposures
from sightline.labeled.knowledge import Known
from sightline.progress import Progress, reporting


class MembershipDesign(LinearReleases):
    r"""Releases :math:`y = A x + w` over N named records (``eq:lever1_linear_model``).

    ``rows`` is a table of 0s and 1s or of weights (releases × records), a scipy sparse array, or, with
    ``records=N``, lists of members. ``readout`` is "mean" or "sum"; weights are published as sums.
    ``noise`` is an accountant, which also needs ``radius``, the largest change of one record's value; or
    standard deviations, one for each row; or a covariance matrix; or a noise law. ``releases`` gives for
    each row the release that it is part of, for releases with many cells: their members must be disjoint,
    and the accountant counts them once. ``factors`` multiplies each published row, where the factor is
    neither that of a mean nor that of a sum.

    >>> design = MembershipDesign([[0, 1, 2, 3], [1, 2, 3]], records=5, noise=[0.3, 0.4])
    >>> found = design.exposures(domain=(0, 10))
    >>> found.identifiable.tolist()
    [True, False, False, False, False]
    >>> round(float(found.rmse[0]), 6)
    1.697056
    >>> found.recipe(0).round(6).tolist()
    [4.0, -3.0]
    """

    __slots__ = ()

    def exposures(
        self,
        *,
        domain: tuple[float, float] | None = None,
        prior: str | TargetPrior = "uniform",
        known: Iterable[int] | Known = (),
        device: str | None = None,
        progress: Progress | None = None,
    ) -> Exposures:
        """What the releases expose of every record that the attacker does not know.

        ``domain`` is the smallest and the largest value that a record can have. ``prior`` says how the values
        are spread over it, for the target and all other unknown records: "uniform", "cos2" or "two-point"; or
        it is a prior with a domain of its own, such as ``CoinPrior`` for yes and no. ``known`` are
        records whose values the attacker has; ``Known.ALL_OTHERS`` gives for each record all the others.
        ``device`` names an accelerator for the dense part, such as "cuda". ``progress`` is called with a
        stage and the share of it that is done.
        """
        placed = self if device is None else self.on(device)
        with reporting(progress):
            return exposures(placed, prior=prior_on(domain, prior), known=known)

    def combination(self, record: int, *, known: Iterable[int] = ()) -> SmallestCombination:
        """A smallest identifiable combination of records that a record is part of.

        >>> design = MembershipDesign([[0, 1], [1, 2], [3]], records=4, noise=[1.0] * 3, readout="sum")
        >>> found = design.combination(0)
        >>> found.records.tolist(), [int(value) for value in found.coefficients]
        ([0, 2], [1, -1])
        """
        return combination(self, record, known=known)

    def contributions(
        self,
        *,
        known: Iterable[int] = (),
        exposures: Exposures | None = None,
        progress: Progress | None = None,
    ) -> Contributions:
        """What each release adds to the exposure of the identifiable records.

        ``exposures`` are this design's for the same ``known``, if they have been computed: they say who is
        identifiable, which is then not decided again.
        """
        with reporting(progress):
            return contributions(self, known=known, found=exposures)
