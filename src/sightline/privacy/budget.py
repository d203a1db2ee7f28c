"""A privacy budget: the total cost that all releases together may have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sightline.errors import InvalidBudget, require


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    r"""The total :math:`(\epsilon_{\rm tot}, \delta_{\rm tot})` that all releases together may spend.

    A transcript :math:`M` meets the budget if
    :math:`\Pr[M(x) \in S] \le e^{\epsilon}\Pr[M(x') \in S] + \delta` for every event :math:`S` and every two
    neighbouring datasets :math:`x, x'`.

    >>> Budget(epsilon=1.0, delta=1e-5)
    Budget(epsilon=1.0, delta=1e-05)
    >>> Budget(epsilon=0.0, delta=1e-5)
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidBudget: expected a finite epsilon > 0, got 0.0
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = _number(self.epsilon, "epsilon")
        delta = _number(self.delta, "delta")
        require(
            math.isfinite(epsilon) and epsilon > 0, "a finite epsilon > 0", got=epsilon, error=InvalidBudget
        )
        require(
            0 < delta < 1,
            "delta strictly between 0 and 1",
            got=delta,
            fix="a common choice is far below one over the number of records",
            error=InvalidBudget,
        )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)


def _number(value: object, name: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidBudget(f"expected {name} to be a number, got {type(value).__name__}") from None
