"""What requests that have begun and not ended hold in memory, of all clients of a node together."""

from __future__ import annotations

from typing import Protocol

MOST_UNENDED_BYTES = 512 * 1024 * 1024


class _Sender(Protocol):
    def end(self, why: str, detail: str) -> None: ...


class Unended:
    """Counts it, and ends the client that holds most when it is too much.

    To read from nobody until there is room would be no way out: none of what is there would ever end.
    """

    def __init__(self, most_bytes: int = MOST_UNENDED_BYTES) -> None:
        self._most = most_bytes
        self._held: dict[_Sender, int] = {}
        self.total_bytes = 0

    def holds(self, client: _Sender, size: int) -> None:
        """So many bytes of a client's are held from here on; 0 if all of its requests have ended, or it has."""
        self.total_bytes += size - self._held.pop(client, 0)
        if size:
            self._held[client] = size
        while self.total_bytes > self._most:
            largest = max(self._held, key=self._held.__getitem__)
            detail = f"{self.total_bytes} bytes of requests have begun and not ended, and its own are most of all"
            self.holds(largest, 0)
            largest.end("no-room", detail)
