"""From commits to the map: follow `__consumer_offsets` of every cluster, ask Spark what stands there, publish it.

One for the whole tree, in a process with a resident Spark session. Nothing runs on Spark unless a foreign group
has committed. What was read of `__consumer_offsets` is written down only after its results are, so a killed
process does some of it again, which changes nothing: results of the same commit are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from pyspark.sql import SparkSession
from sqlalchemy import Engine

from backend.domain import origin
from backend.domain.committing import commit_time
from backend.domain.group_log import OffsetKey, OffsetValue
from backend.domain.log_index import Prefixes
from backend.domain.offset_map import NO_TIMESTAMP, Follower, Progress
from backend.kafka.client_config import client_config
from backend.kafka.errors import KafkaCallFailed
from backend.kafka.log_ends import ends
from backend.kafka.map_topic import MapPublisher
from backend.settings import Settings
from spark import micro_batch
from workers import checkpoints
from workers.offsets import store
from workers.offsets.applied import LostOffsets
from workers.offsets.batch import AskedLog, Batch, Stand
from workers.offsets.commit_logs import CommitLogs, Ready
from workers.offsets.directory import Directories, Directory
from workers.offsets.pauses import Pauses
from workers.offsets.store import Log

log = structlog.get_logger("offsets")

_REQUEST_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.5
_MOST_OFFSETS = 400_000
"""Read at once for the index of one log: others must not wait for a long one."""
_NO_STREAM = "the stream is not distributed any more"
_GENERATION = 1
"""Of every environment, until it is switched for the first time."""

Commit = tuple[Follower, str, OffsetValue]
"""(whose, technical name of the group, what)."""


class Translator:
    """Used by one thread; `tick` is called again and again."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        directories: Directories,
        spark: Callable[[], SparkSession],
        lost: LostOffsets,
    ) -> None:
        self._engine, self._settings, self._spark = engine, settings, spark
        self._directories, self._lost = directories, lost
        self._headers = (settings.copy_flags_header, settings.copy_origin_header)
        self._logs = CommitLogs(engine)
        self._publishers: dict[str, MapPublisher] = {}
        self._from_low: set[Log] = set()
        self._swept_at = -1
        self._owed: frozenset[str] = frozenset()
        """Clusters whose map still has progress in streams that are no more."""
        self._failures = Pauses[Log](_FIRST_PAUSE_SECONDS)

    def tick(self) -> int:
        """Take what has come; translate and publish it. How many commits were."""
        known = self._directories.read()
        if known.position != self._swept_at:
            self._sweep(known)
            self._swept_at = known.position
        elif not all(self._logs.waits(cluster) for cluster in self._owed):
            self._take_back(known)
        self._logs.follow(known)
        ready = self._logs.ready()
        return self._translate(ready, known) if ready else 0

    def _sweep(self, known: Directory) -> None:
        """Streams and clusters may be other ones than before."""
        self._take_back(known)
        with self._engine.begin() as connection:
            store.keep(connection, known.streams, known.members)
            others = store.read_not_followed(connection)
        for cluster, names in known.groups.items():
            mine = [(group, topic) for where, group, topic in others if where == cluster]
            if any(isinstance(names.follower(group, topic, 0), Follower) for group, topic in mine):
                self._logs.read_again(cluster)

    def _take_back(self, known: Directory) -> None:
        """Progress in streams that are deleted, or not distributed any more, leaves the map: a stream made again
        under the name has nothing to do with it. A cluster that is away is told when it is back."""
        with self._engine.connect() as connection:
            rows = store.read_followers_of_others(connection, known.streams)
        gone: dict[str, list[tuple[Follower, str]]] = {}
        for cluster, follower, technical_group in rows:
            gone.setdefault(cluster, []).append((follower, technical_group))
        # For others something has to happen first, and all is looked at anew then.
        self._owed = frozenset(gone) & known.clusters.keys()
        for cluster in [each for each in self._owed if not self._logs.waits(each)]:
            try:
                self._publisher(cluster, known).publish([(whose, None) for whose, _ in gone[cluster]])
            except KafkaCallFailed as error:
                self._logs.is_away(cluster, error.reason)
                continue
            with self._engine.begin() as connection:
                store.forget_commits(connection, [_place(cluster, whose) for whose, _ in gone[cluster]])
                # They are looked for if the stream is distributed again; with a topic, brokers forget offsets.
                lost = [
                    (cluster, group, known.topic(cluster, whose), _NO_STREAM) for whose, group in gone[cluster]
                ]
                store.write_not_followed(connection, lost)
            self._owed -= {cluster}

    def _translate(self, ready: Ready, known: Directory) -> int:
        commits, gone = self._sorted_out(ready, known)
        asked = self._asked(commits, known)
        self._look_up_ends(asked, known)
        # Only now: whoever's records lie before those ends is known.
        known = self._directories.read()
        self._make_plans(asked)
        if not asked:
            return self._publish(commits, gone, {}, known)
        answers = self._answers(list(asked.values()), known)
        self._look_further_back(asked, answers)
        return self._publish(commits, gone, answers, known)

    def _answers(self, logs: Sequence[AskedLog], known: Directory) -> dict[tuple[Log, int], Stand]:
        """What stands at the offsets asked about. A log that cannot be read leaves out itself, and no other."""
        batch, spark = Batch(logs), self._spark()
        try:
            found = micro_batch.run(spark, batch.slices(known, self._headers), batch.known(), batch.asked())
        except Exception:
            # Spark's failures are many, and say little of what was read.
            log.exception("logs cannot be read", logs=[one.log for one in logs])
            answers: dict[tuple[Log, int], Stand] = {}
            for some in self._apart(logs, known):
                answers |= self._answers(some, known)
            return answers
        for one in logs:
            self._failures.went_well(one.log)
        with self._engine.begin() as connection:
            for number, one in enumerate(logs):
                assert one.plan is not None
                made = one.new_marks(found.segments.get(number, []))
                store.write_marks(connection, one.log, one.incarnation, made, one.plan.anew)
        return batch.answers(found, known)

    def _apart(self, logs: Sequence[AskedLog], known: Directory) -> list[Sequence[AskedLog]]:
        """What is to be tried for itself, of logs that could not be read together."""
        clusters = {one.log[0] for one in logs}
        if len(clusters) > 1:
            return [[one for one in logs if one.log[0] == cluster] for cluster in sorted(clusters)]
        if len(logs) == 1:
            self._failures.failed(logs[0].log)
            return []
        row = known.clusters[logs[0].log[0]]
        try:
            places = [(one.topic, one.log[2]) for one in logs]
            ends(client_config(row.bootstrap_servers, row.properties), places, _REQUEST_SECONDS)
        except KafkaCallFailed as error:
            # Gone since it was asked: one log after the other would fail, each after a long wait.
            self._logs.is_away(row.name, error.reason)
            return []
        return [logs[: len(logs) // 2], logs[len(logs) // 2 :]]

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
        with_gaps = [one for one in asked.values() if one.has_gap]
        if not with_gaps:
            return
        with self._engine.connect() as connection:
            for one in with_gaps:
                committed = store.read_prefixes(connection, one.log, one.incarnation, max(one.asked))
                one.prefixes = Prefixes([*committed, *one.known_places()])

    def _look_further_back(self, asked: Mapping[Log, AskedLog], answers: dict[tuple[Log, int], Stand]) -> None:
        """Take back answers that do not know a record before the offset, since all that was read or is indexed are
        markers, or holes of compaction: the log is read from its beginning then."""
        for (log, offset), answer in list(answers.items()):
            if not asked[log].says_enough(offset, answer):
                self._from_low.add(log)
                del answers[log, offset]
            elif asked[log].from_low:
                self._from_low.discard(log)

    def _sorted_out(
        self, ready: Ready, known: Directory
    ) -> tuple[dict[str, list[Commit]], dict[str, list[Follower]]]:
        """Commits by cluster, and who has no offset there any more; others are noted as not followed."""
        commits: dict[str, list[Commit]] = {}
        gone: dict[str, list[Follower]] = {}
        others, no_more = [], []
        for cluster, made in ready.items():
            commits[cluster], gone[cluster] = [], []
            for key, value in made.items():
                whose = known.groups[cluster].follower(key.group, key.topic, key.partition)
                if isinstance(whose, Follower):
                    if value is None or value.offset < 0:
                        gone[cluster].append(whose)
                    else:
                        commits[cluster].append((whose, key.group, value))
                    no_more.append((cluster, key.group, key.topic))
                elif value is None:
                    no_more.append((cluster, key.group, key.topic))
                else:
                    others.append((cluster, key.group, key.topic, whose.reason))
        with self._engine.begin() as connection:
            store.write_not_followed(connection, others)
            store.forget_not_followed(connection, no_more)
        return commits, gone

    def _asked(self, commits: dict[str, list[Commit]], known: Directory) -> dict[Log, AskedLog]:
        asked: dict[Log, AskedLog] = {}
        for cluster, made in commits.items():
            for whose, _, value in made:
                stream = whose.stream_name
                births = known.births(cluster, stream, whose.partition)
                place = (cluster, stream, whose.partition)
                if births is None or self._failures.waits(place):
                    continue
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
                self._logs.is_away(cluster, error.reason)
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
            with self._engine.connect() as connection:
                orders = store.read_orders(connection, cluster, [whose for whose, _, _ in commits[cluster]])
            rows: list[dict[str, Any]] = []
            left: dict[OffsetKey, OffsetValue | None] = {}
            made: list[tuple[Follower, Progress | None]] = [(whose, None) for whose in gone[cluster]]
            now = int(time.time() * 1000)
            for whose, group, value in commits[cluster]:
                if whose.stream_name not in known.streams:
                    continue  # not distributed any more, since a moment ago
                answer = answers.get(((cluster, whose.stream_name, whose.partition), value.offset))
                if answer is None:
                    topic = known.streams[whose.stream_name].technical_names[cluster]
                    left[OffsetKey(group, topic, whose.partition)] = value
                    continue
                own, applied_ms = orders.get(whose, (None, None))
                at = commit_time(value.committed_at_ms, value.offset, own, applied_ms)
                made.append((whose, self._progress(whose, value.offset, at, answer, known)))
                rows.append({**_row(cluster, whose, group, value, at, answer), "published_at_ms": now})
            try:
                if made:
                    self._publisher(cluster, known).publish(made)
            except KafkaCallFailed as error:
                self._logs.is_away(cluster, error.reason)
                continue
            with self._engine.begin() as connection:
                store.write_commits(connection, rows)
                lost = [_place(cluster, whose) for whose in gone[cluster]]
                store.forget_commits(connection, lost)
                store.forget_applied(connection, lost)
                self._logs.dealt_with(connection, known.clusters[cluster], left)
            self._lost.add(cluster, gone[cluster])
            published += len(made)
        return published

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
        self._logs.close()
        for publisher in self._publishers.values():
            publisher.close()


def _place(cluster: str, whose: Follower) -> tuple[str, str, int, str]:
    return cluster, whose.stream_name, whose.partition, whose.group


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
    }
