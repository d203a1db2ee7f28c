r"""The redistricting tables of the 2020 census, on people who were made up: who is Hispanic?

The noise is the published allocation of the persons tables (U.S. Census Bureau, *Privacy-loss Budget
Allocation*, 8 June 2021): :math:`\rho = 2.56` in all, split between six levels of geography and eleven
queries at each. A query has discrete Gaussian noise with

.. math:: \frac{1}{\sigma^2} = \text{share of the level} \times \text{share of the query} \times (542/339)^2.

Of the queries, those that count Hispanic people are published here. Each number stands for two, because those
who are not Hispanic are counted, too, with noise of their own: ``times = 2``. The people live in 81 blocks of
one county, with 300,000 others elsewhere; where they live, their race, age and quarters are public. What the
audit says of it is in docs/tables.md.

``python docs/census_pl94.py FOLDER`` writes the table and its plan.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import numpy as np

_ROOT_RHO = Fraction(542, 339)
_LEVELS = MappingProxyType(
    {"US": 104, "State": 1440, "County": 447, "Tract": 687, "Block_Group": 1256, "Block": 165}
)
_LEVELS_SUM = 4099
# Of each level, the shares of Hispanic, by race, by age, by age and race, and in detail; and their sum.
_QUERIES: Mapping[str, tuple[tuple[int, ...], int]] = MappingProxyType(
    {
        "US": ((26, 130, 26, 442, 3213), 4097),
        "State": ((6, 12, 6, 34, 230), 4097),
        "County": ((10, 28, 10, 101, 754), 4097),
        "Tract": ((5, 1933, 5, 67, 482), 4102),
        "Block_Group": ((3, 1055, 3, 24, 1288), 4099),
        "Block": ((5, 21, 5, 71, 3945), 4097),
    }
)
_KEYS = (
    ("hispanic", ()),
    ("hispanic by race", ("race",)),
    ("hispanic by age", ("of_age",)),
    ("hispanic by age and race", ("of_age", "race")),
    ("in detail", ("quarters", "of_age", "race")),
)
_COLUMNS = MappingProxyType({"Tract": "tract", "Block_Group": "block_group", "Block": "block"})
_TRACTS, _GROUPS, _BLOCKS = 3, 3, 9
_ELSEWHERE = 150_000  # people in the rest of the state, and as many in the rest of the country
_RACES = 63


def noise_stddev(level: str, query: int) -> float:
    """Of a query of a level.

    >>> round(noise_stddev("Block", 4), 3), round(noise_stddev("US", 0), 3)
    (3.177, 49.291)
    """
    shares, total = _QUERIES[level]
    precision = _ROOT_RHO**2 * Fraction(_LEVELS[level], _LEVELS_SUM) * Fraction(shares[query], total)
    return math.sqrt(1 / precision)


def plan_text(*, discrete: bool = False) -> str:
    """The plan, with Gaussian noise or with discrete Gaussian noise as the Bureau has it."""
    lines = [
        "# The persons tables of the 2020 redistricting data about Hispanic people, on a made-up county.",
        "",
        *("[data]", 'source = "people.parquet"', 'record = "person"', 'secret = "hispanic"'),
        *('kind = "boolean"', "", "[limits]", 'remaining_uncertainty = "50%"', ""),
    ]
    for level in _LEVELS:
        where = {"US": "", "State": " WHERE state = 's1'"}.get(level, " WHERE county = 'c1'")
        for query, (name, others) in enumerate(_KEYS):
            keys = ", ".join([*([_COLUMNS[level]] if level in _COLUMNS else []), *others])
            count = "COUNT(*) FILTER (WHERE hispanic)"
            sql = (
                f"SELECT {keys}, {count} FROM data{where} GROUP BY {keys}"
                if keys
                else f"SELECT {count} FROM data{where}"
            )
            stddev = f"{noise_stddev(level, query):.6f}"
            noise = f'noise = {{ law = "discrete-gaussian", stddev = {stddev} }}'
            lines += ["[[release]]", f'name = "{level}: {name}"', f'sql = "{sql}"', "times = 2"]
            lines += [noise if discrete else f"noise_stddev = {stddev}", ""]
    return "\n".join(lines)


def write(folder: Path, *, discrete: bool = False) -> Path:
    """Write the table and its plan into a folder; returns the path of the plan."""
    import duckdb  # the only engine that an example needs

    folder.mkdir(parents=True, exist_ok=True)
    columns = _people()
    with duckdb.connect() as connection:
        names = ", ".join(f"UNNEST(${name}) AS {name}" for name in columns)
        target = str(folder / "people.parquet").replace("'", "''")
        given = {name: values.tolist() for name, values in columns.items()}
        connection.execute(f"CREATE TABLE people AS SELECT {names}", given)
        connection.execute(f"COPY people TO '{target}' (FORMAT parquet)")
    plan = folder / "plan.toml"
    plan.write_text(plan_text(discrete=discrete), encoding="utf-8")
    return plan


def _people() -> dict[str, np.ndarray]:
    """The table, column by column: the same people each time."""
    draw = np.random.default_rng(2020)
    blocks = _TRACTS * _GROUPS * _BLOCKS
    sizes = np.maximum(1, np.rint(draw.lognormal(math.log(22), 1.0, size=blocks))).astype(int)
    races = np.array([0.62, 0.13, 0.01, 0.06, 0.002, 0.08, *[0.098 / 57] * 57])
    races /= races.sum()
    parts: list[dict[str, np.ndarray]] = []
    for block, size in enumerate(sizes.tolist()):
        mixed, hispanic = draw.dirichlet(60 * races + 0.02), draw.beta(1, 7)
        race = draw.choice(_RACES, size=size, p=mixed)
        chance = hispanic + 0.3 * (race == 5)
        yes, of_age = draw.random(size) < chance, draw.random(size) < 0.78
        tract, group = (
            f"t{block // (_GROUPS * _BLOCKS)}",
            f"t{block // (_GROUPS * _BLOCKS)}g{block // _BLOCKS % _GROUPS}",
        )
        places = {"state": "s1", "county": "c1", "tract": tract, "block_group": group}
        parts.append(
            _part({**places, "block": f"{group}b{block % _BLOCKS}"}, race, of_age, _quarters(draw, size), yes)
        )
    for state in ("s1", "s2"):
        size = _ELSEWHERE
        race = draw.choice(_RACES, size=size, p=races)
        of_age, quarters = draw.random(size) < 0.78, _quarters(draw, size)
        places = {"state": state, **dict.fromkeys(("county", "tract", "block_group", "block"), "other")}
        parts.append(_part(places, race, of_age, quarters, draw.random(size) < 0.18))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {"person": np.arange(len(columns["race"])), **columns}


def _quarters(draw: np.random.Generator, size: int) -> np.ndarray:
    """Most people live in households, 0; others in seven kinds of group quarters."""
    household = draw.random(size) < 0.985
    return np.where(household, 0, draw.integers(1, 8, size=size))


def _part(
    places: dict[str, str], race: np.ndarray, of_age: np.ndarray, quarters: np.ndarray, yes: np.ndarray
) -> dict[str, np.ndarray]:
    own = {name: np.full(race.size, value, dtype=object) for name, value in places.items()}
    return {**own, "race": race, "of_age": of_age.astype(int), "quarters": quarters, "hispanic": yes}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/census_pl94.py FOLDER")
    print(f"Wrote {write(Path(sys.argv[1]))}")
