"""What each limit would cost: a quick design and a common factor for a handful of limits."""

from __future__ import annotations

from dataclasses import replace

from sightline.designing.choice import common_guess, quick_noise
from sightline.designing.proposal import certified, certified_common
from sightline.designing.result import TradeOff
from sightline.designing.targets import targets_of
from sightline.designing.task import DesignTask, Loss
from sightline.progress import Progress

_LIMITS = (0.1, 0.25, 0.5, 0.75, 0.9)


def trade_off(task: DesignTask, *, designed: float, common: float, watch: Progress) -> tuple[TradeOff, ...]:
    """The losses for a handful of limits, each design audited; limits that no noise keeps are left out.

    ``designed`` and ``common`` are the losses at the task's own limit. None for the largest error, whose
    search is by audits alone.
    """
    if task.loss is Loss.LARGEST:
        return ()
    limits = sorted({*_LIMITS, task.limit})
    points = []
    for place, limit in enumerate(limits):
        watch("trying other limits", place / len(limits))
        if limit == task.limit:
            points.append(TradeOff(limit=limit, loss_designed=designed, loss_with_common_factor=common))
            continue
        other = replace(task, limit=limit)
        targets = targets_of(other)
        chosen = quick_noise(other, targets)
        proof = None if chosen is None else certified(other, other.factors(chosen.optimum.x))
        rival = certified_common(other, common_guess(other, targets))
        if proof is not None and rival is not None:
            losses = other.total(proof.stddevs), other.total(rival.stddevs)
            least = min(losses) if rival.audits else losses[0]  # an estimate is no design
            points.append(TradeOff(limit=limit, loss_designed=least, loss_with_common_factor=losses[1]))
    return tuple(points)
