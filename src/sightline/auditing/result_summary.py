"""The first screen of a result: what the sharpest attack knows before and after, slack, and accuracy."""

from __future__ import annotations

from typing import Annotated, Literal

from sightline.auditing.result_part import Many, ResultPart, Uncertainty


class SharpestView(ResultPart):
    r"""What an attacker knows of the most exposed record's value, in the secret's own units.

    An error is a root mean squared error over the prior and the noise. Before the releases it is the prior's
    standard deviation :math:`s`; after them that of the best attack is between :math:`s` times the square
    roots of the two ends of the remaining uncertainty.

    A yes or no is guessed right with probability :math:`\max(\pi, 1 - \pi)` if its posterior is :math:`\pi`.
    The posterior variance is :math:`V = E[\pi(1 - \pi)]`, and :math:`E \min(\pi, 1-\pi) \ge (1 - \sqrt{1 -
    4V})/2`, since :math:`m(1-m)` is increasing and concave in :math:`m = \min(\pi, 1-\pi)`.
    """

    of: Literal["value", "rows"]  # a value, or a combination of a record's rows, scaled like one row
    before: float  # the error of the best guess without the releases
    after_lower: float  # no attack has a smaller one, on average over the prior
    after_upper: float  # the best attack has no larger one
    right_before: float | None = None  # of a yes or no, or of one category: how often the best guess is right
    right_after: float | None = None  # and with the releases, at most
    text: str


class NoiseSlack(ResultPart):
    """By how much all noise can change so that the limit still holds on average over the prior.

    The audit was repeated at this factor, and at this epsilon; what it checks at the true values was not.
    """

    holds: bool  # whether the limit holds with the noise as it is, as far as noise decides it
    noise_factor: float | None  # below 1: there is slack; above: it is needed; none: no factor is enough
    epsilon: float | None  # the largest budget with which it holds; none if the budget does not set all noise
    text: str


class Comparison(ResultPart):
    """What changed since the last audit. Only what is publishable is compared, apart from the keys."""

    comparable: bool  # whether both audits ask the same question: the same secret, record, domain and prior
    status_before: str | None  # of the verdict; none without a limit
    status_after: str | None
    below_before: int
    below_after: int
    least_before: Uncertainty | None
    least_after: Uncertainty | None
    newly_below: Annotated[tuple[str, ...], Many]  # keys, if both audits name and list everyone: owner-only
    no_longer_below: Annotated[tuple[str, ...], Many]
    lines: Annotated[tuple[str, ...], Many]  # the changes in words; none if nothing changed

    def publishable(self) -> Comparison:
        """The comparison without the keys of persons."""
        return self.model_copy(update={"newly_below": (), "no_longer_below": ()})


class NoiseOfRange(ResultPart):
    """The noise of a release's numbers over the range that each can have, as a share."""

    median: float
    worst: float


class ReleaseAccuracy(ResultPart):
    """How accurate a release is at the true values. Owner-only."""

    median_relative_error: float  # the noise over the number itself, at the median number of the release
    worst_relative_error: float
    noise_over_spread: float | None  # over the standard deviation of its numbers; none if it has one number
