"""Where the shipped examples are."""

from __future__ import annotations

from pathlib import Path

from sightline.errors import InvalidInput

EXAMPLES = (
    "microgrid",
    "health_survey",
    "census",
    "meters",
    "orders",
    "stays",
    "salaries",
    "readings",
    "discharges",
    "frequency",
)


def example_plan(name: str) -> Path:
    """The path of a shipped example's plan; its data lie beside it, with their provenance.

    >>> example_plan("microgrid").name
    'plan.toml'
    """
    if name not in EXAMPLES:
        raise InvalidInput(f"expected an example, one of {', '.join(EXAMPLES)}, got {name!r}")
    return Path(__file__).parent / name / "plan.toml"
