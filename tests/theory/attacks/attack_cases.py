"""Transcripts and printed numbers that the tests of the attacks share."""

from __future__ import annotations

from typing import Any

import numpy as np

import sightline as sl

INTERIOR, BOUNDARY = (-0.4, 0.7), (-1.0, 0.5)
BUDGETS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)

# fig:mle as printed: bound, then mean and half-width of the 95 % interval over 5,000 trials.
PRINTED_CRB = {
    INTERIOR: (1512.05010262, 378.012525656, 94.503131414, 15.1205010262, 3.78012525656, 0.94503131414),
    BOUNDARY: (1237.3975236, 309.349380899, 77.3373452248, 12.373975236, 3.09349380899, 0.773373452248),
}
PRINTED_INVERSION = {
    INTERIOR: (
        (758.098807191, 29.4232560201),
        (198.672405483, 7.61327994084),
        (52.3750213105, 2.04245381006),
        (8.49175377876, 0.296832882915),
        (2.495674019, 0.0793732216582),
        (0.841862227566, 0.0220364404881),
    ),
    BOUNDARY: (
        (786.111180395, 30.405790936),
        (203.26639483, 8.13475990944),
        (51.8234374818, 1.91716322233),
        (8.86980681204, 0.308057555463),
        (2.67745549761, 0.0797258819451),
        (0.920847592235, 0.027095507463),
    ),
}
PRINTED_MLE = {
    INTERIOR: (
        (2.03999690294, 0.0271198380377),
        (1.98570454185, 0.0271135592351),
        (1.89587227926, 0.0273744816724),
        (1.62433406751, 0.0270958418823),
        (1.22700316613, 0.0247829049459),
        (0.694509561189, 0.0163443026913),
    ),
    BOUNDARY: (
        (2.61430157626, 0.0327276816567),
        (2.57852451799, 0.0331111438652),
        (2.48708843804, 0.0336331268468),
        (2.15192435002, 0.0345525223308),
        (1.68275615055, 0.0333859429097),
        (0.931871048787, 0.0247573997256),
    ),
}


def moments(epsilon: float, *, releases: int = 2, members: int = 2) -> sl.Transcript:
    """The paper's experiment: basic composition, delta = 1e-5, R = 1, the sensitivities of its table."""
    queries = [
        sl.Moment(order=order, members=range(members), bound=1.0, convention="uniform")
        for order in range(1, releases + 1)
    ]
    return sl.Transcript(queries, noise=sl.BasicComposition(sl.Budget(epsilon=epsilon, delta=1e-5)))


def thresholds(stddev: float, *, kernel: Any = "logistic", members: int = 3) -> sl.Transcript:
    queries = [
        sl.SmoothThreshold(at=at, members=range(members), bound=1.0, bandwidth=0.4, kernel=kernel)
        for at in (-0.8, -0.4, 0.0, 0.4, 0.8)
    ]
    return sl.Transcript(queries, noise=[stddev] * len(queries))


def in_out(background: int = 3, *, copies: int = 1, noise: Any = None) -> sl.Transcript:
    """A mean with record 0 and a mean without it, each published ``copies`` times."""
    whole = sl.SubsetMean(members=range(background + 1), radius=1.0)
    without = sl.SubsetMean(members=range(1, background + 1), radius=1.0)
    queries = [whole] * copies + [without] * copies
    return sl.Transcript(queries, noise=np.full(2 * copies, 0.05) if noise is None else noise)


def triangle(noise: Any = None) -> sl.Transcript:
    """Three pairwise sums of three records: everything is identifiable, and every answer is needed."""
    queries = [sl.SubsetSum(members=pair, radius=1.0) for pair in ((0, 1), (0, 2), (1, 2))]
    return sl.Transcript(queries, noise=[0.2, 0.3, 0.4] if noise is None else noise)


def noisy(transcript: sl.Transcript, records: Any, trials: int, *, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return transcript.answers(records) + transcript.law.sample(trials, generator=generator)


LINEAR_ATTACKS = (
    sl.Blue(),
    sl.attacks.LinearBayes(prior=sl.labeled.CosineSquaredPrior(-1.0, 1.0)),
)
MULTISET_ATTACKS = (
    sl.attacks.MomentInversion(),
    sl.ConstrainedMLE(),
)
EVERY_ATTACK = [(attack, triangle(), (0.3, -0.2, 0.6)) for attack in LINEAR_ATTACKS] + [
    (attack, moments(5.0), INTERIOR) for attack in MULTISET_ATTACKS
]
