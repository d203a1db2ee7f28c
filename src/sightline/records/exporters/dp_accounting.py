"""Write release records of what dp_accounting has counted: one JSON file for each event of an accountant.

    from export_dp_accounting import write
    about = dict(record="home", secret="watts", bounds=[0, 9000])
    write("releases", accountant, **about, total="SELECT SUM(watts) FROM data")

The noise is read off ``accountant.ledger``; which query got it is stated, in the order of the events: a query
for each event, which may have happened several times, or a query for each time. A noise multiplier is noise
over sensitivity. Where bounds have zero inside, a record that is added or removed changes a sum by less than
one that changes its value: say the ``sensitivity`` of each query there. This file needs dp_accounting and
nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

TESTED = ("0.6",)
_LAWS = {"GaussianDpEvent": "gaussian", "LaplaceDpEvent": "laplace"}
_NEIGHBOURS = {"ADD_OR_REMOVE_ONE": "add-remove", "REPLACE_ONE": "replace-one"}


class CannotExport(ValueError):
    """The ledger cannot be read back."""


def write(  # many parameters: what dp_accounting does not know
    folder: str | Path,
    accountant: Any,
    *,
    record: str,
    secret: str,
    bounds: list[float],
    sensitivity: dict[str, float] | None = None,
    published_at: str | None = None,
    **queries: str,
) -> list[Path]:
    """Write a record of every event: ``queries`` has the SQL of each by name, in the order of the events."""
    installed = version("dp-accounting")
    if ".".join(installed.split(".")[:2]) not in TESTED:
        raise CannotExport(
            f"expected dp_accounting {' or '.join(TESTED)}, got {installed}; it was not tested"
        )
    events = list(_events(accountant.ledger, 1))
    in_all = sum(times for _, times in events)
    if len(queries) == in_all:  # the ledger has equal events in a row as one, of whatever queries they were
        events = [(event, 1) for event, times in events for _ in range(times)]
    if len(events) != len(queries):
        raise CannotExport(
            f"expected a query for each of {len(events)} events, got {len(queries)}; equal events in a "
            f"row are one: if their queries differ, name a query for each of all {in_all} times"
        )
    neighbours = _NEIGHBOURS.get(accountant.neighboring_relation.name)
    texts = {}
    for (event, times), (name, sql) in zip(events, queries.items(), strict=True):
        stated = (sensitivity or {}).get(name)
        if stated is None and (
            neighbours is None or (neighbours == "add-remove" and min(bounds) < 0 < max(bounds))
        ):
            raise CannotExport(
                f"{name}: expected sensitivity={{{name!r}: …}}, which its noise was chosen for, got none"
            )
        multiplier = float(event.noise_multiplier)
        if not multiplier > 0:
            raise CannotExport(f"{name}: expected noise, got a multiplier of {multiplier:g}")
        law = _LAWS[type(event).__name__]
        noise: dict[str, Any] = {"law": law, "noise_multiplier": multiplier}
        facts = {"law": "read", "noise_multiplier": "read"}
        if stated is not None:  # of Laplace noise a multiple of the sensitivity is b
            size = multiplier * float(stated) * (2**0.5 if law == "laplace" else 1.0)
            noise, facts = {"law": law, "stddev": size}, {"law": "read", "stddev": "derived"}
        release = {
            "name": name.replace("_", " "),
            "sql": sql,
            "noise": noise,
            "times": times,
            "published": True,
        }
        facts |= dict.fromkeys(("sql", "record", "secret", "bounds"), "stated") | {"times": "read"}
        about = {"engine": f"dp-accounting {installed}", "privacy_unit": record, "facts": facts}
        # Each time, of its own relation of neighbours: Gaussian noise has a rho, Laplace noise an epsilon.
        about["privacy_parameters"] = (
            {"rho": 0.5 / multiplier**2} if law == "gaussian" else {"epsilon": 1 / multiplier}
        )
        about |= {"neighbours": neighbours} if neighbours else {}
        about |= {"published_at": published_at} if published_at else {}
        data = {"record": record, "secret": secret, "bounds": list(bounds)}
        content = {"record": "sightline.release/1", "release": release, "data": data, "about": about}
        texts[name] = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / f"{name}.json" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        with path.open("x", encoding="utf-8") as file:  # a record is never written over
            file.write(text)
    return paths


def _events(event: Any, times: int) -> Iterator[tuple[Any, int]]:
    """The Gaussian and Laplace events of a ledger, and how often each happened."""
    kind = type(event).__name__
    if kind == "ComposedDpEvent" and times == 1:
        for one in event.events:
            yield from _events(one, times)
    elif kind == "SelfComposedDpEvent" and type(event.event).__name__ in _LAWS:
        yield event.event, times * int(event.count)
    elif kind in _LAWS:
        yield event, times
    elif kind != "NoOpDpEvent":
        raise CannotExport(
            f"expected Gaussian and Laplace events, got {kind}; what it publishes does not follow from it"
        )
