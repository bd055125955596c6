"""What a group has committed for a partition, as requests for offsets return it."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = -1001
"""librdkafka's offset of a partition without a commit."""

Place = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True)
class Committed:
    """One partition of a group; `offset` is `NOTHING` where nothing is committed, `code` Kafka's, 0 for none."""

    place: Place
    offset: int
    metadata: str | None
    code: int
