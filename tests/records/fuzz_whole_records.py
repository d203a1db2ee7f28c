"""Records of discrete noise about a few people with whole numbers: no limit above what is left may pass.

Sums, centred, clipped and weighted sums, and counts in bands, with labels and by groups, of several rows too.
What is left is computed from the record's raw SQL on every world (DuckDB), and answers drawn from the law.

``python -m tools.fuzz --entry tests.records.fuzz_whole_records --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow

import sightline as sl
from sightline.errors import SightlineError
from sightline.records.release_record import plan_of, record_of
from tests.auditing.crossings import ACCEPTED
from tests.numbered_cases import check_cases

_DRAWS = 3000
_MOST = 0.97  # a limit above this is not worth a case
_LAWS = ("discrete-gaussian", "discrete-gaussian", "geometric")


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """Draw records, compute what is left to whom least is left, and ask for a little more, and for less."""
    case = _Case(generator)
    left, error = case.left(generator)
    if left + 4 * error > _MOST:
        count["nothing seen"] += 1
        return
    above = case.verdict(min(left + 4 * error, 0.999))
    assert above != "passed", (left, error, case.table, case.contents)
    count[above] += 1
    below = case.verdict(left / 3)
    count[f"a third: {below}"] += 1


class _Case:
    """Three to five rows, and one or two records about them."""

    def __init__(self, draw: np.random.Generator) -> None:
        rows, self.top = int(draw.integers(2, 6)), int(draw.choice([1, 3]))
        self.values = str(draw.choice(["one row", "independent", "independent", "constant"]))
        owners = sorted(int(draw.integers(max(2, rows // 2))) for _ in range(rows))
        owners = list(range(rows)) if self.values == "one row" else owners
        each = draw.integers(0, self.top + 1, rows).tolist()
        if self.values == "constant":
            each = [each[owner] for owner in owners]
        groups = [str(one) for one in draw.choice(["u", "v"], rows)]
        self.table = {"who": [f"p{one}" for one in owners], "x": each, "g": groups}
        self.owners = owners
        most = max(owners.count(one) for one in owners)
        data: dict[str, Any] = {"record": "who", "secret": "x", "bounds": [0, self.top], "public": ["g"]}
        if self.values != "one row":
            data |= {"values": self.values, "max_rows_per_record": max(2, most)}
        self.bands: set[int] = set()
        self.contents: list[dict[str, Any]] = [
            {"record": "sightline.release/1", "release": self._release(draw, f"r{place}"), "data": data}
            for place in range(int(draw.integers(1, 3)))
        ]

    def _release(self, draw: np.random.Generator, name: str) -> dict[str, Any]:
        parts, noise = [], []
        for place in range(int(draw.integers(1, 3))):
            band = int(draw.integers(1, self.top + 1))
            sums = [f"SUM(LEAST(GREATEST(x, 0), {self.top}))", "SUM(x)", f"SUM(x - {self.top})", "SUM(2 * x)"]
            counts = [f"COUNT(*) FILTER (WHERE x >= {band})", "COUNT(*)"]
            part = str(draw.choice([*sums, counts[0], *counts]))
            self.bands |= {band} if part == counts[0] else set()
            parts.append(f"{part} AS n{place}")
            law, stddev = str(draw.choice(_LAWS)), round(float(np.exp(draw.uniform(0.41, 2.0))), 3)
            noise.append({"law": law, "stddev": stddev, "label": f"n{place}"})
        by = "g" if draw.random() < 0.5 else ""
        where = " WHERE g = 'u'" if not by and "u" in self.table["g"] and draw.random() < 0.3 else ""
        sql = f"SELECT {', '.join([*([by] if by else []), *parts])} FROM data{where}"
        release: dict[str, Any] = {
            "name": name,
            "sql": sql + (f" GROUP BY {by}" if by else ""),
            "noise": noise,
        }
        return release | {"times": int(draw.choice([1, 1, 2])), "published": True}

    def verdict(self, limit: float) -> str:
        """The audit's, with all that can be accepted accepted."""
        records = {str(place): record_of(content) for place, content in enumerate(self.contents)}
        content = plan_of(records, source="data.csv").model_dump(mode="json", by_alias=True)
        content["data"]["source"] = pyarrow.table(self.table)
        content["limits"] = {"remaining_uncertainty": limit, "accept": ACCEPTED}
        try:
            status = sl.audit(content).verdict.status
        except SightlineError as error:
            return f"refused: {str(error)[:70]}"
        return status.value if status is not None else "none"

    def left(self, draw: np.random.Generator) -> tuple[float, float]:
        """The least share that is left of a value, a sum of a person's values, or a band; and its error."""
        owners = self.owners
        places = [owners.index(one) if self.values == "constant" else row for row, one in enumerate(owners)]
        coordinates = sorted(set(places))
        worlds = np.array(list(itertools.product(range(self.top + 1), repeat=len(coordinates))))
        columns = [coordinates.index(place) for place in places]
        weights = self._posterior(worlds, worlds[:, columns], draw)
        prior = float(np.var(np.arange(self.top + 1)))
        found = []
        for person in sorted({owners[one] for one in coordinates}):
            own = [place for place, row in enumerate(coordinates) if owners[row] == person]
            found.append(_least(weights, worlds[:, own].astype(float), prior))
            for band in self.bands:
                for place in own:
                    yes = (worlds[:, [place]] >= band).astype(float)
                    found.append(_least(weights, yes, float(yes.var())))
        return min(found)

    def _posterior(self, worlds: np.ndarray, rows: np.ndarray, draw: np.random.Generator) -> np.ndarray:
        """The chances of the worlds after answers drawn from them: one line for each draw."""
        true = draw.integers(len(worlds), size=_DRAWS)
        logs = np.zeros((_DRAWS, len(worlds)))
        for content in self.contents:
            release = content["release"]
            for place, noise in enumerate(release["noise"]):
                for sums in self._answers(release["sql"], rows, place):
                    for _ in range(release["times"]):
                        size = _size(noise)
                        seen = sums[true] + _noise(noise["law"], size, draw)
                        logs += _log_mass(noise["law"], size, seen[:, None] - sums[None, :])
        chances = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def _answers(self, sql: str, rows: np.ndarray, place: int) -> list[np.ndarray]:
        """What a number of a release is in every world, by group."""
        count, width = rows.shape
        flat = {"world": np.repeat(np.arange(count), width), "x": rows.ravel()}
        groups = self.table["g"] * count
        worlds = pyarrow.table({**flat, "g": groups})  # noqa: F841 - DuckDB finds it by its name
        text = sql.replace("SELECT ", "SELECT world, ", 1).replace("FROM data", "FROM worlds")
        text = (
            text.replace("GROUP BY g", "GROUP BY world, g")
            if "GROUP BY" in text
            else f"{text} GROUP BY world"
        )
        lines = duckdb.execute(text).fetchall()
        keys = 2 if "GROUP BY world, g" in text else 1
        found: dict[Any, np.ndarray] = {}
        for line in lines:
            found.setdefault(line[1:keys], np.zeros(count))[line[0]] = line[keys + place]
        return list(found.values())


def _least(weights: np.ndarray, values: np.ndarray, prior: float) -> tuple[float, float]:
    """The direction in which least is left in one half of the draws, judged by the other half."""
    mean = weights @ values
    second = np.einsum("dw,wi,wj->dij", weights, values, values, optimize=True)
    covariance = second - mean[:, :, None] * mean[:, None, :]
    half = len(weights) // 2
    direction = np.linalg.eigh(covariance[:half].mean(axis=0))[1][:, 0]
    each = np.einsum("dij,i,j->d", covariance[half:], direction, direction) / prior
    return float(each.mean()), float(each.std() / math.sqrt(len(each)))


def _size(noise: dict[str, Any]) -> float:
    """σ of discrete Gaussian noise; b of geometric noise, whose variance is 1/(2 sinh²(1/2b))."""
    if noise["law"] == "discrete-gaussian":
        return float(noise["stddev"])
    return 0.5 / math.asinh(1 / (math.sqrt(2) * noise["stddev"]))


def _log_mass(law: str, size: float, steps: np.ndarray) -> np.ndarray:
    return -(steps**2) / (2 * size**2) if law == "discrete-gaussian" else -np.abs(steps) / size


def _noise(law: str, size: float, draw: np.random.Generator) -> np.ndarray:
    reach = math.ceil(40 * size)
    steps = np.arange(-reach, reach + 1)
    mass = np.exp(_log_mass(law, size, steps))
    return draw.choice(steps, size=_DRAWS, p=mass / mass.sum())
