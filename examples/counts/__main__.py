"""Draw the register, and what an office published of it, again: the same bytes each time."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
WARDS, AGES = {"north": 0.4, "south": 0.35, "east": 0.2, "west": 0.05}, ("0-29", "30-59", "60+")
PEOPLE, ILL, BASE, BELOW = 400, 0.2, 5, 5


def main() -> None:
    """Write everybody who might be in the registry, those who are, and a table with blanks."""
    rng = np.random.default_rng(68)
    ward, age = rng.choice(list(WARDS), PEOPLE, p=list(WARDS.values())), rng.choice(AGES, PEOPLE)
    ill = rng.random(PEOPLE) < ILL
    register = [(f"P{n:03}", ward[n], age[n]) for n in range(PEOPLE)]
    _write("register.csv", ("person", "ward", "age"), register)
    _write(
        "registry.csv",
        ("person", "ward", "age"),
        [one for one, is_ill in zip(register, ill, strict=True) if is_ill],
    )
    everybody = [(*one, "true" if is_ill else "false") for one, is_ill in zip(register, ill, strict=True)]
    _write("people.csv", ("person", "ward", "age", "ill"), everybody)
    counts = Counter((w, a) for _, w, a, answer in everybody if answer == "true")
    groups = sorted({(w, a) for _, w, a in register})
    rounded = [(w, a, _published(counts[w, a])) for w, a in groups]
    _write("published.csv", ("ward", "age", "ill"), rounded)


def _published(count: int) -> str:
    return "" if count < BELOW else str((count + BASE // 2) // BASE * BASE)


def _write(name: str, heads: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> None:
    with (HERE / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *lines])


if __name__ == "__main__":
    main()
