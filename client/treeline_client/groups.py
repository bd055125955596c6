"""A consumer group's metadata, as a transactional producer wants it, with the generation that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GroupMetadata:
    """What `SwitchingConsumer.consumer_group_metadata()` gives and `send_offsets_to_transaction()` takes.

    The generation keeps offsets of one cluster from being committed on another, where a producer has moved on and
    its consumer not yet.
    """

    generation: int
    cluster: str
    metadata: Any
    """librdkafka's own."""
