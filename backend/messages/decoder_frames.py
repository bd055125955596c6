"""Frames between a process and its decoder process, on one socket; and the memory that both share.

    request   bytes of the head, number of keys and values, bytes of these; head (JSON); their lengths; their bytes
    answer    records done, whether it is the last, bytes of the text; text (JSON)

The shared memory says what the decoder process works on: it is read when that process is killed, or ends.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

REQUEST = struct.Struct("<IIQ")
ANSWER = struct.Struct("<III")
SHARED = struct.Struct("<qq")
"""The phase, and the number of the schema or record that it is about."""
_ABSENT = -1


class Phase(IntEnum):
    """Work of a decoder process; also the first number in the shared memory."""

    WAITING = 0
    """Starting, reading a request, or writing an answer."""
    EXPRESSION = 1
    SCHEMA = 2
    RECORD = 3


def request(head: Mapping[str, Any], parts: Sequence[bytes | None]) -> bytes:
    """Return a request with these keys and values."""
    said = json.dumps(head).encode()
    sizes = array("i", [_ABSENT if part is None else len(part) for part in parts])
    body = b"".join([part for part in parts if part is not None])
    return b"".join((REQUEST.pack(len(said), len(sizes), len(body)), said, sizes.tobytes(), body))


def size_of_parts(count: int) -> int:
    """Return how many bytes the lengths of keys and values take."""
    return count * array("i").itemsize


def parts(sizes: bytes, body: bytes) -> list[bytes | None]:
    """Return the keys and values of a request."""
    found: list[bytes | None] = []
    at = 0
    for size in array("i", sizes):
        if size == _ABSENT:
            found.append(None)
        else:
            found.append(body[at : at + size])
            at += size
    return found


def answer(done: int, text: str, *, is_last: bool) -> bytes:
    """Return an answer."""
    data = text.encode()
    return ANSWER.pack(done, is_last, len(data)) + data
