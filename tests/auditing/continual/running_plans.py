"""Plans of running sums, and the matrices of their mechanisms as a textbook has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MECHANISMS: dict[str, dict[str, Any]] = {
    "independent": {"mechanism": "independent"},
    "noisy-steps": {"mechanism": "noisy-steps"},
    "tree online": {"mechanism": "tree"},
    "tree least squares": {"mechanism": "tree-least-squares"},
    "toeplitz": {"mechanism": "toeplitz-sqrt"},
}
GOOD = {"mechanism": "tree", "noise_multiplier": 1.0}
SQL = "SELECT day, SUM(x) FROM data GROUP BY day"


def table(days: list[int], *, people: list[int] | None = None, seed: int = 0) -> Any:
    import polars

    values = np.random.default_rng(seed).random(len(days))
    person = list(range(len(days))) if people is None else people
    return polars.DataFrame({"person": person, "day": days, "x": values})


def plan_of(source: Any, steps: int, noise: dict[str, Any], **changes: Any) -> dict[str, Any]:
    running = {"over": "day", "from": 1, "to": steps, **changes.pop("running", {})}
    release = {"name": "running total", "sql": SQL, "running": running, "noise": noise}
    data = {"source": source, "record": "person", "secret": "x", "bounds": [0, 1]}
    return {
        "data": {**data, **changes.pop("data", {})},
        "release": [{**release, **changes.pop("release", {})}],
        "limits": {"remaining_uncertainty": 0.5},
        "privacy": {"delta": 1e-6, **changes.pop("privacy", {})},
        **changes,
    }


def members_of(exposed: Any) -> list[int]:
    return [int(name) for name in exposed.record.split(", ")]


def decoder_of(noise: dict[str, Any], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """C and B as a textbook has them: of an online tree all nodes, and those of the binary digits of t."""
    A, name = np.tri(steps), noise["mechanism"]
    if not name.startswith("tree"):
        C = {"independent": A, "noisy-steps": np.eye(steps)}.get(name)
        if C is None:
            first = [math.comb(2 * k, k) / 4**k for k in range(steps)]
            C = np.array([[first[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
        return C, A @ np.linalg.inv(C)
    nodes = [
        (start, start + size)
        for size in (2**j for j in range(steps.bit_length()))
        for start in range(0, steps - size + 1, size)
    ]
    C = np.array([[float(a <= day < b) for day in range(steps)] for a, b in nodes])
    if name == "tree-least-squares":
        return C, A @ np.linalg.pinv(C)
    B = np.zeros((steps, len(nodes)))
    for t in range(1, steps + 1):
        end, left = t, t
        while left:
            size = left & -left
            B[t - 1, nodes.index((end - size, end))] = 1.0
            end, left = end - size, left - size
    return C, B


def bands(steps: int, width: int = 8) -> np.ndarray:
    """A banded strategy: the first coefficients of the square root of the running sum."""
    apart = np.arange(steps)[:, None] - np.arange(steps)
    first = np.array([math.comb(2 * k, k) / 4**k for k in range(width)])
    return np.where((apart >= 0) & (apart < width), first[np.clip(apart, 0, width - 1)], 0.0)
