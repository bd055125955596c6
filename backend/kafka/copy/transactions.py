"""Steps of a transaction on the target, shared by both record loops and the session.

librdkafka names the failure that ended a transaction only once; later calls often get _STATE, which says no more
than that the transaction has failed. Therefore every failure goes through `cause_of` before it is judged: whether
a record was refused decides what the next session does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from backend.domain.offsets import commit_batches
from backend.kafka.base.liveness import Alive

_FLUSH_SECONDS = 1.0
_OFFSETS_SECONDS = 4.0
_NO_CAUSE = frozenset(
    {KafkaError._STATE, KafkaError._CONFLICT, KafkaError._PREV_IN_PROGRESS, KafkaError._IN_PROGRESS}
)
"""Codes that concern the call, not the transaction."""


def flush(producer: Producer, alive: Alive) -> None:
    """Wait until the target has taken all records, or librdkafka has given up, which the next call reports."""
    while producer.flush(_FLUSH_SECONDS):
        alive()


def cause_of(producer: Producer, error: KafkaException) -> KafkaException:
    """Return the failure that ended the transaction, or `error` if librdkafka knows no earlier one.

    librdkafka keeps the first failure and reports it on an attempt to begin another transaction, which is
    impossible in that state.
    """
    try:
        producer.begin_transaction()
    except KafkaException as cause:
        if cause.args[0].code() not in _NO_CAUSE:
            return cause
    return error


def abort(producer: Producer, timeout_seconds: float) -> None:
    """Abort the open transaction if the target answers in time. Never raises: the earlier failure counts.

    If this fails, the next `init_transactions` under the same id aborts it.
    """
    with contextlib.suppress(KafkaException):
        producer.abort_transaction(timeout_seconds)


def send_positions(
    producer: Producer,
    group_member: Consumer,
    group: str,
    positions: Iterable[TopicPartition],
    most_bytes: int,
    alive: Alive,
) -> float:
    """Add positions of the member's group to the transaction, in as many requests as the coordinator needs.

    `most_bytes` limits the records that the coordinator writes for one request. All positions take effect with the
    transaction, or none. Returns the seconds that the first request took. Raises KafkaException.
    """
    first: float | None = None
    member = group_member.consumer_group_metadata()

    def size(row: TopicPartition) -> int:
        return commit_batches.record_bytes(group, row.topic, row.metadata)

    for piece in commit_batches.pieces(positions, size, most_bytes):
        # The call may hang beyond its time (docs/decisions/0011).
        alive(2 * _OFFSETS_SECONDS)
        asked = time.monotonic()
        producer.send_offsets_to_transaction(piece, member, _OFFSETS_SECONDS)
        first = time.monotonic() - asked if first is None else first
    return first or 0.0
