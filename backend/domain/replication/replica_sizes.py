"""Bytes that were appended to a cluster's logs, estimated from the sizes of the leaders' replicas.

Kafka counts the bytes that arrive at a broker only in its own metrics. A log's growth between two observations is
what was appended, less what was deleted meanwhile by retention, compaction or a request: an estimate that is never
too high, and too low while segments are deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.domain.replication.replication_health import Place


@dataclass(frozen=True, kw_only=True)
class ReplicaSizes:
    """Sizes of replicas at one moment, without brokers that did not report any."""

    leaders: Mapping[Place, tuple[int, int]]
    """Leader of each partition, and the bytes of its replica."""
    brokers: Mapping[int, int]
    """Bytes of all replicas of each broker."""


def appended_bytes(before: ReplicaSizes, now: ReplicaSizes) -> int:
    """Return the growth of all logs between two observations; a log that has shrunk counts as unchanged.

    Replicas of one log differ a little in size, so a partition counts only if its leader is the same; a new
    partition counts from its second observation on.
    """
    found = 0
    for place, (leader, size) in now.leaders.items():
        earlier = before.leaders.get(place)
        if earlier is not None and earlier[0] == leader:
            found += max(0, size - earlier[1])
    return found
