"""Replay of a dead-lettered record: it is written on every cluster that would no longer get it by itself.

The cluster that had refused it comes first. A cluster whose vector is already beyond the record's origin never
gets it from another one, so it is written there too; the others get it along their route, now that it is where it
was missing (`domain/records/partition_edge.py`, holes). Which clusters have it is found by a trace, under a lock
of the stream: replaying twice, even concurrently, writes once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine

from backend.cluster_requests import tracing
from backend.cluster_requests.trace_facts import TraceFacts
from backend.domain.base.errors import ClusterSilent, StateConflict
from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin, Vector
from backend.domain.records.partition_edge import Header
from backend.eventlog import held_lock
from backend.eventlog.held_lock import HeldLock
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups import positions
from backend.kafka.search import replaying
from backend.kafka.search.replaying import DeadLetter
from backend.queries.distribution.edge_losses import DeadLetterRow
from backend.queries.distribution.leaf_routes import LeafRow

_WAIT_SECONDS = 12.0
"""Time to wait for another replay of the stream, while the caller waits for the answer."""


@dataclass(frozen=True)
class Replay:
    """Clusters where the record was written, and those where it is still missing, with the reason."""

    written: tuple[str, ...]
    missing: Mapping[str, str]


def replay(
    engine: Engine,
    facts: TraceFacts,
    row: DeadLetterRow,
    leaves: Mapping[str, LeafRow],
    buckets: int,
    quarantine_topic: str,
    *,
    dry_run: bool = False,
) -> Replay:
    """Write the record where it is missing. `leaves` are the tree's; `facts` is that of the record's stream.

    `dry_run`: check everything and name the clusters, but write nothing. Only whether a broker still refuses the
    record cannot be known without writing it.

    Raises StateConflict (no longer among the dead letters, or still refused), ClusterSilent, NotFound, LockBusy
    and LockLost.
    """
    if row.origin is None:
        raise StateConflict("the record names no origin (origin_header = false), so its copies are unknown")
    # Two concurrent replays would both find it missing, and both write it.
    with held_lock.hold(engine, f"replay {row.stream}", wait_seconds=_WAIT_SECONDS) as lock:
        return _replay(lock, facts, row, leaves, buckets, quarantine_topic, dry_run=dry_run)


def _replay(
    lock: HeldLock,
    facts: TraceFacts,
    row: DeadLetterRow,
    leaves: Mapping[str, LeafRow],
    buckets: int,
    quarantine_topic: str,
    *,
    dry_run: bool,
) -> Replay:
    found = tracing.run(facts, row.cluster, row.offset)
    absent = [each.cluster for each in found.missing if each.state == "absent"]
    missing = {each.cluster: each.reason for each in found.missing if each.state != "absent"}
    if not absent:
        return Replay((), missing)
    dead_letter = _dead_letter(facts, row, quarantine_topic)
    first = [row.target] if row.target in absent else []
    written = []
    for cluster in first + [name for name in absent if name != row.target]:
        if cluster not in facts.places:
            missing[cluster] = "it is unreachable, or has no such topic"
        elif cluster == row.target or _is_beyond(facts, row, leaves.get(cluster), buckets, cluster):
            lock.check()
            _write(facts, row, dead_letter, cluster, dry_run=dry_run)
            written.append(cluster)
        else:
            missing[cluster] = "it arrives along its route"
    return Replay(tuple(written), missing)


def _dead_letter(facts: TraceFacts, row: DeadLetterRow, topic: str) -> DeadLetter:
    place = facts.places.get(row.target)
    if place is None:
        raise ClusterSilent(f"{row.target}, which holds the dead letter, cannot be reached")
    try:
        dead_letter = replaying.read_dead_letter(place.bootstrap_servers, place.properties, topic, row.id)
    except KafkaCallFailed as failure:
        raise ClusterSilent(f"{row.target} does not answer: {failure.reason}") from failure
    if dead_letter is None:
        raise StateConflict(f"topic {topic} on {row.target} does not have the record {row.id}")
    return dead_letter


def _is_beyond(facts: TraceFacts, row: DeadLetterRow, leaf: LeafRow | None, buckets: int, cluster: str) -> bool:
    """Return whether the cluster has later records of the same origin, so that no distributor brings this one."""
    assert row.origin is not None
    place = facts.places[cluster]
    number, incarnation, offset = row.origin
    groups = [task.kafka_name for task in leaf.tasks_ever(buckets)] if leaf else []
    try:
        marks = positions.read_all(place.bootstrap_servers, place.properties, groups)
    except KafkaCallFailed as failure:
        raise ClusterSilent(f"{cluster} does not answer: {failure.reason}") from failure
    covered: Vector = origin.merge(mark.covered for mark in marks.get((place.topic, place.partition), ()))
    return covered.get(number, (-1, -1)) >= (incarnation, offset)


def _write(facts: TraceFacts, row: DeadLetterRow, dead_letter: DeadLetter, cluster: str, *, dry_run: bool) -> None:
    assert row.origin is not None
    number, incarnation, offset = row.origin
    flags = next((edge.flags for edge in facts.route(number) if edge.target == cluster), None)
    if flags is None:
        raise StateConflict(f"no route brings records of cluster number {number} to {cluster}")
    ours = {facts.flags_header, facts.origin_header}
    headers: list[Header] = [header for header in dead_letter.headers if header[0] not in ours]
    headers.append((facts.flags_header, copy_flags.encode(flags)))
    record_origin = Origin(number, facts.stream_id, facts.partition, offset, incarnation)
    headers.append((facts.origin_header, origin.encode(record_origin)))
    if dry_run:
        return
    try:
        refused = replaying.write(facts.places[cluster], cluster, dead_letter, headers)
    except KafkaCallFailed as failure:
        raise ClusterSilent(f"{cluster} does not answer: {failure.reason}") from failure
    if refused is not None:
        raise StateConflict(f"{cluster} still refuses the record: {refused}; fix that, then replay again")
