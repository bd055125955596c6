"""What goes over the network: requests and answers between brokers, and between producers and brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

NOBODY = 0
"""No broker; as an end of a connection: the coordination store."""
UNKNOWN = -1
_MOST_NAMED = 12
"""Records that a sentence names."""


def producer_name(producer: int) -> str:
    """A producer in words: a letter."""
    return chr(ord("a") + producer)


def sent_by(producer: int) -> int:
    """The end of a producer's connection: below 0, since brokers are above; of an end, the producer."""
    return -1 - producer


def named(record: Record | ProduceRequest) -> str:
    """A record in words, as `History` and stories name it: its producer's letter and its number."""
    return f"{producer_name(record.producer)}{record.number}"


def named_all(records: Sequence[Record]) -> str:
    """Records in words; of many the first and the last ones."""
    names = [named(each) for each in records]
    if len(names) > _MOST_NAMED:
        half = _MOST_NAMED // 2
        names = [*names[:half], f"... ({len(names) - 2 * half:,} more)", *names[-half:]]
    return ", ".join(names)


class Record(NamedTuple):
    """A record in a log."""

    epoch: int
    """The leader epoch in which it was written (KIP-101); 0 where there are none."""
    producer: int
    producer_epoch: int
    number: int
    """The producer's own, from 0."""


class FetchRequest(NamedTuple):
    """ReplicaFetchRequest: a follower's, from the offset at which its log ends."""

    replica_id: int
    incarnation: int
    """Of the follower: how often its broker has started."""
    thread: int
    """Of the follower's fetchers: an answer to one that was stopped is thrown away."""
    offset: int
    epoch: int
    """The leader epoch that the follower knows."""


class FetchResponse(NamedTuple):
    """ReplicaFetchResponse; `records` is None where the leader refused."""

    incarnation: int
    thread: int
    hw: int
    records: tuple[Record, ...] | None


class EpochRequest(NamedTuple):
    """OffsetForLeaderEpoch: where does this epoch end on the leader? (KIP-101)"""

    replica_id: int
    incarnation: int
    thread: int
    epoch: int
    """The leader epoch that the follower knows."""
    asked: int


class EpochResponse(NamedTuple):
    """The greatest epoch that is not above the one asked for, and its end; `end` is UNKNOWN where it was
    refused.
    """

    incarnation: int
    thread: int
    epoch: int
    end: int


class ProduceRequest(NamedTuple):
    """One record of a producer; a retry is the same record in another attempt."""

    producer: int
    producer_epoch: int
    number: int
    attempt: int
    acks_all: bool


class ProduceResponse(NamedTuple):
    """`error` is empty for an acknowledgement, and the offset that of the record."""

    attempt: int
    number: int
    offset: int
    error: str


Message: TypeAlias = FetchRequest | FetchResponse | EpochRequest | EpochResponse | ProduceRequest | ProduceResponse


class Pending(NamedTuple):
    """A produce request that waits in the commitQ."""

    request: ProduceRequest
    first: int
    """The record's offset."""
    offset: int
    """pr.offset: the log's end after it was written."""
