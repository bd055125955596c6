"""Offset map topic on one cluster: publish the progress made there, read the progress of all clusters.

Distributors carry the records from one cluster to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from backend.domain.offsets import offset_map
from backend.domain.offsets.offset_map import End, GroupPartition, MapInvalid, Progress
from backend.domain.records import copy_flags
from backend.kafka.base.errors import KafkaCallFailed, sentence
from backend.kafka.base.message_headers import headers_of
from backend.kafka.logs.following import TopicFollower
from backend.kafka.logs.log_ends import partitions

log = structlog.get_logger("offsets")

_FLUSH_SECONDS = 15.0
_REQUEST_SECONDS = 10.0


class MapPublisher:
    """Publisher of one cluster; used by one thread. Raises KafkaCallFailed."""

    def __init__(self, config: Mapping[str, Any], cluster: str, topic: str) -> None:
        try:
            self._producer = Producer(
                {**config, "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 12_000}
            )
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        self._cluster, self._topic = cluster, topic

    def publish(
        self, made: Iterable[tuple[GroupPartition, Progress | End | None]], made_on: str | None = None
    ) -> None:
        """Publish progress; return once the cluster has acknowledged all of it.

        None: the group has no offset any more on the cluster of the commit, which is this one or `made_on`.
        """
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        try:
            for group_partition, progress in made:
                value = None if progress is None else offset_map.encode_value(progress)
                key = offset_map.encode_key(group_partition, made_on or self._cluster)
                self._producer.produce(self._topic, value, key, on_delivery=delivered)
                self._producer.poll(0)
            left = self._producer.flush(_FLUSH_SECONDS)
        except (BufferError, KafkaException) as error:
            # The first failure is the cause; after it the producer may accept nothing more.
            reason = str(failed[0].str()) if failed else sentence(error)
            raise KafkaCallFailed(f"{self._cluster}: {self._topic}: {reason}") from error
        if failed or left:
            reason = str(failed[0].str()) if failed else f"{left} records were not acknowledged"
            raise KafkaCallFailed(f"{self._cluster}: {self._topic}: {reason}")

    def close(self) -> None:
        """Close the connection."""
        self._producer.flush(1.0)


@dataclass(frozen=True, kw_only=True)
class MapRow:
    """A record of the offset map as read on one cluster."""

    group_partition: GroupPartition
    cluster: str
    """Cluster of the commit."""
    progress: Progress | End | None
    """None: the group has no offset there."""
    flags: int
    """Copy flags of the record on this cluster."""


class MapReader:
    """Reader of the map from its beginning; used by one thread. Raises KafkaCallFailed."""

    def __init__(self, config: Mapping[str, Any], topic: str, flags_header: str) -> None:
        places = partitions(config, topic, _REQUEST_SECONDS)
        if not places:
            raise KafkaCallFailed(f"topic {topic} does not exist yet")
        self._log = TopicFollower(config, places, {})
        self._header = flags_header
        self._topic = topic

    @property
    def caught_up(self) -> bool:
        """Tell whether every partition's end was reached once."""
        return self._log.caught_up

    def read(self, wait_seconds: float) -> list[MapRow]:
        """Wait for one record, then take all that are available."""
        found, unreadable = [], 0
        for message in self._log.read(wait_seconds):
            try:
                group_partition, cluster = offset_map.decode_key(message.key())
                progress = offset_map.decode_value(message.value())
            except MapInvalid:
                unreadable += 1
                continue
            flags, _ = copy_flags.decode([value for name, value in headers_of(message) if name == self._header])
            found.append(MapRow(group_partition=group_partition, cluster=cluster, progress=progress, flags=flags))
        if unreadable:
            # Another program wrote them; the translator writes no such records.
            log.warning("unreadable records in the offset map", topic=self._topic, records=unreadable)
        return found

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
