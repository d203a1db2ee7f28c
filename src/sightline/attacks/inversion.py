r"""Algebraic inversion: the values whose first m moments equal the noisy answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.attacks.estimates import AttackStatus, Estimates, host_answers
from sightline.errors import require
from sightline.releases.moment import Moment

if TYPE_CHECKING:  # the search runs on accelerators too, without FLINT, which transcripts need
    from sightline.geometry.transcript import Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentInversion:
    r"""Solve :math:`\frac1m\sum_k u_k^\ell = y_\ell`, :math:`\ell = 1, \ldots, m`, and sort.

    Newton's identities turn power sums into the coefficients of the polynomial whose roots are the values.
    For two values, :math:`\hat x = y_1 \mp \sqrt{(y_2 - y_1^2)_+}` (``eq:m2_estimator``). If no
    real values have the noisy moments, some roots are complex; their real parts are returned, and the status
    of the trial says so. The attack ignores the domain, the noise and all moments after the first m.

    >>> from sightline import Transcript
    >>> moments = [Moment(order=order, members=range(3), bound=1.0) for order in (1, 2, 3)]
    >>> transcript = Transcript(moments, noise=[0.1] * 3)
    >>> estimates = MomentInversion().estimate(transcript, transcript.answers([0.5, -0.25, 0.75]))
    >>> estimates.values.round(9).tolist()
    [[-0.25, 0.5, 0.75]]
    """

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """Sorted values for every trial."""
        checked = host_answers(transcript, answers)
        members, places = _moments(transcript)
        values, real = invert_moments(checked[:, places])
        status = np.where(real, AttackStatus.SOLVED, AttackStatus.NO_REAL_SOLUTION)
        return Estimates(values=values, targets=members, unlabeled=len(members) > 1, status=status)


def invert_moments(moments: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    r"""Sorted values with the moments :math:`1, \ldots, m` of each row, and whether they are real.

    >>> values, real = invert_moments(np.array([[0.15, 0.325], [0.5, 0.0]]))
    >>> values.round(9).tolist(), real.tolist()
    ([[-0.4, 0.7], [0.5, 0.5]], [True, False])
    """
    trials, m = moments.shape
    if m == 2:  # the paper's closed form (eq:m2_estimator)
        square = moments[:, 1] - moments[:, 0] ** 2
        half = np.sqrt(np.maximum(square, 0.0))
        return np.stack([moments[:, 0] - half, moments[:, 0] + half], axis=1), square >= 0
    p = m * moments
    e = np.ones((trials, m + 1))  # elementary symmetric polynomials
    for k in range(1, m + 1):
        signs = (-1.0) ** np.arange(k)
        e[:, k] = np.sum(signs * e[:, k - 1 :: -1][:, :k] * p[:, :k], axis=1) / k
    companion = np.zeros((trials, m, m))
    companion[:, np.arange(1, m), np.arange(m - 1)] = 1.0
    companion[:, 0, :] = -((-1.0) ** np.arange(1, m + 1)) * e[:, 1:]
    roots = np.linalg.eigvals(companion)
    real: NDArray[np.bool_] = np.all(np.abs(roots.imag) == 0, axis=1)
    values: FloatArray = np.sort(roots.real, axis=1)
    return values, real


def _moments(transcript: Transcript) -> tuple[tuple[int, ...], list[int]]:
    """The group, and the places of its moments 1, …, m among the answers."""
    orders: list[int] = []
    members = transcript.queries[0].members
    for query in transcript.queries:
        one_group = query.outputs == 1 and query.dimension == 1 and np.array_equal(query.members, members)
        require(one_group, "moments of one group of scalar records", got="releases of different members")
        orders.append(query.order if isinstance(query, Moment) else 0)
    missing = [order for order in range(1, len(members) + 1) if order not in orders]
    require(
        not missing,
        f"moments 1 to {len(members)} of {len(members)} values",
        got=f"a transcript without moment {missing[:1]}",
        fix="use ConstrainedMLE, which fits any releases",
    )
    return tuple(members.tolist()), [orders.index(order) for order in range(1, len(members) + 1)]
