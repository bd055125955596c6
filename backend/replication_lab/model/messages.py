"""Messages: requests and answers between brokers, and between producers and brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

NOBODY = 0
"""Id of no broker; as an end of a connection: the coordination store."""
UNKNOWN = -1
_MOST_NAMED = 12
"""Most records that a sentence names."""


def producer_name(producer: int) -> str:
    """Return a producer's name, a letter."""
    return chr(ord("a") + producer)


def sent_by(producer: int) -> int:
    """Convert a producer's id to the end of its connection and back: it is below 0, since brokers are above."""
    return -1 - producer


def named(record: Record | ProduceRequest) -> str:
    """Return the name of a record in histories and stories: its producer's letter and its number."""
    return f"{producer_name(record.producer)}{record.number}"


def named_all(records: Sequence[Record]) -> str:
    """Return the names of records; of many only the first and the last ones."""
    names = [named(each) for each in records]
    if len(names) > _MOST_NAMED:
        half = _MOST_NAMED // 2
        names = [*names[:half], f"... ({len(names) - 2 * half:,} more)", *names[-half:]]
    return ", ".join(names)


class Record(NamedTuple):
    """A record in a log."""

    epoch: int
    """Leader epoch in which the record was written (KIP-101); 0 where there are none."""
    producer: int
    producer_epoch: int
    number: int
    """Number that the producer gave the record, from 0."""


class FetchRequest(NamedTuple):
    """ReplicaFetchRequest of a follower, from its log end offset."""

    replica_id: int
    incarnation: int
    """Incarnation of the follower: how often its broker has started."""
    thread: int
    """Number of the follower's fetcher: an answer to a stopped fetcher is discarded."""
    offset: int
    epoch: int
    """Leader epoch that the follower knows."""


class FetchResponse(NamedTuple):
    """ReplicaFetchResponse; `records` is None if the leader refused."""

    incarnation: int
    thread: int
    hw: int
    records: tuple[Record, ...] | None


class EpochRequest(NamedTuple):
    """OffsetForLeaderEpoch request: the end offset of an epoch on the leader (KIP-101)."""

    replica_id: int
    incarnation: int
    thread: int
    epoch: int
    """Leader epoch that the follower knows."""
    asked: int


class EpochResponse(NamedTuple):
    """OffsetForLeaderEpoch response: the greatest epoch up to the requested one, and its end offset.

    `end` is UNKNOWN if the leader refused.
    """

    incarnation: int
    thread: int
    epoch: int
    end: int


class ProduceRequest(NamedTuple):
    """One record of a producer; a retry is the same record with another attempt."""

    producer: int
    producer_epoch: int
    number: int
    attempt: int
    acks_all: bool


class ProduceResponse(NamedTuple):
    """Answer to a producer. `error` is empty for an acknowledgement, whose `offset` is the record's."""

    attempt: int
    number: int
    offset: int
    error: str


Message: TypeAlias = FetchRequest | FetchResponse | EpochRequest | EpochResponse | ProduceRequest | ProduceResponse


class Pending(NamedTuple):
    """A produce request that waits in the commitQ."""

    request: ProduceRequest
    first: int
    """Offset of the record."""
    offset: int
    """pr.offset: log end offset after the record was appended."""
