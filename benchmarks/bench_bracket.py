"""How wide the bracket of the remaining uncertainty is, through the engine: the upper over the lower end.

Three kinds of designs: the two plans that ship; a census-like table of 2,000 people in some 270 cells of
eight tables of means, with noise as a share of the range; and random subset means over many people. "Others
told" is the lower end that holds whatever the others' values are.

``python -m benchmarks.bench_bracket worlds 50`` compares yes or no and categories with their exact risks, by
listing all worlds of so many random designs for each noise and law; ``tables`` measures large tables of yes
or no. Both run on any version that has units, so that they print before and after. ``persons 20`` compares
numbers, and persons with one to three rows, with the risk of an attack that is nearly the best. ``plans 5``
draws so many of each of 72 kinds of plans, and counts those that are below the limit by the lower end alone.
``law 20`` counts lower ends that fall with more noise, or with one number fewer, and by how much. Behind
``worlds 50`` and ``persons 20`` the starts of some lines can be named: ``"rows, laplace"``.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

import sightline as sl
from sightline.bounds import assessment, listed_worlds
from sightline.bounds.assessment import assess
from sightline.bounds.membership_design import Exposures
from sightline.bounds.priors import TwoPointPrior, number_prior
from sightline.examples.shipped import example_plan
from sightline.units.description import Known
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import Seen, UnitPrior
from sightline.units.units import Units
from tests.bounds.enumerated_worlds import Few, few
from tests.bounds.person_risks import Persons, persons

PRIORS = ("uniform", "cos2", "two-point")


def census(people: int = 2000) -> np.ndarray:
    """Memberships in the cells of eight tables, by one or two of six columns."""
    generator = np.random.default_rng(3)
    columns = [generator.zipf(1.6, people) % size for size in (16, 15, 2, 7, 5)]
    columns.append(generator.integers(17, 80, people))
    rows = []
    for table in ((0,), (1,), (2,), (3,), (4,), (0, 2), (5, 2), (4, 1)):
        keys = np.stack([columns[c] for c in table], axis=1)
        _, cells = np.unique(keys, axis=0, return_inverse=True)
        rows += [cells.ravel() == cell for cell in range(cells.max() + 1)]
    return np.array(rows)


def widths(lower: np.ndarray, upper: np.ndarray) -> str:
    known = np.isnan(lower)
    ratio = np.where(lower > 1e-9, upper / np.maximum(lower, 1e-300), np.inf)[~known]
    return " ".join(f"{q:9.3f}" for q in np.quantile(ratio, (0.05, 0.5, 0.95), method="inverted_cdf"))


def row(name: str, found: Exposures, told: Exposures | None, seconds: float) -> None:
    shown = widths(found.remaining_lower, found.remaining_upper)
    others = "" if told is None else f"   others told {widths(told.remaining_lower, found.remaining_upper)}"
    least = f"least lower end {np.nanmin(found.remaining_lower):.3f}, {1e3 * seconds:.0f} ms"
    print(f"{name:<42} {shown}{others}   {least}", flush=True)


def of_design(name: str, design: sl.MembershipDesign) -> None:
    for prior in PRIORS:
        start = time.perf_counter()
        found = design.exposures(domain=(0, 1), prior=prior)
        elapsed = time.perf_counter() - start
        told = design.exposures(domain=(0, 1), prior=prior, known=Known.ALL_OTHERS)
        row(f"{name}, {prior}", found, told, elapsed)


def of_example(name: str) -> None:
    start = time.perf_counter()
    exposed = sl.audit(example_plan(name), top=10**6).exposed
    elapsed = time.perf_counter() - start
    ends = [one.remaining_uncertainty for one in exposed if one.remaining_uncertainty is not None]
    lower, upper = (np.array([getattr(one, end) for one in ends]) for end in ("lower", "upper"))
    least = f"least lower end {lower.min():.3f}, {1e3 * elapsed:.0f} ms"
    print(f"{f'{name}, as it ships (whole audit)':<42} {widths(lower, upper)}   {least}", flush=True)


def of_laplace_copies() -> None:
    """One uniform value in equal Laplace answers with noise of 0.02 of the range in all."""
    prior = number_prior("uniform", 0.0, 1.0)
    for copies in (1, 2, 5, 20):
        information = np.array([0.02**-2])
        seen = Seen(
            information=information,
            linear_information=information / 2,
            laplace_answers=np.array([float(copies)]),
            laplace_information=information,
        )
        lower, upper = prior.lower(seen)[0], prior.upper(seen)[0]
        print(
            f"{copies} Laplace answers: {lower:.4f} to {upper:.4f}, upper over lower end {upper / lower:.2f}"
        )


def asked(line: str, names: tuple[str, ...]) -> bool:
    """Whether a line of a benchmark is asked for: by the start of its name; all if none is given."""
    return not names or line.startswith(names)


def of_worlds(designs: int, names: tuple[str, ...]) -> None:
    """Both ends over the exact risk, where that is above a thousandth of the prior's variance."""
    print(
        "lower end over the exact risk: median, 5 %; upper end over it: median, 95 %; ends that do not hold"
    )
    for values, most in ((2, 13), (3, 8)):  # up to 4,096 worlds
        for law in ("gaussian", "laplace", "mixed"):
            for noise in (0.05, 0.1, 0.3, 0.5, 1.0, 3.0):
                name = f"{values} values, {law}, noise {noise:g}"
                if not asked(name, names):
                    continue
                generator = np.random.default_rng([values, int(1000 * noise), len(law)])
                below, above, wrong, draws = [], [], 0, 4_000
                for trial in range(designs):
                    rows, exact = int(generator.integers(2, most)), trial % 5 == 0
                    one = few(generator, rows=rows, values=values, noise=noise, law=law, exact=exact)
                    mean, error = one.simulated(draws, generator)
                    design = one.design()
                    found = assess(design)
                    shown = slice(-1, None) if values == 2 else slice(None)
                    truth, margin = mean[:, shown], 6 * error[:, shown] + 48 / draws
                    high = getattr(found, "upper_of_best", found.upper)[design.place]
                    low = found.lower[design.place]
                    wrong += int(np.sum((low > truth + margin) | (high < truth - margin)))
                    kept = truth > 1e-3
                    below += (low[kept] / truth[kept]).tolist()
                    above += (high[kept] / truth[kept]).tolist()
                ends = *np.quantile(below, (0.5, 0.05)), *np.quantile(above, (0.5, 0.95))
                print(
                    f"{name:<34}"
                    + " ".join(f"{one:8.3f}" for one in ends)
                    + f"  of {len(below)} in {designs} designs, wrong {wrong}",
                    flush=True,
                )


def of_tables() -> None:
    """Yes or no in tables of skewed columns: the ratio of both ends over the records, and CPU seconds.

    Each first without what others hide.
    """
    margins = ((0, 1), (0, 2), (1, 2))
    several = ((0,), (1,), (2,), (3,), (0, 1), (2, 3))
    for people, shape, tables in ((10_000, (12, 8, 5), margins), (1_000_000, (40, 30, 20, 10), several)):
        for noise in (1.0, 0.2):
            for even in (True, False):
                spread = "even" if even else "skewed"
                yes_or_no(people, shape, tables, noise, even=even)  # what is loaded once
                for name, version in (("without", without_others()), ("with", nullcontext())):
                    design = yes_or_no(people, shape, tables, noise, even=even)
                    with version:
                        start = time.process_time()
                        found = assess(design)
                        elapsed = time.process_time() - start
                    ratio = np.repeat(
                        found.upper[:, 0] / np.maximum(found.lower[:, 0], 1e-12), design.units.people
                    )
                    median, most = np.quantile(ratio, (0.5, 0.95))
                    print(
                        f"{people:,} in {len(design.units):,} kinds, {spread}, noise {noise:g}, {name}: "
                        f"{median:.3f}, 95 % {most:.3g}, least {found.lower.min():.4f}, {elapsed:.3f} s",
                        flush=True,
                    )


def without_others() -> AbstractContextManager[Any]:
    """Without what others hide of few values."""
    return mock.patch.object(assessment, "of_few_values", lambda _, low, high, **__: (low, high))


def yes_or_no(
    people: int, shape: tuple[int, ...], tables: tuple[tuple[int, ...], ...], noise: float, *, even: bool
) -> Design:
    """People in the cells of some tables of a few columns."""
    generator = np.random.default_rng(0)
    columns = [
        generator.integers(0, size, people) if even else np.minimum(generator.zipf(1.3, people) - 1, size - 1)
        for size in shape
    ]
    cells, numbers = [], 0
    for table in tables:
        key = np.zeros(people, dtype=np.intp)
        for column in table:
            key = key * shape[column] + columns[column]
        key = np.unique(key, return_inverse=True)[1].ravel()
        cells.append(key + numbers)
        numbers += int(key.max()) + 1
    kinds, count = np.unique(np.stack(cells, axis=1), axis=0, return_counts=True)
    ones = np.ones(numbers)
    units = Units(
        rows=kinds.astype(np.int32),
        numbers=numbers,
        starts=np.arange(len(kinds) + 1),
        times=np.ones(len(kinds), dtype=np.intp),
        people=count,
        distinct=True,
    )
    return Design(
        units=units,
        noise=RowNoise.of(noise * ones, noise * ones, 0 * ones, ones),
        prior=UnitPrior(target=TwoPointPrior(0.0, 1.0)),
        release=np.arange(numbers),
        place=np.arange(len(kinds)),
    )


NUMBERS = {"one row": 1, "rows": 3, "one value": 3, "weighted": 1}  # the most rows that a person has


def of_persons(designs: int, names: tuple[str, ...]) -> None:
    """Lower ends over the risk of a good attack: of numbers, and of persons with two or three rows.

    Of numbers the attack is the better one of a Gibbs sampler and the linear one; of few values the best one.
    """
    print("lower end over the risk: median, 5 %; ends that do not hold")
    for name in (*NUMBERS, "2 values", "3 values"):
        for law in ("gaussian", "laplace", "mixed"):
            for noise in (0.05, 0.1, 0.3, 1.0, 3.0):
                line = f"{name}, {law}, noise {noise:g}"
                if not asked(line, names):
                    continue
                generator = np.random.default_rng([*name.encode(), int(1000 * noise), len(law)])
                below, wrong, draws = [], 0, 2_000
                for _ in range(designs):
                    if name in NUMBERS:
                        one = numbers_of(name, noise, law, generator)
                        owner, found = one.owner, assess(one.design())
                        mean, error = one.sharpest(*one.guesses(draws, 60, generator))
                        risk, off = mean[:, None], 6 * error[:, None] + 48 / draws
                        least = np.minimum(risk, found.upper_of_best)
                    else:
                        k = int(name[0])
                        owner = np.repeat(np.arange(4), generator.integers(1, 4, 4))[: 10 if k == 2 else 6]
                        drawn = few(generator, rows=owner.size, values=k, noise=noise, law=law)
                        found = assess(drawn.of_persons(owner))
                        risk = drawn.sharpest(owner, draws, generator)[:, 1 if k == 2 else 0 :]
                        off, least = 6 * np.sqrt(risk / draws) + 48 / draws, risk
                    wrong += int(np.sum(found.lower > risk + off))
                    several = (np.bincount(owner) > 1) | (name not in ("rows", "2 values", "3 values"))
                    kept = several[:, None] & (least > 1e-3)
                    below += (found.lower[kept] / least[kept]).tolist()
                shown = " ".join(f"{one:8.3f}" for one in np.quantile(below, (0.5, 0.05)))
                print(f"{line:<34}{shown}  of {len(below)} in {designs} designs, wrong {wrong}", flush=True)


def numbers_of(name: str, noise: float, law: str, generator: np.random.Generator) -> Persons:
    """Five persons with numbers: in rows of their own, with one value in all rows, or with weights."""
    one = persons(generator, noise=noise, law=law, rows=NUMBERS[name])
    if name == "weighted":
        return replace(one, table=one.table * generator.integers(1, 6, one.owner.size))
    if name == "one value":
        whose = np.arange(5)[:, None] == one.owner
        return replace(one, table=one.table @ whose.T, owner=np.arange(5))
    return one


SECRETS = ("number", "yes or no", "category", "person", "one value", "weighted")


def drawn_design(secret: str, law: str, noise: float, generator: np.random.Generator) -> Design:
    """Two to four releases, by two to six groups each, over 8 to 40 people."""
    people, each = int(generator.integers(8, 41)), np.ones(1, dtype=int)
    if secret in ("person", "one value"):
        each = generator.integers(1, 4, people)
    owner = np.repeat(np.arange(people), each)
    columns = [
        generator.integers(0, generator.integers(2, 7), owner.size) for _ in range(generator.integers(2, 5))
    ]
    table = np.array([column == cell for column in columns for cell in np.unique(column)], dtype=float)
    if secret == "weighted":
        table *= generator.integers(1, 6, owner.size)
    if secret == "one value":
        table = np.stack([table[:, owner == one].sum(axis=1) for one in range(people)], axis=1)
        owner = np.arange(people)
    values = {"yes or no": 2, "category": 3}.get(secret)
    if values is not None:  # counts of the yes, or of all categories but one
        held = np.eye(values)[1:]
        table = np.concatenate([table[:, :, None] * one for one in held])
    scales, share = np.full(len(table), noise), {"gaussian": 0.0, "laplace": 1.0, "mixed": 0.5}[law]
    laplace = generator.random(len(table)) < share
    if values is None:
        return Persons(table=table, owner=owner, scales=scales, laplace=laplace).design()
    exact = np.zeros(len(table), dtype=bool)
    return Few(counted=table, scales=scales, laplace=laplace, exact=exact).design()


def of_plans(designs: int) -> None:
    """Six secrets, three laws, four noises: verdicts below a limit, and those by the lower end alone."""
    limits = np.array([0.5, 0.2, 0.05])
    print(f"below the limits {limits}, and by the lower end alone; first without what others hide")
    for secret in SECRETS:
        counts = np.zeros((2, 2, limits.size), dtype=int)
        for law in ("gaussian", "laplace", "mixed"):
            for noise in (0.05, 0.3, 1.0, 3.0):
                generator = np.random.default_rng([SECRETS.index(secret), len(law), int(100 * noise)])
                for _ in range(designs):
                    design = drawn_design(secret, law, noise, generator)
                    for place, version in enumerate((without_others(), nullcontext())):
                        with version:
                            found = assess(design)
                        below = found.lower.min() < limits
                        counts[place] += below, below & (found.upper_of_best.min() >= limits)
        before, after = (f"{one[0]} {one[1]}" for one in counts)
        print(f"{secret:<12} of {12 * designs:4d} plans: {before}   {after}", flush=True)


def of_law(designs: int) -> None:
    """More noise, or a number fewer: lower ends that fall, of all, and by how much at most."""
    print("lower ends that fall, of all; by how much at most, and as a share of the end")
    for secret in ("number", "person", "yes or no", "category", "yes or no, listed", "category, listed"):
        for law in ("gaussian", "laplace"):
            noisier, fewer = [], []
            for trial in range(designs):
                generator = np.random.default_rng([trial, len(secret), len(law)])
                design = drawn_for_law(secret, law, generator)
                numbers = design.units.numbers
                left_out = generator.permutation(numbers)[:6] if numbers > 1 else ()
                with mock.patch.object(listed_worlds, "_MOST_STATES", 1 << 16 if "listed" in secret else 0):
                    every = assess(design).lower.ravel()
                    for factor in (1.1, 1.5, 3.0):
                        ends = assess(design.with_noise(design.noise.scaled(factor))).lower
                        noisier.append((every, ends.ravel()))
                    for row in left_out:
                        ends = assess(design.take(np.delete(np.arange(numbers), row))).lower
                        fewer.append((every, ends.ravel()))
            for name, found in (("more noise", noisier), ("a number fewer", fewer)):
                before, after = np.concatenate(found, axis=1)
                fall = np.where(after < before * (1 - 1e-9) - 1e-12, before - after, 0.0)
                share = float(np.max(fall / np.maximum(before, 1e-12)))
                print(
                    f"{secret:<18} {law:<9} {name:<15} {np.count_nonzero(fall):4d} of {fall.size:5d}, "
                    f"{fall.max():.5f}, {share:.4f}",
                    flush=True,
                )


def drawn_for_law(secret: str, law: str, generator: np.random.Generator) -> Design:
    """A random design; of few values with up to 30 rows, or with so few that all worlds are listed."""
    noise = float(10 ** generator.uniform(-1.3, 0.5))
    if secret in ("number", "person"):
        most, people = (1 if secret == "number" else 3), int(generator.integers(4, 14))
        return persons(generator, noise=noise, law=law, rows=most, people=people).design()
    values, listed = (2 if secret.startswith("yes") else 3), "listed" in secret
    rows = int(generator.integers(4, (9 if values == 2 else 6) if listed else 30))
    return few(generator, rows=rows, values=values, noise=noise, law=law).design()


def main(people: int = 200_000, lines: int = 300) -> None:
    print("upper over lower end at the 5th, 50th and 95th percentile")
    of_example("microgrid")
    of_example("health_survey")
    rows = census()
    for noise in (0.5, 0.1, 0.02):
        design = sl.MembershipDesign(rows, noise=np.full(len(rows), noise))
        of_design(f"census {rows.shape[1]:,} × {len(rows)}, noise {noise}", design)
    of_laplace_copies()
    subsets = np.random.default_rng(0).integers(0, 2, (lines, people)).astype(bool)
    for noise in (1e-3, 1e-5):
        design = sl.MembershipDesign(subsets, noise=np.full(lines, noise))
        of_design(f"subsets {people:,} × {lines}, noise {noise:g}", design)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worlds"]:
        of_worlds(int(sys.argv[2]), tuple(sys.argv[3:]))
    elif sys.argv[1:2] == ["persons"]:
        of_persons(int(sys.argv[2]), tuple(sys.argv[3:]))
    elif sys.argv[1:2] == ["plans"]:
        of_plans(int(sys.argv[2]))
    elif sys.argv[1:2] == ["law"]:
        of_law(int(sys.argv[2]))
    elif sys.argv[1:2] == ["tables"]:
        of_tables()
    else:
        main(*map(int, sys.argv[1:]))
