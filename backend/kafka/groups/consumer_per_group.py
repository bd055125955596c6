"""Read committed offsets with confluent-kafka's public API alone: one consumer for each group.

Used where `group_reader` cannot reach into confluent-kafka's clients, since it was not tested with their version.
A connection for each group makes it slower. Unlike an admin client, a consumer survives a broker that answers
NOT_COORDINATOR: it looks for the coordinator of its own group.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from backend.kafka.base.requests import Place
from backend.kafka.groups.committed import NOTHING, Committed


def read(
    config: Mapping[str, Any],
    wanted: Mapping[str, Iterable[Place] | None],
    timeout_seconds: float,
    *,
    require_stable: bool,
) -> dict[str, Sequence[Committed] | KafkaError]:
    """Return what each group has committed for its partitions (None: all of the cluster), or why that is unknown.

    With `require_stable` an offset that is pending in a transaction is waited for, and is an error in the end.
    """
    deadline = time.monotonic() + timeout_seconds
    found: dict[str, Sequence[Committed] | KafkaError] = {}
    for group, places in wanted.items():
        consumer = Consumer(
            {
                **config,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if require_stable else "read_uncommitted",
            }
        )
        try:
            found[group] = _of_group(consumer, places, deadline)
        except KafkaException as error:
            found[group] = error.args[0]
        finally:
            consumer.close()
    return found


def _of_group(consumer: Consumer, places: Iterable[Place] | None, deadline: float) -> Sequence[Committed]:
    def left() -> float:
        return max(0.001, deadline - time.monotonic())

    asked = list(places) if places is not None else _all_partitions(consumer, left())
    if not asked:
        return []
    rows = consumer.committed([TopicPartition(topic, partition) for topic, partition in asked], timeout=left())
    return [
        Committed(
            place=(row.topic, row.partition),
            offset=row.offset,
            metadata=row.metadata,
            code=row.error.code() if row.error else 0,
        )
        for row in rows
        if places is not None or row.error or row.offset != NOTHING
    ]


def _all_partitions(consumer: Consumer, timeout_seconds: float) -> list[Place]:
    topics = consumer.list_topics(timeout=timeout_seconds).topics
    return [(name, partition) for name, topic in topics.items() for partition in topic.partitions]
