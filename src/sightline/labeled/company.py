"""The records among whom a target hides, as the releases see them: only through their products of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.design import MembershipDesign
from sightline.labeled.forms import ProjectedForms
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.lens import (
    PROOF,
    Form,
    Lens,
    Risks,
    Spectrum,
    lens_of_pairs,
    lens_of_root,
    lens_of_spectrum,
)
from sightline.labeled.root import Root, root_of_products, root_of_rows
from sightline.noise.laws import GaussianNoise, LaplaceNoise
from sightline.numerics import integers as exact
from sightline.numerics.decision import Evidence, Rank
from sightline.progress import silent

# Products of rows lose twice the digits that rows do: beyond this error, factorise the rows themselves, if
# that many operations are affordable.
_COARSE, _AFFORDABLE = 1e-10, 1e12
# Up to this many rows, eigenvalues cost next to nothing.
_FEW_ROWS = 1000
_BLOCK = 4096  # records whose columns are laid out at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Company:
    """The unknown records among whom a target hides, as the releases see them."""

    design: MembershipDesign
    products: FloatArray
    unknown: BoolArray

    @cached_property
    def spectrum(self) -> Spectrum:
        """The whitened products by direction."""
        return Spectrum.of(self.products, whitening(self.design))

    @property
    def signal(self) -> float:
        """The largest length of a row over its noise."""
        return float(np.max(np.abs(whitening(self.design) * np.sqrt(np.diagonal(self.products)))))

    @property
    def eigenvalues(self) -> FloatArray:
        """Of the whitened products; in large designs their diagonal, which the eigenvalues majorise."""
        if self.design.lines <= _FEW_ROWS:
            return self.spectrum.values
        weights = whitening(self.design)
        if weights.ndim == 1:
            return np.asarray(np.square(weights) * np.diagonal(self.products))
        return np.asarray(np.einsum("ij,ij->i", weights @ self.products, weights))

    def lens(self, risks: Risks, rank: Rank, linear: FloatArray) -> Lens:
        """The forms of every record: from inverses where records are in few rows, else from eigenvalues.

        Where neither is accurate enough, from reduced coordinates.
        """
        if self.design.pattern.sparse:
            lens = lens_of_pairs(self.products, whitening(self.design), risks, linear=linear)
        else:
            lens = lens_of_spectrum(self.spectrum, risks, linear=linear)
        return lens or lens_of_root(self.root(rank), whitening(self.design), risks, linear=linear)

    def root(self, rank: Rank) -> Root:
        """Reduced coordinates: from the products if they are accurate enough."""
        return self._accurate(root_of_products(self.products, rank.rank), rank)

    def proved_lens(self, risks: Risks, linear: FloatArray) -> Lens | None:
        """The forms of every record, if factorising the products proves that all rows are independent."""
        lens = lens_of_spectrum(self.spectrum, risks, linear=linear)
        if lens is not None and Form.LEVERAGE in lens.names:
            return lens
        lines = self.design.lines
        root = root_of_products(self.products, lines)
        if root.rank < lines or lines * root.certain_error > PROOF:
            return None
        accurate = self._accurate(root, Rank(rank=lines, evidence=Evidence.FULL_RANK))
        return lens_of_root(accurate, whitening(self.design), risks, linear=linear)

    def root_of_rows(self, rank: Rank | None) -> tuple[Root, Rank]:
        """Reduced coordinates from the rows themselves."""
        diagonal = np.diagonal(self.products)
        scale = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
        triangle = self.design.pattern.triangle(self.unknown, scale)
        root, by_gap = root_of_rows(triangle, scale, None if rank is None else rank.rank)
        return root, rank or by_gap

    def _accurate(self, root: Root, rank: Rank) -> Root:
        costly = self.design.lines**2 * self.design.size > _AFFORDABLE
        if root.relative_error <= _COARSE or (costly and root.rank == rank.rank):
            return root
        return self.root_of_rows(rank)[0]

    def around(
        self, targets: IndexArray, *, sizes: IndexArray, removed: BoolArray, rank: int | None
    ) -> tuple[FloatArray, float]:
        """Whitened columns of some targets, then of independent directions that the others share.

        ``removed`` are all records with a target's signature, ``sizes`` of them for each; ``rank`` is that
        of the others, where it is known. Also the error of the directions.
        """
        columns = self.design.pattern.columns(targets)
        rest = Company(
            design=self.design,
            products=self.products - (columns * sizes) @ columns.T,
            unknown=self.unknown & ~removed,
        )
        if self.design.pattern.whole:
            count = exact.rank(rest.products.astype(np.int64)) if rank is None else rank
            root = rest.root(Rank(rank=count, evidence=Evidence.MODULAR))
        else:
            root, _ = rest.root_of_rows(None if rank is None else Rank(rank=rank, evidence=Evidence.GAP))
        return self.design.whiten(np.hstack([columns, root.factor])), root.relative_error


def whitening(design: MembershipDesign) -> FloatArray:
    """What divides the pattern's rows: a number for each, or a matrix where the noise is correlated."""
    match design.law:
        case GaussianNoise():
            return design.scale / design.law.stddevs
        case LaplaceNoise():
            return design.scale / design.law.scales
        case _:
            return design.whiten(np.eye(design.lines))


def excess(design: MembershipDesign) -> float:
    """Variance times information of the noise on an answer: what a linear attack loses against the bound."""
    return 2.0 if isinstance(design.law, LaplaceNoise) else 1.0


def pure_losses(design: MembershipDesign) -> FloatArray:
    r"""Every record's own privacy loss under Laplace noise: :math:`\sum_\ell |a_{\ell j}| / b_\ell`."""
    return row_sums(design, np.abs(whitening(design)))


def row_sums(design: MembershipDesign, weights: FloatArray) -> FloatArray:
    r"""For every record :math:`\sum_\ell c_\ell |a_{\ell j}|`, with the pattern's own weights."""
    pattern = design.pattern
    if pattern.binary:
        return combined(design, weights)
    blocks = [np.arange(start, min(start + _BLOCK, design.size)) for start in range(0, design.size, _BLOCK)]
    return np.concatenate([weights @ np.abs(pattern.columns(block)) for block in blocks])


def combined(design: MembershipDesign, weights: FloatArray) -> FloatArray:
    r"""For every record :math:`\sum_\ell c_\ell a_{\ell j}`: what is left of it in a combination of rows."""
    forms = ProjectedForms(
        projection=np.zeros((0, design.lines)),
        weights=np.zeros((0, 0)),
        offsets=np.zeros(0),
        linear=weights[None],
    )
    everyone = np.ones(design.size, dtype=np.bool_)
    sums: FloatArray = design.pattern.forms(forms, everyone, silent)[0]
    return sums
