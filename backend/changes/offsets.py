"""Reset of a group's offsets on one cluster: resolving the request, and recording its result."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.cluster_requests.resetting import Wish
from backend.deciders import GROUP_RESETS
from backend.domain.access.access import Caller
from backend.domain.base.errors import NotFound, ValueInvalid
from backend.domain.names.names import StreamName, check_group_name, is_name
from backend.domain.offsets.group_reset import RecordReset, Resets
from backend.queries.clusters import clusters
from backend.queries.tenants import streams
from backend.queries.tenants.streams import StreamRow
from backend.queries.tenants.visible_clusters import check_visible


def wish(
    connection: Connection, caller: Caller, cluster: str, stream: str, group: str, partition: int | None, to: str
) -> Wish:
    """Resolve a request to the names used on the cluster; `partition` None means all partitions.

    Raises NameInvalid, NotFound, ValueInvalid. A cluster that the caller may not know of counts as unknown.
    """
    check_group_name(group, "/group")
    check_visible(connection, caller, cluster)
    there = clusters.find_cluster(connection, cluster)
    row = _stream(connection, stream)
    if row is None:
        raise no_stream(stream)
    if cluster not in row.incarnations:
        raise NotFound(f"{cluster} has no topic of {stream}")
    if partition is not None and partition >= row.partitions:
        raise ValueInvalid(f"{stream} has {row.partitions} partitions, there is no partition {partition}")
    return Wish(
        cluster=there,
        stream=StreamName(row.tenant, row.instance, row.environment, row.name),
        topic=row.technical_names[cluster],
        group=group,
        partitions=tuple(range(row.partitions)) if partition is None else (partition,),
        to=to,
    )


def record_reset(asked: Wish, offsets: Mapping[int, int]) -> Change[Resets, RecordReset]:
    """Record that a group's offsets were set to these, by partition."""
    command = RecordReset(
        cluster=asked.cluster.name,
        stream=str(asked.stream),
        group=asked.group,
        to=asked.to,
        offsets={str(partition): offset for partition, offset in offsets.items()},
    )
    return Change(GROUP_RESETS, f"offsets-{command.cluster}", lambda _: command)


def no_stream(stream: str) -> NotFound:
    """Return the error for an unknown stream; the same for one of another tenant."""
    return NotFound(f"there is no stream {stream[:300]!r}")


def _stream(connection: Connection, name: str) -> StreamRow | None:
    parts = name.split("/")
    if len(parts) != 4 or not all(map(is_name, parts)):
        return None
    tenant, instance, environment, stream = parts
    return streams.get_stream(connection, tenant, instance, environment, stream)
