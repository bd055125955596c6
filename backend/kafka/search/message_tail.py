"""A live tail of a topic's new messages, which may continue where an earlier one was."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import OFFSET_END, Message

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search.message_reading import LEAST_PARTITION_BYTES, Select, Selected
from backend.kafka.search.topic_identity import TopicIdentity
from backend.kafka.search.topic_reader import TopicPlace, TopicReader

MOST_BEHIND = 10_000
"""Records of a partition that a tail may be behind before it skips to the end."""
_WAIT_MS = 500
_LEAST_RESPONSE_BYTES = 1_000_000  # librdkafka allows no less
_SECONDS = 10.0
_CHECK_SECONDS = 1.0


class Tail:
    """Reader of what is written to a topic from now on, used by one thread; `queue_kbytes` bounds its memory.

    Raises TopicReplaced if the topic was created anew: nothing of the new one is returned. Raises KafkaCallFailed,
    and ClusterUnreachable for a secret that cannot be read or a forbidden address. A cluster that is away for a
    while is no failure.
    """

    def __init__(
        self,
        place: TopicPlace,
        select: Select,
        queue_kbytes: int = 1024,
        *,
        after: Mapping[int, int] | None = None,
        topic_id: str | None = None,
    ) -> None:
        """Begin at the present ends, or where an earlier tail was: `after` has its `positions`.

        Partitions that are new since then are read from their beginnings. `topic_id` is the topic's id where the
        caller knows it; otherwise the topic that is there now is followed.
        """
        self._select = select
        self._check_at = 0.0
        self.skipped = 0
        """Number of offsets that were skipped, since reading did not keep up with writing."""
        self.is_truncated = False
        """A log ends before where the earlier tail was, so that its end is where this one begins."""
        self._identity = TopicIdentity(place, _SECONDS, topic_id)
        self._reader = TopicReader(
            place,
            _SECONDS,
            wait_ms=_WAIT_MS,
            partition_bytes=max(LEAST_PARTITION_BYTES, queue_kbytes * 1024 // len(place.partitions)),
            response_bytes=max(_LEAST_RESPONSE_BYTES, queue_kbytes * 1024),
            queue_kbytes=queue_kbytes,
        )
        try:
            if after is None:
                self._positions = self._reader.offsets(OFFSET_END, place.partitions)
            else:
                self._positions = self._continued(after)
            self._identity.check()
        except KafkaCallFailed:
            self.close()
            raise
        self._reader.begin(self._positions)

    @property
    def positions(self) -> dict[int, int]:
        """Return the next offset of each partition."""
        return dict(self._positions)

    def _continued(self, after: Mapping[int, int]) -> dict[int, int]:
        found = {}
        for partition, there in self._reader.ranges().items():
            wanted = after.get(partition, there.low)
            self.is_truncated |= wanted > there.high
            self.skipped += max(0, there.low - wanted)
            found[partition] = min(max(wanted, there.low), there.high)
        return found

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._identity.close()

    def read(self, wait_seconds: float) -> list[Selected]:
        """Return selected new messages, in log order per partition; wait at most so long for the first one."""
        deadline = time.monotonic() + wait_seconds
        while True:
            new: list[Message] = []
            for message in self._fetched(max(0.0, deadline - time.monotonic())):
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                if message.error() is None:
                    new.append(message)
                    offset += 1
                self._positions[partition] = offset
            found = self._select(new) if new else []
            if found:
                self._identity.check()
            self._skip()
            if found or time.monotonic() >= deadline:
                return found

    def _fetched(self, wait_seconds: float) -> list[Message]:
        try:
            return self._reader.read(wait_seconds)
        except KafkaCallFailed:
            self._identity.check()  # an offset that a new log does not have says less than that the log is new
            raise

    def _skip(self) -> None:
        """Go to the ends of the partitions in which too many records have not been read."""
        late = [
            partition
            for partition, position in self._positions.items()
            if self._reader.end_seen(partition) - position > MOST_BEHIND
        ]
        if not late or time.monotonic() < self._check_at:
            return
        # The ends seen include open transactions, so these partitions may have nothing to be skipped, for long.
        self._check_at = time.monotonic() + _CHECK_SECONDS
        self._reader.allow(_SECONDS)
        for partition, end in self._reader.offsets(OFFSET_END, late).items():
            behind = end - self._positions[partition]
            if behind > MOST_BEHIND:
                self._reader.stop([partition])
                self._reader.begin({partition: end})
                self._positions[partition] = end
                self.skipped += behind
