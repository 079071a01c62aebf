"""Key ids as bytes, and names for their prefixes.

A key id is a token's id, or for a row of an image a negative number of some hundred bits (ENG-100). Here they become
an array of int64, in which rows of the n-th image are -1 - n, and a list of those images. The form is canonical: two
sequences are equal where arrays and lists are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Keys", "Numbers", "chain", "linked"]

Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Key ids in the form in which they are stored and compared."""

    numbers: Numbers
    images: tuple[str, ...] = ()
    """The images' keys in hexadecimal digits, in the order in which they come."""

    @staticmethod
    def of(ids: Sequence[int]) -> Keys:
        try:
            plain = np.array(ids, dtype=np.int64)
        except OverflowError:  # an image's key has some hundred bits
            plain = None
        if plain is not None and not (plain < 0).any():
            return Keys(plain)
        numbers, seen = list(ids), dict[int, int]()
        for at, each in enumerate(numbers):
            if each < 0:
                numbers[at] = -1 - seen.setdefault(each, len(seen))
        return Keys(np.array(numbers, dtype=np.int64), tuple(f"{-1 - key:x}" for key in seen))

    @staticmethod
    def stored(numbers: Numbers, images: object) -> Keys:
        """As read from a file; without images where these are nothing that `of` makes."""
        return Keys(numbers, tuple(map(str, images)) if isinstance(images, list) else ())

    @property
    def ids(self) -> tuple[int, ...]:
        """What `of` was given. `IndexError` where they are no keys."""
        if not self.images:
            return tuple(self.numbers.tolist())
        images = [-1 - int(each, 16) for each in self.images]
        return tuple(each if each >= 0 else images[-1 - each] for each in self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Keys)
            and self.images == other.images
            and bool(np.array_equal(self.numbers, other.numbers))
        )

    def __hash__(self) -> int:
        return hash((self.images, self.numbers.tobytes()))

    @property
    def digest(self) -> bytes:
        return blake2b("\n".join(self.images).encode() + b"\n" + self.numbers.tobytes(), digest_size=16).digest()


def chain(ids: Sequence[int], grid: int) -> tuple[str, ...]:
    """A name of 32 digits for the prefix up to each grid line: each of the name before it and the ids between them."""
    names, before = [], ""
    for start in range(0, len(ids) - grid + 1, grid):
        before = linked(before, ids[start : start + grid])
        names.append(before)
    return tuple(names)


def linked(before: str, ids: Sequence[int]) -> str:
    """The name of a prefix that goes on with `ids` behind the one called `before`, empty where they are the first."""
    return blake2b(bytes.fromhex(before) + Keys.of(ids).digest, digest_size=16).hexdigest()
