"""The figures of an audit, in the order of its page: each draws a result and describes it; and as files.

They compute no results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from sightline.auditing.result import AuditResult, Uncertainty, VerdictStatus
from sightline.format import count, number, parameter, percent, percent_at_least, percent_stated
from sightline.report import style
from sightline.report.files import check_new, make_folder, write_new
from sightline.report.style import EXPOSED, HEIGHT, INK, NEUTRAL, WIDTH, altair, labelled_line, rows, zoom
from sightline.report.wording import (
    before_after,
    isolated,
    noun,
    short,
    wrapped,
)
from sightline.values import frozen

_BARS_HEIGHT = 92


def draw_before_after(result: AuditResult) -> Any:
    """Draw two bars: one error on either side of a guess, before and after; or how often a guess is right."""
    alt = altair()
    shown = before_after(result)
    (low, high), numbers = shown.ends, shown.numbers
    before, after, inner = (tuple(low + share * (high - low) for share in span) for span in shown.spans)
    texts = [
        {"row": row, "text": f"{row} the releases: {text}" if row == "before" else f"with them: {text}"}
        for row, text in zip(("before", "after"), numbers, strict=True)
    ]
    axis = alt.Axis(format=".0%", tickCount=5)
    if not shown.guess:
        axis = alt.Axis(labelExpr="format(datum.value, ',.4~r')", tickCount=5)
    across = (
        alt.X("from:Q")
        .title(_title_of_bars(result, guess=shown.guess))
        .scale(domain=[low, high], nice=False)
        .axis(axis)
    )
    down = alt.Y("row:N").title(None).sort(["before", "after"]).axis(None)
    bars: list[dict[str, Any]] = [
        alt.Chart(rows([{"row": row, "from": span[0], "to": span[1]}]))
        .mark_bar(height=18, clip=True, color=colour, opacity=opacity)
        .encode(x=across, x2="to:Q", y=down)
        for row, span, colour, opacity in (
            ("before", before, NEUTRAL, 1.0),
            ("after", after, EXPOSED, 0.5),
            *((("after", inner, EXPOSED, 1.0),) if not shown.guess else ()),
        )
    ]
    # At the left edge, above the bar, a text fits on a narrow page, too.
    words = (
        alt.Chart(rows(texts))
        .mark_text(color=INK, fontWeight="bold", align="left", dy=-17)
        .encode(x=alt.value(0), y=down, text="text:N")
    )
    return alt.layer(*bars, words).properties(
        width=WIDTH, height=_BARS_HEIGHT, description=describe_before_after(result)
    )


def describe_before_after(result: AuditResult) -> str:
    """The figure in words."""
    shown = before_after(result)
    numbers = shown.numbers
    if shown.guess:
        before, after = (one.removeprefix("right ") for one in numbers)
        return (
            f"How often an attacker guesses right: {before} of the time before the releases, {after} with "
            f"them, for the most exposed {noun(result.record)}."
        )
    return (
        f"One error on either side of a guess, {numbers[0]} before and {numbers[1]} with the releases, drawn "
        "around the middle of the range. Dark: no attack is closer; light: the best attack is no wider."
    )


def _title_of_bars(result: AuditResult, *, guess: bool) -> str:
    if guess:
        return "guesses that are right"
    total = bool(result.sharpest and result.sharpest.total)
    return f"{'total ' * total}{short(result.secret, 40)}{', around the guess' * total}"


# A line that is so near the right end has its name to its left. The first of two lines has it to its left if
# it is no nearer the left end, so that names do not meet.
_BESIDE = 0.3
# The width of a figure, and of a character, in pixels on a telephone.
_NARROW, _CHARACTER = 210, 6


def draw_distribution(result: AuditResult) -> Any:
    """Draw the histogram of remaining uncertainty, the limit, and what the noise alone guarantees."""
    alt = altair()
    edges, counts = result.distribution.edges, result.distribution.records
    limit, noise = result.verdict.limit or 0.0, result.guaranteed_by_noise or 0.0
    bars: list[dict[str, Any]] = [
        {
            "low": low,
            "high": high,
            "records": count,
            "place": "may be below the limit" if low < limit else "keeps the limit",
            "keeps": f"{percent(low)} to {percent(high)}",
        }
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
        if count
    ]
    free = 0.0  # from where on the next number has room on a narrow page
    for bar in bars:
        text = f"{bar['records']:,d}"
        middle, half = (bar["low"] + bar["high"]) / 2, _CHARACTER / _NARROW * len(text) / 2
        bar["text"] = text if middle - half >= free else ""
        free = middle + half if bar["text"] else free
    powers = [10**power for power in range(len(str(max(counts))))]
    # Logarithmic, so that two exposed records are visible beside a hundred thousand others.
    height = (
        alt.Y("records:Q")
        .title("records")
        .scale(type="symlog", constant=1, domain=[0, 3 * max(counts)], nice=False)
        .axis(values=[0, *powers], format=",d")
    )
    base = alt.Chart(rows(bars)).encode(
        x=alt.X("low:Q")
        .title("remaining uncertainty, lower end")
        .axis(format="%", tickCount=10)
        .scale(domain=[0, 1]),
    )
    place = alt.Color("place:N").legend(None)
    colours = {"may be below the limit": EXPOSED, "keeps the limit": NEUTRAL}
    shown = base.mark_rect(xOffset=0.5, x2Offset=-0.5).encode(
        x2="high:Q",
        y=height,
        y2=alt.Y2Datum(0),
        color=place.scale(domain=list(colours), range=list(colours.values())),
        tooltip=[alt.Tooltip("keeps:N"), alt.Tooltip("records:Q", format=",d")],
    )
    # The number on a bar at the right edge is right-aligned: a narrow page would cut it off.
    places = {"center": ("datum.high < 1", "(datum.low + datum.high) / 2"), "right": ("datum.high >= 1", "1")}
    numbers = [
        base.transform_filter(condition)
        .transform_calculate(at=at)
        .mark_text(dy=-6, color=INK, align=align)
        .encode(x="at:Q", y="records:Q", text="text:N")
        for align, (condition, at) in places.items()
    ]
    layers = [shown.properties(name="distribution").add_params(zoom("x")), *numbers]
    if result.guaranteed_by_noise is not None:
        before = _BESIDE if noise < limit else 1 - _BESIDE
        layers += labelled_line(noise, "noise alone", axis="x", dashed=True, before=before)
    layers += _limit_line(result, axis="x", before=_BESIDE if limit < noise else 1 - _BESIDE)
    return alt.layer(*layers).properties(
        width=WIDTH, height=HEIGHT, description=describe_distribution(result)
    )


def _limit_line(result: AuditResult, *, axis: Literal["x", "y"], before: float = 1 - _BESIDE) -> list[Any]:
    """A line at the limit, if there is one."""
    limit = result.verdict.limit
    if limit is None:
        return []
    name = f"limit {percent_stated(limit)}"
    return labelled_line(limit, name, axis=axis, dashed=False, colour=EXPOSED, before=before)


def describe_distribution(result: AuditResult) -> str:
    """The figure in words."""
    least, verdict = result.least_remaining_uncertainty, result.verdict
    sentences = []
    if least is not None:
        sentences.append(
            f"The most exposed record keeps at least {percent_at_least(least.lower)} of its uncertainty."
        )
    if verdict.limit is not None:
        limit = percent_stated(verdict.limit)
        if limit != verdict.limit_text:
            limit = f"{limit} of the variance, which is that of {verdict.limit_text}"
        below = sum(
            count
            for low, count in zip(result.distribution.edges, result.distribution.records, strict=False)
            if low < verdict.limit
        )
        if verdict.below_limit:
            sentences.append(f"{count(verdict.below_limit, 'record')} may be below the limit of {limit}.")
        elif verdict.status is VerdictStatus.NOT_SHOWN and least is not None and least.lower < verdict.limit:
            sentences.append(f"It is not shown that every record keeps the limit of {limit}.")
        else:
            sentences.append(f"No record's lower bound is below the limit of {limit}.")
        if below != verdict.below_limit:
            sentences.append("The bar that contains the limit has the colour of the records below it.")
    if result.guaranteed_by_noise is not None:
        sentences.append(
            f"The noise alone guarantees {percent_at_least(result.guaranteed_by_noise)} to every record, "
            "even against an attacker who knows all other records; a privacy budget counts only this."
        )
    return " ".join(sentences)


def draw_timeline(result: AuditResult) -> Any:
    """Draw what the most exposed record keeps after each release; orange if it singles out a new record."""
    alt = altair()
    untouched = Uncertainty(lower=1.0, upper=1.0)
    stages = [
        {
            "at": at,
            "release": isolated(stage.release),
            "lower": (stage.least_remaining_uncertainty or untouched).lower,
            "upper": (stage.least_remaining_uncertainty or untouched).upper,
            "new": stage.newly_identifiable,
            "effect": "singles out a new record" if stage.newly_identifiable else "singles out no new record",
            "text": f"+{stage.newly_identifiable:,}" if stage.newly_identifiable else "",
            "identifiable": stage.identifiable_records,
            "below": stage.below_limit,
        }
        for at, stage in enumerate(result.timeline, start=1)
    ]
    stages_shown, askew = len(result.timeline), len(result.timeline) > 3
    lines = 4 if not askew else 2 if stages_shown <= 6 else 1
    width = _NARROW // (_CHARACTER * stages_shown) if not askew else 20 if lines > 1 else 36
    names = [wrapped(stage.release, width, lines) for stage in result.timeline]
    step = max(1, len(names) // 20)
    axis = alt.Axis(
        values=list(range(1, len(names) + 1, step)),
        labelExpr="stage_names[datum.value - 1]",
        labelAngle=-60 if askew else 0,
        labelOverlap=len(names) > 12,
        labelLimit=220,
        grid=False,
    )
    base = alt.Chart().encode(
        x=alt.X("at:Q")
        .title("published so far")
        .axis(axis)
        .scale(domain=[0.5, len(names) + 0.5], nice=False),
    )
    keeps = (
        alt.Y("lower:Q")
        .title("the most exposed record keeps")
        .axis(format="%")
        .scale(domain=[0, 1.05], nice=False)
    )
    tooltip = [
        alt.Tooltip("release:N", title="after"),
        alt.Tooltip("lower:Q", title="keeps at least", format=".1%"),
        alt.Tooltip("upper:Q", title="and at most", format=".1%"),
        alt.Tooltip("new:Q", title="newly singled out", format=",d"),
        alt.Tooltip("identifiable:Q", title="singled out so far", format=",d"),
        alt.Tooltip("below:Q", title="below the limit", format=",d"),
    ]
    line = base.mark_line(interpolate="step-after", color=NEUTRAL, strokeWidth=1.5).encode(y=keeps)
    bracket = base.mark_rule(color=NEUTRAL, opacity=0.45, strokeWidth=5).encode(y=keeps, y2="upper:Q")
    effects = {"singles out no new record": NEUTRAL, "singles out a new record": EXPOSED}
    points = base.mark_point(filled=True, opacity=1, size=70).encode(
        y=keeps,
        color=alt.Color("effect:N").legend(None).scale(domain=list(effects), range=list(effects.values())),
        shape=alt.Shape("effect:N").legend(None).scale(domain=list(effects), range=["circle", "diamond"]),
        tooltip=tooltip,
    )
    # Above a point near the axis, and below any other.
    texts = [
        base.transform_filter(condition)
        .mark_text(dy=dy, color=INK, fontWeight="bold")
        .encode(y=keeps, text="text:N")
        for condition, dy in (("datum.lower < 0.15", -14), ("datum.lower >= 0.15", 14))
    ]
    stage_names = alt.param(name="stage_names", value=names)
    layers = [line, bracket, points.properties(name="timeline").add_params(zoom("x"), stage_names), *texts]
    layers += _limit_line(result, axis="y")
    whole = alt.layer(*layers, data=rows(stages))
    return whole.properties(width=WIDTH, height=HEIGHT, description=describe_timeline(result))


def describe_timeline(result: AuditResult) -> str:
    """The figure in words."""
    sentences: list[str] = []
    for stage in result.timeline:
        if stage.newly_identifiable and len(sentences) < 3:
            sentences.append(
                f'"{short(stage.release)}" newly singles out {count(stage.newly_identifiable, "record")}.'
            )
    opening = sum(stage.newly_identifiable > 0 for stage in result.timeline)
    if opening > len(sentences):
        sentences.append(
            f"{count(opening - len(sentences), 'more release does', 'more releases do')} so too."
        )
    if not sentences:
        sentences.append("No release singles out anyone.")
    last = result.timeline[-1].least_remaining_uncertainty
    if last is not None:
        sentences.append(f"After all releases the most exposed record keeps {last} of its uncertainty.")
    return " ".join(sentences)


def draw_accountants(result: AuditResult) -> Any:
    """Draw what the most exposed record keeps under each accountant."""
    alt = altair()
    chosen = result.budget.accountant
    bars: list[dict[str, Any]] = [
        {
            "accountant": alternative.accountant,
            "lower": alternative.least_remaining_uncertainty.lower,
            "upper": alternative.least_remaining_uncertainty.upper,
            "noise": alternative.noise_multiplier,
            "rmse": alternative.sharpest_rmse,
            "below": alternative.below_limit,
            "proven": "yes" if alternative.proven else "no",
            "own": "this plan" if alternative.accountant == chosen else "other",
            "text": f"noise × {number(alternative.noise_multiplier, 3)}"
            + ("" if alternative.proven else ", not proven"),
        }
        for alternative in result.alternatives
    ]
    order = [bar["accountant"] for bar in sorted(bars, key=lambda bar: (bar["noise"], bar["accountant"]))]
    base = alt.Chart(rows(bars)).encode(y=alt.Y("accountant:N").title(None).sort(order))
    colours = {"this plan": EXPOSED, "other": NEUTRAL}
    keeps = (
        alt.X("lower:Q")
        .title("the most exposed record keeps")
        .axis(format="%")
        .scale(domain=[0, 1], nice=False)
    )
    bracket = base.mark_bar(height=9, cornerRadius=4).encode(
        x=keeps.axis(format="%", values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
        x2="upper:Q",
        color=alt.Color("own:N").legend(None).scale(domain=list(colours), range=list(colours.values())),
        tooltip=[
            "accountant:N",
            alt.Tooltip("noise:Q", title="noise over sensitivity", format=".4g"),
            alt.Tooltip("lower:Q", title="keeps at least", format=".1%"),
            alt.Tooltip("upper:Q", title="and at most", format=".1%"),
            alt.Tooltip("rmse:Q", title="sharpest error", format=".4g"),
            alt.Tooltip("below:Q", title="below the limit", format=",d"),
            alt.Tooltip("proven:N", title="keeps to the budget, proven"),
        ],
    )
    tick = base.mark_tick(thickness=2, size=14, color=INK).encode(x="lower:Q")
    # The text is above its bar: a narrow page has no room beside a bar that ends at the right.
    text = base.mark_text(align="right", dy=-12, color=INK).encode(x=alt.value("width"), text="text:N")
    layers = [bracket.properties(name="accountants").add_params(zoom("x")), tick, text]
    layers += _limit_line(result, axis="x")
    return alt.layer(*layers).properties(
        width=WIDTH, height=34 * len(bars) + 16, description=describe_accountants(result)
    )


def describe_accountants(result: AuditResult) -> str:
    """The figure in words."""
    budget = result.budget
    assert budget.epsilon is not None  # there are no alternatives without a budget
    proven = [alternative for alternative in result.alternatives if alternative.proven] or list(
        result.alternatives
    )
    least = min(proven, key=lambda alternative: alternative.noise_multiplier)
    most = max(proven, key=lambda alternative: alternative.noise_multiplier)
    return (
        f"For the same budget of epsilon = {parameter(budget.epsilon)}, {least.accountant} asks for noise of "
        f"{number(least.noise_multiplier, 3)} times the sensitivity and leaves the most exposed record "
        f"{least.least_remaining_uncertainty}; {most.accountant} asks for "
        f"{number(most.noise_multiplier, 3)} and leaves {most.least_remaining_uncertainty}. "
        "A tighter accountant asks for less noise, and so the attacker sees more."
    )


@frozen(eq=True)
class ReportFigure:
    """A figure of a page: its name and title, and the functions that draw and describe it."""

    name: str  # of its files, and its id in the page
    title: str
    draw: Callable[[AuditResult], Any]
    describe: Callable[[AuditResult], str]
    drawable: Callable[[AuditResult], bool]


FIGURES: tuple[ReportFigure, ...] = (
    ReportFigure(
        name="before-after",
        title="What an attacker knows before and after",
        draw=draw_before_after,
        describe=describe_before_after,
        drawable=lambda result: bool(result.sharpest),
    ),
    ReportFigure(
        name="distribution",
        title="How much uncertainty remains",
        draw=draw_distribution,
        describe=describe_distribution,
        drawable=lambda result: any(result.distribution.records),
    ),
    ReportFigure(
        name="timeline",
        title="Exposure after each release",
        draw=draw_timeline,
        describe=describe_timeline,
        drawable=lambda result: bool(result.timeline),
    ),
    ReportFigure(
        name="accountants",
        title="The same plan under each accountant",
        draw=draw_accountants,
        describe=describe_accountants,
        drawable=lambda result: bool(result.alternatives),
    ),
)


def export_figures(result: AuditResult, folder: str | Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write every figure that the result has data for, as SVG and as PDF; return their paths in order.

    The folder is made if it is missing. An existing file is replaced only if forced. If the result contains
    something for the table's owner only, only the owner of the files can read them.
    """
    target = Path(folder)
    make_folder(target)
    drawn = [figure for figure in FIGURES if figure.drawable(result)]
    paths = [target / f"{figure.name}{suffix}" for figure in drawn for suffix in (".svg", ".pdf")]
    for path in paths:
        check_new(path, force=force)
    for figure in drawn:
        chart = style.for_print(style.specification(figure.draw(result)))
        for suffix, content in ((".svg", style.svg(chart).encode()), (".pdf", style.pdf(chart))):
            path = target / f"{figure.name}{suffix}"
            write_new(path, content, force=force, owner_only=bool(result.owner_only))
    return tuple(paths)
