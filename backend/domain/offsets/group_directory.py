"""Mapping of a cluster's technical names of topic and group to the group partition whose progress a commit is.

The topic gives the stream by look-up. The group is parsed within the environment of that stream: the cluster's
group format then fixes everything except the group's own name, so no name is split by guessing. Groups that do not
match the format, and groups of other environments, are not distributed; they are listed with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.domain.names.names import LONGEST_GROUP, ApplicationName, StreamName, group_name_problem
from backend.domain.names.readings import EnvironmentPlace, Reader
from backend.domain.offsets.offset_map import GroupPartition

_SHOWN = 60


@dataclass(frozen=True)
class NotFollowed:
    """Reason for which a group's offsets for a topic are not distributed."""

    reason: str


class GroupDirectory:
    """Directory of one cluster; it is replaced when streams, environments or formats change."""

    def __init__(self, cluster: str, group_format: str, streams: Mapping[str, StreamName]) -> None:
        """`streams` maps a topic's technical name on the cluster to its distributed stream."""
        self._cluster = cluster
        self._format = group_format
        self._streams = streams
        self._readers: dict[EnvironmentPlace, Reader] = {}

    def group_partition(self, group: str, topic: str, partition: int) -> GroupPartition | NotFollowed:
        """Return the group partition that an offset belongs to, or the reason why it is not distributed."""
        stream = self._streams.get(topic)
        if stream is None:
            return NotFollowed(f"{topic} is not the topic of a distributed stream on {self._cluster}")
        place = (stream.tenant, stream.instance, stream.environment)
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = Reader(self._format, "group", [place], {})
        found = reader.within(group)
        if found is None:
            shown = repr(group[:LONGEST_GROUP])
            return NotFollowed(
                f"group {shown} does not match the format {self._format!r} of {self._cluster} "
                f"in {'/'.join(place)}, the environment of {topic}"
            )
        problem = group_name_problem(found.stream)
        if problem:
            return NotFollowed(f"{found.stream[:_SHOWN]!r} is no valid group name in {'/'.join(place)}: {problem}")
        return GroupPartition(
            tenant=stream.tenant,
            instance=stream.instance,
            environment=stream.environment,
            stream=stream.stream,
            partition=partition,
            group=found.stream,
        )

    def technical_group(self, group_partition: GroupPartition) -> str:
        """Return the technical name of a group on the cluster."""
        name = StreamName(
            group_partition.tenant, group_partition.instance, group_partition.environment, group_partition.stream
        )
        return technical_group(self._format, name, group_partition.group)


def technical_group(group_format: str, within: StreamName | ApplicationName, group: str) -> str:
    """Return the technical name that a group format gives to a group of this environment."""
    return group_format.format(
        tenant=within.tenant, instance=within.instance, environment=within.environment, group=group
    )
