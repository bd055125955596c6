"""Facts of the control plane that a trace needs, read in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.domain.base.errors import FieldError, NotFound, StateConflict, ValueInvalid
from backend.domain.distribution.trace import DistributorSeen, TreeVersion
from backend.domain.names.names import is_name
from backend.domain.records import origin
from backend.domain.tree import tree_shape
from backend.domain.tree.routes import Edge
from backend.kafka.search.record_search import Place
from backend.queries.clusters.clusters import list_clusters, names_ever
from backend.queries.distribution import distributors
from backend.queries.distribution.leaf_routes import roots_of
from backend.queries.distribution.traced_streams import TracedStream, traced_stream
from backend.queries.tree.tree_history import versions
from backend.queries.tree.trees import get_tree
from backend.settings import Settings


@dataclass(frozen=True, kw_only=True)
class TraceFacts:
    """One partition of one stream on all clusters of the tree; `clusters` are ordered left to right, with numbers.

    `places` has the reachable clusters, `unreachable` the others and `absent` those without a topic, with the
    reasons.
    """

    stream: TracedStream
    partition: int
    clusters: Mapping[str, int]
    names: Mapping[int, str]
    """Names of all clusters that exist or existed, by number: an origin may have left the tree."""
    roots: Mapping[int, str]
    """Number of an origin that left the tree -> leaf from which its records continue."""
    places: Mapping[str, Place]
    absent: Mapping[str, str]
    unreachable: Mapping[str, str]
    versions: Sequence[TreeVersion]
    distributors: Mapping[tuple[str, int], DistributorSeen]
    flags_header: str
    origin_header: str

    @property
    def stream_id(self) -> bytes:
        return origin.stream_id(self.stream.stream)

    def route(self, number: int) -> tuple[Edge, ...]:
        """Return the edges that the records of an origin take now."""
        return self.versions[-1].route(self.roots.get(number) or self.names.get(number, ""))


def read(connection: Connection, settings: Settings, cluster: str, stream: str, partition: int) -> TraceFacts:
    """Read the facts. Raises NotFound, ValueInvalid (partition), StateConflict (origins are off)."""
    if not settings.origin_header:
        raise StateConflict("records carry no origin here (origin_header = false), so copies cannot be identified")
    tree = get_tree(connection)
    known = {row.name: row for row in list_clusters(connection)} if is_name(cluster) else {}
    if cluster not in known:
        raise NotFound(f"there is no cluster {cluster[:60]!r}; GET /clusters lists them")
    leaves = () if tree is None else tree_shape.leaves(tree.shape)
    if cluster not in leaves:
        raise NotFound(f"cluster {cluster} is not a leaf of a tree: nothing is copied from it or to it")
    found = traced_stream(connection, stream)
    if found is None:
        raise no_stream(stream)
    if cluster not in found.topics:
        why = found.absent.get(cluster, "none was observed")
        raise NotFound(f"stream {stream} has no topic on {cluster}: {why}")
    if partition >= found.partitions:
        there_are = f"stream {stream} has partitions 0 to {found.partitions - 1}"
        raise ValueInvalid(there_are, (FieldError("/partition", there_are),))
    offline = {name: known[name] for name in leaves if known[name].state == "offline" and name != cluster}
    return TraceFacts(
        stream=found,
        partition=partition,
        clusters={name: known[name].number for name in leaves},
        names=names_ever(connection),
        roots={
            number: leaf
            for number, leaf in roots_of(connection).get((found.stream, partition), {}).items()
            if number not in {known[name].number for name in leaves}
        },
        places={
            name: Place(known[name].bootstrap_servers, known[name].properties, found.topics[name], partition)
            for name in leaves
            if name in found.topics and name not in offline
        },
        absent={
            name: found.absent.get(name, "it has no topic there") for name in leaves if name not in found.topics
        },
        unreachable={
            name: f"{name} is offline" + (f": {row.reason}" if row.reason else "")
            for name, row in offline.items()
            if name in found.topics
        },
        versions=versions(connection),
        distributors={
            (row.cluster, row.level): DistributorSeen(seen.state, seen.reason, seen.lag_records)
            for row in distributors.read_distributors(connection)
            if (seen := row.observed) is not None
        },
        flags_header=settings.copy_flags_header,
        origin_header=settings.copy_origin_header,
    )


def no_stream(stream: str) -> NotFound:
    """Return the error for a stream that does not exist."""
    return NotFound(f"there is no stream {stream[:300]!r}; name it as tenant/instance/environment/stream")
