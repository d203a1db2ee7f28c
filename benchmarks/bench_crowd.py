"""Needless alarms where people are many: lower ends of a yes or no, a category and persons with two rows.

``python -m benchmarks.bench_crowd`` prints three tables. *Alarms*: of drawn plans of 40 to 160 people in the
cells of three to five tables, with Gaussian noise or as the class says, how many are below 50 % by the lower
end; of these, how many leave everyone 50 % by a walk without a margin (needless for sure), and by the best
linear attack (needless at most). *1,000 people* in 240 counts, at three noises: the least lower end, and with
a walk for a limit of 93 % of what the best linear attack leaves. *Guessed*: of the same people, how often a
guess is right at most by each bound, and how often that of a Gibbs sampler is. *Tiny* designs: lower ends
above the risk by listed worlds, and alarms that are needless. *Reasons*: of drawn designs, how many ends
fall without each kind of bound, by how much at most. ``alarms 50``, ``alarms 50 categories``, ``thousand``,
``guessed``, ``tiny 200`` and ``reasons 100`` print one of them, for so many plans a class.
"""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import replace
from unittest import mock

import numpy as np
from scipy.stats import norm

from sightline.bounds import assessment, listed_worlds
from sightline.bounds.assessment import assess
from sightline.bounds.coin import CoinPrior
from sightline.bounds.few_values import FewValues
from sightline.bounds.guesses import guesses, right_at_most
from sightline.bounds.priors import PriorAffinity, TwoPointPrior
from sightline.bounds.value_rows import chances_of
from sightline.bounds.walk import Schedule, least_kept, walk
from sightline.bounds.walking import _Walks, with_walk, with_walked_guesses
from sightline.privacy.law import Law
from sightline.units.design import Design, MadeOfUnits
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.unit_block import ONE
from sightline.units.units import Units
from tests.bounds.enumerated_worlds import few
from tests.golden.drawn_designs import drawn_design

CLASSES = (
    "yes or no",
    "other odds",
    "categories",
    "persons",
    "other odds, laplace",
    "yes or no, geometric",
    "yes or no, mixed",
)
LAWS = (Law.GAUSSIAN, Law.LAPLACE, Law.GEOMETRIC)
LIMIT = 0.5


def drawn(kind: str, people: int, noise: float, generator: np.random.Generator) -> Design:
    """People in the cells of some tables: counts of a yes, or of each category but the first."""
    rows = 2 * people if kind == "persons" else people
    k = int(generator.integers(3, 6)) if kind == "categories" else 1
    tables = []
    for _ in range(int(generator.integers(3, 6))):
        groups = int(generator.integers(2, max(3, people // 6)))
        tables.append(np.unique(generator.integers(0, groups, rows), return_inverse=True)[1].ravel())
    starts = np.cumsum([0, *(int(table.max()) + 1 for table in tables)])
    cells = np.stack([table + start for table, start in zip(tables, starts[:-1], strict=True)], axis=1)
    numbers, each = int(starts[-1]), k
    if k > 1:  # category c of a cell is number c · cells + cell; the first category is the rest of a cell
        columns = np.stack([cells + c * numbers for c in range(k)], axis=1).reshape(-1, cells.shape[1])
        numbers *= k
    else:
        columns = cells
    lines = columns.reshape(rows, -1)
    order = np.arange(rows)
    people_of = np.ones(rows, dtype=np.intp)
    first = np.arange(rows)
    if kind != "persons":
        _, first, group = np.unique(lines, axis=0, return_index=True, return_inverse=True)
        people_of = np.bincount(group.ravel())
        order = first
    starts_of = np.arange(order.size + 1) * each
    if kind == "persons":
        starts_of, people_of = np.arange(people + 1) * 2, np.ones(people, dtype=np.intp)
    chosen = columns.reshape(rows, each, -1)[order].reshape(-1, columns.shape[1])
    share = float(generator.choice([0.1, 0.2, 0.3]))
    target = {"other odds": CoinPrior(share=share), "categories": CoinPrior(share=1 / max(k, 2))}.get(
        kind.partition(",")[0], TwoPointPrior(0.0, 1.0)
    )
    return Design(
        units=Units(
            rows=chosen.astype(np.int32),
            weights=ONE,
            numbers=numbers,
            starts=starts_of,
            times=np.ones(len(chosen), dtype=np.intp),
            people=people_of,
            each=each,
        ),
        noise=_noise(kind.partition(", ")[2], numbers, noise, generator),
        prior=UnitPrior(target=target, categories=k),
        release=np.arange(numbers),
        place=np.arange(len(people_of)),
    )


def _noise(law: str, numbers: int, stddev: float, generator: np.random.Generator) -> RowNoise:
    """Of one law, or of all of them mixed, with one standard deviation."""
    named = [Law(law)] if law not in ("", "mixed") else [LAWS[0]]
    laws = [LAWS[i] for i in generator.integers(0, 3, numbers)] if law == "mixed" else named * numbers
    facts = [one.facts for one in laws]
    scales = [float(one.information_scale(one.parameter_of_stddev(np.array([stddev])))[0]) for one in facts]
    answers = np.array([one.laplace_answers for one in laws])
    return RowNoise.of(np.array(scales), np.full(numbers, stddev), answers, np.ones(numbers))


def by_a_long_walk(design: Design) -> float:
    """The least share that remains by a walk of 64 sweeps over all rows, without a margin."""
    units = design.units
    assert isinstance(units, Units)
    parts = FewValues.of(design, units)
    least = 1.0
    nobody = np.zeros(len(parts.kinds), dtype=np.bool_)
    walks = _Walks(few=parts, limit=LIMIT, straddling=nobody)
    for task in walks._tasks(np.arange(len(parts.kinds))):
        blocks = (*task.rows.singles, *task.rows.neighbours(2))
        schedule = Schedule(blocks=blocks, sweeps=64, ends=8, worlds=1_000)
        means = walk(task.rows, schedule, task.targets, (9,))
        ends = np.cumsum([0, *map(len, task.places)]).tolist()
        lists = [range(a, b) for a, b in itertools.pairwise(ends)]
        kept = least_kept(means, task.rows.chances, lists, 0.5, asked=parts.asked)[1]
        least = min(least, float(kept[:, list(parts.asked)].min()))
    return least


def alarms(plans: int, classes: tuple[str, ...] = CLASSES) -> None:
    print(
        f"{'class':<20} plans  alarms  needless: for sure, at most (before the walk)   "
        "CPU s a plan: assess, walk"
    )
    for kind in classes:
        place = CLASSES.index(kind)
        counts = np.zeros(5, dtype=int)
        seconds = np.zeros(2)
        for seed in range(plans):
            generator = np.random.default_rng([place, seed])
            people = int(generator.integers(40, 161))
            noise = float(np.exp(generator.uniform(np.log(0.6), np.log(2.0))))
            design = drawn(kind, people, noise, generator)
            start = time.process_time()
            exposure = assess(design)
            middle = time.process_time()
            lower = with_walk(design, exposure.lower, exposure.upper_of_best, LIMIT)
            seconds += middle - start, time.process_time() - middle
            above = float(exposure.upper_of_best.min()) >= LIMIT
            before, after = float(exposure.lower.min()) < LIMIT, float(lower.min()) < LIMIT
            sure = above and (before or after) and by_a_long_walk(design) >= LIMIT
            counts += after, after and sure, after and above, before and sure, before and above
        shares = counts[1:] / plans
        print(
            f"{kind:<20} {plans:5}  {counts[0]:6}  {shares[0]:.1%}, {shares[1]:.1%} "
            f"({shares[2]:.1%}, {shares[3]:.1%})   {seconds[0] / plans:.3f}, {seconds[1] / plans:.3f}",
            flush=True,
        )


def cells_of_a_thousand() -> np.ndarray:
    """Tables × people: the count that everybody is in."""
    cells = np.random.default_rng(1).zipf(1.35, (4, 1000)) % 60 + 60 * np.arange(4)[:, None]
    return np.unique(cells, return_inverse=True)[1].reshape(4, 1000)


def attacked(cells: np.ndarray, noise: float, worlds: int = 400, sweeps: int = 80) -> np.ndarray:
    """Whether a Gibbs sampler's guess at the yes or no of everyone is right, people × worlds: as 0 or 1.

    It does not know the truth.
    """
    draw = np.random.default_rng(7)
    numbers, people = int(cells.max()) + 1, cells.shape[1]
    design = np.zeros((numbers, people))
    design[cells, np.arange(people)] = 1
    truth = draw.integers(0, 2, (people, worlds)).astype(float)
    answers = design @ truth + noise * draw.standard_normal((numbers, worlds))
    state = draw.integers(0, 2, (people, worlds)).astype(float)
    left, posterior = answers - design @ state, np.zeros((people, worlds))
    for sweep in range(sweeps):
        for person in range(people):
            own = cells[:, person]
            odds = np.sum(left[own] + state[person] - 0.5, axis=0) / noise**2
            chance = 1 / (1 + np.exp(-np.clip(odds, -60, 60)))
            drawn = (draw.random(worlds) < chance).astype(float)
            left[own] += state[person] - drawn
            state[person] = drawn
            if sweep >= sweeps // 4:
                posterior[person] += chance
    guess = posterior / (sweeps - sweeps // 4) > 0.5
    return np.asarray(guess == truth, dtype=np.float64)


def guessed() -> None:
    cells = cells_of_a_thousand()
    print("1,000 people, right at most: by what remains, by the noise alone, by all bounds; best attack")
    for noise in (3.09, 1.08, 0.45):
        design = design_of_cells(cells, noise)
        lower = assess(design).lower
        by_variance = right_at_most(np.array([0.5, 0.5]), lower)
        first = guesses(design, chances_of(design.prior), lower)
        best = with_walked_guesses(design, first.right)
        by_noise = float(norm.cdf(np.sqrt(4) / noise / 2))
        hits = attacked(cells, noise)
        right, error = hits.mean(axis=1), 0.5 / np.sqrt(hits.shape[1])
        worst = int(np.argmax(best[design.place]))
        # The largest of 1,000 noisy means is too large. Who is attacked best is chosen in one half of the
        # worlds, and counted in the other: that mean is of one person, and errs to both sides.
        chosen, counted = np.split(hits, 2, axis=1)
        anybody = counted[int(np.argmax(chosen.mean(axis=1)))].mean()
        sure = norm.cdf(norm.ppf(1e-3) + 2 / noise)
        print(
            f"noise {noise}: {by_variance.max():.3f} {by_noise:.3f} {best.max():.3f}; attack on that one "
            f"{right[worst]:.3f} ± {error:.3f}, on whom it knows best in other worlds {anybody:.3f} ± "
            f"{error * np.sqrt(2):.3f}; people beyond "
            f"chance at most {first.beyond_chance(np.asarray(design.units.people)):.0f}, attacked "
            f"{right.sum() - 500:.0f}; sure at most {first.sure.max():.3f}, by the normal law {sure:.3f}",
            flush=True,
        )


def design_of_cells(cells: np.ndarray, noise: float) -> Design:
    """A yes or no of everyone, counted in their cells."""
    distinct, group = np.unique(cells.T, axis=0, return_inverse=True)
    numbers = int(cells.max()) + 1
    scales = np.full(numbers, noise)
    return Design(
        units=Units.of_one_row(distinct.astype(np.int32), numbers, np.bincount(group.ravel())),
        noise=RowNoise.of(scales, scales, 0 * scales, 0 * scales + 1),
        prior=UnitPrior(target=TwoPointPrior(0.0, 1.0)),
        release=np.arange(numbers),
        place=group.ravel(),
    )


def thousand() -> None:
    cells = cells_of_a_thousand()
    units, numbers = design_of_cells(cells, 1.0).units, int(cells.max()) + 1
    print(
        f"1,000 people in {numbers} counts: least lower end, with a walk, best linear attack; "
        "CPU s: assess, walk"
    )
    for noise in (3.09, 1.08, 0.45):
        design = design_of_cells(cells, noise)
        start = time.process_time()
        exposure = assess(design)
        middle = time.process_time()
        limit = 0.93 * float(exposure.upper_of_best.min())
        lower = with_walk(design, exposure.lower, exposure.upper_of_best, limit)
        end = time.process_time()
        below = [int(units.people[one.min(axis=1) < limit].sum()) for one in (exposure.lower, lower)]
        ends = exposure.lower.min(), lower.min(), exposure.upper_of_best.min()
        print(
            f"noise {noise}: {ends[0]:.3f} {ends[1]:.3f} {ends[2]:.3f}; "
            f"below {limit:.3f}: {below[0]}, {below[1]}; {middle - start:.2f} {end - middle:.2f}",
            flush=True,
        )


def tiny(plans: int) -> None:
    for values, most in ((2, 10), (3, 6)):
        for law in ("gaussian", "laplace", "mixed"):
            wrong, needless, alarmed = 0, 0, 0
            for seed in range(plans):
                generator = np.random.default_rng([values, seed, len(law)])
                noise = float(np.exp(generator.uniform(np.log(0.2), np.log(2.0))))
                rows = int(generator.integers(2, most))
                one = few(generator, rows=rows, values=values, noise=noise, law=law)
                risk, error = one.simulated(1_500, generator)
                design = one.design()
                exposure = assess(design)
                lower = with_walk(design, exposure.lower, exposure.upper_of_best, LIMIT)[design.place]
                truth = risk[:, -lower.shape[1] :]
                wrong += int(np.sum(lower > truth + 6 * error[:, -lower.shape[1] :] + 48 / 1_500))
                alarm = float(lower.min()) < LIMIT
                alarmed += alarm
                needless += alarm and float(truth.min()) >= LIMIT
            print(
                f"{values} values, {law}: {plans} designs, {wrong} wrong, "
                f"{alarmed} alarms, {needless} needless",
                flush=True,
            )


def reasons(designs: int) -> None:
    """Each kind of bound left out, on designs as the golden results draw them and on crowds."""
    lower_only = {
        "lines, flats and chords": mock.patch.object(assessment, "with_lines", lambda _, low, high: low),
        "swaps beside exact numbers": mock.patch.object(
            assessment, "swap_bounds", lambda design: np.zeros(len(design.units))
        ),
        "Weiss-Weinstein": mock.patch.object(
            PriorAffinity, "lower", lambda _, seen, *__: np.zeros_like(seen)
        ),
        "all genies": mock.patch.object(FewValues, "by_genies", lambda few, _: np.zeros(_shape(few))),
        "moves": mock.patch.object(FewValues, "by_moves", lambda few, *_, **__: np.zeros(_shape(few))),
        "listed worlds": mock.patch.object(listed_worlds, "_MOST_STATES", 0),
    }
    drawn_designs = [
        lambda seed=seed: drawn_design(seed).exposures().remaining_lower for seed in range(designs)
    ]
    for place, kind in enumerate(CLASSES[:3]):
        for seed in range(designs // 10):
            generator = np.random.default_rng([place, seed, 3])
            crowd = drawn(kind, 60, float(generator.uniform(0.5, 2.0)), generator)
            drawn_designs.append(lambda crowd=crowd: assess(replace(crowd, made=MadeOfUnits())).lower.ravel())
    every = [one() for one in drawn_designs]
    for name, without in lower_only.items():
        with without:
            fewer = [one() for one in drawn_designs]
        fall = np.concatenate([np.nan_to_num(a - b) for a, b in zip(every, fewer, strict=True)])
        count = f"{np.count_nonzero(fall > 0.005)} of {fall.size} ends fall"
        print(f"without {name}: {count}, at most {fall.max():.3f}", flush=True)


def _shape(few_values: FewValues) -> tuple[int, int]:
    return len(few_values.kinds), len(few_values.asked)


def main() -> None:
    asked = sys.argv[1:]
    plans = int(asked[1]) if len(asked) > 1 else 25
    if not asked or asked[0] == "alarms":
        alarms(plans, tuple(asked[2:]) or CLASSES)
    if not asked or asked[0] == "reasons":
        reasons(plans)
    if not asked or asked[0] == "thousand":
        thousand()
    if not asked or asked[0] == "guessed":
        guessed()
    if not asked or asked[0] == "tiny":
        tiny(plans)


if __name__ == "__main__":
    main()
