r"""The lower ends of a design with all its noise multiplied by a factor, for one factorisation each.

The products of the rows do not depend on the noise, and neither do the groups. With noise times k the
information :math:`G_{jj}` falls by :math:`k^2`. What passes the unknown records around a record needs the
inverse of :math:`k^2 I + \sum_j \tilde a_j \tilde a_j^\top / c_j`, where the precisions :math:`c_j` follow
the information. Where one precision serves all records, the eigenvalues of :math:`\tilde A \tilde A^\top`
answer for every factor.

The search for the least factor that keeps a limit interpolates what hidden records add to the noise, for each
record by itself. All else in the bounds is a closed form, so two factorisations predict the factor closely, a
third checks it, and a fourth is spare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.bounds.target import Seen, TargetPrior
from sightline.labeled.description import LinearReleases
from sightline.labeled.exposures import Exposures
from sightline.labeled.hidden import (
    HiddenInformation,
    hidden_by_record,
    hidden_by_share,
    information_if_told,
    precisions,
)
from sightline.labeled.risk_forms import Quantity, Risk, Spectrum, forms_from_eigenvalues
from sightline.labeled.unknown_gram import LaplacePart, UnknownRecordsGram, records_alike
from sightline.progress import silent

MOST_FACTORISATIONS = 4  # of a search for the least factor
_CLOSE = 0.002  # how near the least factor a search ends
_DOUBT = 0.3  # of the change from the last factor to the next: how far a prediction may be off
_BELOW = 0.9  # of the factor that is enough: where to look if a guess finds nothing below it
_STEEPEST = 2.0  # power of the factor that is believed
_AIM = 0.0005  # and how far above it a step aims, to end on the safe side


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledNoise:
    """A design whose noise is multiplied by a factor, and what the exposures at factor 1 say of its groups.

    >>> from sightline.labeled.design import MembershipDesign
    >>> design = MembershipDesign([[0, 1, 2], [1, 2]], records=4, noise=[1.0, 2.0])
    >>> found = design.exposures(domain=(0, 10))
    >>> again = design.with_noise_times(3.0).exposures(domain=(0, 10))
    >>> bool(np.allclose(ScaledNoise.of(design, found).lower(3.0), again.remaining_lower))
    True
    """

    gram: UnknownRecordsGram
    prior: TargetPrior
    alike: FloatArray  # over the unknown records
    laplace: LaplacePart | None

    @classmethod
    def of(cls, design: LinearReleases, found: Exposures, *, copies: FloatArray | None = None) -> ScaledNoise:
        """From the exposures of the design as it is, and how many answers each row is the mean of."""
        gram = UnknownRecordsGram.of(design, ~found.known)
        sizes = found.groups.sizes[found.group[gram.unknown]]
        return cls(
            gram=gram,
            prior=found.prior,
            alike=records_alike(gram, sizes),
            laplace=LaplacePart.of(gram, copies),
        )

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of the whitened products at factor 1."""
        return self.gram.spectrum

    def lower(self, factor: float) -> FloatArray:
        """At most the lower end of every unknown record's remaining uncertainty, with noise times a factor.

        The same bounds as the exposures have, without the repairs that these make where digits were lost.
        """
        return self.prior.lower(self._seen(factor, np.arange(self.alike.size), self.hidden(factor)))

    def least_factor(self, limit: float, *, enough: float, above: float = 1.0) -> float:
        """About the least factor from ``above`` on with which every record keeps a limit, from above.

        ``enough`` is a factor that is known to be enough. At most ``MOST_FACTORISATIONS`` are made.
        """
        low, high = above, enough
        factor, curve, left = math.sqrt(low * high), None, MOST_FACTORISATIONS
        while left > 0:
            seen = self._seen(factor, np.arange(self.alike.size), self.hidden(factor))
            left -= 1 + (curve is None and "spectrum" in self.__dict__)  # the spectrum is one, too
            curve = _OthersCurve.through(curve, factor, seen)
            if np.min(self.prior.lower(seen)) >= limit:
                high = factor
            else:
                low = factor
            predicted = self._predicted(curve, limit, low, high)
            # The last step has no other after it that could mend it.
            doubt = _DOUBT * abs(math.log(predicted / curve.factor)) if left == 1 else 0.0
            factor = predicted * (1 + _AIM + doubt)
            if factor >= high * (1 - _CLOSE):
                if not curve.guessed or high * _BELOW <= low:
                    break
                factor = high * _BELOW
        return high

    def _predicted(self, curve: _OthersCurve, limit: float, low: float, high: float) -> float:
        """The least factor between two with which all records keep a limit, if the curve is right."""
        places = np.arange(self.alike.size)
        while high > low * (1 + _CLOSE / 10):
            middle = math.sqrt(low * high)
            seen = self._seen(middle, places, self._from_curve(curve, middle, places))
            short = self.prior.lower(seen) < limit
            if short.any():
                low, places = middle, places[short]  # the others keep the limit with more noise, too
            else:
                high = middle
        return high

    @cached_property
    def _information(self) -> FloatArray:
        """At factor 1, of the unknown records."""
        return information_if_told(self.gram)[self.gram.unknown]

    def _from_curve(self, curve: _OthersCurve, factor: float, places: IndexArray) -> HiddenInformation | None:
        """What a curve predicts: 1/I = 1/Q + (n − 1)/c, and 1/Q is 1/G and what the others add."""
        if curve.added is None:
            return None
        information = self._information[places] / factor**2
        precision = self.prior.precision(information)
        with np.errstate(divide="ignore"):
            noise = 1 / information + curve.at(factor, places) + (self.alike[places] - 1) / precision
        return HiddenInformation(information=1 / noise, precision=precision)

    def _seen(self, factor: float, places: IndexArray, hidden: HiddenInformation | None) -> Seen:
        """What is seen of some of the unknown records."""
        information = self._information[places] / factor**2
        laplace = None if self.laplace is None else self.laplace.scaled(places, factor)
        return Seen(
            information=information,
            linear_information=np.zeros(information.size),  # the upper end is not asked for
            hidden_information=None if hidden is None else hidden.information,
            precision=None if hidden is None else hidden.precision,
            alike=self.alike[places],
            laplace_answers=None if laplace is None else laplace.answers,
            laplace_information=None if laplace is None else laplace.part_of(information, 0.0),
        )

    def hidden(self, factor: float) -> HiddenInformation | None:
        """What passes the unknown records around each, with noise times a factor: one factorisation."""
        if math.isinf(float(self.prior.precision(np.zeros(1))[0])):
            return None
        gram = replace(self.gram, design=self.gram.design.with_noise_times(factor))
        precision = precisions(gram, self.prior)
        assert precision is not None  # the prior has a density
        by_record = hidden_by_record(gram, precision, silent)
        if by_record is not None and np.isfinite(by_record.information).all():
            return by_record
        by_share = self._hidden_by_share(gram, factor, float(np.max(precision)))
        return by_share if by_record is None or by_share is None else by_record.or_else(by_share)

    def _hidden_by_share(
        self, gram: UnknownRecordsGram, factor: float, precision: float
    ) -> HiddenInformation | None:
        spectrum = Spectrum(
            values=self.spectrum.values / factor**2,
            vectors=self.spectrum.vectors,
            whitening=gram.whitening,
            gram=self.spectrum.gram,
        )
        risks = {Quantity.HIDDEN: Risk(precision=precision, unit=precision)}
        forms = forms_from_eigenvalues(spectrum, risks, linear=np.zeros((0, gram.design.row_count)))
        if forms is None:
            return None
        values = gram.design.incidence.forms(forms.forms, gram.unknown, silent)
        share = values[forms.names.index(Quantity.HIDDEN)][gram.unknown]
        return hidden_by_share(share - forms.share_error - 2 * gram.whitening_error, precision)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _OthersCurve:
    r"""What the hidden records outside a record's group add to the noise: :math:`1/Q - 1/G`.

    It changes slowly with the factor, while :math:`1/G` grows with its square: a power of the factor, for
    each record by itself.
    """

    factor: float
    added: FloatArray | None  # at that factor; none if no unknown record hides another
    power: FloatArray
    guessed: bool  # whether the power is no more than that

    @classmethod
    def through(cls, before: _OthersCurve | None, factor: float, seen: Seen) -> _OthersCurve:
        """The curve through the last two points; at first as for sharp views of uniform numbers."""
        power = np.ones(seen.information.size)
        if seen.hidden_information is None:
            return cls(factor=factor, added=None, power=power, guessed=False)
        with np.errstate(divide="ignore", invalid="ignore"):
            added = np.nan_to_num(1 / seen.group_information() - 1 / seen.information, posinf=0.0)
            if before is not None and before.added is not None:
                change = np.log(added / before.added) / math.log(factor / before.factor)
                power = np.where(np.isfinite(change), np.clip(change, -_STEEPEST, _STEEPEST), power)
        guessed = before is None and bool(np.any(added > 0))
        return cls(factor=factor, added=added, power=power, guessed=guessed)

    def at(self, factor: float, places: IndexArray) -> FloatArray:
        """At another factor, for some records."""
        assert self.added is not None
        return np.asarray(self.added[places] * (factor / self.factor) ** self.power[places])
