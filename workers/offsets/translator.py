"""The offset translator: follow `__consumer_offsets`, translate commits on Spark, publish progress.

There is one for the whole tree, in a process with a resident Spark session. Nothing runs on Spark unless an
application's group has committed. The position in `__consumer_offsets` is stored only after its results are, so a
process that was killed repeats some work, which is harmless: the same commit gives the same result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog
from pyspark.sql import SparkSession
from sqlalchemy import Engine

from backend.domain.offsets.offset_map import GroupPartition
from backend.domain.records.log_index import Prefixes
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.logs.log_ends import ends
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.offsets.offset_translation import State
from backend.settings import Settings
from spark import micro_batch
from workers import batch_exclusion
from workers.distribution import checkpoints
from workers.offsets import store
from workers.offsets.applied import LostOffsets
from workers.offsets.batch import AskedLog, Batch, OffsetFacts, Turns
from workers.offsets.commit_logs import CommitLogs, Ready
from workers.offsets.directory import Directories, Directory
from workers.offsets.results import Commit, Gone, Results, log_of
from workers.offsets.state_reports import StateReporter
from workers.offsets.store import Log, MapEntry
from workers.pauses import Pauses

log = structlog.get_logger("offsets")

_REQUEST_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.5
_MOST_OFFSETS = 400_000
"""Most offsets read at once for the index of one log: other logs must not wait for a long one."""
_MOST_AT_ONCE = 2_000_000
"""Most offsets read in one run: short logs must not wait for all long ones."""
_CLEAR_UP_SECONDS = 60.0
_MOST_ENDS = 1_000
"""Most ends cleared up at once."""


class Translator:
    """Translator for one thread, which calls `tick` in a loop."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        directories: Directories,
        spark: Callable[[], SparkSession],
        lost: LostOffsets,
    ) -> None:
        self._engine, self._settings, self._spark = engine, settings, spark
        self._directories = directories
        self._headers = (settings.copy_flags_header, settings.copy_origin_header)
        self._logs = CommitLogs(engine)
        self._results = Results(engine, settings, self._logs, lost)
        self._from_low: set[Log] = set()
        self._swept_at = -1
        self._cleanup_pending: frozenset[str] = frozenset()
        """Clusters whose map still has progress in streams that no longer exist."""
        self._failures = Pauses[Log](_FIRST_PAUSE_SECONDS)
        self._turns = Turns(_MOST_AT_ONCE)
        self._cleared_up_at = time.monotonic()
        self._report = StateReporter(engine, self._logs.waiting)
        self._has_spark = False

    def tick(self) -> int:
        """Read new commits, translate and publish them; return how many were translated.

        Nothing happens while a switch holds clients or is about to: their last commits are translated directly,
        and other commits can wait for a second better than clients can.
        """
        if self._must_pause():
            self._report(State.RESTING)
            return 0
        known = self._directories.read()
        if known.position != self._swept_at:
            self._sweep(known)
            self._swept_at = known.position
        elif not all(self._logs.is_paused(cluster) for cluster in self._cleanup_pending):
            self._remove_orphans(known)
        self._logs.follow(known)
        ready = self._logs.ready()
        translated = self._translate_unless_held(ready, known) if ready else 0
        self._clear_up(known)
        self._report(State.READING_COMMITS if self._logs.waiting().reading else State.IDLE)
        return translated

    def _must_pause(self) -> bool:
        with self._engine.connect() as connection:
            return batch_exclusion.must_rest(connection)

    def _translate_unless_held(self, ready: Ready, known: Directory) -> int:
        with batch_exclusion.running(self._engine) as may_run:
            return self._translate(ready, known) if may_run else 0

    def _clear_up(self, known: Directory) -> None:
        """Delete stored state that is no longer needed."""
        for cluster, since in self._logs.fully_reread().items():
            with self._engine.begin() as connection:
                store.forget_unseen(connection, cluster, since)
            self._logs.finish_reread(cluster)
        if time.monotonic() < self._cleared_up_at + _CLEAR_UP_SECONDS or not self._logs.knows_all(known.members):
            return
        self._cleared_up_at = time.monotonic()
        with self._engine.connect() as connection:
            orphaned = store.read_orphaned_ends(connection, _MOST_ENDS)
        for cluster, some in _by_cluster(orphaned).items():
            self._results.remove_progress(cluster, some, known)

    def _sweep(self, known: Directory) -> None:
        """Apply changes of streams and clusters."""
        self._remove_orphans(known)
        with self._engine.begin() as connection:
            store.keep(connection, known.streams, known.members)
            others = store.read_not_followed(connection)
        for cluster, names in known.groups.items():
            mine = [(group, topic) for where, group, topic in others if where == cluster]
            if any(isinstance(names.group_partition(group, topic, 0), GroupPartition) for group, topic in mine):
                self._logs.read_again(cluster)

    def _remove_orphans(self, known: Directory) -> None:
        """Remove progress from the map in streams that were deleted or are not distributed any more.

        A stream created again under the name has nothing to do with it. Progress made on a cluster that has left
        the tree is removed as well, since its end would never be noticed. A cluster that is unreachable gets the
        records when it is back.
        """
        with self._engine.connect() as connection:
            gone = _by_cluster(store.read_progress_of_others(connection, known.streams, known.members))
        # Members that are offline need an event first, which starts a new sweep.
        self._cleanup_pending = frozenset(gone) - (known.members - known.clusters.keys())
        for cluster in [each for each in self._cleanup_pending if not self._logs.is_paused(each)]:
            if self._results.remove_progress(cluster, gone[cluster], known):
                self._cleanup_pending -= {cluster}

    def _translate(self, ready: Ready, known: Directory) -> int:
        commits, gone = self._sort_commits(ready, known)
        asked = self._asked(commits, known)
        # Read again only now, so that every origin before the ends of the logs is known.
        known = self._directories.read()
        self._make_plans(asked)
        answers: dict[tuple[Log, int], OffsetFacts] = {}
        if asked:
            answers = self._answers(self._turns.next(asked), known)
            self._look_further_back(asked, answers)
        return sum(
            self._results.publish(cluster, commits[cluster], gone[cluster], answers, known) for cluster in commits
        )

    def _answers(self, logs: Sequence[AskedLog], known: Directory) -> dict[tuple[Log, int], OffsetFacts]:
        """Answer for the requested offsets. A log that cannot be read leaves out only itself."""
        batch, spark = Batch(logs), self._session()
        try:
            found = micro_batch.run(spark, batch.slices(known, self._headers), batch.known(), batch.asked())
        except Exception:
            # Spark fails in many ways, and its errors say little about which log failed.
            log.exception("logs cannot be read", logs=[one.log for one in logs])
            answers: dict[tuple[Log, int], OffsetFacts] = {}
            for some in self._split(logs, known):
                if self._must_pause():
                    break  # each attempt may take long, and a switch waits for this batch to end
                answers |= self._answers(some, known)
            return answers
        for one in logs:
            self._failures.went_well(one.log)
        with self._engine.begin() as connection:
            for number, one in enumerate(logs):
                assert one.plan is not None
                made = one.new_marks(found.segments.get(number, []))
                store.write_marks(connection, one.log, one.incarnation, made, one.plan.anew, one.kept_from)
        return batch.answers(found, known)

    def _session(self) -> SparkSession:
        """Return the Spark session; report first that it starts, since that takes long."""
        self._report(State.READING_LOGS if self._has_spark else State.STARTING_SPARK)
        session = self._spark()
        self._has_spark = True
        self._report(State.READING_LOGS)
        return session

    def _split(self, logs: Sequence[AskedLog], known: Directory) -> list[Sequence[AskedLog]]:
        """Split logs that could not be read together into parts to try separately."""
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
            # Gone since it was queried: one log after the other would fail, each after a long wait.
            self._logs.pause_cluster(row.name, error.reason)
            return []
        return [logs[: len(logs) // 2], logs[len(logs) // 2 :]]

    def _make_plans(self, asked: Mapping[Log, AskedLog]) -> None:
        """Fill in what is known of the logs and what is to be read of them."""
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

    def _look_further_back(
        self, asked: Mapping[Log, AskedLog], answers: dict[tuple[Log, int], OffsetFacts]
    ) -> None:
        """Drop answers without a record before the offset if all that was read or indexed are markers or holes.

        Compaction leaves holes, transactions leave markers. Such a log is read from its beginning in the next run.
        """
        for (log, offset), answer in list(answers.items()):
            if not asked[log].says_enough(offset, answer):
                self._from_low.add(log)
                del answers[log, offset]
            elif asked[log].from_low:
                self._from_low.discard(log)

    def _sort_commits(
        self, ready: Ready, known: Directory
    ) -> tuple[dict[str, list[Commit]], dict[str, list[Gone]]]:
        """Return commits and group partitions without an offset, by cluster; store the rest as undistributed."""
        commits: dict[str, list[Commit]] = {}
        gone: dict[str, list[Gone]] = {}
        others, no_more = [], []
        for cluster, made in ready.items():
            commits[cluster], gone[cluster] = [], []
            for key, value in made.items():
                whose = known.groups[cluster].group_partition(key.group, key.topic, key.partition)
                if isinstance(whose, GroupPartition):
                    if value is None or value.offset < 0:
                        gone[cluster].append((whose, key))
                    else:
                        commits[cluster].append((whose, key, value))
                elif value is None:
                    no_more.append((cluster, key.group, key.topic))
                else:
                    others.append((cluster, key.group, key.topic, whose.reason))
        with self._engine.begin() as connection:
            store.write_not_followed(connection, others)
            store.forget_not_followed(connection, no_more)
        return commits, gone

    def _asked(self, commits: Mapping[str, Sequence[Commit]], known: Directory) -> dict[Log, AskedLog]:
        """Return the logs with the offsets to answer for. Logs that cannot be queried are left out and wait."""
        logs: dict[Log, AskedLog] = {}
        for cluster, made in commits.items():
            for whose, key, value in made:
                incarnations = known.incarnations(cluster, whose.stream_name, whose.partition)
                place = log_of(cluster, whose)
                if incarnations is None or self._failures.waits(place):
                    continue
                topic = known.streams[whose.stream_name].technical_names[cluster]
                one = logs.setdefault(
                    place, AskedLog(log=place, topic=topic, incarnations=incarnations, asked=set())
                )
                one.committed.append((key, value))
        for cluster in {log[0] for log in logs}:
            self._look_up_ends([one for one in logs.values() if one.log[0] == cluster], known.clusters[cluster])
        for one in logs.values():
            for key, value in one.committed:
                # Records in open transactions may still be aborted: until that is decided, there is nothing new to
                # say.
                if not (one.is_open(value.offset) and self._results.is_out(one.log[0], key, value)):
                    one.asked.add(value.offset)
        return {place: one for place, one in logs.items() if one.is_there and one.asked}

    def _look_up_ends(self, logs: Sequence[AskedLog], row: ClusterRow) -> None:
        """Fill in first offset and end of one cluster's logs, if the cluster answers."""
        config, by_place = client_config(row.bootstrap_servers, row.properties), {}
        for one in logs:
            by_place[one.topic, one.log[2]] = one
        try:
            found = ends(config, by_place, _REQUEST_SECONDS)
            for place, (low, end) in found.items():
                by_place[place].low, by_place[place].end = low, end
                by_place[place].is_there = True
            beyond = [place for place in found if by_place[place].is_beyond]
            answered = ends(config, beyond, _REQUEST_SECONDS, undecided_too=True) if beyond else {}
            for place in beyond:
                by_place[place].is_there = place in answered
                by_place[place].high = answered.get(place, (0, 0))[1]
        except KafkaCallFailed as error:
            self._logs.pause_cluster(row.name, error.reason)
            for one in logs:
                one.is_there = False

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()
        self._results.close()


def _by_cluster(rows: Iterable[MapEntry]) -> dict[str, list[MapEntry]]:
    found: dict[str, list[MapEntry]] = {}
    for row in rows:
        found.setdefault(row.cluster, []).append(row)
    return found
