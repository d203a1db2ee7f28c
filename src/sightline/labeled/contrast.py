r"""One contrast: the profiled information where the nuisance records are interchangeable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput, require
from sightline.labeled.description import LinearReleases
from sightline.releases.query import whole_number

# Entries of G that differ by less than this, relative to the largest, are equal up to rounding.
_EQUAL = 1e-10
# Signatures whose inner products are compared one by one.
_MOST = 4000


def one_contrast_information(
    *, target: float, coupling: float, diagonal: float, off_diagonal: float, size: int
) -> float:
    r"""Profiled information of a target in a block of ``size`` records with interchangeable nuisance:

    .. math:: I_{\mathrm{eff}} = a - c^2\,\frac{m-1}{d + (m-2)e}

    with a = ``target``, c = ``coupling``, d = ``diagonal``, e = ``off_diagonal`` and m = ``size``
    (``eq:lever1_onecontrast_ieff``). The nuisance block must be positive definite.

    >>> one_contrast_information(target=2.0, coupling=1.0, diagonal=2.0, off_diagonal=1.0, size=3)
    1.3333333333333335
    """
    a, c, d, e = (float(value) for value in (target, coupling, diagonal, off_diagonal))
    m = whole_number(size, name="size")
    require(m >= 2, "a target and at least one nuisance record", got=f"size {m}")
    require(
        bool(np.all(np.isfinite([a, c, d, e]))), "finite entries of the Gram matrix", got="NaN or infinity"
    )
    definite = d + (m - 2) * e > 0 and (m == 2 or d > e)
    require(
        definite,
        "a positive definite nuisance block: d > e and d + (m - 2)e > 0",
        got=f"d = {d:g}, e = {e:g}, m = {m}",
        fix="reduce records with one signature to their sum first",
    )
    return a - c * c * (m - 1) / (d + (m - 2) * e)


def exchangeable_information(*, alpha: float, tau: float, size: int) -> float:
    r"""The fully exchangeable case :math:`a = d = \alpha`, :math:`c = e = \tau` (``eq:ieff_exchangeable``):

    .. math:: I_{\mathrm{eff}} = \frac{(\alpha - \tau)(\alpha + \tau(m-1))}{\alpha + \tau(m-2)}

    >>> round(exchangeable_information(alpha=2.0, tau=1.0, size=3), 12)
    1.333333333333
    """
    m = whole_number(size, name="size")
    require(m >= 2, "a target and at least one nuisance record", got=f"size {m}")
    require(
        np.isfinite(alpha) and alpha > tau >= 0,
        "alpha > tau >= 0",
        got=f"alpha = {alpha:g}, tau = {tau:g}",
    )
    return (alpha - tau) * (alpha + tau * (m - 1)) / (alpha + tau * (m - 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Symmetry:
    """Whether the records beside a target are interchangeable, and the target's information if they are."""

    holds: bool
    size: int  # m: the target and the other touched records
    target: float  # a
    coupling: float  # c
    diagonal: float  # d
    off_diagonal: float  # e
    departure: float  # largest difference of entries that should be equal, relative to the largest entry
    information: float | None  # the one-contrast value; None without the symmetry or if the block is singular

    def __str__(self) -> str:
        if not self.holds:
            return f"no one-contrast symmetry: entries of G differ by {self.departure:.2g} of the largest"
        if self.information is None:
            return "one contrast, with a singular nuisance block: only the sum of the others can be seen"
        return f"one contrast: information {self.information:.6g} about the target, in a block of {self.size}"


def symmetry(design: LinearReleases, *, target: int) -> Symmetry:
    """Test whether all other touched records are interchangeable nuisance to a target.

    The test is on the Gram matrix of the target's block (``eq:lever1_blocksym_gram``): equal couplings to
    the target, equal diagonal, equal off-diagonal.
    """
    if not 0 <= target < design.size:
        raise InvalidInput(f"expected a target from 0 to {design.size - 1}, got {target}")
    everyone = np.ones(design.size, dtype=np.bool_)
    signatures = design.incidence.groups(everyone)
    degree = np.zeros(design.size, dtype=np.bool_)
    for row in range(design.row_count):
        degree[design.incidence.members(row)] = True
    require(bool(degree[target]), "a target in some release", got=f"record {target}, which is in none")
    others = degree.copy()
    others[target] = False
    require(
        bool(others.any()),
        "a target and at least one other record in some release",
        got=f"record {target} alone",
    )
    _, first, counts = np.unique(signatures[others], return_index=True, return_counts=True)
    require(
        first.size <= _MOST,
        f"at most {_MOST} signatures to compare",
        got=first.size,
        fix="test a smaller design",
    )
    columns = design.incidence.columns(np.concatenate([[target], np.flatnonzero(others)[first]]))
    return _of_gram(design.whiten(columns), counts)


def _of_gram(whitened: FloatArray, counts: IndexArray) -> Symmetry:
    G = whitened.T @ whitened
    couplings, diagonals = G[0, 1:], np.diagonal(G)[1:]
    off = G[1:, 1:][~np.eye(len(counts), dtype=np.bool_)]
    # Records with one signature meet each other in the diagonal entry of that signature.
    off = np.concatenate([off, diagonals[counts > 1]])
    m = 1 + int(np.sum(counts))
    largest = float(np.max(np.abs(G)))
    spans = [float(np.ptp(part)) for part in (couplings, diagonals, off) if part.size]
    departure = max(spans) / largest
    a, c, d = float(G[0, 0]), float(np.mean(couplings)), float(np.mean(diagonals))
    e = float(np.mean(off)) if off.size else 0.0
    holds = departure <= _EQUAL
    definite = (m == 2 or d - e > _EQUAL * largest) and d + (m - 2) * e > _EQUAL * largest
    information = (
        one_contrast_information(target=a, coupling=c, diagonal=d, off_diagonal=e, size=m)
        if holds and definite
        else None
    )
    return Symmetry(
        holds=holds,
        size=m,
        target=a,
        coupling=c,
        diagonal=d,
        off_diagonal=e,
        departure=departure,
        information=information,
    )
