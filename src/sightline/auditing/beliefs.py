"""What the rows of one record have in common, as far as an attacker knows.

Let row t of record i hold :math:`x_{it} = L_i + B_{ib(t)} + d_{it}`. Nobody knows how much of a row is the
level that all rows of the record share, how much is that of its block, such as a day, and how much is its
own. The ends are audited, each as a prior over the record's block of columns, the same for every record, and
the worst one counts:

- *apart*: all of it is the row's own. A record has a column for each row.
- *level*: all of it is shared, and the attacker knows every deviation. A record has one column, the sum of
  its rows' columns: what a table of its totals would have, so that adding rows up changes no verdict.
- *block*: all of it is shared by the rows with the same value of a column that the plan names. A record has a
  column for each such value, the sum of those rows' columns.

For the best linear attack and any mixture of the ends that is the same for all records, what remains is at
least the least of what remains at the ends (docs/theory/labeled.md, *Rows with a common level*).
"""

from __future__ import annotations

from collections.abc import Sequence

from sightline.values import frozen


@frozen(eq=True)
class Belief:
    """Which rows of a record share a value, up to deviations that are known: one column of the design."""

    name: str
    one_column: bool = False  # all rows of a record
    block: str = ""  # those with the same value of this column

    @property
    def by_row(self) -> bool:
        """Whether each row is a column by itself."""
        return not (self.one_column or self.block)


APART = Belief(name="apart")
LEVEL = Belief(name="level", one_column=True)
ONE_VALUE = Belief(name="one value", one_column=True)  # the plan says so, and the data are checked


def beliefs_of(values: str, blocks: Sequence[str] = ()) -> tuple[Belief, ...]:
    """Which beliefs a plan leaves open, by what it says of the rows of a record.

    >>> [one.name for one in beliefs_of("any", ["day"])]
    ['apart', 'level', 'block']
    """
    if values == "any":
        return (APART, LEVEL, *(Belief(name="block", block=name) for name in blocks))
    return (APART,) if values == "independent" else (ONE_VALUE,)
