"""People by number: in the order in which the ledger first saw them, known again by a keyed hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import IndexArray
from sightline.errors import InvalidInput, require

Hashes: TypeAlias = NDArray[np.uint64]  # people × two halves
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

    def hashes(self, keys: Sequence[str]) -> Hashes:
        """The keyed hash of each of some records' keys; without a key, hashes by which they are found."""
        keyed, digests = hashlib.blake2b(key=self.key, digest_size=16), []
        for key in keys:  # a loop, not a function a key: a tenth of the time for a million people
            own = keyed.copy()
            own.update(key.encode())
            digests.append(own.digest())
        return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def numbered(people: Hashes, hashes: Hashes) -> tuple[IndexArray, IndexArray]:
    """The number of each of some hashes among people, and the places of new ones, which get the next numbers.

    >>> one, two, three = ([1, 5], [2, 5], [2, 6])
    >>> numbered(np.array([one, two], dtype="<u8"), np.array([three, two], dtype="<u8"))
    (array([2, 1]), array([0]))
    """
    number = np.full(len(hashes), -1, dtype=np.intp)
    if len(people):
        order, asked = np.argsort(people[:, 0]), np.argsort(hashes[:, 0])
        first, place = people[order, 0], np.empty_like(asked)
        place[asked] = np.searchsorted(first, hashes[asked, 0])  # in order, memory is read in order
        place = np.minimum(place, len(people) - 1)
        alike = first[place] == hashes[:, 0]
        whole = alike & (people[order[place], 1] == hashes[:, 1])
        number[whole] = order[place[whole]]
        for one in np.flatnonzero(alike & ~whole).tolist():  # the first halves agree once in 10¹⁹ pairs
            number[one] = next(iter(np.flatnonzero((people == hashes[one]).all(axis=1))), -1)
    new = np.flatnonzero(number < 0)
    number[new] = len(people) + np.arange(new.size)
    return number, new
