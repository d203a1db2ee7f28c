"""What the rows of one record have in common, as far as an attacker knows.

Let row t of record i hold :math:`x_{it} = L_i + d_{it}`. Nobody knows how much of a row is the level that all
rows of the record share, and how much is its own. The two ends are audited, each as a prior over the record's
block of columns, the same for every record, and the worse one counts:

- *apart*: all of it is the row's own. A record has a column for each row.
- *level*: all of it is shared, and the attacker knows every :math:`d_{it}`. A record has one column, the sum
  of its rows' columns: what a table of its totals would have, so that adding rows up changes no verdict.

For the best linear attack and any correlation of the rows in between that is the same for all records, what
remains is at least the lesser of what remains at the ends (docs/theory/labeled.md, *Rows with a common
level*).
"""

from __future__ import annotations

from sightline.values import frozen


@frozen(eq=True)
class Belief:
    """How the rows of a record hang together."""

    name: str
    one_column: bool  # whether all rows of a record are one column of the design, with their weights added


APART = Belief(name="apart", one_column=False)
LEVEL = Belief(name="level", one_column=True)
ONE_VALUE = Belief(name="one value", one_column=True)  # the plan says so, and the data are checked

# Which beliefs a plan leaves open, by what it says of the rows of a record.
BELIEFS = {"any": (APART, LEVEL), "independent": (APART,), "constant": (ONE_VALUE,)}
