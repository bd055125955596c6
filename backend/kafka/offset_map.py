"""Publishing progress of groups on the cluster where it was made; the distributors carry it from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from backend.domain import offset_map
from backend.domain.offset_map import Follower, Progress
from backend.kafka.errors import KafkaCallFailed, sentence

_FLUSH_SECONDS = 15.0


class MapPublisher:
    """One cluster's; used by one thread. Raises KafkaCallFailed."""

    def __init__(self, config: Mapping[str, Any], cluster: str, topic: str) -> None:
        try:
            self._producer = Producer(
                {**config, "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 12_000}
            )
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        self._cluster, self._topic = cluster, topic

    def publish(self, made: Iterable[tuple[Follower, Progress | None]]) -> None:
        """Returns once the cluster has taken all; None: the group has no offset there any more."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        try:
            for follower, progress in made:
                value = None if progress is None else offset_map.encode_value(progress)
                key = offset_map.encode_key(follower, self._cluster)
                self._producer.produce(self._topic, value, key, on_delivery=delivered)
                self._producer.poll(0)
            left = self._producer.flush(_FLUSH_SECONDS)
        except (BufferError, KafkaException) as error:
            raise KafkaCallFailed(sentence(error)) from error
        if failed or left:
            reason = str(failed[0].str()) if failed else f"{left} records were not acknowledged"
            raise KafkaCallFailed(f"{self._cluster}: {self._topic}: {reason}")

    def close(self) -> None:
        """Give the connection back."""
        self._producer.flush(1.0)
