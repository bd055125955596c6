"""Connections: what is written to their other end, and whether it is read from."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, cast

BUFFERED_BYTES = 1024 * 1024
"""Written and not yet taken by the other end, beyond which what would add to it is stopped."""
_LINGER_SECONDS = 10.0
"""How long an end that is closed may take what was written to it."""
_UNTAKEN_SECONDS = 600
"""After so long an end that takes nothing of what was sent is gone. (A consumer that works on what it has takes
nothing for minutes.)"""


class End:
    """Wraps a transport. Reading stops while anybody has a reason against it."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=BUFFERED_BYTES)
        self._against: set[str] = set()
        _tell_of_the_dead(self._transport)

    @property
    def host(self) -> str:
        """Of the other side."""
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    @property
    def is_stopped(self) -> bool:
        return bool(self._against)

    def write(self, pieces: Sequence[Any]) -> None:
        """Nothing is written to one that is being closed."""
        if self.is_open:
            self._transport.writelines(pieces)

    def stop(self, why: str) -> None:
        """Read no more, until nobody has a reason against it."""
        if self.is_open and not self._against:
            self._transport.pause_reading()
        self._against.add(why)

    def go(self, why: str) -> None:
        """This reason is gone."""
        if self._against:
            self._against.discard(why)
            if not self._against and self.is_open:
                self._transport.resume_reading()

    def close(self) -> None:
        """End it when what was written is taken, but at the latest after some seconds."""
        if self.is_open:
            self._transport.close()
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.abort)


class Connection(asyncio.Protocol):
    """This side of a connection. What is asked of it before it is made is done when it is made."""

    def __init__(self) -> None:
        self._end: End | None = None
        self._unsent: list[Sequence[Any]] = []
        self._against: set[str] = set()
        """Reasons against reading, before it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._end = End(transport)
        # Not yet: uvloop begins to read after this call, whatever was said in it.
        asyncio.get_running_loop().call_soon(self._stop_now)
        unsent, self._unsent = self._unsent, []
        for pieces in unsent:
            self._end.write(pieces)
        self.made()

    def made(self) -> None:
        """For those who have something to do then."""

    def _stop_now(self) -> None:
        for why in self._against:
            self.stop(why)

    @property
    def is_open(self) -> bool:
        """Made, and not being closed."""
        return self._end is not None and self._end.is_open

    def write(self, pieces: Sequence[Any]) -> None:
        """Nothing is written to one that is being closed."""
        if self._end:
            self._end.write(pieces)
        else:
            self._unsent.append(pieces)

    def stop(self, why: str) -> None:
        """Read no more, until nobody has a reason against it."""
        if self._end:
            self._end.stop(why)
        else:
            self._against.add(why)

    def go(self, why: str) -> None:
        """This reason is gone."""
        self._against.discard(why)
        if self._end:
            self._end.go(why)

    def close(self) -> None:
        """End it when what was written is taken, but at the latest after some seconds."""
        if self._end:
            self._end.close()


def _tell_of_the_dead(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # One that is idle is probed after a minute, and found to be gone when it has not answered for as long as one
    # may leave untaken what was sent: that limit goes before the number of probes.
    options = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
    options["TCP_USER_TIMEOUT"] = 1_000 * _UNTAKEN_SECONDS
    for option, value in options.items():
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
