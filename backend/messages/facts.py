"""Facts of the control plane that reading a stream's messages needs, read in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.cluster_requests.trace_facts import no_stream
from backend.domain.base.errors import FieldError, NotFound
from backend.domain.names.names import StreamName, is_name
from backend.domain.records import origin
from backend.queries.clusters.clusters import list_clusters, names_ever
from backend.queries.switch.active_clusters import list_active
from backend.queries.tenants.streams import StreamRow, get_stream
from backend.settings import Settings


@dataclass(frozen=True, kw_only=True)
class MessageFacts:
    """A stream and the cluster that it is read on; `properties` holds references to secrets, never the secrets."""

    stream: StreamName
    cluster: str
    number: int
    """Number of the cluster."""
    bootstrap_servers: str
    properties: Mapping[str, str]
    topic: str
    incarnation: int
    """Incarnation of the topic: another one is another log."""
    topic_id: str | None = None
    """Id of the topic on the cluster, as it is recorded."""
    partitions: int
    names: Mapping[int, str]
    """Names of all clusters that exist or existed, by number: an origin may be a cluster that was removed."""
    flags_header: str
    origin_header: str

    @property
    def stream_id(self) -> bytes:
        """Return the id of the stream in origins."""
        return origin.stream_id(str(self.stream))


def read(connection: Connection, settings: Settings, stream: str, cluster: str | None) -> MessageFacts:
    """Read the facts; without a cluster, those of the environment's active one, or else of any with a topic.

    Raises NotFound for a stream that does not exist, for a cluster that is not in its tree, and for one without a
    topic. Whether the caller may know of the stream is not checked here.
    """
    parts = stream.split("/")
    if len(parts) != 4 or not all(map(is_name, parts)):
        raise no_stream(stream)
    name = StreamName(*parts)
    row = get_stream(connection, name.tenant, name.instance, name.environment, name.stream)
    if row is None:
        raise no_stream(stream)
    chosen = _usual_cluster(connection, row) if cluster is None else cluster
    if chosen not in row.technical_names:
        there_are = f"there is no cluster {chosen[:60]!r} in the tree of stream {stream}"
        raise NotFound(there_are, (FieldError("/cluster", there_are),))
    if chosen not in row.incarnations:
        raise NotFound(f"stream {stream} has no topic on {chosen}: {_why_absent(row, chosen)}")
    known = {each.name: each for each in list_clusters(connection)}[chosen]
    return MessageFacts(
        stream=name,
        cluster=chosen,
        number=known.number,
        bootstrap_servers=known.bootstrap_servers,
        properties=known.properties,
        topic=row.technical_names[chosen],
        incarnation=row.incarnations[chosen],
        topic_id=row.topic_ids[chosen],
        partitions=row.partitions,
        names=names_ever(connection),
        flags_header=settings.copy_flags_header,
        origin_header=settings.copy_origin_header,
    )


def _usual_cluster(connection: Connection, row: StreamRow) -> str:
    """Return the cluster that the environment's clients use if the topic is there, else any that has it."""
    active = list_active(connection, places=[(row.tenant, row.instance, row.environment)])
    for cluster in (*(each.cluster for each in active), *row.technical_names):
        if cluster is not None and cluster in row.incarnations:
            return cluster
    raise NotFound(f"stream {row.stream} has no topic on any cluster yet")


def _why_absent(row: StreamRow, cluster: str) -> str:
    reason = row.failures.get(cluster)
    return f"its topic is {row.applied[cluster]} there" + (f": {reason}" if reason else "")
