"""Draw docs/_static/panels.svg: what is left of every month of a home, from the shipped example ``readings``.

Run ``python docs/panels_picture.py`` when its numbers change; a test compares the file with the audit.
"""

from __future__ import annotations

from pathlib import Path

from sightline.auditing.result import AuditResult
from sightline.examples.shipped import example_plan
from sightline.jobs import audit

PICTURE = Path(__file__).parent / "_static" / "panels.svg"
INK, FAINT, BAR = "#1b2733", "#9aa7b4", "#c2410c"
LEFT, TOP, HEIGHT, STEP = 60, 50, 160, 44


def months(result: AuditResult) -> list[tuple[str, float, float]]:
    """The months of the most exposed home, and the two ends of what is left of each, in percent."""
    found = {
        one.name.rsplit(", ", 1)[1]: one.remaining_uncertainty
        for one in result.exposed[0].named
        if one.name.startswith("tariff: night")
    }
    ordered = sorted(found.items(), key=lambda pair: int(pair[0]))
    return [(month, 100 * left.lower, 100 * left.upper) for month, left in ordered]


def drawn(result: AuditResult) -> str:
    limit = 100 * (result.verdict.limit or 0.0)

    def up(share: float) -> float:
        return TOP + HEIGHT * (1 - share / 100)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 260" font-family="sans-serif" '
        'font-size="13">',
        f'<text x="{LEFT}" y="26" fill="{INK}" font-weight="700">'
        "What is left of every month of home H16</text>",
    ]
    for share in (0, 50, 100):
        parts.append(
            f'<text x="{LEFT - 10}" y="{up(share) + 4:.0f}" text-anchor="end" fill="{FAINT}">{share} %</text>'
        )
    for place, (month, lower, upper) in enumerate(months(result)):
        x = LEFT + 8 + STEP * place
        for share, opacity in ((upper, 0.4), (lower, 1.0)):
            parts.append(
                f'<rect x="{x}" y="{up(share):.1f}" width="28" height="{up(0) - up(share):.1f}" fill="{BAR}" '
                f'opacity="{opacity}"><title>month {month}: {lower:.0f} to {upper:.0f} %</title></rect>'
            )
        below = f'x="{x + 14}" y="{TOP + HEIGHT + 20}" text-anchor="middle" fill="{INK}"'
        parts.append(f"<text {below}>{month}</text>")
    end = LEFT + STEP * 12
    parts.append(
        f'<line x1="{LEFT}" x2="{end}" y1="{up(limit):.1f}" y2="{up(limit):.1f}" stroke="{FAINT}" '
        f'stroke-dasharray="4"/><text x="{end}" y="{up(limit) - 6:.0f}" text-anchor="end" fill="{FAINT}">'
        "limit</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawn(audit(example_plan("readings"))), encoding="utf-8")
