"""Memory budget for incomplete requests of all clients of a node."""

from __future__ import annotations

from typing import Protocol

MOST_INFLIGHT_BYTES = 512 * 1024 * 1024


class _Sender(Protocol):
    def end(self, why: str, detail: str) -> None: ...


class InflightBudget:
    """Tracks incomplete requests, and disconnects the client that holds most when the budget is exceeded.

    Pausing all clients instead would not help: no request could ever complete.
    """

    def __init__(self, most_bytes: int = MOST_INFLIGHT_BYTES) -> None:
        self._most = most_bytes
        self._held: dict[_Sender, int] = {}
        self.total_bytes = 0

    def holds(self, client: _Sender, size: int) -> None:
        """Set the bytes held for a client; 0 if it has no incomplete request or has disconnected."""
        self.total_bytes += size - self._held.pop(client, 0)
        if size:
            self._held[client] = size
        while self.total_bytes > self._most:
            largest = max(self._held, key=self._held.__getitem__)
            detail = (
                f"{self.total_bytes} bytes of incomplete requests exceed the limit, and this client holds most"
            )
            self.holds(largest, 0)
            largest.end("no-room", detail)
