"""Copy flags: the bit mask in a record's header that keeps a tree free of loops.

Level n owns bit n-1; the mask of level n is bits 0..n-1. A distributor of level n skips a record whose
flags meet its mask, and copies any other with its own bit added. (Distribution model, "Copy flags and
algorithm"; its step 4 names other masks than its step 2 and its text: the text holds.)
"""

from __future__ import annotations

from collections.abc import Sequence

LOWEST_LEVEL = 1
HIGHEST_LEVEL = 31
HEADER_BYTES = 4


def flag(level: int) -> int:
    """Return the bit of a level (1 to 31)."""
    return 1 << (level - 1)


def mask(level: int) -> int:
    """Return the mask of a level: a record with one of these bits has passed that level already."""
    return (1 << level) - 1


def skips(flags: int, level: int) -> bool:
    """Return whether the distributor of a level skips a record with these flags."""
    return flags & mask(level) != 0


def encode(flags: int) -> bytes:
    """Encode the header value: 4 bytes, big-endian, unsigned."""
    return flags.to_bytes(HEADER_BYTES, "big")


def decode(values: Sequence[bytes | None]) -> tuple[int, bool]:
    """Decode all values of the header on one record: the flags, and whether they were readable.

    Absent means 0. More than one, or another length than 4 bytes, is unreadable and means 0 too
    (docs/distribution.md, "Record headers"); the caller counts those.
    """
    if not values:
        return 0, True
    if len(values) > 1:
        return 0, False
    value = values[0]
    if value is None or len(value) != HEADER_BYTES:
        return 0, False
    return int.from_bytes(value, "big"), True


def text(flags: int) -> str:
    """Return the flags in binary, highest level first, with at least four digits: 5 -> '0101'."""
    return f"{flags:04b}"
