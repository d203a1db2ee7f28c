"""Every bit of a small ledger, flipped: ``python -m tests.ledger.flipped_bits``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from sightline.errors import DamagedLedger
from tests.ledger.test_ledger import MEANS, TOTAL, started


def flipped(folder: Path, *, step: int) -> int:
    """How many bits, one in ``step`` of every file, were flipped and noticed: all of them."""
    ledger = started(folder)
    for release in (TOTAL, MEANS):
        ledger.add(release, despite="a test")
    kept, count = ledger.verify(), 0
    for path in sorted((folder / "ledger").iterdir()):
        whole = path.read_bytes()
        for place in range(0, 8 * len(whole), step):
            changed = bytearray(whole)
            changed[place // 8] ^= 1 << place % 8
            path.write_bytes(changed)
            with pytest.raises(DamagedLedger):
                ledger.verify()
            count += 1
        path.write_bytes(whole)
    assert ledger.verify(head=kept) == kept
    return count


def main(step: int = 1) -> None:
    """Flip bits and print how many; fails if one is not noticed."""
    with tempfile.TemporaryDirectory() as name:
        print(f"{flipped(Path(name), step=step):,} bits flipped, each noticed")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
