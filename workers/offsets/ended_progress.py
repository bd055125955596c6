"""End of a group's progress when its offset is deleted or expires on the cluster where it committed.

A group that was deleted there, or whose offset expired, must not be set back by its older progress elsewhere: its
progress ends, and the map says so where there is older progress. When a topic is deleted, brokers delete its
groups' offsets as well: that ends no progress, which continues in the re-created topic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Engine

from backend.domain.offsets.offset_map import End, GroupPartition
from backend.kafka.admin.topics import TopicAdmin
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.tenants.streams import StreamRow
from workers.offsets import store
from workers.offsets.directory import Directory

_REQUEST_SECONDS = 10.0


@dataclass
class EndedProgress:
    """Group partitions whose offset is gone, grouped by what happens to their progress."""

    ended: dict[GroupPartition, End] = field(default_factory=dict)
    """Progress that ends: there is, or may be, other progress elsewhere."""
    removed: list[GroupPartition] = field(default_factory=list)
    """Progress that is removed from the map: there is none elsewhere."""


@dataclass(frozen=True)
class Place:
    """Cluster on which offsets are gone."""

    cluster: ClusterRow
    knows_others: bool
    """Tells whether the latest commits on all other clusters are known."""


def read(engine: Engine, place: Place, gone: Mapping[GroupPartition, int], known: Directory) -> EndedProgress:
    """Sort group partitions without an offset; `gone` gives the tombstone's offset in `__consumer_offsets`.

    Group partitions whose topic is gone, or that committed after the tombstone, are in neither part. Raises
    KafkaCallFailed.
    """
    found = EndedProgress()
    if not gone:
        return found
    cluster = place.cluster
    with engine.connect() as connection:
        lasts = store.read_last_known(connection, cluster.name, cluster.kafka_cluster_id or "", list(gone))
    names = {each.stream_name for each in gone} & known.streams.keys()
    replaced = _replaced(cluster, [known.streams[name] for name in names])
    for whose, at in gone.items():
        last = lasts.get(whose)
        if last is None:
            found.removed.append(whose)
            continue
        own = last.own
        if own is not None and own.is_behind(at, None):
            continue
        if whose.stream_name in replaced or known.has_newer_topic(
            cluster.name, whose.stream_name, last.topic_incarnation
        ):
            continue
        if own is not None and (last.lives_elsewhere or not place.knows_others):
            found.ended[whose] = End(
                committed_at_ms=own.ordered_ms, generation=known.generation(cluster.name, whose)
            )
        else:
            found.removed.append(whose)
    return found


def _replaced(cluster: ClusterRow, streams: Collection[StreamRow]) -> set[str]:
    """Return the streams whose topic on a cluster is missing or is not the recorded one."""
    wanted = {row.technical_names[cluster.name]: row for row in streams if cluster.name in row.topic_ids}
    admin = TopicAdmin(cluster.bootstrap_servers, cluster.properties, _REQUEST_SECONDS)
    topics, refused = admin.describe(sorted(wanted))
    ids: Mapping[str, str] = {name: topic.topic_id for name, topic in topics.items()}
    return {
        row.stream
        for name, row in wanted.items()
        if name not in refused and ids.get(name) != row.topic_ids[cluster.name]
    }
