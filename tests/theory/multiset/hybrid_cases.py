"""Hybrid transcripts that the tests share, and the attack under the prior of the lower bound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import sightline as sl
from sightline.theory.attacks.model import exact_answers

PAIR, TRIPLE, FOUR = (-0.4, 0.7), (-0.5, 0.2, 0.8), (-0.7, -0.2, 0.3, 0.8)
STEPS = sl.Thresholds(bandwidth=0.3)


def zcdp(epsilon: float) -> sl.ZeroConcentrated:
    return sl.ZeroConcentrated(sl.Budget(epsilon=epsilon, delta=1e-5))


def splits_of(
    group: Sequence[float],
    *,
    target: int = 0,
    epsilon: float = 100.0,
    releases: int = 8,
    family: sl.Moments | sl.Thresholds = sl.Moments(),  # noqa: B008  # frozen
) -> sl.multiset.HybridSplits:
    """The splits of moments with IN and OUT, or of what is given instead."""
    return sl.multiset.HybridSplits(
        group=group, target=target, family=family, accountant=zcdp(epsilon), releases=releases
    )


def losses_under_the_prior(
    splits: sl.multiset.HybridSplits, features: int, partner: int, *, trials: int, window: float = 0.125
) -> np.ndarray:
    """Squared errors on the target of the joint maximum likelihood attack, under the prior of the bound.

    Each trial runs both labelings with the same offsets and the same noise, and takes their mean.
    """
    generator = np.random.default_rng(7)
    m, j = splits.group.size, splits.target
    transcript = splits.transcript(features)
    offsets = sl.labeled.CosineSquaredPrior(-window, window).sample((trials, m), generator=generator)
    values = np.clip(splits.group, window - 1, 1 - window) + offsets
    noise = transcript.law.sample(trials, generator=generator)
    exchanged = list(range(m))
    exchanged[j], exchanged[partner] = partner, j
    records = np.concatenate([values, values[:, exchanged]])
    answers = exact_answers(transcript, records) + np.tile(noise, (2, 1))
    found = sl.ConstrainedMLE(box=(-1.0, 1.0)).estimate(transcript, answers)
    guesses = found.values if found.unlabeled else found.values[:, [found.targets.index(j)]]
    losses = np.mean((guesses - records[:, [j]]) ** 2, axis=1)
    return np.asarray(np.mean(losses.reshape(2, -1), axis=0))
