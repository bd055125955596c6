"""Search for streams by the technical names of their topics, which each cluster's topic format makes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from backend.projections.clusters import clusters
from backend.projections.streams import STREAM, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import instances
from backend.projections.trees import tree_leaves
from backend.queries.base.finding import begins_with, has_words

MOST_FORMATS = 4
"""Limit of the formats by which one search looks: each makes a name of every stream. Most estates have one."""
_PLACEHOLDER = re.compile(r"\{(tenant|instance|environment|topic)\}")


@dataclass(frozen=True)
class FoundTopic:
    """A topic: its technical name, its stream, and the clusters on which it has this name."""

    topic: str
    stream: str
    clusters: Sequence[str]


def find_topics(
    connection: Connection, words: Sequence[str], most: int, tenants_seen: Collection[str] | None
) -> list[FoundTopic]:
    """Return topics whose technical name has all words, unless their stream's own name has them, too.

    `tenants_seen`: only these tenants' streams; None for all.
    """
    found: list[FoundTopic] = []
    for tree, topic_format, names in _formats(connection) if words else ():
        parts = tuple(streams.c[part] for part in STREAM)
        topic = _named(topic_format, parts)
        stream = sa.func.concat_ws("/", *parts)
        of_tree = sa.and_(
            instances.c.tenant == streams.c.tenant,
            instances.c.name == streams.c.instance,
            instances.c.tree == tree,
            as_of(instances, None),
        )
        query = sa.select(topic.label("topic"), stream.label("stream")).join_from(streams, instances, of_tree)
        query = query.where(as_of(streams, None), has_words(topic, words), sa.not_(has_words(stream, words)))
        if tenants_seen is not None:
            query = query.where(streams.c.tenant.in_(tenants_seen))
        query = query.order_by(sa.not_(begins_with(words, topic)), sa.func.length(topic), topic)
        rows = connection.execute(query.limit(most - len(found)))
        found += [FoundTopic(row.topic, row.stream, names) for row in rows]
        if len(found) == most:
            break
    return found


def _named(topic_format: str, parts: Sequence[ColumnElement[str]]) -> ColumnElement[str]:
    """Return a stream's name by a format, as `naming.rendered` does; joined pieces take a fraction of its time."""
    columns = dict(zip(("tenant", "instance", "environment", "topic"), parts, strict=True))
    # Texts between placeholders alternate with the placeholders' names.
    pieces = _PLACEHOLDER.split(topic_format)
    return sa.func.concat(*(columns[each] if odd % 2 else each for odd, each in enumerate(pieces)), type_=sa.Text)


def _formats(connection: Connection) -> list[tuple[str, str, Sequence[str]]]:
    """Return (tree, topic format, clusters of the tree that have it), those of most clusters first."""
    named = sa.func.array_agg(clusters.c.name).label("names")
    query = sa.select(tree_leaves.c.tree, clusters.c.topic_format, named)
    query = query.join_from(tree_leaves, clusters, clusters.c.name == tree_leaves.c.cluster)
    query = query.where(as_of(tree_leaves, None), as_of(clusters, None))
    query = query.group_by(tree_leaves.c.tree, clusters.c.topic_format)
    query = query.order_by(sa.func.count().desc(), clusters.c.topic_format).limit(MOST_FORMATS)
    return [(row.tree, row.topic_format, sorted(row.names)) for row in connection.execute(query)]
