"""Whose progress a commit on a cluster is: from technical names of topic and group to logical ones.

The topic tells the stream by look-up. A group is read within the environment of that stream: there its cluster's
group format says all but the group's own name, so a name is never split by guessing. Groups that the format does
not know, and those of another environment, are not distributed; they are listed, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.domain.names.names import LONGEST_GROUP, ApplicationName, StreamName, group_name_problem
from backend.domain.names.readings import EnvironmentPlace, Reader
from backend.domain.offsets.offset_map import Follower

_SHOWN = 60


@dataclass(frozen=True)
class NotFollowed:
    """Why a group's offsets for a topic are not distributed."""

    reason: str


class GroupDirectory:
    """One cluster's; made anew when streams, environments or formats change."""

    def __init__(self, cluster: str, group_format: str, streams: Mapping[str, StreamName]) -> None:
        """`streams`: technical name on the cluster -> the distributed stream that has it."""
        self._cluster = cluster
        self._format = group_format
        self._streams = streams
        self._readers: dict[EnvironmentPlace, Reader] = {}

    def follower(self, group: str, topic: str, partition: int) -> Follower | NotFollowed:
        """Whose progress an offset of `group` for a partition of `topic` is."""
        stream = self._streams.get(topic)
        if stream is None:
            return NotFollowed(f"{topic} is no distributed stream's topic on {self._cluster}")
        place = (stream.tenant, stream.instance, stream.environment)
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = Reader(self._format, "group", [place], {})
        found = reader.within(group)
        if found is None:
            shown = repr(group[:LONGEST_GROUP])
            return NotFollowed(
                f"the format {self._format!r} of {self._cluster} gives the name {shown} to no group of "
                f"{'/'.join(place)}, where {topic} is a stream"
            )
        problem = group_name_problem(found.stream)
        if problem:
            return NotFollowed(f"{found.stream[:_SHOWN]!r} cannot name a group of {'/'.join(place)}: {problem}")
        return Follower(
            tenant=stream.tenant,
            instance=stream.instance,
            environment=stream.environment,
            stream=stream.stream,
            partition=partition,
            group=found.stream,
        )

    def technical_group(self, follower: Follower) -> str:
        """What a group is called on the cluster."""
        name = StreamName(follower.tenant, follower.instance, follower.environment, follower.stream)
        return technical_group(self._format, name, follower.group)


def technical_group(group_format: str, within: StreamName | ApplicationName, group: str) -> str:
    """What a group of the environment of a stream or an application is called by a cluster's group format."""
    return group_format.format(
        tenant=within.tenant, instance=within.instance, environment=within.environment, group=group
    )
