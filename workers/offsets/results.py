"""Results of translated commits: published on the map of their cluster, then stored.

In this order, so that a process that dies in between repeats the work. State that is kept in memory only changes
with the transaction that stores the result, or after it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from backend.domain.offsets.commit_rules import commit_time
from backend.domain.offsets.group_log import OffsetKey, OffsetValue
from backend.domain.offsets.offset_map import NO_TIMESTAMP, End, GroupPartition, Progress
from backend.domain.records import origin
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.map_topic import MapPublisher
from backend.settings import Settings
from workers.offsets import store
from workers.offsets.applied import LostOffsets
from workers.offsets.batch import OffsetFacts
from workers.offsets.commit_logs import CommitLogs
from workers.offsets.directory import Directory
from workers.offsets.ended_progress import Place
from workers.offsets.ended_progress import read as find_ended
from workers.offsets.store import Log, MapEntry

_NO_STREAM = "the stream is not distributed any more"

Commit = tuple[GroupPartition, OffsetKey, OffsetValue]
"""(group partition, its technical names, committed value)."""
Gone = tuple[GroupPartition, OffsetKey]
"""Group partition without an offset, with its technical names."""


def log_of(cluster: str, whose: GroupPartition) -> Log:
    """Return the log of a group partition on a cluster."""
    return cluster, whose.stream_name, whose.partition


@dataclass
class _ClusterResults:
    """Results of one cluster's commits, ready to publish and store."""

    made: list[tuple[GroupPartition, Progress | End | None]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    processed: list[OffsetKey] = field(default_factory=list)
    left: dict[OffsetKey, OffsetValue | None] = field(default_factory=dict)
    still_open: dict[OffsetKey, OffsetValue] = field(default_factory=dict)
    others: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Groups that are not distributed, with the reason."""


class Results:
    """Publisher and store of results; used by one thread."""

    def __init__(self, engine: Engine, settings: Settings, logs: CommitLogs, lost: LostOffsets) -> None:
        self._engine, self._settings = engine, settings
        self._logs, self._lost = logs, lost
        self._publishers: dict[str, MapPublisher] = {}
        self._open: dict[str, dict[OffsetKey, OffsetValue]] = {}
        """Commits before records of open transactions, by cluster: published as far as known, and translated again
        later."""
        self._gone_before: dict[str, set[OffsetKey]] = {}
        """Keys whose offset was gone at the last pass, by cluster. They count as gone at the next pass: an offset
        that a committer has set in the meantime is read by then."""

    def is_out(self, cluster: str, key: OffsetKey, value: OffsetValue) -> bool:
        """Tell whether a commit before records of open transactions is published as far as known."""
        return self._open.get(cluster, {}).get(key) == value

    def publish(
        self,
        cluster: str,
        commits: Sequence[Commit],
        gone: Sequence[Gone],
        answers: Mapping[tuple[Log, int], OffsetFacts],
        known: Directory,
    ) -> int:
        """Publish and store one cluster's results; return their number. Unanswered commits are left for later."""
        if not self._logs.follows(cluster):
            return 0
        collected, row = self._collect(cluster, commits, answers, known), known.clusters[cluster]
        gone_before = self._gone_before.get(cluster, set())
        self._gone_before[cluster] = {key for _, key in gone}
        collected.left |= dict.fromkeys(self._gone_before[cluster] - gone_before)
        gone = [(whose, key) for whose, key in gone if key in gone_before]
        lost = {whose: self._logs.read_at(cluster, key) for whose, key in gone}
        place = Place(row, self._logs.knows_all(known.members))
        try:
            endings = find_ended(self._engine, place, lost, known)
            made = [*collected.made, *endings.ended.items(), *((whose, None) for whose in endings.removed)]
            if made:
                self._publisher(cluster, known).publish(made)
        except KafkaCallFailed as error:
            self._logs.pause_cluster(cluster, error.reason)
            return 0
        processed = [*collected.processed, *(key for _, key in gone)]
        with self._engine.begin() as connection:
            store.write_commits(connection, collected.rows)
            store.end_commits(connection, [_place(cluster, whose) for whose in endings.ended])
            store.forget_commits(connection, [_place(cluster, whose) for whose in endings.removed])
            store.forget_applied(connection, [_place(cluster, whose) for whose in lost])
            store.forget_not_followed(connection, [(cluster, key.group, key.topic) for key in processed])
            store.write_not_followed(connection, collected.others)
            self._logs.write_positions(connection, row, collected.left)
        self._logs.mark_processed(cluster, collected.left)
        self._lost.add(cluster, lost)
        self._open[cluster] = collected.still_open
        return len(made)

    def _collect(
        self,
        cluster: str,
        commits: Sequence[Commit],
        answers: Mapping[tuple[Log, int], OffsetFacts],
        known: Directory,
    ) -> _ClusterResults:
        collected, kafka_id = _ClusterResults(), known.clusters[cluster].kafka_cluster_id or ""
        with self._engine.connect() as connection:
            orders = store.read_orders(connection, cluster, kafka_id, [whose for whose, _, _ in commits])
        for whose, key, value in commits:
            own, applied_ms = orders.get(whose, (None, None))
            read_at = self._logs.read_at(cluster, key)
            if own is not None and own.is_behind(read_at, value.committed_at_ms):
                # Another process has continued in the meantime: this one has lost its lease.
                collected.processed.append(key)
                continue
            stream = known.streams.get(whose.stream_name)
            if stream is None:
                # The stream was removed a moment ago. The group is looked up if the stream is distributed again.
                collected.others.append((cluster, key.group, key.topic, _NO_STREAM))
                continue
            answer = answers.get((log_of(cluster, whose), value.offset))
            if answer is None or answer.is_open:
                collected.left[key] = value
                if answer is not None or self.is_out(cluster, key, value):
                    collected.still_open[key] = value
            if answer is None:
                continue
            at = commit_time(value.committed_at_ms, value.offset, own, applied_ms)
            progress = self._progress(cluster, whose, value.offset, at, answer, known)
            collected.made.append((whose, progress))
            row = _row(cluster, whose, key.group, value, progress, answer)
            collected.rows.append({**row, "kafka_cluster_id": kafka_id, "read_at": read_at})
            collected.processed.append(key)
        return collected

    def remove_progress(self, cluster: str, gone: Sequence[MapEntry], known: Directory) -> bool:
        """Remove progress made on a cluster from the map; return False if no cluster accepts the records now.

        For a cluster that has left the tree, another cluster's map gets them.
        """
        via = cluster
        if cluster not in known.clusters:
            via = next((name for name in known.clusters if not self._logs.is_paused(name)), "")
        if via not in known.clusters:
            return False
        try:
            self._publisher(via, known).publish([(each.group_partition, None) for each in gone], cluster)
        except KafkaCallFailed as error:
            self._logs.pause_cluster(via, error.reason)
            return False
        # They are looked up if the stream is distributed again. With a topic, brokers delete its offsets.
        others = [
            (cluster, each.technical_group, known.topic(cluster, each.group_partition), _NO_STREAM)
            for each in gone
            if via == cluster and not each.is_ended
        ]
        with self._engine.begin() as connection:
            store.forget_commits(connection, [_place(cluster, each.group_partition) for each in gone])
            store.write_not_followed(connection, others)
        self._open.pop(cluster, None)
        return True

    def _progress(
        self, cluster: str, whose: GroupPartition, offset: int, at_ms: int, answer: OffsetFacts, known: Directory
    ) -> Progress:
        """Return the progress to publish; the margin is subtracted here and nowhere else."""
        times = [at for at in (answer.timestamp_ms, answer.safe_timestamp_ms) if at not in (None, NO_TIMESTAMP)]
        margin = known.rules[whose.tenant, whose.instance, whose.environment].margin_ms
        has_origins = self._settings.origin_header
        return Progress(
            timestamp_ms=min(times) - margin if times else None,
            committed_at_ms=at_ms,
            generation=known.generation(cluster, whose),
            vector=answer.vector if has_origins else None,
            offset=offset,
            passed=answer.passed if has_origins else {},
            whole=answer.whole,
            topic_incarnation=known.streams[whose.stream_name].incarnations.get(cluster),
        )

    def _publisher(self, cluster: str, known: Directory) -> MapPublisher:
        if cluster not in self._publishers:
            row = known.clusters[cluster]
            config = client_config(row.bootstrap_servers, row.properties)
            self._publishers[cluster] = MapPublisher(config, cluster, self._settings.offsets_topic)
        return self._publishers[cluster]

    def close(self) -> None:
        """Close the connections."""
        for publisher in self._publishers.values():
            publisher.close()


def _place(cluster: str, whose: GroupPartition) -> tuple[str, str, int, str]:
    return *log_of(cluster, whose), whose.group


def _row(
    cluster: str, whose: GroupPartition, group: str, value: OffsetValue, progress: Progress, answer: OffsetFacts
) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "stream": whose.stream_name,
        "partition": whose.partition,
        "group": whose.group,
        "technical_group": group,
        "committed_offset": value.offset,
        "broker_ms": value.committed_at_ms,
        "committed_at_ms": progress.committed_at_ms,
        "timestamp_ms": None if answer.timestamp_ms == NO_TIMESTAMP else answer.timestamp_ms,
        "safe_timestamp_ms": answer.safe_timestamp_ms,
        "vector": origin.plain(answer.vector),
        "whole": answer.whole,
        "incarnation": answer.incarnation,
        "topic_incarnation": progress.topic_incarnation,
        "is_ended": False,
        "published_at_ms": int(time.time() * 1000),
    }
