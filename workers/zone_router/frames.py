"""A stream of bytes cut into Kafka's frames: four bytes of size, then so many of a message.

A frame comes as the pieces that the network gave, its size in front, so that a message that is passed on as it is
is never copied. What comes in crumbs is put together: a piece costs more memory than a crumb has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SIZE = struct.Struct(">i")
_CRUMB_BYTES = 2_048


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
        """The message without its size, as one; or its beginning, if the first piece has at least `most` of it."""
        first = self.pieces[0][_SIZE.size :]
        if len(self.pieces) == 1 or (most is not None and len(first) >= most):
            return first
        return memoryview(b"".join(self.pieces))[_SIZE.size :]


class Frames:
    """Whole frames out of what comes piece by piece."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._frame: Frame | None = None
        self._crumbs = bytearray()
        """Of the frame that has begun, behind its pieces; before it, of its size."""
        self._missing = 0
        self.begun_at: float | None = None
        """When the frame began that has not ended, or was last allowed to go on; None if there is none."""
        self.held_bytes = 0
        """Of the frame that has not ended."""

    def drop(self) -> None:
        """Hold nothing any more; nothing more may be fed."""
        self._frame, self._crumbs, self.held_bytes = None, bytearray(), 0

    def goes_on(self, now: float) -> None:
        """Its rest could not come until now."""
        if self.begun_at is not None:
            self.begun_at = now

    def feed(self, data: bytes, now: float = 0.0) -> Iterator[Frame]:
        """Frames that end within what came. Raises FrameRefused; nothing more may be fed after it."""
        view = memoryview(data)
        at, end = 0, len(data)
        while at < end:
            if self.begun_at is None:
                self.begun_at = now
            if self._frame is None:
                at = self._begin(view, at, end)
                if self._frame is None:
                    return
            at = self._go_on(self._frame, view, at, end)
            if not self._missing:
                frame, self._frame, self.begun_at, self.held_bytes = self._frame, None, None, 0
                yield frame

    def _go_on(self, frame: Frame, view: memoryview, at: int, end: int) -> int:
        take = min(self._missing, end - at)
        piece = view[at : at + take]
        self._missing -= take
        self.held_bytes += take
        is_whole = not self._missing and not self._crumbs and not frame.pieces
        if take < _CRUMB_BYTES and not is_whole:
            self._crumbs += piece
        else:
            self._keep_crumbs(frame)
            frame.pieces.append(piece)
        if not self._missing:
            self._keep_crumbs(frame)
        return at + take

    def _keep_crumbs(self, frame: Frame) -> None:
        if self._crumbs:
            frame.pieces.append(memoryview(bytes(self._crumbs)))
            self._crumbs = bytearray()

    def _begin(self, view: memoryview, at: int, end: int) -> int:
        """Read the size, or what there is of it; where reading goes on."""
        if not self._crumbs and end - at >= _SIZE.size:
            # The usual case: the size stands before the message in the same piece, and they stay together.
            self._frame = Frame(self._checked(_SIZE.unpack_from(view, at)[0]))
            self._missing = _SIZE.size + self._frame.size
            return at
        take = min(_SIZE.size - len(self._crumbs), end - at)
        self._crumbs += view[at : at + take]
        self.held_bytes += take
        if len(self._crumbs) == _SIZE.size:
            self._frame = Frame(self._checked(_SIZE.unpack(self._crumbs)[0]))
            self._missing = self._frame.size
        return at + take

    def _checked(self, size: int) -> int:
        if not 0 < size <= self._most:
            raise FrameRefused(f"a frame of {size} bytes; from 1 to {self._most} are allowed")
        return size
