"""Attacks in a result: which published numbers they use, with which weights, and on whom."""

from __future__ import annotations

from typing import Annotated, Literal

from sightline.auditing.result_part import Many, ResultPart, Uncertainty

# A sum over more records than this is what publishing is for; it is not listed as exposed.
SMALL_GROUP = 5


class Step(ResultPart):
    """One published number and its weight in a recipe."""

    release: str
    cell: str  # the group, empty if there is only one
    publishable_cell: str | None = None  # without the keys of persons, where that differs
    weight: float
    times: int  # copies, whose mean is meant

    def publishable(self) -> Step:
        """The step without the keys of persons."""
        cell = self.publishable_cell or self.cell
        return self.model_copy(update={"cell": cell, "publishable_cell": None})


class Recipe(ResultPart):
    """Weights on published numbers that give a value without bias, and the error that their noise leaves."""

    steps: Annotated[tuple[Step, ...], Many]
    constant: float
    less_known: bool = False  # whether shares of records that the attacker knows are to be subtracted, too
    text: str
    publishable_text: str | None = None  # without the keys of persons, where that differs
    rmse: float

    def publishable(self) -> Recipe:
        """The recipe without the keys of persons."""
        steps = tuple(step.publishable() for step in self.steps)
        text = self.publishable_text or self.text
        return self.model_copy(update={"steps": steps, "text": text, "publishable_text": None})


class SeenTogether(ResultPart):
    """Other records without which this one is not seen: the sum of all their values is known more sharply."""

    others: int  # records, or rows where records have several
    records: Annotated[tuple[str, ...], Many] = ()  # their keys, only when asked for
    stddev: float  # to which the best linear attack knows the sum, on average over the prior and the noise


class LinearAttack(ResultPart):
    r"""The best linear attack on a value under the prior, folded to the numbers that carry nearly all of it.

    With risk :math:`\rho` as a share of the prior variance, an attack has the information
    :math:`1/\rho - 1`. ``share`` is the information of the attack on the numbers of ``steps`` alone over that
    of the attack on all ``numbers``. The indicators of a category count as independent here.
    """

    steps: Annotated[tuple[Step, ...], Many]  # the heaviest first
    share: float
    numbers: int  # published numbers that the attack may use
    target: Literal["value", "total"] = "value"  # the total of a record's several rows
    together: SeenTogether | None
    text: str
    publishable_text: str | None = None  # without the keys of persons, where that differs

    def publishable(self) -> LinearAttack:
        """The attack without the keys of persons."""
        together = self.together
        return self.model_copy(
            update={
                "steps": tuple(step.publishable() for step in self.steps),
                "together": None if together is None else together.model_copy(update={"records": ()}),
                "text": self.publishable_text or self.text,
                "publishable_text": None,
            }
        )


class Exposed(ResultPart):
    """A record, or a group that nothing splits, of which too much is seen."""

    record: str | None  # its key, only when asked for
    signature: int
    size: int  # records that share the signature, or rows of several records: 1 is one on its own
    label: str = ""  # the public attributes of the signature; in a publishable result only of a large one
    category: str | None  # of a categorical secret: which indicator
    identifiable: bool  # the value, or for a group the sum of its values
    local: bool  # at the operating point only: owner-only
    rmse: float | None  # of the best unbiased attack on that value or sum; none if there is no such attack
    rmse_percent_of_range: float | None
    remaining_uncertainty: Uncertainty | None  # of one record's value
    releases: Annotated[tuple[str, ...], Many]  # that the recipe uses, the heaviest first
    recipe: Recipe | None  # of the best unbiased attack
    shortest: Recipe | None  # a difference of two numbers that does it, if there is one
    attack: LinearAttack | None = None  # the best linear attack, folded; none where it was not looked for
    feature: Literal["row", "total", "combination"] | None = None  # of a record's several rows: what is seen
    rows: int = 1  # of one such record

    def publishable(self) -> Exposed:
        """The same without the keys of persons."""
        recipes = {name: getattr(self, name) for name in ("recipe", "shortest", "attack")}
        kept = {name: None if one is None else one.publishable() for name, one in recipes.items()}
        label = self.label if self.size > SMALL_GROUP else ""
        return self.model_copy(update={"record": None, "label": label, **kept})
