"""The dictionaries of grouping keys on Spark: each is made once, and joined as a small table.

A query of ours has its dictionaries as subqueries over the table itself. Left there, Spark reads the table
again for each of them in every query and sorts all rows for each join, because it cannot know that they are
small. Some eighty of them in one query even overflow Java's stack: every join makes the plan deeper.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType
from sqlglot import exp

from sightline.tables.encoding import MOST_KEYS
from sightline.tables.engines.spark_jobs import without_pandas_warning

_BROADCAST = 1 << 26  # bytes up to which every executor gets a copy


class SparkLookups:
    """Temporary views that hold the answers to the dictionaries of a session's queries."""

    def __init__(self, session: SparkSession, *, prefix: str) -> None:
        self._session, self._prefix = session, prefix
        self._views: dict[str, str | None] = {}  # by the dictionary's SQL; none if it has too many keys

    def in_place(self, text: str) -> str:
        """The query in Spark's SQL with a view in the place of each dictionary."""
        if "ROW_NUMBER() OVER (ORDER BY k" not in text:
            return text
        tree = sqlglot.parse_one(text, read="spark")
        for subquery in [found for found in tree.find_all(exp.Subquery) if _is_dictionary(found)]:
            sql = subquery.this.sql("spark")
            if sql not in self._views:
                self._views[sql] = self._make(subquery.this)
            view = self._views[sql]
            if view is not None:
                joined = isinstance(subquery.parent, exp.Join)
                name = exp.to_identifier(f"{view}_joined" if joined else view)
                subquery.replace(exp.Table(this=name, alias=subquery.args["alias"]))
        return tree.sql("spark")

    def _make(self, dictionary: exp.Select) -> str | None:
        """A view of the keys in their order with the numbers 1, 2, …; none if there are too many keys."""
        keys = exp.select("k").from_(dictionary.copy().select("k", append=False).subquery("listed"))
        ordered = exp.select("k").from_(keys.limit(MOST_KEYS + 1).subquery("listed")).order_by("k")
        answer = self._session.sql(ordered.sql("spark"))
        listed = answer.toArrow()
        if listed.num_rows > MOST_KEYS:
            return None  # the query that names the cells will be refused
        numbered = listed.append_column("c", pa.array(np.arange(1, listed.num_rows + 1)))
        view = f"{self._prefix}_lookup_{len(self._views)}"
        with without_pandas_warning():
            frame = self._session.createDataFrame(numbered, schema=answer.schema.add("c", LongType()))
        frame.createOrReplaceTempView(view)
        small = frame.hint("broadcast") if listed.nbytes < _BROADCAST else frame
        small.createOrReplaceTempView(f"{view}_joined")
        return view

    def close(self) -> None:
        """Drop the views."""
        for view in self._views.values():
            if view is not None:
                self._session.catalog.dropTempView(view)
                self._session.catalog.dropTempView(f"{view}_joined")
        self._views = {}


def _is_dictionary(subquery: exp.Subquery) -> bool:
    """Whether it is a dictionary as our encoding writes it, over different keys and nothing from outside.

    A plan's own subquery may look alike. If it is the same to the letter, it means the same.
    """
    select = subquery.this
    source = select.args.get("from_") if isinstance(select, exp.Select) else None
    distinct = source.this.this if source is not None and isinstance(source.this, exp.Subquery) else None
    if not isinstance(distinct, exp.Select) or distinct.args.get("distinct") is None:
        return False
    if [key.alias for key in distinct.expressions] != ["k"]:
        return False
    written = (
        "SELECT k, ROW_NUMBER() OVER (ORDER BY k NULLS LAST) AS c "
        f"FROM ({distinct.sql('spark')}) AS listed WHERE NOT k IS NULL"
    )
    own = {part.alias for part in subquery.find_all(exp.CTE)}
    outside = {part.alias for part in subquery.root().find_all(exp.CTE)} - own
    return select.sql("spark") == written and not any(
        table.name in outside for table in subquery.find_all(exp.Table)
    )
