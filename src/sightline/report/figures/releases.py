"""Figures of the releases: which of them exposes whom, and the exposure after each."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from sightline.auditing.result import AuditResult, MapColumn, Role
from sightline.format import count, percent
from sightline.report.style import (
    EXPOSED,
    GRID,
    HEIGHT,
    INK,
    NEUTRAL,
    PALETTE,
    WIDTH,
    altair,
    labelled_line,
    rows,
    zoom,
)
from sightline.report.wording import isolated, short, wrapped

_ROOMY = 12  # with more columns, a name has one line
_NAMED = 40  # with more columns, their names are left out
_SEPARATE = 300  # with more columns, neighbours of the same role become one mark
_GAP = 0.04  # between separate columns
# The width of a figure, of a character and of a line that is askew, in pixels on a telephone.
_NARROW, _CHARACTER, _LINE = 210, 6, 16
_TALL = 20  # with more releases, a name has one line
_MOST_RELEASES = 40  # with more, those that the attacks use most

_WORDS = {
    Role.ABSENT: "not in it",
    Role.PRESENT: "in it",
    Role.USED: "used by the best attack",
    Role.NEEDED: "needed to single it out",
}
_COLOURS = {Role.ABSENT: GRID, Role.PRESENT: PALETTE[4], Role.USED: NEUTRAL, Role.NEEDED: EXPOSED}


def draw_map(result: AuditResult) -> Any:
    """Draw the map of roles. Hovering shows the record and what remains; zooming separates neighbours."""
    alt = altair()
    columns = result.release_map
    shown = _shown_releases(result)
    releases = [wrapped(result.releases[i].name, 24, 1 if len(shown) > _TALL else 2) for i in shown]
    names = _names(result)
    visible = _first_view(result)
    first = visible if visible <= _SEPARATE else 0
    marks = _marks(result, first)
    across = alt.Axis(grid=False, tickMinStep=1, format="d")
    if visible <= _NAMED:
        across = alt.Axis(
            values=[at + 0.5 for at in range(visible)],
            labelExpr="column_labels[floor(datum.value)]",
            labelAngle=-90 if visible > _ROOMY else -60 if visible > 3 else 0,
            labelLimit=170,
            labelOverlap=visible > _ROOMY,
            grid=False,
        )
    one_line_each = all(len(name) == 1 for name in releases)
    down = alt.Axis(
        labelExpr="release_names[datum.value]",
        labelLimit=170,
        labelOffset=0 if one_line_each else -5,
        grid=False,
        ticks=False,
    )
    words = [_WORDS[role] for role in Role]
    chart = (
        alt.Chart(rows(marks), name="release_map")
        .transform_flatten(["from", "to", "code"])
        .transform_calculate(
            role="role_names[datum.code]",
            name="join(release_names[datum.release], ' ')",
            keeps="column_keeps[floor(datum.from)]",
            more="ceil(datum.to) - floor(datum.from) - 1",
            who="column_names[floor(datum.from)] + (datum.more > 0 ? ' and ' + datum.more + ' more' : '')",
        )
        .mark_rect(clip=True)
        .encode(
            x=alt.X("from:Q").title(_title(result)).axis(across).scale(domain=[0, visible], nice=False),
            x2="to:Q",
            y=alt.Y("release:O").title(None).axis(down).scale(paddingInner=0.12),
            color=alt.Color("role:N")
            .title(None)
            .scale(domain=words, range=[_COLOURS[role] for role in Role])
            .legend(columns=1, symbolType="square"),
            tooltip=[
                alt.Tooltip("who:N"),
                alt.Tooltip("name:N", title="release"),
                alt.Tooltip("role:N"),
                alt.Tooltip("keeps:N"),
            ],
        )
        .add_params(
            zoom("x"),
            alt.param(name="release_names", value=releases),
            alt.param(name="role_names", value=words),
            alt.param(name="column_labels", value=_labels(result)),
            alt.param(name="column_names", value=[isolated(name) for name in names]),
            alt.param(name="column_keeps", value=[str(column.remaining_uncertainty) for column in columns]),
        )
    )
    height = max(60, (26 if one_line_each else 32) * len(releases))
    return chart.properties(width=WIDTH, height=height, description=describe_map(result))


def describe_map(result: AuditResult) -> str:
    """The figure in words."""
    needed = [
        (
            # Of all, where that was counted: the map has the most exposed alone.
            sum(column.size for column in result.release_map if column.roles[i] == Role.NEEDED)
            if release.exposes_alone is None
            else release.exposes_alone,
            release.name,
        )
        for i, release in enumerate(result.releases)
    ]
    worst = sorted((entry for entry in needed if entry[0]), key=lambda entry: (-entry[0], entry[1]))[:3]
    columns = result.release_map
    thing, in_all = _things(result)
    first = columns[: _first_view(result)]
    seen = len({column.signature for column in first}) if result.unit == "record" else len(first)
    by_category = any(column.category is not None for column in columns)
    signatures = f"{seen:,} of {in_all:,} {thing}s" if seen < in_all else count(seen, thing)
    shown = f"The {'categories of ' * by_category}{signatures} that are most exposed."
    if seen == in_all > 1 and not by_category:
        shown = f"All {signatures}, the most exposed first."
    rows_shown = len(_shown_releases(result))
    left_out = (
        f" Of {len(result.releases):,} releases, the {rows_shown} that their attacks use most are drawn."
        if rows_shown < len(result.releases)
        else ""
    )
    if not worst:
        looked = any(release.exposes_alone is not None for release in result.releases)
        nobody = not any(column.identifiable for column in columns)
        hidden = " Leaving out one release would not hide anyone." if looked or nobody else ""
        return f"{shown}{left_out}{hidden}"
    listed = "; ".join(f'{number:,} fewer without "{short(name, 40)}"' for number, name in worst)
    return f"{shown}{left_out} Fewer {result.unit}s could be singled out: {listed}."


def _shown_releases(result: AuditResult) -> list[int]:
    """The releases that have a row, in the order of publication."""
    everything = range(len(result.releases))
    if len(everything) <= _MOST_RELEASES:
        return list(everything)
    roles = [[column.roles[i] for column in result.release_map] for i in everything]
    most = [
        tuple(-roles[i].count(role) for role in (Role.NEEDED, Role.USED, Role.PRESENT)) for i in everything
    ]
    return sorted(sorted(everything, key=most.__getitem__)[:_MOST_RELEASES])


def _first_view(result: AuditResult) -> int:
    """The number of columns shown before zooming: all, or those up to the last that an attack uses."""
    columns = result.release_map
    of_interest = [
        at for at, column in enumerate(columns, start=1) if set(column.roles) & {Role.USED, Role.NEEDED}
    ]
    wanted = max(_NAMED, max(of_interest, default=len(columns)))
    return min(len(columns), wanted) if wanted <= _SEPARATE else len(columns)


def _title(result: AuditResult) -> list[str]:
    """The title below the columns, in lines that are short enough for a narrow page."""
    shown, first = len(result.release_map), _first_view(result)
    by_category = any(column.category is not None for column in result.release_map)
    thing, in_all = _things(result)
    things = f"{thing}s and categories" if by_category else f"{thing}s"
    if first < shown:
        return [f"the {first:,} most exposed", f"of the {shown:,} listed"]
    if by_category or shown == in_all:
        return [things, "the most exposed first"]
    return [f"the {shown:,} most exposed", f"of {in_all:,} {things}" if in_all else things]


def _things(result: AuditResult) -> tuple[str, int]:
    """What the columns are, and how many there are in all; 0 if they were not counted.

    Of persons with several rows they are persons with the same rows, and signatures are of rows.
    """
    if result.unit == "record":
        return "signature", max(result.signatures, len({column.signature for column in result.release_map}))
    listed = sum(column.size for column in result.release_map)
    return "group", len(result.release_map) if listed >= result.verdict.judged else 0


def _names(result: AuditResult) -> list[str]:
    keys = _keys(result)
    return [_name(column, keys, f" ({count(column.size, result.unit)})") for column in result.release_map]


def _labels(result: AuditResult) -> list[list[str]]:
    """The names below the columns: on several lines if there is room for them."""
    keys, columns = _keys(result), result.release_map
    names = [_name(column, keys, f" ({column.size:,})") for column in columns[:_NAMED]]
    visible = min(_first_view(result), len(names))
    if visible <= 3:  # side by side
        return [wrapped(name, _NARROW // (_CHARACTER * max(visible, 1)), 4) for name in names]
    lines = max(1, min(3, _NARROW // (visible * _LINE)))  # askew: so many lines have room for each
    return [wrapped(name, 18 if lines > 1 else 28, lines) for name in names]


def _keys(result: AuditResult) -> dict[int, str]:
    return {exposed.signature: exposed.record for exposed in result.exposed if exposed.record is not None}


def _name(column: MapColumn, keys: dict[int, str], several: str) -> str:
    name = keys.get(column.signature) or column.label or f"#{column.signature}"
    if column.category is not None:
        name = f"{name}, {column.category}"
    return name if column.size == 1 else name + several


def _marks(result: AuditResult, first: int) -> list[dict[str, Any]]:
    """The marks of every release as lists, which are a quarter as long in a page as one entry for each mark.

    The first columns have a mark each; after them, a run of neighbours with the same role has one.
    """
    found = []
    for row, i in enumerate(_shown_releases(result)):
        roles = [column.roles[i] for column in result.release_map]
        marks = [
            (round(at + _GAP, 2), round(at + 1 - _GAP, 2), role) for at, role in enumerate(roles[:first])
        ]
        at = first
        for role, run in groupby(roles[first:]):
            to = at + sum(1 for _ in run)
            if role != Role.ABSENT:
                marks.append((at, to, role))
            at = to
        ends = zip(*marks, strict=True) if marks else ((), (), ())
        start, stop, codes = (list(one) for one in ends)
        found.append({"release": row, "from": start, "to": stop, "code": [int(role) for role in codes]})
    return found


def draw_timeline(result: AuditResult) -> Any:
    """Draw what the most exposed record keeps after each release; orange if it singles out a new record."""
    alt = altair()
    stages = [
        {
            "at": at,
            "release": isolated(stage.release),
            "lower": 1.0 if (least := stage.least_remaining_uncertainty) is None else least.lower,
            "upper": 1.0 if least is None else least.upper,
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
    if result.verdict.limit is not None:
        limit = result.verdict.limit
        layers += labelled_line(limit, f"limit {percent(limit)}", axis="y", dashed=False, colour=EXPOSED)
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
