"""The way of one record: what its copies tell about it, and why a cluster lacks the record.

A record carries its origin and its copy flags. Levels strictly fall along a route (an edge of level n takes no
record with a flag at or below n), so the flags tell exactly which levels the record passed: one hop per flag, the
lowest level last. The record does not name the cluster that a copy was read from. The trees that were in force
when it can have been copied do, and the answer is certain if they agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.domain.records.partition_edge import Header
from backend.domain.tree import routes
from backend.domain.tree.tree_shape import Node, leaves

# Distributors follow a change of the tree within seconds, not at once.
_FOLLOW_MS = 10_000


@dataclass(frozen=True)
class TreeVersion:
    """A tree that was in force from `began_ms` to `ended_ms` (times of its events; None: still in force)."""

    root: Node
    targets: Mapping[tuple[str, int], str]
    began_ms: int
    ended_ms: int | None

    def route(self, cluster: str) -> tuple[routes.Edge, ...]:
        """Return the edges that the cluster's own records take; none if the cluster is not a leaf."""
        if cluster not in leaves(self.root):
            return ()
        return routes.routes(self.root, self.targets)[cluster]


@dataclass(frozen=True)
class Marks:
    """Treeline's headers of a record; `origin` is None if the header is absent or unreadable."""

    flags: int
    origin: Origin | None


def read_marks(headers: Iterable[Header] | None, flags_header: str, origin_header: str) -> Marks:
    """Return the copy flags and the origin of a record."""
    flag_values: list[bytes | None] = []
    origin_values: list[bytes | None] = []
    for name, value in headers or ():
        if name == flags_header:
            flag_values.append(value)
        elif name == origin_header:
            origin_values.append(value)
    return Marks(copy_flags.decode(flag_values)[0], origin.decode(origin_values))


def is_copy(marks: Marks, stream_id: bytes, partition: int, cluster: int) -> bool:
    """Return whether a record on cluster number `cluster` is a copy, as far as its headers can tell.

    Stream processors pass headers on: an origin of another stream or partition, or of this very cluster, is not
    the record's own.
    """
    found = marks.origin
    return (
        found is not None
        and (found.stream_id, found.partition) == (stream_id, partition)
        and found.cluster != cluster
    )


def hops(flags: int) -> int:
    """Return the number of distributors that a record has passed."""
    return flags.bit_count()


@dataclass(frozen=True)
class CameFrom:
    """The cluster that a copy was read from; not `certain` if several trees qualify and disagree."""

    cluster: str
    certain: bool


def came_from(
    versions: Sequence[TreeVersion],
    origin_cluster: str,
    leaf: str,
    flags: int,
    produced_ms: int,
    arrived_ms: int | None,
) -> CameFrom | None:
    """Return the cluster from which a copy with these flags came to `leaf`; None if no tree then has the edge.

    `versions` are in the order in which they were in force. The copy was made between production and arrival.
    """
    found = [
        edge.source
        for version in versions
        if version.ended_ms is None or version.ended_ms + _FOLLOW_MS >= produced_ms
        if arrived_ms is None or version.began_ms <= arrived_ms
        for edge in version.route(origin_cluster)
        if edge.target == leaf and edge.flags == flags
    ]
    return CameFrom(found[-1], len(set(found)) == 1) if found else None


@dataclass(frozen=True)
class DistributorSeen:
    """State of a distributor, as last reported."""

    state: str
    reason: str | None
    lag_records: int | None


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A cluster without the record, and the reason: `absent`, or `unknown` if the cluster could not be read."""

    cluster: str
    state: str
    reason: str


def why_absent(
    cluster: str,
    route: Sequence[routes.Edge],
    holders: Collection[str],
    unknown: Collection[str],
    distributors: Mapping[tuple[str, int], DistributorSeen],
    later_there: bool,
) -> str:
    """Return the known reason why `cluster` does not have the record.

    `holders` have the record (the origin does, or did), `unknown` could not be read; `later_there`: a later record
    of this origin is on the cluster.
    """
    if later_there:
        return "later records of this origin are there: this one was deleted since, or is one that is never copied"
    edge = next((edge for edge in route if edge.target == cluster), None)
    if edge is None:
        return "no route leads there from where the record was first produced"
    if edge.source in unknown:
        return f"it comes from {edge.source}, which could not be asked"
    if edge.source not in holders:
        return f"it comes from {edge.source}, which does not have it either"
    seen = distributors.get((edge.source, edge.level))
    name = f"distributor {edge.source}:{edge.level}"
    if seen is None:
        return f"nothing is known of {name}"
    if seen.state != "running":
        return f"{name} is {seen.state}" + (f": {seen.reason}" if seen.reason else "")
    if seen.lag_records is None:
        return f"{name} is running; its lag is not known yet"
    if seen.lag_records:
        return f"{name} is running with a lag of {seen.lag_records:,}"
    return f"{name} is running without a lag: the record was deleted since, or is about to arrive"
