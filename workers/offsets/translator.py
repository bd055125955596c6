"""From commits to the map: follow `__consumer_offsets` of every cluster, ask Spark what stands there, publish it.

One for the whole tree, in a process with a resident Spark session. Nothing runs on Spark unless a foreign group
has committed. What was read of `__consumer_offsets` is written down only after its results are, so a killed
process does some of it again, which changes nothing: results of the same commit are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from pyspark.sql import SparkSession
from sqlalchemy import Engine

from backend.domain import origin
from backend.domain.group_directory import NotFollowed
from backend.domain.group_log import OffsetKey, OffsetValue
from backend.domain.offset_map import NO_TIMESTAMP, Follower, Progress
from backend.kafka.client_config import client_config
from backend.kafka.commit_log import CommitLog
from backend.kafka.errors import KafkaCallFailed
from backend.kafka.log_ends import ends
from backend.kafka.map_topic import MapPublisher
from backend.settings import Settings
from spark import micro_batch
from workers import checkpoints
from workers.offsets import store
from workers.offsets.batch import AskedLog, Batch, Stand
from workers.offsets.directory import Directories, Directory
from workers.offsets.store import Log

log = structlog.get_logger("offsets")

_READ_SECONDS = 0.05
_REQUEST_SECONDS = 10.0
_AWAY_SECONDS = 15.0
_MOST_OFFSETS = 400_000
"""Read at once for the index of one log: others must not wait for a long one."""
_GENERATION = 1
"""Of every environment, until it is switched for the first time."""

Commit = tuple[Follower, str, OffsetValue]
"""(whose, technical name of the group, what)."""


class Translator:
    """Used by one thread; `tick` is called again and again."""

    def __init__(
        self, engine: Engine, settings: Settings, directories: Directories, spark: Callable[[], SparkSession]
    ) -> None:
        self._engine, self._settings, self._spark = engine, settings, spark
        self._directories = directories
        self._logs: dict[str, CommitLog] = {}
        self._publishers: dict[str, MapPublisher] = {}
        self._pending: dict[str, dict[OffsetKey, OffsetValue | None]] = {}
        self._positions: dict[str, dict[int, int]] = {}
        self._from_low: set[Log] = set()
        self._swept_at = -1
        self._away_until: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        """Why a cluster's commits cannot be followed now."""

    def tick(self) -> int:
        """Take what has come; translate and publish it. How many commits were."""
        known = self._directories.read()
        if known.position != self._swept_at:
            with self._engine.begin() as connection:
                store.keep_streams(connection, known.streams)
            self._swept_at = known.position
        for cluster in known.clusters:
            self._follow(cluster, known)
        if not any(made for cluster, made in self._pending.items() if not self._waits(cluster)):
            return 0
        return self._translate()

    def _follow(self, cluster: str, known: Directory) -> None:
        if self._waits(cluster):
            return
        row = known.clusters[cluster]
        try:
            found = self._logs.get(cluster)
            if found is None:
                with self._engine.connect() as connection:
                    positions = store.read_positions(connection, cluster, row.kafka_cluster_id or "")
                config = client_config(row.bootstrap_servers, row.properties)
                found = self._logs[cluster] = CommitLog(config, positions)
            found.read(_READ_SECONDS)
            self._reasons.pop(cluster, None)
        except KafkaCallFailed as error:
            self._is_away(cluster, error)
            broken = self._logs.pop(cluster, None)
            if broken is not None:
                broken.close()
            return
        taken = found.take()
        if taken.unreadable:
            log.warning("commits that cannot be read", cluster=cluster, records=taken.unreadable)
        self._pending.setdefault(cluster, {}).update(taken.made)
        self._positions.setdefault(cluster, {}).update(taken.positions)

    def _waits(self, cluster: str) -> bool:
        """Whether a cluster was away a moment ago."""
        return time.monotonic() < self._away_until.get(cluster, 0.0)

    def _is_away(self, cluster: str, error: KafkaCallFailed) -> None:
        """Others must not wait for it in every round."""
        if self._reasons.get(cluster) != error.reason:
            log.warning("commits wait", cluster=cluster, reason=error.reason)
        self._reasons[cluster] = error.reason
        self._away_until[cluster] = time.monotonic() + _AWAY_SECONDS

    def _translate(self) -> int:
        known = self._directories.read()
        commits, gone = self._sorted_out(known)
        asked = self._asked(commits, known)
        self._look_up_ends(asked, known)
        # Only now: whoever's records lie before those ends is known.
        known = self._directories.read()
        self._make_plans(asked)
        batch = Batch(list(asked.values()))
        if not batch.logs:
            return self._publish(commits, gone, {}, known)
        headers = (self._settings.copy_flags_header, self._settings.copy_origin_header)
        found = micro_batch.run(self._spark(), batch.slices(known, headers), batch.known(), batch.asked())
        with self._engine.begin() as connection:
            for number, one in enumerate(batch.logs):
                assert one.plan is not None
                made = one.new_marks(found.segments.get(number, []))
                store.write_marks(connection, one.log, one.incarnation, made, one.plan.anew)
        answers = batch.answers(found, known)
        self._look_further_back(asked, answers)
        return self._publish(commits, gone, answers, known)

    def _make_plans(self, asked: Mapping[Log, AskedLog]) -> None:
        """Fill in what is known of the logs, and what is to be read of them."""
        by_cluster: dict[str, list[tuple[str, int]]] = {}
        for cluster, stream, partition in asked:
            by_cluster.setdefault(cluster, []).append((stream, partition))
        with self._engine.connect() as connection:
            marks = store.read_marks(connection, {one.log: one.incarnation for one in asked.values()})
            places = {cluster: checkpoints.read(connection, cluster, some) for cluster, some in by_cluster.items()}
        for (cluster, stream, partition), one in asked.items():
            one.marks = marks.get(one.log, ())
            one.checkpoints = places[cluster].get((stream, partition), ())
            one.from_low = one.log in self._from_low
            one.make_plan(_MOST_OFFSETS)

    def _look_further_back(self, asked: Mapping[Log, AskedLog], answers: dict[tuple[Log, int], Stand]) -> None:
        """Take back answers that do not know a record before the offset, since all that was read or is indexed are
        markers, or holes of compaction: the log is read from its beginning then."""
        for (log, offset), answer in list(answers.items()):
            if not asked[log].says_enough(offset, answer):
                self._from_low.add(log)
                del answers[log, offset]
            elif asked[log].from_low:
                self._from_low.discard(log)

    def _sorted_out(self, known: Directory) -> tuple[dict[str, list[Commit]], dict[str, list[Follower]]]:
        """Commits by cluster, and who has no offset there any more; others are noted as not followed."""
        commits: dict[str, list[Commit]] = {}
        gone: dict[str, list[Follower]] = {}
        others = []
        for cluster, made in self._pending.items():
            names = known.groups.get(cluster)
            if names is None or self._waits(cluster):
                continue
            commits[cluster], gone[cluster] = [], []
            for key, value in made.items():
                whose = names.follower(key.group, key.topic, key.partition)
                if isinstance(whose, NotFollowed):
                    row = {"cluster": cluster, "technical_group": key.group, "topic": key.topic}
                    others.append({**row, "reason": whose.reason, "seen_at": datetime.now(UTC)})
                elif value is None:
                    gone[cluster].append(whose)
                else:
                    commits[cluster].append((whose, key.group, value))
        with self._engine.begin() as connection:
            store.write_not_followed(connection, others)
        return commits, gone

    def _asked(self, commits: dict[str, list[Commit]], known: Directory) -> dict[Log, AskedLog]:
        asked: dict[Log, AskedLog] = {}
        for cluster, made in commits.items():
            for whose, _, value in made:
                stream = whose.stream_name
                births = known.births(cluster, stream, whose.partition)
                if births is None:
                    continue
                place = (cluster, stream, whose.partition)
                topic = known.streams[stream].technical_names[cluster]
                one = asked.setdefault(place, AskedLog(log=place, topic=topic, births=births, asked=set()))
                one.asked.add(value.offset)
        return asked

    def _look_up_ends(self, asked: dict[Log, AskedLog], known: Directory) -> None:
        """Fill in where the logs begin and end; those that cannot be asked now are left out, and wait."""
        for cluster in {log[0] for log in asked}:
            row = known.clusters[cluster]
            mine = {(one.topic, place[2]): one for place, one in asked.items() if place[0] == cluster}
            try:
                found = ends(client_config(row.bootstrap_servers, row.properties), mine, _REQUEST_SECONDS)
            except KafkaCallFailed as error:
                self._is_away(cluster, error)
                found = {}
            for place, one in mine.items():
                if place in found:
                    one.low, one.end = found[place]
                else:
                    del asked[one.log]

    def _publish(
        self,
        commits: dict[str, list[Commit]],
        gone: dict[str, list[Follower]],
        answers: Mapping[tuple[Log, int], Stand],
        known: Directory,
    ) -> int:
        published = 0
        for cluster in commits:
            rows: list[dict[str, Any]] = []
            left: dict[OffsetKey, OffsetValue | None] = {}
            made: list[tuple[Follower, Progress | None]] = [(whose, None) for whose in gone[cluster]]
            now = int(time.time() * 1000)
            for whose, group, value in commits[cluster]:
                answer = answers.get(((cluster, whose.stream_name, whose.partition), value.offset))
                if answer is None:
                    topic = known.streams[whose.stream_name].technical_names[cluster]
                    left[OffsetKey(group, topic, whose.partition)] = value
                    continue
                made.append((whose, self._progress(whose, value, answer, known)))
                rows.append(_row(cluster, whose, group, value, answer, now))
            try:
                if made:
                    self._publisher(cluster, known).publish(made)
            except KafkaCallFailed as error:
                self._is_away(cluster, error)
                continue
            with self._engine.begin() as connection:
                store.write_commits(connection, rows)
                lost = [(cluster, w.stream_name, w.partition, w.group) for w in gone[cluster]]
                store.forget_commits(connection, lost)
                if not left:
                    identity = known.clusters[cluster].kafka_cluster_id or ""
                    store.write_positions(connection, cluster, identity, self._positions.pop(cluster, {}))
            self._pending[cluster] = dict(left)
            published += len(made)
        return published

    def _progress(self, whose: Follower, value: OffsetValue, answer: Stand, known: Directory) -> Progress:
        """What is published: the margin is taken off here, and nowhere else."""
        times = [at for at in (answer.timestamp_ms, answer.safe_timestamp_ms) if at not in (None, NO_TIMESTAMP)]
        margin = known.rules[whose.tenant, whose.instance, whose.environment].margin_ms
        has_origins = self._settings.origin_header
        return Progress(
            timestamp_ms=min(times) - margin if times else None,
            committed_at_ms=value.committed_at_ms,
            generation=_GENERATION,
            vector=answer.vector if has_origins else None,
            offset=value.offset,
            passed=answer.passed if has_origins else {},
        )

    def _publisher(self, cluster: str, known: Directory) -> MapPublisher:
        if cluster not in self._publishers:
            row = known.clusters[cluster]
            config = client_config(row.bootstrap_servers, row.properties)
            self._publishers[cluster] = MapPublisher(config, cluster, self._settings.offsets_topic)
        return self._publishers[cluster]

    def close(self) -> None:
        """Give the connections back."""
        for follower in self._logs.values():
            follower.close()
        for publisher in self._publishers.values():
            publisher.close()


def _row(cluster: str, whose: Follower, group: str, value: OffsetValue, answer: Stand, now: int) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "stream": whose.stream_name,
        "partition": whose.partition,
        "group": whose.group,
        "technical_group": group,
        "committed_offset": value.offset,
        "committed_at_ms": value.committed_at_ms,
        "timestamp_ms": None if answer.timestamp_ms == NO_TIMESTAMP else answer.timestamp_ms,
        "safe_timestamp_ms": answer.safe_timestamp_ms,
        "vector": origin.plain(answer.vector),
        "published_at_ms": now,
    }
