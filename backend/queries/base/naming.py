"""Facts on names for decisions: declared streams, and the owners of technical names.

Read them under the append lock (`Dispatcher.execute`, `build`), so that no name can be taken in between.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import astuple, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, FromClause

from backend.domain.names.formats import ClusterFormats, take_names
from backend.domain.names.names import StreamName
from backend.projections.clusters import clusters
from backend.projections.streams import STREAM, stream_topics, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import instances
from backend.projections.trees import tree_leaves
from backend.queries.base.matching import among


@dataclass(frozen=True)
class TakenNames:
    """Facts for `formats.refuse_taken`: the clusters' formats, and (cluster, name) -> the stream that has it."""

    clusters: tuple[ClusterFormats, ...]
    topics: dict[tuple[str, str], StreamName] = field(default_factory=dict)
    subjects: dict[tuple[str, str], StreamName] = field(default_factory=dict)

    def add(self, stream: StreamName) -> None:
        """Add a stream's names on all of the clusters."""
        take_names(stream, self.clusters, self.topics, self.subjects)


def taken_by_others(connection: Connection, tree: str, stream: StreamName) -> TakenNames:
    """Return the streams with which `stream` would share a technical name on a cluster of the tree.

    Topics of deleted streams that are not removed yet keep their names.
    """
    formats = {of.cluster: of for of in leaf_formats(connection, tree)}
    taken = TakenNames(tuple(formats.values()))
    for table, source in ((streams, _DECLARED), (stream_topics, _BEING_REMOVED)):
        mine = (stream.tenant, stream.instance, stream.environment, stream.stream)
        theirs = tuple(table.c[part] for part in STREAM)
        same_topic = sa.func.replace(rendered(clusters.c.topic_format, theirs), ".", "_") == sa.func.replace(
            rendered(clusters.c.topic_format, mine), ".", "_"
        )
        same_subject = rendered(clusters.c.subject_format, theirs) == rendered(clusters.c.subject_format, mine)
        found = sa.select(*theirs, clusters.c.name.label("cluster")).select_from(source)
        found = found.where(as_of(clusters, None), clusters.c.name.in_(formats), sa.or_(same_topic, same_subject))
        for row in connection.execute(found.where(as_of(table, None))):
            other, of = _name(row), formats[row.cluster]
            if other != stream:
                take_names(other, [of], taken.topics, taken.subjects)
    return taken


def taken_names(connection: Connection, tree: str, *, removing: bool = True) -> TakenNames:
    """Return `taken_by_others` for many streams at once: every technical name that is taken on the tree.

    With `removing` False, names of deleted streams' topics that are not removed yet are left out: another stream's
    topic of such a name waits for the removal.
    """
    taken = TakenNames(leaf_formats(connection, tree))
    if removing:
        of = {each.cluster: each for each in taken.clusters}
        gone = sa.select(stream_topics).where(as_of(stream_topics, None), stream_topics.c.removing)
        for row in connection.execute(gone.where(stream_topics.c.cluster.in_(of))):
            take_names(_name(row), [of[row.cluster]], taken.topics, taken.subjects)
    for stream in declared_streams(connection, tree):
        taken.add(stream)
    return taken


def leaf_formats(connection: Connection, tree: str, at: int | None = None) -> tuple[ClusterFormats, ...]:
    """Return the formats of the tree's clusters, by number."""
    leaves = sa.select(tree_leaves.c.cluster).where(tree_leaves.c.tree == tree, as_of(tree_leaves, at))
    query = sa.select(clusters).where(clusters.c.name.in_(leaves), as_of(clusters, at))
    rows = connection.execute(query.order_by(clusters.c.number))
    return tuple(ClusterFormats(row.name, row.topic_format, row.subject_format) for row in rows)


def declared_streams(connection: Connection, tree: str | None = None, at: int | None = None) -> list[StreamName]:
    """Return all declared streams, or those on one tree."""
    query = sa.select(*(streams.c[part] for part in STREAM)).where(as_of(streams, at))
    if tree is not None:
        query = query.join(instances, _INSTANCE_OF_STREAM).where(instances.c.tree == tree, as_of(instances, at))
    return sorted(_name(row) for row in connection.execute(query))


def declared_among(connection: Connection, names: Collection[StreamName]) -> frozenset[StreamName]:
    """Return those of the names that are names of streams."""
    parts = [streams.c[part] for part in STREAM]
    keys = [astuple(name) for name in names]
    found = connection.execute(sa.select(*parts).where(as_of(streams, None), among(parts, keys)))
    return frozenset(map(_name, found))


def streams_of_topics(
    connection: Connection, cluster: str, topics: Collection[str], at: int | None = None
) -> dict[str, StreamName]:
    """Return those of a cluster's topics that belong to declared streams, with their streams."""
    theirs = tuple(streams.c[part] for part in STREAM)
    topic = rendered(clusters.c.topic_format, theirs)
    query = sa.select(*theirs, topic.label("topic")).select_from(_DECLARED)
    query = query.where(clusters.c.name == cluster, as_of(clusters, at), as_of(streams, at), topic.in_(topics))
    return {row.topic: _name(row) for row in connection.execute(query)} if topics else {}


def live_stream_on(connection: Connection, cluster: str) -> StreamName | None:
    """Return a stream that has, or is about to get, a topic on the cluster; None if there is none."""
    existing = sa.select(*(stream_topics.c[part] for part in STREAM)).where(
        stream_topics.c.cluster == cluster, stream_topics.c.topic_id.is_not(None), as_of(stream_topics, None)
    )
    due = sa.select(*(streams.c[part] for part in STREAM)).select_from(_DECLARED)
    due = due.where(clusters.c.name == cluster, as_of(clusters, None), as_of(streams, None))
    for query in (due, existing):
        row = connection.execute(query.limit(1)).one_or_none()
        if row is not None:
            return _name(row)
    return None


_INSTANCE_OF_STREAM = sa.and_(
    instances.c.tenant == streams.c.tenant, instances.c.name == streams.c.instance, as_of(instances, None)
)
_DECLARED: FromClause = (
    streams.join(instances, _INSTANCE_OF_STREAM)
    .join(tree_leaves, sa.and_(tree_leaves.c.tree == instances.c.tree, as_of(tree_leaves, None)))
    .join(clusters, clusters.c.name == tree_leaves.c.cluster)
)
_BEING_REMOVED: FromClause = stream_topics.join(
    clusters, sa.and_(clusters.c.name == stream_topics.c.cluster, stream_topics.c.removing)
)


def rendered(of: Any, parts: tuple[Any, ...], name_part: str = "topic") -> Any:
    """Return a format with its placeholders replaced, in SQL; values contain no braces, so any order will do.

    `name_part`: "topic" for topic and subject formats, "group" for group formats.
    """
    for placeholder, value in zip(("tenant", "instance", "environment", name_part), parts, strict=True):
        of = sa.func.replace(of, f"{{{placeholder}}}", value, type_=sa.Text)
    return of


def _name(row: Any) -> StreamName:
    return StreamName(row.tenant, row.instance, row.environment, row.stream)
