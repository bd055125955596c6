"""The offset that a group has committed for a partition, as requests for offsets return it."""

from __future__ import annotations

from dataclasses import dataclass

from backend.kafka.base.asking import Place

NOTHING = -1001
"""librdkafka's offset of a partition without a commit."""


@dataclass(frozen=True)
class Committed:
    """One partition of a group; `offset` is `NOTHING` where nothing is committed, `code` Kafka's, 0 for none."""

    place: Place
    offset: int
    metadata: str | None
    code: int
