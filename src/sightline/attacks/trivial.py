"""The attack that ignores the answers: the best guess before any release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.attacks.estimates import AttackStatus, Estimates, host_answers
from sightline.attacks.group import one_group, touched
from sightline.attacks.prior import PriorDensity, order_means
from sightline.geometry.transcript import Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Trivial:
    """Guess the prior mean of every record, or the expected order statistics of an unlabelled group.

    An attack without a smaller risk has learned nothing. Every simulation also reports this risk.

    >>> from sightline import Moment, Transcript
    >>> from sightline.labeled.bounds.uniform import UniformPrior
    >>> transcript = Transcript([Moment(order=2, members=range(2), bound=1.0)], noise=[1.0])
    >>> Trivial(prior=UniformPrior(-1.0, 1.0)).estimate(transcript, [0.3]).values.round(6).tolist()
    [[-0.333333, 0.333333]]
    """

    prior: PriorDensity

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """The same guess for every trial."""
        trials = len(host_answers(transcript, answers))
        targets = touched(transcript)
        unlabeled = one_group(transcript)
        guess = trivial_guess(self.prior, targets, unlabeled=unlabeled)
        return Estimates(
            values=np.tile(guess, (trials, 1)),
            targets=targets,
            unlabeled=unlabeled,
            status=np.full(trials, AttackStatus.SOLVED),
        )


def trivial_guess(prior: PriorDensity, targets: Sequence[int], *, unlabeled: bool) -> FloatArray:
    """The best guess without answers, by squared loss."""
    return order_means(prior, len(targets)) if unlabeled else np.full(len(targets), prior.mean)
