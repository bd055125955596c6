"""Marked records: each names in its value its run, cluster, partition and place in the sequence."""

from __future__ import annotations

from dataclasses import dataclass

_PREFIX = b"treeline-verify:1:"


@dataclass(frozen=True, slots=True)
class Mark:
    """Identity of one record: the `sequence`-th that `run` produced on `cluster`."""

    run: str
    cluster: str
    sequence: int


def encode(mark: Mark) -> bytes:
    """Return the value of the record; cluster names have no colon."""
    return _PREFIX + f"{mark.run}:{mark.cluster}:{mark.sequence}".encode()


def key(mark: Mark) -> bytes:
    """Return the key of the record."""
    return f"{mark.cluster}:{mark.sequence}".encode()


def decode(value: bytes | None) -> Mark | None:
    """Return the mark in a value; None if it is not one of our records."""
    if value is None or not value.startswith(_PREFIX):
        return None
    try:
        run, cluster, sequence = value[len(_PREFIX) :].decode().split(":")
        return Mark(run, cluster, int(sequence))
    except ValueError:
        return None
