"""How long until the first word: starting Sightline against starting Python with nothing to do.

The lower limit is the bare interpreter, started in turn with the others so that a busy machine slows all
alike. Ratios are to that limit. Importing numpy alone is there for scale: no numerical library starts faster.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 15
COMMANDS = {
    "python -c pass": "pass",
    "import sightline": "import sightline",
    "sightline --help": "from sightline.cli import main; main(['--help'])",
    "import numpy": "import numpy",
    "sightline demo": "from sightline.cli import main; main(['demo'])",
}


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, code in COMMANDS.items():
            taken[name].append(seconds(code))
    median = {name: statistics.median(times) for name, times in taken.items()}
    limit = median["python -c pass"]
    print(f"{'command':<20}{'median ms':>11}{'added ms':>11}{'ratio':>8}   (median of {ROUNDS})")
    for name, value in median.items():
        print(f"{name:<20}{1e3 * value:>11.0f}{1e3 * (value - limit):>11.0f}{value / limit:>8.2f}")


if __name__ == "__main__":
    main()
