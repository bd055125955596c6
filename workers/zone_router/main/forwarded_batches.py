"""Batches that a main forwarded to its broker and has not yet seen in the log, with their channel positions.

A batch of the log matches a forwarded one if checksum, counts, timestamps and producer fields are equal. Batches
that the broker rewrote (other compression, its own timestamp) never match, and are forgotten once the follower has
passed them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from backend.kafka.wire.encoding import Buffer, MessageMalformed, int32
from backend.kafka.wire.produce import produced_batches, produced_offsets
from backend.kafka.wire.requests import read_request
from workers.zone_router.formats.bulk import ChannelOffset

_SIZE = slice(8, 12)
_FINGERPRINT = slice(16, 61)
"""Header fields that a broker leaves unchanged: magic, checksum, attributes, last offset delta, timestamps,
producer, sequence, count."""
_LAST_OFFSET_DELTA = 23
_FORGET_SECONDS = 120.0
"""Seconds after which an unanswered batch is forgotten: its client has disconnected, or the broker was killed."""

Name = tuple[str | bytes, int]
"""A partition by the topic's name or id, as the client addresses it."""


@dataclass(slots=True)
class ForwardedBatch:
    """One batch that was forwarded to the broker."""

    name: Name
    fingerprint: bytes
    at: ChannelOffset
    offsets: int
    """Number of offsets that the batch occupies."""
    since: float
    offset: int | None = None
    """Offset of its first record, once the broker has returned it."""
    is_over: bool = False
    """True once the batch was found or cannot be found any more."""


class ForwardedRequest(NamedTuple):
    """A request that was forwarded to the broker."""

    version: int
    batches: list[ForwardedBatch]


class ForwardedBatches:
    """Index of forwarded batches by partition and fingerprint; used by one event loop."""

    def __init__(self) -> None:
        self._pending: dict[Name, dict[bytes, deque[ForwardedBatch]]] = {}
        self._waiting: deque[ForwardedBatch] = deque()
        """All batches, oldest first."""

    def register(self, at: ChannelOffset, message: memoryview, now: float) -> ForwardedRequest:
        """Register a Produce request at position `at` of the channel; the broker refuses malformed ones."""
        batches: list[ForwardedBatch] = []
        try:
            request = read_request(message)
            produced = produced_batches(request, message)
        except MessageMalformed:
            return ForwardedRequest(0, batches)
        for each in produced:
            if each.length < _FINGERPRINT.stop:
                continue  # no batch, or one of an old format: the broker decides
            batch = message[each.start : each.start + each.length]
            one = ForwardedBatch(
                (each.topic, each.partition),
                _fingerprint(batch),
                at._replace(start=at.start + each.start, length=each.length),
                int32(batch, _LAST_OFFSET_DELTA) + 1,
                now,
            )
            self._pending.setdefault(one.name, {}).setdefault(one.fingerprint, deque()).append(one)
            self._waiting.append(one)
            batches.append(one)
        return ForwardedRequest(request.version, batches)

    def answered(self, forwarded: ForwardedRequest, answer: memoryview) -> None:
        """Apply the broker's response."""
        try:
            results = produced_offsets(forwarded.version, answer)
        except MessageMalformed:
            results = []
        by_name = {(each.topic, each.partition): each for each in results}
        for one in forwarded.batches:
            said = by_name.get(one.name)
            if said is None or said.error or said.base_offset < 0:
                self._forget(one)
            else:
                one.offset = said.base_offset

    def forget_request(self, forwarded: ForwardedRequest) -> None:
        """Forget a request without a response. If it was appended, its batches are stored whole."""
        for one in forwarded.batches:
            self._forget(one)

    def find(self, names: tuple[Name, Name], batch: memoryview) -> ChannelOffset | None:
        """Return the position of a log's batch in the channel; `names` are both names of its partition."""
        fingerprint = _fingerprint(batch)
        for name in names:
            if (found := self._pending.get(name, {}).get(fingerprint)) and found:
                one = found[0]
                self._forget(one)
                return one.at
        return None

    def passed(self, name: Name, position: int) -> None:
        """Forget batches appended before `position`, which the follower has passed without a match."""
        for those in list(self._pending.get(name, {}).values()):
            for one in list(those):
                if one.offset is not None and one.offset < position:
                    self._forget(one)

    def sweep(self, now: float) -> None:
        while self._waiting and (self._waiting[0].is_over or self._waiting[0].since < now - _FORGET_SECONDS):
            self._forget(self._waiting.popleft())

    def oldest_epoch(self) -> int | None:
        """Return the epoch of the oldest batch that may still be found; None if there is none."""
        return min((one.at.epoch for one in self._waiting if not one.is_over), default=None)

    def _forget(self, one: ForwardedBatch) -> None:
        if one.is_over:
            return
        one.is_over = True
        of_name = self._pending[one.name]
        of_name[one.fingerprint].remove(one)
        if not of_name[one.fingerprint]:
            del of_name[one.fingerprint]
            if not of_name:
                del self._pending[one.name]


def _fingerprint(batch: Buffer) -> bytes:
    view = memoryview(batch)
    return bytes(view[_SIZE]) + bytes(view[_FINGERPRINT])
