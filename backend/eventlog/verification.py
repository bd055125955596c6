"""Verification that a log is unchanged; used by both stores, so that they agree on what broken means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backend.eventlog.recorded import EMPTY, Head, StoredEvent, hash_of


@dataclass(frozen=True)
class Verification:
    """Outcome of a verification; `broken_at` is the first position that does not fit, `reason` says why."""

    ok: bool
    events: int
    head: Head
    broken_at: int | None = None
    reason: str | None = None


class ChainCheck:
    """Checks a log from its first event on.

    Anomalies it finds: a row changed, removed, inserted or moved; versions of a stream with a gap; a log that ends
    before its head row, or continues after it; a log that is not a continuation of an exported head.
    """

    def __init__(self, head: Head, expected_head: Head | None) -> None:
        """Start a check; `head` is the log's head row as it was before reading began."""
        self._pins = [(head, "the log's head row has another hash")]
        if expected_head is not None:
            self._pins.append((expected_head, "the exported head has another hash"))
        self._previous = EMPTY
        self._versions: dict[str, int] = {}

    def read(self, page: Iterable[StoredEvent]) -> Verification | None:
        """Check the next events; a result means that the log is broken and reading can stop."""
        for stored in page:
            reason = self._fault(stored)
            if reason:
                expected = self._previous.position + 1
                at = stored.position if stored.position <= expected else expected
                return Verification(False, self._previous.position, self._previous, at, reason)
            self._previous = Head(stored.position, stored.hash)
            self._versions[stored.stream] = stored.version
        return None

    def finish(self, head: Head) -> Verification:
        """Return the verdict after the last event; `head` is the head row after the reading."""
        read = self._previous
        for pin, reason in self._pins:
            if pin.position > read.position:
                reason = f"the log ends here, but it once reached position {pin.position}"
                return Verification(False, read.position, read, read.position + 1, reason)
            if pin.position == EMPTY.position and pin != EMPTY:
                return Verification(False, read.position, read, pin.position, reason)
        if read.position > head.position:
            return Verification(
                False, read.position, read, head.position + 1, "the log continues beyond its head row"
            )
        return Verification(True, read.position, read)

    def _fault(self, stored: StoredEvent) -> str | None:
        if stored.position != self._previous.position + 1:
            return f"position {self._previous.position + 1} is missing"
        if stored.previous_hash != self._previous.hash:
            return "its previous hash is not the hash of the event before it"
        if stored.version != self._versions.get(stored.stream, 0) + 1:
            return f"version {stored.version} does not follow in {stored.stream}"
        if stored.hash != hash_of(stored):
            return "its content does not fit its hash"
        for pin, reason in self._pins:
            if pin.position == stored.position and pin.hash != stored.hash:
                return reason
        return None
