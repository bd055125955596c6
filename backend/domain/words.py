"""Numbers in sentences, as pages and commands say them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
