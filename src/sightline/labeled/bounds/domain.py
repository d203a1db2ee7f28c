"""The priors of a number by name. A new prior is a file beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sightline.errors import require
from sightline.labeled.bounds.cosine import CosineSquaredPrior
from sightline.labeled.bounds.target import NumberPrior, TargetPrior
from sightline.labeled.bounds.two_point import TwoPointPrior
from sightline.labeled.bounds.uniform import UniformPrior

NUMBER_PRIORS: Mapping[str, Callable[[float, float], NumberPrior]] = MappingProxyType(
    {"uniform": UniformPrior, "cos2": CosineSquaredPrior, "two-point": TwoPointPrior}
)


def number_prior(name: str, low: float, high: float) -> NumberPrior:
    """The prior with this name between two bounds.

    >>> number_prior("cos2", 0.0, 2.0).name
    'cos2'
    """
    require(name in NUMBER_PRIORS, f"a prior among {', '.join(NUMBER_PRIORS)}", got=repr(name))
    return NUMBER_PRIORS[name](float(low), float(high))


def prior_on(domain: tuple[float, float] | None, prior: str | TargetPrior) -> TargetPrior:
    """A named prior between the smallest and the largest value, or a prior as it is, which has its domain."""
    if isinstance(prior, str):
        require(
            domain is not None,
            "domain=(low, high), the smallest and the largest value of a record",
            got="none",
        )
        assert domain is not None
        low, high = domain
        return number_prior(prior, low, high)
    require(domain is None, "either a domain or a prior that has its own", got=f"{domain} and {prior}")
    return prior
