"""Small plans for the what-if, and the plan of each setting, written out by hand for an audit of its own."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import sightline as sl
from sightline.auditing.result_parts import Setting, SettingKind
from sightline.examples.shipped import example_plan

_SIZES = ("stddev", "noise_multiplier")


def microgrid_months(*names: str) -> dict[str, Any]:
    """Some months of the shipped micro-grid, with the noise that its operator chose."""
    cut = {"January": "2016-01", "March": "2016-03", "May": "2016-05", "June": "2016-06"}
    return {
        "data": {
            "source": str(example_plan("microgrid").parent / "homes.csv"),
            "record": "home",
            "secret": "evening_watts",
            "bounds": [0, 2000],
        },
        "privacy": {"delta": 1e-5},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {
                "name": name,
                "sql": f"SELECT AVG(evening_watts) FROM data WHERE joined <= '{cut[name]}'",
                "noise_stddev": 10.0,
            }
            for name in names
        ],
    }


def budgeted(**changes: Any) -> dict[str, Any]:
    """The same months under a budget, and an attacker who knows a home."""
    plan = microgrid_months("January", "March")
    for release in plan["release"]:
        del release["noise_stddev"]
    plan["privacy"] = {"epsilon": 40.0, "delta": 1e-5, "accountant": "zcdp"}
    plan["attacker"] = {"knows": ["home = 'H01'"]}
    return plan | changes


def homes(folder: Path) -> str:
    """A table with a yes or no, a category, and two days of each home."""
    path = folder / "homes.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["home", "day", "feeder", "watts", "heats", "fuel"])
        for i in range(9):
            for day in (1, 2):
                fuel = ("gas", "oil", "wood")[(i * 5 + i // 4) % 3]
                writer.writerow([f"H{i}", day, f"F{i % 2}", 10 * i + day, bool(i % 3), fuel])
    return str(path)


def categories(folder: Path) -> dict[str, Any]:
    """A histogram of one day, beside a coarser one."""
    counted = ", ".join(f"COUNT(*) FILTER (WHERE fuel = '{fuel}')" for fuel in ("gas", "oil", "wood"))
    path = Path(homes(folder))
    day = [line for line in path.read_text().splitlines() if ",2,F" not in line]
    (folder / "day.csv").write_text("\n".join(day) + "\n")
    return {
        "data": {
            "source": str(folder / "day.csv"),
            "record": "home",
            "secret": "fuel",
            "categories": ["gas", "oil", "wood"],
        },
        "privacy": {"epsilon": 8.0, "delta": 1e-5},
        "limits": {"remaining_uncertainty": 0.6},
        "release": [
            {"name": "all", "sql": f"SELECT {counted} FROM data"},
            {"name": "by feeder", "sql": f"SELECT feeder, {counted} FROM data GROUP BY feeder"},
        ],
    }


def persons(folder: Path) -> dict[str, Any]:
    """Homes with two rows each."""
    return {
        "data": {
            "source": homes(folder),
            "record": "home",
            "secret": "watts",
            "bounds": [0, 100],
            "max_rows_per_record": 2,
            "values": "independent",
        },
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": "days", "sql": "SELECT day, SUM(watts) FROM data GROUP BY day", "noise_stddev": 30.0},
            {"name": "one", "sql": "SELECT SUM(watts) FROM data WHERE home = 'H3'", "noise_stddev": 30.0},
            {"name": "count", "sql": "SELECT COUNT(*) FROM data", "noise_stddev": 1.0},
        ],
    }


def sections() -> dict[str, Any]:
    """Laplace noise and a noise multiplier, each stated in a section of its own."""
    plan = microgrid_months("January", "March", "May")
    for release, section in zip(
        plan["release"],
        ({"law": "laplace", "stddev": 10.0}, {"noise_multiplier": 0.1}, None),
        strict=True,
    ):
        if section is not None:
            del release["noise_stddev"]
            release["noise"] = [section]
    return plan


def threshold() -> dict[str, Any]:
    """A mean, a question about the secret, and a second moment."""
    plan = microgrid_months("January", "March")
    queries = ("COUNT(*) FILTER (WHERE evening_watts > 900)", "AVG(evening_watts * evening_watts)")
    plan["release"] += [
        {"name": query, "sql": f"SELECT {query} FROM data", "noise_stddev": noise}
        for query, noise in zip(queries, (0.4, 1e6), strict=True)
    ]
    return plan


def changed(plan: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """The plan of one setting."""
    releases = [dict(release) for release in plan["release"]]
    privacy, attacker = dict(plan.get("privacy", {})), dict(plan.get("attacker", {}))
    match setting.kind:
        case SettingKind.FACTOR:
            factor = float(setting.name)
            for release in releases:
                if "noise_stddev" in release:
                    release["noise_stddev"] *= factor
                release["noise"] = [
                    {name: part * factor if name in _SIZES else part for name, part in section.items()}
                    for section in release.get("noise", ())
                ]
        case SettingKind.EPSILON:
            privacy["epsilon"] = float(setting.name)
        case SettingKind.LEAVE_OUT:
            releases = [release for release in releases if release["name"] != setting.name]
        case SettingKind.DOES_NOT_KNOW:
            attacker["knows"] = [text for text in attacker["knows"] if text != setting.name]
        case SettingKind.PRIOR:
            attacker["prior"] = setting.name
    return {**plan, "release": releases, "privacy": privacy, "attacker": attacker}


def audit_of(plan: dict[str, Any], setting: Setting) -> sl.AuditResult:
    """An audit of a setting's plan, from the table on."""
    return _audited(json.dumps(changed(plan, setting)))


@cache
def _audited(plan: str) -> sl.AuditResult:
    return sl.audit(json.loads(plan), names=True, top=50, full=True)
