"""Reader of some partitions of a topic from explicit offsets, which joins no group and commits nothing.

Memory: librdkafka fetches again only when its queue is empty (`queued.min.messages` is 1), so the queue holds
about one answer of each broker. Its own limit in kilobytes counts keys and values, but not headers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, kafka_error, sentence
from backend.kafka.base.probe import ConnectionReasons
from backend.kafka.search.record_search import LogRange

GROUP = "_treeline.messages"  # names the reader for access rules; nothing is ever committed for it
_CHUNK_RECORDS = 10_000
_RETRY_SECONDS = 0.1
# A topic that a broker no longer reports counts as deleted after this time, not after librdkafka's 30 s.
_PROPAGATION_MS = 5_000
_NO_ANSWER = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
# librdkafka reports a topic that is gone to the callback of connection errors, not in place of a message.
_GONE = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
# A broker learns of a new topic or leader slightly later than the client that caused it.
_TRANSIENT = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._TRANSPORT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


@dataclass(frozen=True)
class TopicPlace:
    """Partitions of a topic on one cluster; `properties` holds references to secrets, never the secrets."""

    bootstrap_servers: str
    properties: Mapping[str, str]
    topic: str
    partitions: tuple[int, ...]


class TimeOver(KafkaCallFailed):
    """The time that a reader was allowed is over."""


class TopicReader:
    """Reader of committed records, used by one thread.

    Raises KafkaCallFailed, and ClusterUnreachable for a secret that cannot be read or a forbidden address.
    """

    def __init__(
        self,
        place: TopicPlace,
        seconds: float,
        *,
        wait_ms: int,
        partition_bytes: int,
        response_bytes: int,
        queue_kbytes: int,
    ) -> None:
        """Open the reader without connecting; `seconds` are allowed until `allow` sets another deadline.

        A broker without new records answers after `wait_ms`. An answer has at most `response_bytes`, of each
        partition at most `partition_bytes`, unless a single batch of records is larger.
        """
        self._place = place
        self._reasons = ConnectionReasons()
        self._gone: KafkaError | None = None
        self.allow(seconds)
        config = client_config(place.bootstrap_servers, place.properties, error_cb=self._hear_error)
        reader = {
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # Reading elsewhere than at the wanted offset would skip records without a word.
            "auto.offset.reset": "error",
            "topic.metadata.propagation.max.ms": _PROPAGATION_MS,
            "fetch.wait.max.ms": wait_ms,
            "fetch.message.max.bytes": partition_bytes,
            "fetch.max.bytes": response_bytes,
            # By default, librdkafka does not fetch for a whole second after its queue was full.
            "fetch.queue.backoff.ms": 1,
            "queued.min.messages": 1,
            "queued.max.messages.kbytes": queue_kbytes,
        }
        try:
            self._consumer = Consumer({**config, **reader})
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error

    def _hear_error(self, error: KafkaError) -> None:
        if error.code() in _GONE:
            self._gone = error
        else:
            self._reasons(error)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def allow(self, seconds: float) -> None:
        """Set the deadline of what follows."""
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds until the deadline. Raises TimeOver after it."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeOver(self._reasons.last or f"no answer within {self._seconds:g} s")
        return left

    def ranges(self) -> dict[int, LogRange]:
        """Return the readable offsets of each partition."""
        lows = self.offsets(OFFSET_BEGINNING, self._place.partitions)
        highs = self.offsets(OFFSET_END, self._place.partitions)
        return {partition: LogRange(low, highs[partition]) for partition, low in lows.items()}

    def offsets(self, timestamp_ms: int, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first offset of each partition with this timestamp or a later one; negative if there is none.

        The timestamps OFFSET_BEGINNING and OFFSET_END stand for the first offset and the end of what is readable.
        """
        found: dict[int, int] = {}
        while wanted := [partition for partition in partitions if partition not in found]:
            failure: KafkaError | None = None
            places = [TopicPartition(self._place.topic, partition, timestamp_ms) for partition in wanted]
            try:
                answers = self._consumer.offsets_for_times(places, self.left())
            except KafkaException as error:
                answers, failure = [], kafka_error(error)
            for answer in answers:
                if answer.error is None:
                    found[answer.partition] = answer.offset
                else:
                    failure = answer.error
            if failure is not None:
                self._wait_for_leader(failure)
        return found

    def _wait_for_leader(self, failure: KafkaError) -> None:
        is_last = time.monotonic() + _RETRY_SECONDS > self._deadline
        if is_last or failure.code() not in _TRANSIENT:
            self._consumer.poll(0)  # hands over the errors of connections
            raise self._failed(failure)
        time.sleep(_RETRY_SECONDS)

    def end_seen(self, partition: int) -> int:
        """Return the end of a log as of the last answer, open transactions included; negative if unknown."""
        place = TopicPartition(self._place.topic, partition)
        with _failures():
            return int(self._consumer.get_watermark_offsets(place, cached=True)[1])

    def begin(self, positions: Mapping[int, int]) -> None:
        """Start reading partitions at offsets."""
        places = [TopicPartition(self._place.topic, *position) for position in positions.items()]
        if places:
            with _failures():
                self._consumer.incremental_assign(places)

    def stop(self, partitions: Iterable[int]) -> None:
        """Stop reading partitions; what was fetched of them and not returned by `read` is discarded."""
        places = [TopicPartition(self._place.topic, partition) for partition in partitions]
        if places:
            with _failures():
                self._consumer.incremental_unassign(places)

    def read(self, wait_seconds: float) -> list[Message]:
        """Wait for one record, then return what else was fetched, in log order per partition.

        Where the end of a log was reached, a message has an error, and its offset is that end.
        """
        with _failures():
            # Wait for one record only: a call for many waits until it has that many.
            messages = self._consumer.consume(1, wait_seconds)
            if messages:
                messages += self._consumer.consume(_CHUNK_RECORDS, 0)
        if self._gone is not None:
            raise self._failed(self._gone)
        return [each for each in messages if (failure := each.error()) is None or self._is_usable(failure)]

    def _is_usable(self, failure: KafkaError) -> bool:
        if failure.code() == KafkaError._PARTITION_EOF:
            return True
        # librdkafka asks for the coordinator of the group's name all the same; no right on a group is needed.
        if failure.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return False
        if failure.fatal() or not failure.retriable():
            raise self._failed(failure)
        return False

    def _failed(self, failure: KafkaError) -> KafkaCallFailed:
        if failure.code() in _NO_ANSWER and self._reasons.last:
            return KafkaCallFailed(self._reasons.last)
        return KafkaCallFailed(str(failure.str()), failure.code())


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise KafkaCallFailed(sentence(error)) from error
