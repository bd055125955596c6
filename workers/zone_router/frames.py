"""A stream of bytes cut into Kafka's frames: four bytes of size, then so many of a message.

A frame comes as the pieces that the network gave, its size in front, so that a message that is passed on as it is
is never copied.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SIZE = struct.Struct(">i")


class FrameRefused(ValueError):
    """A size that no frame has here: what speaks is not Kafka, or it sends more than is allowed."""


class Frame:
    """Pieces of one frame, its size in front."""

    __slots__ = ("pieces", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        """Of the message, without the four bytes in front."""
        self.pieces: list[memoryview] = []

    def message(self, most: int | None = None) -> memoryview:
        """The message without its size, as one; or at most its first `most` bytes, if these are enough."""
        first = self.pieces[0][_SIZE.size :]
        if len(self.pieces) == 1 or (most is not None and len(first) >= most):
            return first
        return memoryview(b"".join(self.pieces))[_SIZE.size :]


class Frames:
    """Whole frames out of what comes piece by piece."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = bytearray()
        self._frame: Frame | None = None
        self._missing = 0

    @property
    def is_within(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._frame is not None or bool(self._size)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Frames that end within what came. Raises FrameRefused; nothing more may be fed after it."""
        view = memoryview(data)
        at, end = 0, len(data)
        while at < end:
            if self._frame is None:
                at = self._begin(view, at, end)
                if self._frame is None:
                    return
            take = min(self._missing, end - at)
            if take:
                self._frame.pieces.append(view[at : at + take])
                at += take
                self._missing -= take
            if not self._missing:
                frame, self._frame = self._frame, None
                yield frame

    def _begin(self, view: memoryview, at: int, end: int) -> int:
        """Read the size, or what there is of it; where reading goes on."""
        if not self._size and end - at >= _SIZE.size:
            # The usual case: the size stands before the message in the same piece, and they stay together.
            (size,) = _SIZE.unpack_from(view, at)
            self._frame = Frame(self._checked(size))
            self._missing = _SIZE.size + size
            return at
        take = min(_SIZE.size - len(self._size), end - at)
        self._size += view[at : at + take]
        if len(self._size) == _SIZE.size:
            (size,) = _SIZE.unpack(self._size)
            self._frame = Frame(self._checked(size))
            self._frame.pieces.append(memoryview(bytes(self._size)))
            self._missing = size
            self._size.clear()
        return at + take

    def _checked(self, size: int) -> int:
        if not 0 < size <= self._most:
            raise FrameRefused(f"a frame of {size} bytes; from 1 to {self._most} are allowed")
        return size
