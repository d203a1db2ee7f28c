"""How far a reader goes with one audit: files entered, functions called, designs assessed.

The shipped micro-grid is audited and printed as `sightline audit` does it. A function counts once, however
often it is called; what runs while a module is imported does not count. `--files` lists the files.
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
from sightline.jobs import audit
from sightline.report.terminal import print_result

SOURCE = str(Path(sightline.__file__).parent)
ASSESSING = "assess"  # the function that says what is seen through one design


def walk() -> Counter[CodeType]:
    """How often each function of the package is called; generator expressions belong to their functions."""
    calls: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            calls[code] += 1

    plan, screen = example_plan("microgrid"), Console(file=io.StringIO())
    sys.setprofile(count)
    try:
        print_result(audit(plan, names=True), screen)
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    """Print the three numbers, each with the one that is wanted."""
    calls = walk()
    by_file = Counter(code.co_filename.removeprefix(f"{SOURCE}/") for code in calls)
    assessed = sum(times for code, times in calls.items() if code.co_name == ASSESSING)
    for name, found, wanted in (
        ("files that the demo enters", len(by_file), 90),
        ("functions that the demo calls", len(calls), 500),
        ("designs that the demo assesses", assessed, 4),
    ):
        print(f"{name:<52}{found:>8,}   at most {wanted:,}")
    if "--files" in sys.argv:
        for file, functions in sorted(by_file.items()):
            print(f"{functions:>5}  {file}")


if __name__ == "__main__":
    main()
