"""Reading half of a copy session: partitions of the source's topics, each with its position and its troubles.

A partition that cannot be read (its topic is not known to the cluster yet, its tail was lost) is parked and
retried, so that its neighbours continue. librdkafka would wait for minutes, without an error, for a topic that was
unknown when it was assigned; therefore only topics of the cluster's metadata are assigned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from backend.kafka.copy.epochs import UNKNOWN_EPOCH, first_born_after
from backend.kafka.logs.listed_offsets import listed_offsets

Place = tuple[str, int]
"""(Topic on the source, partition)."""

_REQUEST_SECONDS = 10.0
_PARK_SECONDS = 1.0
_ANSWER_SECONDS = 3.0
_METADATA_SECONDS = 10
_AGAIN_SECONDS = 0.002
_OUTSIDE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION})
_UNREADABLE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
_OF_A_PARTITION = _OUTSIDE | _UNREADABLE | {KafkaError._PARTITION_EOF}


class SourcePartition:
    """Reading position of a partition; `position` is the next offset, None before the first answer."""

    __slots__ = ("leader_epoch", "parked_until", "position")

    def __init__(self, position: int | None, leader_epoch: int | None = None) -> None:
        self.position = position
        self.leader_epoch = UNKNOWN_EPOCH if leader_epoch is None else leader_epoch
        """Leader epoch under which the record before the position was written."""
        self.parked_until: float | None = 0.0

    @property
    def is_assigned(self) -> bool:
        """Tell whether the consumer reads the partition, or waits for its records."""
        return self.parked_until is None


class Source:
    """Consumer that is assigned partitions one by one and never joins a group; used by one thread."""

    def __init__(
        self,
        cluster: str,
        config: Mapping[str, object],
        lost: Callable[[Place, int, int, str], None],
        truncated: Callable[[Place, int, int], None],
    ) -> None:
        """Create the consumer.

        `lost` is called for every range of offsets (place, first, last, in words) that was gone before it could be
        read; reading continues after the range once the call returns. `truncated` is called for ranges (place,
        first, last) that were truncated after they had been read, their offsets being assigned again; the
        partition stops there."""
        self._lost, self._truncated = lost, truncated
        self.troubles: dict[Place, str] = {}
        """Troubles of single partitions, in words."""
        self._cluster = cluster
        self._partitions: dict[Place, SourcePartition] = {}
        # Assigned, but not fetched yet: place -> when to try another way.
        self._unanswered: dict[Place, float] = {}
        # Requested while nothing is read.
        self._asked_ends: dict[Place, int] = {}
        self._asked_starts: dict[Place, int] = {}
        self._config = config
        self.consumer = Consumer(
            {
                **config,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                # Reports when a partition's end is reached: only control records may follow.
                "enable.partition.eof": True,
                # librdkafka retries only after 5 minutes for a leader that it could not find.
                "topic.metadata.refresh.interval.ms": _METADATA_SECONDS * 1000,
                # Never jump silently: a position outside the log is an error that we report.
                "auto.offset.reset": "error",
            }
        )

    def add(self, partitions: Mapping[Place, SourcePartition]) -> None:
        """Start reading partitions, from their beginning where the position is None."""
        self._partitions.update(partitions)
        self.take_up_parked()

    def note_leader_epochs(self, places: Iterable[Place]) -> None:
        """Read the leader epochs under which the last records of these partitions were written."""
        for row in self.consumer.position([TopicPartition(*place) for place in places]):
            if row.error is None and row.leader_epoch is not None:
                self._partitions[row.topic, row.partition].leader_epoch = row.leader_epoch

    def remove(self, places: Iterable[Place]) -> None:
        """Stop reading these partitions."""
        dropped = {place: self._partitions.pop(place) for place in places}
        assigned = [TopicPartition(*place) for place, one in dropped.items() if one.is_assigned]
        if assigned:
            self.consumer.incremental_unassign(assigned)
        for place in dropped:
            self.troubles.pop(place, None)
            self._unanswered.pop(place, None)

    def read(self, most: int, wait_seconds: float) -> list[Message]:
        """Wait for one message, then take what else has been fetched. Some messages are errors, see `failed`."""
        self.reading()
        messages = self.consumer.consume(1, wait_seconds)
        if messages:
            messages += self.consumer.consume(most - 1, 0)
        return messages

    def reading(self) -> None:
        """Discard ends that were requested while nothing was read: they are outdated from now on."""
        self._asked_ends.clear()
        self._asked_starts.clear()

    def hold(self, place: Place, trouble: str | None = None) -> None:
        """Pause a partition until `release`; its records from the position on are then read again.

        `trouble` is reported in the meantime, if given.
        """
        one = self._partitions[place]
        if one.position is not None:
            # Unknown once the partition is unassigned; that of a later record does as well.
            self.note_leader_epochs([place])
        self.consumer.incremental_unassign([TopicPartition(*place)])
        self._unanswered.pop(place, None)
        if trouble is not None:
            self._tell(place, trouble)
        one.parked_until = math.inf

    def release(self, place: Place) -> None:
        """Resume a paused partition, with the next call of `take_up_parked`."""
        self._partitions[place].parked_until = 0.0

    def healed(self, place: Place) -> None:
        """Clear the trouble of a partition, because a record arrived."""
        self.troubles.pop(place, None)

    def failed(self, place: Place, offset: int | None, error: KafkaError) -> None:
        """Handle a message that is an error. Raises KafkaException if the whole session cannot continue.

        `offset` is the end of the partition if the error reports it; other errors may have none.
        """
        if not self._partitions[place].is_assigned and error.code() in _OF_A_PARTITION:
            # It was queued before the partition was unassigned (seen with librdkafka 2.16).
            return
        if error.code() == KafkaError._PARTITION_EOF:
            self._partitions[place].position = offset
            self.healed(place)
        elif error.code() in _OUTSIDE:
            self._jump(place)
        elif error.code() in _UNREADABLE:
            self.consumer.incremental_unassign([TopicPartition(*place)])
            self._unanswered.pop(place, None)
            self._park(place, str(error.str()))
        elif not error.retriable():
            raise KafkaException(error)

    def _jump(self, place: Place) -> None:
        """Handle a position outside the log: report exactly what is lost, then continue where the log begins."""
        one, partition = self._partitions[place], TopicPartition(*place)
        position = one.position or 0
        low, high = self.consumer.get_watermark_offsets(partition, _REQUEST_SECONDS)
        # A seek is impossible in this state: the partition must be assigned again.
        self.consumer.incremental_unassign([partition])
        self._unanswered.pop(place, None)
        if position < low:
            self._lost(
                place, position, low - 1, f"offsets {position} to {low - 1} were gone before they were read"
            )
            one.position = low
            self._assign_anew(place, low)
            return
        cut = first_born_after(self._config, place, (low, min(high, position)), one.leader_epoch)
        if cut == position:
            # Nothing that was read is gone: the epoch was one that the broker has forgotten.
            self._assign_anew(place, position)
            return
        self._tell(
            place,
            f"its log was truncated at {cut}, before the position {position}; it waits until that is recorded (an "
            "internal topic until it is deleted: it is re-created)",
        )
        # Continuing would skip the records that took the offsets: the plan has to tell them apart first.
        one.parked_until = math.inf
        self._truncated(place, cut, position - 1)

    def _assign_anew(self, place: Place, position: int) -> None:
        self.consumer.incremental_assign([TopicPartition(*place, position)])
        self._unanswered[place] = time.monotonic() + _ANSWER_SECONDS

    def _park(self, place: Place, trouble: str) -> None:
        self._tell(place, trouble)
        self._partitions[place].parked_until = time.monotonic() + _PARK_SECONDS

    def _tell(self, place: Place, trouble: str) -> None:
        self.troubles[place] = f"{place[0]}/{place[1]} on {self._cluster}: {trouble}"

    def take_up_parked(self) -> None:
        """Retry parked partitions that are due. Raises KafkaException."""
        now = time.monotonic()
        if self._unanswered:
            self._check_answers(now)
        due = {
            place: one
            for place, one in self._partitions.items()
            if one.parked_until is not None and one.parked_until <= now
        }
        if not due:
            return
        known = self._known_partitions({topic for topic, _ in due})
        assigned: list[TopicPartition] = []
        for place, one in due.items():
            if place in known:
                one.parked_until = None
                first = OFFSET_BEGINNING if one.position is None else one.position
                assigned.append(TopicPartition(*place, first, leader_epoch=one.leader_epoch))
                self._unanswered[place] = now + _ANSWER_SECONDS
            else:
                self._park(place, "does not exist, or is not known to the cluster yet")
        if assigned:
            self.consumer.incremental_assign(assigned)
            deadline = time.monotonic() + _ANSWER_SECONDS
            for where in assigned:
                self._check_epoch(where, deadline)

    def _check_epoch(self, where: TopicPartition, deadline: float) -> None:
        """Have the broker check whether the log was truncated before a position and has grown since.

        librdkafka (2.16) checks by itself only when it learns of a newer epoch while it fetches. If it knew that
        epoch before, it skips the records without an error. A seek always checks. After a fetch has already
        failed, at a position outside the log, no seek is possible any more: then we check ourselves.
        """
        if where.offset <= 0 or where.leader_epoch is None:
            return
        while True:
            try:
                self.consumer.seek(where)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:
                    raise
                if time.monotonic() > deadline:
                    self._jump((where.topic, where.partition))
                    return
                # Fetching starts a moment after the assignment.
                time.sleep(_AGAIN_SECONDS)
            else:
                return

    def _check_answers(self, now: float) -> None:
        """Reassign partitions without any fetch: seen, without an error, after topics were created under load."""
        for place, deadline in list(self._unanswered.items()):
            if self._end(place) >= 0:
                del self._unanswered[place]
            elif deadline < now:
                del self._unanswered[place]
                self.consumer.incremental_unassign([TopicPartition(*place)])
                self._park(place, f"no answer to fetches within {_ANSWER_SECONDS:g} s")

    def end(self, place: Place) -> int:
        """Return the end of a partition as last fetched or requested; negative if unknown."""
        return max(self._end(place), self._asked_ends.get(place, -1))

    def _end(self, place: Place) -> int:
        """Return the end known by the last fetch; negative before the first."""
        _, high = self.consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
        return int(high)

    def _known_partitions(self, topics: set[str]) -> set[Place]:
        # A single topic is requested by name; for more, one answer with all topics is cheaper.
        one = next(iter(topics)) if len(topics) == 1 else None
        answer = (
            self.consumer.list_topics(one, _REQUEST_SECONDS)
            if one
            else self.consumer.list_topics(timeout=_REQUEST_SECONDS)
        )
        return {
            (name, partition)
            for name in topics & answer.topics.keys()
            for partition, found in answer.topics[name].partitions.items()
            if found.error is None and found.leader >= 0
        }

    def ask_ends(self, admin: AdminClient, timeout_seconds: float) -> None:
        """Request the partitions' ends while nothing is read: fetched ends are outdated then."""
        places = [place for place, one in self._partitions.items() if one.is_assigned]
        self._asked_ends.update(_ask(admin, places, OffsetSpec.latest(), timeout_seconds))  # type: ignore[no-untyped-call]
        unread = [place for place in places if self._partitions[place].position is None]
        self._asked_starts.update(_ask(admin, unread, OffsetSpec.earliest(), timeout_seconds))  # type: ignore[no-untyped-call]

    def lags(self) -> Iterator[tuple[Place, int | None, int]]:
        """Yield each position's lag to the end, and the end; the lag is None where either is unknown."""
        for place, one in self._partitions.items():
            position = self._asked_starts.get(place) if one.position is None else one.position
            end = self.end(place)
            unknown = not one.is_assigned or position is None or end < 0
            yield place, None if unknown else max(0, end - (position or 0)), end

    def first_offset(self, place: Place) -> int | None:
        """Return a partition's first offset now; None if the cluster does not know it. Raises KafkaException."""
        try:
            low, _ = self.consumer.get_watermark_offsets(TopicPartition(*place), _REQUEST_SECONDS)
        except KafkaException as error:
            if error.args[0].code() in _UNREADABLE:
                return None
            raise
        return int(low)

    def close(self) -> None:
        """Close the connections."""
        self.consumer.close()


def _ask(
    admin: AdminClient, places: Iterable[Place], which: OffsetSpec, timeout_seconds: float
) -> Iterator[tuple[Place, int]]:
    """Yield an offset of each partition that answers."""
    wanted = {TopicPartition(*place): which for place in places}
    if not wanted:
        return
    (told,) = listed_offsets(admin, [wanted], timeout_seconds)
    for place, offset in told.items():
        # A partition that does not answer keeps its known value: nothing depends on it.
        if isinstance(offset, int):
            yield (place.topic, place.partition), offset
