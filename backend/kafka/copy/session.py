"""Session of one task: consume from the source, produce in transactions on the target.

Copying is exactly once, because the records and the position that covers them are one transaction of the target,
and because the task's fixed transactional id lets only the latest session commit. The order of opening matters
(docs/distribution.md, "Guarantees"): the lease is checked again after `init_transactions`, since a late
zombie would otherwise fence its successor for good; positions are read only after that, since the zombie's last
commit would otherwise be copied twice.

A session that fails in any step is closed and a new one opened: its memory may be ahead of what the target has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import Consumer, KafkaException, Message, Producer

from backend.domain.distribution.edges import EdgePlan, StreamOnEdge
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records.log_prefix import UnknownOrigin
from backend.domain.records.marks import MetadataInvalid
from backend.domain.records.partition_edge import Header
from backend.kafka.base.errors import CopyFailed, copy_failed, refusal, sentence
from backend.kafka.base.liveness import Alive, no_watchdog
from backend.kafka.copy import dead_letter_topic
from backend.kafka.copy.clients import (
    CopyLimits,
    check_identity,
    learn_partitions,
    open_admin,
    open_group_member,
    open_producer,
    open_source,
)
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.native_loop import NativeRecordLoop, make_record_loop
from backend.kafka.copy.pacing import MarkerPause
from backend.kafka.copy.record_loop import CopyTotals, Progress, RecordLoop
from backend.kafka.copy.refused_search import RefusedSearch, Suspects, suspects_of
from backend.kafka.copy.reports import Reports
from backend.kafka.copy.resumption import Resumption
from backend.kafka.copy.schema_wait import SchemaWait
from backend.kafka.copy.seen_ends import AskedEnds, End
from backend.kafka.copy.source import Place, Source
from backend.kafka.copy.transactions import abort, cause_of, send_positions
from backend.kafka.groups.commit_limit import largest_commit

_REQUEST_SECONDS = 10.0
_INIT_SECONDS = 10.0
_ABORT_SECONDS = 2.0
_SKIPPED_COMMIT_SECONDS = 5.0
_RENEW_POSITIONS_SECONDS = 900.0
"""Far below any sensible `offsets.retention.minutes`; Kafka's default is 7 days."""
_CHECKPOINT_SECONDS = 10.0
_STEP_RECORDS = 2000
_BACKLOG_RECORDS = 100
"""Records of one step that indicate a backlog: filling the transaction is then better than ending it at once."""
_LONGEST_FILLING_SECONDS = 0.25
_TRANSACTION_BYTES = 64 * 1024 * 1024

_NO_CONTROL_PLANE = ControlPlane()


class CopySession:
    """Open clients of one task; used by one thread."""

    def __init__(
        self,
        plan: EdgePlan,
        limits: CopyLimits,
        alive: Alive = no_watchdog,
        control_plane: ControlPlane = _NO_CONTROL_PLANE,
        suspects: Suspects | None = None,
    ) -> None:
        """Create the session; `suspects` contain a record that the target refuses, which is searched for first."""
        self.suspects = suspects
        """Suspects still to be searched: the next session continues, whatever ended this one."""
        self._search: RefusedSearch | None = None
        self._alive = alive
        self._control_plane = control_plane
        self._reports = Reports(plan, control_plane, alive)
        self.totals = CopyTotals()
        self._plan = plan
        self._limits = limits
        self._where = f"{plan.task.name} to {plan.target.name}"
        self._streams: dict[str, StreamOnEdge] = {}
        self._taken_up: set[str] = set()
        self._progress: dict[Place, Progress] = {}
        self._producer: Producer | None = None
        self._last_commit = self._renewed_at = time.monotonic()
        self._pause = MarkerPause()
        self._asked_ends = AskedEnds(plan, control_plane.topic_ids, control_plane.seen_ends)
        self._checkpoints: list[tuple[str, int, Checkpoint]] = []
        self._schemas: SchemaWait | None = None

    def open(self, may_go_on: Callable[[], bool]) -> None:
        """Fence the task's previous owners, then start at the target's positions. Raises CopyFailed.

        `may_go_on` is called after the fencing: it returns whether the lease is still held, and the target has
        entered the routes of the plan. A session that was too late has done no harm.
        """
        plan, limits = self._plan, self._limits
        self._alive()
        try:
            self._producer = open_producer(plan, limits)
            self._producer.init_transactions(_INIT_SECONDS)
        except (KafkaException, ValueError) as error:
            raise copy_failed(f"{self._where}: opening transactions on {plan.target.name}", error) from error
        if not may_go_on():
            raise CopyFailed(f"{self._where}: the lease, or the routes, changed meanwhile", fenced=True)
        try:
            self._group_member = open_group_member(plan)
            self._admin = open_admin(plan.target)
            self._source = open_source(plan, limits, self._lost, self._truncated)
        except (KafkaException, ValueError) as error:
            raise copy_failed(f"{self._where}: opening clients", error) from error
        gate = self._control_plane.schema_gate(plan.target)
        self._schemas = SchemaWait(gate, self._source, self.totals, plan.target.name) if gate else None
        self._search = RefusedSearch(self.suspects, self._source) if self.suspects else None
        self._alive()
        self._commit_bytes = largest_commit(self._admin)
        self._begin_loop()
        for endpoint in (plan.target, plan.source):
            self._alive()
            check_identity(self._where, endpoint)
        self.update(plan.streams)

    def _lost(self, place: Place, first: int, last: int, reason: str) -> None:
        self._reports.lost(self._streams[self._progress[place].stream], place[1], first, last, reason)

    def _truncated(self, place: Place, first: int, last: int) -> None:
        self._reports.truncated(self._streams[self._progress[place].stream], place[1], first, last)

    def update(self, streams: Iterable[StreamOnEdge]) -> None:
        """Resume new streams and release removed ones, without interrupting the others. Raises CopyFailed."""
        wanted = {row.stream: row for row in streams}
        gone = [row for name, row in self._streams.items() if wanted.get(name) != row]
        new = [row for name, row in wanted.items() if self._streams.get(name) != row]
        try:
            if gone:
                self._commit_skipped()
                self._let_go([(row.source_topic, p) for row in gone for p in row.partitions])
            self._streams = wanted
            if new:
                assert self._producer is not None
                known_before = [row for row in new if row.target_topic in self._taken_up]
                learn_partitions(self._where, self._producer, known_before, self._alive)
                self._take_up(new)
        except (KafkaException, MetadataInvalid) as error:
            raise copy_failed(f"{self._where}: reading positions", error) from error

    def _let_go(self, places: list[Place]) -> None:
        for place in places:
            del self._progress[place]
            if self._search is not None:
                self._search.forget(place)
            if self._schemas is not None and self._schemas.is_held(place):
                self._schemas.forget(place)
            else:
                self._loop.remove(place)
        self._source.remove(places)

    def _take_up(self, streams: Sequence[StreamOnEdge]) -> None:
        clients = self._group_member, self._admin, self._source
        taken = Resumption(self._plan, self._control_plane, self._reports, self._alive, *clients).resume(streams)
        for place, progress in taken.items():
            self._progress[place] = progress
            self._loop.add(place, progress)
        if self._search is not None:
            self._search.admit(taken)
        self._taken_up.update(row.target_topic for row in streams)
        self._source.add({place: progress.source for place, progress in taken.items()})
        self._renew_positions()

    def _renew_positions(self) -> None:
        """Commit all positions again, moved or not.

        Brokers expire those that are not committed, and once other tasks' positions have expired, their past
        copies are known from ours alone.
        """
        self._renewed_at = time.monotonic()
        for progress in self._progress.values():
            progress.saved = False

    def _renew_positions_if_due(self) -> None:
        # With every commit: positions of idle partitions must not wait until their neighbours are idle, too.
        if time.monotonic() - self._renewed_at > _RENEW_POSITIONS_SECONDS:
            self._renew_positions()

    def copy_batch(self, wait_seconds: float, most: int | None = None) -> int:
        """Wait for records and copy those there, `most` at most, in one transaction; return the number read.

        Raises CopyFailed.
        """
        most = min(most or self._limits.batch_records, self._limits.batch_records)
        search = self._search
        try:
            self._alive()
            self._pause.wait()
            wait_seconds = self._schemas.shortened(wait_seconds) if self._schemas is not None else wait_seconds
            read = self._copy_suspects(search, wait_seconds) if search else self._copy_backlog(most, wait_seconds)
            for place in self._schemas.go_on() if self._schemas is not None else ():
                self._loop.add(place, self._progress[place])
            self._source.take_up_parked()
            if self._loop.in_transaction:
                self._commit()
            else:
                self._keep_positions()
            if search is not None and search.is_over(self._progress):
                self._search = self.suspects = None
                self._loop.close()
                self._begin_loop()
        except (KafkaException, MetadataInvalid, UnknownOrigin) as error:
            failed = copy_failed(f"{self._where}: copying", error)
            if failed.refused:
                step = search.step if search else most
                self.suspects = suspects_of(self._progress, step, self.suspects)
            raise failed from error
        return read

    def _copy_backlog(self, most: int, wait_seconds: float) -> int:
        """Copy one transaction's records, and more while there is a backlog, since each commit costs a wait."""
        until = time.monotonic() + wait_seconds + _LONGEST_FILLING_SECONDS
        before = self.totals.copied_bytes
        read = step = self._loop.copy_batch(min(most, _STEP_RECORDS), wait_seconds)
        while (
            step >= _BACKLOG_RECORDS
            and read < most
            and self.totals.copied_bytes - before < _TRANSACTION_BYTES
            and time.monotonic() < until
        ):
            step = self._loop.copy_batch(min(most - read, _STEP_RECORDS), 0)
            read += step
        return read

    def _copy_suspects(self, search: RefusedSearch, wait_seconds: float) -> int:
        """Copy a few suspects in one transaction, at last a single one: if refused, it is dead-lettered."""
        if search.step > 1:
            return self._loop.copy_batch(search.step, wait_seconds)
        messages = self._source.read(1, wait_seconds)
        assert isinstance(self._loop, RecordLoop)
        for message in messages:
            headers = self._loop.decide(message)
            if headers is None:
                continue
            try:
                self._loop.copy(message, headers)
                self._commit()
            except KafkaException as error:
                reason = refusal(error)
                if reason is None:
                    raise
                self._abort_refused(error)
                self._dead_letter(message, headers, f"{reason} ({sentence(error)})")
        return len(messages)

    def _abort_refused(self, refused: KafkaException) -> None:
        assert self._producer is not None
        try:
            self._producer.abort_transaction(_REQUEST_SECONDS)
        except KafkaException as error:
            # The refusal counts, not the slow abort: the next session continues the search.
            raise refused from error
        self._loop.in_transaction = False

    def _begin_loop(self) -> None:
        """Choose the loop that fits; in the last step of a search, records are handled one by one in Python."""
        assert self._producer is not None
        kind = "python" if self._search is not None and self._search.step == 1 else self._limits.record_loop
        self._loop = make_record_loop(kind, self._source, self._producer, self.totals, self._alive, self._schemas)
        for place, progress in self._progress.items():
            if self._schemas is None or not self._schemas.is_held(place):
                self._loop.add(place, progress)

    def _dead_letter(self, message: Message, headers: list[Header], reason: str) -> None:
        """Dead-letter a refused record, in the transaction of the position after it; report it first."""
        topic, partition = message.topic(), message.partition()
        assert topic is not None and partition is not None
        self._progress[topic, partition].copies.clear()
        name = self._reports.dead_letter(self._progress[topic, partition].stream, message, headers, reason)
        self._alive()
        dead_letter_topic.ensure_topic(self._admin, self._limits.quarantine_topic)
        self._alive()
        assert isinstance(self._loop, RecordLoop)
        self._loop.begin()
        self._loop.produce(
            self._limits.quarantine_topic,
            0,
            message.value(),
            message.key(),
            message.timestamp()[1],
            [*headers, (dead_letter_topic.ID_HEADER, name.encode())],
        )
        self._commit()

    def idle(self) -> None:
        """Keep the lag and the positions up to date while copying is paused or throttled. Raises CopyFailed."""
        try:
            self._alive()
            self._keep_positions()
            self._asked_ends.ask_if_due(self._source, lambda: self._ends(self._progress), self._alive)
        except (KafkaException, MetadataInvalid) as error:
            raise copy_failed(f"{self._where}: idle step", error) from error

    def _keep_positions(self) -> None:
        self._control_plane.seen_ends.drop_reached(self._progress.items())
        if time.monotonic() - self._last_commit > _SKIPPED_COMMIT_SECONDS:
            self._commit_skipped()

    def _commit(self) -> None:
        producer = self._producer
        assert producer is not None
        self._renew_positions_if_due()
        moved = [(key, progress) for key, progress in self._progress.items() if progress.to_commit]
        self._source.note_leader_epochs([place for place, _ in moved])
        offsets = [each.committed(partition) for (_, partition), each in moved]
        group, longest = self._plan.task.kafka_name, self._limits.transaction_timeout_ms / 1000
        try:
            # The positions are in flight while the records are.
            asked = (self._group_member, group, offsets, self._commit_bytes, self._alive)
            self._pause.note(send_positions(producer, *asked))
            self._alive()
            # Once acknowledged, a copy is in the topic that the target has, or had before.
            producer.flush(longest)
            self._alive()
            names = {progress.stream for _, progress in moved} & self._streams.keys()
            ends = self._ends(place for place, _ in moved)
            self._control_plane.topic_ids.check(self._plan, [self._streams[name] for name in names])
            producer.commit_transaction(longest)
        except KafkaException as error:
            raise cause_of(producer, error) from error
        self._control_plane.seen_ends.note(ends)
        self._loop.in_transaction = False
        self._pause.begin()
        self._last_commit = time.monotonic()
        for (_, partition), progress in moved:
            progress.dirty, progress.saved = False, True
            self._control_plane.measures.committed(progress.stream, progress.copies, progress.source.position)
            if self._last_commit - progress.noted_at > _CHECKPOINT_SECONDS and self._plan.rule.write_origin:
                progress.noted_at = self._last_commit
                self._control_plane.measures.checkpoint_taken(progress.stream)
                mark = progress.edge.mark(at := progress.source.position or 0)
                checkpoint = Checkpoint(at, mark.incarnation, dict(mark.seen))
                self._checkpoints.append((progress.stream, partition, checkpoint))

    def _ends(self, places: Iterable[Place]) -> list[End]:
        """Return position and end of partitions, with ends as last fetched or requested."""
        rows = [
            (place, self._progress[place]) for place in places if self._progress[place].stream in self._streams
        ]
        return [(self._streams[p.stream], at[1], p.source.position or 0, self._source.end(at)) for at, p in rows]

    def take_checkpoints(self) -> list[tuple[str, int, Checkpoint]]:
        """Return the source's checkpoints since the last call, as (stream, partition, checkpoint)."""
        taken, self._checkpoints = self._checkpoints, []
        return taken

    def _commit_skipped(self) -> None:
        """Commit the positions after records that need no copy, so that a restart does not read them again."""
        self._last_commit = time.monotonic()
        self._renew_positions_if_due()
        if any(progress.to_commit for progress in self._progress.values()):
            self._loop.begin()
            self._commit()

    def lag_records(self) -> int | None:
        """Return the offsets between the positions and the source's ends; None while some are unknown."""
        lags = self._source.lags()
        return self._control_plane.measures.lags(
            (self._progress[at].stream, at, lag, end) for at, lag, end in lags
        )

    def troubles(self) -> dict[Place, str]:
        """Return the troubles of single partitions, in words; the other partitions continue."""
        return dict(self._source.troubles)

    def unreadable_flags(self) -> int:
        """Return the number of records with unreadable flags, which were taken for 0."""
        return sum(progress.edge.unreadable_flags for progress in self._progress.values())

    def close(self) -> None:
        """Close all clients; an open transaction is aborted, by the target if not by us."""
        producer, self._producer = self._producer, None
        loop: RecordLoop | NativeRecordLoop | None = self.__dict__.pop("_loop", None)
        if producer is not None and loop is not None and loop.in_transaction:
            abort(producer, _ABORT_SECONDS)
        if loop is not None:
            loop.close()
        for name in ("_source", "_group_member"):
            client: Source | Consumer | None = self.__dict__.pop(name, None)
            if client is not None:
                client.close()
