"""What a prior must say about itself. A new prior is a file beside this one, and a line where it is named."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sightline.arrays import FloatArray


@runtime_checkable
class RecordPrior(Protocol):
    """What an attacker believes of one record's value before any release. Records are independent."""

    @property
    def width(self) -> float:
        """The length of the interval of possible values."""

    @property
    def variance(self) -> float:
        """v: the risk of an attacker who saw nothing."""

    @property
    def fisher_information(self) -> float:
        """J, as in van Trees' inequality; infinite if there is no smooth density."""

    @property
    def entropy_power(self) -> float:
        """N: the variance of the Gaussian with the same entropy; zero if there is no density."""

    def group_bound(self, information: FloatArray, group_size: FloatArray | float = 1.0) -> FloatArray:
        r"""Lower bound on the risk over v under Gaussian noise, for a record in a group with one signature.

        It must hold even if all records outside the group are known. ``information`` is :math:`G_{jj}`.
        """

    def bound_by_loss(self, loss: FloatArray, group_size: FloatArray | float = 1.0) -> FloatArray:
        r"""Lower bound on the risk over v after a pure privacy loss of ``loss``, for Laplace noise.

        Zero where the prior offers none.
        """
