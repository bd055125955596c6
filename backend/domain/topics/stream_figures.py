"""Figures of a stream's topic on one cluster as its brokers report them, and how clusters differ.

Records are counted as offsets between the start and the end of each log: an upper bound, since transaction markers
and records that compaction removed count as well. Rates come from two observations; one alone has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.domain.base.words import counted

LEAST_RATE_SECONDS = 1.0
"""Two observations closer together than this have no rate: a single batch would decide it."""
MOST_RATE_SECONDS = 600.0
"""Two observations further apart than this have no rate: it would say nothing about now."""


@dataclass(frozen=True, kw_only=True)
class PartitionFigures:
    """One partition on one cluster. None: its leader or brokers did not report the value."""

    partition: int
    leader: int | None
    """Broker id of the leader; None: it has none."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start_offset: int | None = None
    end_offset: int | None = None
    """Offset after the last record, also of open transactions."""
    size_bytes: int | None = None
    """Size of the leader's replica."""
    disk_bytes: int | None = None
    """Size of all replicas."""
    newest_ms: int | None = None
    """Largest timestamp of a record, in milliseconds since 1970; None also if it is empty."""

    @property
    def records(self) -> int | None:
        """Return the offsets between start and end."""
        if self.start_offset is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.start_offset)

    @property
    def is_in_sync(self) -> bool:
        """Return whether it has a leader and all replicas are in sync."""
        return self.leader is not None and len(self.isr) >= len(self.replicas)


@dataclass(frozen=True, kw_only=True)
class TopicFigures:
    """A topic on one cluster, its partitions in order."""

    topic_id: str
    partitions: tuple[PartitionFigures, ...]
    unsized: str = ""
    """Reason why sizes are missing, from the brokers; empty if they are known."""

    @property
    def records(self) -> int | None:
        """Return the offsets of all partitions; None unless all are known."""
        return _sum(each.records for each in self.partitions)

    @property
    def size_bytes(self) -> int | None:
        """Return the size of all leaders' replicas; None unless all are known."""
        return _sum(each.size_bytes for each in self.partitions)

    @property
    def disk_bytes(self) -> int | None:
        """Return the size of all replicas; None unless all are known."""
        return _sum(each.disk_bytes for each in self.partitions)

    @property
    def newest_ms(self) -> int | None:
        """Return the largest timestamp of a record that is known."""
        return max((each.newest_ms for each in self.partitions if each.newest_ms is not None), default=None)

    @property
    def replication_factor(self) -> int:
        """Return the replicas of the partition that has the fewest."""
        return min((len(each.replicas) for each in self.partitions), default=0)

    @property
    def in_sync(self) -> int:
        """Return how many partitions have all replicas in sync."""
        return sum(each.is_in_sync for each in self.partitions)

    @property
    def ends(self) -> dict[int, int]:
        """Return the known ends of the logs by partition."""
        return {each.partition: each.end_offset for each in self.partitions if each.end_offset is not None}


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Ends of a topic's logs at one moment of a monotonic clock."""

    at_seconds: float
    topic_id: str
    ends: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Records appended per second, as the mean over a time."""

    records_per_second: float
    over_seconds: float


def rate_between(before: Ends | None, now: Ends) -> Rate | None:
    """Return the rate between two observations of the same log.

    None: there is no earlier one, it is too near or too far, the topic is another one, or a log became shorter.
    """
    if before is None or before.topic_id != now.topic_id or before.ends.keys() != now.ends.keys():
        return None
    seconds = now.at_seconds - before.at_seconds
    if not now.ends or not LEAST_RATE_SECONDS <= seconds <= MOST_RATE_SECONDS:
        return None
    grown = [end - before.ends[partition] for partition, end in now.ends.items()]
    if min(grown) < 0:
        return None
    return Rate(records_per_second=sum(grown) / seconds, over_seconds=seconds)


def findings(partition: int, found: Mapping[str, PartitionFigures | None]) -> list[str]:
    """Return sentences on what is wrong with a partition, or differs between clusters; empty if nothing is.

    `found`: the partition on each cluster that answered; None where the topic has no such partition.
    """
    missing = [cluster for cluster, each in found.items() if each is None]
    there = {cluster: each for cluster, each in found.items() if each is not None}
    said = [f"partition {partition} is missing on {', '.join(missing)}"] if missing else []
    for cluster, each in there.items():
        if each.leader is None:
            said.append(f"no leader on {cluster}: it can be neither read nor written there")
        elif not each.is_in_sync:
            said.append(f"{len(each.isr)} of {counted(len(each.replicas), 'replica')} in sync on {cluster}")
    records = {cluster: each.records for cluster, each in there.items() if each.records is not None}
    if records and max(records.values()) != min(records.values()):
        least, most = min(records, key=records.__getitem__), max(records, key=records.__getitem__)
        spread = records[most] - records[least]
        said.append(f"{least} holds {counted(spread, 'offset')} fewer than {most}")
    return said


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for each in values:
        if each is None:
            return None
        total += each
    return total
