"""One distributor unit's session: consume from the source, produce in transactions on the target.

Exactly once, because the records and the position that says that they were copied are one transaction of the
target, and because the unit's fixed transactional id lets only the last one who opened a session commit. The
order of opening matters (design, "What a distributor guarantees"): the lease is checked again after
`init_transactions`, since a late zombie would otherwise fence its successor for good; positions are read only
after that, since the zombie's last commit would otherwise be copied twice.

A session that fails in any step is closed and a new one opened: what it holds in memory may be ahead of what
the target has.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from backend.domain import origin
from backend.domain.edges import EdgePlan, StreamOnEdge
from backend.domain.origin import MetadataInvalid, PartitionEdge
from backend.kafka import positions
from backend.kafka.client_config import client_config
from backend.kafka.errors import CopyFailed, copy_failed

_REQUEST_SECONDS = 10.0
_INIT_SECONDS = 10.0
_SKIPPED_COMMIT_SECONDS = 5.0
_LARGEST_RECORD_BYTES = 64 * 1024 * 1024
_PRODUCER_QUEUE_KBYTES = 65536
_TOPIC_GONE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True, kw_only=True)
class CopyLimits:
    """Bounds of one session; see backend/settings.py."""

    batch_records: int
    transaction_timeout_ms: int
    fetch_wait_max_ms: int
    fetch_buffer_kbytes: int


@dataclass
class CopyTotals:
    """What a session has done since it was opened."""

    copied_records: int = 0
    copied_bytes: int = 0
    skipped_records: int = 0


class _Progress:
    """One partition in a session: the decisions' state and how far reading has come."""

    __slots__ = ("dirty", "edge", "parked", "position", "target_topic")

    def __init__(self, edge: PartitionEdge, target_topic: str, position: int | None) -> None:
        self.edge = edge
        self.target_topic = target_topic
        self.position = position
        self.dirty = False
        self.parked = False


class CopySession:
    """Open clients of one unit; used by one thread."""

    def __init__(self, plan: EdgePlan, limits: CopyLimits) -> None:
        self.totals = CopyTotals()
        self.troubles: dict[tuple[str, int], str] = {}
        """What is wrong with single partitions (topic, partition), in words; the others go on."""
        self._plan = plan
        self._limits = limits
        self._where = f"{plan.unit.name} to {plan.target.name}"
        self._streams: dict[str, StreamOnEdge] = {}
        self._progress: dict[tuple[str, int], _Progress] = {}
        self._producer: Producer | None = None
        self._in_transaction = False
        self._last_commit = time.monotonic()

    def open(self, still_holds_lease: Callable[[], bool]) -> None:
        """Fence whoever ran the unit before, then begin where the target says. Raises CopyFailed."""
        plan, limits = self._plan, self._limits
        try:
            self._producer = Producer(
                client_config(
                    plan.target.bootstrap_servers,
                    plan.target.properties,
                    transactional_id=plan.unit.kafka_name,
                    transaction_timeout_ms=limits.transaction_timeout_ms,
                    # The consumer's batch is what makes batches; waiting for more only adds latency.
                    linger_ms=2,
                    message_max_bytes=_LARGEST_RECORD_BYTES,
                    queue_buffering_max_messages=limits.batch_records * 2,
                    queue_buffering_max_kbytes=_PRODUCER_QUEUE_KBYTES,
                )
            )
            self._producer.init_transactions(_INIT_SECONDS)
        except (KafkaException, ValueError) as error:
            raise copy_failed(f"{self._where}: opening transactions on {plan.target.name}", error) from error
        if not still_holds_lease():
            raise CopyFailed(f"{self._where}: the lease went to another holder", fenced=True)
        try:
            self._group_member = Consumer(
                client_config(
                    plan.target.bootstrap_servers,
                    plan.target.properties,
                    group_id=plan.unit.kafka_name,
                    enable_auto_commit=False,
                )
            )
            self._admin = AdminClient(client_config(plan.target.bootstrap_servers, plan.target.properties))
            self._consumer = Consumer(
                client_config(
                    plan.source.bootstrap_servers,
                    plan.source.properties,
                    group_id=plan.unit.kafka_name,
                    isolation_level="read_committed",
                    enable_auto_commit=False,
                    # Tells when a partition's end is reached: behind it may be only control records.
                    enable_partition_eof=True,
                    # Never jump silently: a position outside the log is an error that we report.
                    auto_offset_reset="error",
                    fetch_wait_max_ms=limits.fetch_wait_max_ms,
                    queued_max_messages_kbytes=limits.fetch_buffer_kbytes,
                    fetch_message_max_bytes=limits.fetch_buffer_kbytes * 1024 // 4,
                    check_crcs=True,
                )
            )
        except (KafkaException, ValueError) as error:
            raise copy_failed(f"{self._where}: opening clients", error) from error
        self.update(plan.streams)

    def update(self, streams: Iterable[StreamOnEdge]) -> None:
        """Take up new streams and let go of removed ones, without a break for the others. Raises CopyFailed."""
        wanted = {row.stream: row for row in streams}
        gone = [row for name, row in self._streams.items() if wanted.get(name) != row]
        new = [row for name, row in wanted.items() if self._streams.get(name) != row]
        try:
            if gone:
                self._commit_skipped()
                self._let_go([(row.source_topic, p) for row in gone for p in row.partitions])
            if new:
                self._take_up(new)
        except (KafkaException, MetadataInvalid) as error:
            raise copy_failed(f"{self._where}: reading positions", error) from error
        self._streams = wanted

    def _let_go(self, places: list[tuple[str, int]]) -> None:
        dropped = {place: self._progress.pop(place) for place in places}
        assigned = [TopicPartition(*place) for place, progress in dropped.items() if not progress.parked]
        if assigned:
            self._consumer.incremental_unassign(assigned)
        for place in places:
            self.troubles.pop(place, None)

    def _take_up(self, streams: Iterable[StreamOnEdge]) -> None:
        on_target = [(row.target_topic, p) for row in streams for p in row.partitions]
        own = positions.read_own(self._group_member, on_target, _REQUEST_SECONDS)
        covered = positions.read_covered(self._admin, self._plan.inbound_groups, on_target, _REQUEST_SECONDS)
        start: list[TopicPartition] = []
        for row in streams:
            identity = origin.stream_id(row.stream)
            for partition in row.partitions:
                key = (row.target_topic, partition)
                held = own.get(key)
                # A topic made anew begins at offset 0 again: the old one's position means nothing in it.
                offset = held.offset if held and held.mark.incarnation == row.incarnation else None
                edge = PartitionEdge(
                    self._plan.rule,
                    stream=identity,
                    partition=partition,
                    incarnation=row.incarnation,
                    seen=held.mark.seen if held and offset is not None else {},
                    passed=held.mark.passed if held else {},
                    covered=covered.get(key, {}),
                )
                self._progress[row.source_topic, partition] = _Progress(edge, row.target_topic, offset)
                first = OFFSET_BEGINNING if offset is None else offset
                start.append(TopicPartition(row.source_topic, partition, first))
        self._consumer.incremental_assign(start)

    def copy_batch(self, wait_seconds: float) -> int:
        """Wait for records, copy those there in one transaction; how many were read. Raises CopyFailed."""
        try:
            messages = self._consumer.consume(1, wait_seconds)
            if messages:
                # Whatever else has been fetched by now, without waiting for more.
                messages += self._consumer.consume(self._limits.batch_records - 1, 0)
            for message in messages:
                self._take(message)
            if self._in_transaction:
                self._commit()
            elif time.monotonic() - self._last_commit > _SKIPPED_COMMIT_SECONDS:
                self._commit_skipped()
        except (KafkaException, MetadataInvalid) as error:
            raise copy_failed(f"{self._where}: copying", error) from error
        return len(messages)

    def _take(self, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        progress = self._progress.get((topic, partition))
        if progress is None:
            return  # fetched before its stream was let go
        error = message.error()
        if error is not None:
            self._take_error((topic, partition), offset, error)
            return
        headers = progress.edge.copy(offset, message.headers())  # type: ignore[arg-type]
        progress.position = offset + 1
        progress.dirty = True
        if headers is None:
            self.totals.skipped_records += 1
            return
        if not self._in_transaction:
            self._producer.begin_transaction()  # type: ignore[union-attr]
            self._in_transaction = True
        value, key = message.value(), message.key()
        self._produce(progress.target_topic, partition, value, key, message.timestamp()[1], headers)
        self.totals.copied_records += 1
        self.totals.copied_bytes += len(value or b"") + len(key or b"")

    def _produce(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int,
        headers: list[origin.Header],
    ) -> None:
        producer = self._producer
        assert producer is not None
        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    timestamp=timestamp_ms,
                    headers=headers,  # type: ignore[arg-type]
                )
            except BufferError:
                # The queue is the memory bound: wait until the target has taken some.
                producer.poll(0.05)
            else:
                return

    def _take_error(self, place: tuple[str, int], offset: int, error: KafkaError) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._progress[place].position = offset
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._take_jump(place)
        elif error.code() in _TOPIC_GONE:
            self._park(place, f"{place[0]}/{place[1]} on {self._plan.source.name}: {error.str()}")
        elif not error.retriable():
            raise KafkaException(error)

    def _take_jump(self, place: tuple[str, int]) -> None:
        """The position is outside the log: tell exactly what is lost, then go on where the log begins."""
        progress, partition = self._progress[place], TopicPartition(*place)
        position = progress.position or 0
        low, high = self._consumer.get_watermark_offsets(partition, _REQUEST_SECONDS)
        name = f"{place[0]}/{place[1]} on {self._plan.source.name}"
        if position < low:
            self.troubles[place] = f"{name}: offsets {position} to {low - 1} were gone before they could be copied"
            progress.position = low
            # A partition in this state cannot be sought in: it must be assigned anew.
            self._consumer.incremental_unassign([partition])
            self._consumer.incremental_assign([TopicPartition(*place, low)])
        else:
            self._park(place, f"{name}: the log ends at {high}, before the position {position}: its tail was lost")

    def _park(self, place: tuple[str, int], trouble: str) -> None:
        """Let a partition be, so that its neighbours go on; the next plan or session takes it up again."""
        self.troubles[place] = trouble
        self._consumer.incremental_unassign([TopicPartition(*place)])
        self._progress[place].parked = True

    def _commit(self) -> None:
        producer = self._producer
        assert producer is not None
        moved = [(key, progress) for key, progress in self._progress.items() if progress.dirty]
        offsets = [
            TopicPartition(progress.target_topic, partition, progress.position or 0, progress.edge.metadata())
            for (_, partition), progress in moved
        ]
        member = self._group_member.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, member, _REQUEST_SECONDS)
        producer.commit_transaction(self._limits.transaction_timeout_ms / 1000)
        self._in_transaction = False
        self._last_commit = time.monotonic()
        for _, progress in moved:
            progress.dirty = False

    def _commit_skipped(self) -> None:
        """Save how far records that need no copy were read, so that a restart does not read them again."""
        self._last_commit = time.monotonic()
        if any(progress.dirty for progress in self._progress.values()):
            self._producer.begin_transaction()  # type: ignore[union-attr]
            self._in_transaction = True
            self._commit()

    def lag_records(self) -> int | None:
        """Offsets between the positions and the source's ends, as far as the last fetches know them."""
        total = 0
        for (topic, partition), progress in self._progress.items():
            if progress.parked:
                continue
            _, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
            if high < 0 or progress.position is None:
                return None
            total += max(0, high - progress.position)
        return total

    def unreadable_flags(self) -> int:
        """Records whose flags could not be read and were taken for 0."""
        return sum(progress.edge.unreadable_flags for progress in self._progress.values())

    def close(self) -> None:
        """Give everything back; an open transaction is aborted, by the target if not by us."""
        producer, self._producer = self._producer, None
        if producer is not None and self._in_transaction:
            # If this fails, the next session's init_transactions aborts it.
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(2.0)
        for name in ("_consumer", "_group_member"):
            client: Consumer | None = self.__dict__.pop(name, None)
            if client is not None:
                client.close()
