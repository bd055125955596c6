"""What a main has given to its broker and not seen in the log yet: where in the router channel each batch stands.

A batch of the log is the one that was given if its checksum, counts, times and producer's numbers are the same.
Those that the broker wrote in another way (another compression, its own time) are never found, and forgotten when
the following has passed them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from backend.kafka.wire.encoding import Buffer, MessageMalformed, int32
from backend.kafka.wire.produced import produced_batches, produced_offsets
from backend.kafka.wire.requests import read_request
from workers.zone_router.formats.bulk import ChannelOffset

_SIZE = slice(8, 12)
_LIKENESS = slice(16, 61)
"""Magic, checksum, attributes, last offset delta, times, producer, sequence, count: a batch's head behind what a
broker writes itself."""
_LAST_OFFSET_DELTA = 23
_FORGET_SECONDS = 120.0
"""What is never answered: a client that is gone, a broker that was killed."""

Name = tuple[str | bytes, int]
"""A partition as a client calls it: by its topic's name, or its id."""


@dataclass(slots=True)
class GivenBatch:
    """One batch, given to the broker."""

    name: Name
    likeness: bytes
    at: ChannelOffset
    offsets: int
    """How many it takes."""
    since: float
    offset: int | None = None
    """Of its first record, once the broker has told it."""
    is_over: bool = False
    """Found, or never to be found."""


class Handed(NamedTuple):
    """A request that was handed over."""

    version: int
    given: list[GivenBatch]


class Appended:
    """By partition and likeness; used by one event loop."""

    def __init__(self) -> None:
        self._given: dict[Name, dict[bytes, deque[GivenBatch]]] = {}
        self._waiting: deque[GivenBatch] = deque()
        """All of them, oldest first."""

    def give(self, at: ChannelOffset, message: memoryview, now: float) -> Handed:
        """A Produce request that stands in the channel at `at`; if it is malformed, the broker will say so."""
        given: list[GivenBatch] = []
        try:
            request = read_request(message)
            produced = produced_batches(request, message)
        except MessageMalformed:
            return Handed(0, given)
        for each in produced:
            if each.length < _LIKENESS.stop:
                continue  # none, or one of an old format: the broker will say
            batch = message[each.start : each.start + each.length]
            one = GivenBatch(
                (each.topic, each.partition),
                _likeness(batch),
                at._replace(start=at.start + each.start, length=each.length),
                int32(batch, _LAST_OFFSET_DELTA) + 1,
                now,
            )
            self._given.setdefault(one.name, {}).setdefault(one.likeness, deque()).append(one)
            self._waiting.append(one)
            given.append(one)
        return Handed(request.version, given)

    def answered(self, handed: Handed, answer: memoryview) -> None:
        """What the broker said to it."""
        try:
            told = produced_offsets(handed.version, answer)
        except MessageMalformed:
            told = []
        by_name = {(each.topic, each.partition): each for each in told}
        for one in handed.given:
            said = by_name.get(one.name)
            if said is None or said.error or said.base_offset < 0:
                self._forget(one)
            else:
                one.offset = said.base_offset

    def taken_back(self, handed: Handed) -> None:
        """Nobody knows whether it was appended; if it was, it is as if it had come by another way."""
        for one in handed.given:
            self._forget(one)

    def find(self, names: tuple[Name, Name], batch: memoryview) -> ChannelOffset | None:
        """Where the channel has this batch of the log; `names` are both that its partition may be called by."""
        likeness = _likeness(batch)
        for name in names:
            if (found := self._given.get(name, {}).get(likeness)) and found:
                one = found[0]
                self._forget(one)
                return one.at
        return None

    def passed(self, name: Name, position: int) -> None:
        """The following stands behind what was appended before `position`: what was not found will not be."""
        for those in list(self._given.get(name, {}).values()):
            for one in list(those):
                if one.offset is not None and one.offset < position:
                    self._forget(one)

    def sweep(self, now: float) -> None:
        while self._waiting and (self._waiting[0].is_over or self._waiting[0].since < now - _FORGET_SECONDS):
            self._forget(self._waiting.popleft())

    def oldest_epoch(self) -> int | None:
        """Of what is not found and may still be; None if there is nothing."""
        return min((one.at.epoch for one in self._waiting if not one.is_over), default=None)

    def _forget(self, one: GivenBatch) -> None:
        if one.is_over:
            return
        one.is_over = True
        of_name = self._given[one.name]
        of_name[one.likeness].remove(one)
        if not of_name[one.likeness]:
            del of_name[one.likeness]
            if not of_name:
                del self._given[one.name]


def _likeness(batch: Buffer) -> bytes:
    view = memoryview(batch)
    return bytes(view[_SIZE]) + bytes(view[_LIKENESS])
