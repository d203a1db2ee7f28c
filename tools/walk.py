"""How far a reader goes with one audit: files, functions, designs assessed, calls to the right.

Shipped examples are audited and printed as `sightline audit` does it. A function counts once, however often
it is called; what runs while a module is imported does not count. A call to the right is one from a room
into a room that it may not import: a callback. `--files` lists the files.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

from rich.console import Console

import sightline
from sightline.examples.shipped import example_plan
from sightline.jobs.audit import audit
from sightline.report.terminal import print_result

if __package__:
    from tools.rooms import module_name, position
else:
    from rooms import module_name, position  # type: ignore[import-not-found, no-redef]

SOURCE = str(Path(sightline.__file__).parent)
ASSESSING = "assess"  # the function that says what is seen through one design
EXAMPLES = ("microgrid", "stays")


def walk(example: str) -> tuple[Counter[CodeType], set[tuple[CodeType, CodeType]]]:
    """How often each function of the package is called in one audit, and who calls whom.

    Generator expressions belong to their functions.
    """
    calls: Counter[CodeType] = Counter()
    callers: list[CodeType] = []
    edges: set[tuple[CodeType, CodeType]] = set()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(SOURCE) or code.co_name.startswith("<"):
            return
        if event == "call":
            calls[code] += 1
            if callers:
                edges.add((callers[-1], code))
            callers.append(code)
        elif event == "return" and code in callers:
            while callers.pop() is not code:  # what an error has left
                pass

    plan, screen = example_plan(example), Console(file=io.StringIO())
    sys.setprofile(count)
    try:
        print_result(audit(plan, names=True), screen)
    finally:
        sys.setprofile(None)
    return calls, edges


def to_the_right(edges: set[tuple[CodeType, CodeType]]) -> set[tuple[CodeType, CodeType]]:
    """The calls into a room that the caller's may not import."""
    places = {code: position(module_name(Path(code.co_filename))) for edge in edges for code in edge}
    return {(caller, called) for caller, called in edges if places[caller] < places[called]}


def main() -> None:
    """Print the numbers of each example."""
    for example in EXAMPLES:
        calls, edges = walk(example)
        by_file = Counter(code.co_filename.removeprefix(f"{SOURCE}/") for code in calls)
        assessed = sum(times for code, times in calls.items() if code.co_name == ASSESSING)
        for name, number in (
            (f"{example}: files entered", len(by_file)),
            (f"{example}: functions called", len(calls)),
            (f"{example}: calls to the right", len(to_the_right(edges))),
            (f"{example}: designs assessed", assessed),
        ):
            print(f"{name:<52}{number:>8,}")
        if "--files" in sys.argv:
            for file, functions in sorted(by_file.items()):
                print(f"{functions:>5}  {file}")


if __name__ == "__main__":
    main()
