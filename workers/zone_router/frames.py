"""Split a byte stream into Kafka's frames: a size of four bytes, then the message.

A frame is kept as the pieces received from the network, starting with the size, so that a forwarded message is
never copied. Small pieces are joined, as each piece has a memory overhead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SIZE = struct.Struct(">i")
_SMALL_PIECE_BYTES = 2_048


class FrameRefused(ValueError):
    """A frame has an invalid size: the peer does not speak Kafka, or it sends more than is allowed."""


class Frame:
    """One frame as pieces, starting with its size."""

    __slots__ = ("pieces", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        """Size of the message in bytes, without the four bytes of the size prefix."""
        self.pieces: list[memoryview] = []

    def message(self, most: int | None = None) -> memoryview:
        """Return the message without its size as one buffer.

        With `most`, return the first piece alone if it has at least so many bytes.
        """
        first = self.pieces[0][_SIZE.size :]
        if len(self.pieces) == 1 or (most is not None and len(first) >= most):
            return first
        return memoryview(b"".join(self.pieces))[_SIZE.size :]


class Frames:
    """Assembles frames from received pieces."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._frame: Frame | None = None
        self._small = bytearray()
        """Joined small pieces of the incomplete frame, after its pieces; or the incomplete size."""
        self._missing = 0
        self.begun_at: float | None = None
        """Time at which the incomplete frame began or its peer was last resumed; None if there is none."""
        self.held_bytes = 0
        """Bytes held of the incomplete frame."""

    def drop(self) -> None:
        """Release all buffers; `feed` must not be called afterwards."""
        self._frame, self._small, self.held_bytes = None, bytearray(), 0

    def resumed(self, now: float) -> None:
        """Restart the clock of the incomplete frame, whose rest could not arrive while reading was paused."""
        if self.begun_at is not None:
            self.begun_at = now

    def feed(self, data: bytes, now: float = 0.0) -> Iterator[Frame]:
        """Yield the frames that are completed by `data`. Raises FrameRefused; nothing may be fed afterwards."""
        view = memoryview(data)
        at, end = 0, len(data)
        while at < end:
            if self.begun_at is None:
                self.begun_at = now
            if self._frame is None:
                at = self._begin(view, at, end)
                if self._frame is None:
                    return
            at = self._continue(self._frame, view, at, end)
            if not self._missing:
                frame, self._frame, self.begun_at, self.held_bytes = self._frame, None, None, 0
                yield frame

    def _continue(self, frame: Frame, view: memoryview, at: int, end: int) -> int:
        take = min(self._missing, end - at)
        piece = view[at : at + take]
        self._missing -= take
        self.held_bytes += take
        is_whole = not self._missing and not self._small and not frame.pieces
        if take < _SMALL_PIECE_BYTES and not is_whole:
            self._small += piece
        else:
            self._flush_small(frame)
            frame.pieces.append(piece)
        if not self._missing:
            self._flush_small(frame)
        return at + take

    def _flush_small(self, frame: Frame) -> None:
        if self._small:
            frame.pieces.append(memoryview(bytes(self._small)))
            self._small = bytearray()

    def _begin(self, view: memoryview, at: int, end: int) -> int:
        """Read the size, or the available part of it; return the position from which to continue."""
        if not self._small and end - at >= _SIZE.size:
            # The usual case: size and message arrive in the same piece and stay together.
            self._frame = Frame(self._checked(_SIZE.unpack_from(view, at)[0]))
            self._missing = _SIZE.size + self._frame.size
            return at
        take = min(_SIZE.size - len(self._small), end - at)
        self._small += view[at : at + take]
        self.held_bytes += take
        if len(self._small) == _SIZE.size:
            self._frame = Frame(self._checked(_SIZE.unpack(self._small)[0]))
            self._missing = self._frame.size
        return at + take

    def _checked(self, size: int) -> int:
        if not 0 < size <= self._most:
            raise FrameRefused(f"a frame of {size} bytes; 1 to {self._most} are allowed")
        return size
