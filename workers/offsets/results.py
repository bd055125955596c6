"""What commits have turned out to say: published on the map of their cluster, then written down.

In this order, so that a process that ends in between does it again. Whatever is remembered only in memory, or must
not be forgotten before a result is out, changes with the transaction that writes the result down, or after it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine

from backend.domain import origin
from backend.domain.committing import commit_time
from backend.domain.group_log import OffsetKey, OffsetValue
from backend.domain.offset_map import NO_TIMESTAMP, Follower, Progress
from backend.kafka.client_config import client_config
from backend.kafka.errors import KafkaCallFailed
from backend.kafka.map_topic import MapPublisher
from backend.settings import Settings
from workers.offsets import store
from workers.offsets.applied import LostOffsets
from workers.offsets.batch import Stand
from workers.offsets.commit_logs import CommitLogs
from workers.offsets.directory import Directory
from workers.offsets.store import Log

_NO_STREAM = "the stream is not distributed any more"
_GENERATION = 1
"""Of every environment, until it is switched for the first time."""

Commit = tuple[Follower, OffsetKey, OffsetValue]
"""(whose, by its technical names, what)."""
Gone = tuple[Follower, OffsetKey]
"""Who has no offset any more."""


def log_of(cluster: str, whose: Follower) -> Log:
    """The log in which a group stands."""
    return cluster, whose.stream_name, whose.partition


class Results:
    """Used by one thread."""

    def __init__(self, engine: Engine, settings: Settings, logs: CommitLogs, lost: LostOffsets) -> None:
        self._engine, self._settings = engine, settings
        self._logs, self._lost = logs, lost
        self._publishers: dict[str, MapPublisher] = {}
        self._open: dict[tuple[str, OffsetKey], OffsetValue] = {}
        """Commits among records of open transactions: published as far as is known, and looked at again."""

    def is_out(self, cluster: str, key: OffsetKey, value: OffsetValue) -> bool:
        """Whether a commit among records of open transactions is published as far as is known."""
        return self._open.get((cluster, key)) == value

    def publish(
        self,
        cluster: str,
        commits: Sequence[Commit],
        gone: Sequence[Gone],
        answers: Mapping[tuple[Log, int], Stand],
        known: Directory,
    ) -> int:
        """Of one cluster; how many were. Those without an answer are left for later."""
        waiting = self._take_older_back(cluster, gone, known)
        gone = [each for each in gone if each[0] not in waiting]
        with self._engine.connect() as connection:
            orders = store.read_orders(connection, cluster, [whose for whose, _, _ in commits])
        rows: list[dict[str, Any]] = []
        left: dict[OffsetKey, OffsetValue | None] = dict.fromkeys(waiting.values())
        others: list[tuple[str, str, str, str]] = []
        dealt_with = [key for _, key in gone]
        made: list[tuple[Follower, Progress | None]] = [(whose, None) for whose, _ in gone]
        for whose, key, value in commits:
            if whose.stream_name not in known.streams:
                # Since a moment ago. It is looked for if the stream is distributed again.
                others.append((cluster, key.group, key.topic, _NO_STREAM))
                continue
            answer = answers.get((log_of(cluster, whose), value.offset))
            if answer is None or answer.is_open:
                left[key] = value
            if answer is None:
                continue
            own, applied_ms = orders.get(whose, (None, None))
            at = commit_time(value.committed_at_ms, value.offset, own, applied_ms)
            made.append((whose, self._progress(whose, value.offset, at, answer, known)))
            rows.append(_row(cluster, whose, key.group, value, at, answer))
            dealt_with.append(key)
        if made:
            try:
                self._publisher(cluster, known).publish(made)
            except KafkaCallFailed as error:
                self._logs.is_away(cluster, error.reason)
                return 0
        lost = [_place(cluster, whose) for whose, _ in gone]
        with self._engine.begin() as connection:
            store.write_commits(connection, rows)
            store.forget_commits(connection, lost)
            store.forget_applied(connection, lost)
            store.forget_not_followed(connection, [(cluster, key.group, key.topic) for key in dealt_with])
            store.write_not_followed(connection, others)
            if not left:
                self._logs.write_positions(connection, known.clusters[cluster])
        self._logs.dealt_with(cluster, left)
        self._lost.add(cluster, [whose for whose, _ in gone])
        self._remember(cluster, commits, answers)
        return len(made)

    def _remember(self, cluster: str, commits: Sequence[Commit], answers: Mapping[tuple[Log, int], Stand]) -> None:
        for whose, key, value in commits:
            answer = answers.get((log_of(cluster, whose), value.offset))
            if answer is not None and answer.is_open:
                self._open[cluster, key] = value
            elif answer is not None:
                self._open.pop((cluster, key), None)

    def take_back(self, cluster: str, gone: Sequence[tuple[Follower, str]], known: Directory) -> bool:
        """Progress of (who, technical group) leaves the map of its cluster; False if that is away."""
        try:
            self._publisher(cluster, known).publish([(whose, None) for whose, _ in gone])
        except KafkaCallFailed as error:
            self._logs.is_away(cluster, error.reason)
            return False
        # They are looked for if the stream is distributed again; with a topic, brokers forget offsets.
        others = [(cluster, group, known.topic(cluster, whose), _NO_STREAM) for whose, group in gone]
        with self._engine.begin() as connection:
            store.forget_commits(connection, [_place(cluster, whose) for whose, _ in gone])
            store.write_not_followed(connection, others)
        return True

    def _take_older_back(self, cluster: str, gone: Sequence[Gone], known: Directory) -> dict[Follower, OffsetKey]:
        """With a group's progress goes what it had made on other clusters before: it would come back to life.
        Gives those for whom a cluster has to be waited for."""
        if not gone:
            return {}
        keys = dict(gone)
        with self._engine.connect() as connection:
            older = store.read_older(connection, cluster, keys)
        waiting: dict[Follower, OffsetKey] = {}
        for other, followers in older.items():
            try:
                if other not in known.clusters or self._logs.waits(other):
                    raise KafkaCallFailed("it is away")
                self._publisher(other, known).publish([(whose, None) for whose in followers])
            except KafkaCallFailed:
                waiting |= {whose: keys[whose] for whose in followers}
                continue
            with self._engine.begin() as connection:
                store.forget_commits(connection, [_place(other, whose) for whose in followers])
        return waiting

    def _progress(self, whose: Follower, offset: int, at_ms: int, answer: Stand, known: Directory) -> Progress:
        """What is published: the margin is taken off here, and nowhere else."""
        times = [at for at in (answer.timestamp_ms, answer.safe_timestamp_ms) if at not in (None, NO_TIMESTAMP)]
        margin = known.rules[whose.tenant, whose.instance, whose.environment].margin_ms
        has_origins = self._settings.origin_header
        return Progress(
            timestamp_ms=min(times) - margin if times else None,
            committed_at_ms=at_ms,
            generation=_GENERATION,
            vector=answer.vector if has_origins else None,
            offset=offset,
            passed=answer.passed if has_origins else {},
            whole=answer.whole,
        )

    def _publisher(self, cluster: str, known: Directory) -> MapPublisher:
        if cluster not in self._publishers:
            row = known.clusters[cluster]
            config = client_config(row.bootstrap_servers, row.properties)
            self._publishers[cluster] = MapPublisher(config, cluster, self._settings.offsets_topic)
        return self._publishers[cluster]

    def close(self) -> None:
        """Give the connections back."""
        for publisher in self._publishers.values():
            publisher.close()


def _place(cluster: str, whose: Follower) -> tuple[str, str, int, str]:
    return *log_of(cluster, whose), whose.group


def _row(
    cluster: str, whose: Follower, group: str, value: OffsetValue, at_ms: int, answer: Stand
) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "stream": whose.stream_name,
        "partition": whose.partition,
        "group": whose.group,
        "technical_group": group,
        "committed_offset": value.offset,
        "broker_ms": value.committed_at_ms,
        "committed_at_ms": at_ms,
        "timestamp_ms": None if answer.timestamp_ms == NO_TIMESTAMP else answer.timestamp_ms,
        "safe_timestamp_ms": answer.safe_timestamp_ms,
        "vector": origin.plain(answer.vector),
        "whole": answer.whole,
        "incarnation": answer.incarnation,
        "published_at_ms": int(time.time() * 1000),
    }
