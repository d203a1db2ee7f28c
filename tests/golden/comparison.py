"""Compares results with those of a version before: decisions are equal, and no bound is weaker.

A lower end may rise and an upper end may fall where a better bound is proved: such changes are listed, and
whatever follows from them (a count below the limit, a verdict, a noise factor) may change towards "holds"
only. Both brackets are about the same truth, so they must overlap. Everything else is the same number, within
the errors that both versions state.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.golden.summaries import Summary

# Lower ends come from tables of bounds with steps of their own; this much of the prior variance is no change.
LOWER_ROUNDING = 5e-5
ROUNDING = 1e-9
STATUSES = ("failed", "not shown", "passed")  # towards "holds"


@dataclass(slots=True)
class Differences:
    """What is wrong, and what is better than it was."""

    wrong: list[str] = field(default_factory=list)
    better: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)  # that changed towards "holds"

    def add(self, case: str, other: Differences) -> None:
        """Join the differences of a case."""
        for name in ("wrong", "better", "verdicts"):
            getattr(self, name).extend(f"{case}: {line}" for line in getattr(other, name))

    def equal(self, what: str, before: Any, now: Any) -> None:
        """A decision."""
        if before != now:
            self.wrong.append(f"{what}: {before} before, {now} now")

    def near(self, what: str, before: Any, now: Any, error: float = ROUNDING) -> None:
        """A number, within an error relative to it."""
        before, now = as_float(before), as_float(now)
        if before is None or now is None or not math.isfinite(before):
            self.equal(what, before, now)
        elif not abs(now - before) <= error * abs(before) + 1e-300:
            self.wrong.append(f"{what}: {before!r} before, {now!r} now, allowed {error:.1e}")

    def rmse(self, what: str, before: Any, now: Any, error: float, *, gaussian: bool) -> None:
        """An error: under laws that are not Gaussian it was a bound by information: √2, or √π, too small."""
        first, second = as_float(before), as_float(now)
        most = (math.sqrt(math.pi) + 1e-6) * (first or 0.0)
        if gaussian or first is None or second is None or not first * (1 + error) < second <= most:
            self.near(what, before, now, error)

    def falls(self, what: str, before: Any, now: Any, rounding: float = ROUNDING) -> None:
        """A number that may fall, not rise; none stands for one that is larger than all."""
        first = math.inf if before is None else float(before)
        second = math.inf if now is None else float(now)
        if not second <= first + rounding * abs(first) and first != second:
            self.wrong.append(f"{what}: {before} before, {now} now, and it may only fall")
        elif second < first * (1 - 1e-6):
            self.better.append(f"{what}: {before} before, {now} now")

    def bracket(
        self, what: str, before: tuple[Any, Any], now: tuple[Any, Any], error: float = ROUNDING
    ) -> None:
        """The ends of what remains: the lower may rise, the upper may fall, and they are about one truth."""
        if before[0] is None or now[0] is None:
            self.equal(what, before, now)
            return
        lower, upper = before
        rises, falls = now[0] - lower, upper - now[1]
        if rises < -min(LOWER_ROUNDING, 1e-3 * lower) - 1e-12:
            self.wrong.append(f"{what}: lower end {lower!r} before, {now[0]!r} now")
        if falls < -error * upper - 1e-12:
            self.wrong.append(f"{what}: upper end {upper!r} before, {now[1]!r} now")
        if not now[0] <= now[1] * (1 + 1e-12):
            self.wrong.append(f"{what}: lower end {now[0]!r} above upper end {now[1]!r}")
        if now[0] > upper * (1 + error) + 1e-12 or now[1] < lower * (1 - error) - 1e-12:
            self.wrong.append(
                f"{what}: {lower!r} to {upper!r} before, {now[0]!r} to {now[1]!r} now: no overlap"
            )
        if rises > LOWER_ROUNDING or falls > max(LOWER_ROUNDING, error):
            self.better.append(f"{what}: {lower:.5f} to {upper:.5f} before, {now[0]:.5f} to {now[1]:.5f} now")


def as_float(value: Any) -> float | None:
    """A number that JSON held; none if there is none."""
    return None if value is None else float(value)


def audits(before: Summary, now: Summary) -> Differences:
    """The differences of two audits of one plan."""
    found = Differences()
    for name in (
        "limit",
        "counts",
        "identifiable",
        "newly",
        "alone",
        "over time",
        "proven",
    ):
        found.equal(name, before[name], now[name])
    if not _has_no_slope(before, now):
        found.equal("local", before["local"], now["local"])
    # Before, records that differ in other categories alone counted as a group for each category.
    (found.falls if _has_categories(before) else found.equal)("groups", before["groups"], now["groups"])
    error = _stated(before, now)
    least, least_now = (one["least"] or (None, None) for one in (before, now))
    # Counts of several categories together are asked as a yes or no of their own now.
    asked = bool(set(now["questions"]) - set(before["questions"])) and " in (" in str(now["questions"])
    if before["least"] and now["least"] and now["least"][0] > before["least"][0] * (1 + ROUNDING):
        # A sharper lower end may make another record the most exposed: each is compared by itself below.
        found.better.append(f"least: lower end {least[0]!r} before, {least_now[0]!r} now")
    elif not asked:
        found.bracket("least", least, least_now, error)
    _verdicts(found, before, now)
    found.falls("below", before["below"], now["below"])
    _exposed(found, before, now, error)
    for place, (first, second) in enumerate(zip(before["noise"], now["noise"], strict=True)):
        found.near(f"smallest noise of release {place}", first[0], second[0])
        found.near(f"largest noise of release {place}", first[1], second[1])
    for name in ("spent", "needs"):
        # Optimal composition is an accountant more than there was.
        found.equal(name, list(before[name]), [key for key in now[name] if key != "optimal"])
        for key in before[name].keys() & now[name].keys():
            found.near(f"{name} {key}", before[name][key], now[name][key], 1e-6)
    found.near("multiplier", before["multiplier"], now["multiplier"], 1e-6)
    found.near("guaranteed", before["guaranteed"], now["guaranteed"], 1e-6)
    if not asked:
        _slack(found, before["slack"], now["slack"])
        found.equal("questions", sorted(before["questions"]), sorted(now["questions"]))
    for text in before["questions"].keys() & now["questions"].keys():
        first, second = before["questions"][text], now["questions"][text]
        found.equal(f"{text} identifiable", first[0], second[0])
        found.falls(f"{text} below", first[1], second[1])
        found.bracket(text, tuple(first[2:]), tuple(second[2:]), error)
    found.equal("number of other secrets", len(before["others"]), len(now["others"]))
    for place, (first, second) in enumerate(zip(before["others"], now["others"], strict=False)):
        found.add(f"other secret {place}", audits(first, second))
    return found


def _has_no_slope(before: Summary, now: Summary) -> bool:
    """Whether counts above a level were read near the true values, by a width that no plan states now."""
    return before["local"] is not None and now["local"] is None and bool(now["questions"])


def _gaussian(now: Summary) -> bool:
    """Whether all noise is Gaussian; of a result that does not say, it is taken to be."""
    return now.get("law", "gaussian") in ("gaussian", "uneven", "by cell", "budget", "exact", "GaussianNoise")


def _stated(before: Summary, now: Summary) -> float:
    """The error that both versions state together, with the rounding of the last digits."""
    return float(before["error"]) + float(now["error"]) + 1e-13


def _verdicts(found: Differences, before: Summary, now: Summary) -> None:
    if before["status"] == now["status"]:
        return
    line = f"verdict: {before['status']} before, {now['status']} now"
    statuses = (before["status"], now["status"])
    if None in statuses or STATUSES.index(now["status"]) < STATUSES.index(before["status"]):
        found.wrong.append(line)
    else:
        found.verdicts.append(line)


def _slack(found: Differences, before: Any, now: Any) -> None:
    if before is None and now is not None:  # plans without linear numbers are told a factor, too
        found.better.append(f"slack: {now[1]} now")
        return
    if now is None:
        found.equal("slack", before, now)
        return
    least = None if before[1] is None else max(before[1], 1e-5)  # where the search ends now
    found.falls("slack", least, now[1], 5e-3)  # searched for to that, and rounded to three digits
    if before[0] and not now[0]:
        found.wrong.append("slack: held before, does not now")


def _exposed(found: Differences, before: Summary, now: Summary, error: float) -> None:
    """Those who are listed: an identifiable value stays; others may leave when they keep enough."""
    categories = _has_categories(before) or now.get("categories") is not None
    if categories and _once(before) and _once(now):
        _worst_categories(found, before, now, error)
        return
    first, second = (_by_key(one, categories) for one in (before, now))
    fewer_groups = categories and now["groups"] < before["groups"]
    for key in first.keys() | second.keys():
        if key[-1] and _has_no_slope(before, now):
            continue
        olds, news = first.get(key, []), second.get(key, [])
        what = " ".join(str(part) for part in key if part is not None)
        decided_before, decided_now = (sum(one[0] for one in part) for part in (olds, news))
        if fewer_groups and (decided_now < decided_before or len(news) > len(olds)):
            continue  # the number of identifiable records is compared by itself
        found.equal(f"{what} identifiable", decided_before, decided_now)
        if len(olds) != len(news):
            _listed(found, what, olds, news, now["limit"])
            continue
        for old, new in zip(olds, news, strict=True):
            # Before, the features of several categories were those of indicators without a reference.
            if math.isfinite(error) and not (categories and key[3] > 1):
                found.rmse(f"{what} rmse", old[1], new[1], error, gaussian=_gaussian(now))
            found.bracket(what, old[2:], new[2:], error)


def _once(summary: Summary) -> bool:
    """Whether of every record the worst category alone is listed, as where persons have several rows."""
    listed = [entry[0] for entry in summary["exposed"]]
    return summary["counts"][0] > summary["counts"][1] and len(set(listed)) == len(listed)


def _worst_categories(found: Differences, before: Summary, now: Summary, error: float) -> None:
    """Which category is the worst may change with sharper bounds, and with it whether it is identifiable."""
    first, second = ({entry[0]: entry for entry in one["exposed"]} for one in (before, now))
    for record in first.keys() | second.keys():
        old, new = first.get(record), second.get(record)
        if old is None or new is None:
            _listed(found, str(record), [old[6:]] if old else [], [new[6:]] if new else [], now["limit"])
        elif old[1] == new[1]:
            found.bracket(str(record), tuple(old[8:]), tuple(new[8:]), error)
        else:  # two categories: the least lower end of all may only rise
            found.bracket(str(record), (old[8], 1.0), (new[8], 1.0), error)


def _listed(found: Differences, what: str, olds: list[Any], news: list[Any], limit: float | None) -> None:
    gone = len(olds) - len(news)
    line = f"{what}: {len(olds)} listed before, {len(news)} now"
    near_limit = limit is not None and all(
        one[2] is not None and one[2] > limit - LOWER_ROUNDING for one in news
    )
    if gone < 0 and not near_limit:
        found.wrong.append(line)
    else:
        found.better.append(line)


def _has_categories(summary: Summary) -> bool:
    return any(entry[1] is not None for entry in summary["exposed"])


def _by_key(summary: Summary, categories: bool) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Entries by whom and what they are about, the most exposed first."""
    listed: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    several = summary["counts"][0] > summary["counts"][1]
    for entry in summary["exposed"]:
        ends = tuple(entry[6:])
        feature = None if categories else entry[2]
        category = entry[1] if entry[6] or not several else None  # which one is the worst may change
        # Persons alike are one entry with all their names now; before, some were listed one by one.
        for name in (entry[0] or "").split(", "):
            part = listed[(name, category, feature, entry[3], entry[5])]
            if ends not in part:
                part.append(ends)
    return {key: sorted(part, key=_order) for key, part in listed.items()}


def _order(entry: tuple[Any, ...]) -> tuple[Any, ...]:
    """By error, upper and lower end; errors that differ in their last digits are the same."""
    error, upper, lower = (as_float(value) or 0.0 for value in (entry[1], entry[3], entry[2]))
    return (not entry[0], float(f"{error:.9g}"), upper, lower)


def exposures(before: Summary, now: Summary) -> Differences:
    """The differences of what two versions say of one membership design."""
    found = Differences()
    undecided = set(before["undecided"]) | set(now["undecided"])
    if set(now["undecided"]) - set(before["undecided"]):
        found.wrong.append(f"undecided: {before['undecided']} before, {now['undecided']} now")
    decided = [[one for one in part["identifiable"] if one not in undecided] for part in (before, now)]
    found.equal("identifiable", *decided)
    error = _stated(before, now)
    for record in range(len(before["rmse"])):
        if record in undecided:
            continue
        if math.isfinite(error):
            errors = before["rmse"][record], now["rmse"][record]
            found.rmse(f"rmse of {record}", *errors, error, gaussian=_gaussian(now))
        brackets = [(part["lower"][record], part["upper"][record]) for part in (before, now)]
        found.bracket(f"record {record}", brackets[0], brackets[1], error)
    return found


def noise_designs(before: Summary, now: Summary) -> Differences:
    """The differences of two designs of noise for one plan: it is enough, and costs no more."""
    found = Differences()
    if before["passed"] and not now["passed"]:
        found.wrong.append("passed before, does not now")
    if now["binds"] and not before["binds"]:
        found.wrong.append("the noise as it is was enough before, and is not now")
    found.near("loss of the plan", before["before"], now["before"])
    found.falls("withheld numbers", before["withheld"], now["withheld"])
    found.falls("common factor", before["common"], now["common"], 1e-5)
    found.falls("loss", before["loss"], now["loss"], 1e-5)
    found.equal("numbers", list(before["stddevs"]), list(now["stddevs"]))
    if abs(now["loss"] / before["loss"] - 1) < 1e-5:  # the same optimum, and near it the loss is flat
        for name in before["stddevs"].keys() & now["stddevs"].keys():
            found.near(f"noise on {name}", before["stddevs"][name], now["stddevs"][name], 0.02)
    return found


def lines(found: Differences) -> Iterator[str]:
    """A report: what is wrong, the verdicts that changed towards "holds", and the bounds that are sharper."""
    counts = [len(part) for part in (found.wrong, found.verdicts, found.better)]
    yield "{} wrong, {} verdicts towards holds, {} sharper".format(*counts)
    yield from (f"wrong    {line}" for line in found.wrong)
    yield from (f"verdict  {line}" for line in found.verdicts)
    yield from (f"sharper  {line}" for line in found.better)
