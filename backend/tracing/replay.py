"""Replay of a dead-lettered record: it is written on every cluster that would no longer get it by itself.

The cluster that had refused it comes first. A cluster whose vector is already beyond the record's origin never
gets it from another one, so it is written there too; the others get it along their route, now that it is where it
was missing (`domain/partition_edge.py`, holes). Which clusters have it is found by a trace, under a lock of the
stream: replaying twice, even concurrently, writes once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine

from backend.domain.base.errors import ClusterSilent, StateConflict
from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin, Vector
from backend.domain.records.partition_edge import Header
from backend.eventlog import held_lock
from backend.eventlog.held_lock import HeldLock
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups import positions
from backend.kafka.search import replaying
from backend.kafka.search.replaying import Kept
from backend.queries.distribution.edge_losses import SetAsideRow
from backend.queries.distribution.leaf_routes import LeafRow
from backend.tracing import run
from backend.tracing.scene import Scene

_WAIT_SECONDS = 12.0
"""Time to wait for another replay of the stream, while the caller waits for the answer."""


@dataclass(frozen=True)
class Replay:
    """Clusters where the record was written, and those where it is still missing, with the reason."""

    written: tuple[str, ...]
    missing: Mapping[str, str]


def replay(
    engine: Engine,
    scene: Scene,
    row: SetAsideRow,
    leaves: Mapping[str, LeafRow],
    buckets: int,
    quarantine_topic: str,
    *,
    dry_run: bool = False,
) -> Replay:
    """Write the record where it is missing. `leaves` are the tree's; `scene` is that of the record's stream.

    `dry_run`: check everything and name the clusters, but write nothing. Only whether a broker still refuses the
    record cannot be known without writing it.

    Raises StateConflict (no longer among the dead letters, or still refused), ClusterSilent, NotFound, LockBusy
    and LockLost.
    """
    if row.origin is None:
        raise StateConflict("the record names no origin (origin_header = false), so its copies are unknown")
    # Two concurrent replays would both find it missing, and both write it.
    with held_lock.hold(engine, f"replay {row.stream}", wait_seconds=_WAIT_SECONDS) as lock:
        return _replay(lock, scene, row, leaves, buckets, quarantine_topic, dry_run=dry_run)


def _replay(
    lock: HeldLock,
    scene: Scene,
    row: SetAsideRow,
    leaves: Mapping[str, LeafRow],
    buckets: int,
    quarantine_topic: str,
    *,
    dry_run: bool,
) -> Replay:
    found = run.run(scene, row.cluster, row.offset)
    absent = [each.cluster for each in found.missing if each.state == "absent"]
    missing = {each.cluster: each.reason for each in found.missing if each.state != "absent"}
    if not absent:
        return Replay((), missing)
    kept = _kept(scene, row, quarantine_topic)
    first = [row.target] if row.target in absent else []
    written = []
    for cluster in first + [name for name in absent if name != row.target]:
        if cluster not in scene.places:
            missing[cluster] = "it is unreachable, or has no such topic"
        elif cluster == row.target or _is_beyond(scene, row, leaves.get(cluster), buckets, cluster):
            lock.check()
            _write(scene, row, kept, cluster, dry_run=dry_run)
            written.append(cluster)
        else:
            missing[cluster] = "it arrives along its route"
    return Replay(tuple(written), missing)


def _kept(scene: Scene, row: SetAsideRow, topic: str) -> Kept:
    place = scene.places.get(row.target)
    if place is None:
        raise ClusterSilent(f"{row.target}, which holds the dead letter, cannot be reached")
    try:
        kept = replaying.read_kept(place.bootstrap_servers, place.properties, topic, row.id)
    except KafkaCallFailed as failure:
        raise ClusterSilent(f"{row.target} does not answer: {failure.reason}") from failure
    if kept is None:
        raise StateConflict(f"topic {topic} on {row.target} does not have the record {row.id}")
    return kept


def _is_beyond(scene: Scene, row: SetAsideRow, leaf: LeafRow | None, buckets: int, cluster: str) -> bool:
    """Return whether the cluster has later records of the same origin, so that no distributor brings this one."""
    assert row.origin is not None
    place = scene.places[cluster]
    number, incarnation, offset = row.origin
    groups = [task.kafka_name for task in leaf.tasks_ever(buckets)] if leaf else []
    try:
        marks = positions.read_all(place.bootstrap_servers, place.properties, groups)
    except KafkaCallFailed as failure:
        raise ClusterSilent(f"{cluster} does not answer: {failure.reason}") from failure
    covered: Vector = origin.merge(mark.covered for mark in marks.get((place.topic, place.partition), ()))
    return covered.get(number, (-1, -1)) >= (incarnation, offset)


def _write(scene: Scene, row: SetAsideRow, kept: Kept, cluster: str, *, dry_run: bool) -> None:
    assert row.origin is not None
    number, incarnation, offset = row.origin
    flags = next((edge.flags for edge in scene.route(number) if edge.target == cluster), None)
    if flags is None:
        raise StateConflict(f"no route brings records of cluster number {number} to {cluster}")
    ours = {scene.flags_header, scene.origin_header}
    headers: list[Header] = [header for header in kept.headers if header[0] not in ours]
    headers.append((scene.flags_header, copy_flags.encode(flags)))
    record_origin = Origin(number, scene.stream_id, scene.partition, offset, incarnation)
    headers.append((scene.origin_header, origin.encode(record_origin)))
    if dry_run:
        return
    try:
        refused = replaying.write(scene.places[cluster], cluster, kept, headers)
    except KafkaCallFailed as failure:
        raise ClusterSilent(f"{cluster} does not answer: {failure.reason}") from failure
    if refused is not None:
        raise StateConflict(f"{cluster} still refuses the record: {refused}; fix that, then replay again")
