"""TCP connections with flow control: write buffers, and reasons to pause reading."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, cast

BUFFERED_BYTES = 1024 * 1024
"""Bytes in a write buffer above which the producers of that data are paused."""
_LINGER_SECONDS = 10.0
"""Seconds in which a closed connection may still flush its write buffer."""
_UNTAKEN_SECONDS = 600
"""Seconds after which a peer that acknowledges nothing counts as gone. A consumer may take nothing for minutes
while it processes records."""


class End:
    """A transport with flow control. Reading is paused while there is any reason to pause it."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=BUFFERED_BYTES)
        self._pause_reasons: set[str] = set()
        _detect_dead_peer(self._transport)

    @property
    def host(self) -> str:
        """Return the address of the peer."""
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    @property
    def is_paused(self) -> bool:
        return bool(self._pause_reasons)

    def write(self, pieces: Sequence[Any]) -> None:
        """Write the pieces; do nothing if the connection is closing."""
        if self.is_open:
            self._transport.writelines(pieces)

    def pause(self, why: str) -> None:
        """Pause reading until `resume` was called for every reason."""
        if self.is_open and not self._pause_reasons:
            self._transport.pause_reading()
        self._pause_reasons.add(why)

    def resume(self, why: str) -> None:
        """Withdraw a reason for pausing; resume reading if it was the last."""
        if self._pause_reasons:
            self._pause_reasons.discard(why)
            if not self._pause_reasons and self.is_open:
                self._transport.resume_reading()

    def close(self) -> None:
        """Close after the write buffer is flushed, at the latest after some seconds."""
        if self.is_open:
            self._transport.close()
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.abort)


class Connection(asyncio.Protocol):
    """Local side of a connection; calls made before it is established take effect once it is."""

    def __init__(self) -> None:
        self._end: End | None = None
        self._unsent: list[Sequence[Any]] = []
        self._pause_reasons: set[str] = set()
        """Reasons to pause reading, collected before the connection is established."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._end = End(transport)
        # Deferred: uvloop starts to read after this call, even if reading was paused within it.
        asyncio.get_running_loop().call_soon(self._pause_now)
        unsent, self._unsent = self._unsent, []
        for pieces in unsent:
            self._end.write(pieces)
        self.made()

    def made(self) -> None:
        """Hook for subclasses; called when the connection is established."""

    def _pause_now(self) -> None:
        for why in self._pause_reasons:
            self.pause(why)

    @property
    def is_open(self) -> bool:
        """Return whether the connection is established and not closing."""
        return self._end is not None and self._end.is_open

    def write(self, pieces: Sequence[Any]) -> None:
        """Write the pieces; do nothing if the connection is closing."""
        if self._end:
            self._end.write(pieces)
        else:
            self._unsent.append(pieces)

    def pause(self, why: str) -> None:
        """Pause reading until `resume` was called for every reason."""
        if self._end:
            self._end.pause(why)
        else:
            self._pause_reasons.add(why)

    def resume(self, why: str) -> None:
        """Withdraw a reason for pausing; resume reading if it was the last."""
        self._pause_reasons.discard(why)
        if self._end:
            self._end.resume(why)

    def close(self) -> None:
        """Close after the write buffer is flushed, at the latest after some seconds."""
        if self._end:
            self._end.close()


def _detect_dead_peer(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # An idle connection is probed after a minute. It counts as lost when the peer has acknowledged nothing for
    # TCP_USER_TIMEOUT, which takes precedence over the number of probes.
    options = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
    options["TCP_USER_TIMEOUT"] = 1_000 * _UNTAKEN_SECONDS
    for option, value in options.items():
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
