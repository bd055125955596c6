"""Reassembly of a link's traffic: TCP directions as byte streams, and Kafka's frames within them.

It shares no code with the router, whose own count it checks.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_IPV4, _TCP, _SYN = b"\x08\x00", 6, 0x02
_WRAP = 1 << 32

End = tuple[str, int]


@dataclass(frozen=True)
class Segment:
    """A TCP segment in one direction of a connection; the first one is empty."""

    source: End
    destination: End
    sequence: int
    is_first: bool
    payload: bytes


def addresses(frame: memoryview) -> tuple[str, str] | None:
    """Return source and destination of an Ethernet frame; None if it is not IPv4."""
    if len(frame) < 34 or frame[12:14] != _IPV4:
        return None
    return _dotted(frame[26:30]), _dotted(frame[30:34])


def _dotted(address: memoryview) -> str:
    return ".".join(map(str, address))


def segment(frame: memoryview) -> Segment | None:
    """Return the TCP segment of an Ethernet frame; None if it is not TCP on IPv4."""
    ends = addresses(frame)
    if ends is None or frame[23] != _TCP:
        return None
    at = 14 + 4 * (frame[14] & 0x0F)
    end = 14 + int.from_bytes(frame[16:18], "big")  # the rest of the frame is padding
    from_port, to_port, sequence = struct.unpack_from(">HHI", frame, at)
    payload = bytes(frame[at + 4 * (frame[at + 12] >> 4) : end])
    return Segment((ends[0], from_port), (ends[1], to_port), sequence, bool(frame[at + 13] & _SYN), payload)


class Stream:
    """One direction of a connection: each byte once and in order, despite retransmissions and reordering."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._early: list[tuple[int, bytes]] = []

    def take(self, sequence: int, is_first: bool, payload: bytes) -> bytes:
        """Add a segment; return the bytes that are now next. ValueError if the stream's start was missed."""
        if is_first:
            self._next, self._early = (sequence + 1) % _WRAP, []
        if not payload:
            return b""
        if self._next is None:
            raise ValueError("bytes of a connection whose beginning was not seen")
        self._early.append((sequence, payload))
        ready, early = [], []
        following = self._next
        for start, piece in sorted(self._early, key=lambda each: _ahead(each[0], following)):
            ahead = _ahead(start, self._next)
            if ahead > 0:
                early.append((start, piece))
                continue
            new = piece[-ahead:]
            self._next = (self._next + len(new)) % _WRAP
            ready.append(new)
        self._early = early
        return b"".join(ready)

    @property
    def early(self) -> int:
        """Return the number of bytes after a gap."""
        return sum(len(piece) for _, piece in self._early)


def _ahead(one: int, other: int) -> int:
    """Return by how much a sequence number is ahead of another; negative if behind."""
    return (one - other + _WRAP // 2) % _WRAP - _WRAP // 2


class Finder:
    """Searches for strings in a stream of pieces, also across their borders."""

    def __init__(self) -> None:
        self._tail = b""

    def look(self, piece: bytes, wanted: Iterable[bytes]) -> list[bytes]:
        """Return the strings found; they have 16 bytes at most."""
        seen = self._tail + piece
        self._tail = seen[-15:]
        return [each for each in wanted if each in seen]


class Frames:
    """Splits a stream into Kafka's frames, which begin with their size, and counts bytes by kind."""

    def __init__(self, head: int, kind: Callable[[bytes], str]) -> None:
        """Set up; `kind` determines the kind from the first `head` bytes after the size."""
        self._head, self._kind = 4 + head, kind
        self._begun, self._left, self._what = b"", 0, ""

    def take(self, piece: bytes) -> Counter[str]:
        """Return bytes by kind, including sizes; heads count once complete. ValueError if it is not a frame."""
        counted: Counter[str] = Counter()
        at = 0
        while at < len(piece):
            if self._left:
                here = min(self._left, len(piece) - at)
                counted[self._what] += here
                self._left -= here
            else:
                here = min(self._head - len(self._begun), len(piece) - at)
                self._begun += piece[at : at + here]
                if len(self._begun) == self._head:
                    self._left = 4 + int.from_bytes(self._begun[:4], "big", signed=True) - self._head
                    if self._left < 0:
                        raise ValueError(f"no frame of Kafka: {self._begun.hex()}")
                    self._what = self._kind(self._begun[4:])
                    counted[self._what] += self._head
                    self._begun = b""
            at += here
        return counted


_KINDS = {
    **dict.fromkeys((0,), "produce"),
    **dict.fromkeys((1, 78, 79), "fetch"),
    **dict.fromkeys((8, 9, 11, 12, 13, 14, 47, 68, 76, 77, 88), "group"),
}


class Conversation:
    """A connection to a Kafka listener: requests and their responses by kind."""

    def __init__(self) -> None:
        self._asked: dict[bytes, str] = {}
        self.requests = Frames(8, self._request)
        self.answers = Frames(4, lambda head: self._asked.pop(head, "unasked"))

    def _request(self, head: bytes) -> str:
        """Return `produce`, `fetch`, `group`, or `control` for all other requests."""
        kind = _KINDS.get(int.from_bytes(head[:2], "big"), "control")
        self._asked[head[4:8]] = kind
        return kind
