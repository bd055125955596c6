"""A consumer group as observed on one cluster: its members, and its offsets for each partition."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""Kafka's states of a group whose members wait for their assignment."""
UNKNOWN = "Unknown"


@dataclass(frozen=True, kw_only=True)
class GroupMember:
    """A member of a group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    """`group.instance.id` of a static member."""
    partitions: int
    """Number of partitions assigned to it."""


@dataclass(frozen=True, kw_only=True)
class GroupPartition:
    """A partition for which a group has an offset or an assigned member."""

    topic: str
    stream: str | None = None
    """Full name of the stream; None: the topic belongs to no stream."""
    partition: int
    committed_offset: int | None = None
    end_offset: int | None = None
    """High watermark; None: it could not be read."""
    lag_records: int | None = None
    records_per_second: float | None = None
    """Rate at which the committed offset moves."""
    produced_per_second: float | None = None
    """Rate at which the log's end moves."""
    time_lag_ms: int | None = None
    time_lag_at_least_ms: int | None = None
    """Lower bound of the time lag where the time lag itself is not known."""
    moved_at_ms: int | None = None
    """Time at which the committed offset last moved, as observed; None: never since the observation began."""
    observed_since_ms: int | None = None
    """Time since which the partition is observed."""
    member: str | None = None
    """Id of the member that the partition is assigned to."""

    @property
    def name(self) -> str:
        """Return the name by which people know the topic: the stream's own name, else the topic's."""
        return self.topic if self.stream is None else self.stream.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums over the partitions of a group; a value that no partition has is None."""

    lag_records: int | None
    records_per_second: float | None
    produced_per_second: float | None
    time_lag_ms: int | None
    """Largest time lag; None if one of the partitions that lag has none."""
    time_lag_at_least_ms: int | None
    """Lower bound of the largest time lag where that is not known."""


def sums(partitions: Collection[GroupPartition]) -> Sums:
    """Return the sums over some partitions of a group."""
    lags = [each.lag_records for each in partitions if each.lag_records is not None]
    consumed = [each.records_per_second for each in partitions if each.records_per_second is not None]
    produced = [each.produced_per_second for each in partitions if each.produced_per_second is not None]
    times = [each.time_lag_ms for each in partitions if each.time_lag_ms is not None]
    bounds = [each.time_lag_at_least_ms for each in partitions if each.time_lag_at_least_ms is not None]
    return Sums(
        lag_records=sum(lags) if lags else None,
        records_per_second=sum(consumed) if consumed else None,
        produced_per_second=sum(produced) if produced else None,
        time_lag_ms=max(times) if times and not bounds else None,
        time_lag_at_least_ms=max(times + bounds) if bounds else None,
    )


def visible_partitions(
    place: str | None, partitions: Sequence[GroupPartition], tenants: Collection[str]
) -> list[GroupPartition]:
    """Return the partitions that members of these tenants may see of a group with this place.

    They see partitions of their own tenant's streams. If the group is their own tenant's, they see the partitions
    of every stream, whoever's it is: their consumers read them. Topics of no stream belong to no tenant.
    """
    all_streams = is_own(place, tenants)
    return [
        each for each in partitions if each.stream is not None and (all_streams or is_own(each.stream, tenants))
    ]


def is_own(name: str | None, tenants: Collection[str]) -> bool:
    """Tell whether a name that begins with a tenant's belongs to one of these tenants."""
    return name is not None and name.partition("/")[0] in tenants
