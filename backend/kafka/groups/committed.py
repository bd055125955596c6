"""The offset that a group has committed for a partition, as requests for offsets return it."""

from __future__ import annotations

from dataclasses import dataclass

from backend.kafka.base.requests import Place

NOTHING = -1001
"""librdkafka's offset of a partition without a commit (RD_KAFKA_OFFSET_INVALID)."""


@dataclass(frozen=True)
class Committed:
    """Committed offset of one partition, `NOTHING` if there is none. `code` is Kafka's error code, 0 for none."""

    place: Place
    offset: int
    metadata: str | None
    code: int
