"""People by number: in the order in which the ledger first saw them, known again by a keyed hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from sightline.arrays import IndexArray
from sightline.errors import InvalidInput, require

_CHECKED = b"a ledger of sightline"
_LEAST_KEY, _LARGEST_KEY = 16, 64  # bytes; the largest that the hash takes


@dataclass(frozen=True, slots=True)
class PeopleKey:
    """The secret key of the hashes; empty where keys are stored in clear."""

    key: bytes

    @classmethod
    def read(cls, path: str | PathLike[str] | None) -> PeopleKey:
        """The key in a file; without a file, keys are in clear."""
        if path is None:
            return cls(b"")
        try:
            key = Path(path).read_bytes().strip()
        except OSError as error:
            reason = (error.strerror or "it cannot be read").lower()
            raise InvalidInput(f"expected the ledger's key, got {str(path)!r}: {reason}") from None
        require(
            _LEAST_KEY <= len(key) <= _LARGEST_KEY,
            f"a key of {_LEAST_KEY} to {_LARGEST_KEY} bytes",
            got=f"{len(key)}",
        )
        return cls(key)

    @property
    def check(self) -> str:
        """A hash by which a wrong key is noticed; empty without a key."""
        return self.digest(_CHECKED).hex() if self.key else ""

    def digest(self, text: bytes) -> bytes:
        """The keyed hash of a text."""
        return hashlib.blake2b(text, key=self.key, digest_size=16).digest()

    def names(self, keys: Sequence[str]) -> list[str]:
        """What the ledger stores of some records' keys."""
        if not self.key:
            return list(keys)
        return [self.digest(key.encode()).hex() for key in keys]


def numbered(people: Mapping[str, int], names: Sequence[str]) -> tuple[IndexArray, list[str]]:
    """The number of each name, and the names that are new, which get the next numbers.

    >>> numbered({"a": 0, "b": 1}, ["b", "c"])
    (array([1, 2]), ['c'])
    """
    new = [name for name in names if name not in people]
    added = {name: len(people) + place for place, name in enumerate(new)}
    found = (people[name] if name in people else added[name] for name in names)
    return np.fromiter(found, dtype=np.intp, count=len(names)), new
