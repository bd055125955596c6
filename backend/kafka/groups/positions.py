"""Positions of distributors on their target.

A position is the committed offset of the task's group for (target's topic, partition): the next offset to read on
the source. Its metadata holds the vectors (`domain/records/marks.py`). Both are written in the transaction of the
records that they describe, so they can never disagree.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from backend.domain.records import marks
from backend.domain.records.marks import Mark, MetadataInvalid, Position
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, kafka_error, sentence
from backend.kafka.groups import group_reader
from backend.kafka.groups.committed import Committed
from backend.kafka.groups.group_reader import GroupReader

_REQUEST_SECONDS = 10.0
_AGAIN_SECONDS = 0.02
_PENDING = frozenset({KafkaError.UNSTABLE_OFFSET_COMMIT, *group_reader.MOVING})

Partition = tuple[str, int]
"""(topic on the target, partition)."""


def read_own(
    group_member: Consumer, partitions: Sequence[Partition], timeout_seconds: float
) -> dict[Partition, Position]:
    """Return the positions of the client's own group; wait until none of its transactions is open."""
    wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
    found: dict[Partition, Position] = {}
    for row in _committed(group_member, wanted, timeout_seconds):
        if row.error is not None:
            raise KafkaException(row.error)
        if row.offset >= 0:
            mark = _mark((row.topic, row.partition), row.metadata, "its own group")
            found[row.topic, row.partition] = Position(row.offset, mark, row.leader_epoch)
    return found


def _committed(
    group_member: Consumer, wanted: list[TopicPartition], timeout_seconds: float
) -> list[TopicPartition]:
    """Return the group's committed offsets, once its coordinator is found and ready."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            return group_member.committed(wanted, timeout=max(_AGAIN_SECONDS, deadline - time.monotonic()))
        except KafkaException as error:
            inner = kafka_error(error)
            # librdkafka sometimes gives up on the first such answer.
            if inner is None or inner.code() not in group_reader.MOVING or time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_SECONDS)


def read_inbound(
    consumer: GroupReader,
    groups: Iterable[str],
    partitions: Iterable[Partition] | None,
    timeout_seconds: float,
) -> dict[Partition, list[Mark]]:
    """Return, per partition of the target (None: all), the marks of all tasks that may have copied to it.

    Waits until none of their transactions is open. `consumer` is a consumer on the target, of any group. Raises
    KafkaException.
    """
    wanted = None if partitions is None else set(partitions)
    found: dict[Partition, list[Mark]] = {}
    for group, rows in _stable(consumer, groups, timeout_seconds):
        for row in rows:
            if (wanted is None or row.place in wanted) and row.offset >= 0:
                found.setdefault(row.place, []).append(_mark(row.place, row.metadata, group))
    return found


def read_committed(
    consumer: GroupReader, wanted: Mapping[str, Collection[Partition]], timeout_seconds: float
) -> dict[Partition, dict[str, Position]]:
    """Return partition of the target -> group -> its position, as of the transactions that have ended.

    Pending transactions are not waited for, so a target may have more than the position says, never less.
    `consumer` is a consumer on the target, of any group. Raises KafkaCallFailed.
    """
    found: dict[Partition, dict[str, Position]] = {}
    try:
        for group, rows in group_reader.request_offsets(consumer, wanted, timeout_seconds).items():
            if isinstance(rows, KafkaError):
                raise KafkaException(rows)
            for row in rows:
                if row.code:
                    raise KafkaException(KafkaError(row.code))
                if row.offset >= 0:
                    position = Position(row.offset, _mark(row.place, row.metadata, group))
                    found.setdefault(row.place, {})[group] = position
    except (KafkaException, MetadataInvalid) as error:
        raise KafkaCallFailed(sentence(error)) from error
    return found


def _mark(place: Partition, metadata: str | None, group: str) -> Mark:
    try:
        return marks.decode_metadata(metadata)
    except MetadataInvalid as error:
        raise MetadataInvalid(
            f"the offset of {group} for {place[0]}-{place[1]}: {error}. Another program set it. Delete it "
            "(kafka-consumer-groups.sh --delete-offsets): the partition is then read again from where the other "
            "positions allow, and records copied since they were written may be copied a second time"
        ) from error


def _stable(
    consumer: GroupReader, groups: Iterable[str], timeout_seconds: float
) -> list[tuple[str, Sequence[Committed]]]:
    """Return each group with its positions, once they are stable.

    A group with a pending position must be queried again: its row has an error and no offset. Taking that for no
    position would copy the records of its transaction twice. The same holds while its coordinator moves.
    """
    deadline = time.monotonic() + timeout_seconds
    left = list(groups)
    answers: list[tuple[str, Sequence[Committed]]] = []
    while left:
        asked = group_reader.request_offsets(consumer, dict.fromkeys(left), timeout_seconds, require_stable=True)
        left = []
        for group, found in asked.items():
            errors = [found] if isinstance(found, KafkaError) else [KafkaError(r.code) for r in found if r.code]
            if not errors and not isinstance(found, KafkaError):
                answers.append((group, found))
            elif time.monotonic() < deadline and all(error.code() in _PENDING for error in errors):
                left.append(group)
            else:
                raise KafkaException(errors[0])
        if left:
            time.sleep(_AGAIN_SECONDS)
    return answers


def read_all(
    bootstrap_servers: str, properties: Mapping[str, str], groups: Iterable[str]
) -> dict[Partition, list[Mark]]:
    """Return the marks of these groups on a cluster, per partition. Raises KafkaCallFailed."""
    try:
        consumer = group_reader.open_consumer(client_config(bootstrap_servers, properties))
        try:
            return read_inbound(consumer, groups, None, _REQUEST_SECONDS)
        finally:
            consumer.close()
    except (KafkaException, MetadataInvalid, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error
