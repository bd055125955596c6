"""Positions of distributors on their target.

A position is the committed offset of the unit's group for (target's topic, partition): the next offset to read
on the source. Its metadata holds the vectors (`domain/marks.py`). Both are written in the transaction of the
records that they speak of, so they can never disagree.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain import marks
from backend.domain.marks import Mark, MetadataInvalid, Position
from backend.kafka.client_config import client_config
from backend.kafka.errors import KafkaCallFailed, kafka_error, sentence

_REQUEST_SECONDS = 10.0
_AGAIN_SECONDS = 0.02
_PENDING = frozenset({KafkaError.UNSTABLE_OFFSET_COMMIT})
_MOVING = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
"""While a group's coordinator moves or starts; librdkafka's `committed` gives up on the first one at times."""

Partition = tuple[str, int]
"""(topic on the target, partition)."""


def read_own(
    group_member: Consumer, partitions: Sequence[Partition], timeout_seconds: float
) -> dict[Partition, Position]:
    """Positions of the client's own group, where it has any; waits until no transaction of it is open."""
    wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
    found: dict[Partition, Position] = {}
    for row in _committed(group_member, wanted, timeout_seconds):
        if row.error is not None:
            raise KafkaException(row.error)
        if row.offset >= 0:
            mark = _mark(row, "its own group")
            found[row.topic, row.partition] = Position(row.offset, mark, row.leader_epoch)
    return found


def _committed(
    group_member: Consumer, wanted: list[TopicPartition], timeout_seconds: float
) -> list[TopicPartition]:
    """What the group has committed, once its coordinator is found and ready."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            return group_member.committed(wanted, timeout=max(_AGAIN_SECONDS, deadline - time.monotonic()))
        except KafkaException as error:
            inner = kafka_error(error)
            if inner is None or inner.code() not in _MOVING or time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_SECONDS)


def read_inbound(
    admin: AdminClient,
    groups: Iterable[str],
    partitions: Iterable[Partition] | None,
    timeout_seconds: float,
) -> dict[Partition, list[Mark]]:
    """Per partition of the target (None: all) the marks of all units that may have copied to it.

    Waits until no transaction of theirs is open. Raises KafkaException.
    """
    wanted = None if partitions is None else set(partitions)
    found: dict[Partition, list[Mark]] = {}
    for group, rows in _stable(admin, groups, timeout_seconds):
        for row in rows:
            key = (row.topic, row.partition)
            if (wanted is None or key in wanted) and row.offset >= 0:
                found.setdefault(key, []).append(_mark(row, group))
    return found


def _mark(row: TopicPartition, group: str) -> Mark:
    try:
        return marks.decode_metadata(row.metadata)
    except MetadataInvalid as error:
        raise MetadataInvalid(
            f"the offset of {group} for {row.topic}/{row.partition}: {error}. Another program set it. Delete it "
            "(kafka-consumer-groups.sh --delete-offsets): the partition is then read again from where the other "
            "positions allow, and what was copied since they were written may be copied a second time"
        ) from error


def _stable(
    admin: AdminClient, groups: Iterable[str], timeout_seconds: float
) -> list[tuple[str, list[TopicPartition]]]:
    """Each group with its positions.

    A group with a pending position must be asked again: its row comes with an error and no offset, and taken for
    none the records that it speaks of would be copied twice.
    """
    deadline = time.monotonic() + timeout_seconds
    left = list(groups)
    answers: list[tuple[str, list[TopicPartition]]] = []
    while left:
        requests = {
            group: admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=timeout_seconds
            )[group]
            for group in left
        }
        left = []
        for group, request in requests.items():
            rows = request.result(timeout_seconds + 1).topic_partitions
            errors = [row.error for row in rows if row.error is not None]
            if not errors:
                answers.append((group, rows))
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
    """The marks of these groups on a cluster, per partition. Raises KafkaCallFailed."""
    try:
        admin = AdminClient(client_config(bootstrap_servers, properties))
        return read_inbound(admin, groups, None, _REQUEST_SECONDS)
    except (KafkaException, MetadataInvalid, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error
