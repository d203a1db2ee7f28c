"""What if: the plan with other noise, without a release, or against another attacker. Owner-only.

Every setting was audited. Nothing is interpolated, and a combination that is not listed was not computed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Many = Field(strict=False)  # a JSON list is a tuple here, and a text a member of an enum


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class SwitchKind(StrEnum):
    """What a switch changes."""

    LEAVE_OUT = "leave out"  # a release is not published; the budget is shared by the others
    KNOWS = "knows"  # the attacker also knows the secrets of the rows that meet a condition
    DOES_NOT_KNOW = "does not know"  # the attacker does not, although the plan says so
    PRIOR = "prior"  # values are spread in another way, as far as the attacker knows


class Switch(_Part):
    """One change of the plan besides its noise."""

    kind: Annotated[SwitchKind, _Many]
    name: str  # of the release or of the prior, or the condition


class NoiseStop(_Part):
    """An amount of noise: an accountant's for an epsilon, or a factor on the plan's own noise.

    If the budget has periods, the epsilon is that of each.
    """

    accountant: str | None
    epsilon: float | None
    factor: float | None


class Setting(_Part):
    """What the audit says of one amount of noise with some switches on."""

    noise: int  # a position in ``noises``
    switches: Annotated[tuple[int, ...], _Many]  # positions in ``switches``, ascending
    status: str | None  # of the verdict; none if no limit was set
    proven: bool  # that the noise keeps to the plan's budget; false if there is none
    below_limit: int
    lower: float | None  # what the most exposed record keeps; none if nothing depends on an unknown secret
    upper: float | None
    worst: int | None  # who that is: a position in ``worst``
    records: Annotated[tuple[int, ...], _Many]  # the histogram: how many records keep how much
    least_noise_stddev: float | None  # over all published numbers; none if none depends on the secret
    most_noise_stddev: float | None


class WhatIf(_Part):
    """The settings, and which of them is the plan's own."""

    noises: Annotated[tuple[NoiseStop, ...], _Many]
    switches: Annotated[tuple[Switch, ...], _Many]
    own_noise: int  # the plan's own amount of noise
    settings: Annotated[tuple[Setting, ...], _Many]
    worst: Annotated[tuple[str, ...], _Many]  # records, by key if that was asked for
    other_accountants: bool  # whether their noise was computed, with no switch
    single_switches: bool  # whether each switch was computed, at the plan's own noise
    switches_at_every_noise: bool  # and at every other amount of noise under the plan's accountant
    pairs: bool  # whether pairs of switches were computed, at the plan's own noise
